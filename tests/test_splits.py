"""What ``cv`` stands for: the splits themselves, and clear words for what is none."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.model_selection import (
    KFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from kdey.classifiers import make_splits

CODES = np.repeat([0, 1, 2], [10, 6, 4])
CLASSES = np.array(["a", "b", "c"])
X = np.zeros((20, 1))


def splits_of(cv, codes=CODES, **kwargs):
    return make_splits(cv, np.zeros((len(codes), 1)), codes, CLASSES, **kwargs)


def test_int_is_stratified_folds():
    expected = list(StratifiedKFold(3).split(X, CODES))
    for (train, test), (a, b) in zip(splits_of(np.int64(3)), expected, strict=True):
        np.testing.assert_array_equal(train, a)
        np.testing.assert_array_equal(test, b)


@pytest.mark.parametrize("cv", [KFold(4), RepeatedStratifiedKFold(n_splits=2, n_repeats=3)])
def test_splitters_are_asked(cv):
    assert len(splits_of(cv)) == cv.get_n_splits()


def test_boolean_masks_are_row_numbers():
    mask = np.arange(20) < 15
    ((train, test),) = splits_of([(mask, ~mask)])
    np.testing.assert_array_equal(train, np.arange(15))
    np.testing.assert_array_equal(test, np.arange(15, 20))


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(lambda c: sum(c) > 1),
    st.floats(0.01, 0.99),
    st.integers(0, 1000),
)
def test_held_out_part_has_its_share_of_every_class(counts, fraction, seed):
    codes = np.random.default_rng(seed).permutation(np.repeat([0, 1, 2], counts))
    ((train, test),) = splits_of(fraction, codes, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(len(codes)))
    held = np.bincount(codes[test], minlength=3)
    for count, size in zip(counts, held, strict=True):
        assert abs(size - fraction * count) <= 1.0
        assert (size >= 1) == (count >= 1)  # every class keeps a template
        assert size < count or count <= 1  # and, if it can, a place in training


def test_held_out_part_depends_on_the_seed_alone():
    first, again, other = (splits_of(0.5, random_state=s)[0][1] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "cv must be None, an int >= 2.*got 1"),
        (-3, "cv must be"),
        (True, "cv must be.*got True"),
        (0.0, "cv must be"),
        (1.5, "cv must be"),
        (float("nan"), "cv must be"),
        ("5", "cv must be.*got '5'"),
        (object(), "cv must be"),
        (11, "cv=11 folds, but the largest class has 10 instances"),
        ([], "cv holds no splits"),
        ([3], r"split 0 must be a \(train, test\) pair"),
        ([(range(5), range(5), range(5))], "split 0 must be a"),
        ([([0, 1], [])], "test part of split 0 must hold row numbers"),
        ([([0.5], [1])], "train part of split 0 must hold row numbers"),
        ([([0], [1]), ([0], [20])], "test part of split 1 has rows outside X, which has 20"),
        ([([0], [-1])], "test part of split 0 has rows outside"),
        ([([True, False], [1])], "train part of split 0 must hold row numbers"),
    ],
)
def test_what_is_no_cv_is_named(cv, message):
    with pytest.raises(ValueError, match=message):
        splits_of(cv)


CLUSTERS = np.array([0] * 4 + [1] * 3 + [2] * 3 + [3] * 2 + [4] * 2 + [5] * 2 + [2] * 4)


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("cv", [2, 3, 5, 0.3, 0.7, StratifiedGroupKFold(2)])
def test_clusters_are_left_whole(cv, seed):
    # The third class is in cluster 2 alone.
    several = CLUSTERS[CODES < 2]
    for train, test in splits_of(
        cv, CODES[CODES < 2], clusters=several, random_state=seed if seed is not None else 3
    ):
        assert not set(several[train]) & set(several[test])
        assert len(train) + len(test) == len(several)


def test_fewer_clusters_than_folds():
    codes, clusters = np.tile([0, 1], 12), np.repeat([0, 1, 2], 8)
    splits = splits_of(5, codes, clusters=clusters)
    assert len(splits) == 3
    assert sorted(clusters[test][0] for _, test in splits) == [0, 1, 2]


def test_a_class_in_one_cluster_is_in_every_training_part():
    for seed in range(5):
        splits = splits_of(4, clusters=CLUSTERS, random_state=seed)
        for train, test in splits:
            assert 2 in CODES[train]
            others = CODES < 2
            seen, held = (np.unique(CLUSTERS[part[others[part]]]) for part in (train, test))
            assert not set(seen) & set(held)


def test_splits_that_tear_clusters_are_warned_of():
    with pytest.warns(UserWarning, match="rows of 6 clusters are in the training"):
        splits_of([(np.arange(20), np.arange(20))], clusters=CLUSTERS)
    with pytest.warns(UserWarning, match="use a number of folds"):
        splits_of(KFold(3, shuffle=True, random_state=0), clusters=CLUSTERS)


@pytest.mark.parametrize("cv", [1, 0, -2, 0.0, 1.0, 7.5])
def test_clusters_change_nothing_about_what_is_refused(cv):
    with pytest.raises(ValueError, match="cv must be None, an int >= 2"):
        splits_of(cv, clusters=CLUSTERS)
