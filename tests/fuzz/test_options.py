"""Every option of every command with values at random: an answer, or one line and exit code 2.

The options are read from the commands themselves, so a new one is tried as soon as it exists. What
a command reads is there afterwards as it was, whatever was named as its output.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given, strategies as st

from kdey.cli.__main__ import COMMANDS, kdey
from tests.cli.cases import rows, run, without, write

from .profiles import fuzzed

#: Texts that are no number, no name and no path, or hardly one.
TEXTS = (
    *("", " ", ",", "=", "a=", "=1", "a=b=c", "-", "--", "x", "nan", "inf", "-inf", "1e400", "-1"),
    *("0", "1", "2", "0.5", "1.5", "-0.0", "99999999999999999999", "1" * 5000, "٣", "1_0", "0x10"),
    *("None", "True", "[]", "[[1]]", "{}", "{'a': 1}", "()", "'", '"', "\\", "\n", "\udc80", "_"),
    *("ä", "a,b", "a,,b", "kind", "length", "colour", "shop", "day", "kind,kind", "good", "bad"),
    *("1d", "0d", "1w", "99999999999999999999y", "%", "../x", "[" * 300, "-" * 3000 + "1"),
)
#: Settings of methods and classifiers.
SETTINGS = (
    *("bandwidth=0.1", "bandwidth=x", "bandwidth=[0.1]", "bandwidth=-1", "bandwidth=1e-300"),
    *("bandwidth=1e300", "cv=1", "cv=2", "cv=0", "cv=None", "cv=[]", "cv={}", "cv=99999999999999"),
    *("n_bins=1", "n_bins=x", "n_bins=2.5", "n_bins=(2,3)", "kernel=x", "kernel=aitchison"),
    *("calibration=bcts", "calibration=1", "random_state=x", "random_state=-1", "n_jobs=0"),
    *("n_jobs=x", "device=cuda", "device=x", "device=1", "classifier=x", "classifier=None"),
    *("max_iter=1", "max_iter=-1", "max_iter=x", "C=1e300", "C=-1", "C=[]", "solver=x"),
    *("penalty=x", "class_weight=balanced", "class_weight={}", "class_weight={'good': 2}"),
    *("class_weight={'good': -1}", "n_estimators=0", "n_estimators=1", "n_neighbors=0"),
    *("shrinkage=2", "tune_metric=x", "tune_bag_size=0", "n_points=1", "n_points=0", "verbose=9"),
    *("bandwidth=0.1,0.2", "bandwidth=", "classifier.C=1,x", "classifier.x=1", "__class__=1"),
)
#: Options whose good values may take long: here they have small or impossible ones.
COSTLY = ("0", "1", "3", "-1", "x", "", "1.5", "99999999999999999999", "nan")
FEW = ("--bags", "3", "--bag-size", "5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with tables and a model, which is the current one."""
    place = tmp_path_factory.mktemp("options")
    write(place / "l.csv", without(rows(40), "shop", "day"))
    write(place / "n.csv", without(rows(40, seed=1), "kind"))
    (place / "empty").write_bytes(b"")
    (place / "s.csv").write_text("id,0,1\n0,0.5,0.5\n1,1,0\n")
    (place / "c.toml").write_text('method = "cc"\n')
    fit = ("--label", "kind", "--method", "pacc", "-o", place / "m.kdey")
    assert run("fit", place / "l.csv", *fit).exit_code == 0
    (place / "link.csv").symlink_to("n.csv")
    (place / "link.kdey").symlink_to("m.kdey")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.delenv("KDEY_DATA", raising=False)
        yield place


#: Files that commands read, and other ways to them.
INPUTS = ("l.csv", "n.csv", "m.kdey", "s.csv", "c.toml")
PATHS = (
    *("./l.csv", "../{here}/n.csv", "link.csv", "link.kdey", "h.parquet", "x.html"),
    *("l.csv", "n.csv", "m.kdey", "empty", "c.toml", ".", "none", "none/x.csv", "x.csv", "x.kdey"),
    *("x.parquet", "x.json", "x.xlsx", "/dev/null", "", "-", "\udc80", "x" * 300),
)
#: Names of options and arguments that are paths.
PATH_NAMES = (
    "table",
    "model",
    "output",
    "results",
    "out",
    "history",
    "page",
    "more",
    "next_rows",
)
#: Arguments and options with which a command does its work, and quickly.
BASES: dict[str, tuple[str, ...]] = {
    "fit": ("l.csv", "--label", "kind", "--method", "pacc", "-o", "o.kdey"),
    "estimate": ("m.kdey", "n.csv"),
    "report": ("m.kdey", "n.csv", "-o", "o.html"),
    "compare": ("m.kdey", "n.csv", "--by", "shop", "--no-check-fit"),
    "monitor": ("m.kdey", "n.csv", "--history", "h.parquet", "--period", "1", "--no-check-fit"),
    "audit": ("l.csv", "--decided", "kind", "--human", "kind"),
    "inspect": ("m.kdey",),
    "evaluate": ("l.csv", "--label", "kind", "--methods", "cc", *FEW),
    "check": ("l.csv", "--label", "kind"),
}
#: Commands that take long whatever they are given, and what ends them early.
ENDED = {
    "demo": ("--bags", "x"),
}


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            inner = f"{path} {name}".strip()
            if isinstance(command, click.Group):
                yield from leaves(command, inner)
            else:
                yield inner, command


ALL = dict(leaves(kdey))


def test_every_command_is_tried() -> None:
    assert set(ALL) == set(BASES) | set(ENDED)
    assert {name.split()[0] for name in ALL} == set(COMMANDS)


@pytest.mark.parametrize("name", BASES)
def test_the_base_is_answered(folder: Path, name: str) -> None:
    """Else all that is drawn around it would be refused for the same reason."""
    done = run(*name.split(), *BASES[name])
    assert done.exit_code == 0, done.output


def values(option: click.Parameter) -> st.SearchStrategy[str]:
    """Return values of one option or argument, good ones and others."""
    kinds: list[st.SearchStrategy[str]] = [st.sampled_from(TEXTS)]
    if isinstance(option.type, click.Choice):
        kinds.append(st.sampled_from([str(choice) for choice in option.type.choices]))
    if option.name in ("bags", "bag_size", "jobs", "seed", "seeds", "min_size"):
        return st.sampled_from(COSTLY)
    if option.name in ("options", "classifier_options", "grid"):
        kinds.append(st.sampled_from(SETTINGS))
    if isinstance(option.type, click.Path) or option.name in PATH_NAMES:
        kinds.append(st.sampled_from([path.replace("{here}", Path.cwd().name) for path in PATHS]))
    return st.one_of(kinds)


@st.composite
def lines(draw: Any, name: str) -> list[str]:
    """Draw a command line: one that works, with some options added and one argument changed."""
    command, base = ALL[name], list(BASES.get(name, ENDED.get(name, ())))
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    options = [param for param in command.params if isinstance(param, click.Option)]
    if arguments and draw(st.integers(0, 3)) == 0:
        base[draw(st.integers(0, len(arguments) - 1))] = draw(values(arguments[0]))
    if base and draw(st.integers(0, 9)) == 0:
        base.pop(draw(st.integers(0, len(base) - 1)))
    added: list[str] = []
    for option in draw(st.lists(st.sampled_from(options), min_size=1, max_size=3)):
        if option.name == "debug":
            continue  # asks for the traceback
        flag = draw(st.sampled_from([*option.opts, *option.secondary_opts]))
        added += [flag] if option.is_flag else [flag, draw(values(option))]
    return [*name.split(), *base, *added, *(ENDED.get(name, ()))]


def check(arguments: list[str]) -> None:
    """Fail unless a command ends with a documented code, says why it refused, and spares inputs."""
    held = {path: path.read_bytes() for path in map(Path, INPUTS)}
    read = {Path(text).resolve() for text in takewhile(lambda t: t[:1] != "-", arguments)}
    done = run(*arguments)
    said = f"{arguments}: {done.exit_code} {done.output[-800:]} {done.exception!r}"
    changed = [path for path, data in held.items() if path.read_bytes() != data]
    for path in changed:  # an output may take the place of a table that this command does not read
        path.write_bytes(held[path])
    assert not read & {path.resolve() for path in changed}, said
    assert done.exception is None or isinstance(done.exception, SystemExit), said
    assert "Traceback" not in done.output, said
    finds = ("check", "data")
    found = arguments[0] in finds or "--fail-on-misfit" in arguments
    assert done.exit_code in ((0, 1, 2) if found else (0, 2)), said
    if done.exit_code == 2:
        assert "Error: " in done.stderr, said


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ALL)
@fuzzed(8)
@given(data=st.data())
def test_options(folder: Path, name: str, data: st.DataObject) -> None:
    check(data.draw(lines(name)))
