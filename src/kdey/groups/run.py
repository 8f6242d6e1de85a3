"""The estimates of a run of groups; their rows may have labels, weights, clusters or strata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.groups.request import UNLABELLED, Request, RowDesign
from kdey.groups.scoring import GroupRows
from kdey.intervals import Estimate, Estimates
from kdey.intervals.estimate import collect_estimates
from kdey.intervals.merging import Merging, combine_strata, share_covariance
from kdey.labelled import LabelledEstimate, LabelledSample, estimate_labelled_bags
from kdey.model import AnyModel, Model, Place


@dataclass(frozen=True, eq=False)
class RunEstimates:
    """The estimates of g groups.

    Attributes
    ----------
    estimates : Estimates
    counted : array of shape (g, k)
        Shares of the classifier's decisions; NaN if there is no classifier.
    incomplete : bool array of shape (g,)
        Groups that lack a stratum whose share is known.
    items : sequence of g Estimate
        In a table with labels, those of groups with a label are LabelledEstimate.
    """

    estimates: Estimates
    counted: Array
    incomplete: NDArray[np.bool_]
    items: Sequence[Estimate]

    @classmethod
    def plain(cls, estimates: Estimates, items: Sequence[Estimate] | None = None) -> RunEstimates:
        """Return estimates of bags as they are."""
        counted = estimates.classify_and_count
        if counted is None:
            counted = np.full(estimates.estimate.shape, np.nan)
        complete = np.zeros(len(estimates), dtype=np.bool_)
        return cls(estimates, counted, complete, estimates if items is None else items)


@dataclass(frozen=True, eq=False)
class GroupRun:
    """The rows of a run of groups, with their design.

    Attributes
    ----------
    model : model
    place : Place
    rows : ScoredRows or Instances
        Group after group.
    sizes : int64 array of shape (g,)
        Number of rows of each group, all positive.
    design : RowDesign
    request : Request
    merging : Merging
    """

    model: AnyModel
    place: Place
    rows: GroupRows
    sizes: Indices
    design: RowDesign
    request: Request
    merging: Merging

    def estimates(self) -> RunEstimates:
        """Return the estimates of all groups."""
        if self.design.strata is not None:
            return self._by_strata()
        if self.design.labels is not None:
            return self._with_labels()
        offsets = offsets_of(self.sizes)
        positions = np.arange(offsets[-1], dtype=np.int64)
        return RunEstimates.plain(self.merging.apply_all(self._estimate(positions, offsets)))

    @property
    def weights(self) -> Array:
        """The weight of each row."""
        known = self.design.weights
        return np.ones(len(self.rows)) if known is None else known

    def _spans(self) -> list[slice]:
        return [slice(start, stop) for start, stop in pairwise(offsets_of(self.sizes).tolist())]

    def _estimate(self, positions: Indices, offsets: Indices) -> Estimates:
        """Return the estimates of bags of rows, before classes are merged."""
        known = self.design.weights
        weights = None if known is None else known[positions]
        bags = Bags(positions, offsets, len(self.rows), weights)
        clusters = self.design.clusters
        return self.rows.estimates(self.model, bags, self.request.options, clusters, self.place)

    def _estimate_bags(self, positions: list[Indices]) -> list[Estimate]:
        sizes = np.array([len(p) for p in positions], dtype=np.int64)
        return list(self._estimate(np.concatenate(positions), offsets_of(sizes)))

    def _with_labels(self) -> RunEstimates:
        """Return estimates with labels, and plain ones of groups without a label."""
        labels = self.design.labels
        assert labels is not None, "the design has labels"
        spans = self._spans()
        has_labels = [bool((labels[span] != UNLABELLED).any()) for span in spans]
        labelled = self._labelled(
            [span for span, has in zip(spans, has_labels, strict=True) if has]
        )
        others = [
            np.arange(span.start, span.stop)
            for span, has in zip(spans, has_labels, strict=True)
            if not has
        ]
        plain = [self.merging.apply(e) for e in self._estimate_bags(others)] if others else []
        sources = iter(labelled), iter(plain)
        items: list[Estimate] = [next(sources[0] if has else sources[1]) for has in has_labels]
        return RunEstimates.plain(collect_estimates(items, self.request.options), items)

    def _labelled(self, spans: list[slice]) -> list[LabelledEstimate]:
        """Return the estimates of groups that have labels."""
        if not isinstance(self.model, Model):
            raise ValueError(
                "labels of groups need a method with rows and a matching (KDEyML, EMQ, PACC, ...), "
                "and this one combines several quantifiers"
            )
        if not spans:
            return []
        points = self.rows.points
        points = np.concatenate([points[span] for span in spans])
        samples = [self._sample(span) for span in spans]
        options = self.request.options
        return estimate_labelled_bags(self.model, points, samples, options, self.merging)

    def _sample(self, span: slice) -> LabelledSample:
        """Return the labelled sample of one group."""
        design = self.design.take(span)
        assert design.labels is not None, "the design has labels"
        positions = np.flatnonzero(design.labels != UNLABELLED)
        clusters = design.clusters
        return LabelledSample(
            size=len(design.labels),
            positions=positions,
            codes=design.labels[positions],
            n_classes=self.model.n_classes,
            weights=self.weights[span],
            selection=None if design.selection is None else design.selection[positions],
            clusters=None if clusters is None else _consecutive(clusters),
        )

    def _by_strata(self) -> RunEstimates:
        """Return the sums over strata, each of them a bag of its own."""
        strata = self.design.strata
        assert strata is not None, "the design has strata"
        positions: list[Indices] = []
        owners: list[int] = []
        for group, span in enumerate(self._spans()):
            codes = strata[span]
            for code in np.unique(codes).tolist():
                positions.append(span.start + np.flatnonzero(codes == code))
                owners.append(group)
        parts, owner = self._estimate_bags(positions), np.array(owners)
        items, counted, incomplete = [], [], []
        for group in range(len(self.sizes)):
            chosen = np.flatnonzero(owner == group)
            total, counts, known = self._combine(
                [parts[i] for i in chosen], [positions[i] for i in chosen]
            )
            items.append(self.merging.apply(total))
            counted.append(self.merging.matrix @ counts)
            incomplete.append(known < 1.0 - 1e-9)
        estimates = collect_estimates(items, self.request.options)
        return RunEstimates(estimates, np.array(counted), np.array(incomplete), items)

    def _combine(
        self, parts: list[Estimate], positions: list[Indices]
    ) -> tuple[Estimate, Array, float]:
        """Return the estimate of a group, its shares of decisions, and the known share present."""
        weights, known, options = self.weights, self.design.shares, self.request.options
        between, present = None, 1.0
        if known is not None:
            shares = np.array([known[p[0]] for p in positions])
            present = float(shares.sum())
        else:
            shares = np.array([weights[p].sum() for p in positions])
            if options.target == "population":
                rows = np.concatenate(positions)
                clusters = self.design.clusters
                between = share_covariance(
                    np.array([part.estimate for part in parts]),
                    np.repeat(np.arange(len(positions)), [len(p) for p in positions]),
                    weights[rows],
                    None if clusters is None else clusters[rows],
                )
        total = combine_strata(parts, shares, between, options.random_state)
        counts = [part.classify_and_count for part in parts]
        unknown = np.full(len(total.estimate), np.nan)
        counted = np.array([unknown if count is None else count for count in counts])
        return total, np.asarray(shares / shares.sum() @ counted), present


def _consecutive(codes: Indices) -> Indices:
    """Return codes numbered from zero without gaps."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
