"""Submissions to LeQua: estimates of all bags of a task, written, checked and scored.

A submission is a comma-separated file with the header ``id,0,...,k-1`` and one line per bag, whose
numbers lie in [0, 1] and sum to one within 0.001; bags are numbered from zero, and there are as
many as the task has for development or for test. The measures are those of the task: MRAE, smoothed
by 1 / (2 bag size), and MAE; for ordered classes the mean NMD and macro-NMD.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import GridSearchQ, Ordered
from kdey._display import muted
from kdey._io import write_whole
from kdey.datasets.lequa import (
    N_DEVELOPMENT,
    N_TEST,
    LequaTask,
    find_task,
    read_header,
    read_prevalences,
)
from kdey.datasets.loading import Bagged, IndexBags
from kdey.datasets.registry import PathLike
from kdey.evaluation import GivenBags, GridEdgeWarning
from kdey.metrics import (
    absolute_error,
    macro_normalised_match_distance,
    normalised_match_distance,
    relative_absolute_error,
)
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier
from kdey.simplex import check_posteriors

Array = NDArray[np.float64]
#: Every so many training samples, one is held out to choose the strength of the penalty.
_HOLD_OUT_EVERY = 3
#: Strengths of the penalty among which training samples choose.
STRENGTHS = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


def task_classifier(facts: LequaTask) -> Any:
    """Return an unfitted classifier for the instances of a task, vectors or texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    first = TfidfVectorizer(sublinear_tf=True) if facts.documents else StandardScaler()
    return make_pipeline(first, LogisticRegression(max_iter=1000))


def task_quantifier(facts: LequaTask, method: AggregativeQuantifier) -> AggregativeQuantifier:
    """Return a method as the task needs it: with a penalty on roughness for ordered classes."""
    if not facts.ordered:
        return method
    return Ordered(method, tune_bag_size=facts.bag_size)


def fit_task(
    quantifier: AggregativeQuantifier, data: Bagged, *, from_samples: bool = False
) -> BaseQuantifier:
    """Fit a quantifier on the training data of a task.

    Parameters
    ----------
    quantifier : unfitted quantifier
    data : Bagged
    from_samples : bool
        Whether to use that the training data are samples with prevalences of their own, as in T3:
        every third sample is held out, the strength of the penalty on roughness is the one with
        the smallest NMD on these, and the quantifier is then fitted on all instances. Otherwise
        the instances are taken as one set.

    Returns
    -------
    fitted quantifier

    Raises
    ------
    ValueError
        If ``from_samples`` is asked of a task whose training data are one set, or of a method
        without a strength.
    """
    if not from_samples:
        return quantifier.fit(data.train.X, data.train.y)
    if data.training_bags is None:
        raise ValueError(f"{data.name} is trained on one set of instances, not on samples")
    if not isinstance(quantifier, Ordered):
        raise ValueError("only methods for ordered classes choose a strength by samples")
    kept, held_out, protocol = _hold_out(data.training_bags)
    X, y = data.train.X, data.train.y
    search = GridSearchQ(
        quantifier, {"strength": list(STRENGTHS)}, scoring="nmd", protocol=protocol, verbose=False
    )
    with muted(GridEdgeWarning):  # zero is no penalty, and the largest leaves hardly a choice
        search.fit(X[kept], y[kept], X_val=X[held_out], y_val=y[held_out])
    best: BaseQuantifier = search.best_estimator_
    return best


def _hold_out(samples: IndexBags) -> tuple[NDArray[Any], NDArray[Any], GivenBags]:
    """Return rows to fit on, rows held out, and the held-out samples as bags of these."""
    positions = list(samples.bags)
    if len(positions) < _HOLD_OUT_EVERY:
        raise ValueError(f"at least {_HOLD_OUT_EVERY} training samples are needed")
    chosen = np.arange(len(positions)) % _HOLD_OUT_EVERY == 0
    held_out = [rows for rows, is_chosen in zip(positions, chosen, strict=True) if is_chosen]
    kept = [rows for rows, is_chosen in zip(positions, chosen, strict=True) if not is_chosen]
    ends = np.cumsum([len(rows) for rows in held_out])
    bags = np.split(np.arange(ends[-1]), ends[:-1])
    protocol = GivenBags(bags, samples.prevalences[chosen])
    return np.concatenate(kept), np.concatenate(held_out), protocol


def estimate_all(quantifier: BaseQuantifier, bags: Iterable[Any]) -> Array:
    """Return the prevalences of bags that are read one at a time, shape (n_bags, k)."""
    return np.stack([quantifier.predict(X) for X in bags])


def write_submission(path: PathLike, prevalences: ArrayLike) -> None:
    """Write estimates as a submission.

    Parameters
    ----------
    path : path-like
    prevalences : array-like of shape (n_bags, k)
        In the order of the bags' numbers, columns in that of the classes.

    Raises
    ------
    ValueError
        If a row is no prevalence.
    """
    rows = np.clip(check_posteriors(prevalences, name="prevalences"), 0.0, 1.0)
    header = ["id", *map(str, range(rows.shape[1]))]
    lines = (",".join([str(i), *map(repr, row)]) for i, row in enumerate(rows.tolist()))
    write_whole(path, "\n".join([",".join(header), *lines]) + "\n")


def read_submission(path: PathLike, task: str | None = None, *, n_bags: int | None = None) -> Array:
    """Return the prevalences of a submission, or of a file of true ones, once it is checked.

    Parameters
    ----------
    path : path-like
    task : str, optional
        Whose number of classes it must have; by default any.
    n_bags : int, optional
        How many bags there must be; by default as many as a task has for development or test.

    Returns
    -------
    float64 array of shape (n_bags, k), in the order of the bags' numbers

    Raises
    ------
    ValueError
        Names the line that does not fit.
    """
    content, where = Path(path).read_bytes(), str(path)
    if not content.strip():
        raise ValueError(f"{where}: empty; a header and one line per bag are needed")
    k = len(read_header(content)) - 1 if task is None else find_task(task).n_classes
    if k < 2:
        raise ValueError(f"{where}, line 1: at least two classes are needed, found {max(k, 0)}")
    prevalences = read_prevalences(content, where, np.arange(k))
    counts = (N_DEVELOPMENT, N_TEST) if n_bags is None else (n_bags,)
    if len(prevalences) not in counts:
        expected = " or ".join(f"{count:,}" for count in counts)
        raise ValueError(f"{where}: {len(prevalences):,} bags, expected {expected}")
    return prevalences


def score(task: str, true: ArrayLike, estimated: ArrayLike) -> dict[str, float]:
    """Return the measures of a task by name, the official one first.

    Parameters
    ----------
    task : str
    true, estimated : array-like of shape (n_bags, k)

    Returns
    -------
    dict
        "MRAE" and "MAE"; for ordered classes "MNMD" and "macro-NMD".
    """
    facts = find_task(task)
    a, b = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"true has shape {a.shape}, estimated {b.shape}: they must be the same")
    if facts.ordered:
        mean = float(normalised_match_distance(a, b).mean())
        return {"MNMD": mean, "macro-NMD": macro_normalised_match_distance(a, b)}
    relative = relative_absolute_error(a, b, bag_size=facts.bag_size)
    return {"MRAE": float(relative.mean()), "MAE": float(absolute_error(a, b).mean())}
