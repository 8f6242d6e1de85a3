"""Hostile inputs: what users hand over, and what they should not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kdey

#: Values that no parameter of ours takes, and values at the edge of those that some take.
ODD = st.sampled_from(
    [
        *(None, True, "", "nonsense", -1, 0, 1, 2, 0.5, 10**9, -0.1, 1e-320, 1e300, np.nan, np.inf),
        *(-np.inf, [], {}, (), [1, 2], np.zeros(0), np.ones((2, 2)), b"x", 1j, object(), "1"),
    ]
)
ODD_COLUMNS = ["", " ", "a", "ä", "0", "a b", "select *", "日", "\n", "<b>"]


@st.composite
def simplex_rows(draw: Any, n: int, k: int) -> Any:
    """Draw posteriors of shape (n, k): spread, one-hot, tied, nearly zero, or all the same."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    p = rng.dirichlet(np.ones(k), n)
    flavour = draw(st.integers(0, 6))
    if flavour == 1:
        p = np.eye(k)[rng.integers(0, k, n)]
    elif flavour == 2:
        p = np.full((n, k), 1.0 / k)
    elif flavour == 3:
        p = np.full((n, k), 1e-300)
        p[np.arange(n), rng.integers(0, k, n)] = 1.0
    elif flavour == 4:
        p = np.tile(p[:1], (n, 1))
    elif flavour == 5:
        p[:, -1] = 0.0
        p[:, 0] = 1.0 - p[:, 1:].sum(axis=1)
    elif flavour == 6:
        p = p + 5e-4 / k  # sums that miss one, within the tolerance
    return p


@st.composite
def given_as(draw: Any, p: Any, classes: Any) -> Any:
    """Draw the form in which posteriors are handed over; frames have columns in any order."""
    flavour = draw(st.integers(0, 8))
    if flavour == 1:
        return p.astype(np.float32)
    if flavour == 2:
        return np.asfortranarray(p)
    if flavour == 3:
        return p.tolist()
    if flavour == 4:
        return p.astype(object)
    if flavour == 5:
        return np.repeat(p, 2, axis=0)[::2]
    if flavour == 6:
        locked = p.copy()
        locked.flags.writeable = False
        return locked
    if flavour == 7:
        order = draw(st.permutations(range(p.shape[1])))
        names = [str(label) for label in np.asarray(classes).tolist()]
        return pd.DataFrame(p, columns=names)[[names[i] for i in order]]
    if flavour == 8:
        return p[::-1][::-1]
    return p


@st.composite
def spoilt(draw: Any, p: Any) -> Any:
    """Draw posteriors that must be refused."""
    q = np.array(p, dtype=float)
    row, column = draw(st.integers(0, len(q) - 1)), draw(st.integers(0, q.shape[1] - 1))
    flavour = draw(st.integers(0, 11))
    if flavour < 5:
        q[row, column] = [np.nan, np.inf, -np.inf, -0.5, 1e300][flavour]
        return q
    others: list[Any] = [q * 3, q[:, :-1], q[:, 0], q[None], q[:0], q.astype(str), None]
    return others[flavour - 5]


@st.composite
def codes(draw: Any, k: int, most: int = 30) -> Any:
    """Draw codes of k classes, each present."""
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    n = draw(st.integers(k, max(k, most)))
    return rng.permutation(np.r_[np.arange(k), rng.integers(0, k, n - k)])


@st.composite
def named(draw: Any, y: Any) -> Any:
    """Draw names for codes that sort like them: texts, negative numbers, unicode, booleans."""
    flavour = draw(st.integers(0, 6))
    if flavour == 1:
        return np.array(list("abcdefgh"))[y]
    if flavour == 2:
        return (y - 5).tolist()
    if flavour == 3:
        return np.array(["ä", "ö", "ü", "α", "β", "γ", "日", "本"])[y]
    if flavour == 4 and y.max() == 1:
        return y.astype(bool)
    if flavour == 5:
        return pd.Series(y)
    if flavour == 6:
        return np.array(list("abcdefgh"), dtype=object)[y].tolist()
    return y


#: Labels that are no labels, whatever the posteriors beside them.
BAD_LABELS = st.sampled_from(
    [
        *(None, [], "abc", 5, [0.5, 1.5, 2.5], [None, 1, "a"], [np.nan, 0.0, 1.0]),
        *([[0, 1], [1, 0]], [1, 1, 1], ["x"], [0, 1, [2]], np.array([], dtype=int), [b"a", "b", 1]),
    ]
)


@st.composite
def bags(draw: Any, pool: int) -> Any:
    """Draw bags over a pool in one of their forms, repeated positions among them."""
    flavour = draw(st.integers(0, 5))
    drawn = draw(
        st.lists(st.lists(st.integers(0, pool - 1), min_size=1, max_size=6), min_size=1, max_size=4)
    )
    if flavour == 1:
        return kdey.Bags.from_indices(drawn, pool)
    if flavour == 2:
        return kdey.Bags.from_indices(drawn, pool, [np.arange(1.0, len(d) + 1) for d in drawn])
    if flavour == 3:
        return sp.csr_array(np.eye(pool)[[d[0] for d in drawn]])
    if flavour == 4:
        return np.array([d[:1] * 3 for d in drawn])
    if flavour == 5:
        return [np.array(d, dtype=np.uint8) for d in drawn]
    return drawn


@st.composite
def bad_bags(draw: Any, pool: int) -> Any:
    """Draw bags that must be refused."""
    return draw(
        st.sampled_from(
            [
                *([], [[]], [[0], []], [[-1]], [[pool]], [[0.5]], [["a"]], [[None]], [[[0]]], 3),
                *([[np.nan]], [[True] * pool], np.ones((2, pool)), np.zeros((0, 3), dtype=int)),
                *(sp.csr_array(np.zeros((1, pool))), sp.csr_array(-np.eye(pool)), "ab", [[2**70]]),
                *(kdey.Bags.whole(pool + 1), sp.csr_array(np.full((1, pool), np.nan))),
            ]
        )
    )


def weights(n: int) -> st.SearchStrategy[Any]:
    """Draw weights of n instances, not all of them zero."""
    return hnp.arrays(float, n, elements=st.sampled_from([0.0, 1e-200, 1.0, 2.5, 1e9])).map(
        lambda w: w if w.any() else w + 1.0
    )


def bad_weights(n: int) -> st.SearchStrategy[Any]:
    """Draw weights that must be refused."""
    return st.sampled_from(
        [
            *(-np.ones(n), np.full(n, np.nan), np.full(n, np.inf), np.zeros(n), np.ones(n + 1)),
            *(np.ones((n, 1)), "x", np.full(n, "a"), [[1.0]]),
        ]
    )
