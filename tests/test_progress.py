"""Progress on a pseudo terminal, and its silence elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import numpy as np
import pytest

from kdey import _display
from kdey._display import progress

pty = pytest.importorskip("pty")

LOOP = """
import sys, time
{before}
from kdey._display import progress
for i in progress([1, 2, 3, 4], "fits"{options}):
    time.sleep(0.06)
    print("result", i, flush=True)
"""
NO_RICH = "sys.modules['rich'] = sys.modules['rich.console'] = None"


def _on_terminal(code, **environment):
    """Run code with standard error on a pseudo terminal; return what was written to out, err."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=follower,
        stdin=subprocess.DEVNULL,
        env=env,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    out = child.communicate(timeout=30)[0]
    assert child.returncode == 0, shown.decode()
    return out.decode(), shown.decode()


@pytest.mark.parametrize("before", ["", NO_RICH], ids=["rich", "plain"])
def test_terminals_see_count_rate_and_time_left(before):
    out, shown = _on_terminal(LOOP.format(before=before, options=""))
    assert out == "".join(f"result {i}\n" for i in (1, 2, 3, 4))
    assert "fits" in shown
    assert "4/4" in shown
    assert "/s" in shown
    assert ("s left" if before else "0:00:00") in shown
    assert "result" not in shown


def test_unknown_length_is_counted_without_time_left():
    code = LOOP.format(before=NO_RICH, options="").replace("[1, 2, 3, 4]", "iter([1, 2, 3, 4])")
    shown = _on_terminal(code)[1]
    assert "fits: 4, " in shown
    assert "left" not in shown
    rich = _on_terminal(code.replace(NO_RICH, ""))[1]
    assert "4/?" in rich


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (", enabled=False", {}),
        ("", {"KDEY_PROGRESS": "0"}),
        (", enabled=True", {"KDEY_PROGRESS": "0"}),
        ("", {"TERM": "dumb"}),
    ],
)
def test_silent_when_asked(options, environment):
    out, shown = _on_terminal(LOOP.format(before="", options=options), **environment)
    assert out.count("result") == 4
    assert shown == ""


def test_silent_off_terminals():
    done = subprocess.run(
        [sys.executable, "-c", LOOP.format(before="", options="")], capture_output=True, check=True
    )
    assert done.stderr == b""


def test_silent_progress_does_not_import_rich():
    # scikit-learn itself imports rich where it is installed, so rich is made unimportable.
    code = "import sys; sys.modules['rich'] = None; from kdey._display import progress as p"
    code += "; list(p(3, 'x'))"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_passes_items_through_and_counts():
    shown = progress(iter("abc"), "letters")
    assert list(shown) == ["a", "b", "c"]
    assert shown.done == 3
    assert list(progress(np.int64(3), "numbers")) == [0, 1, 2]
    assert list(progress([], "nothing", enabled=False)) == []


@pytest.mark.parametrize("rich", [True, False])
def test_counting_by_hand(rich, monkeypatch, capsys):
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress(100, "bags", enabled=True) as shown:
        shown.advance(60)
        shown.advance(40)
    assert shown.done == 100
    assert "100/100" in capsys.readouterr().err


def test_display_ends_with_an_error_or_a_break(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(RuntimeError, match="stop"):
        _fail(progress(range(5), "fits", enabled=True))
    assert capsys.readouterr().err.endswith("\n")
    loop = iter(progress(range(5), "fits", enabled=True))
    next(loop)
    next(loop)
    loop.close()
    assert "1/5" in capsys.readouterr().err


def _fail(items):
    for item in items:
        if item == 2:
            raise RuntimeError("stop")


def test_notebooks_are_recognised(monkeypatch, capsys):
    class ZMQInteractiveShell:
        pass

    notebook = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    list(progress(range(2), "fits"))
    assert "2/2" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    list(progress(range(2), "fits"))
    assert capsys.readouterr().err == ""


def test_no_standard_error_is_no_problem(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(progress(2, "fits", enabled=True)) == [0, 1]


def test_bad_arguments():
    with pytest.raises(ValueError, match="enabled must be"):
        progress(3, "fits", enabled="yes")
    with pytest.raises(TypeError):
        progress(2.5, "fits")


def test_a_notebook_without_widgets_is_not_asked_for_them(monkeypatch, capsys):
    """Rich warned that it needs ipywidgets, once for every bar."""
    monkeypatch.setattr(_display, "_in_notebook", lambda: True)
    monkeypatch.setattr(_display.importlib.util, "find_spec", lambda _: None)
    with _display.progress(2, "fits") as shown:
        shown.advance(2)
    assert "fits: 2/2" in capsys.readouterr().err


def test_an_explanation_shows_itself_with_its_lines():
    assert repr(_display.Words("one\ntwo")) == "one\ntwo"
