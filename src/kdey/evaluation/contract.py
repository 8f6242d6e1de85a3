"""Checks of quantifiers: that every one must pass, and of what its training data say about it.

In the manner of scikit-learn's ``check_estimator``, each check is a function of an unfitted
quantifier that raises ``AssertionError``, with a sentence that says what was expected. Run all of
them with :func:`check_quantifier`, or pass the list :func:`quantifier_checks` to
``pytest.mark.parametrize``.

:class:`TrainingSummary` says in a few lines what a fitted quantifier can be expected to do. Its
training posteriors come from models that had not seen their instances. Templates made from one half
of them are tried on bags drawn from the other half, so that the error is that of new bags.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kdey.bags import Array, Indices
from kdey.diagnostics import identifiability
from kdey.native import thread_count
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier

Check = Callable[[Any], None]
#: Two ways to compute the same estimate may differ by rounding and by the solver's tolerance.
TOLERANCE = 1e-5
#: Checks of scikit-learn's ``check_estimator`` that no map from bags to vectors can pass, for its
#: parameter ``expected_failed_checks``.
EXPECTED_FAILED_CHECKS = {
    "check_methods_sample_order_invariance": "predict maps a bag, not a row",
    "check_methods_subset_invariance": "predict maps a bag, not a row",
    "check_estimator_sparse_array": "wants one prediction per row",
    "check_estimator_sparse_matrix": "wants one prediction per row",
}


def check_quantifier(quantifier: BaseQuantifier, *, n_classes: int = 3) -> None:
    """Run every check on ``quantifier``.

    Parameters
    ----------
    quantifier : quantifier
        Unfitted; cloned for every check.
    n_classes : int
        Classes of the test data; 2 for binary quantifiers.

    See Also
    --------
    kdey.compose : Make a method of rows and a matching.

    Examples
    --------
    >>> import kdey
    >>> kdey.evaluation.check_quantifier(kdey.PCC())  # raises AssertionError if something is wrong
    """
    for check in quantifier_checks(quantifier, n_classes=n_classes):
        check(quantifier)


def quantifier_checks(quantifier: BaseQuantifier, *, n_classes: int = 3) -> list[Check]:
    """Return the checks that apply to ``quantifier``, each a function of it."""
    checks = list(_CHECKS)
    if quantifier._takes_posteriors:
        checks += _POSTERIOR_CHECKS
    if quantifier.orders_classes and check_class_order in checks:
        checks.remove(check_class_order)
    return [_named(check, n_classes) for check in checks]


def check_returns_prevalences(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that the estimate of a bag is a point of the simplex, in the order of ``classes_``."""
    q, X = _fitted(quantifier, n_classes)
    assert list(q.classes_) == list(range(n_classes)), "classes_ must hold the sorted labels"
    _assert_prevalence(q.predict(X), n_classes)
    _assert_prevalence(q.predict(X[:1]), n_classes)


def check_bags_equal_loop(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that estimates of many bags at once equal those of each bag by itself."""
    q, X = _fitted(quantifier, n_classes)
    rng = np.random.default_rng(3)
    bags = [rng.integers(len(X), size=size) for size in (1, 7, 60, 120)]
    together = q.predict_bags(X, bags)
    alone = np.array([q.predict(X[bag]) for bag in bags])
    _assert_close(together, alone, "predict_bags must agree with predict on each bag")


def check_order_does_not_matter(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that bags are multisets: the order of their instances does not matter."""
    q, X = _fitted(quantifier, n_classes)
    shuffled = X[np.random.default_rng(5).permutation(len(X))]
    _assert_close(q.predict(X), q.predict(shuffled), "the order of a bag must not matter")


def check_repetition_equals_weight(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that a weight equals as many repetitions, and repeating a whole bag changes nothing."""
    q, X = _fitted(quantifier, n_classes)
    counts = np.random.default_rng(9).integers(0, 4, size=len(X))
    repeated = np.repeat(X, counts, axis=0)
    _assert_close(
        q.predict(X, sample_weight=counts), q.predict(repeated), "weights must equal repetition"
    )
    _assert_close(q.predict(X), q.predict(np.tile(X, (2, 1))), "a doubled bag must not differ")


def check_labels_are_names(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that labels are names only: strings give the same estimates as integers."""
    X, y = _data(n_classes)
    names = np.array([f"class {label}" for label in range(n_classes)])
    by_code = _seeded(quantifier).fit(X, y)
    by_name = _seeded(quantifier).fit(X, names[y])
    assert list(by_name.classes_) == list(names), "classes_ must hold the labels as given"
    _assert_close(by_code.predict(X), by_name.predict(X), "names of classes must not matter")


def check_clone_and_pickle(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that clones and pickles agree, and that fitting changes no parameters and no inputs."""
    X, y = _data(n_classes)
    X_before, y_before = X.copy(), y.copy()
    q = _seeded(quantifier)
    before = q.get_params(deep=False)
    q.fit(X, y)
    after = q.get_params(deep=False)
    assert all(before[name] is after[name] for name in before), "fit must not change parameters"
    expected = q.predict(X)
    assert (X_before == X).all(), "fit and predict must not change X"
    assert (y == y_before).all(), "fit must not change y"
    _assert_close(
        pickle.loads(pickle.dumps(q)).predict(X), expected, "a pickle must estimate the same", 0.0
    )
    _assert_close(clone(q).fit(X, y).predict(X), expected, "a clone must estimate the same", 1e-9)


def check_refuses_bad_bags(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that unfitted use, empty bags, NaN and wrong shapes raise."""
    X, y = _data(n_classes)
    q = _seeded(quantifier)
    _assert_raises(NotFittedError, lambda: q.predict(X), "an unfitted quantifier must say so")
    q.fit(X, y)
    _assert_raises(ValueError, lambda: q.predict(X[:0]), "an empty bag must be refused")
    _assert_raises(ValueError, lambda: q.predict_bags(X, [[]]), "an empty bag must be refused")
    _assert_raises(ValueError, lambda: q.predict_bags(X, [[len(X)]]), "positions must be checked")
    _assert_raises(ValueError, lambda: q.predict(X[:, :2]), "missing features must be refused")
    _assert_raises(
        ValueError, lambda: q.predict(X, sample_weight=np.zeros(len(X))), "zero weights must raise"
    )


def check_refuses_bad_labels(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that one class only, and mismatched lengths, raise."""
    X, y = _data(n_classes)
    q = _seeded(quantifier)
    _assert_raises(ValueError, lambda: q.fit(X, np.zeros(len(X))), "one class must be refused")
    _assert_raises(ValueError, lambda: q.fit(X, y[:-1]), "mismatched lengths must be refused")


def check_posteriors_route(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that ``fit_posteriors`` and ``aggregate`` give prevalences, for one bag or many."""
    p, y = _posteriors(n_classes)
    q = _seeded(quantifier).fit_posteriors(p, y)
    _assert_prevalence(q.aggregate(p), n_classes)
    bags = [np.arange(50), np.arange(30, 90)]
    together = q.aggregate_bags(p, bags)
    alone = np.array([q.aggregate(p[bag]) for bag in bags])
    _assert_close(together, alone, "aggregate_bags must agree with aggregate on each bag")


def check_class_order(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that renaming the classes renames the entries of the answer, and nothing else."""
    p, y = _posteriors(n_classes)
    order = np.random.default_rng(2).permutation(n_classes)
    back = np.argsort(order)
    q = _seeded(quantifier).fit_posteriors(p, y)
    permuted = _seeded(quantifier).fit_posteriors(p[:, order], back[y])
    _assert_close(
        q.aggregate(p)[order],
        permuted.aggregate(p[:, order]),
        "renaming classes must rename the answer",
        _template_tolerance(q),
    )


def check_training_weights(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that a training weight equals as many repetitions of the instance."""
    p, y = _posteriors(n_classes)
    counts = np.random.default_rng(4).integers(1, 4, size=len(y))
    weighted = _seeded(quantifier).fit_posteriors(p, y, sample_weight=counts)
    repeated = _seeded(quantifier).fit_posteriors(
        np.repeat(p, counts, axis=0), np.repeat(y, counts)
    )
    _assert_close(
        weighted.aggregate(p),
        repeated.aggregate(p),
        "training weights must equal repetition",
        _template_tolerance(weighted),
    )


def check_refuses_bad_posteriors(quantifier: BaseQuantifier, *, n_classes: int) -> None:
    """Check that NaN, infinite, negative and unnormalised posteriors, and wrong columns, raise."""
    p, y = _posteriors(n_classes)
    q = _seeded(quantifier).fit_posteriors(p, y)
    for name, value in (("NaN", np.nan), ("infinite", np.inf), ("negative", -0.2)):
        bad = p.copy()
        bad[3, 0] = value
        _assert_raises(ValueError, partial(q.aggregate, bad), f"{name} posteriors must be refused")
        _assert_raises(
            ValueError,
            partial(_seeded(quantifier).fit_posteriors, bad, y),
            f"{name} training posteriors must be refused",
        )
    _assert_raises(ValueError, lambda: q.aggregate(2 * p), "unnormalised rows must be refused")
    _assert_raises(ValueError, lambda: q.aggregate(p[:, 1:]), "missing columns must be refused")
    _assert_raises(ValueError, lambda: q.aggregate(p[:0]), "an empty bag must be refused")
    _assert_raises(
        ValueError,
        lambda: _seeded(quantifier).fit_posteriors(p, y[:-1]),
        "mismatched lengths must be refused",
    )


_CHECKS: tuple[Callable[..., None], ...] = (
    check_returns_prevalences,
    check_bags_equal_loop,
    check_order_does_not_matter,
    check_repetition_equals_weight,
    check_labels_are_names,
    check_clone_and_pickle,
    check_refuses_bad_bags,
    check_refuses_bad_labels,
)
_POSTERIOR_CHECKS: tuple[Callable[..., None], ...] = (
    check_posteriors_route,
    check_class_order,
    check_training_weights,
    check_refuses_bad_posteriors,
)


def _named(check: Callable[..., None], n_classes: int) -> Check:
    bound = partial(check, n_classes=n_classes)
    bound.__name__ = check.__name__  # type: ignore[attr-defined]
    return bound


def _seeded(quantifier: BaseQuantifier) -> Any:
    copy = clone(quantifier)
    seeds = {name: 0 for name in copy.get_params() if name.endswith("random_state")}
    return copy.set_params(**seeds)


def _fitted(quantifier: BaseQuantifier, n_classes: int) -> tuple[Any, NDArray[np.float64]]:
    X, y = _data(n_classes)
    return _seeded(quantifier).fit(X, y), X


def _data(n_classes: int, n: int = 240) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return overlapping Gaussian classes of unequal size, features (n, 4) and labels."""
    rng = np.random.default_rng(7)
    weights = np.arange(2, n_classes + 2) / np.arange(2, n_classes + 2).sum()
    y = np.sort(rng.choice(n_classes, size=n, p=weights))
    centres = rng.normal(scale=1.5, size=(n_classes, 4))
    order = rng.permutation(n)
    X = centres[y] + rng.normal(size=(n, 4))
    return X[order], y[order].astype(np.int64)


def _posteriors(n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return posteriors (240, k) that favour the class of their label."""
    y = _data(n_classes)[1]
    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(n_classes), size=len(y))
    p = 0.5 * p + 0.5 * np.eye(n_classes)[y] * rng.random((len(y), 1))
    return p / p.sum(axis=1, keepdims=True), y


def _template_tolerance(quantifier: BaseQuantifier) -> float:
    """Return how much estimates may differ between fits on equivalent training data.

    Methods that draw random numbers at ``fit`` draw others from equivalent data.
    """
    return 0.1 if quantifier._draws_at_fit else 1e-4


def _assert_close(a: Any, b: Any, sentence: str, tolerance: float = TOLERANCE) -> None:
    worst = float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
    assert worst <= tolerance, f"{sentence}: they differ by {worst:.3g}"


def _assert_prevalence(prevalence: NDArray[np.float64], k: int) -> None:
    assert prevalence.shape == (k,), f"predict must return shape ({k},), got {prevalence.shape}"
    assert np.isfinite(prevalence).all(), "predict must return finite numbers"
    assert (prevalence >= 0).all(), "predict must return non-negative numbers"
    assert abs(prevalence.sum() - 1) < 1e-9, "predict must return numbers that sum to one"


def _assert_raises(
    error: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any], sentence: str
) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(sentence)


#: Labels of a class below which intervals are wide and estimates may lean on a few instances.
FEW_LABELS = 20
#: Training posteriors of each half that are used at most: more would take long and change little.
MOST_ROWS = 3000
#: Bags that are tried, and their size.
N_BAGS, BAG_SIZE = 100, 100
#: An error above this share of that of equal shares says that little can be learnt, unless
#: decisions, most of which are on frequent classes, close more than the rest of the gap.
POOR = 0.7


@dataclass(frozen=True, eq=False)
class TrainingSummary:
    """How well classes can be told apart, by the training data of a quantifier.

    Attributes
    ----------
    classes : array of shape (k,)
    counts : int64 array of shape (k,)
        Labels of each class.
    accuracy : float or None
        Share of right decisions on instances that the classifier had not seen; None if the
        quantifier keeps no training posteriors.
    error : float or None
        Mean absolute error of a prevalence in bags of held-out instances, with prevalences uniform
        on the simplex; None where it could not be had.
    error_of_equal_shares : float or None
        The same for the answer that all classes are equally frequent.
    inseparable : tuple of (class, class, affinity)
        Pairs of classes that can hardly be told apart (:func:`kdey.identifiability`).
    """

    classes: NDArray[Any]
    counts: Indices
    accuracy: float | None = None
    error: float | None = None
    error_of_equal_shares: float | None = None
    inseparable: tuple[tuple[Any, Any, float], ...] = ()

    @classmethod
    def of(cls, quantifier: AggregativeQuantifier, seed: int = 0) -> Self:
        """Return the summary of a fitted quantifier.

        Parameters
        ----------
        quantifier : fitted quantifier on posteriors
        seed : int
            Of the halves and the bags.
        """
        training = quantifier.training_
        classes = np.asarray(quantifier.classes_)
        counts = np.bincount(training.labels, minlength=len(classes)).astype(np.int64)
        if training.posteriors is None:
            return cls(classes, counts)
        accuracy = float((training.posteriors.argmax(axis=1) == training.labels).mean())
        rng = np.random.default_rng(seed)
        halves = _halves(training, len(classes), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of halves, which are no concern of the user's
            try:
                fitted = _fit_half(quantifier, training, halves[0])
                errors = _bag_errors(fitted, training, halves[1], rng)
                pairs = tuple(identifiability(fitted).inseparable)
            except ValueError:  # too few labels for the method in one half
                return cls(classes, counts, accuracy)
        return cls(classes, counts, accuracy, *errors, pairs)

    @property
    def majority(self) -> float:
        """The accuracy of always naming the most frequent class."""
        return float(self.counts.max() / self.counts.sum())

    @property
    def rare(self) -> tuple[tuple[Any, int], ...]:
        """The classes with fewer than ``FEW_LABELS`` labels, and how many they have."""
        return tuple(
            (label, count)
            for label, count in zip(self.classes.tolist(), self.counts.tolist(), strict=True)
            if count < FEW_LABELS
        )

    def sentences(self) -> list[str]:
        """Return what a user should know, and what to do about it, one sentence per line."""
        lines = []
        if self.accuracy is not None:
            lines.append(
                f"accuracy {self.accuracy:.3f} on rows not fitted on (the most frequent class "
                f"alone: {self.majority:.3f})"
            )
        if self.error is not None and self.error_of_equal_shares is not None:
            lines.append(
                f"mean error of a share {self.error:.3f} in held-out bags of {BAG_SIZE} (all "
                f"classes alike: {self.error_of_equal_shares:.3f})"
            )
            if self._says_little:
                lines.append(
                    "the columns say little about the classes: estimates will be vague; add "
                    "features, or labels"
                )
        return lines + self._rare_sentences() + self._pair_sentences()

    @property
    def _says_little(self) -> bool:
        """Whether neither decisions nor estimates gain much from the features."""
        if self.accuracy is None or self.error is None or self.error_of_equal_shares is None:
            return False
        gain = self.accuracy - self.majority
        poor_decisions = gain < (1.0 - POOR) * (1.0 - self.majority)
        return poor_decisions and self.error > POOR * self.error_of_equal_shares

    def _rare_sentences(self) -> list[str]:
        if not self.rare:
            return []
        shown = ", ".join(f"{label} ({count})" for label, count in self.rare[:6])
        more = f" and {len(self.rare) - 6} more" if len(self.rare) > 6 else ""
        return [
            f"few labels: {shown}{more}; label at least {FEW_LABELS} of each class, or merge "
            "classes: until then their intervals are wide"
        ]

    def _pair_sentences(self) -> list[str]:
        lines = [
            f"{first} and {second} can hardly be told apart (overlap {affinity:.2f}): trust their "
            "sum, merge them, or add features that part them"
            for first, second, affinity in self.inseparable[:3]
        ]
        if len(self.inseparable) > 3:
            lines.append(f"and {len(self.inseparable) - 3} more such pairs")
        return lines


def _halves(
    training: TrainingPosteriors, n_classes: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return two halves of the training posteriors, every class in both if it has two labels."""
    first, second = [], []
    share = min(1.0, 2 * MOST_ROWS / len(training.labels))
    for code in range(n_classes):
        rows = rng.permutation(np.flatnonzero(training.labels == code))
        rows = rows[: max(2 * FEW_LABELS, round(share * len(rows)))]
        cut = (len(rows) + 1) // 2
        first.append(rows[:cut])
        second.append(rows[cut:])
    return np.concatenate(first), np.concatenate(second)


def _fit_half(
    quantifier: AggregativeQuantifier, training: TrainingPosteriors, rows: Indices
) -> AggregativeQuantifier:
    """Return the quantifier with templates of some rows; what it chose at ``fit`` is kept."""
    weights = None if training.weights is None else training.weights[rows]
    part = TrainingPosteriors(training.required()[rows], training.labels[rows], weights)
    half = copy(quantifier)
    half.model_ = quantifier.model_.with_training(part, thread_count(quantifier.n_jobs))
    return half


def _bag_errors(
    fitted: AggregativeQuantifier,
    training: TrainingPosteriors,
    rows: Indices,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the mean absolute errors of the method and of equal shares over bags of ``rows``."""
    labels, k = training.labels[rows], len(fitted.classes_)
    present = np.unique(labels)
    members = {code: np.flatnonzero(labels == code) for code in present.tolist()}
    bags, truth = [], np.zeros((N_BAGS, k))
    for number in range(N_BAGS):
        shares = rng.dirichlet(np.ones(len(present)))
        drawn = rng.choice(present, BAG_SIZE, p=shares)
        bags.append(np.array([rng.choice(members[code]) for code in drawn.tolist()]))
        truth[number] = np.bincount(drawn, minlength=k) / BAG_SIZE
    estimates: Array = fitted.aggregate_bags(training.required()[rows], bags)
    return float(np.abs(estimates - truth).mean()), float(np.abs(1.0 / k - truth).mean())
