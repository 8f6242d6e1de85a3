"""Estimates as people see them: a table of text, and an overview for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import (
    LINE_WIDTH,
    MOST_ROWS,
    Overview,
    bar_column,
    percentages,
    row_names,
    share_decimals,
    shorten,
    text_column,
)
from kdey.bags import Array
from kdey.options import WAYS
from kdey.tables import canonical_text
from kdey.validation import BACKENDS, as_column

if TYPE_CHECKING:
    from kdey.intervals.estimate import Estimate, Estimates


#: Columns of the printed table after the class: heading, and attribute of :class:`Estimate`.
COLUMNS = (
    ("estimate", "estimate"),
    ("low", "low"),
    ("high", "high"),
    ("counted", "classify_and_count"),
    ("training", "training_prevalence"),
)
#: Characters of each of them.
_CELL_WIDTH = 10
TARGET_NAMES = {"population": "the population of the sample", "bag": "this sample"}


def heading(estimate: Estimate) -> str:
    """Return one line that names the target, the size of the bag and the kind of intervals."""
    level = f"{100 * estimate.confidence:g} %"
    joint = " simultaneous" if estimate.simultaneous else ""
    known = estimate.method != "none"
    interval = f"{level}{joint} {estimate.method} intervals" if known else "intervals not known"
    items = "item" if estimate.size == 1 else "items"
    target = TARGET_NAMES[estimate.target]
    return f"Shares in {target}: {estimate.size:,} {items}, {interval}"


def remarks(estimate: Estimate) -> list[str]:
    """Return the remarks that a reader needs beside the numbers."""
    texts = [] if estimate.converged else ["the solver did not converge: see gap"]
    texts += estimate.notes
    return texts if estimate.checks is None else [*texts, *estimate.checks.verdicts]


def estimate_text(estimate: Estimate) -> str:
    """Return a text table with one line per class; long names make columns at the end give way."""
    fixed = 3 * _CELL_WIDTH  # estimate, low and high always stay
    names = [shorten(str(label), LINE_WIDTH - fixed) for label in estimate.classes]
    width = max(5, *(len(name) for name in names))
    shown = COLUMNS[: (LINE_WIDTH - width) // _CELL_WIDTH]
    lines = [heading(estimate), "class".ljust(width) + "".join(f"{n:>10}" for n, _ in shown)]
    for name, row in zip(names, _cells(estimate), strict=True):
        lines.append(name.ljust(width) + "".join(f"{value:>10}" for value in row[: len(shown)]))
    return "\n".join([*lines, *(f"({remark})" for remark in remarks(estimate))])


def estimate_overview(estimate: Estimate) -> Overview:
    """Return the largest share in a sentence, and a table with percentages and bars."""
    decimals = share_decimals(estimate.estimate, estimate.high - estimate.low)
    columns = [
        text_column(title, percentages(_known(estimate, name), decimals), importance=importance)
        for (title, name), importance in zip(COLUMNS, (9, 9, 9, 4, 3), strict=True)
    ]
    bars = bar_column(estimate.estimate, estimate.low, estimate.high)
    return Overview(
        _sentence(estimate, decimals),
        row_names("class", estimate.classes),
        (*columns[:3], bars, *columns[3:]),
        (heading(estimate), *remarks(estimate)),
    )


def _sentence(estimate: Estimate, decimals: int) -> str:
    """Return which class has the largest estimated share, with its interval."""
    top = int(np.argmax(estimate.estimate))
    share = f"{100 * estimate.estimate[top]:.{decimals}f} %"
    if estimate.method == "none":
        interval = "its interval is not known"
    else:
        low, high = 100 * estimate.low[top], 100 * estimate.high[top]
        interval = (
            f"{100 * estimate.confidence:g} % interval {low:.{decimals}f} to {high:.{decimals}f} %"
        )
    where = TARGET_NAMES[estimate.target]
    return (
        f"The largest estimated share in {where} is that of class {estimate.classes[top]}: "
        f"{share} ({interval})."
    )


def estimates_overview(estimates: Estimates) -> Overview:
    """Return the number of bags in a sentence, and a table with one row per bag."""
    n, shown = len(estimates), estimates[:MOST_ROWS]
    kind_of_bag = "bag" if estimates.keys is None else "group"
    sizes = ""
    if n:
        least, most = int(estimates.size.min()), int(estimates.size.max())
        span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        sizes = f" of {span} instances"
    kind = f"{100 * estimates.options.confidence:g} % intervals"
    decimals = share_decimals(shown.estimate)
    # The classes with the largest shares are the last to be left out.
    ranks = np.argsort(np.argsort(shown.estimate.sum(axis=0), kind="stable"), kind="stable")
    columns = [
        text_column(str(label), percentages(shown.estimate[:, i], decimals), importance=rank)
        for i, (label, rank) in enumerate(
            zip(estimates.classes, (ranks - len(ranks)).tolist(), strict=True)
        )
    ]
    sizes_column = text_column("size", [f"{size:,}" for size in shown.size.tolist()], importance=8)
    bags = kind_of_bag if n == 1 else f"{kind_of_bag}s"
    more = [f"and {n - len(shown):,} more {bags}"] if n > len(shown) else []
    return Overview(
        f"Estimated shares of {n:,} {bags}{sizes}; to_frame() has the {kind}.",
        row_names(kind_of_bag, bag_names(shown)),
        (sizes_column, *columns),
        tuple(more),
    )


def bag_names(estimates: Estimates) -> list[str]:
    """Return the keys of groups, or the numbers of bags."""
    if estimates.keys is None or not estimates.keys.columns:
        return [str(number) for number in range(len(estimates))]
    rows = estimates.keys.rows()
    return [", ".join(canonical_text(value) for value in row) for row in rows]


#: Names of the columns beside the keys of groups; a key must have another name.
GROUP_COLUMNS = (
    *("class", "n", "n_missing", "estimate", "low", "high", "classify_and_count"),
    *("training_prevalence", "fit_p_value", "status"),
)
_PER_CLASS = ("estimate", "low", "high", "classify_and_count")
#: Columns that tables of pooled groups have in addition.
POOLED_COLUMNS = ("separate_estimate", "separate_low", "separate_high", "shrinkage")
#: Columns with one number per class: ``label_shift``, ``label_shift_low``, ... of the three ways.
LABELLED_SHARES = tuple(
    f"{way.replace('-', '_')}{end}" for way in WAYS for end in ("", "_low", "_high")
)
#: Columns that a table with labels has beside the others.
LABELLED_COLUMNS = ("n_labels", *LABELLED_SHARES, "label_shift_p_value", "verdict")


def check_key_names(
    names: Sequence[str],
    classes: NDArray[Any] | None = None,
    *,
    labelled: bool = False,
    pooled: bool = False,
) -> None:
    """Raise where a key has the name of a column of a table of groups.

    Parameters
    ----------
    names : names of the key columns
    classes : array of shape (k,), optional
        Of a wide table: one row per group, with ``estimate[c]`` and others for every class c.
    labelled, pooled : bool
        Whether the table has the columns of labels, and of pooled groups.
    """
    taken = {
        *GROUP_COLUMNS,
        *(LABELLED_COLUMNS if labelled else ()),
        *(POOLED_COLUMNS if pooled else ()),
    }
    if classes is not None:
        per_class = (*_PER_CLASS, "training_prevalence", *(LABELLED_SHARES if labelled else ()))
        taken |= {_wide_name(name, c) for name in per_class for c in np.asarray(classes).tolist()}
    refuse_names(names, taken)


def refuse_names(names: Sequence[str], taken: Collection[str]) -> None:
    """Raise where a key has one of the names of the columns of a result."""
    for name in names:
        if name in taken:
            raise ValueError(
                f"key column {name!r} has the name of a column of the result: rename it"
            )


def group_frame(estimates: Estimates, backend: str | None, wide: bool) -> Any:
    """Return the table of groups, as :meth:`Estimates.to_frame` does."""
    import narwhals as nw

    keys = estimates.keys
    columns = (_wide if wide else _long)(_group_columns(estimates), estimates.classes)
    numbers = nw.from_dict(
        {name: as_column(values) for name, values in columns.items()}, backend=keys.implementation
    )
    frame = numbers
    if keys.columns:
        shown = estimates.classes if wide else None
        check_key_names(keys.columns, shown, labelled=estimates.labelled is not None)
        rows = np.repeat(np.arange(len(estimates)), 1 if wide else len(estimates.classes))
        repeated = nw.maybe_reset_index(keys[rows.tolist()])
        frame = nw.concat([repeated, numbers], how="horizontal")
    return in_library(frame, backend)


def in_library(frame: Any, backend: str | None) -> Any:
    """Return a narwhals frame as a frame of a library; None: of its own."""
    if backend is None or frame.implementation.value == backend:
        return frame.to_native()
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    convert = {"pandas": frame.to_pandas, "polars": frame.to_polars, "pyarrow": frame.to_arrow}
    return convert[backend]()


def _group_columns(estimates: Estimates) -> dict[str, Any]:
    """Return the columns beside the keys: one entry per group, or one per group and class."""
    shape = estimates.estimate.shape
    counted, separate = estimates.classify_and_count, estimates.separate
    columns: dict[str, Any] = {
        "n": estimates.size,
        "n_missing": estimates.n_missing,
        "estimate": estimates.estimate,
        "low": estimates.low,
        "high": estimates.high,
        "classify_and_count": np.full(shape, np.nan) if counted is None else counted,
    }
    if separate is not None:
        beside = (separate.estimate, separate.low, separate.high)
        columns |= dict(zip(POOLED_COLUMNS[:3], beside, strict=True))
    columns["training_prevalence"] = np.broadcast_to(estimates.training_prevalence, shape)
    columns["fit_p_value"] = estimates.fit_p_value
    if estimates.shrinkage is not None:
        columns["shrinkage"] = estimates.shrinkage
    columns["status"] = np.array(estimates.statuses, dtype=object)
    return columns | (estimates.labelled or {})


def _long(columns: Mapping[str, Any], classes: NDArray[Any]) -> dict[str, Any]:
    """Return columns with one entry per group and class."""
    k, n = len(classes), len(columns["estimate"])
    long = {
        name: values.ravel() if np.ndim(values) == 2 else np.repeat(values, k)
        for name, values in columns.items()
    }
    return {"class": np.tile(_one_type(classes), n), **long}


def _wide(columns: Mapping[str, Any], classes: NDArray[Any]) -> dict[str, Any]:
    """Return columns with one entry per group, and a column of its own for every class."""
    wide: dict[str, Any] = {}
    for name, values in columns.items():
        if np.ndim(values) == 2:
            named = enumerate(classes.tolist())
            wide |= {_wide_name(name, label): values[:, i] for i, label in named}
        else:
            wide[name] = values
    return wide


def _one_type(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels of several types, as merged classes may have, as texts: a column has one."""
    if len({type(label) for label in classes.tolist()}) == 1:
        return classes
    return np.array([canonical_text(label) for label in classes.tolist()])


def _wide_name(name: str, label: Any) -> str:
    return f"{name}[{label}]"


def _known(estimate: Estimate, name: str) -> Array:
    """Return a column of the table, NaN where it is not known."""
    values = getattr(estimate, name)
    unknown = np.full(len(estimate.classes), np.nan)
    return unknown if values is None else np.asarray(values, dtype=np.float64)


def _cells(estimate: Estimate) -> list[list[str]]:
    """Return the formatted numbers of each class, k lists; "-" where a number is unknown."""
    k = len(estimate.classes)
    columns = [_known(estimate, name) for _, name in COLUMNS]
    return [["-" if np.isnan(c[i]) else f"{c[i]:.4f}" for c in columns] for i in range(k)]
