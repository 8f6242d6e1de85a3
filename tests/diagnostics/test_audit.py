"""An audit of decided labels: shares, errors, groups and the rows to label next."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import audit

CLASSES = np.array(["angry", "happy", "neutral"])


def judged(rng, n=2000, shares=(0.2, 0.3, 0.5), right=(0.6, 0.95, 0.9)):
    """Return true classes and the decisions of a judge, who takes many angry ones for neutral."""
    truth = rng.choice(3, n, p=shares)
    wrong = rng.random(n) > np.array(right)[truth]
    said = np.where(wrong, np.where(truth == 2, 1, 2), truth)
    return CLASSES[truth], CLASSES[said]


def with_labels(rng, truth, n):
    human = np.full(len(truth), None, dtype=object)
    rows = rng.choice(len(truth), n, replace=False)
    human[rows] = truth[rows]
    return human


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    truth, decided = judged(rng)
    return truth, decided, with_labels(rng, truth, 200)


def test_shares_are_those_of_the_labels_within_each_decision(table):
    _, decided, human = table
    found = audit(decided, human)
    known = human != None  # noqa: E711
    by_hand = sum(
        (decided == d).mean() * (human[known & (decided == d)][:, None] == CLASSES).mean(axis=0)
        for d in CLASSES
    )
    np.testing.assert_allclose(found.shares[0].estimate, by_hand, atol=1e-12)
    np.testing.assert_allclose(
        found.confusion.sum(axis=1), [(decided == d).mean() for d in CLASSES]
    )
    assert found.accuracy[0, 0] == pytest.approx(np.trace(found.confusion))
    assert found.n_labels.tolist() == [200]
    assert found.counts.sum() == 200


@pytest.mark.parametrize("by_decision", [False, True], ids=["random", "by decision"])
def test_intervals_hold_however_rows_were_drawn(by_decision):
    rng = np.random.default_rng(11)
    shares, hits, narrower = np.array([0.2, 0.3, 0.5]), [], []
    for _ in range(60):
        truth, decided = judged(rng)
        human = np.full(len(truth), None, dtype=object)
        if by_decision:
            rows = [rng.choice(np.flatnonzero(decided == d), 30, replace=False) for d in CLASSES]
        else:
            rows = [rng.choice(len(truth), 90, replace=False)]
        rows = np.concatenate(rows)
        human[rows] = truth[rows]
        share = audit(decided, human).shares[0]
        hits.append((share.low <= shares) & (shares <= share.high))
        narrower.append((share.high - share.low).mean())
    assert np.mean(hits) > 0.92
    # Labels of people alone: 2 * 1.96 * sqrt(p (1 - p) / 90), .186 on average.
    assert np.mean(narrower) < 0.16


def test_counting_is_wrong_where_the_audit_is_right(table):
    truth, decided, human = table
    share = audit(decided, human).shares[0]
    true = np.array([(truth == c).mean() for c in CLASSES])
    assert share.classify_and_count[0] < 0.16 < 0.18 < true[0]
    assert (share.low <= true).all()
    assert (true <= share.high).all()


def test_rows_of_an_audit_may_come_in_any_order(table):
    truth, decided, human = table
    by = {"city": np.where(np.arange(len(truth)) % 3 == 0, "Rom", "Ulm")}
    order = np.random.default_rng(0).permutation(len(truth))
    first = audit(decided, human, by=by)
    second = audit(decided[order], human[order], by={"city": by["city"][order]})
    for a, b in zip(first.shares, second.shares, strict=True):
        np.testing.assert_allclose([a.low, a.high], [b.low, b.high], atol=1e-12)
    assert first.keys == second.keys == {"city": ["Rom", "Ulm"]}
    assert abs(first.change_p_value - second.change_p_value) < 0.05


def test_rows_of_weight_two_count_like_two_rows(table):
    _, decided, human = table
    w = np.tile([1.0, 2.0], len(decided) // 2)
    twice = np.repeat(np.arange(len(decided)), w.astype(int))
    weighted = audit(decided, human, sample_weight=w).shares[0]
    repeated = audit(decided[twice], human[twice]).shares[0]
    # A row of weight two is one label: its decision's rows count as they are weighted.
    assert np.abs(weighted.estimate - repeated.estimate).max() < 0.03
    np.testing.assert_allclose(weighted.classify_and_count, repeated.classify_and_count, atol=1e-12)


def test_errors_that_differ_between_groups_are_found():
    rng = np.random.default_rng(5)
    truth, decided = judged(rng, 4000)
    city = np.where(rng.random(4000) < 0.5, "Rom", "Ulm")
    human = with_labels(rng, truth, 400)
    same = audit(decided, human, by={"city": city})
    assert same.change_p_value > 0.05
    assert "the errors do not differ by group" in same.verdict
    worse = np.where((city == "Ulm") & (truth == "angry"), "neutral", decided)
    assert audit(worse, human, by={"city": city}).change_p_value < 0.01


def test_other_shares_are_no_other_errors():
    rng = np.random.default_rng(8)
    parts = [judged(rng, 2000, shares) for shares in ((0.7, 0.2, 0.1), (0.1, 0.2, 0.7))]
    truth, decided = (np.concatenate(values) for values in zip(*parts, strict=True))
    found = audit(decided, with_labels(rng, truth, 400), by={"week": np.repeat([1, 2], 2000)})
    assert found.change_p_value > 0.05
    assert found.shares[1].estimate[0] > 0.6 > 0.2 > found.shares[2].estimate[0]


def test_groups_without_labels_say_so(table):
    _, decided, human = table
    city = np.where(human == None, "Ulm", "Rom")  # noqa: E711
    found = audit(decided, human, by={"city": city})
    assert found.status == ["no problem found", "no problem found", "no labels"]
    frame = found.to_frame("pandas")
    assert frame["estimate"].isna().tolist() == [False] * 3 + [True] * 3
    assert frame["n_labels"].tolist() == [200] * 3 + [0] * 3


def test_next_rows_have_no_label_and_narrow_the_intervals(table):
    truth, decided, human = table
    found = audit(decided, human)
    rows = found.draw_next(400)
    assert len(set(rows.tolist())) == 400
    assert not (human[rows] != None).any()  # noqa: E711
    share = [(decided[rows] == c).mean() / (decided == c).mean() for c in CLASSES]
    assert max(share) > 1.2  # decisions that say little get more
    filled = human.copy()
    filled[rows] = truth[rows]
    later = audit(decided, filled).shares[0]
    width = [float((e.high - e.low).max()) for e in (found.shares[0], later)]
    assert width[1] < 0.75 * width[0]
    true = np.array([(truth == c).mean() for c in CLASSES])
    assert np.abs(later.estimate - true).max() < 0.05


def test_as_many_more_labels_as_it_says_halve_the_interval():
    rng = np.random.default_rng(2)
    truth, decided = judged(rng, 20_000)
    human = with_labels(rng, truth, 150)
    found = audit(decided, human, target="bag")
    rows = found.draw_next(found.labels_to_halve)
    human[rows] = truth[rows]
    before, after = found.shares[0], audit(decided, human, target="bag").shares[0]
    ratio = (after.high - after.low).max() / (before.high - before.low).max()
    assert 0.4 < ratio < 0.62


def test_all_rows_can_be_labelled(table):
    truth, decided, _ = table
    found = audit(decided, truth, target="bag")
    share = found.shares[0]
    np.testing.assert_allclose(share.high - share.low, 0.0, atol=1e-9)
    assert len(found.draw_next(10)) == 0
    assert found.labels_to_halve == 0


def test_rare_decisions_share_the_weight_of_their_labels():
    decided = np.array(["a"] * 500 + ["b"] * 480 + ["c"] * 20)
    human = np.full(1000, None, dtype=object)
    human[:40], human[500:540] = "a", "b"  # no label where the decision is c
    found = audit(decided, human)
    assert np.isfinite(found.shares[0].estimate).all()
    assert found.shares[0].high[2] > 0.01
    one = audit(decided, np.where(np.arange(1000) == 0, "a", None).astype(object))
    assert (one.shares[0].high - one.shares[0].low).max() > 0.5


@pytest.mark.parametrize(
    ("decided", "human", "message"),
    [
        (["a", "b"], [None, None], "human has no label"),
        (["a", None], ["a", None], "decided has 1 missing label.*row 1"),
        (["a", "b"], ["a"], "same rows, got 2 and 1"),
        ([["a"], ["b"]], ["a", "b"], "decided must be a vector"),
    ],
)
def test_what_an_audit_refuses(decided, human, message):
    with pytest.raises(ValueError, match=message):
        audit(decided, human)


def test_keys_must_have_the_length_of_the_table():
    with pytest.raises(ValueError, match=r"by\['city'\] has 1 rows, but decided has 2"):
        audit(["a", "b"], ["a", None], by={"city": ["x"]})
    with pytest.raises(ValueError, match="by must be a mapping"):
        audit(["a", "b"], ["a", None], by=["x", "y"])


def test_labels_may_be_numbers_or_a_series():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"d": [0, 1, 1, 0] * 20, "h": [0, 1, None, None] * 20})
    found = audit(frame["d"], frame["h"])
    assert found.classes.tolist() == [0, 1]
    assert found.shares[0].estimate.tolist() == [0.5, 0.5]
    assert "40 of 80 rows have a label" in repr(found)


@pytest.mark.parametrize("drawn", ["at random", "by the decisions of the other"])
def test_the_difference_of_two_judges_has_an_interval(drawn):
    """Most of 60 intervals hold the difference, and they are narrower than of other rows."""
    rng = np.random.default_rng(2)
    hits, widths, apart = [], [], []
    for _ in range(60):
        truth, said = judged(rng)
        also_wrong = rng.random(len(truth)) < 0.15
        other = np.where(also_wrong, "neutral", said)
        human = np.full(len(truth), None, dtype=object)
        if drawn == "at random":
            rows = rng.choice(len(truth), 150, replace=False)
        else:
            each = [rng.choice(np.flatnonzero(other == d), 50, replace=False) for d in CLASSES]
            rows = np.concatenate(each)
        human[rows] = truth[rows]
        first, second = (audit(labels, human, drawn_by=other) for labels in (said, other))
        difference, low, high = first.more_often_right(second)
        assert difference == pytest.approx(first.accuracy[0, 0] - second.accuracy[0, 0])
        hits.append(low <= (said == truth).mean() - (other == truth).mean() <= high)
        widths.append(high - low)
        apart.append(np.hypot(*(np.diff(one.accuracy[0, 1:])[0] for one in (first, second))))
        back = second.more_often_right(first)
        np.testing.assert_allclose(back, [-difference, -high, -low], atol=1e-12)
    assert np.mean(hits) > 0.9
    assert np.mean(widths) < 0.9 * np.mean(apart)


def test_a_judge_is_audited_by_the_draw_for_another():
    rng = np.random.default_rng(6)
    wrong = {"own": [], "other": []}
    for _ in range(30):
        truth, said = judged(rng, 4000)
        human = np.full(len(truth), None, dtype=object)
        rows = np.concatenate(
            [rng.choice(np.flatnonzero(said == d), 80, replace=False) for d in CLASSES]
        )
        human[rows] = truth[rows]
        coarse = np.where(said == "angry", "neutral", said)
        share = (truth == "angry").mean()
        wrong["own"].append(audit(coarse, human).shares[0].estimate[0] - share)
        wrong["other"].append(audit(coarse, human, drawn_by=said).shares[0].estimate[0] - share)
    assert np.mean(wrong["own"]) > 0.05, "angry ones have more labels than their share"
    assert abs(np.mean(wrong["other"])) < 0.02


def test_labels_without_weight_are_none():
    with pytest.raises(ValueError, match="no row with a label has a weight above zero"):
        audit(["a", "b"], ["a", None], sample_weight=[0.0, 1.0])


def test_judges_of_other_rows_are_not_compared(table):
    _, decided, human = table
    found = audit(decided, human)
    with pytest.raises(ValueError, match="same rows and labels"):
        found.more_often_right(audit(decided[1:], human[1:]))
    with pytest.raises(ValueError, match="drawn_by has 3 rows, but decided has 2000"):
        audit(decided, human, drawn_by=decided[:3])
    assert found.more_often_right(found) == pytest.approx((0.0, 0.0, 0.0), abs=0.02)
