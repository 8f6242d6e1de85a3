"""Estimates with labels of the bag: three ways side by side, a test and a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import kdey
from kdey import ACC, EMQ, PACC, KDEyL2, KDEyML
from kdey.bags import Bags, sampled_bags
from kdey.intervals.profile import wilson
from kdey.intervals.region import region_from_covariance
from kdey.labelled import (
    LabelledEstimate,
    estimate_labelled_bags,
    labelled_sample,
)
from kdey.labelled.shares import combine, labels_alone
from kdey.options import Options
from tests.intervals.cases import dirichlet, training

WAYS = ["label-shift", "labels", "prediction-powered"]


def fitted(method=None):
    rng = np.random.default_rng(0)
    quantifier = EMQ(calibration="bcts") if method is None else method
    return quantifier.fit_posteriors(*training(600, rng))


def sharpened(labels, rng):
    """Return posteriors that have changed within classes: another power, and one class moved."""
    p = dirichlet(labels, rng) ** 2.0
    p[:, 0] *= 2.5
    return p / p.sum(axis=1, keepdims=True)


def bag(size, prevalence, rng, draw=dirichlet):
    labels = rng.choice(3, size, p=prevalence)
    return draw(labels, rng), labels


@pytest.mark.parametrize("method", [None, PACC(), KDEyML(bandwidth=0.2), KDEyL2(bandwidth=0.2)])
@pytest.mark.parametrize("target", ["population", "bag"])
def test_three_estimates_on_the_simplex_with_limits_around_them(method, target) -> None:
    q, rng = fitted(method), np.random.default_rng(1)
    p, y = bag(300, [0.2, 0.5, 0.3], rng)
    result = q.estimate_posteriors(
        p, labelled=(np.arange(40), y[:40]), target=target, options=kdey.Options(n_replicates=40)
    )
    assert isinstance(result, LabelledEstimate)
    assert list(result.alternatives) == WAYS
    for part in (result, *result.alternatives.values()):
        assert part.estimate.sum() == pytest.approx(1)
        assert ((part.low <= part.estimate) & (part.estimate <= part.high)).all()
        assert np.abs(part.estimate - np.bincount(y) / 300).max() < 0.2
        assert part.covariance.shape == (3, 3)
        assert part.region.contains(part.estimate)
    np.testing.assert_array_equal(
        result.estimate, result.alternatives["prediction-powered"].estimate
    )


def test_labels_are_one_hot_rows_of_the_likelihood() -> None:
    q, rng = fitted(EMQ()), np.random.default_rng(2)
    p, y = bag(200, [0.6, 0.3, 0.1], rng)
    joint = q.estimate_posteriors(p, labelled=([3, 7, 11], y[[3, 7, 11]]))
    rows = p / q.prevalence_
    rows[[3, 7, 11]] = np.eye(3)[y[[3, 7, 11]]]
    alpha = np.full(3, 1 / 3)
    for _ in range(3000):  # expectation maximisation, independent of the solver
        weighted = rows * alpha
        alpha = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(joint.alternatives["label-shift"].estimate, alpha, atol=1e-5)


def test_labels_that_name_their_positions_in_another_order_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    positions = [7, 2, 9, 4]
    named = pd.Series([0, 1, 2, 1], index=positions)
    shuffled = named.loc[[2, 7, 4, 9]]
    with pytest.raises(ValueError, match=r"in another order: give labels\.loc\[positions\]"):
        labelled_sample((positions, shuffled), np.arange(3), 10)
    rows = pd.Series(positions, index=list("abcd"))
    with pytest.raises(ValueError, match=r"in another order"):
        labelled_sample((rows, pd.Series([0, 1, 2, 1], index=list("bacd"))), np.arange(3), 10)
    for labels in (named, shuffled.to_numpy(), pd.Series([0, 1, 2, 1], index=list("wxyz"))):
        assert labelled_sample((rows, labels), np.arange(3), 10).positions.tolist() == positions


def test_labels_alone_have_wilsons_limits() -> None:
    q, rng = fitted(), np.random.default_rng(3)
    p, _ = bag(100, [0.2, 0.5, 0.3], rng)
    labels = np.array([0] * 15 + [1] * 5)  # no label of class 2
    part = q.estimate_posteriors(p, labelled=(np.arange(20), labels)).alternatives["labels"]
    share = np.array([[0.75, 0.25, 0.0]])
    low, high = wilson(share, np.array([[20.0]]), 0.025)
    np.testing.assert_allclose(part.estimate, share[0])
    np.testing.assert_allclose(part.low, low[0], atol=1e-12)
    np.testing.assert_allclose(part.high, high[0], atol=1e-12)


def test_a_bag_with_all_labels_is_known() -> None:
    q, rng = fitted(), np.random.default_rng(4)
    p, y = bag(60, [0.2, 0.5, 0.3], rng)
    result = q.estimate_posteriors(p, labelled=(np.arange(60), y), target="bag")
    for part in result.alternatives.values():
        np.testing.assert_allclose(part.estimate, np.bincount(y, minlength=3) / 60)
        np.testing.assert_allclose(part.high, part.low, atol=1e-12)


def test_limits_of_this_bag_honour_the_labels_that_are_known() -> None:
    q, rng = fitted(), np.random.default_rng(5)
    p, y = bag(100, [0.1, 0.8, 0.1], rng)
    result = q.estimate_posteriors(p, labelled=(np.arange(80), y[:80]), target="bag")
    known = np.bincount(y[:80], minlength=3) / 100
    for part in result.alternatives.values():
        assert (part.low >= known - 1e-12).all()
        assert (part.high <= known + 0.2 + 1e-12).all()


def test_prediction_powered_limits_cover_where_those_under_label_shift_do_not() -> None:
    q, rng = fitted(), np.random.default_rng(6)
    truth = np.array([0.3, 0.5, 0.2])
    covered = dict.fromkeys(WAYS, 0)
    rejected = 0
    for _ in range(100):
        p, y = bag(400, truth, rng, sharpened)
        result = q.estimate_posteriors(p, labelled=(np.arange(60), y[:60]), check_fit=False)
        rejected += result.shift_test.rejected
        for way, part in result.alternatives.items():
            covered[way] += int(((part.low <= truth) & (truth <= part.high)).sum())
    assert covered["prediction-powered"] >= 275  # of 300; 285 are nominal
    assert covered["label-shift"] < 200
    assert rejected > 60


def test_under_label_shift_all_cover_and_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(7)
    truth = np.array([0.3, 0.5, 0.2])
    covered = dict.fromkeys(WAYS, 0)
    errors = dict.fromkeys(WAYS, 0.0)
    rejected = 0
    for _ in range(100):
        q = PACC().fit_posteriors(*training(600, rng))
        p, y = bag(400, truth, rng)
        result = q.estimate_posteriors(p, labelled=(np.arange(60), y[:60]), check_fit=False)
        rejected += result.shift_test.rejected
        for way, part in result.alternatives.items():
            covered[way] += int(((part.low <= truth) & (truth <= part.high)).sum())
            errors[way] += np.abs(part.estimate - truth).mean()
    assert all(count >= 272 for count in covered.values())
    assert rejected <= 12
    assert errors["label-shift"] < errors["prediction-powered"] < errors["labels"]


def test_probabilities_of_selection_undo_a_biased_choice() -> None:
    q, rng = fitted(), np.random.default_rng(8)
    truth = np.array([0.2, 0.5, 0.3])
    weighted, unweighted = [], []
    for _ in range(60):
        p, y = bag(500, truth, rng)
        chance = np.where(p[:, 0] > 0.5, 0.4, 0.05)
        chosen = np.flatnonzero(rng.random(500) < chance)
        pair = (chosen, y[chosen])
        part = q.estimate_posteriors(
            p, labelled=pair, check_fit=False, options=kdey.Options(selection=chance[chosen])
        )
        weighted.append(part.alternatives["labels"].estimate)
        part = q.estimate_posteriors(p, labelled=pair, check_fit=False)
        unweighted.append(part.alternatives["labels"].estimate)
    assert np.abs(np.mean(weighted, axis=0) - truth).max() < 0.03
    assert np.abs(np.mean(unweighted, axis=0) - truth).max() > 0.1


def test_equal_probabilities_weights_and_clusters_of_one_change_little() -> None:
    q, rng = fitted(), np.random.default_rng(9)
    p, y = bag(300, [0.2, 0.5, 0.3], rng)
    pair = (np.arange(50), y[:50])
    plain = q.estimate_posteriors(p, labelled=pair, check_fit=False)
    scaled = q.estimate_posteriors(
        p, sample_weight=np.full(300, 7.0), labelled=pair, check_fit=False
    )
    np.testing.assert_allclose(scaled.low, plain.low, atol=1e-9)
    chosen = q.estimate_posteriors(
        p, labelled=pair, check_fit=False, options=kdey.Options(selection=np.full(50, 1 / 6))
    )
    np.testing.assert_allclose(
        chosen.alternatives["labels"].low, plain.alternatives["labels"].low, atol=1e-12
    )
    single = q.estimate_posteriors(p, clusters=np.arange(300), labelled=pair, check_fit=False)
    np.testing.assert_allclose(single.low, plain.low, atol=0.02)


def test_clusters_widen_the_limits() -> None:
    q, rng = fitted(), np.random.default_rng(10)
    classes = np.repeat(rng.choice(3, 40, p=[0.2, 0.5, 0.3]), 10)  # clusters of one class each
    p, clusters = dirichlet(classes, rng), np.repeat(np.arange(40), 10)
    pair = (np.arange(0, 400, 2), classes[::2])
    plain = q.estimate_posteriors(p, labelled=pair, check_fit=False)
    clustered = q.estimate_posteriors(p, clusters=clusters, labelled=pair, check_fit=False)
    for way in WAYS:
        a, b = plain.alternatives[way], clustered.alternatives[way]
        assert (b.high - b.low).mean() > 1.3 * (a.high - a.low).mean()


def test_labels_of_one_cluster_say_nothing_of_the_others() -> None:
    """Intervals were those of labels drawn one by one: 0.59 to 0.86 where nothing is known."""
    q, rng = fitted(), np.random.default_rng(12)
    p, y = bag(600, [0.2, 0.5, 0.3], rng)
    pair, clusters = (np.arange(300), y[:300]), np.arange(600) // 300
    with pytest.warns(kdey.options.IntervalWarning, match="single instance or cluster"):
        few, one = (
            q.estimate_posteriors(p, clusters=ids, labelled=pair, check_fit=False)
            for ids in (clusters, 0 * clusters)
        )
    ways = [few.alternatives[way] for way in WAYS[1:]] + list(one.alternatives.values())
    for made in (few, one, *ways):
        assert made.low.max() < 1e-3
        assert made.high.min() > 1 - 1e-3
        assert "few clusters" in made.status


def test_instances_of_weight_zero_do_not_belong_to_the_bag() -> None:
    q, rng = fitted(), np.random.default_rng(11)
    p, y = bag(200, [0.2, 0.5, 0.3], rng)
    weights = np.ones(200)
    weights[150:] = 0
    whole = q.estimate_posteriors(
        p, sample_weight=weights, labelled=([0, 5, 9, 160], y[[0, 5, 9, 160]]), check_fit=False
    )
    part = q.estimate_posteriors(p[:150], labelled=([0, 5, 9], y[[0, 5, 9]]), check_fit=False)
    assert whole.n_labels == 3
    np.testing.assert_allclose(whole.estimate, part.estimate, atol=1e-9)


def test_the_caller_chooses_what_is_believed_and_the_sentence_says_so() -> None:
    q, rng = fitted(), np.random.default_rng(12)
    p, y = bag(300, [0.2, 0.5, 0.3], rng)
    pair = (np.arange(30), y[:30])
    result = q.estimate_posteriors(p, labelled=pair, options=kdey.Options(believe="label-shift"))
    np.testing.assert_array_equal(result.estimate, result.alternatives["label-shift"].estimate)
    assert "use the label-shift estimate" in repr(result)
    assert "p = " in result.verdict
    moved, labels = bag(300, [0.2, 0.5, 0.3], rng, sharpened)
    result = q.estimate_posteriors(moved, labelled=(np.arange(150), labels[:150]))
    assert "contradict label shift" in result.verdict
    assert result.believed == "prediction-powered"
    with pytest.raises(ValueError, match="believe must be one of"):
        q.estimate_posteriors(p, labelled=pair, options=kdey.Options(believe="hope"))


def test_result_as_json_and_with_the_fit_check() -> None:
    q, rng = fitted(), np.random.default_rng(13)
    p, y = bag(300, [0.2, 0.5, 0.3], rng)
    result = q.estimate_posteriors(p, labelled=(np.arange(30), y[:30]))
    plain = json.loads(result.to_json())
    assert list(plain["alternatives"]) == WAYS
    assert plain["believed"] == "prediction-powered"
    assert 0 <= plain["label_shift_test"]["p_value"] <= 1
    assert "fit" in plain["diagnostics"]
    assert result.status == result.alternatives["labels"].status


def test_without_training_data_label_shift_is_not_tested() -> None:
    q = ACC.from_rates(0.9, 0.8)
    p = np.repeat(np.eye(2), [60, 40], axis=0)
    result = q.estimate_posteriors(
        p,
        labelled=([0, 1, 60, 61], [0, 0, 1, 0]),
        check_fit=False,
        options=kdey.Options(n_replicates=40),
    )
    assert result.shift_test is None
    assert "could not be tested" in result.verdict


def test_instances_and_posteriors_give_the_same_answer() -> None:
    rng = np.random.default_rng(14)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    q = PACC(random_state=0).fit(X[:200], y[:200])
    pair = (np.arange(20), y[200:220])
    a = q.estimate(X[200:], labelled=pair, check_fit=False)
    p = q.classifier_.predict_proba(X[200:])
    b = q.estimate_posteriors(p, labelled=pair, check_fit=False)
    np.testing.assert_allclose(a.estimate, b.estimate)
    assert "fit" in q.estimate(X[200:], labelled=pair).diagnostics


@pytest.mark.parametrize(
    ("labelled", "message"),
    [
        (([], []), "at least one position"),
        (([0, 0], [1, 1]), "distinct"),
        (([0, 100], [1, 1]), "0 to 99"),
        (([-1], [1]), "0 to 99"),
        (([0.5], [1]), "must be integers"),
        (([True, False], [1, 1]), "flatnonzero"),
        (([0, 1], [1]), "one label per position"),
        (([0], [9]), "not in classes"),
        (([0], [np.nan]), "missing"),
        ([1, 2, 3], "pair"),
    ],
)
def test_bad_labels_are_refused(labelled, message) -> None:
    q = fitted()
    p, _ = bag(100, [0.2, 0.5, 0.3], np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        q.estimate_posteriors(p, labelled=labelled)


def test_bad_requests_are_refused() -> None:
    q = fitted()
    p, y = bag(100, [0.2, 0.5, 0.3], np.random.default_rng(0))
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        q.estimate_posteriors(
            p, labelled=([0, 1], y[:2]), options=kdey.Options(selection=[0.5, 1.5])
        )
    with pytest.raises(ValueError, match="give labelled"):
        q.estimate_posteriors(p, options=kdey.Options(selection=[0.5]))
    with pytest.raises(ValueError, match="single bag"):
        q.estimate_posteriors(p, [[0, 1], [2]], labelled=([0], y[:1]))
    with pytest.raises(ValueError, match="weight zero"):
        q.estimate_posteriors(p, sample_weight=[0] * 50 + [1] * 50, labelled=([0], y[:1]))
    wrapped = kdey.OneVsAll(PACC()).fit_posteriors(*training(90, np.random.default_rng(0)))
    with pytest.raises(TypeError, match="combines several quantifiers"):
        wrapped.estimate_posteriors(p, labelled=([0], y[:1]))


def test_many_bags_together_are_estimated_as_one_by_one() -> None:
    q, rng = fitted(), np.random.default_rng(30)
    model, options = q.model_, Options()
    bags = [bag(size, [0.2, 0.5, 0.3], rng) for size in (80, 30, 120)]
    samples = [
        labelled_sample(
            (np.arange(n), y[:n]),
            q.classes_,
            len(y),
            drawn=sampled_bags(
                Bags.whole(len(y)),
                np.arange(len(y)) // 2,
                Options(variance_strata=np.arange(len(y)) // 10, fpc=fpc),
            ),
        )
        for n, fpc, (_, y) in zip((20, 30, 1), (None, 0.4, 90), bags, strict=True)
    ]
    points = np.concatenate([p for p, _ in bags])
    together = estimate_labelled_bags(model, points, samples, options)
    for result, (p, _), sample in zip(together, bags, samples, strict=True):
        alone = estimate_labelled_bags(model, p, [sample], options)[0]
        assert result.shift_test == alone.shift_test
        for way in WAYS:
            first, second = result.alternatives[way], alone.alternatives[way]
            np.testing.assert_allclose(first.estimate, second.estimate, atol=1e-6)
            np.testing.assert_allclose(first.low, second.low, atol=1e-6)
            np.testing.assert_allclose(first.high, second.high, atol=1e-6)


def test_the_variance_of_labels_is_taken_at_the_combined_estimate() -> None:
    # Taken at the estimate without labels, labels of a class that it calls absent have hardly any.
    q, rng = fitted(), np.random.default_rng(31)
    p = dirichlet(np.zeros(60, dtype=int), rng)  # all look like class 0
    sample = labelled_sample((np.arange(20), np.repeat([0, 1], [14, 6])), q.classes_, 60)
    base = q.estimate_posteriors(p[20:])
    c, _ = combine(sample, base)
    covariance = base.covariance + base.uncertainty.template_covariance()

    def combined(prevalence):
        a = (20 * prevalence + 0.5) / 21.5
        of_labels = (np.diag(a) - np.outer(a, a)) / 20
        gain = covariance @ np.linalg.pinv(covariance + of_labels, rcond=1e-10)
        centre = base.uncertainty.centre()
        return centre + gain @ (np.array([0.7, 0.3, 0.0]) - centre)

    inside = np.maximum(c, 0) / np.maximum(c, 0).sum()
    np.testing.assert_allclose(combined(inside), c, atol=1e-3)
    assert np.abs(combined(base.estimate) - c).max() > 5e-3


def test_template_errors_count_twice_in_limits_with_labels() -> None:
    q, rng = fitted(), np.random.default_rng(32)
    p, y = bag(2000, [0.2, 0.5, 0.3], rng)
    sample = labelled_sample((np.arange(20), y[:20]), q.classes_, len(p))
    base = q.estimate_posteriors(p[20:])
    templates = base.uncertainty.template_covariance()
    labels = np.diag(base.estimate) - np.outer(base.estimate, base.estimate)
    total = base.covariance + templates
    expected = np.linalg.pinv(np.linalg.pinv(total) + np.linalg.pinv(labels / 20))
    np.testing.assert_allclose(combine(sample, base)[1], expected, atol=0.1 * expected.max())


def test_labels_that_were_chosen_by_class_are_doubted() -> None:
    """Fifty labels of one class, chosen as such, were said not to contradict label shift."""
    q, rng = fitted(), np.random.default_rng(4)
    p, y = bag(600, [0.3, 0.4, 0.3], rng)
    chosen = np.flatnonzero(y == 0)[:50]
    result = q.estimate_posteriors(p, labelled=(chosen, y[chosen]))
    assert result.draw_p_value is not None
    assert result.draw_p_value < 0.01
    assert "may not be a random draw" in result.verdict
    assert "do not contradict" not in result.verdict
    assert result.verdict in result.notes
    assert result.to_dict()["draw_p_value"] == result.draw_p_value
    selection = np.full(50, 0.5)
    told = q.estimate_posteriors(
        p, labelled=(chosen, y[chosen]), options=Options(selection=selection)
    )
    assert told.draw_p_value is None


def test_labels_that_were_chosen_by_a_column_are_doubted() -> None:
    """The scores do not tell: the column has nothing to do with the classes."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    columns = make_column_transformer((OneHotEncoder(), ["shop"]), remainder="passthrough")
    y = rng.integers(0, 2, 600)
    X = pd.DataFrame({"size": rng.normal(2.0 * y), "age": rng.normal(size=600)})
    X["shop"] = rng.choice(["A", "B", "C"], 600)
    quantifier = PACC(make_pipeline(columns, LogisticRegression()), cv=3).fit(X[:300], y[:300])
    bag, truth = X[300:], y[300:]
    for name, chosen in {
        "age": np.flatnonzero(bag["age"] > 0.5)[:40],
        "shop": np.flatnonzero(bag["shop"] == "B")[:40],
    }.items():
        result = quantifier.estimate(bag, labelled=(chosen, truth[chosen]))
        assert (result.draw_differs_in, result.draw_p_value) == (name, 0.002)
        assert f"differ from the others in column {name!r} (p = 0.002)" in result.verdict
        frame = bag.assign(label=pd.Series(truth[chosen], index=bag.index[chosen]), by="x")
        groups = quantifier.predict_groups(frame, "by", labelled="label")
        assert groups.labelled is not None
        assert f"column {name!r}" in groups.labelled["verdict"][0]
    fair = rng.choice(300, 40, replace=False)
    assert "random draw" not in quantifier.estimate(bag, labelled=(fair, truth[fair])).verdict


@pytest.mark.parametrize("n_labels", [5, 40])
def test_random_labels_are_rarely_doubted(n_labels) -> None:
    """Also where few rows have scores that most others lack, and labels are few."""
    q, rng = fitted(), np.random.default_rng(5)
    doubted = 0
    for _ in range(60):
        p, y = bag(300, [0.02, 0.9, 0.08], rng)
        rows = rng.choice(300, n_labels, replace=False)
        result = q.estimate_posteriors(p, labelled=(rows, y[rows]))
        doubted += "random draw" in result.verdict
    assert doubted <= 3


def test_the_region_knows_that_labels_may_have_missed_a_class() -> None:
    """Of five labels none is of the second class, which one instance in four may be of anyway."""
    y = np.eye(2)[np.zeros(5, dtype=int)]
    sample = labelled_sample((np.arange(5), np.zeros(5, dtype=int)), np.arange(2), 100)
    found = labels_alone(y, sample, 0.025, population=True)
    plain = region_from_covariance(found.unclipped, found.errors, found.degrees, 0.95)
    assert found.high[1] > 0.4
    assert found.region(0.95).contains([0.72, 0.28])
    assert not plain.contains([0.72, 0.28])
    assert found.region(0.95).distance([0.9, 0.1]) < plain.distance([0.9, 0.1])
    many = np.eye(2)[np.arange(4_000) % 2]  # of many labels of all classes it says nothing new
    sample = labelled_sample((np.arange(4_000), np.arange(4_000) % 2), np.arange(2), 5_000)
    found = labels_alone(many, sample, 0.025, population=True)
    plain = region_from_covariance(found.unclipped, found.errors, found.degrees, 0.95)
    assert found.region(0.95).distance([0.48, 0.52]) == pytest.approx(
        float(plain.distance([0.48, 0.52])), rel=0.02
    )
