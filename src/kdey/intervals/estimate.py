"""Estimates: prevalences with confidence intervals, of one bag and of many bags.

:class:`Estimate` holds one bag, :class:`Estimates` many: it is a table of arrays and at the same
time a sequence of ``Estimate`` objects, which are created only when they are accessed. Covariances,
joint regions and classifier decisions are computed on access too, because a table of a thousand
groups rarely needs them. Their text and HTML are made in
:mod:`kdey.intervals.display`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import Overview
from kdey.bags import Array, Bags
from kdey.intervals.checks import NOTHING_CHECKED, Checks
from kdey.intervals.display import (
    estimate_overview,
    estimate_text,
    estimates_overview,
    group_frame,
    heading,
)
from kdey.intervals.region import Region, Uncertainty, UnknownUncertainty
from kdey.options import Options
from kdey.rows.posterior import one_hot_argmax
from kdey.status import (
    CANNOT_BE_TOLD,
    FEW_CLUSTERS,
    FEW_LABELS,
    NOT_CONVERGED,
    TURNED_OFF,
    UNSEEN_VALUES,
    WIDE,
    join_status,
    not_checked,
)
from kdey.validation import make_frame

if TYPE_CHECKING:
    from kdey.intervals.drift import Sensitivity

#: Degrees of freedom below which classes that are rare may be covered too seldom, most of all where
#: the templates add little to the error (benchmarks/designs.py: joint regions of a share of 0.03).
FEW_FREEDOM = 19.0
#: The note of estimates from few clusters.
FEW_CLUSTERS_NOTE = (
    "few clusters: they leave a variance {freedom:.0f} degrees of freedom (clusters minus strata), "
    "and intervals of classes below about 5 % can be too narrow; more clusters help, and more rows "
    "in each do not"
)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The classifier's decisions on a pool, counted on first access.

    Attributes
    ----------
    posteriors : array of shape (pool_size, k)
    bags : Bags
    """

    posteriors: NDArray[np.floating]
    bags: Bags

    @cached_property
    def shares(self) -> Array:
        """Share of the decisions for each class in each bag, shape (n_bags, k)."""
        return self.bags.mean(one_hot_argmax(self.posteriors))


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Prevalences of one bag with confidence intervals.

    Attributes
    ----------
    classes : array of shape (k,)
    estimate : array of shape (k,)
        The prevalences that ``predict`` returns.
    low, high : arrays of shape (k,)
        Interval of each class, ``low <= estimate <= high``.
    confidence : float
        Nominal coverage of the intervals, strictly between 0 and 1.
    target : {"population", "bag"}
    simultaneous : bool
        Whether the intervals cover all classes at once (Bonferroni).
    training_prevalence : array of shape (k,)
    size : int
        Number of instances of the bag.
    gap : float
        Certified distance of the estimate's objective from its optimum; NaN if the method has no
        certificate.
    converged : bool
        Whether the solver converged.
    uncertainty : Uncertainty
        The source of the intervals, from which covariance and joint region are computed.
    decisions : Decisions or None
        The classifier's decisions on the pool; None if the method has no classifier.
    number : int
        Position of the bag among the bags that were estimated together.
    diagnostics : dict
        ``effective_size``, ``notes``, ``marks`` (words of a status that training or the instances
        give), and ``fit`` and ``columns``: the verdicts of the checks of scores and columns, or why
        there are none; absent if the checks were turned off.
    checks : Checks or None
        What was checked of scores and columns, and what was found; None: nothing was asked.

    See Also
    --------
    kdey.Estimates : Prevalences of many bags with intervals.
    kdey.difference : Compare two bags.
    kdey.plots.IntervalsDisplay : Draw an estimate.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> estimate = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2], check_fit=False)
    >>> estimate.estimate.round(1)
    array([0.3, 0.3, 0.3])
    >>> bool((estimate.low <= estimate.estimate).all())
    True
    >>> estimate.status
    'not checked (the check was turned off)'
    """

    classes: NDArray[Any]
    estimate: Array
    low: Array
    high: Array
    confidence: float
    target: str
    simultaneous: bool
    training_prevalence: Array
    size: int
    gap: float
    converged: bool
    uncertainty: Uncertainty
    decisions: Decisions | None = None
    number: int = 0
    diagnostics: dict[str, Any] = field(default_factory=dict)
    checks: Checks | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader needs beside the numbers, such as classes with few labels."""
        return tuple(self.diagnostics.get("notes", ()))

    @property
    def classify_and_count(self) -> Array | None:
        """Share of the classifier's decisions for each class, shape (k,), for comparison."""
        return None if self.decisions is None else self.decisions.shares[self.number]

    @property
    def method(self) -> str:
        """How the intervals were computed: "analytic", "bootstrap" or "none"."""
        return self.uncertainty.method

    @property
    def template_noise(self) -> bool:
        """Whether the intervals include the uncertainty of the templates from limited training."""
        return self.uncertainty.template_noise

    @property
    def problems(self) -> tuple[str, ...]:
        """What is the matter apart from the fit, in the words of :mod:`kdey.status`."""
        marks = [*self.diagnostics.get("marks", ()), *([] if self.converged else [NOT_CONVERGED])]
        marks += [CANNOT_BE_TOLD] * bool(np.any(self.high - self.low > WIDE))
        order = (CANNOT_BE_TOLD, UNSEEN_VALUES, NOT_CONVERGED, FEW_LABELS, FEW_CLUSTERS)
        return tuple(mark for mark in order if mark in marks)

    @property
    def status(self) -> str:
        """What is the matter, if anything, and how far the fit was checked (:mod:`kdey.status`)."""
        if "status" in self.diagnostics:  # that of a group of a table
            return str(self.diagnostics["status"])
        checked = not_checked(TURNED_OFF) if self.checks is None else self.checks.status
        return join_status([*self.problems, checked])

    @property
    def draws(self) -> Array | None:
        """Bootstrap draws of the target, shape (n_replicates, k); None without a bootstrap."""
        return self.uncertainty.bootstrap_draws()

    @property
    def corrected(self) -> Array | None:
        """The estimate without smoothing and calibration bias, (k,); None for the bootstrap."""
        return self.uncertainty.corrected()

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the error, shape (k, k)."""
        return self.uncertainty.covariance()

    @cached_property
    def region(self) -> Region:
        """Joint confidence region of all classes, at the same confidence."""
        return self.uncertainty.region(self.confidence)

    def merge(self, merge: Mapping[Any, Any]) -> Estimate:
        """Return the shares of groups of classes, with the intervals of their sums.

        The intervals follow from the covariance of the errors or from the bootstrap draws, so that
        the sum of two classes that can hardly be told apart may be known well.

        Parameters
        ----------
        merge : mapping from new label to a class or a sequence of classes
            Groups are shown in the order of the mapping, followed by the classes that it does not
            name, which stay by themselves. ``{"b": "b", "a": "a"}`` therefore only sets the order.

        Returns
        -------
        Estimate

        Raises
        ------
        ValueError
            If the mapping does not fit the classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import kdey
        >>> X, y = load_iris(return_X_y=True)
        >>> estimate = kdey.EMQ().fit(X[::2], y[::2]).estimate(X[1::2])
        >>> merged = estimate.merge({"large": [1, 2], "small": 0})
        >>> merged.classes.tolist(), merged.estimate.round(2).tolist()
        (['large', 'small'], [0.67, 0.33])
        """
        from kdey.intervals.merging import Merging  # which builds on this file

        return Merging.of(merge, self.classes).apply(self)

    def sensitivity(self, factors: ArrayLike = (1.1, 1.25, 1.5, 2.0)) -> Sensitivity:
        """Return the intervals if the classes themselves have changed since training.

        No check can see a change along the direction that separates the classes: it looks like a
        change of shares. These intervals hold if the density of every class, in what the classifier
        sees of it, has changed by a factor of up to G anywhere.

        Parameters
        ----------
        factors : array-like of shape (F,)
            The values of G, at least one.

        Returns
        -------
        Sensitivity
            With ``low`` and ``high`` of every factor and class.

        Raises
        ------
        ValueError
            If a factor is below one, or the estimate has no analytic interval.

        See Also
        --------
        kdey.calibrate_drift : Which factor past samples have needed.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import kdey
        >>> X, y = load_iris(return_X_y=True)
        >>> estimate = kdey.PACC().fit(X[::2], y[::2]).estimate(X[1::2], check_fit=False)
        >>> wider = estimate.sensitivity([1.5])
        >>> bool((wider.high[1] >= estimate.high).all())
        True
        """
        from kdey.intervals.drift import sensitivity  # which builds on this file

        return sensitivity(self, factors)

    def tipping_point(
        self, label: Any, *, above: float | None = None, below: float | None = None
    ) -> float:
        """Return the smallest change of the classes that overturns a statement about a share.

        Parameters
        ----------
        label : a class
        above, below : float, optional
            The statement: the share of the class is above, or below, this one. Give one of them.

        Returns
        -------
        float
            The smallest factor G at which the interval of :meth:`sensitivity` no longer supports
            the statement. One if the interval of the estimate does not; infinite if no factor up
            to 32 overturns it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import kdey
        >>> X, y = load_iris(return_X_y=True)
        >>> estimate = kdey.PACC().fit(X[::2], y[::2]).estimate(X[1::2], check_fit=False)
        >>> estimate.tipping_point(0, above=0.3)
        1.0
        >>> estimate.tipping_point(0, above=0.1) > 1.5
        True
        """
        from kdey.intervals.drift import tipping_point  # which builds on this file

        return tipping_point(self, label, above, below)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the frame by name, each of length k."""
        unknown = np.full(len(self.classes), np.nan)
        counted = unknown if self.classify_and_count is None else self.classify_and_count
        return {
            "class": list(self.classes),
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "classify_and_count": counted,
            "training_prevalence": self.training_prevalence,
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        return make_frame(self.columns(), backend)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain Python values; NaN becomes None."""
        columns = {name: _plain(values) for name, values in self.columns().items()}
        scalars = (
            *("confidence", "target", "method", "simultaneous", "size", "gap", "converged"),
            "status",
        )
        return {
            **{name: _plain(getattr(self, name)) for name in scalars},
            "classes": columns.pop("class"),
            **columns,
            "diagnostics": _plain(self.diagnostics),
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON, which contains neither draws nor region."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def report(self, path: str | PathLike[str], **parts: Any) -> Path:
        """Write one self-contained HTML page about this estimate.

        Needs jinja2 (``pip install 'kdey[report]'``).

        Parameters
        ----------
        path : path-like
            The file to write.
        **parts
            As for :func:`kdey.make_report`. For a full report pass the fitted quantifier as
            ``quantifier``.

        Returns
        -------
        Path
            The path of the file.
        """
        import kdey  # Reports are a layer above estimates, so we reach them by the public name.

        return kdey.write_report(path, self, **parts)

    def plot(self, *, truth: ArrayLike | None = None, ax: Any = None) -> Any:
        """Draw the estimate and its intervals; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        truth : array-like of shape (k,), optional
            Known shares of the classes, for comparison.
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.IntervalsDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above estimates, so we reach them by the public name.

        return kdey.plots.IntervalsDisplay.from_estimate(self, truth=truth, ax=ax)

    def overview(self) -> Overview:
        """Return the result in a sentence and a table with percentages and bars."""
        return estimate_overview(self)

    def __str__(self) -> str:
        """Return a table of the shares and intervals, as fractions."""
        return estimate_text(self)

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


#: What a table has for every bag: arrays, and lists.
_ARRAYS = (
    *("estimate", "low", "high", "size", "effective_size", "gap", "converged", "positions"),
    *("n_missing", "fit_p_value", "counted", "shrinkage"),
)
_LISTS = ("notes", "checks", "marks", "statuses")


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Sequence[Estimate]):
    """Estimates of many bags, in the order of the bags; or of the groups of a table, by their keys.

    Attributes
    ----------
    classes : array of shape (k,)
    estimate, low, high : arrays of shape (n_bags, k)
    options : Options
    training_prevalence : array of shape (k,)
    size : int array of shape (n_bags,)
    effective_size : array of shape (n_bags,)
    gap : array of shape (n_bags,)
    converged : bool array of shape (n_bags,)
    notes : sequence of n_bags lists of str
    uncertainty_of : callable
        Takes an entry of ``positions`` and returns the uncertainty of that bag.
    decisions : Decisions or None
    positions : int array of shape (n_bags,)
        Positions of the bags among all that were estimated together; a slice keeps them.
    checks : sequence of n_bags Checks, optional
        What was checked of each bag and what was found; None if nothing was asked for.
    marks : sequence of n_bags tuples of str, optional
        Words of a status that training or the instances give, such as "few labels".
    keys : narwhals frame of n_bags rows, or None
        The keys of the groups of a table, in the frame library of the table. None: bags without
        keys, and without what follows.
    n_missing : int64 array of shape (n_bags,)
        Rows of each group left out because a score or feature was missing.
    statuses : sequence of n_bags texts
        What is the matter with each group; see :attr:`status`.
    fit_p_value : array of shape (n_bags,)
        NaN where the fit was not checked.
    counted : array of shape (n_bags, k)
        Shares of the classifier's decisions; NaN where there is no classifier.
    labelled : dict of arrays of shape (n_bags,) or (n_bags, k), or None
        What labels say, in a table that has some, by the names of its columns
        (``kdey.intervals.display.LABELLED_COLUMNS``). Shares are NaN where a group has no
        label, but for label shift, which needs none.
    separate : Estimates or None
        Where groups are pooled, what each gives by itself.
    shrinkage : array of shape (n_bags,) or None
        How much each group borrows from the others, 0 to 1; None unless groups are shrunk.

    See Also
    --------
    kdey.Estimate : Prevalences of one bag with intervals.
    kdey.predict_groups : Estimate the groups of a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.EMQ().fit(X[::2], y[::2])
    >>> estimates = q.estimate_bags(X[1::2], [range(30), range(40, 75)], check_fit=False)
    >>> len(estimates)
    2
    >>> estimates.size
    array([30, 35])
    >>> estimates[0].classes.tolist()
    [0, 1, 2]
    """

    classes: NDArray[Any]
    estimate: Array
    low: Array
    high: Array
    options: Options
    training_prevalence: Array
    size: NDArray[np.int64]
    effective_size: Array
    gap: Array
    converged: NDArray[np.bool_]
    notes: Sequence[list[str]]
    uncertainty_of: Callable[[int], Uncertainty]
    decisions: Decisions | None
    positions: NDArray[np.int64]
    checks: Sequence[Checks] | None = None
    marks: Sequence[tuple[str, ...]] | None = None
    keys: Any = None
    n_missing: NDArray[np.int64] | None = None
    statuses: Sequence[str] | None = None
    fit_p_value: Array | None = None
    counted: Array | None = None
    labelled: dict[str, NDArray[Any]] | None = None
    separate: Estimates | None = None
    shrinkage: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the uncertainty of every bag in the place of the callable."""
        state = {name: value for name, value in vars(self).items() if name != "items"}
        kept = {int(position): self.uncertainty_of(int(position)) for position in self.positions}
        return {**state, "uncertainty_of": kept.__getitem__}

    @cached_property
    def items(self) -> tuple[Estimate, ...]:
        """The estimates, one object per bag."""
        return tuple(self._estimate_of(b) for b in range(len(self)))

    def _estimate_of(self, b: int) -> Estimate:
        position = int(self.positions[b])
        checks = None if self.checks is None else self.checks[b]
        return Estimate(
            classes=self.classes,
            estimate=self.estimate[b],
            low=self.low[b],
            high=self.high[b],
            confidence=self.options.confidence,
            target=self.options.target,
            simultaneous=self.options.simultaneous,
            training_prevalence=self.training_prevalence,
            size=int(self.size[b]),
            gap=float(self.gap[b]),
            converged=bool(self.converged[b]),
            uncertainty=self.uncertainty_of(position),
            decisions=self.decisions,
            number=position,
            checks=checks,
            diagnostics={
                "effective_size": float(self.effective_size[b]),
                "notes": list(self.notes[b]),
                "marks": [] if self.marks is None else list(self.marks[b]),
                **({} if checks is None else checks.summary()),
                **({} if self.statuses is None else {"status": self.statuses[b]}),
            },
        )

    def with_notes(self, notes: Sequence[str]) -> Estimates:
        """Return the same estimates with further notes beside every bag."""
        return replace(self, notes=[[*texts, *notes] for texts in self.notes]) if notes else self

    def marked(self, mark: str, where: NDArray[np.bool_]) -> Estimates:
        """Return the same estimates with a word of a status for some bags.

        Parameters
        ----------
        mark : str
        where : bool array of shape (n_bags,)
        """
        marks = [()] * len(self) if self.marks is None else self.marks
        added = [(*marks[b], mark) if where[b] else marks[b] for b in range(len(self))]
        return replace(self, marks=added)

    def of_clusters(self, freedom: Array) -> Estimates:
        """Return the same estimates, of which those of few clusters say so.

        Parameters
        ----------
        freedom : array of shape (n_bags,)
            Clusters minus strata; infinite where nothing is to be said.
        """
        notes = [[note for note in own if not note.startswith(FEW_CLUSTERS)] for own in self.notes]
        few = freedom < FEW_FREEDOM
        for number in np.flatnonzero(few).tolist():
            notes[number].append(FEW_CLUSTERS_NOTE.format(freedom=max(freedom[number], 1)))
        return replace(self, notes=notes).marked(FEW_CLUSTERS, few)

    @overload
    def __getitem__(self, index: int) -> Estimate: ...

    @overload
    def __getitem__(self, index: slice) -> Estimates: ...

    def __getitem__(self, index: int | slice) -> Estimate | Estimates:
        """Return the estimate of one bag, or the estimates of a slice of bags."""
        if not isinstance(index, slice):
            return self.items[index]
        return self.take(np.arange(len(self))[index])

    def take(self, bags: ArrayLike) -> Estimates:
        """Return the estimates of some bags, in the order given."""
        bags = np.asarray(bags, dtype=np.int64)
        taken: dict[str, Any] = {}
        for name in (*_ARRAYS, *_LISTS):
            values = getattr(self, name)
            if values is not None:
                taken[name] = values[bags] if name in _ARRAYS else [values[b] for b in bags]
        if self.keys is not None:
            taken["keys"] = self.keys[bags.tolist()] if self.keys.columns else self.keys
        if self.labelled is not None:
            taken["labelled"] = {name: values[bags] for name, values in self.labelled.items()}
        if self.separate is not None:
            taken["separate"] = self.separate.take(bags)
        return replace(self, **taken)

    @property
    def status(self) -> list[str]:
        """What is the matter with each bag, and how far its fit was checked; see ``kdey.status``.

        "no problem found", or parts separated by "; ": "empty", "too small" (and therefore not
        checked), "poor fit", "cannot be told" (an interval is wider than 50 points), "missing
        values", "unseen values" (in more than one of twenty instances), "not converged", "few
        labels" (of a class in training), "few clusters" (in which rows were drawn),
        "only scores were checked", "only columns were checked",
        "checked one-sided", "not checked (why)", "cannot be checked (why)".
        """
        if self.statuses is not None:
            return list(self.statuses)
        return [estimate.status for estimate in self.items]

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.estimate)

    def merge(self, merge: Mapping[Any, Any]) -> Estimates:
        """Return the shares of groups of classes in every bag, as :meth:`Estimate.merge` does."""
        from kdey.intervals.merging import Merging  # which builds on this file

        return Merging.of(merge, self.classes).apply_all(self)

    @property
    def classify_and_count(self) -> Array | None:
        """Share of the classifier's decisions for each class, shape (n_bags, k)."""
        if self.counted is not None:
            return self.counted
        return None if self.decisions is None else self.decisions.shares[self.positions]

    def columns(self) -> dict[str, Any]:
        """Return the columns of the frame of bags by name, each of length n_bags * k."""
        n, k = self.estimate.shape
        counted = self.classify_and_count
        return {
            "bag": np.repeat(np.arange(n), k),
            "size": np.repeat(self.size, k),
            "class": list(self.classes) * n,
            "estimate": self.estimate.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            "classify_and_count": np.full(n * k, np.nan) if counted is None else counted.ravel(),
            "training_prevalence": np.tile(self.training_prevalence, n),
        }

    def to_frame(self, backend: str | None = None, *, wide: bool = False) -> Any:
        """Return a data frame with one row per bag and class.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default that of the table for groups, and
            one that is installed otherwise.
        wide : bool
            For groups: one row per group, with columns ``estimate[c]``, ``low[c]``, ... for every
            class c.

        Returns
        -------
        data frame
            Bags without keys have a column ``bag`` that numbers them from 0. Groups have their
            keys, ``class``, ``n``, ``n_missing``, ``estimate``, ``low``, ``high``,
            ``classify_and_count`` (the naive answer), ``training_prevalence``, ``fit_p_value``
            (NaN where the fit was not checked) and ``status`` (:mod:`kdey.status`).
            With pooling also ``separate_estimate``, ``separate_low`` and ``separate_high``, which
            are those without it, and, where groups are shrunk, ``shrinkage``, from 0 (a group
            stands alone) to 1 (it says nothing of its own). With labels also ``n_labels``, the
            three estimates side by side, ``label_shift_p_value`` and ``verdict``.
        """
        if self.keys is None:
            return make_frame(self.columns(), backend)
        return group_frame(self, backend, wide)

    def to_json(self) -> str:
        """Return a JSON list with :meth:`Estimate.to_dict` of every bag.

        Those of groups have their keys, too, as a mapping from the names of the key columns.
        """
        bags = [estimate.to_dict() for estimate in self.items]
        if self.keys is not None and self.keys.columns:
            keys = self.keys.rows(named=True)
            bags = [{"keys": _plain(key), **bag} for key, bag in zip(keys, bags, strict=True)]
        return json.dumps(bags, allow_nan=False)

    def plot(self, *, ax: Any = None, classes: Sequence[Any] | None = None) -> Any:
        """Draw the shares of the bags in their order, with intervals.

        Needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.
        classes : sequence of classes, optional
            By default the eight with the largest shares.

        Returns
        -------
        kdey.plots.PrevalenceOverTimeDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above estimates, so we reach them by the public name.

        names = None if classes is None else [str(name) for name in classes]
        return kdey.plots.PrevalenceOverTimeDisplay.from_estimates(self, ax=ax, classes=names)

    def overview(self) -> Overview:
        """Return the number of bags in a sentence, and a table of the shares of the first ten."""
        return estimates_overview(self)

    def __str__(self) -> str:
        """Return the number of bags and the heading of the first."""
        first = f"; the first: {heading(self.items[0])}" if len(self) else ""
        return f"Estimates of {len(self)} bags{first}"

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()


def no_uncertainty(n_classes: int) -> Callable[[int], Uncertainty]:
    """Return the uncertainty of bags of which it was not kept."""
    return partial(_unknown, n_classes)


def _unknown(n_classes: int, number: int) -> Uncertainty:
    return UnknownUncertainty(n_classes)


def collect_estimates(items: Sequence[Estimate], options: Options) -> Estimates:
    """Return single estimates, of which there is at least one, as one table.

    Parameters
    ----------
    items : sequence of Estimate
        Of the same classes and training data.
    options : Options
    """
    counts = [item.classify_and_count for item in items]
    unknown = np.full(len(items[0].classes), np.nan)
    return Estimates(
        classes=items[0].classes,
        estimate=np.array([item.estimate for item in items]),
        low=np.array([item.low for item in items]),
        high=np.array([item.high for item in items]),
        options=options,
        training_prevalence=items[0].training_prevalence,
        size=np.array([item.size for item in items], dtype=np.int64),
        effective_size=np.array(
            [item.diagnostics.get("effective_size", item.size) for item in items]
        ),
        gap=np.array([item.gap for item in items]),
        converged=np.array([item.converged for item in items]),
        notes=[list(item.notes) for item in items],
        marks=[tuple(item.diagnostics.get("marks", ())) for item in items],
        uncertainty_of=lambda number: items[number].uncertainty,
        decisions=None,
        positions=np.arange(len(items)),
        counted=np.array([unknown if count is None else count for count in counts]),
    )


def join_estimates(parts: Sequence[Estimates]) -> Estimates:
    """Return estimates of the same classes and training data, made apart and without keys, as one.

    Shares of decisions must be counted; the decisions of instances go where there are several.
    """
    first = parts[0]
    if len(parts) == 1:
        return first

    def joined(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    def listed(name: str, default: Any) -> Any:
        values = [getattr(part, name) for part in parts]
        if all(value is None for value in values):
            return None
        return [
            item
            for part, value in zip(parts, values, strict=True)
            for item in ([default] * len(part) if value is None else value)
        ]

    labelled = None
    if first.labelled is not None:
        known = [part.labelled for part in parts if part.labelled is not None]
        labelled = {name: np.concatenate([one[name] for one in known]) for name in first.labelled}
    owners = [(part, b) for part in parts for b in range(len(part))]

    def uncertainty_of(number: int) -> Uncertainty:
        part, b = owners[number]
        return part.uncertainty_of(int(part.positions[b]))

    return replace(
        first,
        **{name: joined(name) for name in _ARRAYS if name != "positions"},
        notes=listed("notes", []),
        marks=listed("marks", ()),
        checks=listed("checks", NOTHING_CHECKED),
        statuses=listed("statuses", ""),
        uncertainty_of=uncertainty_of,
        decisions=None,
        positions=np.arange(len(owners)),
        labelled=labelled,
    )
