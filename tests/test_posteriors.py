"""The classifier stage: rows by models that have not seen them, aligned to the classes."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from kdey.posteriors import TrainingPosteriors, predict_posteriors, training_posteriors

CLASSES = np.array(["ant", "bee", "cow"])
LR = LogisticRegression()


@pytest.fixture(scope="module")
def data():
    X, codes = make_classification(120, 6, n_informative=4, n_classes=3, random_state=0)
    return X, codes


@pytest.fixture(scope="module")
def rare(data):
    """Class 2 has a single instance, the last."""
    X, codes = data
    keep = np.append(np.flatnonzero(codes < 2), np.flatnonzero(codes == 2)[0])
    return X[keep], codes[keep]


def test_folds_are_those_of_cross_val_predict(data):
    X, codes = data
    fitted, training = training_posteriors(LR, X, codes, CLASSES, cv=5)
    expected = cross_val_predict(LR, X, CLASSES[codes], cv=5, method="predict_proba")
    np.testing.assert_allclose(training.posteriors, expected, atol=1e-6)
    np.testing.assert_array_equal(training.labels, codes)
    np.testing.assert_array_equal(training.instances, np.arange(120))
    assert sorted(np.bincount(training.folds)) == [24] * 5
    np.testing.assert_allclose(fitted.coef_, LogisticRegression().fit(X, codes).coef_, atol=1e-6)
    np.testing.assert_array_equal(fitted.classes_, CLASSES)


def test_random_state_shuffles_the_folds(data):
    X, codes = data

    def folds(seed):
        return training_posteriors(LR, X, codes, CLASSES, cv=5, random_state=seed)[1].folds

    np.testing.assert_array_equal(folds(3), folds(3))
    assert (folds(3) != folds(4)).any()
    assert (folds(3) != folds(None)).any()
    np.testing.assert_array_equal(folds(np.random.default_rng(7)), folds(np.random.default_rng(7)))


def test_result_does_not_depend_on_n_jobs(data):
    X, codes = data
    forest = RandomForestClassifier(5, random_state=0)
    one_model, one = training_posteriors(forest, X, codes, CLASSES, cv=3)
    many_model, many = training_posteriors(forest, X, codes, CLASSES, cv=3, n_jobs=2)
    np.testing.assert_array_equal(one.posteriors, many.posteriors)
    np.testing.assert_array_equal(one_model.predict_proba(X), many_model.predict_proba(X))


def test_users_classifier_is_never_fitted(data):
    X, codes = data
    mine = LogisticRegression()
    for cv in (None, 3, 0.4):
        fitted, _ = training_posteriors(mine, X, codes, CLASSES, cv=cv)
        assert fitted is not mine
    assert not hasattr(mine, "coef_")


def test_held_out_fraction_keeps_the_model_of_the_split(data):
    X, codes = data
    fitted, training = training_posteriors(LR, X, codes, CLASSES, cv=0.4, random_state=0)
    held = training.instances
    np.testing.assert_array_equal(training.posteriors, fitted.predict_proba(X[held]))
    np.testing.assert_array_equal(training.labels, codes[held])
    rest = np.setdiff1d(np.arange(120), held)
    expected = LogisticRegression().fit(X[rest], codes[rest])
    np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_array_equal(np.bincount(codes[held]), np.round(np.bincount(codes) * 0.4))


def test_given_splits_repeat_and_leave_out_instances(data):
    X, codes = data
    rows = np.arange(120)
    splits = [(rows[20:], rows[10:0:-1]), (rows[:100], [5, 119]), (rows[10:], rows < 2)]
    _, training = training_posteriors(LR, X, codes, CLASSES, cv=iter(splits))
    np.testing.assert_array_equal(
        training.instances, [0, 1, 1, *range(2, 6), 5, *range(6, 11), 119]
    )
    for fold, (train, _) in enumerate(splits):
        own = training.folds == fold
        model = LogisticRegression().fit(X[train], codes[train])
        np.testing.assert_allclose(
            training.posteriors[own], model.predict_proba(X[training.instances[own]]), atol=1e-6
        )


def test_one_pair_of_all_rows_gives_resubstitution_posteriors(data):
    X, codes = data
    rows = np.arange(120)
    fitted, training = training_posteriors(LR, X, codes, CLASSES, cv=[(rows, rows)])
    np.testing.assert_array_equal(training.posteriors, fitted.predict_proba(X))


def test_without_cv_only_the_classifier_is_made(data):
    X, codes = data
    fitted, training = training_posteriors(LR, X, codes, CLASSES, cv=None)
    np.testing.assert_allclose(fitted.coef_, LogisticRegression().fit(X, codes).coef_, atol=1e-6)
    assert training.posteriors is None
    np.testing.assert_array_equal(training.labels, codes)
    with pytest.raises(ValueError, match="cv must not be None"):
        training.required()


def test_frozen_classifier_is_used_as_it_is(data):
    X, codes = data
    frozen = FrozenEstimator(LogisticRegression().fit(X[:60], CLASSES[codes[:60]]))
    fitted, training = training_posteriors(frozen, X[60:], codes[60:], CLASSES, cv=5)
    assert fitted is frozen
    np.testing.assert_array_equal(training.posteriors, frozen.predict_proba(X[60:]))
    assert training_posteriors(frozen, X, codes, CLASSES, cv=None)[1].posteriors is None


def test_columns_follow_the_frozen_classifiers_own_labels(data):
    X, codes = data
    # Fitted on labels 2 and 1 only; the quantifier's classes are 0, 1, 2 under other codes.
    keep = codes > 0
    frozen = FrozenEstimator(LogisticRegression().fit(X[keep], codes[keep]))
    aligned = predict_posteriors(frozen, X, [2, 0, 1])
    np.testing.assert_array_equal(aligned[:, [2, 0]], frozen.predict_proba(X))
    np.testing.assert_array_equal(aligned[:, 1], 0.0)
    with pytest.raises(ValueError, match=r"classifier gives posteriors for classes .*\[1\]"):
        predict_posteriors(frozen, X, [0, 2])


def test_class_weight_keeps_the_users_labels(data):
    X, codes = data
    weighted = LogisticRegression(class_weight={"ant": 1.0, "bee": 5.0, "cow": 1.0})
    fitted, _ = training_posteriors(weighted, X, codes, CLASSES, cv=3)
    expected = LogisticRegression(class_weight={0: 1.0, 1: 5.0, 2: 1.0}).fit(X, codes)
    np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [sp.csr_matrix, sp.coo_array, pd.DataFrame, pl.DataFrame, np.ndarray.tolist],
    ids=["csr", "coo", "pandas", "polars", "list"],
)
def test_containers_give_the_same_rows(data, wrap):
    X, codes = data
    for cv in (3, 0.3):
        _, plain = training_posteriors(LR, X, codes, CLASSES, cv=cv, random_state=0)
        fitted, other = training_posteriors(LR, wrap(X), codes, CLASSES, cv=cv, random_state=0)
        np.testing.assert_allclose(other.posteriors, plain.posteriors, atol=1e-3)
        assert predict_posteriors(fitted, wrap(X), CLASSES).shape == (120, 3)


def test_feature_names_reach_the_classifier(data):
    X, codes = data
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(120)[::-1])
    fitted, _ = training_posteriors(LR, frame, codes, CLASSES, cv=3)
    assert fitted.feature_names_in_.tolist() == list("abcdef")


def test_texts_in_a_pipeline():
    texts = ["good film", "bad film", "good good", "bad bad", "good play", "bad play"] * 2
    model = make_pipeline(CountVectorizer(), MultinomialNB())
    fitted, training = training_posteriors(model, texts, [1, 0] * 6, [0, 1], cv=2)
    np.testing.assert_array_equal(training.posteriors.argmax(axis=1), training.labels)
    assert predict_posteriors(fitted, ["good"], [0, 1])[0, 1] > 0.5


def test_float32_posteriors_stay_float32(data):
    X, codes = data

    class Single(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X).astype(np.float32)

    _, training = training_posteriors(Single(), X, codes, CLASSES, cv=3)
    assert training.posteriors.dtype == np.float32


# -- rare and absent classes ------------------------------------------------------------------


def test_class_unseen_by_a_fold_has_zeros_and_one_warning(rare):
    X, codes = rare
    with pytest.warns(
        UserWarning, match="1 of 3 classes have fewer instances than the 5"
    ) as caught:
        _, training = training_posteriors(LR, X, codes, CLASSES, cv=5)
    assert len(caught) == 1
    assert "1 of 3 classes were not seen by the model of 1 of 5 splits" in str(caught[0].message)
    lacking = training.folds == training.folds[-1]
    np.testing.assert_array_equal(training.posteriors[lacking, 2], 0.0)
    assert (training.posteriors[~lacking, 2] > 0).all()
    np.testing.assert_allclose(training.posteriors.sum(axis=1), 1.0)


@pytest.mark.parametrize("cv", [StratifiedKFold(5), 0.2])
def test_every_kind_of_cv_tells_about_rare_classes_once(rare, cv):
    X, codes = rare
    with pytest.warns(UserWarning, match="were not seen by the model of 1 of") as caught:
        _, training = training_posteriors(LR, X, codes, CLASSES, cv=cv, random_state=0)
    assert len(caught) == 1
    assert (training.labels == 2).sum() == 1


def test_rare_class_that_every_model_saw_is_told_too(data):
    X, codes = data
    keep = np.append(np.flatnonzero(codes < 2), np.flatnonzero(codes == 2)[:3])
    with pytest.warns(UserWarning, match="1 of 3 classes have fewer instances") as caught:
        _, training = training_posteriors(LR, X[keep], codes[keep], CLASSES, cv=5)
    assert len(caught) == 1
    assert "not seen" not in str(caught[0].message)
    assert (training.posteriors > 0).all()


@pytest.mark.parametrize("model", [LR, DecisionTreeClassifier()])
def test_fold_that_trains_on_one_class_is_sure_of_it(model):
    X, codes = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 0, 1])
    with pytest.warns(UserWarning, match="1 of 2 classes were not seen"):
        _, training = training_posteriors(model, X, codes, ["no", "yes"], cv=2)
    lacking = training.folds == training.folds[-1]
    np.testing.assert_array_equal(training.posteriors[lacking], [[1.0, 0.0]] * lacking.sum())


def test_class_absent_from_y_has_a_column_of_zeros(data):
    X, codes = data
    with pytest.warns(UserWarning, match="1 of 4 classes were not seen by the model of 3 of 3"):
        fitted, training = training_posteriors(LR, X, codes, [*CLASSES, "dog"], cv=3)
    np.testing.assert_array_equal(training.posteriors[:, 3], 0.0)
    np.testing.assert_array_equal(predict_posteriors(fitted, X, [*CLASSES, "dog"])[:, 3], 0.0)


def test_balanced_data_do_not_warn(data):
    X, codes = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training_posteriors(LR, X, codes, CLASSES, cv=10)


# -- sample weights ---------------------------------------------------------------------------


def test_zero_weights_act_like_absent_instances(data):
    X, codes = data
    weights = (np.arange(120) % 3 > 0).astype(float)
    rows = np.arange(120)
    used = rows[weights > 0]
    splits = [(rows[:80], rows[80:]), (rows[40:], rows[:40])]
    fitted, training = training_posteriors(
        LR, X, codes, CLASSES, cv=splits, sample_weight=weights.tolist()
    )
    expected = LogisticRegression().fit(X[used], codes[used])
    np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=1e-3)
    assert np.abs(fitted.coef_ - LogisticRegression().fit(X, codes).coef_).max() > 0.01
    first = LogisticRegression().fit(X[used[used < 80]], codes[used[used < 80]])
    np.testing.assert_allclose(
        training.posteriors[training.folds == 0], first.predict_proba(X[80:]), atol=1e-3
    )
    np.testing.assert_array_equal(training.weights, weights[training.instances])


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())),
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2),
    ],
    ids=["pipeline", "nested", "search"],
)
def test_weights_reach_the_last_step(data, model):
    X, codes = data
    weights = np.where(codes == 0, 50.0, 1.0)
    heavy, training = training_posteriors(model, X, codes, CLASSES, cv=3, sample_weight=weights)
    plain, _ = training_posteriors(model, X, codes, CLASSES, cv=3)
    assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1
    np.testing.assert_array_equal(training.weights, weights)


def test_classifier_without_weights_warns_once(data):
    X, codes = data
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight") as caught:
        _, training = training_posteriors(
            KNeighborsClassifier(), X, codes, CLASSES, cv=3, sample_weight=np.ones(120)
        )
    assert len(caught) == 1
    np.testing.assert_array_equal(training.weights, 1.0)


def test_frozen_classifier_passes_the_weights_on(data):
    X, codes = data
    frozen = FrozenEstimator(KNeighborsClassifier().fit(X, CLASSES[codes]))
    weights = np.arange(1.0, 121.0)
    _, training = training_posteriors(frozen, X, codes, CLASSES, cv=3, sample_weight=weights)
    np.testing.assert_array_equal(training.weights, weights)


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"sample_weight must have shape \(120,\)"),
        (np.full(120, np.nan), "sample_weight must be finite"),
        (-np.ones(120), "sample_weight must be finite, non-negative"),
        (np.zeros(120), "not all zero"),
    ],
)
def test_bad_weights_are_named(data, weights, message):
    with pytest.raises(ValueError, match=message):
        training_posteriors(LR, *data, CLASSES, cv=3, sample_weight=weights)


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (LinearSVC(), "classifier must have predict_proba.*CalibratedClassifierCV"),
        (LogisticRegression, "classifier must be an instance, got the class LogisticRegression"),
        ("logistic", "classifier must be an estimator of scikit-learn.*got .logistic"),
    ],
)
def test_bad_classifiers_are_named(data, classifier, message):
    with pytest.raises(TypeError, match=message):
        training_posteriors(classifier, *data, CLASSES, cv=3)


def test_bad_posteriors_of_a_classifier_are_named(data):
    class Broken(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X) * 2

    with pytest.raises(ValueError, match=r"classifier.predict_proba\(X\) must have rows that sum"):
        training_posteriors(Broken(), *data, CLASSES, cv=3)


def test_one_class_only_is_an_error(data):
    X, _ = data
    for cv in (None, 3):
        with pytest.raises(ValueError, match="y holds one class only"):
            training_posteriors(LR, X, np.zeros(120, dtype=int), CLASSES, cv=cv)
    X, codes = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 0, 1])
    with pytest.raises(ValueError, match="training part of the only split holds one class only"):
        training_posteriors(LR, X, codes, ["no", "yes"], cv=0.5)


def test_mismatched_lengths_are_an_error(data):
    X, codes = data
    with pytest.raises(ValueError, match="X and y must have the same number of rows"):
        training_posteriors(LR, X[:-1], codes, CLASSES, cv=3)


def test_training_posteriors_have_defaults():
    given = TrainingPosteriors(np.eye(2), np.arange(2))
    assert given.weights is None
    assert given.required() is given.posteriors
