"""Every quantifier honours scikit-learn's contract and ours."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

import kdey
from kdey import native
from kdey.evaluation.contract import EXPECTED_FAILED_CHECKS, check_quantifier, quantifier_checks

from .methods import binary, classifier, multiclass

CASES = [(name, q, 3) for name, q in multiclass().items()]
CASES += [(name, q, 2) for name, q in binary().items()]

# A pool's folds, and the bags that members of an ensemble are fitted on, follow the rows, which
# repetition changes; scikit-learn gives fixed folds to estimators with a parameter cv only.
NESTED = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "folds or bags are drawn from the rows",
)
#: Stand in for settings that take long to fit.
QUICKER = [
    kdey.DM(classifier(), n_bins=8, cv=3),
    kdey.KDEyML(classifier(), bandwidth=0.1, cv=3),
    kdey.KDEyCS(classifier(), bandwidth=0.1, cv=3),
    # A seed, as one check changes a row, which a member has to draw to notice.
    kdey.Ensemble(kdey.PCC(classifier()), n_members=2, random_state=0),
    kdey.Median(kdey.PCC(classifier()), {"classifier__C": [0.5, 1.0]}),
    kdey.OneVsAll(kdey.PCC(classifier())),
    kdey.Ordered(kdey.EMQ(classifier()), strength=0.01),
    kdey.Quantifier([classifier()], methods=[kdey.EMQ()], effort="low"),
]
#: One quantifier of each class: scikit-learn asks some sixty fits about an interface that does not
#: depend on the settings. Our own checks are made of all settings.
INTERFACES = {type(one): one for one in [*reversed(multiclass().values()), *QUICKER]}


#: What is asked of a pool of classifiers on the NumPy path too, where its fits take long.
ON_BOTH_PATHS = ("check_bags_equal_loop", "check_order_does_not_matter", "check_posteriors_route")


def _pairs() -> list[Any]:
    return [
        pytest.param(quantifier, check, id=f"{name}-{check.__name__}")
        for name, quantifier, k in CASES
        for check in quantifier_checks(quantifier, n_classes=k)
        if native.available() or name != "Quantifier" or check.__name__ in ON_BOTH_PATHS
    ]


@pytest.mark.parametrize(("quantifier", "check"), _pairs())
def test_quantifier_contract(quantifier: Any, check: Any) -> None:
    check(quantifier)


@pytest.mark.skipif(not native.available(), reason="the interface is the same on both paths")
@pytest.mark.parametrize("kind", INTERFACES, ids=lambda kind: kind.__name__)
def test_sklearn_contract(kind: type[Any]) -> None:
    made = clone(INTERFACES[kind])
    # A weight must equal repetition to 1e-7 there, which is what mixed precision rounds to.
    exact = [one for one in made.get_params() if one.endswith("precision")]
    made.set_params(**dict.fromkeys(exact, "double"))
    with warnings.catch_warnings():
        # scikit-learn's own tiny data: classes short of folds, solvers at their limit.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        nested = kind in (kdey.Quantifier, kdey.Ensemble)
        expected = EXPECTED_FAILED_CHECKS | (NESTED if nested else {})
        check_estimator(made, expected_failed_checks=expected)


def test_check_quantifier_finds_a_broken_one() -> None:
    from kdey import PACC

    class Broken(PACC):
        def predict_bags(self, X: Any, bags: Any) -> Any:
            return super().predict_bags(X, bags)[:, ::-1]

    with pytest.raises(AssertionError, match="predict_bags"):
        check_quantifier(Broken(cv=3))
