r"""The fit check, whether a bag looks like a mixture of the training classes: results and models.

With p_alpha the mixture of class densities of the posteriors and alpha its maximum likelihood
fit to the bag, the statistic is

.. math:: T = \sum_j w_j\, \phi_\alpha(x_j) - \sum_i \alpha_i\, E_i\, \phi_\alpha, \qquad
          \phi_\alpha = \log(p_\alpha + c)

with :math:`E_i` the leave-one-out mean over training points of class i. T says how much worse the
bag fits than its fitted mixture predicts. Subtracting the prediction of the *fitted* mixture makes
T insensitive, to first order, to the composition of the bag and to the error of alpha: for any
consistent estimate the two cancel. If the same models scored training set and bag, we also use the
kernel distance of :mod:`kdey.diagnostics.fit_statistics`; the smaller of the two p-values is then
the statistic, calibrated as such. The null distribution is that of bags drawn from the training
points at alpha and fitted in the same way (:mod:`kdey.diagnostics.fit_statistics`).

**Fold models.** Training posteriors come from models fitted on a part of the training set, those of
a bag from the classifier fitted on all of it, which is slightly more confident. A check that
compares the two would detect this difference. It does not exist if the classifiers of the
cross-validation folds, refitted, score the bag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from kdey._caching import row_hashes
from kdey._display import Overview, bar_column, row_names, text_column
from kdey.arrays import for_numpy, make_frame, take_rows
from kdey.bags import Array, Indices
from kdey.model import AnyModel, Fitted, HasModel, Model, model_of, training_of
from kdey.posteriors import TrainingPosteriors, find_weight_parameter, predict_posteriors
from kdey.status import OK, ONE_SIDED, POOR_FIT, not_checked


@dataclass(frozen=True, eq=False, kw_only=True)
class FitVerdict:
    """The verdict of a fit check on one bag.

    Attributes
    ----------
    p_value : float
        Share of null bags that fit no better than this one. A small value means that more than the
        prevalence has changed.
    unknown_share : float or None
        Estimated excess share of instances that lie far from every class, a lower bound on the
        share of a class absent from training; zero if there is no excess. None if it was not
        computed because the bag fits.
    unknown_class : bool
        Whether the bag does not fit and this excess is larger than chance explains.
    level : float
        Significance level of ``rejected`` and ``unknown_class``.
    cross_fitted : bool
        Whether the models that scored the training set also scored the bag. If not, the check is
        one-sided: only the density is tested and p-values tend to be too large (see
        ``docs/trust.md``); a small p-value is still a reason to worry.
    size : int
        Number of instances of the bag.
    n_checked : int
        Number of them that were checked: all, or a random sample of a large bag.
    n_null : int
        Number of null bags that the p-value rests on.
    """

    p_value: float
    unknown_share: float | None
    unknown_class: bool
    level: float
    cross_fitted: bool
    size: int
    n_checked: int
    n_null: int

    @property
    def rejected(self) -> bool:
        """Whether the p-value is at most the level."""
        return self.p_value <= self.level

    @property
    def status(self) -> str:
        """The verdict in the words of :mod:`kdey.status`."""
        if self.rejected:
            return POOR_FIT
        return OK if self.cross_fitted else ONE_SIDED

    @property
    def verdict(self) -> str:
        """The meaning of the result, in a sentence or two."""
        p = f"p = {self.p_value:.3g}{self._sample}"
        if not self.rejected and self.cross_fitted:
            return f"The bag looks like a mixture of the training classes ({p})."
        if not self.rejected:
            return (
                f"No misfit was found ({p}), but the fit was checked one-sided: without the models "
                "of the folds the check misses classes that look like other classes."
            )
        if self.unknown_class:
            return (
                f"The bag does not fit the training classes ({p}): at least about "
                f"{self.unknown_share:.0%} of it lies far from all of them, as an unknown class "
                "would."
            )
        return (
            f"The bag does not fit the training classes ({p}): instances of known classes look "
            "different from training, so more than the prevalence has changed."
        )

    @property
    def _sample(self) -> str:
        if self.n_checked == self.size:
            return ""
        return f", from {self.n_checked:,} of {self.size:,} instances"

    def summary(self) -> dict[str, Any]:
        """Return the results for the whole bag and the verdict, as plain values."""
        names = (*_VERDICT, "rejected", "status", "verdict")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> FitVerdict:
        """Return the verdict that gave a :meth:`summary`."""
        return FitVerdict(**{name: summary[name] for name in _VERDICT})


#: Names of the fields of a verdict.
_VERDICT = tuple(item.name for item in fields(FitVerdict))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FitCheck(FitVerdict):
    """Result of :func:`kdey.check_fit`: the verdict, and what it rests on.

    Attributes
    ----------
    p_value, unknown_share, unknown_class, level, cross_fitted, size, n_checked, n_null
        See :class:`FitVerdict`.
    p_density, p_distance : float
        P-values of each statistic alone: does the bag lie where training had few instances, and is
        it distributed like the fitted mixture? The second is NaN if ``cross_fitted`` is False.
    statistic : float
        The statistic T of density: how much lower (negative) or higher the bag's mean log-density
        is than its fitted mixture predicts.
    null : array of shape (n_null,)
        The statistic of bags of the same size that differ in prevalence only.
    prevalence : array of shape (k,)
        The estimate of the mixture that the check uses, by maximum likelihood.
    log_densities : array of shape (n_checked,)
        Logarithm of the fitted mixture's density at each instance (floored, not normalised).
    local_p_values : array of shape (n_checked,)
        For each instance, the share of the fitted mixture with a density no higher.
    instances : int64 array of shape (n_checked,)
        Positions of the checked instances in the bag, ascending.

    See Also
    --------
    kdey.check_fit : Check whether a bag is a mixture of the training classes.
    kdey.plots.FitCheckDisplay : Draw a fit check.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> check = kdey.check_fit(q, X[1::2], random_state=0)
    >>> check.rejected
    False
    >>> len(check.worst(3))
    3
    """

    p_density: float
    p_distance: float
    statistic: float
    null: Array
    prevalence: Array
    log_densities: Array
    local_p_values: Array
    instances: Indices

    def worst(self, n: int = 10) -> NDArray[np.int64]:
        """Return the positions in the bag of the ``n`` instances that fit worst, worst first."""
        return self.instances[self._order(n)]

    def to_frame(self, n: int | None = None, backend: str | None = None) -> Any:
        """Return a data frame of the ``n`` instances that fit worst, starting with the worst.

        Parameters
        ----------
        n : int, optional
            Default: all instances that were checked.
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``instance``, ``log_density`` and ``local_p_value``.
        """
        order = self._order(self.n_checked if n is None else n)
        table = {
            "instance": self.instances[order],
            "log_density": self.log_densities[order],
            "local_p_value": self.local_p_values[order],
        }
        return make_frame(table, backend)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the statistic among those of bags that fit.

        Needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.FitCheckDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above checks, so we reach them by the public name.

        return kdey.plots.FitCheckDisplay.from_check(self, ax=ax)

    def overview(self) -> Overview:
        """Return the verdict, and a table of the p-values of each statistic."""
        parts = [
            ("the check", self.p_value),
            ("density alone", self.p_density),
            ("distance alone", self.p_distance),
        ]
        known = [(name, p) for name, p in parts if not np.isnan(p)]
        remarks = [f"{self.n_null:,} simulated bags that fit; level {self.level:g}"]
        if self.rejected:
            worst = ", ".join(str(place) for place in self.worst(5))
            remarks.append(f"instances that fit worst, by position in the bag: {worst}")
        return Overview(
            self.verdict,
            row_names("statistic", [name for name, _ in known]),
            (
                text_column("p-value", [f"{p:.3g}" for _, p in known], importance=9),
                bar_column([p for _, p in known]),
            ),
            tuple(remarks),
        )

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()

    def _order(self, n: int) -> Indices:
        return np.argsort(self.log_densities, kind="stable")[:n]


@dataclass(frozen=True)
class NotChecked:
    """What stands in place of a verdict where the fit was not checked.

    Attributes
    ----------
    reason : str
        A few words.
    """

    reason: str

    @property
    def status(self) -> str:
        """That the fit was not checked and why, in the words of :mod:`kdey.status`."""
        return not_checked(self.reason)

    @property
    def verdict(self) -> str:
        """That the fit was not checked and why, in a sentence."""
        return f"The fit was not checked: {self.reason}."

    def summary(self) -> dict[str, Any]:
        """Return status, reason and a sentence, as plain values."""
        return {"status": self.status, "reason": self.reason, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


#: What is known of the fit of a bag: a verdict, or why there is none.
FitResult: TypeAlias = FitVerdict | NotChecked


Floats = NDArray[np.floating]
#: Share of distinct training posteriors below which instances count as repeated: those of a table
#: with few distinct rows. The fit check of a forest on 32 distinct rows rejected .097 at level .05
#: where equal rows shared a fold model, and .023 where they did not.
REPEATED = 0.5
Q = TypeVar("Q", bound=HasModel)


@dataclass(frozen=True, eq=False)
class FoldModels:
    """Classifiers that were each fitted without one fold.

    Attributes
    ----------
    models : tuple of F fitted classifiers
    classes : array of shape (k,)
    repeated : bool
        Whether many training instances are equal, so that those of a bag will be, too.
    """

    models: tuple[Any, ...]
    classes: NDArray[Any]
    repeated: bool = False

    def posteriors(self, X: Any, random_state: Any = None) -> Floats:
        """Return posteriors, each instance being scored by one model chosen at random.

        We use one model per instance rather than the mean of all, because each training posterior
        comes from one model and a mean of models is more confident than each of them.

        Parameters
        ----------
        X : instances
        random_state : int, Generator or None

        Returns
        -------
        array of shape (m, k)
        """
        rng = np.random.default_rng(random_state)
        return self._scored_by(X, rng.permutation(np.arange(_num_samples(X)) % len(self.models)))

    def posteriors_by(self, X: Any, hashes: NDArray[np.uint64]) -> Floats:
        """As :meth:`posteriors`, where a hash of each instance chooses the model.

        An instance thus has the same posteriors in whatever table, batch and order it comes. Equal
        instances must not all have the same model, though: those of training have not. Where many
        are equal, all models score each, shape (m, F k), and ``one_model_each`` chooses among
        them once the instances of a bag are together.
        """
        n_models = len(self.models)
        if not self.repeated or n_models == 1:
            return self._scored_by(X, (hashes % np.uint64(n_models)).astype(np.int64))
        if not len(hashes):
            return np.empty((0, n_models * len(self.classes)))
        _, first, numbers = np.unique(row_hashes(X), return_index=True, return_inverse=True)
        distinct = take_rows(X, first)
        scored = [predict_posteriors(model, distinct, self.classes) for model in self.models]
        return np.asarray(np.hstack(scored)[numbers])

    def _scored_by(self, X: Any, model: NDArray[np.int64]) -> Floats:
        """Return the posteriors of instances, each by the model with the number given."""
        out = np.empty((len(model), len(self.classes)))
        for f, fitted in enumerate(self.models):
            rows = np.flatnonzero(model == f)
            if len(rows):
                out[rows] = predict_posteriors(fitted, take_rows(X, rows), self.classes)
        return out


def one_model_each(
    posteriors: Floats, hashes: NDArray[np.uint64], offsets: Indices, n_classes: int
) -> Floats:
    """Return the posteriors of instances by one fold model each, shape (m, k).

    Copies of an instance in a bag take the models in turn, from one that the hash chooses, so that
    the result does not depend on the order of the copies.

    Parameters
    ----------
    posteriors : array of shape (m, F k)
        By all models, or by one (F = 1).
    hashes : uint64 array of shape (m,)
    offsets : int64 array of shape (n_bags + 1,)
        Bag b owns instances ``offsets[b]`` to ``offsets[b + 1]``.
    n_classes : int
    """
    n_models = posteriors.shape[1] // n_classes
    if n_models == 1:
        return posteriors
    bags = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((hashes, bags))
    changes = (np.diff(hashes[order]) != 0) | (np.diff(bags[order]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    copies = np.empty(len(order), dtype=np.uint64)
    copies[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    chosen = ((hashes + copies) % np.uint64(n_models)).astype(np.int64)
    return posteriors.reshape(len(posteriors), n_models, n_classes)[np.arange(len(order)), chosen]


def _are_repeated(model: AnyModel) -> bool:
    """Return whether many training instances are equal, as their posteriors show."""
    training = model.training if isinstance(model, Model) else None
    if training is None or training.posteriors is None:
        return False
    posteriors = training.posteriors

    def compute() -> bool:
        return len(np.unique(row_hashes(posteriors))) < REPEATED * len(posteriors)

    return bool(model.derived("repeated instances", compute))


def fold_models(quantifier: Fitted, X: Any, y: ArrayLike) -> FoldModels:
    """Refit the models of the cross-validation folds of a fitted quantifier.

    If a single model produced all training posteriors (``cv`` is a fraction, or the classifier a
    ``FrozenEstimator``), this model is the classifier itself and nothing is refitted.

    Parameters
    ----------
    quantifier : fitted quantifier with a classifier
    X, y : training data
        The data that the quantifier was fitted on, in the same order.

    Returns
    -------
    FoldModels

    Raises
    ------
    ValueError
        If the quantifier has no classifier, or X and y are not its training data.
    """
    training, model = training_of(quantifier), model_of(quantifier)
    if model.scorer.classifier is None:
        raise ValueError(
            "quantifier was fitted on posteriors and has no classifier to refit; fit it on "
            "instances"
        )
    labels = np.asarray(for_numpy(y, "y"))
    _check_same_data(training, model.classes, X, labels)
    if training.folds is None or len(np.unique(training.folds)) == 1:
        return FoldModels((model.scorer.classifier,), model.classes)
    models = tuple(
        _refit_without(model.scorer.classifier, training, int(fold), X, labels)
        for fold in np.unique(training.folds)
    )
    return FoldModels(models, model.classes, _are_repeated(model))


def hold_fold_models(quantifier: Q, X: Any, y: ArrayLike) -> Q:
    """Refit the models of the folds and keep them in the quantifier as ``fold_classifiers_``.

    Fit checks on instances then have the same power as with the training data, and a saved model
    includes the fold models.

    Parameters
    ----------
    quantifier : fitted quantifier with a classifier
    X, y : training data
        As for ``fold_models``.

    Returns
    -------
    quantifier
        The same object.
    """
    models = fold_models(quantifier, X, y).models
    quantifier.model_ = quantifier.model_.with_scorer(fold_models=models)  # type: ignore[misc]
    return quantifier


def held_fold_models(quantifier: Fitted) -> FoldModels | None:
    """Return the models that :func:`hold_fold_models` kept, or None if there are none."""
    model = model_of(quantifier)
    models = model.scorer.fold_classifiers
    if models is None:
        return None
    return FoldModels(tuple(models), model.classes, _are_repeated(model))


def _refit_without(
    classifier: Any,
    training: TrainingPosteriors,
    fold: int,
    X: Any,
    labels: NDArray[Any],
) -> Any:
    """Return the classifier refitted without one fold."""
    instances = _instances(training)
    tested = instances[training.folds == fold]
    rows = np.setdiff1d(np.arange(len(labels)), tested)
    if len(np.unique(labels[rows])) == 1:  # Its training posteriors were all of that class, too.
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(take_rows(X, rows), labels[rows])
    unfitted, extra = clone(classifier), {}
    parameter = None if training.weights is None else find_weight_parameter(unfitted)
    if parameter is not None:
        weights = np.ones(len(labels))
        weights[instances] = training.weights
        extra[parameter] = weights[rows]
    return unfitted.fit(take_rows(X, rows), labels[rows], **extra)


def _instances(training: TrainingPosteriors) -> NDArray[np.int64]:
    """Return the position in the training data of each training posterior."""
    if training.instances is not None:
        return training.instances
    return np.arange(len(training.labels))


def _check_same_data(
    training: TrainingPosteriors, classes: NDArray[Any], X: Any, labels: NDArray[Any]
) -> None:
    instances = _instances(training)
    if len(labels) != _num_samples(X):
        raise ValueError(f"X has {_num_samples(X)} instances, but y has {len(labels)} labels")
    same = instances.max() < len(labels) and np.array_equal(
        labels[instances], np.asarray(classes)[training.labels]
    )
    if not same:
        raise ValueError("X and y must be what the quantifier was fitted on, in the same order")
