"""Values that ``scripts/compare_trees.py`` compares between two trees of kdey.

``python scripts/tree_values.py OUT [PART ...]`` runs with the kdey that is on the path and writes
to ``OUT`` (a pickle of plain values) what every case gave: numbers and texts. It uses public names
alone, by way of ``tree_calls.py``, so that it runs on trees whose modules lie elsewhere. Data come
from seeded formulas and from what scikit-learn brings along.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tree_calls import (
    Names,
    Record,
    Values,
    columns_of,
    command_of,
    compare_groups,
    estimate,
    estimate_bags,
    estimate_scores,
    make_report,
    predict_groups,
    public,
)

Array = NDArray[np.float64]
Part = Callable[[Record], None]
PARTS: dict[str, Part] = {}


def part(function: Part) -> Part:
    """Add a function to the parts, under its name."""
    PARTS[function.__name__] = function
    return function


# Data


@cache
def scores(k: int, n: int, seed: int, shift: float = 0.0) -> tuple[Array, NDArray[np.int64]]:
    """Return posteriors (n, k) of a fair classifier and labels, later classes rarer by shift."""
    rng = np.random.default_rng(seed)
    shares = np.exp(-shift * np.arange(k))
    labels = rng.choice(k, n, p=shares / shares.sum())
    labels[:k] = np.arange(k)
    logits = rng.normal(size=(n, k)) + 1.7 * np.eye(k)[labels]
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True), labels


def names_of(labels: NDArray[np.int64]) -> NDArray[Any]:
    """Return labels as texts whose order is that of the numbers."""
    return np.array([f"class {'abcdefghij'[i]}" for i in range(10)])[labels]


def bags_of(m: int, n_bags: int = 5) -> list[NDArray[np.int64]]:
    """Return bags of several sizes over a pool of m instances."""
    rng = np.random.default_rng(7)
    return [rng.choice(m, 30 + 40 * b, replace=True) for b in range(n_bags)]


@cache
def iris() -> tuple[Any, ...]:
    """Return training and new instances of iris, with noise: no method is perfect on it."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    X = X[:, [1, 3]] + np.random.default_rng(0).normal(scale=0.3, size=(len(X), 2))
    return X[::2], y[::2], X[1::2], y[1::2]


@cache
def digits() -> tuple[Any, ...]:
    """Return training and new instances of digits, a quarter of the pixels."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16) / 16
    return X[::3], y[::3], X[1::3], y[1::3]


@cache
def tumours() -> tuple[Any, ...]:
    """Return training and new instances of a binary set, two features."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [1, 4]] / X[:, [1, 4]].std(axis=0)
    return X[::2], y[::2], X[1::2], y[1::2]


def quantifiers(k: int) -> dict[str, Any]:
    """Return unfitted quantifiers on posteriors, by how they are written."""
    kdey = Names()

    seeded: dict[str, Any] = {"random_state": 0}
    made: dict[str, Any] = {
        "CC()": kdey.CC(),
        "PCC()": kdey.PCC(),
        "ACC()": kdey.ACC(),
        "PACC()": kdey.PACC(),
        "EMQ()": kdey.EMQ(),
        "EMQ(solver='em')": kdey.EMQ(solver="em"),
        "EMQ(solver='em', tol, max_iter)": kdey.EMQ(solver="em", tol=1e-6, max_iter=50),
        "EMQ(tol=1e-5)": kdey.EMQ(tol=1e-5),
        "DIR()": kdey.DIR(),
        "DIR(shrinkage=1e-3)": kdey.DIR(shrinkage=1e-3),
    }
    for name in ("platt", "temperature", "bcts", "vector", "nbvs"):
        made[f"EMQ(calibration={name!r})"] = kdey.EMQ(calibration=name)
    kinds: dict[str, Any] = {"KDEyML": kdey.KDEyML, "KDEyCS": kdey.KDEyCS, "KDEyL2": kdey.KDEyL2}
    for name, kind in kinds.items():
        made |= {
            f"{name}()": kind(**seeded),
            f"{name}(bandwidth=0.1)": kind(bandwidth=0.1),
            f"{name}(aitchison)": kind(bandwidth=0.4, kernel="aitchison"),
            f"{name}(ilr, shrinkage)": kind(bandwidth=0.4, kernel="ilr", shrinkage=0.01),
            f"{name}(scott)": kind(bandwidth="scott"),
            f"{name}(silverman, double)": kind(bandwidth="silverman", precision="double"),
        }
    made |= {
        "KDEyML(kernel='gaussian')": kdey.KDEyML(kernel="gaussian", **seeded),
        "KDEyML(average=False)": kdey.KDEyML(average=False, **seeded),
        "KDEyML(tune_for, tune_bag_size)": kdey.KDEyML(
            tune_for="rae", tune_bag_size=100, random_state=3
        ),
        "KDEyHD(bandwidth=0.1)": kdey.KDEyHD(bandwidth=0.1, n_points=1000, **seeded),
        "KDEyHD(topsoe)": kdey.KDEyHD(divergence="topsoe", bandwidth=0.1, n_points=500, **seeded),
        "KDEyHD(kl, aitchison)": kdey.KDEyHD(
            divergence="kl", bandwidth=0.4, kernel="aitchison", n_points=500, **seeded
        ),
        "DM()": kdey.DM(**seeded),
        "DM(n_bins=8)": kdey.DM(n_bins=8),
        "DM(topsoe)": kdey.DM(divergence="topsoe", n_bins=10),
        "DM(cdf)": kdey.DM(n_bins=8, cdf=True),
        "OneVsAll(HDy())": kdey.OneVsAll(kdey.HDy()),
        "OneVsAll(ACC(), softmax)": kdey.OneVsAll(kdey.ACC(), normalisation="softmax"),
        "OneVsAll(KDEyML(bandwidth=0.1))": kdey.OneVsAll(kdey.KDEyML(bandwidth=0.1)),
        "Median(KDEyCS, grid)": kdey.Median(kdey.KDEyCS(), {"bandwidth": [0.05, 0.1, 0.2]}),
        "Ensemble(PACC)": kdey.Ensemble(kdey.PACC(), n_members=5, **seeded),
        "Ensemble(EMQ, median, prevalence)": kdey.Ensemble(
            kdey.EMQ(), n_members=6, size=150, reduction="median", selection="prevalence", **seeded
        ),
    }
    if k < 10:
        made |= {
            "KDEyHD()": kdey.KDEyHD(n_points=400, **seeded),
            "DM(cauchy-schwarz)": kdey.DM(divergence="cauchy-schwarz", n_bins=6),
            "DM(mean-hellinger)": kdey.DM(divergence="mean-hellinger", n_bins=6),
        }
    if k == 2:
        made |= {
            "HDy()": kdey.HDy(),
            "HDy(n_bins=...)": kdey.HDy(n_bins=(4, 8, 12)),
            "HDy(n_bins='auto')": kdey.HDy(n_bins="auto", **seeded),
            "DyS()": kdey.DyS(),
            "DyS(hellinger)": kdey.DyS(dissimilarity="hellinger", n_bins=12),
            "DyS(ordinal)": kdey.DyS(dissimilarity="ordinal"),
            "DyS(l1, auto)": kdey.DyS(dissimilarity="l1", n_bins="auto", **seeded),
            "MM()": kdey.MM(),
            "MM(ks)": kdey.MM(criterion="ks", n_bins=40),
        }
    return made


# What is recorded of an answer


def solution_values(solution: Any) -> list[Any]:
    """Return the numbers of a solution."""
    names = ("prevalence", "objective", "gap", "n_iter", "converged")
    return [getattr(solution, name) for name in names]


def estimate_values(estimate: Any) -> list[Any]:
    """Return the numbers of an estimate, its covariance and its region."""
    region = estimate.region
    uniform = np.full(len(estimate.classes), 1 / len(estimate.classes))
    drawn = estimate.draws
    return [
        estimate.to_dict(),
        {
            "covariance": estimate.covariance,
            "distances": region.distance(np.array([estimate.estimate, uniform])),
            "contains": region.contains(uniform),
            "corrected": np.zeros(0) if estimate.corrected is None else estimate.corrected,
            "draws": np.zeros(0) if drawn is None else drawn,
        },
    ]


def fitted_values(quantifier: Any) -> list[Any]:
    """Return the numbers that a fitted quantifier tells of itself."""
    made = [quantifier.classes_, quantifier.prevalence_]
    names = ("bandwidth_", "kernel_", "shrinkage_", "n_bins_")
    made += [getattr(quantifier, name) for name in names if hasattr(quantifier, name)]
    tuning = getattr(quantifier, "tuning_", None)
    if tuning is not None:
        made += [columns_of(tuning.to_frame("pandas")), tuning.baseline]
    return made


# Parts


@part
def quantifiers_on_posteriors(record: Record) -> None:
    """Solve bags with every quantifier: labels as numbers and texts, weights or none."""
    for k, n in ((2, 300), (3, 400), (10, 500)):
        P, y = scores(k, n, k, 0.1)
        P_bag, _ = scores(k, 350, 100 + k, 0.5)
        weights = np.random.default_rng(k).gamma(2.0, size=n)
        bag_weights = np.random.default_rng(k + 1).gamma(2.0, size=len(P_bag))
        for name, template in quantifiers(k).items():
            record.run(
                f"{name}, {k} classes",
                lambda template=template, P=P, y=y, P_bag=P_bag, bag_weights=bag_weights: _answers(
                    template, P, y, None, P_bag, bag_weights
                ),
            )
            if k == 3:
                record.run(
                    f"{name}, texts and weights",
                    lambda template=template, P=P, y=y, w=weights, P_bag=P_bag, b=bag_weights: (
                        _answers(template, P, names_of(y), w, P_bag, b)
                    ),
                )


def _answers(template: Any, P: Array, y: Any, w: Any, P_bag: Array, bag_weights: Array) -> Any:
    from sklearn.base import clone

    quantifier = clone(template).fit_posteriors(P, y, w)
    made = fitted_values(quantifier)
    made += solution_values(quantifier.solve_posteriors(P_bag, bags_of(len(P_bag))))
    made += [quantifier.aggregate(P_bag), quantifier.aggregate(P_bag, bag_weights)]
    made.append(quantifier.aggregate(P_bag.astype(np.float32)))
    return made


@part
def quantifiers_on_features(record: Record) -> None:
    """Fit with classifiers inside, and the methods on the features themselves."""
    import pandas as pd
    import polars as pl
    import scipy.sparse as sp
    from sklearn.base import clone
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.naive_bayes import GaussianNB

    kdey = Names()

    trees = ExtraTreesClassifier(20, random_state=0)
    seeded: dict[str, Any] = {"random_state": 0}
    for data, (X, y, X_new, _) in {
        "iris": iris(),
        "digits": digits(),
        "tumours": tumours(),
    }.items():
        frozen = FrozenEstimator(GaussianNB().fit(X[::2], y[::2]))
        rows = np.arange(len(y))
        splits = [(rows[rows % 3 != i], rows[rows % 3 == i]) for i in range(3)]
        made: dict[str, Any] = {
            "TrainingPrevalence()": kdey.TrainingPrevalence(),
            "KDEyML(), default classifier": kdey.KDEyML(**seeded),
            "KDEyML(trees)": kdey.KDEyML(trees, **seeded),
            "KDEyML(trees, cv=3)": kdey.KDEyML(trees, bandwidth=0.1, cv=3, **seeded),
            "PACC(cv=0.4)": kdey.PACC(GaussianNB(), cv=0.4, **seeded),
            "PACC(cv=splitter)": kdey.PACC(GaussianNB(), cv=StratifiedKFold(4)),
            "PACC(cv=splits)": kdey.PACC(GaussianNB(), cv=splits),
            "ACC(frozen)": kdey.ACC(frozen),
            "EMQ(bcts)": kdey.EMQ(LogisticRegression(max_iter=1000), calibration="bcts", **seeded),
            "CC(), PCC()": kdey.CC(GaussianNB()),
            "DM(topsoe)": kdey.DM(GaussianNB(), divergence="topsoe", n_bins=8, **seeded),
            "DMx()": kdey.DMx(),
            "DMx(auto, cdf)": kdey.DMx(n_bins="auto", cdf=True),
            "OneVsAll(PACC)": kdey.OneVsAll(kdey.PACC(GaussianNB(), **seeded)),
            "Median(DM, bins)": kdey.Median(kdey.DM(GaussianNB(), **seeded), {"n_bins": [4, 6, 8]}),
            "Ensemble(EMQ)": kdey.Ensemble(kdey.EMQ(GaussianNB()), n_members=4, **seeded),
        }
        if data == "tumours":
            made |= {
                "HDx()": kdey.HDx(),
                "HDx(auto)": kdey.HDx(n_bins="auto"),
                "HDy()": kdey.HDy(GaussianNB(), **seeded),
            }
        weights = np.random.default_rng(1).gamma(2.0, size=len(y))
        for name, template in made.items():

            def case(template: Any = template, X: Any = X, y: Any = y, X_new: Any = X_new) -> Any:
                q = clone(template).fit(X, y)
                return [
                    fitted_values(q),
                    q.predict(X_new),
                    q.predict(X_new, np.linspace(0.5, 2, len(X_new))),
                    q.predict_bags(X_new, bags_of(len(X_new))),
                    solution_values(q.solve(X_new, bags_of(len(X_new), 2))),
                ]

            record.run(f"{name}, {data}", case)
        if data != "digits":
            for name in ("KDEyML(trees)", "PACC(cv=0.4)", "EMQ(bcts)", "DMx()"):
                record.run(
                    f"{name}, {data}, weights",
                    lambda t=made[name], X=X, y=y, w=weights, X_new=X_new: (
                        clone(t).fit(X, y, w).predict(X_new)
                    ),
                )
    X, y, X_new, _ = iris()
    template = kdey.KDEyML(GaussianNB(), bandwidth=0.1, **seeded)
    columns = ["a", "b"]
    frames = {
        "pandas": (pd.DataFrame(X, columns=columns), pd.DataFrame(X_new, columns=columns)),
        "polars": (pl.DataFrame(X, schema=columns), pl.DataFrame(X_new, schema=columns)),
    }
    for name, (known, new) in frames.items():
        record.run(
            f"frames of {name}, texts",
            lambda known=known, new=new: (
                clone(template).fit(known, names_of(y)).predict_bags(new, bags_of(len(X_new)))
            ),
        )
    record.run(
        "sparse",
        lambda: (
            kdey.PACC(LogisticRegression(max_iter=1000), **seeded)
            .fit(sp.csr_array(X), y)
            .predict(sp.csr_array(X_new))
        ),
    )
    record.run(
        "fit_many",
        lambda: [
            q.predict(X_new)
            for q in kdey.fit_many(
                {"a": kdey.ACC(GaussianNB()), "b": kdey.KDEyCS(GaussianNB(), bandwidth=0.1)}, X, y
            ).values()
        ],
    )
    record.run(
        "from_rates, from_misclassification",
        lambda: [
            kdey.ACC.from_rates(0.9, 0.95).adjust([[0.88, 0.12], [0.99, 0.01]]),
            kdey.PACC.from_misclassification([[0.9, 0.2], [0.1, 0.8]]).adjust([0.55, 0.45]),
        ],
    )


@part
def limits(record: Record) -> None:
    """Estimate with every kind of limits."""
    kdey = Names()

    few: dict[str, Any] = {"method": "bootstrap", "n_replicates": 60}
    settings: dict[str, dict[str, Any]] = {
        "auto": {"n_replicates": 60},
        "bag": {"target": "bag", "n_replicates": 60},
        "80 %, simultaneous": {"confidence": 0.8, "simultaneous": True, "n_replicates": 60},
        "bootstrap": few,
        "bootstrap, bag": few | {"target": "bag"},
        "bootstrap, bias-corrected": few | {"interval": "bias-corrected", "random_state": 5},
        "bootstrap, basic": few | {"interval": "basic"},
        "bootstrap, templates held": few | {"resample_templates": False},
    }
    for k in (2, 3, 10):
        P, y = scores(k, 120 * k, 20 + k)
        P_bag, _ = scores(k, 260, 120 + k, 0.4)
        clusters = np.arange(len(P_bag)) // 7
        weights = np.random.default_rng(3).gamma(2.0, size=len(P_bag))
        training_weights = np.random.default_rng(4).gamma(2.0, size=len(P))
        made = {
            "CC": kdey.CC(),
            "ACC": kdey.ACC(),
            "PACC": kdey.PACC(),
            "EMQ": kdey.EMQ(),
            "EMQ em": kdey.EMQ(solver="em"),
            "EMQ bcts": kdey.EMQ(calibration="bcts"),
            "DIR": kdey.DIR(),
            "KDEyML": kdey.KDEyML(bandwidth=0.1),
            "KDEyML auto": kdey.KDEyML(random_state=0),
            "KDEyCS": kdey.KDEyCS(bandwidth=0.1),
            "KDEyL2": kdey.KDEyL2(bandwidth=0.1),
            "KDEyHD": kdey.KDEyHD(bandwidth=0.1, n_points=300, random_state=0),
            "DM": kdey.DM(n_bins=8),
            "OneVsAll(PACC)": kdey.OneVsAll(kdey.PACC()),
        }
        if k == 2:
            made |= {"HDy": kdey.HDy(n_bins=(4, 8)), "DyS": kdey.DyS(), "MM": kdey.MM()}
        for name, template in made.items():
            fitted = template.fit_posteriors(P, y)
            for how, options in settings.items():
                record.run(
                    f"{name}, {how}, {k} classes",
                    lambda q=fitted, o=options, P_bag=P_bag: estimate_values(
                        estimate_scores(q, P_bag, **o)
                    ),
                )
            for how, given in {
                "weights": {"sample_weight": weights},
                "clusters": {"clusters": clusters},
                "clusters, bag": {"clusters": clusters, "target": "bag"},
                "clusters, bootstrap": {"clusters": clusters, "method": "bootstrap"},
            }.items():
                record.run(
                    f"{name}, {how}, {k} classes",
                    lambda q=fitted, g=given, P_bag=P_bag: estimate_values(
                        estimate_scores(q, P_bag, n_replicates=60, **g)
                    ),
                )
            record.run(
                f"{name}, many bags, {k} classes",
                lambda q=fitted, P_bag=P_bag: _many(q, P_bag),
            )
            if k == 3:
                record.run(
                    f"{name}, weighted training",
                    lambda t=template, P=P, y=y, w=training_weights, P_bag=P_bag: estimate_values(
                        estimate_scores(t.fit_posteriors(P, names_of(y), w), P_bag, n_replicates=60)
                    ),
                )
    X, y, X_new, _ = iris()
    q = kdey.KDEyML(random_state=0).fit(X, y)
    record.run("features, fit checked", lambda: estimate_values(estimate(q, X_new, check_fit=True)))
    record.run(
        "features, many bags",
        lambda: columns_of(q.estimate_bags(X_new, bags_of(len(X_new))).to_frame("pandas")),
    )
    record.run(
        "DMx, bootstrap",
        lambda: estimate_values(estimate(kdey.DMx().fit(X, y), X_new, n_replicates=60)),
    )
    record.run("shown", lambda: [repr(q.estimate(X_new)), q.estimate(X_new)._repr_html_()])


def _many(quantifier: Any, P_bag: Array) -> Any:
    kdey = Names()

    made = estimate_scores(quantifier, P_bag, bags_of(len(P_bag), 3), n_replicates=60)
    apart = estimate_scores(
        quantifier, P_bag, [np.arange(0, 130), np.arange(130, 260)], n_replicates=60
    )
    difference = kdey.difference(apart[0], apart[1])
    return [
        columns_of(made.to_frame("pandas")),
        made.gap,
        made.effective_size,
        difference.difference,
        difference.low,
        difference.high,
        difference.shared,
    ]


def group_frame(m: int = 900) -> Any:
    """Return a table of scores with groups, dates, row keys and a few missing values."""
    import pandas as pd

    P, _ = scores(3, m, 33, 0.3)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(P, columns=[f"p_class {c}" for c in "abc"])
    frame["office"] = np.array(["north", "south", "east"])[rng.integers(0, 3, m)]
    frame["desk"] = rng.integers(0, 2, m)
    frame["day"] = pd.Timestamp("2026-01-05") + pd.to_timedelta(rng.integers(0, 30, m), unit="D")
    frame["row"] = np.arange(m) * 7
    frame.loc[frame.index[[3, 40, 41]], "p_class b"] = np.nan
    return frame


@part
def groups(record: Record) -> None:
    """Estimate the groups of frames in memory."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    kdey = Names()

    frame = group_frame()
    columns = list(frame.columns[:3])
    P, y = scores(3, 300, 31)
    made = {
        "KDEyML auto": kdey.KDEyML(random_state=0),
        "KDEyML": kdey.KDEyML(bandwidth=0.1),
        "EMQ bcts": kdey.EMQ(calibration="bcts"),
        "ACC": kdey.ACC(),
        "KDEyCS": kdey.KDEyCS(bandwidth=0.1),
        "DM": kdey.DM(n_bins=6),
    }
    frames = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
    }
    settings: dict[str, dict[str, Any]] = {
        "by office": {"by": "office"},
        "by office and desk": {"by": ["office", "desk"]},
        "by time": {"by": "office", "time": "day", "every": "1w"},
        "wide": {"by": "office", "wide": True, "time": "day", "every": "1mo"},
        "fit checked": {"by": "office", "check_fit": True, "level": 0.2},
        "bootstrap, bag": {"by": "office", "method": "bootstrap", "target": "bag"},
        "all of it": {},
    }
    for name, template in made.items():
        fitted = template.fit_posteriors(P, names_of(y))
        for kind, table in frames.items():
            if kind != "pandas" and name not in ("KDEyML auto", "ACC"):
                continue
            for how, options in settings.items():
                record.run(
                    f"{name}, {kind}, {how}",
                    lambda q=fitted, t=table, o=options: predict_groups(
                        q, t, scores=columns, n_replicates=60, **o
                    ),
                )
    X, y, X_new, _ = iris()
    known = pd.DataFrame(X, columns=["a", "b"])
    new = pd.DataFrame(X_new, columns=["a", "b"]).assign(
        field=np.where(np.arange(len(X_new)) % 3 > 0, "east", "west")
    )
    for name, template in {
        "KDEyML": kdey.KDEyML(random_state=0),
        "DMx": kdey.DMx(),
        "OneVsAll": kdey.OneVsAll(kdey.PACC(random_state=0)),
    }.items():
        fitted = template.fit(known, y)
        record.run(
            f"{name}, features",
            lambda q=fitted: predict_groups(q, new, "field", n_replicates=60),
        )
    quantifier = kdey.KDEyML(random_state=0).fit(known, y)
    record.run(
        "fold models held, fit checked",
        lambda: predict_groups(quantifier, new, "field", check_fit=True),
    )


@part
def comparisons(record: Record) -> None:
    """Compare groups with the one before, with a named one and with the rest of the table."""
    kdey = Names()
    frame = group_frame()
    columns = list(frame.columns[:3])
    P, y = scores(3, 300, 31)
    weekly: dict[str, Any] = {"time": "day", "every": "1w"}
    settings: dict[str, dict[str, Any]] = {
        "the rest": {"by": "office", "against": "rest"},
        "the rest, two keys": {"by": ["office", "desk"], "against": "rest", "correction": "fdr"},
        "the rest, by week": {"by": "office", "against": "rest", **weekly},
        "a named group": {"by": "office", "against": {"office": "north"}, "correction": None},
        "the week before": {"by": "office", "against": "previous", **weekly},
    }
    for name, template in {
        "KDEyML auto": kdey.KDEyML(random_state=0),
        "EMQ bcts": kdey.EMQ(calibration="bcts"),
        "ACC": kdey.ACC(),
        "DM": kdey.DM(n_bins=6),
    }.items():
        fitted = template.fit_posteriors(P, names_of(y))
        for how, options in settings.items():
            record.run(
                f"{name}, {how}",
                lambda q=fitted, o=options: compare_groups(
                    q, frame, scores=columns, n_replicates=60, **o
                ),
            )


def _every_answer(fitted: Any, X_new: Any) -> list[Any]:
    """Return what a fitted quantifier says of instances: shares, limits, groups."""
    import pandas as pd

    bags = bags_of(len(X_new), 3)
    table = pd.DataFrame(X_new, columns=["a", "b"])
    table["field"] = np.where(np.arange(len(X_new)) % 3 > 0, "east", "west")
    return [
        fitted_values(fitted),
        fitted.predict(X_new),
        fitted.predict(X_new, np.linspace(0.5, 2, len(X_new))),
        fitted.predict_bags(X_new, bags),
        estimate(fitted, X_new, n_replicates=40).to_dict(),
        columns_of(estimate_bags(fitted, X_new, bags, n_replicates=40).to_frame("pandas")),
        predict_groups(fitted, table, "field", n_replicates=40),
    ]


def _fitted_on_frame(template: Any, X: Any, y: Any) -> Any:
    import pandas as pd

    return template.fit(pd.DataFrame(X, columns=["a", "b"]), y)


@part
def wrappers(record: Record) -> None:
    """Fit quantifiers around quantifiers on features, with limits and groups."""
    from sklearn.naive_bayes import GaussianNB

    kdey = Names()
    seeded: dict[str, Any] = {"random_state": 0}

    def inner(kind: Any, **options: Any) -> Any:
        return kind(GaussianNB(), **options)

    made = {
        "OneVsAll(PACC)": kdey.OneVsAll(inner(kdey.PACC, **seeded)),
        "OneVsAll(KDEyML, softmax)": kdey.OneVsAll(
            inner(kdey.KDEyML, bandwidth=0.1, **seeded), normalisation="softmax"
        ),
        "Median(DM)": kdey.Median(inner(kdey.DM, **seeded), {"n_bins": [4, 6, 8]}),
        "Ensemble(EMQ)": kdey.Ensemble(inner(kdey.EMQ), n_members=4, **seeded),
        "Ensemble(PACC, median)": kdey.Ensemble(
            inner(kdey.PACC), n_members=5, size=60, reduction="median", **seeded
        ),
        "Ordered(KDEyML)": kdey.Ordered(inner(kdey.KDEyML, bandwidth=0.1, **seeded), strength=0.5),
        "Ordered(PACC, auto)": kdey.Ordered(inner(kdey.PACC, **seeded)),
        "GridSearchQ(DM)": kdey.GridSearchQ(
            inner(kdey.DM, **seeded), {"n_bins": [4, 8]}, verbose=False, **seeded
        ),
    }
    X, y, X_new, _ = iris()
    for name, template in made.items():
        record.run(name, lambda t=template: _every_answer(_fitted_on_frame(t, X, y), X_new))
    P, labels = scores(3, 200, 90)
    P_bag, _ = scores(3, 150, 190)
    for name in ("OneVsAll(PACC)", "Median(DM)", "Ensemble(EMQ)", "Ordered(PACC, auto)"):
        record.run(
            f"{name}, posteriors",
            lambda t=made[name]: estimate_scores(
                t.fit_posteriors(P, labels), P_bag, n_replicates=40
            ).to_dict(),
        )


@part
def feature_methods(record: Record) -> None:
    """Match the features themselves, without a classifier."""
    from sklearn.base import clone

    kdey = Names()
    made = {
        "EDx()": kdey.EDx(),
        "EDx(euclidean, as it is)": kdey.EDx(distance="euclidean", standardise=False),
        "DMx()": kdey.DMx(),
        "DMx(topsoe, cdf)": kdey.DMx(divergence="topsoe", n_bins=6, cdf=True),
        "KMM()": kdey.KMM(random_state=0),
        "KMM(random features)": kdey.KMM(random_features=40, random_state=0),
        "KMM(bandwidth=1)": kdey.KMM(bandwidth=1.0),
    }
    for data, (X, y, X_new, _) in {"iris": iris(), "tumours": tumours()}.items():
        methods = made if data == "iris" else {**made, "HDx()": kdey.HDx(n_bins=(4, 8, 12))}
        for name, template in methods.items():

            def case(template: Any = template, X: Any = X, y: Any = y, X_new: Any = X_new) -> Any:
                return _every_answer(_fitted_on_frame(clone(template), X, y), X_new)

            record.run(f"{name}, {data}", case)


@part
def groups_beyond_memory(record: Record) -> None:
    """Estimate groups of tables that are larger than memory, or are thought to be: Dask."""
    kdey = Names()

    P, y = scores(3, 90, 31)
    once = np.concatenate([scores(3, 1 << 16, 40 + i, 0.3)[0] for i in range(3)])
    large = np.tile(once, (12, 1))[: (1 << 21) + 5000]
    made = {
        "KDEyML": kdey.KDEyML(bandwidth=0.1),
        "EMQ": kdey.EMQ(),
        "EMQ em": kdey.EMQ(solver="em"),
        "PACC": kdey.PACC(),
        "KDEyML auto": kdey.KDEyML(random_state=0),
        "KDEyCS": kdey.KDEyCS(bandwidth=0.1),
        "KDEyL2": kdey.KDEyL2(bandwidth=0.1),
        "KDEyHD": kdey.KDEyHD(bandwidth=0.1, n_points=200, random_state=0),
        "DM": kdey.DM(n_bins=6),
        "DM cs": kdey.DM(n_bins=4, divergence="cauchy-schwarz"),
        "DIR": kdey.DIR(),
    }
    frame = group_frame()
    columns = list(frame.columns[:3])
    for name, template in made.items():
        fitted = template.fit_posteriors(P, names_of(y))
        if name in ("KDEyML", "EMQ", "PACC"):
            record.run(
                f"{name}, one group of two million",
                lambda q=fitted: _large_group(q, large, columns),
            )
    try:
        import dask
        import dask.dataframe as dd
    except ImportError:
        return
    parts = dd.from_pandas(frame, npartitions=4)
    with dask.config.set(scheduler="synchronous"):
        for name, template in made.items():
            fitted = template.fit_posteriors(P, names_of(y))
            for how, given in {
                "by office": {"by": "office", "key": "row"},
                "by time": {"by": "office", "time": "day", "every": "1w"},
                "wide, not kept": {"by": "office", "wide": True, "keep": False, "target": "bag"},
                "bootstrap": {
                    "by": "office",
                    "key": "row",
                    "method": "bootstrap",
                    "n_replicates": 40,
                },
            }.items():
                if name == "KDEyHD" and "key" in given:
                    continue  # rows as wide as its points are not summed for replicates
                record.run(
                    f"{name}, Dask, {how}",
                    lambda q=fitted, g=given: predict_groups(q, parts, scores=columns, **g),
                )


def _large_group(quantifier: Any, points: Array, columns: list[str]) -> Any:
    import pyarrow as pa

    table = pa.table({name: points[:, i] for i, name in enumerate(columns)})
    return predict_groups(quantifier, table, scores=columns)


@part
def searches(record: Record) -> None:
    """Search grids, and at random; a search is resumed from its log."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    kdey = Names()

    X, y, X_new, y_new = iris()
    protocol = kdey.APP(n_bags=25, bag_size=40, random_state=0)
    common: dict[str, Any] = {"protocol": protocol, "verbose": False}
    logistic, bayes = LogisticRegression(max_iter=1000), GaussianNB()
    made: dict[str, Any] = {
        "KDEyML, bandwidth and C": kdey.GridSearchQ(
            kdey.KDEyML(logistic, random_state=0),
            {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [0.1, 1.0]},
            **common,
        ),
        "KDEyCS, two metrics": kdey.GridSearchQ(
            kdey.KDEyCS(bayes, random_state=0),
            {"bandwidth": [0.01, 0.02, 0.03]},
            scoring=["rae", "ae"],
            refit="ae",
            **common,
        ),
        "KDEyHD, both geometries": kdey.GridSearchQ(
            kdey.KDEyHD(bayes, n_points=300, random_state=0),
            [{"bandwidth": [0.1, 0.2]}, {"kernel": ["aitchison"], "bandwidth": [0.5, 1.0]}],
            **common,
        ),
        "DM, bins": kdey.GridSearchQ(
            kdey.DM(bayes, random_state=0),
            {"n_bins": [4, 8, 16], "divergence": ["hellinger", "topsoe"]},
            **common,
        ),
        "EMQ, calibrations": kdey.GridSearchQ(
            kdey.EMQ(bayes, random_state=0), {"calibration": [None, "bcts", "vector"]}, **common
        ),
        "OneVsAll": kdey.GridSearchQ(
            kdey.OneVsAll(kdey.KDEyML(bayes, random_state=0)),
            {"quantifier__bandwidth": [0.05, 0.1, 0.2]},
            **common,
        ),
        "DMx": kdey.GridSearchQ(kdey.DMx(), {"n_bins": [4, 8, 12]}, **common),
        "at random": kdey.RandomSearchQ(
            kdey.KDEyML(bayes, random_state=0),
            {"bandwidth": [0.05, 0.1, 0.15, 0.2, 0.3]},
            n_iter=3,
            **common,
        ),
    }
    for name, search in made.items():
        record.run(name, lambda s=search: _search_values(s.fit(X, names_of(y)), X_new))
    record.run(
        "given validation, weights",
        lambda: _search_values(
            made["KDEyML, bandwidth and C"].fit(
                X, y, np.linspace(0.5, 2, len(y)), X_val=X_new, y_val=y_new
            ),
            X_new,
        ),
    )

    def resumed() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "search.log"
            search = made["DM, bins"]
            search.set_params(log=log).fit(X, y)
            lines = log.read_bytes().splitlines(keepends=True)
            log.write_bytes(b"".join(lines[:4]))
            return _search_values(search.fit(X, y), X_new)

    record.run("resumed from a log", resumed)


def _search_values(search: Any, X_new: Any) -> Any:
    results = {
        name: values for name, values in search.cv_results_.items() if not name.endswith("_time")
    }
    return [results, search.best_params_, search.best_score_, search.predict(X_new)]


@part
def evaluations(record: Record) -> None:
    """Draw bags by every protocol, estimate them and judge by every metric."""
    from sklearn.naive_bayes import GaussianNB

    kdey = Names()

    X, y, X_new, y_new = digits()
    fitted = kdey.fit_many(
        {
            "CC": kdey.CC(GaussianNB()),
            "PACC": kdey.PACC(GaussianNB(), random_state=0),
            "EMQ": kdey.EMQ(GaussianNB()),
            "KDEyML": kdey.KDEyML(GaussianNB(), bandwidth=0.1, random_state=0),
            "DM": kdey.DM(GaussianNB(), n_bins=6, random_state=0),
        },
        X,
        y,
    )
    metrics = sorted(public("kdey.metrics.METRICS"))
    owners = np.arange(len(y_new)) % 9
    bags = bags_of(len(y_new))
    known = np.array([np.bincount(y_new[bag], minlength=10) / len(bag) for bag in bags])
    protocols = {
        "APP": kdey.APP(n_bags=20, bag_size=60, random_state=1),
        "APP, replaced": kdey.APP(n_bags=10, bag_size=60, random_state=1, replace=True),
        "NPP": kdey.NPP(n_bags=10, bag_size=60, random_state=1),
        "DirichletProtocol": kdey.DirichletProtocol(n_bags=10, bag_size=60, random_state=1),
        "GroupBags": kdey.GroupBags(owners),
        "GivenBags": kdey.GivenBags(bags, known),
    }
    for name, protocol in protocols.items():

        def drawn(protocol: Any = protocol) -> Any:
            made = protocol.bags(y_new, np.arange(10))
            return [made.bags.indices, made.bags.offsets, made.prevalences, made.sizes]

        record.run(f"{name}, bags", drawn)

        def judged(protocol: Any = protocol) -> Any:
            made = kdey.evaluate(fitted, X_new, y_new, protocol, metrics=metrics, verbose=False)
            return [
                columns_of(made.to_frame("pandas"), ("seconds",)),
                columns_of(made.to_frame("pandas", by_class=True)),
                columns_of(made.summary("pandas"), ("seconds",)),
            ]

        record.run(f"{name}, evaluated", judged)
    record.run(
        "GridAPP, bags",
        lambda: kdey.GridAPP(bag_size=40).bags(iris()[3], [0, 1, 2]).prevalences,
    )
    errors = np.random.default_rng(0).gamma(2.0, size=(4, 30)) * np.array(
        [[1.0], [1.1], [1.5], [1]]
    )
    named = dict(zip("abcd", errors, strict=True))
    record.run(
        "significance",
        lambda: [
            vars(public("kdey.significance.wilcoxon")(errors[0], errors[2])),
            vars(public("kdey.significance.friedman")(named)),
            vars(public("kdey.significance.nemenyi")(named)),
            public("kdey.significance.average_ranks")(named),
            public("kdey.significance.holm")([0.01, 0.03, 0.04, 0.2]),
        ],
    )


@part
def trust(record: Record) -> None:
    """Check fits, identifiability, plans, adaptation and posterior draws."""
    kdey = Names()

    for k in (2, 3):
        P, y = scores(k, 200, 50 + k)
        P_bag, _ = scores(k, 150, 150 + k, 0.4)
        P_far = np.full_like(P_bag, 1 / k)
        methods = {
            "KDEyML auto": kdey.KDEyML(random_state=0),
            "KDEyML": kdey.KDEyML(bandwidth=0.1),
            "EMQ": kdey.EMQ(),
            "EMQ bcts": kdey.EMQ(calibration="bcts"),
            "DIR": kdey.DIR(),
            "PACC": kdey.PACC(),
            "DM": kdey.DM(n_bins=6),
        }
        for name, template in methods.items():
            q = template.fit_posteriors(P, names_of(y))
            for bag, points in {"bag": P_bag, "strange bag": P_far}.items():

                def checked(q: Any = q, points: Any = points) -> Any:
                    made = kdey.check_fit(q, posteriors=points, n_null=60, random_state=0)
                    return [vars(made), columns_of(made.to_frame(5, "pandas")), made.summary()]

                record.run(f"check_fit, {name}, {bag}, {k} classes", checked)

            def identified(q: Any = q) -> Any:
                made = kdey.identifiability(q, bag_size=400)
                plan, labels = kdey.plan_bag_size(made, 0.2), kdey.plan_labels(made, 0.25)
                return [
                    made.affinity,
                    made.condition,
                    made.bag_covariance(),
                    made.template_covariance(),
                    columns_of(made.to_frame("pandas")),
                    plan.bag_sizes,
                    plan.floors,
                    labels.extra,
                    labels.floor,
                    labels.expected_width,
                    labels.reachable,
                    [made.verdict, plan.verdict, labels.verdict],
                ]

            record.run(f"identifiability and plans, {name}, {k} classes", identified)
            if name in ("KDEyML auto", "KDEyML", "EMQ", "EMQ bcts", "DIR"):

                def sampled(q: Any = q, P_bag: Any = P_bag, k: int = k) -> Any:
                    made = kdey.sample_posterior(
                        q, posteriors=P_bag, random_state=0, prior=np.linspace(1, 2, k)
                    )
                    return [
                        made.population,
                        made.bag,
                        made.r_hat,
                        made.ess,
                        made.interval(0.9, "bag", "hpd"),
                        columns_of(made.summary(backend="pandas")),
                    ]

                record.run(f"sample_posterior, {name}, {k} classes", sampled)
        record.run(
            f"adapt_posteriors, importance_weights, {k} classes",
            lambda P=P, P_bag=P_bag, k=k: [
                kdey.adapt_posteriors(
                    P_bag, P.mean(axis=0), np.arange(1, k + 1) / (k * (k + 1) / 2)
                ),
                kdey.importance_weights(np.full(k, 1 / k), np.arange(1, k + 1) * 2 / (k * (k + 1))),
            ],
        )
    X, y, X_new, _ = iris()
    q = kdey.KDEyML(random_state=0).fit(X, y)
    adapted = kdey.AdaptedClassifier.from_quantifier(q, q.predict(X_new))
    record.run("AdaptedClassifier", lambda: [adapted.predict_proba(X_new), adapted.predict(X_new)])
    record.run(
        "check_fit",
        lambda: vars(kdey.check_fit(q, X_new, random_state=0)),
    )


@part
def reports(record: Record) -> None:
    """Make reports; the numbers of a page and its words are cases of their own."""
    import pandas as pd

    kdey = Names()

    X, y, X_new, y_new = iris()
    known = pd.DataFrame(X, columns=["a", "b"])
    new = pd.DataFrame(X_new, columns=["a", "b"])
    table = new.assign(
        field=np.where(np.arange(len(new)) % 3 > 0, "east", "west"),
        day=pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(len(new)) % 14, unit="D"),
    )
    truth = np.bincount(y_new) / len(y_new)
    for name, template in {
        "KDEyML auto": kdey.KDEyML(random_state=0),
        "EMQ bcts": kdey.EMQ(calibration="bcts", random_state=0),
        "DM": kdey.DM(n_bins=6, random_state=0),
    }.items():
        q = template.fit(known, names_of(y))
        answer = estimate(q, new, n_replicates=60)
        options: dict[str, Any] = {"check_fit": True, "n_replicates": 60}
        pages = {
            "one bag": lambda q=q, e=answer: make_report(e, q, truth=truth),
            "many bags": lambda q=q: make_report(
                estimate_bags(q, new, bags_of(len(new)), n_replicates=60), q
            ),
            "by group": lambda q=q, e=answer, o=options: make_report(
                e, q, predict_groups(q, table, "field", **o), by=["field"]
            ),
            "by group and time": lambda q=q, e=answer, o=options: make_report(
                e,
                q,
                predict_groups(q, table, "field", time="day", every="1w", **o),
                by=["field"],
                time="day",
            ),
        }
        for how, page in pages.items():

            def values(page: Any = page) -> Any:
                made = page()
                parts = [] if made.estimate is None else estimate_values(made.estimate)
                if made.check is not None:
                    parts.append(vars(made.check))
                for group in made.groups.groups if made.groups is not None else ():
                    parts += [group.n, *map(str, group.keys)]
                    parts.append({"fit_p_value": group.p_value, "status": group.status})
                    parts += [vars(row) for row in group.rows]
                return parts

            record.run(f"{name}, {how}, values", values)
            record.run(
                f"{name}, {how}, numbers of the page", lambda page=page: numbers_in(page().html())
            )
            record.run(
                f"{name}, {how}, text of the page", lambda page=page: stripped(page().html())
            )


def stripped(text: str) -> str:
    """Return a text without what may differ from run to run: times, versions, digests."""
    import kdey

    text = re.sub(r";base64,([A-Za-z0-9+/=]+)", lambda found: _decoded(found[1]), text)
    text = text.replace(kdey.__version__, "VERSION")
    text = re.sub(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z|[+-]\d\d:\d\d)?", "TIME", text
    )
    text = re.sub(r"\b\d\d:\d\d\b", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    return re.sub(r"sha256-[A-Za-z0-9+/=]+", "DIGEST", text)


def _decoded(data: str) -> str:
    """Return the text of a file inside a page; a digest of what is no text."""
    content = base64.b64decode(data)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return hashlib.sha256(content).hexdigest()


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a page's body, in order."""
    body = stripped(text).partition("<body")[2] or stripped(text)
    return [float(found) for found in re.findall(r"(?<![\w.#])-?\d+(?:\.\d+)?(?:e-?\d+)?", body)]


@part
def models(record: Record) -> None:
    """Save and load; answers of what was loaded."""
    from sklearn.ensemble import ExtraTreesClassifier

    kdey = Names()

    P, y = scores(3, 200, 60)
    P_bag, _ = scores(3, 150, 160)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kdey"
        for name, template in quantifiers(3).items():

            def case(template: Any = template) -> Any:
                fitted = template.fit_posteriors(P, names_of(y))
                loaded = kdey.load(kdey.save(fitted, path))
                return [fitted_values(loaded), loaded.aggregate_bags(P_bag, bags_of(len(P_bag)))]

            record.run(name, case)
        X, y_train, X_new, _ = iris()
        trees = ExtraTreesClassifier(10, random_state=0)
        record.run(
            "with a classifier",
            lambda: estimate_values(
                kdey.load(
                    kdey.save(kdey.KDEyML(trees, random_state=0).fit(X, y_train), path)
                ).estimate(X_new)
            ),
        )


@part
def commands(record: Record) -> None:
    """Run the command line on small tables."""
    import pandas as pd

    X, y, X_new, y_new = iris()
    known = pd.DataFrame(X, columns=["width", "petal"]).assign(
        colour=np.where(X[:, 0] > 3, "blue", "red"), kind=names_of(y)
    )
    new = pd.DataFrame(X_new, columns=["width", "petal"]).assign(
        colour=np.where(X_new[:, 0] > 3, "blue", "red"),
        field=np.where(np.arange(len(X_new)) % 3 > 0, "east", "west"),
        day=np.datetime64("2026-01-05") + (np.arange(len(X_new)) % 14).astype("timedelta64[D]"),
        kind=names_of(y_new),
    )
    P, labels = scores(3, 300, 70)
    scored = pd.DataFrame(P, columns=[f"p_class {c}" for c in "abc"]).assign(kind=names_of(labels))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        known.to_csv(home / "known.csv", index=False)
        new.to_csv(home / "new.csv", index=False)
        new.drop(columns="kind").to_parquet(home / "new.parquet")
        scored.to_csv(home / "scored.csv", index=False)
        lines: list[tuple[str, ...]] = [
            ("fit", "known.csv", "--label", "kind", "-o", "auto.kdey"),
            ("estimate", "auto.kdey", "new.csv", "--format", "csv"),
            ("estimate", "auto.kdey", "new.parquet", "--by", "field", "--format", "csv"),
            *(
                ("estimate", "auto.kdey", "new.csv", "--by", "field", "--time", "day", *more)
                for more in (
                    ("--every", "1w", "--check-fit", "--format", "csv"),
                    ("--every", "1w", "--wide", "--target", "bag", "--format", "json"),
                )
            ),
            ("inspect", "auto.kdey", "--json"),
            ("report", "auto.kdey", "new.csv", "--by", "field", "--label", "kind", "-o", "a.html"),
            (
                *("fit", "known.csv", "--label", "kind", "--method", "emq", "-o", "emq.kdey"),
                *("--classifier", "naive-bayes", "--option", "calibration=bcts"),
            ),
            ("estimate", "emq.kdey", "new.csv", "--format", "csv"),
            (
                *("fit", "scored.csv", "--label", "kind", "--method", "pacc", "-o", "s.kdey"),
                *("--scores", "p_class a,p_class b,p_class c"),
            ),
            ("estimate", "s.kdey", "scored.csv", "--format", "table"),
            (
                *("evaluate", "known.csv", "--label", "kind", "--bags", "20", "--bag-size", "30"),
                *("--methods", "kdey-ml,emq,cc,dm", "--each-bag", "--format", "json"),
            ),
            (
                *("reproduce", "multi", "--quick", "--datasets", "bundled/iris"),
                *("--methods", "ACC", "EMQ", "KDEy-ML", "--one-classifier", "--jobs", "1"),
                *("--results", "cells.jsonl"),
            ),
            ("reproduce", "tables", "--results", "cells.jsonl", "--out", "tables", "--quiet"),
        ]
        for line in lines:
            record.run(" ".join(line), lambda line=line: _command(home, line))
        page = home / "a.html"
        record.run("numbers of the page", lambda: numbers_in(page.read_text(encoding="utf-8")))
        for path in sorted((home / "tables").glob("*.csv")):
            record.run(f"reproduce tables: {path.name}", lambda path=path: path.read_text())


#: Names of values that are measured, or that tell of the version, in the output of commands.
_CHANGING = re.compile(r"seconds|_time$|^written by$|^libraries$")


def _command(folder: Path, line: tuple[str, ...]) -> Any:
    """Run a command in this process, and return what it writes to standard output."""
    run, arguments = command_of(line)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    told = io.StringIO()
    given, sys.argv = sys.argv, arguments
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(told):
            run()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"exit code {end.code}: {told.getvalue()[-500:]}") from end
    finally:
        sys.argv = given
    written = out.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
    if line[-1] in ("json", "--json"):
        return _steady(json.loads(written))
    if line[-1] == "csv":
        head, *rows = ([_number(cell) for cell in row.split(",")] for row in written.splitlines())
        return dict(zip(head, zip(*rows, strict=True), strict=True))
    return stripped(written)


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _steady(v) for k, v in value.items() if not _CHANGING.search(k)}
    if isinstance(value, str):
        return re.sub(r"\b\d+\.\d s\b", "SECONDS", value)
    return [_steady(item) for item in value] if isinstance(value, list) else value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@part
def pieces(record: Record) -> None:
    """Call what stands apart: metrics, calibrators, kernels, the simplex, data sets, periods."""
    kdey = Names()

    rng = np.random.default_rng(0)
    true, estimated = rng.dirichlet(np.ones(4), 20), rng.dirichlet(np.ones(4), 20)
    get_metric = public("kdey.metrics.get_metric")
    for name in sorted(public("kdey.metrics.METRICS")):
        record.run(
            f"metric {name}", lambda name=name: get_metric(name)(true, estimated, bag_size=100)
        )
    P, y = scores(4, 300, 80)
    weights = rng.gamma(2.0, size=len(y))
    make_calibrator = public("kdey.calibration.make_calibrator")
    for name in ("platt", "temperature", "bcts", "vector", "nbvs"):
        record.run(
            f"calibrator {name}",
            lambda name=name: [
                make_calibrator(name).fit(P, y).transform(P),
                make_calibrator(name).fit(P, y, weights).transform(P),
            ],
        )
    record.run(
        "simplex",
        lambda: [
            public("kdey.simplex.project")(rng.normal(size=(20, 4))),
            public("kdey.simplex.sample_uniform")(4, 10, np.random.default_rng(0)),
        ],
    )
    truncate = public("kdey.groups.truncate")
    times = np.datetime64("2026-01-05T13:14:15") + np.arange(50).astype("timedelta64[D]")
    record.run(
        "periods",
        lambda: [
            np.asarray(truncate(times, every)).astype(np.int64)
            for every in ("1d", "2w", "1mo", "1q", "6h")
        ],
    )
    load_dataset = public("kdey.datasets.load_dataset")
    for name in ("bundled/iris", "bundled/wine", "bundled-binary/wdbc"):

        def parts(name: str = name) -> Any:
            split = load_dataset(name).split(seed=1)
            return [
                [np.asarray(piece.X, dtype=np.float64), piece.y]
                for piece in (split.train, split.validation, split.test, split.development)
            ]

        record.run(f"data set {name}", parts)
    bags = kdey.Bags.whole(10, np.arange(1.0, 11.0))
    record.run("bags", lambda: [bags.indices, bags.offsets, bags.mean(np.eye(10))])


def main() -> None:
    """Run the parts and write what they gave."""
    import kdey

    out, *wanted = sys.argv[1:]
    source = Path(kdey.__file__).parents[1]
    meant = os.environ.get("PYTHONPATH", str(source)).split(os.pathsep)[-1]
    if meant != str(source):
        sys.exit(f"kdey was imported from {source}, not from {meant}")
    if unknown := [name for name in wanted if name not in PARTS]:
        sys.exit(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"
    made = {}
    for name in wanted or PARTS:
        record, start = Record(), time.perf_counter()
        try:
            PARTS[name](record)
        except Exception as error:
            record.cases["what the cases begin with"] = Values(
                error=f"{type(error).__name__}: {error}"
            )
        made[name] = {
            case: (np.array(v.numbers), v.texts, v.error) for case, v in record.cases.items()
        }
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    Path(out).write_bytes(pickle.dumps(made))


if __name__ == "__main__":
    main()
