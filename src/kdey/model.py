"""What ``fit`` learns: the frozen models that every other part of the library takes.

A :class:`Model` has the fitted parts of one method: rows, templates and a matching, and the scorer
that turns instances into points (posteriors or features). A :class:`CombinedModel` has members and
a rule by which their answers become one, and a :class:`ForeignModel` has a quantifier of another
library. All three answer in two steps: the points of a pool, then the solutions of bags over them::

    points = model.points(X)          # or model.points_from_posteriors(p)
    solution = model.solver(points)(bags)

Threads and devices are no part of a model. A :class:`Place` says with every call where to work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples, check_array, check_is_fitted

from kdey.bags import Array, Bags
from kdey.gpu import n_pairs, rows_on
from kdey.matching import AnyMatching, Composite, OneBag, Solution, exact_solution, median_solution
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.native import thread_count
from kdey.posteriors import Posteriors, TrainingPosteriors, predict_posteriors
from kdey.rows import Derived, RowMap, Rows, RowSpec, TuningRecord
from kdey.simplex import check_posteriors, in_class_order, posteriors_on
from kdey.validation import choose_device, few_labels_note, on_gpu, on_host, take_rows

if TYPE_CHECKING:
    from kdey.tables.schema import TableSchema
    from kdey.tables.templates import ColumnTemplates

Floats = NDArray[np.floating]
#: From bags over a pool to their solutions; the work per instance is already done.
BagSolver: TypeAlias = Callable[[Bags], Solution]
#: Name of the only set of scores, if it has none.
ONLY_SCORES = "scores"


@dataclass(frozen=True)
class Place:
    """Where a model works.

    Attributes
    ----------
    n_threads : int
        Threads of the native core.
    device : str or torch.device
        As the parameter ``device`` of quantifiers.
    """

    n_threads: int = 1
    device: Any = "cpu"

    @property
    def is_host(self) -> bool:
        """Whether all work is left to the native core, but for tensors on a GPU."""
        return isinstance(self.device, str) and self.device == "cpu"


#: One thread of the native core.
HOST = Place()


#: Instances up to which all models of a pool score all of them.
TOGETHER = 1_000

#: Posteriors of the same instances by classifiers that have scored them. A classifier is kept with
#: its posteriors, so that its id is not reused.
Scored: TypeAlias = dict[Any, tuple[Any, Posteriors]]


def _posteriors(classifier: Any, X: Any, classes: NDArray[Any], scored: Scored) -> Posteriors:
    """Return the posteriors of instances, shape (m, k), computed once per classifier object."""
    key = (id(classifier), tuple(np.asarray(classes).tolist()))
    if key not in scored:
        scored[key] = classifier, predict_posteriors(classifier, X, classes, keep_on_gpu=True)
    return scored[key][1]


@dataclass(frozen=True, eq=False)
class InstanceScorer(Derived):
    """What turns instances into the points of a method.

    Attributes
    ----------
    classifier : fitted classifier or None
        None if the model was fitted on posteriors or works on features.
    fold_models : tuple of classifiers or None
        The models of the folds, if they were kept.
    schema : TableSchema or None
        The columns of the training table, where the classifier does not hold them itself.
    feature_names : tuple of str or None
    n_features : int or None
        None if the model was fitted on posteriors.
    score_names : tuple of str or None
        The models whose posteriors it was fitted on; None: those of one model.
    """

    classifier: Any = None
    fold_models: tuple[Any, ...] | None = None
    schema: TableSchema | None = None
    feature_names: tuple[str, ...] | None = None
    n_features: int | None = None
    score_names: tuple[str, ...] | None = None

    @property
    def table_schema(self) -> TableSchema | None:
        """The columns of the training table; None if there was no table."""
        if self.schema is not None or not hasattr(self.classifier, "steps"):
            return self.schema
        from kdey.tables.features import classifier_schema  # slow to import

        return classifier_schema(self.classifier)

    @property
    def _pool(self) -> Any:
        """The pool that is the classifier, or its last step; None if there is none."""
        steps = getattr(self.classifier, "steps", None)  # of a pipeline that reads tables
        pool = self.classifier if steps is None else steps[-1][1]
        return pool if hasattr(pool, "fold_pools") else None

    def predict_by_fold(self, X: Any) -> Floats | None:
        """Return the posteriors of instances, then those by each fold model, (1 + F, m, k).

        None unless the classifier is a pool of the very models of the folds, so that every one
        scores the instances once, and there are so few that calls cost more than instances.
        """
        pool = self._pool
        if pool is None or self.fold_models is not None:
            return None
        if _num_samples(X) > TOGETHER:
            return None
        by_fold: Floats = pool.predict_by_fold(
            X if pool is self.classifier else self.classifier[:-1].transform(X)
        )
        return by_fold

    def _fold_pools(self) -> Sequence[Any] | None:
        pool = self._pool
        if pool is None:
            return None
        pools: Sequence[Any] = pool.fold_pools()
        schema = self.table_schema
        if schema is None:
            return pools
        from kdey.tables.features import reading_tables  # slow to import

        return [reading_tables(fold, schema) for fold in pools]

    def matrix(self, posteriors: Any, classes: NDArray[Any]) -> Floats:
        """Return posteriors as one array; those of several models side by side, (m, k n_models).

        Parameters
        ----------
        posteriors : array-like of shape (m, k), or mapping from names of models to such arrays
        classes : array of shape (k,)

        Raises
        ------
        ValueError
            If the names are not those of the fit, or an array holds no posteriors.
        """
        names = self.score_names
        if not isinstance(posteriors, Mapping):
            if names not in (None, (ONLY_SCORES,)):
                raise ValueError(
                    f"posteriors must map {_quoted(names)} to arrays, as in fit_posteriors"
                )
            return check_posteriors(posteriors, classes=classes)
        if names is None:
            raise ValueError(
                "posteriors by name need a quantifier fitted on them: this one was fitted on "
                "instances, and takes the posteriors of its classifier_"
            )
        if set(posteriors) != set(names):
            raise ValueError(
                f"posteriors must have the names {_quoted(names)}, as in fit_posteriors; got "
                f"{_quoted(tuple(posteriors)) or 'none'}"
            )
        parts = [
            check_posteriors(posteriors[name], classes=classes, name=f"posteriors[{name!r}]")
            for name in names
        ]
        if len({len(part) for part in parts}) > 1:
            sizes = {name: len(part) for name, part in zip(names, parts, strict=True)}
            raise ValueError(
                f"posteriors must have one row per instance in each array, got {sizes}"
            )
        return np.concatenate(parts, axis=1)


def _quoted(names: tuple[Any, ...] | None) -> str:
    return ", ".join(map(repr, names or ()))


class _BaseModel(Derived):
    """What all models have in common, and what holds for models that only answer."""

    classes: NDArray[Any]
    scorer: InstanceScorer
    training: TrainingPosteriors | None = None
    tuning: TuningRecord | None = None
    columns: ColumnTemplates | None = None

    @property
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for."""
        return False

    def one_bag(self, place: Place) -> OneBag | None:
        """Return a faster way to the same answer for one bag on the host; None if there is none."""
        return None

    def prepare(self, place: Place) -> None:
        """Compute what the first answer would otherwise wait for; by default there is nothing."""

    def in_stratum(self, stratum: int, n_threads: int = 1) -> Self:
        """Return the model for one stratum of a population; by default it is the same for all."""
        return self

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return len(self.classes)

    @property
    def table_schema(self) -> TableSchema | None:
        """The columns of the training table; None if there was no table."""
        return self.scorer.table_schema

    @property
    def fold_models(self) -> Sequence[Any] | None:
        """The models of the folds: those that were kept, or those that a pool holds; or None."""
        scorer = self.scorer
        if scorer.fold_models is not None:
            return scorer.fold_models
        return scorer.derived("fold pools", scorer._fold_pools)

    def pooled(self, posteriors: Floats, n_threads: int = 1) -> Floats:
        """Return posteriors (n, k) of scores, which several models may have given (n, M k)."""
        if self.n_score_columns == self.n_classes:
            return posteriors
        pooled: Floats = self.row_map.posteriors(posteriors, n_threads)  # type: ignore[attr-defined]
        return pooled

    @property
    def n_score_columns(self) -> int:
        """The number of columns of posteriors that it takes."""
        names = self.scorer.score_names
        return self.n_classes * (1 if names is None else len(names))

    def with_scorer(self, **changes: Any) -> Self:
        """Return the model with fields of its scorer replaced."""
        return replace(self, scorer=replace(self.scorer, **changes))  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Model(_BaseModel):
    """The fitted parts of a method with rows and a matching.

    Attributes
    ----------
    classes : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence : array of shape (k,)
        Class prevalences of the training data.
    row_spec : RowSpec
        The rows with all parameters chosen, by which a bootstrap fits them again.
    row_map : RowMap
        The fitted rows, with one template per class.
    matching : Matching
    training : TrainingPosteriors or None
        None if the templates were given, so that none were learnt.
    takes_posteriors : bool
        Whether the points of a bag are posteriors; otherwise they are features.
    scorer : InstanceScorer
    tuning : TuningRecord or None
        The record of an automatic choice; None if nothing was left to choose.
    columns : ColumnTemplates or None
        How the columns of the training data lie in each class, for the column check; None if it
        was not fitted on columns.
    """

    classes: NDArray[Any]
    prevalence: Array
    row_spec: RowSpec
    row_map: RowMap
    matching: AnyMatching
    training: TrainingPosteriors | None = None
    takes_posteriors: bool = True
    scorer: InstanceScorer = field(default_factory=InstanceScorer)
    tuning: TuningRecord | None = None
    columns: ColumnTemplates | None = None

    @property
    def members(self) -> list[Model]:
        """The models whose estimates a composite combines, by falling weight; or only this one."""
        if not (self.row_map.is_composite and isinstance(self.matching, Composite)):
            return [self]
        return [
            replace(self, row_spec=spec, row_map=row_map, matching=self.matching.inner)
            for spec, row_map in zip(self.row_spec.members, self.row_map.members, strict=True)
        ]

    @property
    def likelihood(self) -> MaximiseLikelihood | None:
        """The mixture likelihood that is maximised (by every member of an average), or None."""
        return self.matching.likelihood

    @property
    def is_learnt(self) -> bool:
        """Whether templates were learnt from training posteriors or features that are kept."""
        return self.training is not None and self.training.posteriors is not None

    @property
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for."""
        return self.row_spec.needs == "decisions"

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Number of training instances of each class that have a weight, shape (k,).

        The largest integer for every class if nothing is known of the training data, so that no
        class counts as rare.
        """
        if self.training is None:
            return np.full(self.n_classes, np.iinfo(np.int64).max)
        w = self.training.weights
        labels = self.training.labels if w is None else self.training.labels[w > 0]
        return np.bincount(labels, minlength=self.n_classes)

    @property
    def cluster_counts(self) -> NDArray[np.int64] | None:
        """Number of training clusters in which each class occurs, (k,); None without clusters."""
        if self.training is None or self.training.clusters is None:
            return None
        w = self.training.weights
        used = slice(None) if w is None else w > 0
        pairs = np.stack([self.training.labels, self.training.clusters])[:, used]
        return np.bincount(np.unique(pairs, axis=1)[0], minlength=self.n_classes)

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Whether each class has fewer than two training instances or clusters, shape (k,).

        Nothing then shows its spread.
        """
        counts = self.cluster_counts
        return (self.label_counts if counts is None else counts) < 2

    @property
    def training_notes(self) -> tuple[str, ...]:
        """Sentences about the training data that belong beside every estimate."""
        notes = [few_labels_note(self.classes, self.label_counts)]
        if self.cluster_counts is not None:
            notes.append(few_labels_note(self.classes, self.cluster_counts, clusters=True))
        return tuple(note for note in notes if note is not None)

    @property
    def digest(self) -> str:
        """A hash of templates and training data: models that share it share template errors."""
        return self.derived("digest", self._digest)

    def _digest(self) -> str:
        training = self.training
        arrays: list[NDArray[Any] | None] = [self.prevalence, self.row_map.templates]
        if training is not None:
            weights = training.weights
            if training.strata is not None:
                # Templates of two strata are made of the same instances, weighted otherwise.
                used = np.ones(len(training.labels)) if weights is None else weights
                arrays, weights = [training.strata], np.sign(used)
            arrays += [training.posteriors, training.labels, weights, training.clusters]
        digest = hashlib.sha256(repr((self.row_spec, self.matching)).encode())
        for array in arrays:
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def with_training(self, training: TrainingPosteriors, n_threads: int = 1) -> Model:
        """Return the model whose templates are made from other training posteriors.

        The classifier is the same, and so are parameters that were chosen at ``fit``.
        """
        mass = np.bincount(training.labels, weights=training.weights, minlength=self.n_classes)
        return replace(
            self,
            prevalence=mass / mass.sum(),
            training=training,
            row_map=self.row_spec.fit(training, self.n_classes, n_threads),
        )

    def in_stratum(self, stratum: int, n_threads: int = 1) -> Model:
        """Return the model with templates for one stratum, where training instances have strata."""
        training = self.training
        if training is None or training.strata is None or stratum not in training.strata:
            return self
        return self.derived(
            f"stratum {stratum}",
            lambda: self.with_training(training.in_stratum(stratum), n_threads),
        )

    @property
    def has_strata(self) -> bool:
        """Whether strata of the training instances have templates of their own."""
        return self.training is not None and self.training.strata is not None

    def points(self, X: Any, scored: Scored | None = None) -> Any:
        """Return the points of instances: posteriors (m, k), perhaps on a GPU, or features.

        ``scored`` has posteriors of these instances, which models with a classifier share.
        """
        if not self.takes_posteriors:
            return check_array(on_host(X), dtype=np.float64)
        if self.scorer.classifier is None:
            raise ValueError(
                "this quantifier was fitted on posteriors and has no classifier: use aggregate, "
                "aggregate_bags or estimate_posteriors"
            )
        known = {} if scored is None else scored
        return _posteriors(self.scorer.classifier, X, self.classes, known)

    def points_from_posteriors(self, posteriors: Any, place: Place = HOST) -> Any:
        """Return the points of given posteriors, checked: an array, or a tensor on the device."""
        if self.scorer.score_names is not None or isinstance(posteriors, Mapping):
            return self.scorer.matrix(on_host(posteriors), self.classes)
        return posteriors_on(posteriors, self.classes, self.device(posteriors, place))

    def device(self, points: Any, place: Place) -> Any:
        """Return the torch device for ``points``; None for the native core."""
        if place.is_host and not on_gpu(points):
            return None
        if self.matching.device_form(self.row_map) is None:
            return None
        return choose_device(place.device, n_pairs(self.row_map, len(points)), points)

    def solver(self, points: Any, place: Place = HOST) -> BagSolver:
        """Do the work per instance; return the map from bags over the points to solutions."""
        rows = self.rows(points, self.device(points, place), place.n_threads)
        return partial(self.match, rows, n_threads=place.n_threads)

    def match(self, rows: Rows, bags: Bags, n_threads: int = 1) -> Solution:
        """Return the solutions of bags over the rows of a pool, computed where the rows are."""
        if not rows.on_device:
            return self.matching.match(self.row_map, rows, bags, n_threads)
        from kdey.gpu.solve import solve_bags  # imports torch

        return solve_bags(self.matching, self.row_map, rows, bags, n_threads)

    def rows(self, points: Any, device: Any, n_threads: int = 1) -> Rows:
        """Return the rows of points, on a device or, if it is None, by the native core."""
        if device is None:
            return self.row_map(on_host(points), n_threads)
        return rows_on(self.row_map, self.matching, points, device)

    def one_bag(self, place: Place) -> OneBag | None:
        """Return a faster way to the same answer for one bag on the host; None if there is none."""
        if not place.is_host:
            return None
        row_map, matching = self.row_map, self.matching
        return row_map.derived("one bag", lambda: matching.one_bag(row_map))

    def prepare(self, place: Place) -> None:
        """Compute what the first answer would otherwise wait for (packed references)."""
        self.row_map.prepare(place.n_threads)


@dataclass(frozen=True, eq=False)
class CombinedPoints:
    """The points of a pool for every member of a combined model.

    Attributes
    ----------
    parts : tuple of points, one per member
    n_points : int
    """

    parts: tuple[Any, ...]
    n_points: int

    def __len__(self) -> int:
        """Return the number of instances m."""
        return self.n_points


@dataclass(frozen=True, eq=False)
class Combination:
    """How answers of members become one: by their median, unless a subclass does it otherwise."""

    def member_posteriors(self, posteriors: Floats, number: int) -> Floats:
        """Return the posteriors for a member, from those of all classes, shape (m, k)."""
        return posteriors

    def combine(self, parts: list[Solution]) -> Solution:
        """Return the solution of bags from those of the members."""
        return median_solution(parts)


@dataclass(frozen=True, eq=False)
class CombinedModel(_BaseModel):
    """Members whose answers are combined: wrappers and ensembles.

    Without members, the answer for every bag is the prevalence.

    Attributes
    ----------
    classes, prevalence, scorer
        As for :class:`Model`; the scorer has names of columns, but no classifier.
    members : tuple of models
    combination : Combination
    """

    classes: NDArray[Any]
    prevalence: Array
    members: tuple[AnyModel, ...]
    combination: Combination
    scorer: InstanceScorer = field(default_factory=InstanceScorer)

    @property
    def columns(self) -> ColumnTemplates | None:  # type: ignore[override]
        """The columns of the first member with all classes; None if there is none."""
        known = (m.columns for m in self.members if np.array_equal(m.classes, self.classes))
        return next((columns for columns in known if columns is not None), None)

    @property
    def takes_posteriors(self) -> bool:
        """Whether all members work on posteriors."""
        return bool(self.members) and all(member.takes_posteriors for member in self.members)

    def points(self, X: Any, scored: Scored | None = None) -> CombinedPoints:
        """Return the points of instances for every member; ``scored`` as for :class:`Model`."""
        known = {} if scored is None else scored
        return CombinedPoints(
            tuple(member.points(X, known) for member in self.members), _num_samples(X)
        )

    def points_from_posteriors(self, posteriors: Any, place: Place = HOST) -> CombinedPoints:
        """Return the points of given posteriors for every member."""
        if not self.takes_posteriors:
            raise TypeError("the quantifier inside works on features, not on posteriors")
        p = check_posteriors(posteriors, classes=self.classes)
        parts = tuple(
            member.points_from_posteriors(self.combination.member_posteriors(p, number), place)
            for number, member in enumerate(self.members)
        )
        return CombinedPoints(parts, len(p))

    def solver(self, points: CombinedPoints, place: Place = HOST) -> BagSolver:
        """Do the work per instance; return the map from bags over the points to solutions."""
        if not self.members:
            return lambda bags: exact_solution(np.tile(self.prevalence, (len(bags), 1)))
        solvers = [
            member.solver(part, place)
            for member, part in zip(self.members, points.parts, strict=True)
        ]
        return lambda bags: self.combination.combine([solve(bags) for solve in solvers])

    def prepare(self, place: Place) -> None:
        """Prepare every member."""
        for member in self.members:
            member.prepare(place)


@dataclass(frozen=True, eq=False)
class ForeignModel(_BaseModel):
    """A fitted quantifier of another library, which has ``predict`` or ``predict_bags`` alone.

    There are no certificates: gaps are NaN, and finite answers count as converged. Answers with
    names (series of pandas, data frames) are matched with the classes by name.

    Attributes
    ----------
    classes : array of shape (k,)
    prevalence : array of shape (k,)
        NaN where it is not known.
    quantifier : fitted quantifier
    """

    classes: NDArray[Any]
    prevalence: Array
    quantifier: Any
    scorer: InstanceScorer = field(default_factory=InstanceScorer)

    takes_posteriors = False

    def points(self, X: Any, scored: Scored | None = None) -> Any:
        """Return the instances themselves."""
        return X

    def points_from_posteriors(self, posteriors: Any, place: Place = HOST) -> Any:
        """Raise TypeError: the quantifier takes instances."""
        raise TypeError(f"{type(self.quantifier).__name__} works on features, not on posteriors")

    def solver(self, points: Any, place: Place = HOST) -> BagSolver:
        """Return the map from bags over instances to the answers of the quantifier."""
        return partial(self._solve, points)

    def _solve(self, X: Any, bags: Bags) -> Solution:
        name = type(self.quantifier).__name__
        if hasattr(self.quantifier, "predict_bags"):
            answers = self.quantifier.predict_bags(X, bags)
            prevalence = in_class_order(answers, self.classes, f"{name}.predict_bags(X, bags)")
        else:
            prevalence = [
                in_class_order(
                    self.quantifier.predict(take_rows(X, bag)), self.classes, f"{name}.predict(X)"
                )
                for bag in _repeated(bags, name)
            ]
        prevalence = np.asarray(prevalence, dtype=np.float64)
        expected = (len(bags), self.n_classes)
        if prevalence.shape != expected:
            raise ValueError(
                f"{name} must return prevalences of shape {expected}, got {prevalence.shape}"
            )
        unknown = np.full(len(bags), np.nan)
        finite = np.asarray(np.isfinite(prevalence).all(axis=1))
        return Solution(prevalence, unknown, unknown, np.zeros(len(bags), np.int64), finite)


#: Whatever ``fit`` makes.
AnyModel: TypeAlias = Model | CombinedModel | ForeignModel


def _repeated(bags: Bags, name: str) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of each bag, repeated as often as their weights say."""
    for number, bag in enumerate(bags):
        weights = bags.bag_weights(number)
        counts = np.rint(weights)
        # Counts of a bootstrap have been multiplied and divided by the size of the bag.
        if not np.allclose(weights, counts, rtol=1e-9, atol=1e-9):
            raise ValueError(
                f"{name} has no predict_bags for weighted bags, and weights that are no whole "
                "numbers cannot be counts of repeated instances"
            )
        yield np.repeat(bag, counts.astype(np.int64))


class HasModel(Protocol):
    """A fitted quantifier, as functions that take one see it."""

    @property
    def model_(self) -> Any:
        """What ``fit`` has learnt."""


#: What functions of other rooms accept: a fitted quantifier, or its model.
Fitted: TypeAlias = HasModel | AnyModel


def model_of(fitted: Fitted) -> AnyModel:
    """Return the model of a fitted quantifier; a model is returned as it is.

    Raises TypeError if it is neither, and NotFittedError before ``fit``.
    """
    if isinstance(fitted, _BaseModel):
        return fitted
    if not hasattr(fitted, "fit"):
        raise TypeError(f"quantifier must be a fitted estimator, got {fitted!r}")
    check_is_fitted(fitted, "model_")
    model: AnyModel = fitted.model_
    return model


def place_of(fitted: Fitted) -> Place:
    """Return where a quantifier works, by its ``n_jobs`` and ``device``; the host for a model."""
    return Place(thread_count(getattr(fitted, "n_jobs", None)), getattr(fitted, "device", "cpu"))


def posterior_model(fitted: Fitted) -> Model:
    """Return the model of a quantifier with rows on posteriors; raises TypeError for others."""
    model = model_of(fitted)
    if not isinstance(model, Model) or not model.takes_posteriors:
        raise TypeError(
            f"quantifier must work on posteriors (PACC, EMQ, KDEyML, ...), got "
            f"{type(fitted).__name__}"
        )
    return model


def bag_posteriors(fitted: Fitted, X: Any, posteriors: ArrayLike | None) -> Floats:
    """Return the posteriors of a bag, shape (m, k).

    Parameters
    ----------
    fitted : fitted quantifier, or its model
    X : instances of the bag, or None
        Scored by the classifier.
    posteriors : array-like of shape (m, k), or None
        Exactly one of ``X`` and ``posteriors`` must be given.
    """
    model = posterior_model(fitted)
    if (X is None) == (posteriors is None):
        raise ValueError("give exactly one of X and posteriors")
    if posteriors is not None:
        return check_posteriors(posteriors, classes=model.classes)
    if model.scorer.classifier is None:
        raise ValueError(
            f"this {type(fitted).__name__} was fitted on posteriors and has no classifier: "
            "give posteriors instead of X"
        )
    return predict_posteriors(model.scorer.classifier, X, model.classes)


def kept_training(fitted: Fitted | None) -> TrainingPosteriors | None:
    """Return what a fitted quantifier keeps of its training data; None if it keeps nothing.

    Methods without training posteriors keep labels only, with ``posteriors`` None.
    """
    return None if fitted is None else model_of(fitted).training


def training_of(fitted: Fitted) -> TrainingPosteriors:
    """Return the training posteriors of a fitted quantifier; raises ValueError if it has none."""
    training = posterior_model(fitted).training
    if training is None or training.posteriors is None:
        raise ValueError(
            f"this {type(fitted).__name__} keeps no training posteriors: use a method that "
            "makes them (KDEyML, PACC, EMQ with calibration), or fit_posteriors"
        )
    return training
