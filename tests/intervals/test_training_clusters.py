"""Training rows in clusters: folds, templates, replicates, checks, and what is stored."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.bags import cluster_factors, joined_clusters
from kdey.diagnostics.score_statistics import DEFAULT_KERNEL, NullBags, TrainingDensities
from kdey.intervals.analytic import moment_training_rows
from kdey.intervals.bootstrap import TrainingReplicates
from kdey.intervals.moments import features, freedom_of_sums, training_moments
from kdey.posteriors import TrainingPosteriors, training_clusters
from kdey.tables.templates import learn_columns
from kdey.tuning.trials import make_parts

from . import cases

SIZES = np.array([7, 1, 4, 9, 2, 12, 5, 8, 3, 6, 10, 5])
CLUSTERS = np.repeat(np.arange(12), SIZES)


def drawn(seed: int = 0, nested: bool = False, scale: float = 1.0):
    """Return posteriors, labels and clusters, whose effects move the posteriors."""
    rng = np.random.default_rng(seed)
    labels = CLUSTERS % 3 if nested else rng.integers(3, size=len(CLUSTERS))
    p = cases.dirichlet(labels, rng) * np.exp(scale * rng.normal(size=(12, 3)))[CLUSTERS]
    return p / p.sum(axis=1, keepdims=True), labels, CLUSTERS


def fitted(method, seed: int = 0, clusters="own", **kwargs):
    p, labels, ids = drawn(seed, **kwargs)
    return method.fit_posteriors(p, labels, clusters=ids if isinstance(clusters, str) else clusters)


def estimate(quantifier, **options):
    p, _ = cases.bag(200, (0.5, 0.3, 0.2), np.random.default_rng(9))
    return quantifier.estimate_posteriors(p, check_fit=False, **options)


def widths(result):
    return result.high - result.low


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("method", [kdey.PACC(), kdey.EMQ(calibration="bcts")])
def test_template_covariance_is_that_of_cluster_sums(method, nested):
    result = estimate(fitted(method, nested=nested))
    uncertainty = result.uncertainty
    moments, mix = uncertainty.moments, uncertainty.mix
    rows = moments.training
    z = features(rows.rows, moments.prevalence) @ moments.inverse.T
    raised = np.sqrt(1.0 + (5.0 / moments.worth) ** 2)
    expected = np.zeros((3, 3))
    factors = cluster_factors(rows.cluster_shares)
    phi = features(rows.rows, moments.prevalence)
    for cluster in range(12):
        total = np.zeros(3)
        for label in range(3):
            mean = rows.weights[rows.owners == label] @ phi[rows.owners == label]
            for i in np.flatnonzero((rows.clusters == cluster) & (rows.owners == label)):
                error = rows.weights[i] * (phi[i] - mean) * np.sqrt(factors[label]) * raised
                total += mix[label] * (error - error.mean())
        expected += np.outer(moments.inverse @ total, moments.inverse @ total)
    pseudo = replace(moments, training=replace(rows, clusters=None))
    object.__setattr__(pseudo, "template_covariances", moments.template_covariances)
    expected += pseudo.covariance(np.zeros(3), mix)
    np.testing.assert_allclose(uncertainty.template_covariance(), expected, atol=1e-12)
    assert len(z) == len(CLUSTERS)


def test_factors_make_variances_of_alike_rows_unbiased():
    rng = np.random.default_rng(0)
    shares = SIZES / SIZES.sum()
    effects = rng.normal(size=(40_000, 12))
    deviations = (effects - (effects @ shares)[:, None]) * shares
    true = (shares**2).sum()
    found = (deviations**2).sum(axis=1).mean() * cluster_factors(shares[:, None])[0]
    assert found == pytest.approx(true, rel=0.01)
    equal = np.full((8, 1), 1 / 8)
    np.testing.assert_allclose(cluster_factors(equal), 8 / 7)
    np.testing.assert_allclose(cluster_factors(np.ones((1, 2))), 1.0)


def test_degrees_of_freedom():
    p, _, _ = drawn()
    ids = np.arange(60) // 5
    mixed, nested = np.arange(60) % 3, ids % 3
    for labels, expected in ((mixed, 12 - 1), (nested, 12 - 3)):
        model = kdey.PACC().fit_posteriors(p[:60], labels, clusters=ids).model_
        found = moment_training_rows(model).cluster_freedom
        assert found[-1] == pytest.approx(expected, abs=0.7)
    # The variance of a class in two clusters has one degree of freedom; its other rows help little.
    lonely = np.where(ids < 2, 0, 1 + np.arange(60) % 2)
    quantifier = kdey.PACC().fit_posteriors(p[:60], lonely, clusters=ids)
    moments = estimate(quantifier).uncertainty.moments
    mixes = np.array([[0.9, 0.05, 0.05], [0.1, 0.45, 0.45]])
    many, few = (
        freedom_of_sums(moments.cluster_spread, mix, moments.cluster_freedom).mean()
        for mix in mixes[::-1]
    )
    assert 1.0 <= few < 2.0 < many < 9.0


@pytest.mark.parametrize("method", [kdey.PACC(), kdey.DM(n_bins=4)])
def test_repeated_rows_say_no_more_than_the_rows(method):
    p, labels, _ = drawn(scale=0.0)
    once = widths(estimate(method.fit_posteriors(p, labels)))
    times = np.repeat(np.arange(len(p)), 16)
    naive = widths(estimate(method.fit_posteriors(p[times], labels[times])))
    known = widths(estimate(method.fit_posteriors(p[times], labels[times], clusters=times)))
    assert (naive < 0.85 * once).any()
    np.testing.assert_allclose(known, once, rtol=0.2)


def test_nothing_depends_on_names_or_order():
    p, labels, ids = drawn()
    method, order = kdey.PACC(), np.random.default_rng(1).permutation(len(p))
    expected = estimate(method.fit_posteriors(p, labels, clusters=ids))
    names = np.array([f"patient {11 - i}" for i in ids])[order]
    again = estimate(method.fit_posteriors(p[order], labels[order], clusters=names))
    np.testing.assert_allclose(again.low, expected.low, atol=1e-6)
    np.testing.assert_allclose(again.high, expected.high, atol=1e-6)


def test_one_cluster_for_every_row_is_none():
    p, labels, _ = drawn()
    plain = estimate(kdey.PACC().fit_posteriors(p, labels))
    single = estimate(kdey.PACC().fit_posteriors(p, labels, clusters=np.arange(len(p))[::-1]))
    np.testing.assert_array_equal(single.low, plain.low)
    np.testing.assert_array_equal(single.high, plain.high)


def test_many_clusters_are_joined():
    codes = joined_clusters(np.repeat(np.arange(1000), 2))
    assert len(np.unique(codes)) == 200
    np.testing.assert_array_equal(codes[::2], codes[1::2])
    p, labels, _ = drawn()
    times = np.repeat(np.arange(len(p)), 8)
    many = 4 * times + np.arange(len(times)) % 4
    few = widths(estimate(kdey.PACC().fit_posteriors(p[times], labels[times], clusters=many)))
    none = widths(estimate(kdey.PACC().fit_posteriors(p[times], labels[times], clusters=None)))
    assert (few > none).all()


def test_bias_and_cross_covariance_agree_with_the_plain_ones_where_rows_are_clusters():
    # Two rows that are the same, in one cluster: the sums of clusters are those of rows.
    p, labels, _ = drawn()
    pairs = np.repeat(np.arange(len(p)), 2)
    model = kdey.EMQ(calibration="bcts").fit_posteriors(p[pairs], labels[pairs], clusters=pairs)
    rows = moment_training_rows(model.model_)
    mixes = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    a, b = (training_moments(rows, mix) for mix in mixes)
    plain_a, plain_b = (training_moments(replace(rows, clusters=None), mix) for mix in mixes)
    np.testing.assert_allclose(
        a.cross(b, *mixes), 2 * plain_a.cross(plain_b, *mixes), rtol=0.15, atol=2e-4
    )
    assert np.abs(a.inversion_bias(mixes[0])).max() < 0.1


@pytest.mark.parametrize("nested", [False, True])
def test_replicates_draw_clusters_whole(nested):
    p, labels, ids = drawn(nested=nested)
    weights = 1.0 + (np.arange(len(p)) % 4)
    training = TrainingPosteriors(p, labels, weights, clusters=ids)
    replicates = TrainingReplicates(training, 0)
    absent = 0
    for number in range(20):
        times = replicates(number) / weights
        for cluster in range(12):
            for label in range(3):
                members = (ids == cluster) & (labels == label)
                assert np.ptp(times[members]) < 1e-12 if members.any() else True
        np.testing.assert_allclose(
            np.bincount(labels, replicates(number)), np.bincount(labels, weights)
        )
        absent += (times == 0).sum()
    assert absent > 0


@pytest.mark.parametrize("method", [kdey.DM(n_bins=4), kdey.PACC()])
def test_bootstraps_are_as_wide_as_the_sums_say(method):
    resampled = kdey.Options(method="bootstrap", n_replicates=100)

    def total(quantifier, **options):
        return sum(
            widths(estimate(fitted(quantifier, seed, scale=0.7, **options), options=how)).sum()
            for seed in range(5)
        )

    how = None
    analytic = total(kdey.PACC())
    how = resampled
    assert 0.6 < total(method) / analytic < 1.2
    assert total(method) > 1.08 * total(method, clusters=None)


def test_a_class_in_one_cluster_has_an_interval_from_zero_to_one():
    p, labels, ids = drawn()
    labels = np.where(ids == 3, 2, labels % 2)
    quantifier = kdey.PACC().fit_posteriors(p, labels, clusters=ids)
    with pytest.warns(UserWarning, match="single training instance or cluster"):
        result = estimate(quantifier)
    assert (result.low[2], result.high[2]) == (0.0, 1.0)
    assert "few labels" in result.status
    assert any("fewer than 10 clusters with labels" in note for note in result.notes)


X, Y = load_iris(return_X_y=True)
IDS = np.arange(150) // 5
EVERY = [
    kdey.KDEyML(bandwidth=0.1),
    kdey.KDEyML(random_state=0),
    kdey.ACC(LogisticRegression(max_iter=50), cv=0.4, random_state=0),
    kdey.CC(),
    kdey.DMx(),
    kdey.Median(kdey.PACC(), {"cv": [3, 4]}),
    kdey.OneVsAll(kdey.HDy()),
    kdey.Ensemble(kdey.PACC(cv=3), n_members=3, random_state=0),
    kdey.TrainingPrevalence(),
    kdey.GridSearchQ(kdey.KDEyML(), {"bandwidth": [0.1, 0.2]}, random_state=0),
]


@pytest.mark.parametrize("quantifier", EVERY, ids=lambda q: type(q).__name__)
def test_every_quantifier_takes_clusters(quantifier, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantifier.fit(X, Y, clusters=IDS)
        answer = quantifier.predict(X[::3])
        quantifier = getattr(quantifier, "best_estimator_", quantifier)
        kdey.save(quantifier, tmp_path / "model.kdey")
        again = kdey.load(tmp_path / "model.kdey")
        expected, found = (q.estimate(X[::3], check_fit=False) for q in (quantifier, again))
    assert answer.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(found.low, expected.low)
    training = quantifier.model_.training
    if training is not None:
        np.testing.assert_array_equal(again.model_.training.clusters, training.clusters)
        rows = slice(None) if training.instances is None else training.instances
        np.testing.assert_array_equal(training.clusters, IDS[rows])
        if training.folds is not None:
            for cluster in np.unique(training.clusters):
                assert len(set(training.folds[training.clusters == cluster])) == 1


def test_the_default_pool_leaves_clusters_whole():
    q = kdey.Quantifier("logistic regression", effort="low", random_state=0)
    q.fit(X, Y, clusters=IDS)
    training = q.model_.training
    for cluster in range(30):
        assert len(set(training.folds[training.clusters == cluster])) == 1
    plain = kdey.Quantifier("logistic regression", effort="low", random_state=0).fit(X, Y)
    assert q.model_.digest != plain.model_.digest


def test_tuning_parts_leave_clusters_whole():
    p, labels, ids = drawn()
    tagged = np.column_stack([p, ids])  # a column that shows where a row comes from
    parts = make_parts(TrainingPosteriors(tagged, labels, clusters=ids), np.random.default_rng(0))
    for cluster in range(12):
        assert len(set(parts.folds[parts.posteriors[:, 3] == cluster])) == 1
    assert len(set(parts.folds)) == 5


def test_held_out_densities_leave_out_the_own_cluster():
    p, labels, ids = drawn()
    training = TrainingPosteriors(p, labels, clusters=ids)
    found = TrainingDensities.fit(training, 3, DEFAULT_KERNEL)
    points, owners, clusters = found.references.points, found.labels, found.clusters
    held = found.held_out.rows * np.exp(found.held_out.scales)[:, None]
    distances = ((points[:, None, :] - points) ** 2).sum(axis=2)
    kernels = np.exp(-distances / (2 * found.references.bandwidth**2))
    kernels[clusters[:, None] == clusters] = 0.0
    for label in range(3):
        others = (clusters[:, None] != clusters) & (owners == label)
        expected = (kernels * (owners == label)).sum(axis=1) / others.sum(axis=1)
        np.testing.assert_allclose(held[:, label], expected, rtol=1e-4, atol=1e-6)


def test_null_bags_come_from_whole_clusters():
    p, labels, ids = drawn()
    found = TrainingDensities.fit(TrainingPosteriors(p, labels, clusters=ids), 3, DEFAULT_KERNEL)
    samples = NullBags(found, 0, 10)._resample_clusters(range(30))
    assert samples.shape == (30, len(p))
    np.testing.assert_array_equal(found.labels[samples], np.tile(found.labels, (30, 1)))
    drawn_clusters = [len(np.unique(found.clusters[sample])) for sample in samples]
    assert max(drawn_clusters) <= 11
    assert np.mean(drawn_clusters) < 9.5  # of 11 draws with replacement


def test_counts_of_columns_are_those_of_independent_rows():
    rng = np.random.default_rng(0)
    values, labels = rng.normal(size=(300, 2)), np.arange(300) % 3
    times = np.repeat(np.arange(300), 8)
    data = np.column_stack([values[times], rng.normal(size=(2400, 1))])
    counts = learn_columns(data, labels[times], 3, clusters=times).counts.sum(axis=2)
    assert (counts[:2] < 115).all()  # of 100 rows, and 800 repeats
    assert (counts[:2] > 70).all()
    assert (counts[2] > 500).all()  # that column is not repeated
    plain = learn_columns(data, labels[times], 3).counts.sum(axis=2)
    np.testing.assert_allclose(plain, 800)


@pytest.mark.parametrize(
    ("clusters", "says"),
    [
        (np.zeros(82), "all training rows are in one cluster"),
        (np.arange(81), "one id per instance"),
        (np.where(np.arange(82) == 3, np.nan, 1.0), "NaN"),
        (np.zeros((82, 1)), "one id per instance"),
    ],
)
def test_bad_clusters_are_refused(clusters, says):
    with pytest.raises(ValueError, match=says):
        training_clusters(clusters, 82)


def test_repeated_ids_are_hinted_at():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(patient=IDS)
    with pytest.warns(UserWarning, match="rows of one 'patient' \\(30 of them in 150 rows\\)"):
        kdey.PACC().fit(frame, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kdey.PACC(LogisticRegression(max_iter=2000)).fit(frame, Y, clusters=IDS)
        plain = frame.drop(columns="patient").assign(room=IDS, unit_id=np.arange(150))
        kdey.PACC(LogisticRegression(max_iter=5000)).fit(plain, Y)
