"""The portfolio: the classifiers that are combined when the user names none.

Three kinds of model that fail in different ways, each maintained by scikit-learn: a linear one, a
forest, and boosted trees. Multilayer perceptrons, nearest neighbours and kernel features were tried
and did not earn their time (docs/decisions/0019-stacking.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from kdey._parallel import one_openmp_thread
from kdey.posteriors import check_classifier
from kdey.tables.features import SparseColumns, prepare
from kdey.tables.schema import Kind

#: Names of the classifiers of the portfolio. A limit on time drops them from the last to the first.
CLASSIFIERS = ("logistic regression", "extra trees", "gradient boosting")
#: For columns of text: complement naive Bayes in place of boosted trees, which need dense numbers.
TEXT_CLASSIFIERS = ("logistic regression", "naive Bayes", "extra trees")
#: Classifiers that are fitted on all instances once more. Boosted trees are surer on new instances
#: when refitted than their fold models were, so these score new instances instead.
_REFITTED = frozenset({"logistic regression", "extra trees", "naive Bayes"})
#: Tables with fewer rows are given to one thread of OpenMP. Boosted trees start their threads
#: anew for every step of a few microseconds: on 5,000 rows a second thread saves a fifth of the
#: time if its core is idle, and if it is not, all wait for it, and a second becomes a minute.
SMALL_TABLE = 10_000


@dataclass(frozen=True)
class Effort:
    """How much work a fit may be.

    Attributes
    ----------
    folds : int
        Folds of the cross-validation.
    trees : int
        Trees of the forest.
    rounds : int
        Rounds of boosting.
    """

    folds: int
    trees: int
    rounds: int


#: The values of the parameter ``effort``.
EFFORTS: Mapping[str, Effort] = {
    "low": Effort(folds=3, trees=50, rounds=50),
    "default": Effort(folds=5, trees=100, rounds=100),
    "high": Effort(folds=10, trees=300, rounds=200),
}


@dataclass(frozen=True, eq=False)
class PoolCandidate:
    """A classifier that may join the pool.

    Attributes
    ----------
    name : str
    classifier : unfitted classifier, with its preparation
    refit : bool
        Whether new instances are scored by a model that is fitted on all training instances;
        otherwise by the mean of the models of the folds.
    """

    name: str
    classifier: Any
    refit: bool = False


def portfolio(
    classifiers: Any,
    kinds: Sequence[Kind] | None,
    effort: Effort,
    random_state: Any = None,
    *,
    sparse: SparseColumns | None = None,
) -> tuple[PoolCandidate, ...]:
    """Return the candidates that the parameter ``classifiers`` of a quantifier stands for.

    Parameters
    ----------
    classifiers : "auto", str, classifier, sequence of these, or mapping from names to classifiers
        A name is one of the portfolio, with the preparation that it needs. Other classifiers are
        used as they are.
    kinds : sequence of {"number", "category", "text"} or None
        Kind of each column of X; None means that all are numbers.
    effort : Effort
    random_state : int or None
    sparse : {"alike", "mixed"} or None
        Columns of a sparse matrix (``kdey.tables.features.sparse_columns``).

    Raises
    ------
    ValueError
        If a name is unknown, or there are no classifiers.
    """
    named: list[tuple[str, Any]] = []
    if isinstance(classifiers, str) and classifiers == "auto":
        named = [(name, name) for name in _default_names(kinds, sparse)]
    elif isinstance(classifiers, Mapping):
        named = [(str(name), value) for name, value in classifiers.items()]
    elif isinstance(classifiers, Iterable) and not isinstance(classifiers, str):
        named = _distinct([(_name_of(value), value) for value in classifiers])
    else:
        named = [(_name_of(classifiers), classifiers)]
    if not named:
        raise ValueError('classifiers is empty: name at least one, or use "auto"')
    return tuple(
        _candidate(name, value, kinds, effort, random_state, sparse) for name, value in named
    )


def openmp_threads(name: str, n_rows: int) -> AbstractContextManager[None]:
    """Return the limit on OpenMP's threads under which a classifier works on a table.

    Parameters
    ----------
    name : str
        Name of the classifier. Those of a user, which may have much work for each row, have no
        limit.
    n_rows : int
    """
    is_known = name in (*CLASSIFIERS, *TEXT_CLASSIFIERS)
    return one_openmp_thread() if is_known and n_rows < SMALL_TABLE else nullcontext()


def check_classifiers(classifiers: Any) -> None:
    """Raise ValueError or TypeError if ``classifiers`` is not what :func:`portfolio` takes."""
    portfolio(classifiers, None, EFFORTS["default"])


def _default_names(kinds: Sequence[Kind] | None, sparse: SparseColumns | None) -> tuple[str, ...]:
    has_text = kinds is not None and "text" in kinds
    return TEXT_CLASSIFIERS if has_text or sparse is not None else CLASSIFIERS


def _candidate(
    name: str,
    value: Any,
    kinds: Sequence[Kind] | None,
    effort: Effort,
    random_state: Any,
    sparse: SparseColumns | None,
) -> PoolCandidate:
    if not isinstance(value, str):
        try:
            check_classifier(value)
        except TypeError as error:
            raise TypeError(f"classifiers: {error}") from error
        return PoolCandidate(name, value)
    classifier = named_classifier(value, effort, random_state)
    return PoolCandidate(name, prepare(classifier, kinds, sparse=sparse), value in _REFITTED)


def named_classifier(name: str, effort: Effort, random_state: Any = None) -> Any:
    """Return a classifier of the portfolio, without its preparation.

    Parameters
    ----------
    name : str
    effort : Effort
    random_state : int or None

    Raises
    ------
    ValueError
        If the portfolio has no classifier of this name.
    """
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression  # slow to import
    from sklearn.naive_bayes import ComplementNB

    # A seed of its own, so that equal data give equal models where the user names none.
    seed = 0 if random_state is None else random_state
    if name == "logistic regression":
        return LogisticRegression(max_iter=1000)
    if name == "extra trees":
        return ExtraTreesClassifier(effort.trees, random_state=seed)
    if name == "gradient boosting":
        # Small steps and trees: on 18 sets as good as larger ones, in half the time and space.
        return HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=effort.rounds,
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
