r"""Sums of estimates: of classes that are merged after the fit, and of strata.

**Merged classes.** Classes that can hardly be told apart have errors that nearly cancel in their
sum, so that its interval follows from the covariance of the errors, or from the bootstrap draws,
and not from the intervals of the classes. The variance of a sum depends on the sum: that of an
absent one is nearly zero, and the width of an interval by it would be too. The interval is
therefore all t whose distance from the centre is at most q standard errors at t, where the classes
share t, and the others the rest, as estimated. A sum of all classes but one has the interval
of that class, mirrored.

**Strata.** Every stratum is a bag of its own, with prevalence :math:`\alpha_h`. The prevalence of
the population is

.. math:: \alpha = \sum_h W_h \alpha_h

where W_h are the shares of the strata in the population: known ones, or those of the (weighted)
instances. Draws from different strata are independent, but all strata are estimated by the same
templates, whose errors add up:

.. math:: V = \sum_h W_h^2 (V_h - E_{hh}) + \sum_{g, h} W_g W_h E_{gh} + B

with V_h the covariance of stratum h and E_gh that of the template errors of two strata. B is the
part of estimated shares: the covariance of :math:`\sum_h \hat W_h \alpha_h`, zero for known
shares and where the target is the bag itself. Label shift is needed within each stratum only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, SampledBag
from kdey.intervals.bootstrap import bootstrap_interval
from kdey.intervals.estimate import Decisions, Estimate, Estimates
from kdey.intervals.label_noise import NoiseRates, NoisyShares
from kdey.intervals.moments import smoothed
from kdey.intervals.profile import student_tail, upper_quantile, wilson
from kdey.intervals.region import (
    Region,
    Uncertainty,
    hotelling,
    region_from_covariance,
    region_from_draws,
    whole_simplex,
)
from kdey.model import Model
from kdey.options import Options, interval_tail
from kdey.rows.posterior import one_hot_argmax
from kdey.validation import check_classes

#: Intervals that are wider than this exclude hardly any share.
_VAGUE = 0.95
#: Steps of the iteration for an end of the interval of a sum; it converges like that of Wilson's.
_STEPS = 6


@dataclass(frozen=True, eq=False)
class Merging:
    """Groups of classes, in the order in which they are shown.

    Attributes
    ----------
    names : array of shape (g,)
        The labels of the groups.
    matrix : array of shape (g, k)
        Entry (j, i) is one if group j contains class i, otherwise zero.
    noise : NoiseRates or None
        What is known of wrong training labels, of which shares are freed.
    """

    names: NDArray[Any]
    matrix: Array
    noise: NoiseRates | None = None

    @classmethod
    def asked(
        cls, merge: Mapping[Any, Any] | None, classes: NDArray[Any], options: Options
    ) -> Merging:
        """Return the groups, single classes by default, and the label noise of the options."""
        groups = cls.identity(classes) if merge is None else cls.of(merge, classes)
        return replace(groups, noise=NoiseRates.of(options, classes))

    @classmethod
    def of(cls, merge: Mapping[Any, Any], classes: NDArray[Any]) -> Merging:
        """Return the groups that a mapping describes.

        Parameters
        ----------
        merge : mapping from new label to a class or a sequence of classes
            Groups are shown in the order of the mapping, followed by the classes that it does not
            name, which stay by themselves. ``{"b": "b", "a": "a"}`` therefore only sets the order.
        classes : array of shape (k,)

        Returns
        -------
        Merging

        Raises
        ------
        ValueError
            If the mapping is empty, names a class that does not exist or occurs twice, or gives
            two groups the same label.
        """
        if not isinstance(merge, Mapping) or not merge:
            raise ValueError(
                "merge must map new labels to the classes that they stand for, such as "
                f"{{'pets': ['cat', 'dog']}}, got {merge!r}"
            )
        known = np.asarray(classes).tolist()
        groups = {name: _members(name, members, known) for name, members in merge.items()}
        used = [label for members in groups.values() for label in members]
        for label in used:
            if used.count(label) > 1:
                raise ValueError(f"merge uses class {label!r} twice")
        rest = [label for label in known if label not in used]
        for label in rest:
            if label in groups:
                raise ValueError(
                    f"merge calls a group {label!r}, which is also the label of a class outside "
                    "the group: choose another label"
                )
            groups[label] = [label]
        _refuse_same_texts(list(groups))
        if len(groups) < 2:
            raise ValueError("merge puts all classes into one group, whose share is always one")
        matrix = np.array([[float(label in m) for label in known] for m in groups.values()])
        return cls(_label_array(list(groups)), matrix)

    @classmethod
    def identity(cls, classes: NDArray[Any]) -> Merging:
        """Return the groups of one class each, in the order of the classes."""
        return cls(np.asarray(classes), np.eye(len(classes)))

    @property
    def is_identity(self) -> bool:
        """Whether every group is a class, and all are in their place; names may differ."""
        g, k = self.matrix.shape
        return g == k and bool((self.matrix == np.eye(k)).all())

    @property
    def is_plain(self) -> bool:
        """Whether every group is a class, and labels count as right."""
        return self.is_identity and self.noise is None

    def apply(self, estimate: Estimate) -> Estimate:
        """Return the estimate of the groups, with the intervals of their sums.

        A group of a single class keeps the interval of the class, and a group of all classes but
        one has what that class leaves. Intervals that tell nothing have a note.

        Parameters
        ----------
        estimate : Estimate

        Returns
        -------
        Estimate
        """
        inner = estimate.uncertainty
        if isinstance(inner, NoisyUncertainty):
            # The bounds on sums follow from the labels, and not from those on their parts.
            members = self.matrix @ inner.members
            return replace(self, matrix=members, noise=inner.noise).apply(inner.plain)
        if self.noise is not None:
            return self._without_noise(estimate, self.noise)
        if self.is_identity:
            return replace(estimate, classes=self.names)
        shares = self.matrix @ estimate.estimate
        uncertainty = MergedUncertainty(estimate.uncertainty, self.matrix)
        low, high = intervals_of_sums(shares, uncertainty, estimate)
        if uncertainty.bootstrap_draws() is None:
            low, high = self._widened(low, high, estimate)
        members = self.matrix.sum(axis=1)
        rest = 1.0 - self.matrix
        single, all_but_one = members == 1, members == self.matrix.shape[1] - 1
        first, last = estimate.low, estimate.high
        low = np.where(all_but_one, 1.0 - rest @ last, low)
        high = np.where(all_but_one, 1.0 - rest @ first, high)
        low = np.where(single, self.matrix @ first, low)
        high = np.where(single, self.matrix @ last, high)
        low, high = np.minimum(low, shares), np.maximum(high, shares)
        notes = [*estimate.notes, *self._notes(high - low, members > 1)]
        return replace(
            estimate,
            classes=self.names,
            estimate=shares,
            low=low,
            high=high,
            diagnostics={**estimate.diagnostics, "notes": notes},
            training_prevalence=self.matrix @ estimate.training_prevalence,
            uncertainty=uncertainty,
            decisions=self.decisions(estimate.decisions),
        )

    def _without_noise(self, plain: Estimate, noise: NoiseRates) -> Estimate:
        """Return the estimate of groups of true classes; see ``label_noise.py``."""
        merged = replace(self, noise=None).apply(plain)
        found = noise.corrected(plain, merged, self.matrix)
        return replace(
            merged,
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            diagnostics={**merged.diagnostics, "notes": [*merged.notes, noise.note]},
            uncertainty=NoisyUncertainty(
                plain.uncertainty, found.matrix, self.matrix, noise, found, plain
            ),
        )

    def _notes(self, widths: Array, is_sum: NDArray[np.bool_]) -> list[str]:
        """Return a sentence about sums whose intervals exclude hardly any share, and why."""
        vague = self.names[is_sum & (widths > _VAGUE)].tolist()
        if not vague:
            return []
        return [
            f"the intervals of {', '.join(map(str, vague))} exclude hardly any share: the error of "
            "a sum follows from that of its classes, some of which can hardly be told apart from "
            "other classes; put those into the same group"
        ]

    def _widened(self, low: Array, high: Array, estimate: Estimate) -> tuple[Array, Array]:
        """Return intervals with ends q standard errors from the centre by the variance there."""
        inner, (g, k) = estimate.uncertainty, self.matrix.shape
        centre = inner.centre()
        if centre is None or not np.isfinite(inner.covariance()).all():
            return low, high
        mix = smoothed(estimate.estimate, estimate.diagnostics.get("effective_size", estimate.size))
        quantile = upper_quantile(
            interval_tail(estimate.confidence, estimate.simultaneous, g), inner.freedom()
        )
        low, high = low.copy(), high.copy()
        for row, members in enumerate(self.matrix):
            middle = float(members @ centre)
            for ends, side in ((low, -1.0), (high, 1.0)):
                t = float(ends[row])
                for _ in range(_STEPS):
                    there = _with_share(mix, members, min(max(t, 0.5 / k / estimate.size), 1.0))
                    covariance = inner.covariance_at(there)
                    if covariance is None:
                        break
                    error = np.sqrt(max(float(members @ covariance @ members), 0.0))
                    t = min(max(middle + side * quantile * error, 0.0), 1.0)
                ends[row] = min(ends[row], t) if side < 0 else max(ends[row], t)
        return low, high

    def apply_all(self, estimates: Estimates) -> Estimates:
        """Return the estimates of the groups of many bags, as :meth:`apply` does of one."""
        if self.is_plain and not estimates.options.has_label_noise:
            return replace(estimates, classes=self.names)
        if estimates.labelled is not None or estimates.separate is not None:
            raise ValueError(
                "groups that are pooled, or estimated with labels, are merged where they are "
                "estimated: predict_groups(..., merge=...)"
            )
        merged = [self.apply(estimate) for estimate in estimates]
        shape = (len(merged), len(self.names))
        inner, matrix, counted = estimates.uncertainty_of, self.matrix, estimates.counted

        numbers = estimates.positions.tolist()
        noisy: dict[int, Estimate] = {}
        if estimates.options.has_label_noise:
            noisy = dict(zip(numbers, merged, strict=True))

        def uncertainty_of(position: int) -> Uncertainty:
            if noisy:
                return noisy[position].uncertainty
            return MergedUncertainty(inner(position), matrix)

        return replace(
            estimates,
            classes=self.names,
            estimate=np.reshape([part.estimate for part in merged], shape),
            low=np.reshape([part.low for part in merged], shape),
            high=np.reshape([part.high for part in merged], shape),
            training_prevalence=matrix @ estimates.training_prevalence,
            uncertainty_of=uncertainty_of,
            decisions=self.decisions(estimates.decisions),
            counted=None if counted is None else counted @ matrix.T,
            notes=[list(part.notes) for part in merged],
        )

    def decisions(self, decisions: Decisions | None) -> Decisions | None:
        """Return the decisions for groups; None if there are none."""
        if decisions is None or self.is_identity:
            return decisions
        return replace(decisions, posteriors=one_hot_argmax(decisions.posteriors) @ self.matrix.T)


@dataclass(frozen=True, eq=False)
class MergedUncertainty(Uncertainty):
    """The uncertainty of sums of classes.

    Attributes
    ----------
    inner : Uncertainty
        That of the classes.
    matrix : array of shape (g, k)
        The classes of each group, as in :class:`Merging`.
    """

    inner: Uncertainty
    matrix: Array
    method: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", self.inner.method)  # the class is frozen

    @property
    def template_noise(self) -> bool:
        """Whether the intervals include the uncertainty that a limited training set leaves."""
        return self.inner.template_noise

    @property
    def shared_model(self) -> Model | None:
        """The fitted model whose template errors the intervals include, or None."""
        return self.inner.shared_model

    def bootstrap_draws(self) -> Array | None:
        """Return bootstrap draws of the groups, shape (n_replicates, g), or None."""
        draws = self.inner.bootstrap_draws()
        return None if draws is None else draws @ self.matrix.T

    def corrected(self) -> Array | None:
        """Return the estimate without smoothing and calibration bias, shape (g,), or None."""
        corrected = self.inner.corrected()
        return None if corrected is None else self.matrix @ corrected

    def centre(self) -> Array | None:
        """Return the estimate before it was moved into the simplex, shape (g,), or None."""
        centre = self.inner.centre()
        return None if centre is None else self.matrix @ centre

    def freedom(self) -> float:
        """Return the degrees of freedom of the covariance."""
        return self.inner.freedom()

    @property
    def n_labels(self) -> float:
        """Number of error-free labels than which the region must not know more."""
        return self.inner.n_labels

    def covariance(self) -> Array:
        """Return the covariance of the error, shape (g, g)."""
        return np.asarray(self.matrix @ self.inner.covariance() @ self.matrix.T)

    def region(self, confidence: float) -> Region:
        """Return the joint region of all groups."""
        draws, centre = self.bootstrap_draws(), self.centre()
        if draws is not None:
            middle, freedom = draws.mean(axis=0), self.freedom()
            return region_from_draws(middle, draws, confidence, self.n_labels, freedom)
        if centre is None:
            return whole_simplex(len(self.matrix), confidence)
        return region_from_covariance(centre, self.covariance(), self.freedom(), confidence)


@dataclass(frozen=True, eq=False)
class NoisyUncertainty(MergedUncertainty):
    """The uncertainty of sums of true classes, estimated from training labels that are wrong.

    Covariance and draws are those of sampling; the region holds for every noise that is possible.

    Attributes
    ----------
    members : array of shape (g, k)
        The classes of each sum; ``matrix`` has the coefficients of the apparent shares.
    noise : NoiseRates
    found : NoisyShares
    plain : Estimate
        Of the labels as they are.
    """

    members: Array
    noise: NoiseRates
    found: NoisyShares
    plain: Estimate

    @property
    def is_open(self) -> bool:
        """Whether shares are not known even without an error of sampling."""
        return bool((self.found.spread > 0).any())

    def region(self, confidence: float) -> Region:
        """Return the joint region of all sums.

        What noise leaves open is put into an ellipsoid, and the region is the smallest of a family
        that contains its sum with that of sampling.
        """
        if not self.is_open:
            return super().region(confidence)
        apparent = self.inner.centre()
        apparent = self.plain.estimate if apparent is None else apparent
        middle, g = self.found.middle, len(self.matrix)
        covariance = middle @ self.inner.covariance() @ middle.T
        if not np.isfinite(covariance).all():
            return whole_simplex(g, confidence)
        freedom = self.inner.freedom()
        open_part = (
            np.diag(self.found.spread**2) * g / hotelling(max(g - 1, 1), freedom, confidence)
        )
        ratio = np.sqrt(np.trace(open_part) / max(float(np.trace(covariance)), 1e-300))
        total = covariance * (1.0 + ratio) + open_part * (1.0 + 1.0 / ratio)
        return region_from_covariance(middle @ apparent, total, freedom, confidence)


def _with_share(mix: Array, members: Array, t: float) -> Array:
    """Return the prevalence (k,) that gives some classes the share t, in proportion to mix."""
    inside = float(members @ mix)
    return np.asarray(mix * np.where(members > 0, t / inside, (1.0 - t) / (1.0 - inside)))


def _members(name: Any, members: Any, known: list[Any]) -> list[Any]:
    """Return the classes of one group, or raise ValueError."""
    listed = np.asarray(members).tolist() if isinstance(members, np.ndarray) else members
    several = isinstance(listed, Sequence) and not isinstance(listed, str)
    labels = list(listed) if several else [listed]
    if not labels:
        raise ValueError(f"merge gives the group {name!r} no class")
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise ValueError(f"merge: the group {name!r} has {unknown[:5]}, which are no classes")
    return labels


def _refuse_same_texts(names: list[Any]) -> None:
    """Raise where two labels are the same once written, as in the columns of a wide table."""
    texts: dict[str, Any] = {}
    for name in names:
        other = texts.setdefault(str(name), name)
        if other is not name:
            raise ValueError(
                f"merge gives the labels {other!r} and {name!r}, which are the same once written: "
                "choose another label"
            )


def _label_array(names: list[Any]) -> NDArray[Any]:
    """Return labels as an array that keeps their types: 1 and "1" stay different."""
    if len({type(name) for name in names}) == 1:
        return check_classes(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def intervals_of_sums(
    shares: Array, uncertainty: Uncertainty, estimate: Estimate
) -> tuple[Array, Array]:
    """Return the intervals of sums of shares, by their draws or by their covariance.

    Parameters
    ----------
    shares : array of shape (g,)
    uncertainty : Uncertainty
        That of the sums.
    estimate : Estimate
        What is summed: it says confidence, target and size.

    Returns
    -------
    low, high : arrays of shape (g,)
    """
    g = len(shares)
    tail = interval_tail(estimate.confidence, estimate.simultaneous, g)
    draws = uncertainty.bootstrap_draws()
    if draws is not None:
        own = float(student_tail(tail, np.array([uncertainty.freedom()]))[0])
        low, high = bootstrap_interval(shares, draws, own, "percentile")
    else:
        variance = np.diag(uncertainty.covariance())
        quantile = upper_quantile(tail, uncertainty.freedom())
        known = uncertainty.centre()
        centre = shares if known is None else known
        half = quantile * np.sqrt(np.maximum(variance, 0.0))
        unknown = ~np.isfinite(half)
        low = np.where(unknown, 0.0, np.clip(centre - half, 0.0, 1.0))
        high = np.where(unknown, 1.0, np.clip(centre + half, 0.0, 1.0))
    if estimate.target == "population":
        size = np.array([[estimate.diagnostics.get("effective_size", estimate.size)]])
        first, last = wilson(shares[None], size, tail)
        low, high = np.minimum(low, first[0]), np.maximum(high, last[0])
    return low, high


@dataclass(frozen=True, eq=False)
class StratifiedUncertainty(Uncertainty):
    """The uncertainty of a weighted sum of strata.

    Attributes
    ----------
    parts : sequence of Uncertainty
        Those of the strata.
    estimates : array of shape (H, k)
    shares : array of shape (H,)
        They sum to one.
    between : array of shape (k, k)
        The part B of estimated shares.
    seed : int
        Seed of the draws of B, where the strata have bootstrap draws.
    """

    parts: Sequence[Uncertainty]
    estimates: Array
    shares: Array
    between: Array
    seed: int = 0
    method: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        methods = {part.method for part in self.parts if part.method != "none"}
        name = methods.pop() if len(methods) == 1 else "none"
        object.__setattr__(self, "method", name)  # the class is frozen

    @property
    def template_noise(self) -> bool:
        """Whether the intervals include the uncertainty that a limited training set leaves."""
        return all(part.template_noise for part in self.parts)

    @property
    def shared_model(self) -> Model | None:
        """The fitted model that all strata share, or None."""
        return self.parts[0].shared_model

    def bootstrap_draws(self) -> Array | None:
        """Return bootstrap draws, shape (n_replicates, k), or None.

        The strata share the replicates of the training data draw by draw.
        """
        draws = [part.bootstrap_draws() for part in self.parts]
        known = [values for values in draws if values is not None]
        if len(known) < len(draws):
            return None
        total = np.tensordot(self.shares, np.array(known), axes=1)
        if self.between.any():
            rng = np.random.default_rng(self.seed)
            values, vectors = np.linalg.eigh(self.between)
            noise = rng.standard_normal(total.shape) * np.sqrt(np.maximum(values, 0.0))
            total = total + noise @ vectors.T
        return np.asarray(total)

    def centre(self) -> Array:
        """Return the estimate before it was moved into the simplex, shape (k,)."""
        centres = [part.centre() for part in self.parts]
        values = [
            estimate if centre is None else centre
            for estimate, centre in zip(self.estimates, centres, strict=True)
        ]
        return np.asarray(self.shares @ np.array(values))

    def freedom(self) -> float:
        """Return the degrees of freedom of the covariance (Satterthwaite)."""
        sizes = self.shares**2 * np.array([np.trace(v) for v in self._covariances()])
        degrees = np.array([part.freedom() for part in self.parts])
        total, uncertain = sizes.sum() + np.trace(self.between), (sizes**2 / degrees).sum()
        return float(max(total**2 / uncertain, 1.0)) if uncertain > 0 else np.inf

    @property
    def n_labels(self) -> float:
        """Number of labels of one random draw with the variance of those of all strata."""
        variance = float((self.shares**2 / [part.n_labels for part in self.parts]).sum())
        return 1.0 / variance if variance > 0 else np.inf

    def covariance(self) -> Array:
        """Return the covariance V of the formula at the top of this file, shape (k, k)."""
        total = self.between + np.tensordot(self.shares**2, self._covariances(), axes=1)
        for h, first in enumerate(self.parts):
            for g, second in enumerate(self.parts[:h]):
                covariance = first.template_covariance(second)
                if covariance is not None:
                    cross = self.shares[g] * self.shares[h] * covariance
                    total = total + cross + cross.T
        return np.asarray(total)

    def template_covariance(self, other: Uncertainty | None = None) -> Array | None:
        """Return the covariance of the errors that templates cause with those of another sum."""
        theirs = self if other is None else other
        if not isinstance(theirs, StratifiedUncertainty):
            return None
        k = len(self.between)
        total = np.zeros((k, k))
        for share, part in zip(self.shares, self.parts, strict=True):
            for weight, second in zip(theirs.shares, theirs.parts, strict=True):
                covariance = part.template_covariance(second)
                if covariance is None:
                    return None
                total += share * weight * covariance
        return total

    def _covariances(self) -> Array:
        """Return the covariances of the strata, shape (H, k, k)."""
        covariances = np.array([part.covariance() for part in self.parts])
        # Nothing is known about a stratum of one instance or cluster: every class has the largest
        # variance that a share can have.
        k = covariances.shape[1]
        unknown = ~np.isfinite(covariances).all(axis=(1, 2))
        covariances[unknown] = 0.25 * (np.eye(k) - 1.0 / k) * k / (k - 1)
        return covariances

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        draws = self.bootstrap_draws()
        if draws is not None:
            inside = np.clip(draws, 0.0, None)
            inside /= inside.sum(axis=1, keepdims=True)
            estimate = self.shares @ self.estimates
            return region_from_draws(estimate, inside, confidence, self.n_labels, self.freedom())
        return region_from_covariance(self.centre(), self.covariance(), self.freedom(), confidence)


def combine_strata(
    parts: Sequence[Estimate],
    shares: Array,
    between: Array | None = None,
    seed: int = 0,
    effect: float = 1.0,
) -> Estimate:
    """Return the estimate of a population from those of its strata.

    Parameters
    ----------
    parts : sequence of H Estimate
        By one quantifier, with the same options.
    shares : array of shape (H,)
        Shares of the strata in the population, positive; they are scaled to sum to one.
    between : array of shape (k, k), optional
        Covariance that estimated shares add, as :func:`share_covariance` returns it.
    seed : int
    effect : float
        How much larger clusters with rows in several strata make the variance, as
        ``crossing_effect`` returns it.

    Returns
    -------
    Estimate
        Without the classifier's decisions.

    Raises
    ------
    ValueError
        If there is no stratum, or not one positive share for each.
    """
    w = np.asarray(shares, dtype=np.float64)
    if len(parts) == 0 or w.shape != (len(parts),) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("strata need one positive share each")
    w = w / w.sum()
    estimates = np.array([part.estimate for part in parts])
    k = estimates.shape[1]
    extra = np.zeros((k, k)) if between is None else between
    uncertainty = StratifiedUncertainty(
        [part.uncertainty for part in parts], estimates, w, extra, seed
    )
    if effect > 1.0:
        extra = extra + (effect - 1.0) * np.tensordot(w**2, uncertainty._covariances(), axes=1)
        uncertainty = replace(uncertainty, between=extra)
    sizes = np.array([part.diagnostics["effective_size"] for part in parts])
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    marks = dict.fromkeys(m for part in parts for m in part.diagnostics.get("marks", ()))
    total = replace(
        parts[0],
        estimate=w @ estimates,
        size=sum(part.size for part in parts),
        gap=float(w @ [part.gap for part in parts]),
        converged=all(part.converged for part in parts),
        uncertainty=uncertainty,
        decisions=None,
        number=0,
        checks=None,
        diagnostics={
            "effective_size": float(1.0 / (w**2 / sizes).sum()),
            "notes": list(notes),
            "marks": tuple(marks),
        },
    )
    low, high = intervals_of_sums(total.estimate, uncertainty, total)
    return replace(
        total, low=np.minimum(low, total.estimate), high=np.maximum(high, total.estimate)
    )


def share_covariance(
    estimates: Array, strata: Indices, weights: Array, clusters: Indices | None = None
) -> Array:
    """Return the covariance that estimated shares of strata add, shape (k, k).

    Parameters
    ----------
    estimates : array of shape (H, k)
        Prevalences of the strata.
    strata : int array of shape (m,)
        Number of the stratum of each instance, from 0 to H - 1.
    weights : array of shape (m,)
    clusters : int array of shape (m,), optional
        Number of the cluster of each instance; without clusters every instance is drawn alone.

    Returns
    -------
    array of shape (k, k)
    """
    w = weights / weights.sum()
    influence = w[:, None] * (estimates[strata] - w @ estimates[strata])
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        sums = np.zeros((int(codes.max()) + 1, estimates.shape[1]))
        np.add.at(sums, codes, influence)
        influence = sums
    n = len(influence)
    return np.asarray(influence.T @ influence * n / max(n - 1, 1))


def crossing_effect(
    scores: Array | None, shares: Array, strata: Indices, weights: Array, clusters: Indices
) -> float:
    """Return how much larger a variance is for clusters that have rows in several strata.

    Parameters
    ----------
    scores : array of shape (m, k) or None
        Posteriors, whose sums by clusters are compared with those by clusters and strata.
    shares : array of shape (H,)
        Shares of the strata in the population; they are scaled to sum to one.
    strata, weights, clusters : arrays of shape (m,)
        The stratum of each instance from 0 to H - 1, its weight, and its cluster.
    """
    pairs = np.unique(np.stack([strata, clusters]), axis=1, return_inverse=True)[1].ravel()
    if pairs.max() + 1 == len(np.unique(clusters)):
        return 1.0
    if scores is None:
        raise ValueError(
            "a cluster has rows in several strata, for which methods without posteriors cannot "
            "allow: leave the strata or the clusters out"
        )
    own = weights / np.bincount(strata, weights)[strata]
    means = np.array([own[strata == h] @ scores[strata == h] for h in range(len(shares))])
    centred, own = scores - means[strata], own * (shares / shares.sum())[strata]
    codes = np.unique(clusters, return_inverse=True)[1]
    rows = np.arange(len(strata))
    drawn = SampledBag(rows, own, codes).linearised_variance(centred)
    apart = SampledBag(rows, own, pairs, strata=strata).linearised_variance(centred)
    return float((drawn / np.maximum(apart, 1e-300)).max(initial=1.0, where=apart > 1e-20))
