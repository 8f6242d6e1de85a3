"""The examples in docstrings give what they show, and the most used names have one."""

from __future__ import annotations

import doctest
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


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    for needed in ("pandas", "jinja2", "skops"):
        pytest.importorskip(needed, reason=f"the examples need {needed}")
    found = doctest.testmod(import_module(name), verbose=False)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", SHOWN)
def test_name_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(kdey, name).__doc__ or "")


def test_methods_and_parts_have_one_too() -> None:
    shown = (kdey.ACC.from_rates, predict_groups, absolute_error, nemenyi)
    assert all(">>> " in (function.__doc__ or "") for function in shown)
