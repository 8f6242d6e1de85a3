"""The estimates of a run of groups whose rows have a design: labels, weights, clusters, strata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.fitted import FittedQuantifier
from kdey.groups.design import UNLABELLED, RowDesign
from kdey.groups.request import GroupSettings
from kdey.groups.scoring import GroupRows
from kdey.intervals import Estimate
from kdey.intervals.merging import Merging
from kdey.intervals.strata import combine_strata, share_covariance
from kdey.labelled import BagRequest, LabelledEstimate, LabelledSample, estimate_labelled_bags
from kdey.options import Options


@dataclass(frozen=True, eq=False)
class RunEstimates:
    """The estimates of g groups.

    Attributes
    ----------
    estimates : list of g Estimate
        In a table with labels, those of groups with a label are LabelledEstimate.
    classify_and_count : array of shape (g, k)
        NaN if there is no classifier.
    incomplete : bool array of shape (g,)
        Groups that lack a stratum whose share is known.
    """

    estimates: list[Estimate]
    classify_and_count: Array
    incomplete: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DesignedRun:
    """The rows of a run of groups, with their design.

    Attributes
    ----------
    quantifier : fitted quantifier
    rows : ScoredRows or Instances
        Group after group.
    sizes : int64 array of shape (g,)
        Number of rows of each group, all positive.
    design : RowDesign
    options : Options
    merging : Merging
    believe : {"prediction-powered", "label-shift", "labels"}
        The estimate with labels that is believed.
    """

    quantifier: FittedQuantifier
    rows: GroupRows
    sizes: Indices
    design: RowDesign
    options: Options
    merging: Merging
    believe: str

    def estimates(self) -> RunEstimates:
        """Return the estimates of all groups."""
        if self.design.strata is not None:
            return self._by_strata()
        if self.design.labels is not None:
            return self._with_labels()
        estimates = self._without_labels(np.arange(len(self.sizes)))
        return self._complete(estimates)

    @property
    def weights(self) -> Array:
        """The weight of each row."""
        known = self.design.weights
        return np.ones(len(self.rows)) if known is None else known

    def _runs(self) -> Iterator[slice]:
        for start, stop in pairwise(offsets_of(self.sizes).tolist()):
            yield slice(start, stop)

    def _without_labels(self, groups: Indices) -> list[Estimate]:
        """Return the plain estimates of some groups."""
        if len(groups) == 0:
            return []
        offsets = offsets_of(self.sizes)
        positions = [np.arange(offsets[g], offsets[g + 1]) for g in groups]
        return [self.merging.apply(part) for part in self._estimate_bags(positions)]

    def _estimate_bags(self, positions: list[Indices]) -> list[Estimate]:
        """Return the estimates of bags of rows, before classes are merged."""
        indices = np.concatenate(positions)
        offsets = offsets_of(np.array([len(p) for p in positions], dtype=np.int64))
        bags = Bags(indices, offsets, len(self.rows), self.weights[indices])
        clusters = self.design.clusters
        return list(self.rows.estimates(self.quantifier, bags, self.options, clusters))

    def _complete(self, estimates: list[Estimate]) -> RunEstimates:
        """Return estimates of bags as they are."""
        unknown = np.full(len(self.merging.names), np.nan)
        counts = [e.classify_and_count for e in estimates]
        counted = np.array([unknown if count is None else count for count in counts])
        return RunEstimates(estimates, counted, np.zeros(len(estimates), dtype=np.bool_))

    def _with_labels(self) -> RunEstimates:
        """Return estimates with labels, and plain ones of groups without a label."""
        labels = self.design.labels
        assert labels is not None, "the design has labels"
        has_labels = np.array([(labels[run] != UNLABELLED).any() for run in self._runs()])
        runs = list(self._runs())
        labelled, others = np.flatnonzero(has_labels), np.flatnonzero(~has_labels)
        estimates: dict[int, Estimate] = {}
        estimates |= zip(others.tolist(), self._without_labels(others), strict=True)
        estimates |= zip(
            labelled.tolist(), self._labelled([runs[g] for g in labelled]), strict=True
        )
        return self._complete([estimates[g] for g in range(len(runs))])

    def _labelled(self, runs: list[slice]) -> list[LabelledEstimate]:
        """Return the estimates of groups that have labels."""
        model = self.quantifier.interval_model()
        if model is None:
            raise ValueError(
                "labels of groups need a method with rows and a matching (KDEyML, EMQ, PACC, ...), "
                f"and {type(self.quantifier).__name__} combines several quantifiers"
            )
        if not runs:
            return []
        points = self.rows.points
        points = np.concatenate([points[run] for run in runs])
        samples = [self._sample(run) for run in runs]
        request = BagRequest(self.believe, self.merging)
        return estimate_labelled_bags(model, points, samples, self.options, request)

    def _sample(self, run: slice) -> LabelledSample:
        """Return the labelled sample of one group."""
        design = self.design.take(run)
        assert design.labels is not None, "the design has labels"
        positions = np.flatnonzero(design.labels != UNLABELLED)
        clusters = design.clusters
        return LabelledSample(
            size=len(design.labels),
            positions=positions,
            codes=design.labels[positions],
            n_classes=len(self.quantifier.classes_),
            weights=self.weights[run],
            selection=None if design.selection is None else design.selection[positions],
            clusters=None if clusters is None else _consecutive(clusters),
        )

    def _by_strata(self) -> RunEstimates:
        """Return the sums over strata, each of them a bag of its own."""
        strata = self.design.strata
        assert strata is not None, "the design has strata"
        positions: list[Indices] = []
        owners: list[int] = []
        for group, run in enumerate(self._runs()):
            codes = strata[run]
            for code in np.unique(codes).tolist():
                positions.append(run.start + np.flatnonzero(codes == code))
                owners.append(group)
        parts, owner = self._estimate_bags(positions), np.array(owners)
        results, counted, incomplete = [], [], []
        for group in range(len(self.sizes)):
            chosen = np.flatnonzero(owner == group)
            total, counts, known = self._combine(
                [parts[i] for i in chosen], [positions[i] for i in chosen]
            )
            results.append(self.merging.apply(total))
            counted.append(self.merging.matrix @ counts)
            incomplete.append(known < 1.0 - 1e-9)
        return RunEstimates(results, np.array(counted), np.array(incomplete))

    def _combine(
        self, parts: list[Estimate], positions: list[Indices]
    ) -> tuple[Estimate, Array, float]:
        """Return the estimate of a group, its shares of decisions, and the known share present."""
        weights, known = self.weights, self.design.shares
        between, present = None, 1.0
        if known is not None:
            shares = np.array([known[p[0]] for p in positions])
            present = float(shares.sum())
        else:
            shares = np.array([weights[p].sum() for p in positions])
            if self.options.target == "population":
                rows = np.concatenate(positions)
                clusters = self.design.clusters
                between = share_covariance(
                    np.array([part.estimate for part in parts]),
                    np.repeat(np.arange(len(positions)), [len(p) for p in positions]),
                    weights[rows],
                    None if clusters is None else clusters[rows],
                )
        total = combine_strata(parts, shares, between, self.options.random_state)
        counts = [part.classify_and_count for part in parts]
        unknown = np.full(len(total.estimate), np.nan)
        counted = np.array([unknown if count is None else count for count in counts])
        return total, np.asarray(shares / shares.sum() @ counted), present


def whole_estimate(
    quantifier: FittedQuantifier,
    rows: GroupRows,
    design: RowDesign | None,
    settings: GroupSettings,
) -> Estimate:
    """Return the estimate of all rows of a table as one group.

    Parameters
    ----------
    quantifier : fitted quantifier
    rows : ScoredRows or Instances
    design : RowDesign or None
    settings : GroupSettings

    Returns
    -------
    Estimate
    """
    known = RowDesign() if design is None else design
    if known.weights is not None:
        inside = np.flatnonzero(known.weights > 0)
        rows, known = rows.take(inside), known.take(inside)
    merging = settings.merging(quantifier.classes_)
    sizes = np.array([len(rows)], dtype=np.int64)
    run = DesignedRun(quantifier, rows, sizes, known, settings.options, merging, settings.believe)
    return run.estimates().estimates[0]


def _consecutive(codes: Indices) -> Indices:
    """Return codes numbered from zero without gaps."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
