"""What a manager reads: no word of the library before the technical part, and the figures of it."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kdey import PACC, KDEyML
from kdey.diagnostics import Checks, ColumnFinding, ColumnVerdict, FitVerdict, NotChecked
from kdey.report import Report, group_table, make_report
from kdey.report.words import (
    fit_headline,
    fit_meaning,
    fit_result,
    fit_sentences,
    look_alike_sets,
)

from .cases import full_report, group_rows, names, told, weeks

pytest.importorskip("jinja2")
JARGON = (
    *("posterior", "bandwidth", "kdey", "quantifi", "prevalence", "naive", "p-value"),
    *("p\u2011value", "simplex", "kernel", "densit", "instance", "bag", "classifier", "solver"),
    "label shift",
)


def front(page: str) -> str:
    """Return what stands before the technical part, as text."""
    body = page[page.index("<body") : page.index('<section id="technical"')]
    body = re.sub(r' download="[^"]*" href="[^"]*"', "", body)
    body = re.sub(r"<(style|script).*?</\1>", "", body, flags=re.DOTALL)
    # Attributes that are read aloud count, names of elements do not.
    spoken = re.findall(r'aria-label="([^"]*)"', body)
    return unescape(re.sub(r"<[^>]*>", " ", body) + " ".join(spoken))


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Return reports with everything in them."""
    rows = group_rows(["shop", "week"], [(s, w) for s in "xy" for w in weeks(3)], names(2, False))
    for row, status in zip(
        rows,
        ("poor fit", "too small", "checked one-sided", "not checked (no posteriors)"),
        strict=False,
    ):
        row["status"] = status
    return {
        "groups": full_report(3, "groups"),
        "time": full_report(3, "time"),
        "troubled": make_report(rows, by=["shop"], time="week"),
    }


@pytest.mark.parametrize("kind", ["groups", "time", "troubled"])
def test_no_jargon_before_the_technical_part(reports: dict[str, Report], kind: str) -> None:
    text = front(reports[kind].html()).lower()
    assert "how far can this be trusted?" in text
    assert [word for word in JARGON if word in text] == []


def verdict(**values: Any) -> FitVerdict:
    known = {"p_value": 0.5, "level": 0.01}
    more = {"cross_fitted": True, "size": 100, "n_checked": 100, "n_null": 300}
    return FitVerdict(**{**known, **more, **values})


@pytest.mark.parametrize(
    ("result", "headline", "words"),
    [
        (verdict(), ("good", "No problem found in scores and columns."), "look like a mix of the"),
        (verdict(p_value=0.001), ("bad", "Careful."), "the classes look different from before"),
        (verdict(cross_fitted=False), ("", "Partly checked."), "only a part of what may go wrong"),
        (NotChecked("the method works on features"), ("", "Not checked."), "is not known"),
    ],
)
def test_what_was_checked_is_said_without_jargon(
    result: Any, headline: tuple[str, str], words: str
) -> None:
    columns = ColumnVerdict(0.4, 0.005, 3)
    if isinstance(result, NotChecked):
        columns = result
    checks = Checks(result, columns)
    assert fit_headline(checks) == headline
    assert words in fit_result(checks)
    if checks.rejected:
        unknown = fit_result(replace(checks, unknown_share=0.2))
        assert "At least 20.0 % of the records come from no class as training knew it" in unknown
    sentences = " ".join(fit_sentences(checks))
    assert "Checking means that the records were compared" in sentences
    assert [word for word in JARGON if word in sentences.lower()] == []


def test_a_flagged_column_or_group_is_amber() -> None:
    finding = ColumnFinding("amount", 1e-6, "`amount` is higher than a mix of the classes would be")
    flagged = Checks(verdict(level=0.005), ColumnVerdict(1e-6, 0.005, 3, (finding,)))
    assert fit_headline(flagged) == ("careful", "Careful.")
    assert "“amount” is higher" in fit_result(flagged)
    assert "but columns do" in fit_meaning(verdict(), columns_changed=True)[1]
    fine = Checks(verdict(), ColumnVerdict(0.4, 0.005, 3))
    assert fit_headline(fine, 2) == ("careful", "2 groups need another look.")
    unseen = Checks(verdict(), NotChecked("scores were given, and no columns"))
    assert fit_headline(unseen) == ("", "Only scores were checked.")
    never = NotChecked("only decisions are known", never=True)
    assert fit_headline(Checks(never, never)) == ("", "Cannot be checked.")


def test_labels_outside_the_limits_are_told_at_the_top(reports: dict[str, Report]) -> None:
    report = reports["groups"]
    assert report.rows is not None
    wrong = replace(report, truth=np.array([1.0, 0.0, 0.0]))
    lead = told(wrong)
    assert "Beware: the share of known labels lies outside the interval of" in lead
    right = replace(report, truth=report.estimate.estimate)
    assert "Beware" not in told(right)


def test_groups_alone_say_what_checking_means() -> None:
    rows = group_rows(["shop"], [("x",), ("y",)], ["a", "b"])
    text = front(make_report(rows, by=["shop"]).html())
    assert "Checking means that the records were compared" in text
    assert "All 2 groups were checked in this way" in text


def test_totals_are_those_of_the_table() -> None:
    rows = group_rows(["shop", "week"], [(s, w) for s in "xy" for w in weeks(2)], ["a", "b"])
    totals = group_rows(["shop"], [("x",), ("y",)], ["a", "b"])
    for row in totals:
        row |= {"n": 240, "estimate": 0.123 if row["class"] == "a" else 0.877}
    table: Any = SimpleNamespace(totals=lambda: group_table(totals, ["shop"]))
    report = replace(make_report(rows, by=["shop"], time="week"), table=table)
    assert report.totals is not None
    assert [group.by_class["a"].estimate for group in report.totals.groups] == [0.123, 0.123]
    assert "12.3\u00a0%" in front(report.html())


def test_labels_that_trained_the_model_confirm_nothing() -> None:
    """The page said of the training table that known labels agree."""
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes"], [60, 40])
    table = pd.DataFrame({"x": rng.normal(size=100) + 2.0 * (y == "yes"), "kind": y})
    q = KDEyML(bandwidth=0.1).fit(table[["x"]], y)
    page = make_report(q, table, truth="kind").html()
    assert "Known labels agree" not in page
    assert "its training data" in page
    fewer = make_report(q, table[5:], truth="kind").html()
    assert "only of records that the model was not trained on" in fewer


def test_three_classes_that_look_alike_are_named_together() -> None:
    """Pairs of three such classes are no better known than one of them: only all three are."""
    rng = np.random.default_rng(0)
    labels = np.repeat(range(5), 150)
    scores = np.full((len(labels), 5), 0.01)
    far = labels < 2
    scores[far, labels[far]] = 0.96
    alike = 0.32 + rng.normal(0, 0.03, ((~far).sum(), 3))
    alike[np.arange(len(alike)), labels[~far] - 2] += 0.012
    scores[~far, 2:] = alike
    scores /= scores.sum(axis=1, keepdims=True)
    q = PACC().fit_posteriors(scores, np.array(list("vwxyz"))[labels])
    estimate = q.estimate_posteriors(scores[::3], check_fit=False)
    assert look_alike_sets(estimate) == [[2, 3, 4]]
