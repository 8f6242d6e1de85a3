"""``aggregator()``: the numbers and refusals of ``aggregate``, for one bag after the other."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from kdey import ACC, CC, EMQ, PACC, PCC, Friedman, KDEyCS, KDEyML, OneVsAll, Quantifier, native
from kdey.model import HOST
from kdey.simplex import SUM_TOLERANCE, on_simplex

LABELS = np.repeat(np.arange(3), 60)
METHODS = {
    "CC": CC(),
    "PCC": PCC(),
    "ACC": ACC(),
    "PACC": PACC(),
    "EMQ": EMQ(),
    "KDEyML": KDEyML(bandwidth=0.1),
    "automatic KDEyML": KDEyML(random_state=0),
    "KDEyCS": KDEyCS(bandwidth=0.1),
    "OneVsAll": OneVsAll(PACC()),
    "Quantifier": Quantifier(random_state=0),
}


def draw(seed, counts):
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.dirichlet(0.5 + 2.0 * np.eye(3)[i], n) for i, n in enumerate(counts) if n]
    )


TRAINING = draw(0, (60, 60, 60))


@pytest.fixture(scope="module", params=METHODS)
def fitted(request):
    return METHODS[request.param].fit_posteriors(TRAINING, LABELS)


@pytest.fixture(scope="module")
def pacc():
    return PACC().fit_posteriors(TRAINING, LABELS)


@pytest.mark.smoke
def test_answers_are_the_same_bits(fitted):
    aggregator = fitted.aggregator()
    for bag in (draw(1, (7, 2, 1)), draw(2, (7, 2, 1)), draw(3, (1, 0, 0)), draw(4, (0, 90, 40))):
        for given in (bag, bag.astype(np.float32), np.asfortranarray(bag), bag.tolist()):
            expected = fitted.solve_posteriors(given)
            np.testing.assert_array_equal(aggregator(given), expected.prevalence[0])
            np.testing.assert_array_equal(aggregator.solve(given).gap, expected.gap)


@pytest.mark.skipif(not native.available(), reason="the single call is native")
@pytest.mark.parametrize("k", [2, 9, 28])
@pytest.mark.parametrize("method", [CC, PCC, ACC, PACC])
def test_one_native_call_gives_the_same_bits(method, k):
    rng = np.random.default_rng(k)
    posteriors = rng.dirichlet(np.full(k, 0.3), 20 * k)
    posteriors[::7] = 1 / k  # ties, which the first class wins
    fitted = method().fit_posteriors(posteriors, rng.permutation(np.arange(20 * k) % k))
    one_bag = fitted.model_.one_bag(HOST)
    for size in (1, 10, 20 * k):
        for dtype in (np.float32, np.float64):
            bag = posteriors[:size].astype(dtype)
            expected = fitted.solve_posteriors(bag)
            assert expected.converged.all()
            np.testing.assert_array_equal(one_bag(bag), expected.prevalence[0])


@pytest.mark.skipif(not native.available(), reason="the single call is native")
def test_one_native_call_leaves_doubtful_bags_to_the_careful_way(pacc):
    one_bag, bag = pacc.model_.one_bag(HOST), draw(1, (7, 2, 1))
    assert one_bag(bag) is not None
    for doubtful in (*BAD.values(), bag[:, ::-1], bag + 0.9995e-3 / 3, bag.tolist()):
        assert one_bag(doubtful) is None
    out, templates = np.empty(3), np.ascontiguousarray(pacc.row_map_.templates)
    bags = native.address(bag), 1, 10, 3, 0
    square = native.address(templates), native.address(templates)
    call = native.function("kdey_match_one_bag")
    # No gap is below a negative limit: a solution without certificate is no answer.
    assert call(*bags, *square, 3, 1e-3, -1.0, native.address(out)) == 1
    assert call(*bags, *square, 0, 1e-3, 1e-10, native.address(out)) == -2


def test_templates_of_other_rows_have_no_single_call():
    friedman = Friedman().fit_posteriors(TRAINING, LABELS)
    assert friedman.model_.one_bag(HOST) is None
    bag = draw(1, (7, 2, 1))
    np.testing.assert_array_equal(friedman.aggregator()(bag), friedman.aggregate(bag))


def test_frames_are_matched_by_name(pacc):
    frame = pd.DataFrame(draw(1, (7, 2, 1)), columns=["p_0", "p_1", "p_2"])
    answer = pacc.aggregator()(frame[["p_2", "p_0", "p_1"]])
    np.testing.assert_array_equal(answer, pacc.aggregate(frame))


NAN = np.where(np.eye(3) > 0, np.nan, 0.5)
BAD = {
    "nan": NAN,
    "infinite": np.array([[np.inf, -np.inf, 1.0]]),
    "off the simplex": np.full((2, 3), 0.4),
    "just off": np.array([[0.5, 0.5, 1.1 * SUM_TOLERANCE]]),
    "negative": np.array([[1.1, -0.1, 0.0]]),
    "empty": np.empty((0, 3)),
    "columns": np.full((2, 2), 0.5),
    "no columns": np.empty((2, 0)),
    "vector": np.full(3, 1 / 3),
    "three axes": np.full((1, 1, 3), 1 / 3),
    "masked": np.ma.masked_array(np.full((1, 3), 1 / 3), [[True, False, False]]),
    "text": np.array([["0.5", "0.5", "0"]]),
    "complex": np.full((1, 3), 1 / 3 + 0j),
    "nothing": None,
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_posteriors_are_refused_in_the_same_words(pacc, kind, dtype):
    given = BAD[kind]
    if isinstance(given, np.ndarray) and given.dtype.kind == "f":
        given = given.astype(dtype)
    with pytest.raises((ValueError, TypeError)) as expected:
        pacc.aggregate(given)
    with pytest.raises(expected.type) as refused:
        pacc.aggregator()(given)
    assert str(refused.value) == str(expected.value)


def test_rounding_noise_below_zero_is_cleaned(pacc):
    noisy = np.array([[1.0 + 1e-9, -1e-9, 0.0], [0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(pacc.aggregator()(noisy), pacc.aggregate(noisy))


def test_before_fit_is_an_error():
    with pytest.raises(NotFittedError):
        PACC().aggregator()


def test_keeps_answering_for_its_fit():
    quantifier, bag = PACC().fit_posteriors(TRAINING, LABELS), draw(1, (7, 2, 1))
    aggregator, before = quantifier.aggregator(), quantifier.aggregate(bag)
    quantifier.fit_posteriors(TRAINING[::-1], LABELS)
    assert not np.array_equal(quantifier.aggregate(bag), before)
    np.testing.assert_array_equal(aggregator(bag), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(aggregator))(bag), before)
    assert aggregator.classes.tolist() == [0, 1, 2]


def test_references_are_packed_before_the_first_answer():
    quantifier = KDEyML(random_state=0).fit_posteriors(TRAINING, LABELS)
    for part in quantifier.row_map_.members:
        vars(part.references).pop("_derived", None)
    quantifier.aggregator()
    assert all("packed" in part.references._derived for part in quantifier.row_map_.members)


def test_threads_get_their_own_bags(pacc):
    aggregator = pacc.aggregator()
    bags = [draw(seed, (1 + seed % 5, 3, 1)) for seed in range(60)]
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(aggregator, bags))
    for bag, answer in zip(bags, answers, strict=True):
        np.testing.assert_array_equal(answer, pacc.aggregate(bag))


def test_scores_of_several_models():
    other = draw(9, (60, 60, 60))
    quantifier = Quantifier(random_state=0).fit_posteriors({"a": TRAINING, "b": other}, LABELS)
    bag = {"a": draw(1, (5, 3, 2)), "b": draw(2, (5, 3, 2))}
    np.testing.assert_array_equal(quantifier.aggregator()(bag), quantifier.aggregate(bag))
    with pytest.raises(ValueError, match="posteriors must map"):
        quantifier.aggregator()(bag["a"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_native_look_never_accepts_what_numpy_refuses(dtype):
    if not native.available():
        pytest.skip("the native core is not built")
    assert on_simplex(TRAINING.astype(dtype))
    for name in ("nan", "infinite", "off the simplex", "just off", "negative", "empty"):
        assert not on_simplex(BAD[name].astype(dtype))
    assert not on_simplex(np.asfortranarray(TRAINING.astype(dtype)))
    for at in range(6):  # wherever it stands
        rows = np.full((2, 3), 1 / 3, dtype=dtype)
        rows.flat[at] = np.nan
        assert not on_simplex(rows)
