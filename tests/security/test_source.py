"""What the package never does: print, unpickle, evaluate text, start programs, but where named."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kdey"
#: Calls that run what they are given, or read a format that does.
RUNNING = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.execv"),
    *("pickle.load", "pickle.loads", "joblib.load", "dill.loads", "cloudpickle.loads"),
    *("marshal.loads", "shelve.open", "yaml.load", "torch.load", "pandas.read_pickle"),
    *("subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_output"),
}
#: Where one of them stands for a reason.
ALLOWED = {
    (
        "evaluation/contract.py",
        "pickle.loads",
    ),  # a quantifier pickled a line before must survive it
    ("groups/cluster.py", "pickle.loads"),  # processes of the user's own cluster
    ("persistence/__init__.py", "pickle.loads"),  # with use_pickle=True alone
    ("stacking/__init__.py", "pickle.loads"),  # fits in a folder that the user named for them
}


@cache
def called(path: Path) -> list[tuple[str, ast.Call]]:
    """Return the calls in a file, by what is called."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [(ast.unparse(node.func), node) for node in nodes if isinstance(node, ast.Call)]


def test_nothing_runs_what_it_reads() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name, _ in called(path)
        if name in RUNNING
    }
    assert found == ALLOWED


def test_the_library_prints_nothing() -> None:
    """But progress on a terminal (``_display``), and what prints when it is called."""
    library = [path for path in SOURCE.rglob("*.py") if path.parent.name != "cli"]
    printing = {"print", "sys.stdout.write", "sys.stderr.write", "logging.basicConfig"}
    found = {path.name for path in library for name, _ in called(path) if name in printing}
    assert found == {"_display.py", "native.py"}


def test_arrays_are_never_read_with_objects_in_them() -> None:
    for path in SOURCE.rglob("*.py"):
        for name, call in called(path):
            if name in ("np.load", "np.save", "numpy.load"):
                given = {word.arg: ast.unparse(word.value) for word in call.keywords}
                assert given.get("allow_pickle") == "False", path


def test_pages_escape_all_but_their_own_text() -> None:
    """``safe`` in the template: style, script, data with no ``<``, and literals of the template."""
    page = (SOURCE / "report" / "templates" / "report.html").read_text(encoding="utf-8")
    safe = set(re.findall(r"\{\{ ([^}|]+?) \| safe", page))
    literals = {text for text in safe if text[0] == text[-1] and text[0] in "\"'"}
    assert safe - literals == {"style", "script", "e.data()"}
    script = (SOURCE / "report" / "templates" / "script.js").read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_the_checks_run_on_pinned_versions() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert len(pinned) > 40
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in pinned)
    job = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "PIP_CONSTRAINT=" in job
    assert "PIP_BUILD_CONSTRAINT=" in job
