"""The report on a table: its rows are scored once, and answered as a whole and by group.

The same rows then give the groups over all times, and the comparisons between groups. Python and
the command line make their reports here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kdey.bags import Array
from kdey.diagnostics import FitCheck, NotChecked, full_check, unchecked_reason
from kdey.groups import (
    Comparisons,
    Grouping,
    GroupKeys,
    Request,
    ScoredTable,
    answer,
    compare_scored,
    score,
)
from kdey.intervals import Estimate, Estimates
from kdey.model import Fitted, model_of
from kdey.options import Options
from kdey.report.differences import ShownDifference, differences_of
from kdey.report.page import Report
from kdey.report.shown_groups import (
    ClassRow,
    Group,
    GroupTable,
    groups_in_time,
    number,
    plain_value,
)
from kdey.status import MOST_UNSEEN, TURNED_OFF, UNSEEN_VALUES
from kdey.tables.features import unseen_values_note
from kdey.tables.files import TableError, TableFile


def report_on_table(
    quantifier: Any,
    source: Any,
    asked: Mapping[str, Any],
    options: Options | None,
    against: str | Mapping[str, Any] | None,
    correction: str | None,
    title: str | None,
) -> Report:
    """Return the report on the rows of a table.

    Parameters
    ----------
    quantifier : fitted quantifier
    source : path, open table file, or frame of pandas, polars or pyarrow
    asked : mapping
        Keywords of :func:`kdey.predict_groups`, and ``label``: None, or the name of a column of
        known labels.
    options : Options or None
    against : the other side of comparisons, or None
    correction : {"holm", "fdr"} or None
        Of the p-values of comparisons.
    title : str or None
        None: the name of the table.
    """
    request = Request.of(options=options, **asked)
    if isinstance(source, str | PathLike):
        source = TableFile.open(str(source))
    name, columns = _name_and_columns(source)
    if request.scores is None:
        request = replace(request, scores=_named_after_classes(quantifier, columns))
    if request.label is not None and request.label not in columns:
        raise TableError(f"{name}: no label column {request.label!r}")
    scored = score(quantifier, source, request)
    if not len(scored.rows):
        raise TableError(f"{name}: no row without a missing value")
    work = _Work(quantifier, scored, request)
    compared = (
        None
        if against is None
        else compare_scored(quantifier, scored, request, against, correction)
    )
    heading = f"Shares of classes in {Path(name).name}"
    return Report(
        title or (heading if isinstance(source, TableFile) else "Shares of classes"),
        work.whole(),
        work.groups(compared),
        work.check(),
        quantifier,
        work.truth(),
        work.settings(),
        comparisons=None if compared is None else work.differences(compared),
        total_groups=work.totals(),
    )


def _name_and_columns(source: Any) -> tuple[str, list[str]]:
    """Return what a table is called in messages, and its columns."""
    if isinstance(source, TableFile):
        return source.name, list(source.columns)
    import narwhals as nw

    return "the table", nw.from_native(source, eager_only=True).columns


def _named_after_classes(quantifier: Fitted, columns: Sequence[str]) -> list[str] | None:
    """Return the score columns of a model fitted on scores, where they are named as its classes."""
    model = model_of(quantifier)
    labels = [str(label) for label in model.classes]
    return labels if model.scorer.n_features is None and set(labels) <= set(columns) else None


@dataclass(frozen=True, eq=False)
class _Work:
    """The scored rows of a table, and what a report asks of them.

    Attributes
    ----------
    quantifier : fitted quantifier
    scored : ScoredTable
    request : Request
    """

    quantifier: Fitted
    scored: ScoredTable
    request: Request

    def whole(self) -> Estimate:
        """Return the estimate of the whole table, with a note on values that training lacks."""
        scored = self._by_first_keys(0) if self.scored.keys.names else self.scored
        estimates = answer(self.quantifier, scored, self._unchecked, kept=sys.maxsize)
        estimate = replace(estimates, statuses=None)[0]
        note = unseen_values_note(scored.findings)
        if note is None:
            return estimate
        details = dict(estimate.diagnostics)
        details["notes"] = [*estimate.notes, note]
        if scored.unseen.sum() > MOST_UNSEEN * len(scored.rows):
            details["marks"] = (*details.get("marks", ()), UNSEEN_VALUES)
        return replace(estimate, diagnostics=details)

    def check(self) -> FitCheck | NotChecked:
        """Return the fit check of the whole table, or why there is none."""
        rows, wanted = self.scored.rows, self.request.options.check_fit
        reason = unchecked_reason(self.quantifier) if wanted else TURNED_OFF
        if reason is not None or not rows.on_posteriors:
            return NotChecked(reason or "the rows have no posteriors")
        by_folds = rows.fold_posteriors is not None
        return full_check(
            self.quantifier, rows.checked_posteriors, by_folds=by_folds, hashes=rows.hashes
        )

    def groups(self, compared: Comparisons | None) -> GroupTable | None:
        """Return the groups, as they were compared where they were; None without keys."""
        if not self.scored.keys.names:
            return None
        if compared is not None:
            estimates = compared.estimates
        else:
            estimates = answer(self.quantifier, self.scored, self.request, kept=0)
        return self._shown(self.scored.keys, estimates, self.request.grouping)

    def totals(self) -> GroupTable | None:
        """Return the groups over all times together; None without times or other keys."""
        names = self.request.grouping.by
        if self.request.grouping.time is None or not names:
            return None
        scored = self._by_first_keys(len(names))
        estimates = answer(self.quantifier, scored, self._unchecked, kept=0)
        return self._shown(scored.keys, estimates, Grouping(names))

    @property
    def _unchecked(self) -> Request:
        """The request for coarser groups: the groups are checked, and the page says how."""
        return replace(self.request, options=replace(self.request.options, check_fit=False))

    def _by_first_keys(self, count: int) -> ScoredTable:
        """Return the table by the first of its keys, without the others."""
        scored, keys = self.scored, GroupKeys(self.scored.keys.names[:count])
        values = [key[:count] for key in scored.keys.values]
        numbers = keys.encode_values(values).astype(np.int64)
        first = np.unique(numbers, return_index=True)[1].tolist()
        return scored.regrouped(keys, scored.key_rows[first].select(keys.names), numbers)

    def _shown(self, keys: GroupKeys, estimates: Estimates, grouping: Grouping) -> GroupTable:
        known, training = keys.values, estimates.training_prevalence
        p_value, status = np.asarray(estimates.fit_p_value), estimates.status
        shares = (estimates.estimate, estimates.low, estimates.high, np.asarray(estimates.counted))
        groups = [
            Group(
                tuple(map(plain_value, known[g])),
                int(estimates.size[g]),
                tuple(
                    ClassRow(
                        str(label), *map(number, (*(s[g, code] for s in shares), training[code]))
                    )
                    for code, label in enumerate(estimates.classes)
                ),
                number(p_value[g]),
                status[g],
            )
            for g in keys.order().tolist()
            if estimates.size[g]
        ]
        return GroupTable(
            keys.names,
            grouping.time,
            groups_in_time(groups, keys.names, grouping.time),
            grouping.every,
            self.request.options.confidence,
        )

    def differences(self, compared: Comparisons) -> tuple[ShownDifference, ...]:
        """Return the differences between groups, the clearest first."""
        grouping, keys = self.request.grouping, self.scored.keys
        groups = np.repeat(compared.groups, len(compared.estimates.classes)).tolist()
        columns = {
            **{name: [keys.values[g][i] for g in groups] for i, name in enumerate(keys.names)},
            **{name: list(values) for name, values in compared.columns().items()},
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return differences_of(rows, keys.names, grouping.time, every=grouping.every)

    def truth(self) -> Array | None:
        """Return the share of each class that is shown among known labels."""
        label = self.request.label
        if label is None:
            return None
        counts, classes = self.scored.label_counts, model_of(self.quantifier).classes
        total = sum(counts.values())
        if total == 0:
            raise ValueError(f"label column {label!r} holds no labels")
        shares = [counts.get(name, 0) / total for name in classes.tolist()]
        return np.asarray(self.request.merging(classes).matrix @ shares)

    def settings(self) -> dict[str, str]:
        """Return what the settings on the page say of the rows."""
        facts = {}
        left_out = int(self.scored.missing.sum())
        if left_out:
            facts["Rows left out"] = f"{left_out:,} with a missing value"
        if self.scored.findings:
            facts["Values that training lacks"] = "; ".join(map(str, self.scored.findings))
        return facts
