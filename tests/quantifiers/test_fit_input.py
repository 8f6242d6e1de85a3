"""What ``fit`` and ``predict`` take: kinds of X, y, classifiers, splits and weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import kdey
from kdey import native
from kdey.validation import LabelColumnWarning

from .methods import binary, multiclass

pytestmark = pytest.mark.skipif(
    not native.available(), reason="what fit takes is the same on both paths"
)

#: One per kind of row and problem, and the wrappers.
NAMES = [
    *("CC", "PACC", "EMQ", "EMQ-BCTS", "DIR", "DM-HD", "KDEyML", "KDEyCS", "KDEyHD"),
    *("OneVsAll-HDy", "Median-KDEyML", "Ensemble-PACC"),
]
COLUMNS = ["age", "dose", "weight", "pulse"]


def data(k: int = 3, n: int = 150, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    centres = 2 * np.random.default_rng(1).normal(size=(k, 4))
    return centres[y] + rng.normal(size=(n, 4)), y


def make(name: str) -> Any:
    made = clone((multiclass() | {f"{n}-binary": q for n, q in binary().items()})[name])
    return made.set_params(**{s: 0 for s in made.get_params() if s.endswith("random_state")})


class Fixed(ClassifierMixin, BaseEstimator):
    """A classifier that gives what it is told to give."""

    def __init__(self, rows: Any = None) -> None:
        self.rows = rows

    def fit(self, X: Any, y: Any) -> Fixed:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile(self.rows, (len(X), 1))


@pytest.mark.parametrize("name", NAMES)
def test_sparse_matrices_give_what_arrays_give(name: str) -> None:
    X, y = data()
    bags = [np.arange(40), np.arange(30, 90)]
    expected = make(name).fit(X, y).predict_bags(X, bags)
    for convert in (sp.csr_matrix, sp.csr_array):
        found = make(name).fit(convert(X), y).predict_bags(convert(X), bags)
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["DMx", "HDx-binary"])
def test_feature_methods_refuse_sparse_and_missing_values(name: str) -> None:
    X, y = data(2)
    with pytest.raises((TypeError, ValueError), match=r"[Ss]parse"):
        make(name).fit(sp.csr_array(X), y)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        make(name).fit(bad, y)
    with pytest.raises(ValueError, match="X contains NaN"):
        make(name).fit(X, y).predict(bad)


@pytest.mark.parametrize("name", [*NAMES, "DMx"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_names(name: str, library: str) -> None:
    X, y = data()
    frame = (
        pd.DataFrame(X, columns=COLUMNS)
        if library == "pandas"
        else pl.DataFrame(X, schema=COLUMNS, orient="row")
    )
    q = make(name).fit(frame, y)
    assert list(q.feature_names_in_) == COLUMNS
    expected = make(name).fit(X, y).predict_bags(X, [np.arange(50)])
    np.testing.assert_allclose(q.predict_bags(frame, [np.arange(50)]), expected, atol=1e-9)
    np.testing.assert_allclose(q.predict(frame[:50]), expected[0], atol=1e-9)
    order = COLUMNS[::-1]
    with pytest.raises(ValueError, match="feature names should match"):
        q.predict(frame[order])
    with pytest.raises(ValueError, match="feature names should match"):
        q.predict(frame.rename(columns={"age": "years"}) if library == "pandas" else
                  frame.rename({"age": "years"}))  # fmt: skip


def test_series_of_labels() -> None:
    X, y = data()
    names = np.array(["no", "maybe", "yes"])[y]
    expected = kdey.PACC().fit(X, names).predict(X[:40])
    for labels in (pd.Series(names), pl.Series(names), names.tolist(), pd.Categorical(names)):
        q = kdey.PACC().fit(X, labels)
        assert list(q.classes_) == ["maybe", "no", "yes"]
        np.testing.assert_allclose(q.predict(X[:40]), expected)


@pytest.mark.parametrize("name", ["PACC", "KDEyML", "DM-HD", "EMQ-BCTS", "Ensemble-PACC"])
def test_text_goes_through_a_pipeline(name: str) -> None:
    rng = np.random.default_rng(0)
    words = {"spam": ["buy", "cheap", "now", "win"], "ham": ["lunch", "meeting", "see", "report"]}
    labels = rng.permutation(["spam", "ham"] * 60)
    common = ["the", "and", "now", "see"] * 2  # so that some texts cannot be told
    texts = [" ".join(rng.choice([*words[label], *common], 4)) for label in labels]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=200))
    q = make(name)
    inner = {"quantifier__classifier": model} if name == "Ensemble-PACC" else {"classifier": model}
    q.set_params(**inner).fit(texts, labels)
    assert list(q.classes_) == ["ham", "spam"]
    bag = [t for t, label in zip(texts, labels, strict=True) if label == "spam"]
    assert q.predict(bag)[1] > 0.8
    with pytest.raises(ValueError, match="empty"):
        q.predict([])


@pytest.mark.parametrize("name", ["CC", "PACC", "EMQ", "EMQ-BCTS", "DIR", "DM-HD", "KDEyML"])
def test_a_frozen_classifier_is_used_as_it_is(name: str) -> None:
    X, y = data()
    labels = np.array(["a", "b", "c"])[y]
    model = LogisticRegression().fit(X[:75], labels[:75])
    before = model.coef_.copy()
    q = make(name).set_params(classifier=FrozenEstimator(model)).fit(X[75:], labels[75:])
    np.testing.assert_array_equal(model.coef_, before)
    direct = make(name).fit_posteriors(model.predict_proba(X[75:]), labels[75:])
    expected = direct.aggregate(model.predict_proba(X[:30]))
    np.testing.assert_allclose(q.predict(X[:30]), expected, atol=1e-9)


def test_a_frozen_classifier_of_other_classes_is_refused() -> None:
    X, y = data()
    model = FrozenEstimator(LogisticRegression().fit(X, y + 10))
    with pytest.raises(ValueError, match="posteriors for classes that y does not have"):
        kdey.PACC(model).fit(X, y)
    with pytest.raises(NotFittedError):
        kdey.PACC(FrozenEstimator(LogisticRegression())).fit(X, y)


@pytest.mark.parametrize("name", ["ACC", "PACC", "DIR", "DM-T", "KDEyML", "KDEyCS"])
def test_every_kind_of_cv(name: str) -> None:
    X, y = data()
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    expected = make(name).set_params(cv=splitter).fit(X, y).predict(X[:40])
    for cv in (3, list(splitter.split(X, y)), splitter.split(X, y)):
        q = make(name).set_params(cv=cv, random_state=0).fit(X, y)
        np.testing.assert_allclose(q.predict(X[:40]), expected, atol=1e-9)
    q = make(name).set_params(cv=0.4).fit(X, y)
    assert len(q.training_.labels) == 60
    np.testing.assert_allclose(q.predict(X[:40]), expected, atol=0.1)


@pytest.mark.parametrize("cv", [1, 0, -2, 1.5, 0.0, "five", True, [], 3 + 0j])
def test_wrong_cv_is_refused(cv: Any) -> None:
    with pytest.raises(ValueError, match="cv"):
        kdey.PACC(cv=cv).fit(*data())


@pytest.mark.parametrize("name", ["ACC", "PACC", "DM-HD", "KDEyML", "DIR"])
def test_a_class_that_a_fold_never_saw_warns_and_gets_zeros(name: str) -> None:
    X, y = data()
    keep = (y != 2) | (np.arange(len(y)) == np.flatnonzero(y == 2)[0])
    with warnings.catch_warnings(record=True) as caught:  # DIR warns of the lone row as well
        warnings.simplefilter("always")
        q = make(name).fit(X[keep], y[keep])
    told = [str(w.message) for w in caught if str(w.message).startswith("cv:")]
    assert len(told) == 1
    assert "1 of 3 classes have fewer instances than the 3 folds" in told[0]
    assert "were not seen by the model of 1 of 3 splits" in told[0]
    alone = q.training_.labels == 2
    np.testing.assert_array_equal(q.training_.posteriors[alone, 2], 0)
    assert q.predict(X).sum() == pytest.approx(1)


def test_a_class_that_no_test_part_holds_is_refused_by_name() -> None:
    X, y = data()
    labels = np.array(["a", "b", "c"])[y]
    part = np.flatnonzero(y != 2)
    with pytest.raises(ValueError, match=r"class .*c.* has no training instance to build on: cv"):
        kdey.KDEyML(cv=[(np.arange(150), part)]).fit(X, labels)


@pytest.mark.parametrize("name", ["PACC", "EMQ", "DIR", "DM-HD", "KDEyML", "KDEyCS", "KDEyHD"])
def test_training_weights_are_repetitions(name: str) -> None:
    X, y = data()
    model = FrozenEstimator(LogisticRegression().fit(X, y))  # folds must not depend on the rows
    counts = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = make(name).set_params(classifier=model).fit(X, y, sample_weight=counts)
    written = make(name).set_params(classifier=model)
    written.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(X[:50]), written.predict(X[:50]), atol=1e-4)
    mass = np.bincount(y, weights=counts)
    np.testing.assert_allclose(weighted.prevalence_, mass / mass.sum())


def test_a_classifier_without_weights_is_told() -> None:
    X, y = data()
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        kdey.PACC(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_checked(name: str) -> None:
    X, y = data()
    for weights in (np.ones(7), -np.ones(150), np.full(150, np.nan)):
        with pytest.raises(ValueError, match=r"sample_weight|inconsistent|weight"):
            make(name).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("name", [*NAMES, "DMx"])
def test_wrong_shapes_are_told(name: str) -> None:
    X, y = data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make(name).fit(X, y[:-1])
    with pytest.raises(ValueError, match="y contains one class only"):
        make(name).fit(X, np.zeros(150))
    q = make(name).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        q.predict(X[:, :3])
    with pytest.raises(ValueError, match=r"empty|0 sample"):
        q.predict(X[:0])
    with pytest.raises(ValueError, match=r"2D array|got 1D"):
        q.predict(X[0])


def test_wrong_classifiers_are_refused() -> None:
    X, y = data()
    with pytest.raises(TypeError, match="classifier must have predict_proba, which RidgeClassif"):
        kdey.EMQ(RidgeClassifier()).fit(X, y)
    with pytest.raises(TypeError, match="classifier must be an instance, got the class LogisticR"):
        kdey.PACC(LogisticRegression).fit(X, y)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0.5, 0.6, 0.1], "rows that sum to one"),
        ([np.nan, 0.5, 0.5], "contains NaN"),
        ([-0.5, 1.0, 0.5], "negative"),
        ([0.5, 0.5], "has 2 columns, expected one per class: 3"),
    ],
)
def test_posteriors_of_a_broken_classifier_are_refused(rows: Any, message: str) -> None:
    X, y = data()
    for method in (kdey.PACC, kdey.PCC, kdey.KDEyML):
        with pytest.raises(ValueError, match=rf"classifier.predict_proba\(X\) .*{message}"):
            method(Fixed(rows)).fit(X, y).predict(X)


def test_a_classifier_is_cloned_and_never_fitted_in_place() -> None:
    X, y = data()
    model = LogisticRegression()
    kdey.KDEyML(model, bandwidth=0.1).fit(X, y)
    assert not hasattr(model, "classes_")


def test_a_method_fitted_on_posteriors_says_that_it_has_no_classifier() -> None:
    X, y = data()
    q = kdey.KDEyML(bandwidth=0.1).fit(X, y)
    p = q.classifier_.predict_proba(X)
    q.fit_posteriors(p, y)
    with pytest.raises(ValueError, match="was fitted on posteriors and has no classifier: use agg"):
        q.predict(X)
    assert q.aggregate(p).shape == (3,)


@pytest.mark.parametrize("name", ["HDy-binary", "DyS-binary", "MM-pp-binary", "HDx-binary"])
def test_binary_methods_take_any_two_names(name: str) -> None:
    X, y = data(2)
    expected = make(name).fit(X, y).predict(X[:40])
    for labels in (np.array(["no", "yes"])[y], y.astype(bool), np.where(y, 1, -1), y.tolist()):
        q = make(name).fit(X, labels)
        np.testing.assert_allclose(q.predict(X[:40]), expected, atol=1e-6)


def test_float32_features_and_list_of_lists() -> None:
    X, y = data()
    q = kdey.KDEyML(bandwidth=0.1)
    expected = q.fit(X, y).predict(X[:50])
    listed = q.fit(X.tolist(), y.tolist()).predict(X[:50].tolist())
    np.testing.assert_allclose(listed, expected, atol=1e-9)
    small = X.astype(np.float32)
    np.testing.assert_allclose(q.fit(small, y).predict(small[:50]), expected, atol=1e-3)


def test_one_vs_all_of_a_method_on_features_says_that_it_takes_no_posteriors() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    fitted = kdey.OneVsAll(kdey.HDx()).fit(X, y)
    posteriors = np.full((60, 3), 1 / 3)
    with pytest.raises(TypeError, match="inside works on features, not on posteriors"):
        fitted.aggregate(posteriors)
    with pytest.raises(TypeError, match=r"HDx.* works on features"):
        kdey.OneVsAll(kdey.HDx()).fit_posteriors(posteriors, y)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([1, "1", "2"], "y mixes types: '1' is a str and 1 a int"),
        ([True, 1, 0], "y mixes types: True is a bool and 1 a int"),
        (["a", "b", float("nan")], "y has missing values"),
    ],
)
def test_lists_whose_labels_numpy_would_merge_are_refused(labels: list[Any], says: str) -> None:
    """1 and "1", True and 1 became one class, and NaN a class "nan"."""
    with pytest.raises(ValueError, match=says):
        kdey.PCC().fit(np.eye(3).repeat(20, axis=0), [v for v in labels for _ in range(20)])


@pytest.mark.parametrize("method", [kdey.PACC(cv=3), kdey.Quantifier(effort="low")], ids=repr)
def test_names_of_several_levels_are_refused(method: Any) -> None:
    """Columns of a MultiIndex were taken by position, or ended in "could not convert string"."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    frame = pd.DataFrame(rng.normal(size=(90, 2)) + y[:, None], columns=["a", "b"])
    levels = frame.set_axis(pd.MultiIndex.from_tuples([("t", "b"), ("t", "a")]), axis=1)
    with pytest.raises(ValueError, match="X has columns with names of several levels"):
        clone(method).fit(levels, y)
    if isinstance(method, kdey.PACC):
        fitted = clone(method).fit(frame, y)
        for ask in (fitted.predict, fitted.estimate):
            with pytest.raises(ValueError, match="X has columns with names of several levels"):
                ask(levels)


@pytest.mark.parametrize(
    "method", [kdey.PACC(cv=3), kdey.Quantifier(LogisticRegression(), effort="low")], ids=repr
)
@pytest.mark.parametrize("library", [pd, pl])
def test_a_label_that_was_left_in_the_table_is_named(method: Any, library: Any) -> None:
    X, y = data()
    columns = dict(zip(COLUMNS, X.T, strict=True))
    code, texts = 10 - 2 * y, np.array(["low", "mid", "high"])[y]
    nearly = code.copy()
    nearly[-1] = nearly[0]  # wrong once: a feature that is only good
    with pytest.warns(LabelColumnWarning, match="the column 'code' tells the class"):
        clone(method).fit(library.DataFrame({**columns, "code": code, "nearly": nearly}), texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelColumnWarning)
        clone(method).fit(library.DataFrame({**columns, "nearly": nearly}), texts)
        clone(method).fit(np.column_stack([X, code]), texts)  # has no names, and no label


@pytest.mark.parametrize("library", [pd, pl])
def test_a_label_as_text_is_named(library: Any) -> None:
    X, y = data()
    columns = dict(zip(COLUMNS, X.T, strict=True))
    frame = library.DataFrame({**columns, "kind": np.array(["low", "mid", "high"])[y]})
    with pytest.warns(LabelColumnWarning, match="the column 'kind' tells the class"):
        kdey.Quantifier(LogisticRegression(), effort="low").fit(frame, y)


@pytest.mark.parametrize(
    "method",
    [
        kdey.PACC(cv=3),
        kdey.CC(),
        kdey.HDx(),
        kdey.Quantifier(effort="low"),
        kdey.OneVsAll(kdey.PACC(cv=3)),
    ],
    ids=repr,
)
def test_labels_in_another_order_than_x_are_refused(method: Any) -> None:
    """Labels of pandas were taken by position, although their index said otherwise."""
    X, y = data()
    frame = pd.DataFrame(X, columns=COLUMNS)
    shuffled = pd.Series(y).sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"in another order: give y\.loc\[X\.index\], or y\.to"):
        method.fit(frame, shuffled)
    with pytest.raises(ValueError, match="in another order"):
        method.fit(X=frame, y=shuffled.to_frame())
    assert not hasattr(method, "model_")


def test_labels_with_an_index_of_their_own_are_taken_by_position() -> None:
    X, y = data()
    frame = pd.DataFrame(X, columns=COLUMNS)
    expected = kdey.PCC(random_state=0).fit(frame, y).predict(frame)
    for labels in (pd.Series(y), pd.Series(y, index=np.arange(len(y)) + 1000)):
        fitted = kdey.PCC(random_state=0).fit(frame, labels)
        np.testing.assert_array_equal(fitted.predict(frame), expected)


@pytest.mark.parametrize("missing", ["", " ", None, np.nan, pd.NA])
def test_labels_that_are_missing_are_refused_with_their_row(missing: Any) -> None:
    """An empty text became a class, and NaN ended in "Unknown label type"."""
    X, y = data()
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[7] = missing
    for given in (labels, pd.Series(labels)):
        with pytest.raises(ValueError, match=r"y has missing values \(first in row 7"):
            kdey.PACC(cv=3).fit(X, given)


def whole(dtype: str, *values: int) -> pd.Series:
    return pd.Series(np.array(values)[data()[1]]).astype(dtype)


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_whole_numbers_of_pandas_stay_exact(dtype: str) -> None:
    # As floats the first two are one number, and two classes became one.
    X, labels = data()[0], (2**53, 2**53 + 1, 2**53 + 2)
    q = kdey.PACC().fit(X, whole(dtype, *labels))
    assert q.classes_.tolist() == list(labels)
    assert q.classes_.dtype == np.int64


def test_truth_values_of_pandas_stay_truth_values() -> None:
    X, y = data(2)
    q = kdey.PACC().fit(X, pd.Series(y == 1).astype("boolean"))
    assert q.classes_.dtype == bool
    with pytest.raises(ValueError, match=r"NaN|missing"):
        kdey.PACC().fit(X, pd.Series(y).astype("Int64").where(y == 1))


def test_weights_and_clusters_in_another_order_are_refused() -> None:
    X, y = data()
    frame, mixed = pd.DataFrame(X, columns=COLUMNS), pd.Series(np.arange(150.0)).sample(frac=1.0)
    with pytest.raises(ValueError, match=r"rows of sample_weight.*sample_weight.loc\[X.index\]"):
        kdey.PACC().fit(frame, y, sample_weight=mixed)
    q = kdey.PACC().fit(frame, y)
    for ask in (q.predict, q.estimate):
        with pytest.raises(ValueError, match="rows of sample_weight have the same index"):
            ask(frame, sample_weight=mixed)
        ask(frame, sample_weight=mixed.to_numpy())
    with pytest.raises(ValueError, match="rows of clusters have the same index"):
        q.estimate(frame, clusters=mixed)
    with pytest.raises(ValueError, match="rows of clusters have the same index"):
        q.estimate_bags(frame, [[0, 1, 2]], clusters=mixed)


def test_columns_that_are_numbered_must_be_in_order() -> None:
    # scikit-learn knows no names but texts, and took these columns by position.
    X, y = data()
    frame = pd.DataFrame(X)
    q = kdey.PACC().fit(frame, y)
    q.predict(frame)
    for ask in (q.predict, q.estimate):
        with pytest.raises(ValueError, match="numbered, but not in order"):
            ask(frame[[2, 0, 1, 3]])
    with pytest.raises(ValueError, match="numbered, but not in order"):
        kdey.PACC().fit(frame[[3, 2, 1, 0]], y)
    with pytest.raises(ValueError, match="texts for names, got 0"):
        kdey.predict_groups(q, frame)


@pytest.mark.parametrize("other", ["bad ", "bad\u200b", "Bad"])
def test_labels_that_look_alike_are_pointed_out(other: str) -> None:
    """They became two classes without a word."""
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = np.repeat(["bad", other, "good"], 40)
    with pytest.warns(UserWarning, match="are taken for 2 classes: if they are one"):
        kdey.PACC().fit(X, y)
