"""The examples in docstrings give what they show, and the most used names have one."""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

import kdey
from kdey._display import entries, sections, write_out
from kdey.evaluation import nemenyi
from kdey.groups import predict_groups
from kdey.metrics import absolute_error

PACKAGE = Path(kdey.__file__).parent
MODULES = sorted(
    ".".join(("kdey", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
#: What a newcomer meets first: each shows how it is called.
SHOWN = (
    *("KDEyML", "KDEyHD", "KDEyCS", "KDEyL2", "EMQ", "DIR", "CC", "PCC", "ACC", "PACC"),
    *("DM", "HDy", "DyS", "MM", "HDx", "DMx", "OneVsAll", "Median", "Ensemble"),
    *("TrainingPrevalence", "evaluate", "APP", "NPP", "GridSearchQ"),
    *("check_fit", "identifiability", "plan_bag_size", "adapt_posteriors"),
    *("save", "difference", "sample_posterior", "make_report", "Bags"),
)

#: Rules of numpydoc that every public name obeys: it is described, with its parameters in the order
#: of the signature and described each, its result, its relatives and an example.
RULES = frozenset(
    {"GL08", "GL07", "SS01", "SS02", "PR01", "PR02", "PR03", "PR04", "PR10", "RT01", "YD01"}
    | {"SA01", "SA02", "SA03", "SA04", "EX01"}
)


def documented_by_attributes(name: str) -> bool:
    """Return whether a class is a result whose fields are described as attributes, all of them."""
    described = getattr(kdey, name)
    if not is_dataclass(described):
        return False
    parts = sections(described.__doc__ or "")
    known = {**entries(parts.get("Parameters", "")), **entries(parts.get("Attributes", ""))}
    return all(item.name in known for item in fields(described) if item.init)


@pytest.mark.parametrize("name", kdey.__all__)
def test_docstring_is_complete(name: str) -> None:
    validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")
    broken = [error for error in validate.validate(f"kdey.{name}")["errors"] if error[0] in RULES]
    if documented_by_attributes(name):
        broken = [error for error in broken if error[0] != "PR01"]
    assert broken == []


@pytest.mark.parametrize("name", kdey.__all__)
def test_no_parameter_is_described_elsewhere(name: str) -> None:
    described = entries(sections(getattr(kdey, name).__doc__ or "").get("Parameters", ""))
    for parameter, entry in described.items():
        words = " ".join(entry.splitlines()[1:]).split()
        assert parameter.startswith("**") or words[:1] != ["See"], parameter
        assert words[:2] not in (["As", "in"], ["As", "for"]) or len(words) > 3, parameter


def test_help_of_the_package_is_a_guide_of_one_screen() -> None:
    guide = kdey.__doc__ or ""
    assert len(guide.splitlines()) <= 32
    assert max(map(len, guide.splitlines())) <= 100
    named = set(re.findall(r"[A-Za-z_]+", guide)) & set(kdey.__all__)
    assert {"Quantifier", "predict_groups", "check_fit", "write_report", "save"} <= named


class Family:
    """A base.

    Parameters
    ----------
    low, high : float
        Limits.

    Attributes
    ----------
    fitted_ : bool
    """

    def __init__(self, high: float = 1.0, low: float = 0.0) -> None: ...


class Member(Family):
    """A member.

    Examples
    --------
    >>> 1
    1

    Parameters
    ----------
    seed : int, optional
        Of all draws.
    """

    def __init__(self, high: float = 2.0, seed: int | None = None, size: int = 3) -> None: ...


def test_a_family_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "__module__", "kdey.family")
    monkeypatch.setattr(Member, "__doc__", Member.__doc__)
    write_out(Member, "size : int\n    Of a bag.")
    parts = sections(Member.__doc__ or "")
    assert list(parts) == ["", "Parameters", "Attributes", "Examples"]
    assert parts["Parameters"].splitlines() == [
        "high : float, default=2.0",
        "    Limits.",
        "seed : int, optional",
        "    Of all draws.",
        "size : int, default=3",
        "    Of a bag.",
    ]
    assert parts["Attributes"] == "fitted_ : bool"


def test_the_paper_method_lists_the_parameters_of_its_family() -> None:
    described = entries(sections(kdey.KDEyML.__doc__ or "")["Parameters"])
    assert list(described) == list(inspect.signature(kdey.KDEyML).parameters)
    assert described["bandwidth"].splitlines()[0].endswith("default='auto'")


NUMBER = re.compile(r"(-?\b\d+\.?\d*(?:e[-+]?\d+)?)")


class RoundedNumbers(doctest.OutputChecker):
    """Lets the last decimal shown differ by one: a fit may end on the other side of a half.

    An array is shown to one number of decimals, that of its longest entry.
    """

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Compare words exactly, and numbers to the decimals that the example shows."""
        if super().check_output(want, got, optionflags):
            return True
        shown, printed = (NUMBER.split(text) for text in (want, got))
        if [part.split() for part in shown[::2]] != [part.split() for part in printed[::2]]:
            return False
        decimals = max((len(number.partition(".")[2]) for number in shown[1::2]), default=0)
        unit = 10.0**-decimals if decimals else 0.0
        return all(
            abs(float(a) - float(b)) <= unit * (1 + 1e-9)
            for a, b in zip(shown[1::2], printed[1::2], strict=True)
        )


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("array([0.5, 0.5, 0. ])", "array([0.6, 0.4, 0.1])", True),
        ("array([0.5, 0.5, 0. ])", "array([ 0.5,  0.5, -0. ])", True),
        ("array([0.5, 0.5, 0. ])", "array([0.5, 0.3, 0.2])", False),
        ("array([0.5, 0.5, 0. ])", "array([0.5, 0.5])", False),
        ("   n  share\n0  5    0.3", "   n  share\n0  5    0.2", True),
        ("0.306", "0.308", False),
        ("array([40., 50.])", "array([41., 50.])", False),
        ("array([100, 100])", "array([100, 101])", False),
        ("True", "False", False),
    ],
)
def test_only_the_last_decimal_may_differ(shown: str, printed: str, same: bool) -> None:
    assert RoundedNumbers().check_output(shown + "\n", printed + "\n", 0) is same


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    for needed in ("pandas", "jinja2", "skops", "matplotlib"):
        pytest.importorskip(needed, reason=f"the examples need {needed}")
    runner = doctest.DocTestRunner(checker=RoundedNumbers(), verbose=False)
    for example in doctest.DocTestFinder().find(import_module(name), name):
        runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0


@pytest.mark.parametrize("name", SHOWN)
def test_name_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(kdey, name).__doc__ or "")


def test_methods_and_parts_have_one_too() -> None:
    shown = (
        *(kdey.ACC.from_rates, predict_groups, absolute_error, nemenyi),
        *(kdey.evaluation.fit_many, kdey.diagnostics.importance_weights),
    )
    assert all(">>> " in (function.__doc__ or "") for function in shown)
