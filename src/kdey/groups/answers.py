"""The answers for groups: numbers and a status for each, and the table that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.fitted import FittedQuantifier
from kdey.groups.keys import GroupKeys
from kdey.groups.labelled_answers import LABELLED_COLUMNS, PER_CLASS, LabelledAnswers
from kdey.intervals import Estimate, Estimates
from kdey.intervals.merging import Merging
from kdey.intervals.region import UnknownUncertainty
from kdey.options import Options
from kdey.status import (
    EMPTY,
    FEW_LABELS,
    MISSING_VALUES,
    MOST_UNSEEN,
    NO_LABELS,
    NOT_CONVERGED,
    POOR_FIT,
    TOO_SMALL,
    TURNED_OFF,
    UNSEEN_VALUES,
    join_status,
    not_checked,
    status_parts,
)
from kdey.tables.canonical import canonical_text

if TYPE_CHECKING:
    from kdey.groups.request import GroupSettings
    from kdey.groups.sums import SummedEstimates
    from kdey.tables.columns import Frame

#: Names of the columns beside the keys; a key must have another name.
COLUMNS = (
    *("class", "n", "n_missing", "estimate", "low", "high", "classify_and_count"),
    *("training_prevalence", "fit_p_value", "status"),
)
_PER_CLASS = ("estimate", "low", "high", "classify_and_count")
#: Columns that tables of pooled groups have in addition.
_SEPARATE = ("separate_estimate", "separate_low", "separate_high")
BORROWING_COLUMNS = (*_SEPARATE, "shrinkage")


@dataclass(frozen=True, eq=False)
class SeparateAnswers:
    """Estimates of groups that do not borrow strength, beside those that do.

    Attributes
    ----------
    estimate, low, high : arrays of shape (G, k)
    """

    estimate: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class GroupAnswers:
    """Estimates of G groups.

    Attributes
    ----------
    classes : array of shape (k,)
    sizes : int64 array of shape (G,)
        Usable instances of each group.
    missing : int64 array of shape (G,)
        Instances left out because a score or feature was missing.
    estimate, low, high : arrays of shape (G, k)
        NaN where a group has no usable instance.
    classify_and_count : array of shape (G, k)
        Share of the classifier's decisions, the naive answer; NaN where there is no classifier.
    training_prevalence : array of shape (k,)
    fit_p_value : array of shape (G,)
        NaN where the fit was not checked.
    status : list of G texts
        "ok", or parts separated by "; ", in the words of :mod:`kdey.status`: "empty", "too small"
        (and therefore not checked), "poor fit", "missing values", "unseen values" (in more than
        one of twenty instances), "not converged", "few labels" (of a class in training), "checked
        one-sided", "not checked (why)". "ok" is said only of groups that were checked in full.
    labelled : LabelledAnswers or None
        What labels say, in a table that has some.
    separate : SeparateAnswers or None
        Where groups are pooled, what each gives by itself; ``estimate``, ``low`` and ``high`` are
        then the pooled ones.
    shrinkage : array of shape (G,) or None
        How far each group leans on the others, from 0 to 1; None unless groups are shrunk.
    """

    classes: NDArray[Any]
    sizes: Indices
    missing: Indices
    estimate: Array
    low: Array
    high: Array
    classify_and_count: Array
    training_prevalence: Array
    fit_p_value: Array
    status: list[str]
    labelled: LabelledAnswers | None = None
    separate: SeparateAnswers | None = None
    shrinkage: Array | None = None

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.sizes)

    def with_empty(self, n: int) -> GroupAnswers:
        """Return the answers with n more groups behind the others, which are empty."""
        nothing = np.full((n, len(self.classes)), np.nan)
        zeros = np.zeros(n, dtype=np.int64)
        return replace(
            self,
            estimate=np.vstack([self.estimate, nothing]),
            low=np.vstack([self.low, nothing]),
            high=np.vstack([self.high, nothing]),
            classify_and_count=np.vstack([self.classify_and_count, nothing]),
            sizes=np.concatenate([self.sizes, zeros]),
            missing=np.concatenate([self.missing, zeros]),
            fit_p_value=np.concatenate([self.fit_p_value, np.full(n, np.nan)]),
            status=[*self.status, *[EMPTY] * n],
        )

    @property
    def misfits(self) -> int:
        """Number of groups that the training classes do not fit."""
        return sum(POOR_FIT in status_parts(status) for status in self.status)

    def columns(self, order: Indices | None = None, *, wide: bool = False) -> dict[str, Any]:
        """Return named columns: one row per group and class, or per group where ``wide``.

        Parameters
        ----------
        order : int array, optional
            The order of the groups; by default that of their numbers.
        wide : bool
            One row per group, with ``estimate[c]``, ``low[c]``, ... for every class c.
        """
        rows = np.arange(len(self)) if order is None else order
        return self._wide(rows) if wide else self._long(rows)

    def _long(self, rows: Indices) -> dict[str, Any]:
        k, n = len(self.classes), len(rows)
        columns: dict[str, Any] = {"class": np.tile(_one_type(self.classes), n)}
        columns |= {name: np.repeat(values, k) for name, values in self._sizes(rows).items()}
        columns |= {name: values[rows].ravel() for name, values in self._per_class().items()}
        columns["training_prevalence"] = np.tile(self.training_prevalence, n)
        columns["fit_p_value"] = np.repeat(self.fit_p_value[rows], k)
        if self.shrinkage is not None:
            columns["shrinkage"] = np.repeat(self.shrinkage[rows], k)
        columns["status"] = np.repeat(self._status(rows), k)
        return columns if self.labelled is None else columns | self.labelled.long(rows, k)

    def _wide(self, rows: Indices) -> dict[str, Any]:
        labels = self.classes.tolist()
        columns: dict[str, Any] = self._sizes(rows)
        for name, values in self._per_class().items():
            columns |= {_wide_name(name, c): values[rows][:, i] for i, c in enumerate(labels)}
        for i, c in enumerate(labels):
            columns[_wide_name("training_prevalence", c)] = np.full(
                len(rows), self.training_prevalence[i]
            )
        columns["fit_p_value"] = self.fit_p_value[rows]
        if self.shrinkage is not None:
            columns["shrinkage"] = self.shrinkage[rows]
        columns["status"] = self._status(rows)
        return columns if self.labelled is None else columns | self._wide_labelled(rows)

    def _wide_labelled(self, rows: Indices) -> dict[str, Any]:
        labelled, labels = self.labelled, self.classes.tolist()
        assert labelled is not None, "the table has labels"
        columns: dict[str, Any] = {"n_labels": labelled.n_labels[rows]}
        for name, values in labelled.shares.items():
            columns |= {_wide_name(name, c): values[rows][:, i] for i, c in enumerate(labels)}
        columns["label_shift_p_value"] = labelled.p_value[rows]
        return columns | {"verdict": labelled.verdict[rows]}

    def _per_class(self) -> dict[str, Array]:
        arrays = (self.estimate, self.low, self.high, self.classify_and_count)
        columns = dict(zip(_PER_CLASS, arrays, strict=True))
        if self.separate is None:
            return columns
        beside = (self.separate.estimate, self.separate.low, self.separate.high)
        return columns | dict(zip(_SEPARATE, beside, strict=True))

    def _sizes(self, rows: Indices) -> dict[str, Any]:
        return {"n": self.sizes[rows], "n_missing": self.missing[rows]}

    def _status(self, rows: Indices) -> NDArray[Any]:
        return np.array(self.status, dtype=object)[rows]


class AnswerSheet:
    """The answers of all groups as they come in, some groups at a time; NaN until they do.

    Parameters
    ----------
    quantifier : fitted quantifier
    n_groups : int
    merging : Merging, optional
        The groups of classes that are shown; by default every class by itself.
    """

    def __init__(
        self, quantifier: FittedQuantifier, n_groups: int, merging: Merging | None = None
    ) -> None:
        self.merging = Merging.identity(quantifier.classes_) if merging is None else merging
        shape = (n_groups, len(self.merging.names))
        self.quantifier = quantifier
        self._labelled: LabelledAnswers | None = None
        self._marks: dict[str, NDArray[np.bool_]] = {}
        self._shares = {name: np.full(shape, np.nan) for name in _PER_CLASS}
        self._converged = np.ones(n_groups, dtype=np.bool_)
        #: P-values of the fit check, shape (n_groups,), and what it says in the words of a status.
        self.fit_p_values = np.full(n_groups, np.nan)
        self.fit_status = np.full(n_groups, not_checked(TURNED_OFF), dtype=object)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._converged)

    def fill(
        self, groups: Indices, *, converged: NDArray[np.bool_], **shares: Array | float
    ) -> None:
        """Enter the answers of some groups.

        Parameters
        ----------
        groups : int array of shape (g,)
        converged : bool array of shape (g,)
        **shares : arrays of shape (g, k)
            ``estimate``, ``low``, ``high`` and ``classify_and_count``.
        """
        for name in _PER_CLASS:
            self._shares[name][groups] = shares[name]
        self._converged[groups] = converged

    def fill_from_sums(self, groups: Indices, summed: SummedEstimates) -> None:
        """Enter what sums gave for ``groups``, as many as the sums have."""
        self.fill(
            groups,
            converged=summed.solution.converged,
            estimate=summed.solution.prevalence,
            low=summed.low,
            high=summed.high,
            classify_and_count=summed.decisions,
        )

    def fill_labelled(self, groups: Indices, estimates: Sequence[Estimate]) -> None:
        """Enter what labels say about ``groups``."""
        if self._labelled is None:
            self._labelled = LabelledAnswers.empty(len(self), len(self.merging.names))
        self._labelled.fill(groups, estimates)
        self.mark(NO_LABELS, groups[self._labelled.n_labels[groups] == 0])

    def mark(self, word: str, groups: Indices) -> None:
        """Add a word to the status of some groups."""
        if len(groups):
            marked = self._marks.setdefault(word, np.zeros(len(self), dtype=np.bool_))
            marked[groups] = True

    def answers(
        self,
        sizes: Indices,
        missing: Indices,
        settings: GroupSettings,
        unseen: Indices | None = None,
    ) -> GroupAnswers:
        """Return the answers, with the status of every group.

        Parameters
        ----------
        sizes, missing : int64 arrays of shape (n_groups,)
            Instances of each group that were used, and that were left out.
        settings : GroupSettings
        unseen : int64 array of shape (n_groups,), optional
            Instances of each group with a value that training lacks.
        """
        strange = np.zeros_like(sizes) if unseen is None else unseen
        return GroupAnswers(
            classes=self.merging.names,
            sizes=sizes,
            missing=missing,
            estimate=self._shares["estimate"],
            low=self._shares["low"],
            high=self._shares["high"],
            classify_and_count=self._shares["classify_and_count"],
            training_prevalence=self.merging.matrix @ np.asarray(self.quantifier.prevalence_),
            fit_p_value=self.fit_p_values,
            status=self._status(sizes, missing, strange, settings),
            labelled=self._labelled,
        )

    def _status(
        self, sizes: Indices, missing: Indices, unseen: Indices, settings: GroupSettings
    ) -> list[str]:
        model = self.quantifier.interval_model()
        has_few_labels = model is not None and bool(model.training_notes)
        applies = {
            EMPTY: sizes == 0,
            TOO_SMALL: (sizes > 0) & (sizes < settings.min_size),
            MISSING_VALUES: missing > 0,
            UNSEEN_VALUES: unseen > MOST_UNSEEN * sizes,
            NOT_CONVERGED: ~self._converged,
            FEW_LABELS: (sizes > 0) & has_few_labels,
            **self._marks,
        }
        return [
            join_status(
                [
                    *(name for name, where in applies.items() if where[g]),
                    # A group that is empty or too small is not checked, as these words say.
                    *([self.fit_status[g]] if sizes[g] >= settings.min_size else []),
                ]
            )
            for g in range(len(sizes))
        ]


def check_key_names(
    names: Sequence[str], classes: NDArray[Any], wide: bool, labelled: bool = False
) -> None:
    """Raise where a key has the name of a column of the result.

    Parameters
    ----------
    names : names of the key columns
    classes : array of shape (k,)
    wide : bool
        Whether the table has one row per group, with ``estimate[c]`` and others for every class c.
    labelled : bool
        Whether the table has the columns of labels.
    """
    taken = {*COLUMNS, *(LABELLED_COLUMNS if labelled else ())}
    if wide:
        per_class = (*_PER_CLASS, "training_prevalence", *(PER_CLASS if labelled else ()))
        taken |= {_wide_name(name, c) for name in per_class for c in np.asarray(classes).tolist()}
    for name in names:
        if name in taken:
            raise ValueError(
                f"key column {name!r} has the name of a column of the result: rename it"
            )


def _one_type(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels of several types, as merged classes may have, as texts: a column has one."""
    if len({type(label) for label in classes.tolist()}) == 1:
        return classes
    return np.array([canonical_text(label) for label in classes.tolist()])


def _wide_name(name: str, label: Any) -> str:
    return f"{name}[{label}]"


def as_estimates(answers: GroupAnswers, keys: Frame, order: Indices, options: Options) -> Estimates:
    """Return the answers beside their keys.

    Parameters
    ----------
    answers : GroupAnswers
    keys : narwhals frame with one row for every group, in the order of their numbers
    order : int array of shape (G,)
        The order of the groups in the result.
    options : Options
    """
    import narwhals as nw

    n, k = answers.estimate.shape
    made = Estimates(
        classes=answers.classes,
        estimate=answers.estimate,
        low=answers.low,
        high=answers.high,
        options=options,
        training_prevalence=answers.training_prevalence,
        size=answers.sizes,
        effective_size=answers.sizes.astype(np.float64),
        gap=np.full(n, np.nan),
        converged=np.ones(n, dtype=np.bool_),
        notes=[[] for _ in range(n)],
        uncertainty_of=lambda _: UnknownUncertainty(k),
        decisions=None,
        positions=np.arange(n),
        keys=nw.maybe_reset_index(keys),
        n_missing=answers.missing,
        statuses=answers.status,
        fit_p_value=answers.fit_p_value,
        counted=answers.classify_and_count,
        labelled=answers.labelled,
        shrinkage=answers.shrinkage,
    )
    if answers.separate is not None:
        alone = answers.separate
        separate = replace(
            made, estimate=alone.estimate, low=alone.low, high=alone.high, shrinkage=None
        )
        made = replace(made, separate=separate)
    return made.take(order)


@dataclass(frozen=True, eq=False)
class FileGroups:
    """The answers for the groups of a file.

    Attributes
    ----------
    keys : GroupKeys
    types : pyarrow types of the key columns, by name
    answers : GroupAnswers
    """

    keys: GroupKeys
    answers: GroupAnswers
    types: dict[str, Any] = field(default_factory=dict)

    def key_frame(self) -> Frame:
        """Return the keys as a frame over pyarrow, in the order of their numbers."""
        import narwhals as nw
        import pyarrow as pa

        values = self.keys.values
        return nw.from_native(
            pa.table(
                {
                    name: pa.array([value[i] for value in values], self.types[name])
                    for i, name in enumerate(self.keys.names)
                }
            ),
            eager_only=True,
        )

    def table(self, wide: bool = False) -> Any:
        """Return a pyarrow table, ordered by the keys; columns as ``predict_groups`` has them."""
        import pyarrow as pa

        labelled = self.answers.labelled is not None
        check_key_names(self.keys.names, self.answers.classes, wide, labelled)
        order = self.keys.order()
        values = self.keys.values
        rows = np.repeat(order, 1 if wide else len(self.answers.classes))
        keys = {
            name: pa.array([values[g][i] for g in rows], self.types[name])
            for i, name in enumerate(self.keys.names)
        }
        columns = self.answers.columns(order, wide=wide)
        return pa.table(keys | {name: pa.array(column) for name, column in columns.items()})


def key_types(keys: Frame) -> dict[str, Any]:
    """Return the pyarrow types of key columns, by name, from a frame over pyarrow."""
    import pyarrow as pa

    return {
        column.name: column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        for column in keys.to_native().schema
    }
