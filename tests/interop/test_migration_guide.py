"""docs/migrating-from-quapy.md: its code runs, its names exist, its claims hold."""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from tests.documents.pages import Page
from tests.documents.running import run_page

PAGE = Page("docs/migrating-from-quapy.md")
GUIDE = PAGE.text
OURS = (
    *("kdey", "kdey.metrics", "kdey.datasets", "kdey.interop", "kdey.bayes", "kdey.plots"),
    *("kdey.evaluation", "kdey.diagnostics", "kdey.matching", "kdey.tuning", "kdey.intervals"),
)
THEIRS = (
    *(f"quapy.method.{name}" for name in ("aggregative", "non_aggregative", "meta", "base")),
    *("quapy.method.confidence", "quapy.method._bayesian", "quapy.protocol", "quapy.error"),
    *("quapy.evaluation", "quapy.model_selection", "quapy.data.datasets", "quapy.plot"),
)


def pairs() -> list[tuple[list[str], list[str]]]:
    """Return the names in the first and second column of every row of the name tables."""
    sections = GUIDE.split("\n## ")
    rows = [
        line.split("|")[1:3]
        for section in sections
        if section.startswith(("Quantifiers", "Protocols", "Errors", "Evaluation", "Plots"))
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return [(re.findall(r"`([^`]*)`", a), re.findall(r"`([^`]*)`", b)) for a, b in rows]


def quapy() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            "quapy", reason="QuaPy is not installed: see docs/lab/release.md"
        )


def has(modules: tuple[str, ...], name: str) -> bool:
    """Return whether a name is in one of the modules, or in the module that it names itself."""
    module, _, attribute = name.rpartition(".")
    places = (module,) if module else modules
    return any(hasattr(import_module(place), attribute) for place in places)


def test_there_is_something_to_test() -> None:
    assert len(PAGE.code) >= 5
    assert len(pairs()) >= 35


def test_our_names_exist() -> None:
    for _, names in pairs():
        for name in names:
            if name.startswith('"'):
                assert kdey.metrics.get_metric(name.strip('"')).name == name.strip('"')
            else:
                assert has(OURS, name), name


def test_their_names_exist() -> None:
    quapy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missing = [name for names, _ in pairs() for name in names if not has(THEIRS, name)]
    assert not missing


def test_blocks_run_in_order(tmp_path: Path) -> None:
    """Those with QuaPy run where it is installed; both kinds end with the same name."""
    session = run_page(PAGE, tmp_path)
    assert 0 < session.names["mae"] < 0.05
    assert ("qp" in session.names) == (find_spec("quapy") is not None)


def test_errors_of_one_row_are_the_same_numbers() -> None:
    qp = quapy()
    rng = np.random.default_rng(0)
    true, estimated = rng.dirichlet(np.ones(4), size=(2, 30))
    true[0] = [0.5, 0.5, 0.0, 0.0]
    compared = 0
    for theirs, ours in pairs():
        if not ours or not ours[0].startswith('"'):
            continue
        function = getattr(qp.error, theirs[0])
        metric = kdey.metrics.get_metric(ours[0].strip('"'))
        smooths = "eps" in signature(function).parameters
        extra = {"eps": 1 / 200} if smooths else {}
        pairs_of_bags = list(zip(true, estimated, strict=True))
        if metric.needs_bag_size and not smooths:  # theirs leaves the smoothing to the caller
            pairs_of_bags = [((t + 1 / 200) / 1.02, (e + 1 / 200) / 1.02) for t, e in pairs_of_bags]
        expected = [function(t, e, **extra) for t, e in pairs_of_bags]
        np.testing.assert_allclose(metric(true, estimated, bag_size=100), expected, rtol=1e-9)
        compared += 1
    assert compared == 10
