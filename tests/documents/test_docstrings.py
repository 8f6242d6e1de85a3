"""The examples in docstrings give what they show, and the most used names have one."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import kdey
from kdey.groups import predict_groups
from kdey.metrics import absolute_error
from kdey.significance import nemenyi

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
    *("TrainingPrevalence", "evaluate", "fit_many", "APP", "NPP", "GroupBags", "GridSearchQ"),
    *("check_fit", "identifiability", "plan_bag_size", "adapt_posteriors", "importance_weights"),
    *("save", "difference", "sample_posterior", "make_report", "Bags"),
)


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
    for needed in ("pandas", "jinja2", "skops"):
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
    shown = (kdey.ACC.from_rates, predict_groups, absolute_error, nemenyi)
    assert all(">>> " in (function.__doc__ or "") for function in shown)
