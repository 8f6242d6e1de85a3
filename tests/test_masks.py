"""Masked entries are refused wherever arrays come in; masks that hide nothing are harmless."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.calibration import BCTS
from kdey.metrics import absolute_error, relative_absolute_error
from kdey.simplex import check_posteriors, check_prevalence, project
from kdey.validation import refuse_masked

RNG = np.random.default_rng(3)
Y = np.repeat([0, 1], 40)
X = RNG.normal(size=(80, 2)) + Y[:, None]
P = RNG.dirichlet([1.0, 1.0], 80) * 0.5 + 0.5 * np.eye(2)[Y]
W = np.ones(80)
FITTED = kdey.PACC(LogisticRegression()).fit(X, Y)
FEATURES = kdey.HDx().fit(X, Y)
KDE = kdey.KDEyML(bandwidth=0.1).fit_posteriors(P, Y)


def masked(values, shown=False):
    """Return an array with its second row masked, or with a mask that hides nothing."""
    mask = np.zeros(np.shape(values), dtype=bool)
    mask[1] = not shown
    return np.ma.MaskedArray(values, mask)


DOORS = {
    "fit X": lambda m: kdey.PACC().fit(m(X), Y),
    "fit y": lambda m: kdey.PACC().fit(X, m(Y)),
    "fit weights": lambda m: kdey.PACC().fit(X, Y, m(W)),
    "features fit X": lambda m: kdey.HDx().fit(m(X), Y),
    "features predict": lambda m: FEATURES.predict(m(X)),
    "CC fit": lambda m: kdey.CC().fit(m(X), Y),
    "TrainingPrevalence fit": lambda m: kdey.TrainingPrevalence().fit(m(X), Y),
    "Ensemble fit": lambda m: kdey.Ensemble(kdey.CC(), n_members=2).fit(m(X), Y),
    "Ensemble weights": lambda m: kdey.Ensemble(kdey.CC(), n_members=2).fit(X, Y, m(W)),
    "Ensemble fit_posteriors": lambda m: kdey.Ensemble(kdey.PACC(), n_members=2).fit_posteriors(
        P, Y, m(W)
    ),
    "Median fit": lambda m: kdey.Median(kdey.PACC(), {"cv": [2]}).fit(m(X), Y),
    "OneVsAll fit": lambda m: kdey.OneVsAll(kdey.PACC()).fit(m(X), Y),
    "search fit": lambda m: kdey.GridSearchQ(
        kdey.PACC(), {"cv": [2]}, protocol=kdey.APP(3, 10), validation=0.5
    ).fit(m(X), Y),
    "search X_val": lambda m: kdey.GridSearchQ(
        kdey.PACC(), {"cv": [2]}, protocol=kdey.APP(3, 10)
    ).fit(X, Y, X_val=m(X), y_val=Y),
    "search y_val": lambda m: kdey.GridSearchQ(
        kdey.PACC(), {"cv": [2]}, protocol=kdey.APP(3, 10)
    ).fit(X, Y, X_val=X, y_val=m(Y)),
    "fit_posteriors": lambda m: kdey.PACC().fit_posteriors(m(P), Y),
    "fit_posteriors y": lambda m: kdey.PACC().fit_posteriors(P, m(Y)),
    "fit_posteriors weights": lambda m: kdey.PACC().fit_posteriors(P, Y, m(W)),
    "predict": lambda m: FITTED.predict(m(X)),
    "predict weights": lambda m: FITTED.predict(X, m(W)),
    "predict_bags": lambda m: FITTED.predict_bags(X, [m(np.arange(4)), np.arange(3)]),
    "predict_bags matrix": lambda m: FITTED.predict_bags(X, m(np.arange(6).reshape(3, 2))),
    "estimate": lambda m: FITTED.estimate(m(X)),
    "estimate clusters": lambda m: FITTED.estimate(X, clusters=m(np.arange(80) // 4)),
    "aggregate": lambda m: FITTED.aggregate(m(P)),
    "aggregate weights": lambda m: FITTED.aggregate(P, m(W)),
    "estimate_posteriors": lambda m: FITTED.estimate_posteriors(m(P)),
    "check_fit": lambda m: kdey.check_fit(KDE, posteriors=m(P), n_null=20),
    "check_fit weights": lambda m: kdey.check_fit(KDE, posteriors=P, sample_weight=m(W), n_null=20),
    "sample_posterior": lambda m: kdey.sample_posterior(KDE, posteriors=m(P), min_ess=20),
    "sample_posterior weights": lambda m: kdey.sample_posterior(
        KDE, posteriors=P, sample_weight=m(W), min_ess=20
    ),
    "sample_posterior prior": lambda m: kdey.sample_posterior(
        KDE, posteriors=P, prior=m([1.0, 1.0]), min_ess=20
    ),
    "adapt_posteriors": lambda m: kdey.adapt_posteriors(m(P), [0.5, 0.5], [0.2, 0.8]),
    "adapt prevalence": lambda m: kdey.adapt_posteriors(P, [0.5, 0.5], m([0.2, 0.8])),
    "Bags indices": lambda m: kdey.Bags([m([0, 1, 2])], pool_size=3),
    "Bags weights": lambda m: kdey.Bags([[0, 1]], pool_size=3, weights=[m([1.0, 1.0])]),
    "Bags.whole": lambda m: kdey.Bags.whole(80, m(W)),
    "Bags.from_matrix": lambda m: kdey.Bags.from_matrix(m(np.ones((2, 3)))),
    "Bags fields": lambda m: FITTED.predict_bags(
        X, kdey.Bags(m(np.arange(4)), np.array([0, 4]), 80)
    ),
    "protocol": lambda m: kdey.APP(3, 10).bags(m(Y)),
    "GivenBags": lambda m: kdey.evaluation.GivenBags([[0], [1]], m([[0.5, 0.5], [1, 0]]), 2).bags(),
    "evaluate": lambda m: kdey.evaluate(FITTED, m(X), Y, protocol=kdey.APP(3, 10)),
    "cv splits": lambda m: kdey.PACC(cv=[(m(np.arange(80)), np.arange(80))]).fit(X, Y),
    "calibrator": lambda m: BCTS().fit(m(P), Y),
    "calibrator y": lambda m: BCTS().fit(P, m(Y)),
    "metric": lambda m: absolute_error(m([0.2, 0.8]), [0.3, 0.7]),
    "bag_size": lambda m: relative_absolute_error(
        [[0.2, 0.8], [0.1, 0.9]], [[0.3, 0.7], [0.1, 0.9]], bag_size=m([10, 20])
    ),
    "check_posteriors": lambda m: check_posteriors(m(P)),
    "check_prevalence": lambda m: check_prevalence(m([0.2, 0.8])),
    "project": lambda m: project(m([0.2, 0.9])),
    "importance_weights": lambda m: kdey.diagnostics.importance_weights(
        [0.5, 0.5], [0.2, 0.8], m(Y)
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_masked_entries_are_refused(door):
    with pytest.raises(ValueError, match=r"masked array with \d+ masked entr"):
        DOORS[door](masked)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_masks_that_hide_nothing_are_harmless(door):
    DOORS[door](lambda values: masked(values, shown=True))


def test_masks_inside_lists_are_seen():
    rows = [np.array([0.5, 0.5]), np.ma.MaskedArray([0.5, 0.5], [False, True])]
    with pytest.raises(ValueError, match="posteriors is a masked array with 1 masked entry"):
        check_posteriors(rows)
    with pytest.raises(ValueError, match="1 masked entry"):
        check_posteriors([[0.5, 0.5], [np.ma.masked, 0.5]])


def test_other_values_pass_unchanged():
    for values in (X, X.tolist(), sp.csr_array(X), "text", None):
        assert refuse_masked(values, "X") is values
