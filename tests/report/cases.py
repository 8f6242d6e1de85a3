"""Small fitted quantifiers and bags that reports are made of."""

from __future__ import annotations

import datetime as dt
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kdey import KDEyML
from kdey.report import Report, make_report

HOSTILE = "<script>alert('class')</script>"
HOSTILE_KEY = '"><img src=x onerror=alert(1)>'


def posteriors(labels: Any, k: int, rng: np.random.Generator) -> Any:
    """Return posteriors that lean to the right class, shape (m, k)."""
    raw = rng.gamma(0.6, size=(len(labels), k))
    raw[np.arange(len(labels)), labels] += rng.gamma(2.0, size=len(labels))
    return raw / raw.sum(axis=1, keepdims=True)


def names(k: int, hostile: bool = True) -> Any:
    """Return k labels, the first of them hostile."""
    class_names = np.array([f"class {number:02d}" for number in range(k)], dtype=object)
    if hostile:
        class_names[0] = HOSTILE
    return class_names


@cache
def fitted(k: int, n: int = 600, hostile: bool = True, **params: Any) -> Any:
    rng = np.random.default_rng(k)
    labels = np.arange(n) % k
    q = KDEyML(**{"bandwidth": 0.1, "kernel": "gaussian", **params})
    return q.fit_posteriors(posteriors(labels, k, rng), names(k, hostile)[labels])


def group_rows(keys: list[str], values: list[tuple[Any, ...]], labels: Any) -> list[dict[str, Any]]:
    """Return made-up rows, one per group and class."""
    rng = np.random.default_rng(0)
    rows = []
    for value in values:
        shares = rng.dirichlet(np.ones(len(labels)))
        rows += [
            {
                **dict(zip(keys, value, strict=True)),
                "class": str(label),
                "n": 120,
                "estimate": share,
                "low": max(share - 0.05, 0.0),
                "high": min(share + 0.05, 1.0),
                "naive": 1 / len(labels),
                "training": 1 / len(labels),
                "p_value": 0.4,
                "status": "no problem found",
            }
            for label, share in zip(labels, shares, strict=True)
        ]
    return rows


def weeks(n: int) -> list[dt.date]:
    return [dt.date(2026, 1, 5) + dt.timedelta(7 * number) for number in range(n)]


@cache
def full_report(k: int, kind: str) -> Report:
    """Return a report with everything in it: ``kind`` is "groups" or "time"."""
    q = fitted(k)
    rng = np.random.default_rng(1)
    bag = rng.choice(k, 200, p=rng.dirichlet(np.ones(k)))
    estimate = q.estimate_posteriors(posteriors(bag, k, rng))
    if kind == "groups":
        keys: dict[str, Any] = {"by": ["region"]}
        values: list[tuple[Any, ...]] = [("north",), ("south",), (HOSTILE_KEY,)]
    else:
        keys = {"by": ["region"], "time": "week"}
        values = [(place, week) for place in ("north", HOSTILE_KEY) for week in weeks(5)]
    columns = [*keys["by"], *([keys["time"]] if "time" in keys else [])]
    return make_report(
        estimate,
        group_rows(columns, values, q.classes_),
        quantifier=q,
        title=f"Report <b>{k}</b>",
        truth=np.bincount(bag, minlength=k) / len(bag),
        **keys,
    )


def told(report: Report) -> str:
    """Return all sentences before the technical part, with names of rows before findings."""
    page = report.page()
    findings = [": ".join([*[", ".join(f.links)] * bool(f.links), f.text]) for f in page.findings]
    facts = [sentence for sentences in page.facts.values() for sentence in sentences]
    words = [sentence for section in page.sections for sentence in section.words]
    return " ".join([page.headline, *findings, *facts, *words]).replace("\u00a0", " ")


def relabelled(report: Report, labels: list[str], keys: list[str]) -> Report:
    """Return the report with other names of classes and of groups."""
    assert report.estimate is not None
    assert report.groups is not None
    names_of = dict(zip(report.groups.classes, labels, strict=True))
    places = dict.fromkeys(group.keys[0] for group in report.groups.groups)
    key_of = dict(zip(places, keys, strict=False))
    groups = tuple(
        replace(
            group,
            keys=(key_of[group.keys[0]], *group.keys[1:]),
            rows=tuple(replace(row, name=names_of[row.name]) for row in group.rows),
        )
        for group in report.groups.groups
    )
    q = copy(report.quantifier)
    q.model_ = replace(q.model_, classes=np.array(labels))
    return replace(
        report,
        estimate=replace(report.estimate, classes=q.classes_),
        groups=replace(report.groups, groups=groups),
        quantifier=q,
    )
