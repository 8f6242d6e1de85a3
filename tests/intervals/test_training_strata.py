"""Classes that look different in each stratum: templates of strata, shrunk towards the common."""

from __future__ import annotations

import numpy as np
import pytest

import kdey
from kdey._fingerprints import text_hashes
from kdey.intervals.analytic import moment_training_rows
from kdey.intervals.moments import features, training_moments
from kdey.posteriors import TrainingPosteriors

pd = pytest.importorskip("pandas")

NORTH, SOUTH = text_hashes(["north", "south"]).view(np.int64).tolist()


def drawn(seed: int, apart: float, n: int = 240):
    """Return posteriors of two classes, labels and strata; scores of the north are lower."""
    rng = np.random.default_rng(seed)
    labels, strata = np.arange(n) % 2, np.where(np.arange(n) % 3 == 0, "north", "south")
    scores = rng.normal(1.5 * labels - 0.75 - apart * (strata == "north"))
    p = 1.0 / (1.0 + np.exp(-scores))
    return np.stack([1.0 - p, p], axis=1), labels, strata


def table(seed: int, apart: float, share: float = 0.4, n: int = 600):
    rng = np.random.default_rng(seed)
    labels, strata = (
        (rng.random(n) < share).astype(int),
        np.where(np.arange(n) < 200, "north", "south"),
    )
    p = 1.0 / (1.0 + np.exp(-rng.normal(1.5 * labels - 0.75 - apart * (strata == "north"))))
    return pd.DataFrame({"0": 1.0 - p, "1": p, "shop": strata})


def groups(quantifier, frame, by="shop", **options):
    options = kdey.Options(strata="shop", **options)
    return kdey.predict_groups(quantifier, frame, by, scores=["0", "1"], options=options)


@pytest.mark.parametrize("method", [kdey.PACC(), kdey.KDEyML(bandwidth=0.1), kdey.DM(n_bins=6)])
def test_strata_that_differ_have_templates_of_their_own(method):
    p, labels, strata = drawn(0, 1.5)
    frame = table(1, 1.5)
    common = groups(method.fit_posteriors(p, labels), frame, check_fit=False)
    known = groups(method.fit_posteriors(p, labels, strata=strata), frame, check_fit=False)
    assert abs(common.estimate[0, 1] - 0.4) > 0.2
    assert np.abs(known.estimate[:, 1] - 0.4).max() < 0.12
    assert ((known.low[:, 1] < 0.4) & (known.high[:, 1] > 0.4)).all()
    whole = groups(method, frame, (), check_fit=False)
    np.testing.assert_allclose(whole.estimate[0], [1, 2] @ known.estimate / 3, atol=0.02)


def test_weights_are_those_of_the_shrunk_mean():
    p, labels, strata = drawn(0, 1.0)
    codes = text_hashes(strata).view(np.int64)
    found = TrainingPosteriors(p, labels, strata=codes).in_stratum(NORTH)
    for label in (0, 1):
        own, all_rows = (labels == label) & (codes == NORTH), labels == label
        groups_of = [p[all_rows & (codes == code), 1] for code in (NORTH, SOUTH)]
        n, sizes = all_rows.sum(), np.array([len(g) for g in groups_of])
        within = sum(((g - g.mean()) ** 2).sum() for g in groups_of) / (n - 2)
        mean = p[all_rows, 1].mean()
        squares = sum(len(g) * (g.mean() - mean) ** 2 for g in groups_of)
        between = (squares - within) / (n - (sizes**2).sum() / n)
        share = np.sqrt(own.sum() / (own.sum() + within / between))
        expected = share * p[own].mean(axis=0) + (1 - share) * p[all_rows].mean(axis=0)
        w = found.weights[all_rows]
        np.testing.assert_allclose(w @ p[all_rows] / w.sum(), expected)
        assert w.sum() == pytest.approx(n)
        assert (w > 0).all()


@pytest.mark.parametrize("given", [None, "weights"])
def test_repeated_rows_of_a_cluster_say_no_more_of_a_stratum(given):
    p, labels, strata = drawn(0, 0.7)
    codes = text_hashes(strata).view(np.int64)
    times = np.repeat(np.arange(len(p)), 1 + (np.arange(len(p)) % 4 if given else 7))
    once = TrainingPosteriors(p, labels, strata=codes)
    if given:  # weights of clusters are as repetitions
        counts = np.bincount(times).astype(float)
        once = TrainingPosteriors(p, labels, counts, clusters=np.arange(len(p)), strata=codes)
    again = TrainingPosteriors(p[times], labels[times], clusters=times, strata=codes[times])
    expected, found = once.in_stratum(NORTH).weights, again.in_stratum(NORTH).weights
    for label in (0, 1):
        own, repeated = labels == label, labels[times] == label
        shares = expected[own] / expected[own].sum()
        summed = np.bincount(times, weights=found * repeated)[own]
        np.testing.assert_allclose(summed / summed.sum(), shares)
        assert shares.max() > 1.01 * shares.min()
    naive = TrainingPosteriors(p[times], labels[times], strata=codes[times]).in_stratum(NORTH)
    assert np.ptp(naive.weights[labels[times] == 0]) > np.ptp(found[labels[times] == 0])


def test_one_cluster_in_each_stratum_does_not_show_how_strata_differ():
    p, labels, strata = drawn(0, 1.0)
    codes = text_hashes(strata).view(np.int64)
    training = TrainingPosteriors(p, labels, clusters=(strata == "north").astype(int), strata=codes)
    np.testing.assert_array_equal(training.in_stratum(NORTH).weights, 1.0)


def test_comparisons_of_strata_share_the_errors_of_templates():
    p, labels, strata = drawn(3, 0.7, n=60)
    quantifier = kdey.PACC().fit_posteriors(p, labels, strata=strata)
    frame = table(1, 0.7, n=6000).assign(half=np.arange(6000) % 2)
    both = groups(quantifier, frame, "half", check_fit=False)
    change = kdey.difference(both[0], both[1])
    cross = both[0].uncertainty.template_covariance(both[1].uncertainty)
    total = both[0].covariance + both[1].covariance - cross - cross.T
    assert change.shared
    widths = [np.hypot(*(part.high - part.low for part in both))[1], (change.high - change.low)[1]]
    assert widths[1] < 0.5 * widths[0]
    assert widths[1] == pytest.approx(2 * 1.96 * np.sqrt(total[1, 1]), rel=0.15)
    # A group that has one of the strata shares rows, and errors, with one that has the other.
    north, south = groups(quantifier, frame, "shop", check_fit=False)
    assert kdey.difference(north, south).shared
    other = kdey.PACC().fit_posteriors(p, labels, strata=strata[::-1])
    assert not kdey.difference(both[0], groups(other, frame, "half", check_fit=False)[0]).shared


def test_strata_that_are_alike_or_unknown_change_nothing():
    p, labels, strata = drawn(0, 0.0)
    p = np.tile(p[:80], (3, 1))  # the same rows in every stratum
    labels, strata = np.tile(labels[:80], 3), np.repeat(["a", "b", "c"], 80)
    quantifier = kdey.PACC().fit_posteriors(p, labels, strata=strata)
    model = quantifier.model_
    for name in ("a", "nowhere"):
        code = int(text_hashes([name]).view(np.int64)[0])
        np.testing.assert_allclose(
            model.in_stratum(code).row_map.templates, model.row_map.templates, atol=1e-12
        )
    assert model.in_stratum(0) is model


def test_errors_of_two_strata_are_related_through_their_common_rows():
    p, labels, strata = drawn(3, 0.7)
    model = kdey.PACC().fit_posteriors(p, labels, strata=strata).model_
    parts = [model.in_stratum(code) for code in (NORTH, SOUTH)]
    rows = [moment_training_rows(part) for part in parts]
    a, b = (training_moments(own, None) for own in rows)
    mixes = np.array([[0.6, 0.4], [0.3, 0.7]])
    expected = np.zeros((2, 2))
    for i in range(len(labels)):
        errors = []
        for own, moments, mix in zip(rows, (a, b), mixes, strict=True):
            z = features(own.rows, None) @ moments.inverse.T
            label = own.owners[i]
            mean = own.weights[own.owners == label] @ z[own.owners == label]
            errors.append(mix[label] * own.weights[i] * (z[i] - mean))
        expected += np.outer(*errors)
    np.testing.assert_allclose(a.cross(b, *mixes), expected, atol=1e-9)
    np.testing.assert_allclose(b.cross(a, *mixes[::-1]), expected.T, atol=1e-9)


def test_files_keep_strata_and_checks_say_why_they_were_not_made(tmp_path):
    p, labels, strata = drawn(0, 1.0)
    quantifier = kdey.PACC().fit_posteriors(p, labels, strata=strata)
    kdey.save(quantifier, tmp_path / "model.kdey")
    frame = table(1, 1.0)
    found, expected = (groups(q, frame) for q in (kdey.load(tmp_path / "model.kdey"), quantifier))
    np.testing.assert_array_equal(found.low, expected.low)
    assert "classes may look different in each stratum" in found.statuses[0]


def test_fits_on_features_keep_strata():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    X = rng.normal(size=(90, 2)) + y[:, None]
    shops = np.arange(90) % 3
    for quantifier in (kdey.PACC(cv=3), kdey.DMx(), kdey.PACC(cv=0.5, random_state=0)):
        training = quantifier.fit(X, y, strata=shops).model_.training
        rows = slice(None) if training.instances is None else training.instances
        names = [str(shop) for shop in shops[rows]]
        np.testing.assert_array_equal(training.strata, text_hashes(names).view(np.int64))


def test_what_has_no_templates_refuses_strata():
    p, labels, strata = drawn(0, 0.0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="keeps no training posteriors"):
        kdey.CC().fit(rng.normal(size=(240, 2)), labels, strata=strata)
    with pytest.raises(ValueError, match="one value per instance"):
        kdey.PACC().fit_posteriors(p, labels, strata=strata[1:])
