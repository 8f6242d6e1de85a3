"""Labels of a sample that was drawn in strata, in clusters, from a finite population."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kdey
from kdey import Options
from kdey.bags import Array, Bags, sampled_bags
from kdey.labelled import LabelledSample, labelled_sample
from kdey.labelled.shares import combine, labels_alone
from tests.intervals.test_survey import CLUSTERS, ROWS, STRATA, VALUES, WEIGHTS, posteriors

#: Rows of the example of docs/mathematics.md that have labels.
KNOWN = np.array([0, 2, 3, 4, 5, 7, 8, 9])


def sample(
    positions: Array,
    labels: Array,
    size: int,
    *,
    weights: Array | None = None,
    clusters: Array | None = None,
    **options: Any,
) -> LabelledSample:
    drawn = sampled_bags(Bags.whole(size, weights), clusters, Options(**options))
    pair = (positions, labels)
    return labelled_sample(pair, np.arange(2), size, weights=weights, drawn=drawn)


def two_phase_variance(known: Array, *, stratified: bool, clustered: bool) -> float:
    """Return the variance of the labels' weighted mean by loops: rows without a label add zero."""
    total = sum(ROWS[j][2] for j in known)
    mean = sum(ROWS[j][2] * ROWS[j][3] for j in known) / total
    sums: dict[Any, dict[Any, float]] = {}
    for j, (stratum, cluster, w, z) in enumerate(ROWS):
        inside = sums.setdefault(stratum if stratified else 0, {})
        unit = cluster if clustered else j
        inside[unit] = inside.get(unit, 0.0) + (w * (z - mean) / total if j in known else 0.0)
    variance = 0.0
    for inside in sums.values():
        n = len(inside)
        middle = sum(inside.values()) / n if n > 1 else 0.0
        squares = sum((u - middle) ** 2 for u in inside.values())
        variance += (n / (n - 1) if n > 1 else 1.0) * squares
    return variance


@pytest.mark.parametrize("clustered", [True, False])
def test_labels_have_the_two_phase_variance_of_strata_by_hand(clustered: bool) -> None:
    clusters = CLUSTERS if clustered else None
    made = {
        given: sample(
            KNOWN,
            VALUES[KNOWN].astype(int),
            len(ROWS),
            weights=WEIGHTS,
            clusters=clusters if given else None,
            variance_strata=STRATA if given else None,
        )
        for given in (True, False)
    }
    y = made[True].one_hot
    errors = {given: labels_alone(y, s, 0.025, True).errors[1, 1] for given, s in made.items()}
    by_hand = two_phase_variance(KNOWN, stratified=True, clustered=clustered)
    if clustered:  # not below that of the rows, which few clusters can be by chance
        by_hand = max(by_hand, two_phase_variance(KNOWN, stratified=True, clustered=False))
    w = WEIGHTS[KNOWN] / WEIGHTS[KNOWN].sum()
    singly = (w**2 * (VALUES[KNOWN] - w @ VALUES[KNOWN]) ** 2).sum()
    assert_allclose(errors[True] / errors[False], by_hand / singly)
    assert made[True].freedom == (6 - 3 if clustered else 11 - 3)


def test_strata_say_nothing_of_which_rows_of_the_bag_have_labels() -> None:
    rng = np.random.default_rng(0)
    strata = np.repeat(np.arange(10), 60)
    labels = (rng.random(600) < np.linspace(0.05, 0.95, 10)[strata]).astype(int)
    found = {}
    for n in (60, 600):
        known = rng.permutation(600)[:n]
        for given in (strata, None):
            one = sample(known, labels[known], 600, variance_strata=given)
            for population in (True, False):
                made = labels_alone(one.one_hot, one, 0.025, population)
                found[n, given is None, population] = made.errors[1, 1]
    between = np.var(np.linspace(0.05, 0.95, 10)) / 0.25
    # A tenth of the rows: only the tenth of the variance that is the bag's own is less.
    assert found[60, False, True] / found[60, True, True] == pytest.approx(
        1 - between / 10, abs=0.02
    )
    assert found[600, False, True] / found[600, True, True] == pytest.approx(1 - between, abs=0.05)
    assert found[60, False, False] == found[60, True, False]


def test_labels_of_a_finite_population_have_the_variance_of_a_draw_without_replacement() -> None:
    y = np.repeat([0, 1], [60, 40])
    known = np.arange(0, 100, 4)
    rng = np.random.default_rng(1)
    q = kdey.EMQ().fit_posteriors(posteriors(np.arange(400) % 2, rng), np.arange(400) % 2)
    p = posteriors(y, rng)

    def error(**options: Any) -> float:
        asked = Options(check_fit=False, **options)
        made = q.estimate_posteriors(p, labelled=(known, y[known]), options=asked)
        return float(made.alternatives["labels"].covariance[1, 1])

    for size in (125, 400):
        assert_allclose(error(fpc=size) / error(), 1 - 25 / size)
    assert_allclose(error(fpc=0.8), error(fpc=125))
    with pytest.raises(ValueError, match="the population has 90 rows, but bag 0 has 100"):
        error(fpc=90)


@pytest.mark.parametrize("method", [kdey.EMQ(), kdey.PACC(), kdey.KDEyL2(bandwidth=0.2)])
def test_the_bag_itself_is_the_limit_of_a_finite_population(method: Any) -> None:
    rng = np.random.default_rng(2)
    q = method.fit_posteriors(posteriors(np.arange(300) % 2, rng), np.arange(300) % 2)
    y = (rng.random(300) < 0.3).astype(int)
    p, clusters = posteriors(y, rng), np.arange(300) // 5

    def ask(**options: Any) -> Any:
        options = {"n_replicates": 40, "check_fit": False, **options}
        pair, given = (np.arange(0, 300, 5), y[::5]), Options(**options)
        return q.estimate_posteriors(p, labelled=pair, clusters=clusters, options=given)

    bag, census, half = ask(target="bag"), ask(fpc=1.0), ask(fpc=0.5)
    population, sliver = ask(), ask(fpc=1e-9)
    for way, whole in bag.alternatives.items():
        for name in ("estimate", "low", "high", "covariance"):
            limits = [getattr(whole, name), getattr(population.alternatives[way], name)]
            assert_allclose(getattr(census.alternatives[way], name), limits[0], atol=1e-12)
            assert_allclose(getattr(sliver.alternatives[way], name), limits[1], atol=1e-5)
        widths = [
            made.alternatives[way].high[1] - made.alternatives[way].low[1]
            for made in (census, half, population)
        ]
        assert widths == sorted(widths)
        assert widths[0] < 0.97 * widths[2]
        assert half.alternatives[way].region.contains(half.alternatives[way].estimate)


def test_of_the_bag_clusters_matter_as_far_as_they_were_labelled_as_a_whole() -> None:
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(40), 20)
    labels = (rng.random(800) < rng.beta(1, 1, 40)[clusters]).astype(int)
    alike, whole = rng.permutation(800)[:200], np.flatnonzero(clusters % 4 == 0)

    def errors(known: Array, population: bool, given: Array | None) -> float:
        one = sample(known, labels[known], 800, clusters=given)
        return float(labels_alone(one.one_hot, one, 0.025, population).errors[1, 1])

    for population in (True, False):
        effects = [
            errors(k, population, clusters) / errors(k, population, None) for k in (alike, whole)
        ]
        assert effects[1] > 4
        assert effects[0] > 1.5 if population else effects[0] < 1.3


def test_under_label_shift_labels_share_clusters_with_the_other_rows() -> None:
    clusters = np.repeat(np.arange(20), 10)
    spread = sample(np.arange(0, 200, 3), np.zeros(67, dtype=int), 200, clusters=clusters)
    apart = sample(np.arange(50), np.zeros(50, dtype=int), 200, clusters=clusters)
    assert spread.shared_clusters > 0.9
    assert apart.shared_clusters == 0.0
    rng = np.random.default_rng(4)
    q = kdey.PACC().fit_posteriors(posteriors(np.arange(400) % 2, rng), np.arange(400) % 2)
    y = (rng.random(200) < rng.beta(0.5, 0.5, 20)[clusters]).astype(int)
    p = posteriors(y, rng)
    known = np.arange(0, 200, 3)
    base = q.estimate_posteriors(
        np.delete(p, known, axis=0), clusters=np.delete(clusters, known), check_fit=False
    )
    together = sample(known, y[known], 200, clusters=clusters)
    as_if_apart = replace(together)
    vars(as_if_apart)["shared_clusters"] = 0.0
    shared, separate = (combine(one, base)[1][1, 1] for one in (together, as_if_apart))
    # Shares of 20 clusters have a standard deviation of about .35: no use of rows makes it less.
    assert separate < 0.8 * shared
    assert 0.7 < shared / (y.reshape(20, 10).mean(axis=1).var(ddof=1) / 20) < 1.5


def test_groups_of_a_table_have_strata_and_populations_with_labels() -> None:
    rng = np.random.default_rng(5)
    q = kdey.EMQ().fit_posteriors(posteriors(np.arange(400) % 2, rng), np.arange(400) % 2)
    strata = np.tile(np.repeat(np.arange(6), 20), 2)
    y = (rng.random(240) < np.linspace(0.05, 0.9, 6)[strata]).astype(int)
    p = posteriors(y, rng)
    frame = pd.DataFrame(p, columns=["0", "1"]).assign(
        shop=np.repeat(["a", "b"], 120),
        stratum=strata,
        size=np.where(strata == 0, 25.0, 80.0),
        label=np.where(np.arange(240) % 3 == 0, y.astype(object), None),
    )
    options = Options(variance_strata="stratum", fpc="size", check_fit=False)
    scores = ["0", "1"]
    shuffled = frame.sample(frac=1.0, random_state=0)
    table = kdey.predict_groups(
        q, shuffled, "shop", scores=scores, labelled="label", options=options
    )
    for number, (_, part) in enumerate(frame.groupby("shop")):
        rows = np.flatnonzero(part["label"].notna())
        one = q.estimate_posteriors(
            part[scores].to_numpy(),
            labelled=(rows, part["label"].to_numpy()[rows].astype(int)),
            options=Options(
                variance_strata=part["stratum"], fpc=part["size"].to_numpy(), check_fit=False
            ),
        )
        for way, made in one.alternatives.items():
            shares = table.labelled
            assert shares is not None
            assert_allclose(shares[f"{way.replace('-', '_')}_low"][number], made.low, atol=1e-9)
            assert_allclose(shares[f"{way.replace('-', '_')}_high"][number], made.high, atol=1e-9)
        plain = q.estimate_posteriors(
            part[scores].to_numpy(),
            labelled=(rows, part["label"].to_numpy()[rows].astype(int)),
            check_fit=False,
        )
        assert (one.high - one.low < plain.high - plain.low).all()


def test_clusters_of_labels_lie_within_strata() -> None:
    rng = np.random.default_rng(6)
    q = kdey.PACC().fit_posteriors(posteriors(np.arange(100) % 2, rng), np.arange(100) % 2)
    p, y = posteriors(np.arange(80) % 2, rng), np.arange(80) % 2

    def ask(clusters: Array, known: Array) -> Any:
        options = Options(variance_strata=np.arange(80) // 40, check_fit=False)
        pair = (known, y[known])
        return q.estimate_posteriors(p, labelled=pair, clusters=clusters, options=options)

    with pytest.raises(ValueError, match="a cluster has rows in several strata"):
        ask(np.arange(80) % 7, np.arange(10))
    # One cluster with labels in each stratum: nothing shows how clusters differ.
    made = ask(np.arange(80) // 8, np.r_[0:6, 40:46]).alternatives["labels"]
    assert made.low[0] < 0.001
    assert made.high[0] > 0.999
