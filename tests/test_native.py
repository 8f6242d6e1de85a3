"""The native loader: which library is taken, what is said when there is none."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kdey import native

BUILT = Path(native.__file__).with_name("_kdey.bin").exists()
needs_library = pytest.mark.skipif(not BUILT, reason="the native core is not built")

HEADER = Path(native.__file__).parents[1] / "native" / "kdey.h"

#: Asks three times; prints whether the core is there and how many warnings were given.
ASK = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from kdey import native
    answers = {native.available() for _ in range(3)}
    told = [w for w in caught if issubclass(w.category, native.NativeMissingWarning)]
print(answers, len(told), *(w.message for w in told))
"""


def ask(choice, code=ASK):
    environment = {key: value for key, value in os.environ.items() if key != "KDEY_NATIVE"}
    environment["PYTHONPATH"] = str(Path(native.__file__).parents[1])
    if choice is not None:
        environment["KDEY_NATIVE"] = choice
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def load(monkeypatch, choice):
    """Return what a first call of ``library`` gives, past the cache."""
    monkeypatch.setenv("KDEY_NATIVE", choice)
    return native.library.__wrapped__()


@pytest.mark.smoke
@needs_library
def test_library_is_found_without_a_word():
    assert ask(None).stdout.strip() == "{True} 0"


def test_zero_forces_numpy_without_a_word():
    assert ask("0").stdout.strip() == "{False} 0"


def test_missing_library_is_told_once(tmp_path):
    said = ask(str(tmp_path / "none.bin")).stdout
    assert said.startswith("{False} 1 ")
    assert "none.bin" in said
    assert "KDEY_NATIVE=0" in said


def test_missing_library_is_built_anew_by_pip(tmp_path):
    # pip keeps the wheel that it built without a compiler, and would install that again.
    assert "--force-reinstall --no-cache-dir" in ask(str(tmp_path / "none.bin")).stdout


def test_library_of_another_system_is_told_once_and_not_used(tmp_path):
    other = tmp_path / "other.bin"
    other.write_bytes(b"MZ, a library of another system")
    done = ask(str(other))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{{False}} 1 kdey's native core at {other} cannot be loaded (")
    assert "KDEY_NATIVE=0" in done.stdout


@needs_library
def test_other_abi_is_refused(monkeypatch):
    monkeypatch.setattr(native, "ABI_VERSION", 999)
    with pytest.raises(ImportError, match=r"has ABI version \d+, this kdey needs 999"):
        load(monkeypatch, "")


@needs_library
def test_path_of_a_library_is_taken(monkeypatch, tmp_path):
    other = tmp_path / "other.bin"
    other.write_bytes(Path(native.__file__).with_name("_kdey.bin").read_bytes())
    handle = load(monkeypatch, str(other))
    assert handle._name == str(other)
    assert handle.kdey_abi_version() == native.ABI_VERSION


@needs_library
@pytest.mark.parametrize(("wanted", "limit"), [("baseline", 0), ("avx2", 1)])
def test_instruction_set_can_be_lowered(wanted, limit):
    code = f"import os; os.environ['KDEY_ISA'] = '{wanted}'\n"
    code += "from kdey import native; print(native.instruction_set())"
    assert native.INSTRUCTION_SETS.index(ask(None, code).stdout.strip()) <= limit


def test_numpy_path_has_no_instruction_set():
    code = "from kdey import native; print(native.instruction_set())"
    assert ask("0", code).stdout.strip() == "None"


def test_calls_without_a_library_are_an_error(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    with pytest.raises(RuntimeError, match="native core is not available"):
        native.call("kdey_anything")


@pytest.mark.parametrize(
    ("status", "error"),
    [(-1, MemoryError), (-2, ValueError), (-3, RuntimeError), (-77, RuntimeError)],
)
def test_failures_are_raised_by_kind(monkeypatch, status, error):
    class Library:
        def kdey_fails(self, *arguments):
            return status

    monkeypatch.setattr(native, "library", Library)
    with pytest.raises(error, match=f"kdey_fails failed with status {status}"):
        native.call("kdey_fails", 1)


def test_arrays_are_passed_by_address(monkeypatch):
    passed = []

    class Library:
        def kdey_takes(self, *arguments):
            passed.extend(arguments)
            return 0

    monkeypatch.setattr(native, "library", Library)
    array, fixed = np.arange(3.0), np.arange(3.0)
    fixed.flags.writeable = False
    native.call("kdey_takes", array, fixed, array[:0], 7, 0.5, None)
    assert passed == [array.ctypes.data, fixed.ctypes.data, array.ctypes.data, 7, 0.5, None]
    with pytest.raises(ValueError, match="C-contiguous"):
        native.call("kdey_takes", np.ones((4, 4))[:, ::2])


@pytest.mark.skipif(not HEADER.exists(), reason="the sources are not beside the package")
def test_arguments_are_declared_as_in_the_header():
    text = re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))
    declared = {}
    for name, arguments in re.findall(r"KDEY_API \w+ (kdey_\w+)\(([^)]*)\);", text):
        types = ["*" if "*" in part else part.split()[0] for part in arguments.split(",") if part]
        if types != ["void"]:
            declared[name] = "".join({"*": "p", "int64_t": "i", "double": "d"}[t] for t in types)
    assert declared == native._ARGUMENTS


@needs_library
def test_arguments_of_another_kind_are_refused():
    if not native.available():
        pytest.skip("the NumPy path is forced")
    with pytest.raises(ctypes.ArgumentError):
        native.call("kdey_check_posteriors", np.ones((1, 1)), 1.5, 1, 1, np.empty(2))
