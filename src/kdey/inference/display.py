"""Estimates as text and as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kdey.inference.estimate import Estimate

#: Columns after the class, with the attribute they show.
COLUMNS = (
    ("estimate", "estimate"),
    ("low", "low"),
    ("high", "high"),
    ("counted", "classify_and_count"),
    ("training", "training_prevalence"),
)
TARGETS = {"population": "the bag's population", "bag": "this bag"}


def heading(estimate: Estimate) -> str:
    """Return what the limits are, in one line."""
    level = f"{100 * estimate.confidence:g} %"
    joint = " simultaneous" if estimate.simultaneous else ""
    made = f"{level}{joint} {estimate.method} intervals"
    return f"Prevalence of {TARGETS[estimate.target]}: {estimate.size:,} instances, {made}"


def remarks(estimate: Estimate) -> list[str]:
    """Return what a reader must know beside the numbers."""
    told = [] if estimate.converged else ["the solver did not converge: see gap"]
    told += [str(note) for note in estimate.diagnostics.get("notes", ())]
    fit = estimate.diagnostics.get("fit")
    return told if fit is None else [*told, fit["verdict"]]


def estimate_text(estimate: Estimate) -> str:
    """Return a table of one line per class."""
    names = [str(label) for label in estimate.classes]
    width = max(5, *(len(name) for name in names))
    lines = [heading(estimate), "class".ljust(width) + "".join(f"{n:>10}" for n, _ in COLUMNS)]
    for name, row in zip(names, _rows(estimate), strict=True):
        lines.append(name.ljust(width) + "".join(f"{value:>10}" for value in row))
    return "\n".join([*lines, *(f"({remark})" for remark in remarks(estimate))])


def estimate_html(estimate: Estimate) -> str:
    """Return the same table as HTML, with every label escaped."""
    head = "".join(f"<th>{name}</th>" for name in ("class", *(n for n, _ in COLUMNS)))
    body = "".join(
        f"<tr><th>{escape(str(label))}</th>" + "".join(f"<td>{v}</td>" for v in row) + "</tr>"
        for label, row in zip(estimate.classes, _rows(estimate), strict=True)
    )
    notes = "".join(f"<p>{escape(remark)}</p>" for remark in remarks(estimate))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><p>{escape(heading(estimate))}</p>{table}{notes}</div>"


def _rows(estimate: Estimate) -> list[list[str]]:
    k = len(estimate.classes)
    values = [getattr(estimate, name) for _, name in COLUMNS]
    columns = [np.full(k, np.nan) if v is None else v for v in values]
    return [["-" if np.isnan(c[i]) else f"{c[i]:.4f}" for c in columns] for i in range(k)]
