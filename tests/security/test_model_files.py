"""Model files of a stranger: crafted ones are refused, and none of them runs or crashes anything.

What a damaged file does is in tests/persistence; here the checksums match.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import kdey
from kdey import persistence
from kdey.persistence import archive, check_trees, describe
from kdey.persistence.archive import ModelFileError
from tests.evaluation.cases import blobs

pytest.importorskip("skops")
CLASSIFIERS = {
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": ExtraTreesClassifier(3, max_depth=3, random_state=0),
    "bagging": BaggingClassifier(DecisionTreeClassifier(), 3, max_features=0.5, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=2, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]),
}


def fitted(name: str) -> Any:
    X, y = blobs(150, seed=1)
    X = np.column_stack([np.round(np.abs(X[:, 0])), X])
    return CLASSIFIERS[name].fit(X, y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_honest_trees_pass(name: str) -> None:
    check_trees(fitted(name))


def crafted(change: Callable[[Any], None]) -> Any:
    """Return a tree whose state was changed as no fit would."""
    made = fitted("tree")
    state = made.tree_.__getstate__()
    change(state["nodes"])
    made.tree_.__setstate__(state)
    return made


@pytest.mark.parametrize(
    ("field", "number"),
    [("left_child", 10**8), ("right_child", 10**8), ("left_child", 0), ("right_child", -5)],
)
def test_trees_that_lead_nowhere_are_refused(field: str, number: int) -> None:
    def change(nodes: Any) -> None:
        nodes[field][0] = number

    with pytest.raises(ValueError, match="nodes that it does not have"):
        check_trees(crafted(change))


@pytest.mark.parametrize("count", [0, 10**9])
def test_trees_that_count_nodes_which_they_lack_are_refused(count: int) -> None:
    """NumPy would show the memory behind the nodes."""
    made = fitted("tree")
    made.tree_.__setstate__(made.tree_.__getstate__() | {"node_count": count})
    with pytest.raises(ValueError, match="nodes that it does not have"):
        check_trees(made)


@pytest.mark.parametrize("number", [10**8, -2])
def test_trees_that_ask_for_other_features_are_refused(number: int) -> None:
    def change(nodes: Any) -> None:
        nodes["feature"][0] = number

    with pytest.raises(ValueError, match="features that its classifier does not have"):
        check_trees(crafted(change))


def test_the_width_of_a_tree_is_that_of_who_hands_it_data() -> None:
    alone = fitted("tree")
    alone.n_features_in_ = 2
    with pytest.raises(ValueError, match="features"):
        check_trees(alone)
    del alone.n_features_in_
    with pytest.raises(ValueError, match="features"):
        check_trees(alone)
    forest = fitted("forest")
    forest.n_features_in_ = 2
    with pytest.raises(ValueError, match="another number of features"):
        check_trees(forest)


@pytest.mark.parametrize("field", ["left", "feature_idx", "bitset_idx"])
def test_histogram_trees_are_checked_too(field: str) -> None:
    made = fitted("histograms")
    nodes = made._predictors[0][0].nodes
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    nodes["is_categorical"][inner[0]] = 1
    nodes[field][inner[0]] = 10**8
    with pytest.raises(ValueError, match="a tree"):
        check_trees(made)


def test_a_crafted_tree_is_refused_when_its_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = blobs(150, seed=1)
    quantifier = kdey.CC(DecisionTreeClassifier(max_depth=2)).fit(X, y)
    state = quantifier.classifier_.tree_.__getstate__()
    state["nodes"]["left_child"][0] = 10**8
    quantifier.classifier_.tree_.__setstate__(state)
    with pytest.raises(TypeError, match="a tree refers to nodes"):
        kdey.save(quantifier, tmp_path / "m.kdey")
    monkeypatch.setattr(persistence, "_quantifier", lambda *_, **__: None)
    path = kdey.save(quantifier, tmp_path / "m.kdey")
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="a tree refers to nodes"):
        kdey.load(path)


def test_a_crafted_index_of_neighbours_is_not_believed(tmp_path: Path) -> None:
    X, y = blobs(150, seed=1)
    quantifier = kdey.CC(KNeighborsClassifier()).fit(X, y)
    expected = quantifier.predict(X)
    index = quantifier.classifier_._tree
    state = list(index.__getstate__())
    state[1] = np.full_like(state[1], 10**8)  # instances that are not there
    index.__setstate__(tuple(state))
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "m.kdey"))
    np.testing.assert_array_equal(loaded.predict(X), expected)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    return kdey.save(kdey.PACC().fit_posteriors(p, p.argmax(axis=1)), tmp_path / "model.kdey")


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest, with a digest that matches."""
    with zipfile.ZipFile(path) as held:
        members = {name: held.read(name) for name in held.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    manifest.pop("digest")
    change(manifest)
    digest = archive._manifest_digest(manifest)
    members["manifest.json"] = json.dumps(manifest | {"digest": digest}).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)


@pytest.mark.parametrize(
    "told",
    [
        {"bytes": -2, "sha256": ""},  # reading -1 bytes is reading all of them
        {"bytes": "9", "sha256": ""},
        {"bytes": True, "sha256": ""},
        {"bytes": 9},
        {"bytes": 9, "sha256": "", "more": 1},
        [9],
        None,
    ],
)
def test_lengths_of_members_must_be_lengths(model: Path, told: Any) -> None:
    rewrite(model, lambda manifest: manifest["members"].update({"quantifier.json": told}))
    for read in (kdey.load, describe):
        with pytest.raises(ModelFileError, match=r"model\.kdey"):
            read(model)
