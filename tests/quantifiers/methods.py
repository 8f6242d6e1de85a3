"""Every quantifier once, as the contract tests run it: a new one is added here."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey import native
from kdey.matching.squares import MatchMeans
from kdey.rows.histogram import HistogramMap


def classifier() -> LogisticRegression:
    return LogisticRegression(max_iter=200)


def automatic() -> dict[str, Any]:
    """Return the default bandwidth, or a fixed one where choosing it in NumPy takes seconds."""
    return {} if native.available() else {"bandwidth": 0.1}


def multiclass() -> dict[str, Any]:
    c = classifier
    return {
        "TrainingPrevalence": kdey.TrainingPrevalence(),
        "CC": kdey.CC(c()),
        "PCC": kdey.PCC(c()),
        "ACC": kdey.ACC(c(), cv=3),
        "PACC": kdey.PACC(c(), cv=3),
        "EMQ": kdey.EMQ(c()),
        "EMQ-em": kdey.EMQ(c(), solver="em", tol=1e-10, max_iter=20_000),
        "EMQ-BCTS": kdey.EMQ(c(), calibration="bcts", cv=3),
        "DIR": kdey.DIR(c(), cv=3),
        "DM-T": kdey.DM(c(), divergence="topsoe", n_bins="auto" if native.available() else 8, cv=3),
        "DM-HD": kdey.DM(c(), divergence="hellinger", n_bins=8, cv=3),
        "DM-CS": kdey.DM(c(), divergence="cauchy-schwarz", n_bins=8, cv=3),
        "DM-HD-cdf": kdey.DM(c(), divergence="hellinger", n_bins=8, cdf=True, cv=3),
        "DM-meanHD": kdey.DM(c(), divergence="mean-hellinger", n_bins=8, cv=3),
        "DMx": kdey.DMx(),
        "KDEyML": kdey.KDEyML(c(), cv=3, **automatic()),
        "KDEyML-fixed": kdey.KDEyML(c(), cv=3, bandwidth=0.1),
        "KDEyML-aitchison": kdey.KDEyML(c(), cv=3, kernel="aitchison", bandwidth=0.5),
        "KDEyCS": kdey.KDEyCS(c(), cv=3, **automatic()),
        "KDEyL2": kdey.KDEyL2(c(), cv=3, bandwidth=0.1),
        "KDEyHD": kdey.KDEyHD(c(), cv=3, bandwidth=0.1, n_points=1500),
        "Friedman": kdey.Friedman(c(), cv=3),
        "Composed": kdey.compose(HistogramMap(8), MatchMeans(), c(), cv=3),
        "RLLS": kdey.RLLS(c(), cv=3),
        "Ordered-PACC": kdey.Ordered(kdey.PACC(c(), cv=3)),
        "Ordered-EMQ": kdey.Ordered(kdey.EMQ(c()), strength=0.01),
        "Ordered-KDEyML": kdey.Ordered(kdey.KDEyML(c(), cv=3, bandwidth=0.1), strength=0.01),
        "EDy": kdey.EDy(c(), cv=3),
        "EDx": kdey.EDx(),
        "KMM": kdey.KMM(),
        "KMM-features": kdey.KMM(kernel="laplacian", random_features=100),
        "OneVsAll-HDy": kdey.OneVsAll(kdey.HDy(c(), cv=3)),
        "Median-KDEyML": kdey.Median(kdey.KDEyML(c(), cv=3), {"bandwidth": [0.05, 0.1, 0.2]}),
        "Ensemble-PACC": kdey.Ensemble(kdey.PACC(c(), cv=3), n_members=6),
        "Quantifier": kdey.Quantifier([c(), GaussianNB()], methods=pool_methods(), effort="low"),
    }


def pool_methods() -> Any:
    """Return the methods of a pool: none with kernels where it takes minutes to tune them."""
    return "auto" if native.available() else [kdey.EMQ(calibration="bcts")]


def binary() -> dict[str, Any]:
    c = classifier
    return {
        "HDy": kdey.HDy(c(), cv=3),
        "DyS": kdey.DyS(c(), cv=3),
        "MM-pp": kdey.MM(c(), cv=3),
        "MM-ks": kdey.MM(c(), criterion="ks", cv=3),
        "HDx": kdey.HDx(),
        "T50": kdey.T50(c(), cv=3),
        "MAX": kdey.MAX(c(), cv=3),
        "ThresholdX": kdey.ThresholdX(c(), cv=3),
        "MS": kdey.MS(c(), cv=3),
        "MS2": kdey.MS2(c(), cv=3),
        "SORD": kdey.SORD(c(), cv=3),
        "KDEyML": kdey.KDEyML(c(), cv=3, **automatic()),
        "EHDy": kdey.Ensemble(kdey.HDy(c(), cv=3), n_members=3, selection="prevalence"),
    }
