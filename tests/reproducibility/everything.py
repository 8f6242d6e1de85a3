"""Everything that gives numbers, once, from fixed seeds: run in a fresh process, file out.

``python -m tests.reproducibility.everything OUT.npz PARTS [N_JOBS]``, PARTS being "points"
(prevalences of every method) or "all". The settings that must not matter (hash seed, threads)
and those that may in the last digits (instruction set, NumPy route) are set from outside.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import clone

import kdey
from kdey import native

from ..evaluation.cases import blobs
from ..quantifiers.methods import classifier

Numbers = dict[str, np.ndarray]


def multiclass() -> dict[str, Any]:
    """Return every method with its own parameters fixed, so that all routes do the same."""
    c, cv = classifier, {"cv": 3}
    kde = {"bandwidth": 0.1, **cv}
    return {
        "TrainingPrevalence": kdey.TrainingPrevalence(),
        "CC": kdey.CC(c()),
        "PCC": kdey.PCC(c()),
        "ACC": kdey.ACC(c(), **cv),
        "PACC": kdey.PACC(c(), **cv),
        "EMQ": kdey.EMQ(c()),
        "EMQ-em": kdey.EMQ(c(), solver="em", tol=1e-10, max_iter=20_000),
        "EMQ-BCTS": kdey.EMQ(c(), calibration="bcts", **cv),
        "DIR": kdey.DIR(c(), **cv),
        "DM-T": kdey.DM(c(), divergence="topsoe", n_bins=8, **cv),
        "DM-HD": kdey.DM(c(), divergence="hellinger", n_bins=8, **cv),
        "DM-CS": kdey.DM(c(), divergence="cauchy-schwarz", n_bins=8, **cv),
        "DM-meanHD": kdey.DM(c(), divergence="mean-hellinger", n_bins=8, **cv),
        "DMx": kdey.DMx(),
        "KDEyML": kdey.KDEyML(c(), **kde),
        "KDEyML-aitchison": kdey.KDEyML(c(), kernel="aitchison", **kde | {"bandwidth": 0.5}),
        "KDEyCS": kdey.KDEyCS(c(), **kde),
        "KDEyL2": kdey.KDEyL2(c(), **kde),
        "KDEyHD": kdey.KDEyHD(c(), n_points=600, **kde),
        "OneVsAll": kdey.OneVsAll(kdey.HDy(c(), **cv)),
        "Median": kdey.Median(kdey.KDEyML(c(), **cv), {"bandwidth": [0.05, 0.1, 0.2]}),
        "Ensemble": kdey.Ensemble(kdey.PACC(c(), **cv), n_members=3),
    }


def binary() -> dict[str, Any]:
    """Return the methods for two classes."""
    c = classifier
    return {
        "HDy": kdey.HDy(c(), cv=3),
        "DyS": kdey.DyS(c(), cv=3),
        "MM": kdey.MM(c(), cv=3),
        "MM-ks": kdey.MM(c(), criterion="ks", cv=3),
        "HDx": kdey.HDx(),
    }


def seeded(quantifier: Any, n_jobs: int | None) -> Any:
    """Return a clone with every seed 0 and every ``n_jobs`` as given."""
    made = clone(quantifier)
    names = made.get_params()
    own = [name for name in names if name.endswith("n_jobs") and "classifier" not in name]
    seeds = {name: 0 for name in names if name.endswith("random_state")}
    return made.set_params(**seeds, **dict.fromkeys(own, n_jobs))


def of_one(quantifier: Any, k: int, n_jobs: int | None, limits: bool) -> Numbers:
    """Return prevalences, and limits if wanted, of one method on bags of many sizes."""
    X, y = blobs(150, k)
    pool = blobs(200, k, seed=1)[0]
    rng = np.random.default_rng(2)
    bags = [rng.integers(0, 200, size) for size in (1, 2, 17, 60, 200)]
    q = seeded(quantifier, n_jobs).fit(X, y)
    made = {"prevalence": q.predict_bags(pool, bags), "predict": q.predict(pool)}
    if limits:
        few = {"n_replicates": 20, "random_state": 5}
        for how in ("auto", "bootstrap"):
            found = q.estimate_bags(pool, bags[2:4], options=kdey.Options(method=how, **few))
            made[how] = np.stack([found.low, found.high])
    return made


def of_searches(n_jobs: int | None) -> Numbers:
    """Return scores and choices of searches, and the automatic choice of a bandwidth."""
    X, y = blobs(200)
    quantifier = kdey.KDEyML(classifier(), kernel="gaussian", bandwidth=0.1, cv=3, random_state=0)
    shared: dict[str, Any] = {
        "protocol": kdey.APP(20, 30, random_state=1), "verbose": False, "n_jobs": n_jobs,
    }  # fmt: skip
    grid = {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [0.1, 1.0]}
    found = kdey.GridSearchQ(quantifier, grid, **shared).fit(X, y)
    drawn = kdey.evaluation.RandomSearchQ(quantifier, grid, n_iter=3, random_state=4, **shared).fit(
        X, y
    )
    return {
        "grid": found.cv_results_["mean_test_score"],
        "random": drawn.cv_results_["mean_test_score"],
        "predict": found.predict(X[:50]),
    }


def of_automatic(n_jobs: int | None) -> Numbers:
    """Return what a bandwidth, chosen at ``fit``, leads to."""
    X, y = blobs(150)
    q = kdey.KDEyML(classifier(), cv=3, random_state=0, n_jobs=n_jobs).fit(X, y)
    return {"bandwidth": np.array(q.bandwidth_), "predict": q.predict(X[:70])}


def of_evaluation(n_jobs: int | None) -> Numbers:
    """Return the answers to a protocol's bags, by methods that share a classifier."""
    X, y = blobs(200)
    pool, labels = blobs(300, seed=1)
    named = {"ML": kdey.KDEyML(classifier(), bandwidth=0.1, cv=3), "PACC": kdey.PACC(cv=3)}
    named["CS"] = kdey.KDEyCS(classifier(), bandwidth=0.1, cv=3)
    fitted = kdey.evaluation.fit_many(named, X, y, n_jobs=n_jobs)
    protocol = kdey.APP(30, 50, random_state=0)
    results = kdey.evaluate(fitted, pool, labels, protocol, n_jobs=n_jobs, verbose=False)
    return {name: one.solution.prevalence for name, one in results.methods.items()}


def of_groups(n_jobs: int | None) -> Numbers:
    """Return a table by group, posterior draws and a fit check."""
    import pandas as pd

    X, y = blobs(150)
    names = list("abcd")
    q = kdey.KDEyML(classifier(), bandwidth=0.1, cv=3, random_state=0, n_jobs=n_jobs)
    q.fit(pd.DataFrame(X, columns=names), y)
    frame = pd.DataFrame(blobs(200, seed=1)[0], columns=names)
    frame["shop"] = np.array(["N", "E", "S", "W"])[np.arange(200) % 4]
    table = q.predict_groups(frame, by="shop").to_frame()
    pool = frame[names]
    draws = kdey.sample_posterior(q, pool, min_ess=50, random_state=0, n_jobs=n_jobs)
    check = kdey.check_fit(q, pool, n_null=30, random_state=0, n_jobs=n_jobs)
    return {
        "table": table[["estimate", "low", "high"]].to_numpy(),
        "draws": draws.draws(),
        "check": np.array(check.p_value),
    }


def everything(parts: str, n_jobs: int | None) -> Numbers:
    """Return all numbers by name."""
    full = parts == "all"
    made: dict[str, Numbers] = {
        **{name: of_one(q, 3, n_jobs, full) for name, q in multiclass().items()},
        **{name: of_one(q, 2, n_jobs, full) for name, q in binary().items()},
        "evaluation": of_evaluation(n_jobs),
    }
    if full:
        made |= {"searches": of_searches(n_jobs), "groups": of_groups(n_jobs)}
    if full and native.available():  # in NumPy it takes seconds
        made["automatic"] = of_automatic(n_jobs)
    return {f"{part}: {name}": value for part, own in made.items() for name, value in own.items()}


if __name__ == "__main__":
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else None
    np.savez(sys.argv[1], **everything(sys.argv[2], jobs))  # type: ignore[arg-type]
