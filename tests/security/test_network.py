"""No connection is opened unless data are fetched: sockets are taken away, and the work goes on."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "kdey"
#: Modules by which Python, or a library that kdey uses, reaches other machines.
CONNECTING = {
    "socket",
    "ssl",
    "http",
    "urllib",
    "ftplib",
    "smtplib",
    "requests",
    "urllib3",
    "pooch",
    "fsspec",
}
#: The files that may import them: the first takes the place of the user's cache from pooch, the
#: second reads a table at an address of the user's.
ALLOWED = {"datasets/registry.py", "tables/sources.py"}

#: The main entries, in a process that cannot make an internet socket.
WORK = """
import socket, sys

def refused(*given, **named):
    raise AssertionError("a connection was opened")

class Refusing(socket.socket):
    def __init__(self, family=socket.AF_INET, *given, **named):
        if family != getattr(socket, "AF_UNIX", None):
            refused()
        super().__init__(family, *given, **named)

socket.socket = Refusing
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refused

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
import kdey

X, y = load_iris(return_X_y=True)
q = kdey.KDEyML(LogisticRegression(max_iter=300), cv=3, random_state=0).fit(X, y)
estimate = q.estimate(X[:90])
kdey.check_fit(q, X[:90], n_null=20, random_state=0)
kdey.evaluate(q, X, y, kdey.APP(5, 20), verbose=False)
kdey.GridSearchQ(
    kdey.DM(LogisticRegression(max_iter=300), cv=3), {"n_bins": [4, 5]}, protocol=kdey.APP(5, 20)
).fit(X, y)
kdey.save(q, sys.argv[1] + "/m.kdey"), kdey.load(sys.argv[1] + "/m.kdey")
unchecked = kdey.Options(check_fit=False)
kdey.write_report(sys.argv[1] + "/r.html", estimate, quantifier=q, options=unchecked)
from kdey.datasets import load_dataset
load_dataset("iris")
print("done")
"""


def test_the_main_entries_open_no_connection(tmp_path: Path) -> None:
    pytest.importorskip("skops"), pytest.importorskip("jinja2")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(tmp_path)], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("done\n")


def test_the_guard_itself_refuses(tmp_path: Path) -> None:
    reaching = WORK.split("import numpy")[0] + "import urllib.request\n"
    reaching += "urllib.request.urlopen('http://127.0.0.1:9/')\n"
    done = subprocess.run(
        [sys.executable, "-c", reaching, str(tmp_path)], capture_output=True, text=True
    )
    assert "a connection was opened" in done.stderr


def test_fetching_is_what_asks_for_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same guard stops a fetch: it is there that connections are made."""
    pytest.importorskip("pooch"), pytest.importorskip("requests")
    from experiments.download import fetch

    asked: list[Any] = []

    def refused(*given: Any, **_: Any) -> Any:
        asked.append(given)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(OSError, match="could not be downloaded"):
        fetch("dry-bean", cache=tmp_path, retries=0)
    assert asked


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_no_other_file_can_connect() -> None:
    files = {path.relative_to(SOURCE).as_posix(): imported(path) for path in SOURCE.rglob("*.py")}
    assert len(files) > 120
    assert {name for name, found in files.items() if found & CONNECTING} == ALLOWED


def test_what_is_downloaded_comes_over_https() -> None:
    from kdey.datasets.registry import entries

    urls = {url for entry in entries() for url in entry.urls}
    assert len(urls) > 20
    assert all(url.startswith("https://") for url in urls)
