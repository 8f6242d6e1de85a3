"""Bags of QuaPy's protocols replayed: the conversion, without QuaPy (frozen data, stand-ins)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import kdey
from kdey.interop import from_quapy, to_quapy
from tests.evaluation.cases import blobs
from tests.interop.standins import Collection, FromIndex, Given, Pairs, Seeded

STORED = np.load(Path(__file__).parents[1] / "frozen" / "quapy_protocols.npz")


@pytest.fixture(scope="module")
def pool() -> Collection:
    return Collection(*blobs(seed=1))


@pytest.fixture(scope="module")
def fitted() -> Any:
    return kdey.KDEyML(bandwidth=0.1, random_state=0).fit(*blobs(seed=0))


@pytest.mark.parametrize("name", ["APP", "UPP", "NPP", "Dirichlet"])
def test_prevalences_are_those_that_quapy_stored(name: str) -> None:
    labels, positions = STORED["labels"], STORED[f"{name}_positions"]
    data = Collection(np.arange(len(labels))[:, None], labels)
    replay = from_quapy(FromIndex(data, positions))
    assert [bag.tolist() for bag in replay.drawn] == positions.tolist()
    np.testing.assert_array_equal(replay.bags().prevalences, STORED[f"{name}_prevalences"])
    np.testing.assert_array_equal(replay.bags(labels).classes, ["ant", "bee", "cow"])


def test_seeded_protocols_give_their_positions(pool: Collection) -> None:
    protocol = Seeded(pool, n_bags=7, size=30, random_state=5)
    before = protocol.collator
    replay = from_quapy(protocol)
    assert protocol.collator is before, "the protocol itself must stay as it was"
    assert replay.X is pool.instances
    for replayed, theirs, pair in zip(
        replay.drawn, protocol.samples_parameters(), protocol(), strict=True
    ):
        np.testing.assert_array_equal(replayed, theirs)
        np.testing.assert_array_equal(replay.X[replayed], pair[0])
    np.testing.assert_array_equal(replay.prevalences, [pair[1] for pair in protocol()])


def test_evaluate_on_a_replay_is_a_loop_over_the_bags(pool: Collection, fitted: Any) -> None:
    protocol = Seeded(pool, n_bags=6, size=40)
    replay = from_quapy(protocol)
    results = kdey.evaluate(fitted, replay.X, replay.y, replay, verbose=False)
    loop = np.array([fitted.predict(X) for X, _ in protocol()])
    np.testing.assert_allclose(results.estimated(), loop, atol=1e-9)
    errors = [np.abs(p - q).mean() for (_, p), q in zip(protocol(), loop, strict=True)]
    np.testing.assert_allclose(results.errors("ae"), errors, atol=1e-9)
    assert np.ptp(loop, axis=0).max() > 0.01, "bags that all look alike would prove nothing"


def test_all_ways_to_give_the_same_bags_agree(pool: Collection, fitted: Any) -> None:
    positions = [np.arange(5, 60), np.array([3, 3, 9, 100, 400]), np.arange(0, 600, 7)]
    bags = [pool.part(p) for p in positions]
    pairs = [(bag.instances, bag.prevalence()) for bag in bags]
    ways = [
        from_quapy(FromIndex(pool, positions)),
        from_quapy(Given(bags)),
        from_quapy(Pairs(pairs), classes=pool.classes_),
        from_quapy(Pairs(pairs)),
    ]
    results = [kdey.evaluate(fitted, way.X, way.y, way, verbose=False) for way in ways]
    for other in results[1:]:
        np.testing.assert_array_equal(other.true, results[0].true)
        np.testing.assert_array_equal(other.sizes, [55, 5, 86])
        np.testing.assert_allclose(other.estimated(), results[0].estimated(), atol=1e-9)


def test_a_collection_is_one_bag(pool: Collection) -> None:
    replay = from_quapy(pool)
    assert len(replay) == 1
    np.testing.assert_array_equal(replay.drawn.indices, np.arange(len(pool.labels)))
    np.testing.assert_array_equal(replay.prevalences[0], pool.prevalence())


def test_sparse_instances_are_stacked() -> None:
    X = sp.csr_array(sp.random(20, 3, density=0.5, random_state=0))
    data = Collection(X, np.arange(20) % 2)
    replay = from_quapy(Given([data.part(np.arange(4)), data.part(np.arange(3, 20))]))
    rows = np.r_[0:4, 3:20]
    np.testing.assert_array_equal(replay.X.toarray(), X.toarray()[rows])
    np.testing.assert_array_equal(replay.y, data.labels[rows])


def test_columns_follow_the_classes_asked_for() -> None:
    data = Collection(np.zeros((4, 1)), ["b", "b", "d", "b"], classes=["b", "c", "d"])
    replayed = from_quapy(data).bags(None, ["d", "a", "b"])
    np.testing.assert_array_equal(replayed.prevalences, [[0.25, 0.0, 0.75]])
    with pytest.raises(ValueError, match=r"not in classes: \['d'\]"):
        from_quapy(data).bags(None, ["a", "b"])


def test_without_names_only_the_number_of_classes_is_checked() -> None:
    replay = from_quapy(Pairs([(np.zeros((2, 1)), [0.5, 0.5])]))
    np.testing.assert_array_equal(replay.bags().classes, [0, 1])
    np.testing.assert_array_equal(replay.bags(None, ["x", "y"]).prevalences, [[0.5, 0.5]])
    with pytest.raises(ValueError, match="2 classes, but classes has 3"):
        replay.bags(None, ["x", "y", "z"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Seeded(Collection(np.zeros((3, 1)), [0, 1, 1]), 2, 2, None), "random_state=None"),
        (Pairs([(np.zeros((2, 1)), [0.5, 0.5])], random_state=None), "random_state=None"),
        (Pairs([]), "yields no bag"),
        (Given([]), "yields no bag"),
        (Pairs([np.zeros((2, 1))]), "pairs"),
        (Pairs([(np.zeros((2, 1)), [0.5, 0.7])]), "prevalences"),
        (Pairs([(np.zeros((0, 1)), [0.5, 0.5])]), "empty"),
        (FromIndex(Collection(np.zeros((3, 1)), [0, 1, 1]), [[0, 3]]), "outside the pool"),
        (
            Given([Collection(np.zeros((2, 1)), [0, 1]), Collection(np.zeros((2, 1)), [0, 2])]),
            "bag 1 has other classes",
        ),
    ],
)
def test_what_cannot_be_replayed_is_refused(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_quapy(source)


def test_strangers_and_wrong_labels_are_refused(pool: Collection) -> None:
    with pytest.raises(TypeError, match="QuaPy protocol or LabelledCollection, got int"):
        from_quapy(3)
    with pytest.raises(ValueError, match=r"replay\.y"):
        from_quapy(pool).bags(pool.labels[::-1])
    with pytest.raises(ValueError, match="3 names, but the prevalences have 2"):
        from_quapy(Pairs([(np.zeros((2, 1)), [0.5, 0.5])]), classes=list("abc"))


def test_quapy_is_imported_only_when_asked_for() -> None:
    code = "import sys, kdey, kdey.interop; sys.exit('quapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_quapy_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kdey.interop.quapy_classes", raising=False)
    monkeypatch.delattr("kdey.interop.quapy_classes", raising=False)
    monkeypatch.setitem(sys.modules, "quapy", None)
    monkeypatch.setitem(sys.modules, "quapy.data", None)
    with pytest.raises(ImportError, match=r"pip install quapy==0\.2\.3"):
        to_quapy(kdey.PACC())
