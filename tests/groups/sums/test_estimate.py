"""Estimates from sums against the same estimates in memory."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification

from kdey import EMQ, PACC, PCC, KDEyHD, KDEyML, OneVsAll
from kdey.groups.sums import LocalSource, estimate_sums, plan_of
from kdey.options import IntervalWarning, Options
from kdey.rows.interface import RowMap
from kdey.rows.references import BandwidthWarning
from tests.groups.sums.cases import Case, make_case, methods

CASES = {2: make_case(2), 4: make_case(4)}


def fitted(q, case: Case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthWarning)
        return q.fit_posteriors(case.training, case.labels)


def by_sums(q, source, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntervalWarning)
        return estimate_sums(q, source, Options(**options))


@pytest.mark.parametrize(("k", "name"), [(k, name) for k in CASES for name in methods(k)])
def test_sums_give_the_numbers_of_memory(k: int, name: str) -> None:
    case = CASES[k]
    q = fitted(methods(k)[name], case)
    expected = q.solve_posteriors(case.points, case.bags)
    made = by_sums(q, case.source())
    np.testing.assert_allclose(made.solution.prevalence, expected.prevalence, atol=1e-6)
    np.testing.assert_allclose(made.solution.objective, expected.objective, atol=2e-7)
    assert made.solution.converged.all() == expected.converged.all()
    np.testing.assert_array_equal(made.sizes, np.bincount(case.codes))
    if not q.interval_model().is_analytic:
        assert np.isnan(made.low).all()
        return
    limits = q.estimate_posteriors(case.points, case.bags)
    np.testing.assert_allclose(made.low, limits.low, atol=1e-6)
    np.testing.assert_allclose(made.high, limits.high, atol=1e-6)


@pytest.mark.parametrize("target", ["population", "bag"])
def test_both_targets_and_simultaneous_limits(target: str) -> None:
    case = CASES[4]
    q = fitted(KDEyML(bandwidth=0.1), case)
    given = {"target": target, "simultaneous": True, "confidence": 0.8}
    expected = q.estimate_posteriors(case.points, case.bags, **given)
    made = by_sums(q, case.source(), **given)
    np.testing.assert_allclose(made.low, expected.low, atol=1e-6)
    np.testing.assert_allclose(made.high, expected.high, atol=1e-6)


def test_classes_as_soft_parts_where_there_are_no_training_posteriors() -> None:
    X, y = make_classification(900, 8, n_informative=5, n_classes=3, random_state=0)
    q = EMQ().fit(X[:400], y[:400])
    points = q.classifier_.predict_proba(X[400:])
    codes = np.arange(500) % 3
    expected = q.estimate_posteriors(points, [np.flatnonzero(codes == g) for g in range(3)])
    parts = [(points[:200], codes[:200], None), (points[200:], codes[200:], None)]
    made = by_sums(q, LocalSource(lambda: parts))
    np.testing.assert_allclose(made.solution.prevalence, expected.estimate, atol=1e-6)
    np.testing.assert_allclose(made.low, expected.low, atol=1e-6)
    np.testing.assert_allclose(made.high, expected.high, atol=1e-6)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["PACC", "EMQ", "KDEy-ML", "KDEy-CS"])
@pytest.mark.parametrize("cuts", [1, 3, 40])
def test_any_cut_gives_the_same(name: str, cuts: int) -> None:
    case = CASES[4]
    q = fitted(methods(4)[name], case)
    one, other = by_sums(q, case.source(2)), by_sums(q, case.source(cuts))
    np.testing.assert_allclose(one.solution.prevalence, other.solution.prevalence, atol=1e-9)
    np.testing.assert_allclose(one.low, other.low, atol=1e-8)


def test_rows_made_again_in_every_pass_give_the_same_bits() -> None:
    case = CASES[4]
    q = fitted(KDEyML(bandwidth=0.1), case)
    kept, again = by_sums(q, case.source()), by_sums(q, case.source(keep=False))
    np.testing.assert_array_equal(kept.solution.prevalence, again.solution.prevalence)
    np.testing.assert_array_equal(kept.low, again.low)


def test_order_of_instances_does_not_matter() -> None:
    case = CASES[4]
    order = np.random.default_rng(3).permutation(len(case.codes))
    other = Case(case.training, case.labels, case.points[order], case.codes[order])
    q = fitted(KDEyML(bandwidth=0.1), case)
    one, two = by_sums(q, case.source()), by_sums(q, other.source())
    np.testing.assert_allclose(one.solution.prevalence, two.solution.prevalence, atol=1e-9)


def test_a_group_does_not_depend_on_the_others() -> None:
    case = CASES[4]
    q = fitted(KDEyML(bandwidth=0.1), case)
    fifth = case.codes == 5
    alone = by_sums(
        q, Case(case.training, case.labels, case.points[fifth], case.codes[fifth]).source()
    )
    assert alone.groups.tolist() == [5]
    together = by_sums(q, case.source())
    np.testing.assert_allclose(
        alone.solution.prevalence[0], together.solution.prevalence[5], atol=1e-9
    )


def test_decisions_are_counted() -> None:
    case = CASES[4]
    made = by_sums(fitted(PACC(), case), case.source())
    for g, bag in enumerate(case.bags):
        share = np.bincount(case.points[bag].argmax(axis=1), minlength=4) / len(bag)
        np.testing.assert_allclose(made.decisions[g], share)


def test_certificates_hold_at_the_answers() -> None:
    case = CASES[4]
    q = fitted(KDEyML(bandwidth=0.1), case)
    made = by_sums(q, case.source())
    problem = q.matching_.problem(q.row_map_, q.row_map_(case.points), _bags(case))
    np.testing.assert_allclose(problem.gap(made.solution.prevalence), made.solution.gap, atol=1e-7)
    assert made.solution.gap.max() <= 1e-8


def _bags(case: Case):
    from kdey.bags import Bags

    return Bags.from_indices(case.bags, len(case.codes))


def test_rows_without_any_density_are_left_out() -> None:
    """EMQ rows of zeros in the classes of positive prior say nothing, as in memory."""
    case = CASES[2]
    q = fitted(EMQ(), case)

    class Holes(RowMap):
        def __init__(self, inner):
            self.inner, self.templates = inner, inner.templates

        def __call__(self, points, n_threads=1):
            rows = self.inner(points, n_threads)
            rows.array[points[:, 0] > 0.9] = 0.0
            return rows

    q.row_map_ = Holes(q.row_map_)
    q.__dict__.pop("_interval_model", None)
    big = np.flatnonzero(np.bincount(case.codes) > 100)
    keep = np.isin(case.codes, big)
    part = Case(case.training, case.labels, case.points[keep], case.codes[keep])
    expected = q.solve_posteriors(part.points, [np.flatnonzero(part.codes == g) for g in big])
    made = by_sums(q, part.source())
    np.testing.assert_allclose(made.solution.prevalence, expected.prevalence, atol=1e-6)
    np.testing.assert_allclose(made.solution.objective, expected.objective, atol=1e-6)


def test_hostile_groups_end_certified() -> None:
    """Scores of exact zeros and ones: densities underflow, optima lie at the border."""
    rng = np.random.default_rng(0)
    k = 3
    labels = np.arange(300) % k
    training = np.eye(k)[np.where(rng.random(300) < 0.9, labels, rng.integers(0, k, 300))]
    points = np.eye(k)[rng.integers(0, k, 500)]
    points[:200] = np.eye(k)[0]
    codes = np.repeat([0, 1, 2], [200, 1, 299])
    for q in (KDEyML(bandwidth=0.01), EMQ()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BandwidthWarning)
            q.fit_posteriors(training, labels)
        made = by_sums(q, LocalSource(lambda: [(points, codes, None)]))
        expected = q.solve_posteriors(points, [np.flatnonzero(codes == g) for g in range(3)])
        assert made.solution.converged.all()
        np.testing.assert_allclose(made.solution.prevalence, expected.prevalence, atol=1e-5)


def test_plans_travel_without_the_training_data() -> None:
    case = CASES[4]
    q = fitted(EMQ(), case)
    assert len(pickle.dumps(plan_of(q))) < 4_000
    q = fitted(KDEyML(bandwidth=0.1), case)
    assert len(pickle.dumps(plan_of(q))) < 3 * case.training.nbytes


def test_refusals_say_what_to_do() -> None:
    case = CASES[4]
    with pytest.raises(ValueError, match="does not estimate from sums"):
        plan_of(OneVsAll(PCC()))
    q = fitted(PCC(), case)
    with pytest.raises(ValueError, match="key="):
        by_sums(q, case.source(), method="bootstrap")
    with pytest.raises(ValueError, match="is for ACC, PACC"):
        by_sums(q, case.source(), method="analytic")
    with pytest.raises(ValueError, match="only analytic limits"):
        by_sums(q, case.source(), target="bag")
    with pytest.warns(IntervalWarning, match="rows have no key"):
        estimate_sums(q, case.source(), Options())
    wide = fitted(KDEyHD(bandwidth=0.1, n_points=5_000, random_state=0), case)
    with pytest.warns(IntervalWarning, match="too wide"):
        estimate_sums(wide, case.source(), Options(), keyed=True)
    empty = LocalSource(lambda: [(np.empty((0, 4)), np.empty(0, np.int32), None)])
    with pytest.raises(ValueError, match="no row"):
        by_sums(q, empty)


def test_too_few_rounds_are_told() -> None:
    case = CASES[4]
    q = fitted(EMQ(max_iter=1), case)
    made = by_sums(q, case.source())
    assert not made.solution.converged.all()
    assert np.isfinite(made.solution.prevalence).all()
