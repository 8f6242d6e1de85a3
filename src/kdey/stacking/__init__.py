"""Stacking: several classifiers and methods combined into one likelihood (``kdey.Quantifier``).

A *member* is a classifier with a likelihood method. Its predictive distribution is the distribution
of the class of an instance at the training prevalence. The distributions of all members are
averaged with the weights that make the held-out labels most likely (``pooled_classifier``). The
average is a classifier like any other, which is recalibrated and then matched by maximum likelihood
(``pooled_rows``).

When the user names no classifiers, three kinds of model that fail in different ways are combined,
each maintained by scikit-learn: a linear one, a forest, and boosted trees (:func:`portfolio`).
Multilayer perceptrons, nearest neighbours and kernel features were tried and did not earn their
time (docs/lab/decisions/0019-stacking.md).

The stage cross-fits the candidates and pools the useful members. It returns what the stage of a
single classifier returns (:class:`kdey.posteriors.FittedStage`), so that everything behind it works
as for one classifier.
"""

from __future__ import annotations

import logging
import pickle
import time
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from kdey._fingerprints import fingerprint
from kdey._io import check_private, write_whole
from kdey.bags import Indices
from kdey.classifiers import Split, make_splits
from kdey.native import thread_count
from kdey.posteriors import (
    ClassifierStage,
    FittedStage,
    Judge,
    TrainingPosteriors,
    check_classifier,
    cross_fit,
    warn_about_rare_classes,
)
from kdey.stacking.pooled_classifier import (
    CLASSIFIERS,
    KERNEL_LABELS,
    SMALL_TABLE,
    TEXT_CLASSIFIERS,
    FittedMember,
    HeldOut,
    MemberMethod,
    PooledClassifier,
    best_pool,
    fit_member,
    n_features,
    openmp_threads,
    usable_methods,
)
from kdey.stacking.pooled_rows import MemberRecord, StackRecord, record_pool
from kdey.tables.features import SparseColumns, prepare, reading_tables, sparse_columns
from kdey.tables.schema import Kind, TableSchema

__all__ = [
    "CLASSIFIERS",
    "MemberRecord",
    "MemberWarning",
    "PooledClassifier",
    "StackRecord",
]

logger = logging.getLogger(__name__)

#: Time of a cross-fit relative to the logistic regression's, to guess how much time is left.
_COSTS = {"logistic regression": 1.0, "extra trees": 3.0, "gradient boosting": 10.0}
_OTHER_COST = 3.0
#: Classifiers that are fitted on all instances once more. Boosted trees are surer on new instances
#: when refitted than their fold models were, so these score new instances instead.
_REFITTED = frozenset({"logistic regression", "extra trees", "naive Bayes"})
#: Those of them whose fold models are kept for the check: they are small. On words a refitted model
#: is much surer than its fold models were, and the check took that for a misfit of the bag.
_SMALL = frozenset({"logistic regression", "naive Bayes"})
#: For each value of the parameter ``effort``: folds of the cross-validation, trees of the forest,
#: and rounds of boosting.
EFFORTS: Mapping[str, tuple[int, int, int]] = {
    "low": (3, 50, 50),
    "default": (5, 100, 100),
    "high": (10, 300, 200),
}


#: Of tables with more rows, a tree of the forest sees this number, and its leaves have at least so
#: many of them: a forest then does not grow with the table.
TREE_ROWS, LEAF_ROWS = 20_000, 5
#: A forest takes no part on a sparse matrix of more cells (rows times columns): on 32,000 rows of
#: 50,000 words a tree takes 1.5 s, as long as a linear model, and the forests have hundreds.
MOST_SPARSE_CELLS = 5e8
#: Of larger tables the classifiers see a random sample of this size.
MOST_ROWS = 100_000


#: A classifier that may join the pool, with its preparation, and whether new instances are scored
#: by a model that is fitted on all training instances; otherwise by the mean of the fold models.
Candidate: TypeAlias = tuple[Any, bool]


def portfolio(
    classifiers: Any,
    kinds: Sequence[Kind] | None,
    effort: str,
    random_state: Any = None,
    *,
    sparse: SparseColumns | None = None,
    shape: tuple[int, int] = (0, 0),
) -> dict[str, Candidate]:
    """Return by name the candidates that the parameter ``classifiers`` of a quantifier stands for.

    Parameters
    ----------
    classifiers : "auto", str, classifier, sequence of these, or mapping from names to classifiers
        A name is one of the portfolio, with the preparation that it needs. Other classifiers are
        used as they are.
    kinds : sequence of {"number", "category", "text"} or None
        Kind of each column of X; None means that all are numbers.
    effort : {"low", "default", "high"}
    random_state : int or None
    sparse : {"alike", "mixed"} or None
        Columns of a sparse matrix (``kdey.tables.features.sparse_columns``).
    shape : tuple of int
        Numbers of training instances and of columns.

    Raises
    ------
    ValueError
        If a name is unknown, or there are no classifiers.
    """
    named: list[tuple[str, Any]] = []
    if isinstance(classifiers, str) and classifiers == "auto":
        has_text = sparse is not None or (kinds is not None and "text" in kinds)
        is_wide = sparse is not None and shape[0] * shape[1] > MOST_SPARSE_CELLS
        named = [
            (name, name)
            for name in (TEXT_CLASSIFIERS if has_text else CLASSIFIERS)
            if not (is_wide and name == "extra trees")
        ]
    elif isinstance(classifiers, Mapping):
        named = [(str(name), value) for name, value in classifiers.items()]
    elif isinstance(classifiers, Iterable) and not isinstance(classifiers, str):
        named = _distinct([(_name_of(value), value) for value in classifiers])
    else:
        named = [(_name_of(classifiers), classifiers)]
    if not named:
        raise ValueError('classifiers is empty: name at least one, or use "auto"')
    made = {}
    for name, value in named:
        if isinstance(value, str):
            classifier = named_classifier(value, effort, random_state, shape[0])
            made[name] = prepare(classifier, kinds, sparse=sparse), value in _REFITTED
            continue
        try:
            check_classifier(value)
        except TypeError as error:
            raise TypeError(f"classifiers: {error}") from error
        made[name] = value, False
    return made


def named_classifier(name: str, effort: str, random_state: Any = None, n_rows: int = 0) -> Any:
    """Return a classifier of the portfolio, without its preparation.

    Parameters
    ----------
    name : str
    effort : {"low", "default", "high"}
    random_state : int or None
    n_rows : int
        Number of training instances.

    Raises
    ------
    ValueError
        If the portfolio has no classifier of this name.
    """
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression  # slow to import
    from sklearn.naive_bayes import ComplementNB

    _, trees, rounds = EFFORTS[effort]
    # A seed of its own, so that equal data give equal models where the user names none.
    seed = 0 if random_state is None else random_state
    if name == "logistic regression":
        return LogisticRegression(max_iter=1000)
    if name == "extra trees":
        bounds: dict[str, Any] = {}
        if n_rows > TREE_ROWS:  # as a share of the rows, since folds have fewer of them
            bounds = {"bootstrap": True, "max_samples": TREE_ROWS / n_rows}
            bounds["min_samples_leaf"] = LEAF_ROWS
        return ExtraTreesClassifier(trees, random_state=seed, **bounds)
    if name == "gradient boosting":
        # Small steps and trees: on 18 sets as good as larger ones, in half the time and space.
        return HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=rounds,
            max_leaf_nodes=15,
            early_stopping=False,
            random_state=seed,
        )
    if name == "naive Bayes":
        return ComplementNB()
    known = ", ".join(dict.fromkeys((*CLASSIFIERS, *TEXT_CLASSIFIERS)))
    raise ValueError(
        f'classifiers: {name!r} is unknown; use "auto", names among {known}, or classifiers of '
        "scikit-learn"
    )


def _name_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, type):
        raise TypeError(f"classifiers must be instances, got the class {value.__name__}")
    steps = getattr(value, "steps", None)  # a pipeline is named after its last step
    last = value if not steps else steps[-1][1]
    return type(getattr(last, "estimator", last)).__name__


def _distinct(named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Append numbers to the names that occur several times."""
    names = [name for name, _ in named]
    seen: dict[str, int] = {}
    out = []
    for name, value in named:
        seen[name] = seen.get(name, 0) + 1
        out.append((name if names.count(name) == 1 else f"{name} {seen[name]}", value))
    return out


class MemberWarning(UserWarning):
    """A classifier or a method could not take part in the pool."""


@dataclass(frozen=True, eq=False)
class PooledStage(ClassifierStage):
    """Everything that the pool of a quantifier depends on.

    Attributes
    ----------
    classifier : the parameter ``classifiers`` of a quantifier; see :func:`portfolio`
        A limit on time drops classifiers from the last to the first.
    cv : int
    random_state : int, RandomState or None
    effort : {"low", "default", "high"}
    methods : tuple of MemberMethod
    time_limit : float or None
        Seconds; the first classifier is fitted in any case.
    size_limit : float or None
        Bytes of the models in a file.
    schema : TableSchema or None
        By which the pool reads tables; X has its features.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed.
    """

    effort: str = "default"
    methods: tuple[MemberMethod, ...] = ()
    time_limit: float | None = None
    size_limit: float | None = None
    schema: TableSchema | None = None

    def __post_init__(self) -> None:
        self.candidates()
        for name, value in (("time_limit", self.time_limit), ("size_limit", self.size_limit)):
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if value is not None and not (is_number and value > 0):
                raise ValueError(f"{name} must be None or a positive number, got {value!r}")

    def candidates(self, X: Any = None) -> dict[str, Candidate]:
        """Return by name what may join a pool on instances X; None: on any."""
        kinds = None if self.schema is None else self.schema.kinds
        given = (self.classifier, kinds, self.effort, self.random_state)
        if X is None:
            return portfolio(*given)
        shape = (_num_samples(X), n_features(X))
        return portfolio(*given, sparse=sparse_columns(X), shape=shape)

    def fit(
        self,
        X: Any,
        codes: Indices,
        classes: NDArray[Any],
        sample_weight: ArrayLike | None = None,
        n_jobs: int | None = None,
        keep_bytes: float = 0,
        clusters: Indices | None = None,
        *,
        cache: str | PathLike[str] | None = None,
    ) -> FittedStage:
        """Return the pool fitted on instances ``X`` with labels ``classes[codes]``.

        Parameters
        ----------
        X, codes, classes, sample_weight, n_jobs
            See ``kdey.posteriors.ClassifierStage``.
        keep_bytes : float
            Not used: the models of the folds score new instances, and are kept in any case.
        clusters : int64 array of shape (n,), optional
        cache : path-like, optional
            A folder that keeps the fits of each classifier, so that a fit that was stopped can go
            on. The files are pickles, which can run code when read: a folder that others can
            write to is refused.
        """
        if cache is not None:
            check_private(cache)
        splits = make_splits(
            *(self.cv, X, codes, classes), random_state=self.random_state, clusters=clusters
        )
        data = (X, codes, classes, splits, sample_weight, clusters)
        run = _PoolFit(self, self.candidates(X), *data, n_jobs, cache)
        fits = run.cross_fits()
        pool = run.pool(fits)
        warn_about_rare_classes(self.cv, codes, len(classes), splits)
        return run.finished(fits, pool)


@dataclass(eq=False)
class _PoolFit:
    """One fit of a pool, and what was left out on the way."""

    stage: PooledStage
    candidates: Mapping[str, Candidate]
    X: Any
    codes: Indices
    classes: NDArray[Any]
    splits: list[Split]
    sample_weight: ArrayLike | None
    clusters: Indices | None
    n_jobs: int | None
    cache: str | PathLike[str] | None
    start: float = field(default_factory=time.monotonic)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        warnings.warn(f"{name} is left out of the pool: {reason}", MemberWarning, stacklevel=7)

    def cross_fits(self) -> dict[str, FittedStage]:
        """Return the fits of all candidates that could be fitted, by name."""
        fits: dict[str, FittedStage] = {}
        error: Exception | None = None
        for number, name in enumerate(self.candidates):
            started = time.monotonic()
            try:
                # The first one is fitted in any case.
                fits[name] = self._cross_fit(name, self._judge(name) if fits else None)
            except _LimitError as exceeded:
                self.leave_out(name, str(exceeded))
            except Exception as failure:  # classifiers of users may raise anything
                error = failure
                self.leave_out(name, f"its fit failed ({_first_line(failure)})")
            self.seconds[name] = time.monotonic() - started
            self._log(name, number + 1)
        if not fits:
            assert error is not None, "the first classifier has no limits"
            raise error
        return fits

    def _judge(self, name: str) -> Judge | None:
        """Return what ends the fits of a classifier that a limit will drop; None: nothing does."""
        stage, kept = self.stage, 1 if self.candidates[name][1] else len(self.splits)
        # Small tables have small models, and the first fold need not be waited for.
        most_bytes = None if len(self.codes) < SMALL_TABLE else stage.size_limit
        if stage.time_limit is None and most_bytes is None:
            return None

        def judge(model: Any, seconds_left: float) -> None:
            spent = time.monotonic() - self.start
            if stage.time_limit is not None and spent + seconds_left > stage.time_limit:
                raise _LimitError(
                    f"time_limit={stage.time_limit:g} s, of which {spent:.0f} s are over, and its "
                    f"other fits would take about {seconds_left:.0f} s"
                )
            size = 0 if most_bytes is None else kept * model_bytes(model)
            if most_bytes is not None and size > most_bytes:
                raise _LimitError(_too_large(size, most_bytes))

        return judge

    def _cross_fit(self, name: str, judge: Judge | None) -> FittedStage:
        (classifier, refit), file = self.candidates[name], None
        if self.cache is not None:
            key = fingerprint(
                *(classifier, refit, self.X, self.codes, self.classes),
                *(self.splits, self.sample_weight, self.clusters),
            )
            file = Path(self.cache) / f"{key}.fits"
            kept = _read_fits(file)
            if kept is not None:
                return kept
        limit = self.stage.time_limit
        if judge is not None and limit is not None and time.monotonic() > self.start + limit:
            raise _LimitError(f"time_limit={limit:g} s, and the others have used it up")
        with openmp_threads(name, len(self.codes)):
            fits = cross_fit(
                classifier,
                self.X,
                self.codes,
                self.classes,
                self.splits,
                sample_weight=self.sample_weight,
                n_jobs=self.n_jobs,
                clusters=self.clusters,
                refit=refit,
                keep=not refit or name in _SMALL,  # six forests would be held at once
                judge=judge,
            )
        if file is not None:
            write_whole(file, pickle.dumps(fits))
        return fits

    def _log(self, name: str, done: int) -> None:
        """Log that a classifier is finished, and a guess of the time that the others take."""
        costs = [_COSTS.get(name, _OTHER_COST) for name in self.candidates]
        seconds = time.monotonic() - self.start
        left = seconds * sum(costs[done:]) / sum(costs[:done])
        guess = f", about {max(left, 1):.0f} s left" if left else ""
        counts = (seconds, done, len(costs), guess)
        logger.info("%s: done after %.1f s (%d of %d classifiers)%s", name, *counts)

    def pool(self, fits: dict[str, FittedStage]) -> HeldOut:
        """Return the pool of the members that are worth their weight."""
        n_threads = thread_count(self.n_jobs)
        trainings = {name: self._training(fit, fits) for name, fit in fits.items()}
        methods = usable_methods(self.stage.methods, next(iter(trainings.values())))
        for method in self.stage.methods:
            if method not in methods:
                self.left_out[method.name] = f"kernels need {KERNEL_LABELS} labels"
        members: list[FittedMember] = []
        for name, training in trainings.items():
            for method in methods:
                try:
                    members.append(fit_member(name, method, training, len(self.classes), n_threads))
                except ValueError as failure:
                    self.leave_out(f"{method.name} on {name}", _first_line(failure))
        if not members:
            raise ValueError("no method could be fitted to the posteriors of any classifier")
        return self._within_size(best_pool(members, trainings, n_threads), fits)

    def _training(self, fit: FittedStage, fits: dict[str, FittedStage]) -> TrainingPosteriors:
        """Return training posteriors whose rows are those of all other classifiers.

        A frozen classifier scores all instances once; splits may leave out or repeat some.
        """
        if fit.training.folds is not None:
            return fit.training
        others = (f.training for f in fits.values() if f.training.folds is not None)
        other = next(others, None)
        if other is None or other.instances is None:
            return fit.training
        return replace(other, posteriors=fit.training.required()[other.instances])

    def _within_size(self, pool: HeldOut, fits: dict[str, FittedStage]) -> HeldOut:
        """Return the pool without the largest classifiers, until it is as small as asked for."""
        limit = self.stage.size_limit
        while limit is not None:
            sizes = {m.classifier: 0 for m in pool.members}
            sizes = {name: model_bytes(self._models(name, fits)) for name in sizes}
            total = sum(sizes.values()) + model_bytes(pool.members)
            if total <= limit or len(sizes) == 1:
                if total > limit:
                    warnings.warn(
                        f"the model takes about {total / 1e6:.0f} MB, more than the size_limit of "
                        f"{limit / 1e6:.0f} MB",
                        MemberWarning,
                        stacklevel=7,
                    )
                return pool
            largest = max(sizes, key=lambda name: sizes[name])
            self.leave_out(largest, _too_large(sizes[largest], limit))
            pool = pool.keep([i for i, m in enumerate(pool.members) if m.classifier != largest])
        return pool

    def _models(self, name: str, fits: dict[str, FittedStage]) -> list[Any]:
        """Return the models that score new instances."""
        fit = fits[name]
        return list(fit.fold_models or ()) if fit.classifier is None else [fit.classifier]

    def _check_models(
        self, models: Mapping[str, list[Any]], fits: dict[str, FittedStage]
    ) -> dict[str, list[Any]]:
        """Return the fold models of refitted classifiers, where they are small enough to keep."""
        kept = {
            name: list(fits[name].fold_models or ())
            for name in models
            if name in _SMALL and fits[name].classifier is not None and fits[name].fold_models
        }
        limit = self.stage.size_limit
        if limit is not None and model_bytes([models, kept]) > limit:
            return {}
        return kept

    def finished(self, fits: dict[str, FittedStage], pool: HeldOut) -> FittedStage:
        """Return the pool as a classifier, and its training posteriors."""
        names = list(dict.fromkeys(member.classifier for member in pool.members))
        classifier = PooledClassifier(
            {name: self.candidates[name][0] for name in names},
            pool.members,
            pool.weights,
            thread_count(self.n_jobs),
        )
        models = {name: self._models(name, fits) for name in names}
        classifier.set_models(models, self.classes, self.X, self._check_models(models, fits))
        training = self._training(fits[names[0]], fits)
        record = record_pool(pool)
        classifier.record_ = replace(record, left_out=self.left_out, seconds=self.seconds)
        schema = self.stage.schema
        return FittedStage(
            classifier if schema is None else reading_tables(classifier, schema),
            replace(training, posteriors=pool.posteriors),
        )


class _LimitError(Exception):
    """The fits of a classifier would exceed a limit, and are not made."""


def _too_large(size: float, limit: float) -> str:
    return f"it takes {size / 1e6:.0f} MB, and size_limit={limit / 1e6:.0f} MB"


def _read_fits(file: Path) -> FittedStage | None:
    """Return the fits that a file keeps; None if there are none, or they are damaged."""
    try:
        fits = pickle.loads(file.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
        return None
    return fits if isinstance(fits, FittedStage) else None


def sampled_rows(codes: Indices, random_state: Any) -> Indices | None:
    """Return the rows of a random sample of a large table, with its shares; None: all of them.

    Parameters
    ----------
    codes : int64 array of shape (n,)
        Labels.
    random_state : int, RandomState or None
    """
    n = len(codes)
    if n <= MOST_ROWS:
        return None
    order = np.lexsort((check_random_state(random_state).random_sample(n), codes))
    counts = np.bincount(codes)
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.ceil(counts * (MOST_ROWS / n)).astype(np.int64)
    return np.sort(order[rank < np.repeat(kept, counts)])


#: Size of a model file relative to that of compressed pickles (trees of 20,000 rows: 0.82).
_FILE_SHARE = 0.85


def model_bytes(models: Any) -> int:
    """Return about how many bytes models take in a file, which is compressed."""
    return int(_FILE_SHARE * len(zlib.compress(pickle.dumps(models), 1)))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
