"""The columns of a named frame of posteriors can stand in any order, at every door."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

import kdey
from kdey.posteriors import predict_posteriors

CLASSES = np.array(["cat", "dog", "fish"])
RNG = np.random.default_rng(5)
LABELS = np.repeat(np.arange(3), 60)
TRAINING = RNG.dirichlet([1.0, 1.0, 1.0], len(LABELS)) * 0.5 + 0.5 * np.eye(3)[LABELS]
BAG = RNG.dirichlet([1.0, 2.0, 6.0], 80)
BAGS = [[0, 1, 2, 3], list(range(4, 60))]
Y = CLASSES[LABELS]
FITTED = {
    "KDEyML": kdey.KDEyML(bandwidth=0.1).fit_posteriors(TRAINING, Y),
    "PACC": kdey.PACC().fit_posteriors(TRAINING, Y),
    "Median": kdey.Median(kdey.KDEyML(), {"bandwidth": [0.1, 0.2]}).fit_posteriors(TRAINING, Y),
    "OneVsAll": kdey.OneVsAll(kdey.PACC()).fit_posteriors(TRAINING, Y),
    "Ensemble": kdey.Ensemble(kdey.PACC(), n_members=3, random_state=0).fit_posteriors(TRAINING, Y),
}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def named(values, order, library="pandas", head="p_"):
    return LIBRARIES[library]({f"{head}{CLASSES[i]}": values[:, i] for i in order})


#: Every way in for posteriors: from a quantifier and posteriors to numbers.
DOORS = {
    "aggregate": lambda q, P: q.aggregate(P),
    "aggregate_bags": lambda q, P: q.aggregate_bags(P, BAGS),
    "solve_posteriors": lambda q, P: q.solve_posteriors(P, BAGS).prevalence,
    "estimate_posteriors": lambda q, P: (
        q.estimate_posteriors(P, options=kdey.Options(n_replicates=20)).low
    ),
    "estimate_bags": lambda q, P: (
        q.estimate_posteriors(P, BAGS, options=kdey.Options(n_replicates=20)).low
    ),
    "bootstrap": lambda q, P: (
        q.estimate_posteriors(P, options=kdey.Options(method="bootstrap", n_replicates=20)).low
    ),
}
MODEL_DOORS = {
    "check_fit": lambda q, P: kdey.check_fit(q, posteriors=P, random_state=0).p_value,
    "check_fit=": lambda q, P: q.estimate_posteriors(P, check_fit=True).diagnostics["fit"][
        "p_value"
    ],
    "FitChecker": lambda q, P: (
        kdey.diagnostics.FitChecker.fit(q).check(posteriors=P, random_state=0).p_value
    ),
    "sample_posterior": lambda q, P: (
        kdey.sample_posterior(q, posteriors=P, min_ess=50, random_state=0).population
    ),
    "adapt_posteriors": lambda q, P: kdey.adapt_posteriors(
        P, q.prevalence_, [0.2, 0.3, 0.5], classes=q.classes_
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", FITTED)
def test_permuted_columns_give_the_same_answer(method, door, library):
    quantifier, answer = FITTED[method], DOORS[door]
    expected = answer(quantifier, BAG)
    np.testing.assert_array_equal(answer(quantifier, named(BAG, [2, 0, 1], library)), expected)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("door", MODEL_DOORS)
def test_diagnostics_of_permuted_columns_are_the_same(door, library):
    quantifier, answer = FITTED["KDEyML"], MODEL_DOORS[door]
    expected = answer(quantifier, BAG)
    np.testing.assert_array_equal(answer(quantifier, named(BAG, [1, 2, 0], library)), expected)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", FITTED)
def test_fits_on_permuted_columns_are_the_same(method, library):
    quantifier = FITTED[method]
    refitted = type(quantifier)(**quantifier.get_params(deep=False)).fit_posteriors(
        named(TRAINING, [2, 1, 0], library, head=""), Y
    )
    np.testing.assert_array_equal(refitted.aggregate(BAG), quantifier.aggregate(BAG))


@pytest.mark.parametrize("door", [*DOORS, *MODEL_DOORS])
def test_other_names_are_refused_at_every_door(door):
    stranger = pd.DataFrame(BAG, columns=["x", "y", "z"])
    with pytest.raises(ValueError, match="not named after the classes cat, dog, fish"):
        (DOORS | MODEL_DOORS)[door](FITTED["KDEyML"], stranger)


def test_fits_on_other_names_are_refused():
    with pytest.raises(ValueError, match="not named after the classes"):
        kdey.PACC().fit_posteriors(pd.DataFrame(TRAINING, columns=["x", "y", "z"]), Y)


class FrameClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that returns its posteriors as a frame with columns in another order."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return named(np.asarray(X), [1, 2, 0], head="")


def test_classifiers_that_return_frames_are_matched_by_name():
    fitted = FrameClassifier().fit(TRAINING, Y)
    np.testing.assert_array_equal(predict_posteriors(fitted, BAG, CLASSES), BAG)
    more = np.array(["bird", *CLASSES])
    np.testing.assert_array_equal(predict_posteriors(fitted, BAG, more)[:, 1:], BAG)
    quantifier = kdey.PACC(fitted).fit(TRAINING, Y)
    np.testing.assert_allclose(quantifier.predict(BAG), FITTED["PACC"].aggregate(BAG), atol=1e-12)


def test_prevalences_of_given_bags_are_matched_by_name():
    prevalences = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    protocol = kdey.evaluation.GivenBags(BAGS, named(prevalences, [2, 0, 1]), pool_size=60)
    np.testing.assert_array_equal(protocol.bags(classes=CLASSES).prevalences, prevalences)
    with pytest.raises(ValueError, match="does not know the classes"):
        protocol.bags()


def test_prevalences_as_series_are_matched_by_name():
    quantifier = FITTED["KDEyML"]
    target, turned = [0.2, 0.3, 0.5], pd.Series({"fish": 0.5, "cat": 0.2, "dog": 0.3})
    expected = kdey.identifiability(quantifier, bag_size=50, prevalence=target).width(50)
    reported = kdey.identifiability(quantifier, bag_size=50, prevalence=turned).width(50)
    np.testing.assert_array_equal(reported, expected)
    weights = kdey.diagnostics.importance_weights([0.25, 0.25, 0.5], turned, Y)
    np.testing.assert_array_equal(
        weights, kdey.diagnostics.importance_weights([0.25, 0.25, 0.5], target, Y)
    )
    options = {"posteriors": BAG, "min_ess": 50, "random_state": 0}
    prior = kdey.sample_posterior(quantifier, prior=[2.0, 3.0, 5.0], **options)
    turned_prior = kdey.sample_posterior(quantifier, prior=10 * turned, **options)
    np.testing.assert_array_equal(turned_prior.population, prior.population)


def test_observed_shares_are_matched_by_name():
    quantifier, turned = FITTED["PACC"], pd.Series({"fish": 0.5, "cat": 0.2, "dog": 0.3})
    expected = quantifier.adjust([0.2, 0.3, 0.5])
    np.testing.assert_array_equal(quantifier.adjust(turned), expected)
    rows = quantifier.adjust(pd.DataFrame([turned, turned]))
    # NumPy's products of one row and of two may round differently.
    np.testing.assert_allclose(rows, [expected, expected], rtol=0, atol=1e-14)


@settings(max_examples=30)
@given(
    st.permutations(range(3)),
    st.sampled_from(sorted(FITTED)),
    st.sampled_from(sorted(DOORS)),
    st.sampled_from(sorted(LIBRARIES)),
    st.sampled_from(["", "p_", "score of "]),
)
def test_no_permutation_changes_an_answer(order, method, door, library, head):
    quantifier, answer = FITTED[method], DOORS[door]
    frame = named(BAG, order, library, head)
    np.testing.assert_array_equal(answer(quantifier, frame), answer(quantifier, BAG))
