"""Model files: the same predictions after loading, and no harm from a bad file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

import kdey
from kdey import persistence
from kdey.monitoring import model_fingerprint
from kdey.persistence import archive
from kdey.persistence.archive import ModelFileError
from tests.evaluation.cases import blobs

pytest.importorskip("skops")


class Odd(ClassifierMixin, BaseEstimator):
    """A classifier of another library, which nobody trusts yet."""

    def fit(self, X: Any, y: Any) -> Odd:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        p = np.exp(np.asarray(X)[:, : len(self.classes_)])
        return p / p.sum(axis=1, keepdims=True)


def lr() -> LogisticRegression:
    return LogisticRegression(max_iter=300)


QUANTIFIERS = {
    "CC": kdey.CC(lr()),
    "PCC": kdey.PCC(lr()),
    "TrainingPrevalence": kdey.TrainingPrevalence(),
    "ACC": kdey.ACC(lr(), cv=3),
    "PACC": kdey.PACC(lr(), cv=0.4, random_state=0),
    "EMQ": kdey.EMQ(lr()),
    "EMQ-BCTS": kdey.EMQ(lr(), cv=3, calibration="bcts"),
    "DIR": kdey.DIR(lr(), cv=3),
    "DM": kdey.DM(lr(), cv=3),
    "HDx": kdey.OneVsAll(kdey.HDx()),
    "DMx": kdey.DMx(),
    "HDy-OvA": kdey.OneVsAll(kdey.HDy(lr(), cv=3)),
    "DyS-OvA": kdey.OneVsAll(kdey.DyS(lr(), cv=3)),
    "Median": kdey.Median(kdey.DM(lr(), cv=3), {"n_bins": [4, 8]}),
    "Ensemble": kdey.Ensemble(kdey.PACC(lr(), cv=3), n_members=3, random_state=0),
    "KDEyML": kdey.KDEyML(lr(), cv=3, random_state=0),
    "KDEyML log-ratios": kdey.KDEyML(lr(), cv=3, bandwidth=0.5, kernel="ilr"),
    "KDEyCS": kdey.KDEyCS(lr(), cv=3, random_state=0),
    "KDEyL2": kdey.KDEyL2(lr(), cv=3, random_state=0),
    "KDEyHD": kdey.KDEyHD(lr(), cv=3, n_points=200, random_state=0),
    "extra trees": kdey.KDEyML(ExtraTreesClassifier(10, random_state=0), cv=3, random_state=0),
    "boosting": kdey.KDEyML(HistGradientBoostingClassifier(max_iter=5), cv=3, random_state=0),
    "pipeline": kdey.KDEyML(make_pipeline(StandardScaler(), lr()), cv=3, random_state=0),
    "calibrated": kdey.PACC(CalibratedClassifierCV(lr(), cv=2), cv=3),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", QUANTIFIERS)
def test_loaded_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    X, y = blobs(150, seed=1)
    labels = np.array(["<b>", "é", "zwölf"])[np.unique(y, return_inverse=True)[1]]
    quantifier = QUANTIFIERS[name].fit(X, labels)
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "model.kdey"))
    bag, _ = blobs(60, seed=2)
    np.testing.assert_array_equal(loaded.predict(bag), quantifier.predict(bag))
    np.testing.assert_array_equal(loaded.classes_, quantifier.classes_)
    assert loaded.get_params().keys() == quantifier.get_params().keys()
    loaded.fit(X, labels)  # the parameters are whole


def test_what_was_computed_on_the_way_is_not_saved(tmp_path: Path) -> None:
    X, y = blobs(150, seed=1)
    quantifier = kdey.KDEyML(lr(), bandwidth=0.1, cv=3).fit(X, y)
    before = quantifier.estimate(X[:50])
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "m.kdey"))
    np.testing.assert_array_equal(loaded.estimate(X[:50]).low, before.low)


def test_saved_in_one_process_loaded_in_another(tmp_path: Path) -> None:
    X, y = blobs(150, seed=1)
    quantifier = kdey.KDEyML(lr(), cv=3, random_state=0).fit(X, y)
    path, bag = kdey.save(quantifier, tmp_path / "m.kdey"), tmp_path / "bag.npy"
    np.save(bag, X[:40])
    code = (
        f"import kdey, numpy as np; print(*kdey.load({str(path)!r}).predict(np.load({str(bag)!r})))"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout
    np.testing.assert_allclose(
        [float(v) for v in out.split()], quantifier.predict(X[:40]), atol=1e-12
    )


def test_fitted_on_posteriors_needs_no_skops(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "skops.io", None)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    y = p.argmax(axis=1)
    quantifier = kdey.KDEyML(random_state=0).fit_posteriors(p, y)
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "m.kdey"))
    np.testing.assert_array_equal(loaded.aggregate(p[:30]), quantifier.aggregate(p[:30]))
    with pytest.raises(ImportError, match=r"kdey\[save\]"):
        kdey.save(kdey.PACC(lr(), cv=3).fit(p, y), tmp_path / "n.kdey")
    assert not (tmp_path / "n.kdey").exists()


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    X, y = blobs(100, seed=1)
    saved = [
        kdey.save(kdey.PACC(lr(), cv=3).fit(X, y), tmp_path / name).read_bytes() for name in "ab"
    ]

    # skops writes an identity of its own into its part; all else must be the same.
    def ours(data: bytes) -> dict[str, bytes]:
        (tmp_path / "c").write_bytes(data)
        with zipfile.ZipFile(tmp_path / "c") as z:
            return {n: z.read(n) for n in z.namelist() if n.startswith(("arrays", "quant"))}

    assert ours(saved[0]) == ours(saved[1])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    X, y = blobs(100, seed=1)
    return kdey.save(kdey.PACC(lr(), cv=3).fit(X, y), tmp_path / "model.kdey")


def rewritten(path: Path, change: Any, *, honest: bool = False) -> Path:
    """Change the members of an archive, with matching checksums if ``honest``."""
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    manifest.pop("digest"), manifest.pop("members"), manifest.pop("format")
    if honest:
        change(members, manifest)
        archive.write_archive(path, members, manifest)
        return path
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)
    return path


@pytest.mark.parametrize("cut", [0, 1, 50, 500, -1, -100])
def test_cut_files_are_refused(model: Path, cut: int) -> None:
    model.write_bytes(model.read_bytes()[:cut])
    with pytest.raises(ModelFileError, match=r"model\.kdey"):
        kdey.load(model)


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    for name, data in {"text": b"label,1\n", "pickle": pickle.dumps([1])}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelFileError, match="not a kdey model file"):
            kdey.load(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "zip", "w") as z:
        z.writestr("a.txt", "hello")
    with pytest.raises(ModelFileError, match="not a kdey model file"):
        kdey.load(tmp_path / "zip")
    with pytest.raises(FileNotFoundError):
        kdey.load(tmp_path / "none")


def test_a_flipped_bit_anywhere_is_noticed(model: Path) -> None:
    whole = model.read_bytes()
    rng = np.random.default_rng(0)
    X, _ = blobs(50, seed=3)
    before = kdey.load(model).predict(X)
    for position in rng.integers(0, len(whole), 300):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        model.write_bytes(bytes(damaged))
        try:
            loaded = kdey.load(model)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.predict(X), before)  # padding of the archive


def test_a_changed_member_is_noticed(model: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        members["quantifier.json"] = members["quantifier.json"].replace(b"cv", b"vc")

    with pytest.raises(ModelFileError, match="checksum"):
        kdey.load(rewritten(model, change))


@pytest.mark.parametrize(
    ("found", "says"), [(99, "update kdey"), (1, "fit the model again and save it")]
)
def test_another_format_is_refused_and_told_what_to_do(
    model: Path, monkeypatch: Any, found: int, says: str
) -> None:
    monkeypatch.setattr(archive, "FORMAT", found)
    rewritten(model, lambda members, manifest: manifest.update(kdey="9.9"), honest=True)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=rf"format {found}.*kdey 9\.9; {says}"):
        kdey.load(model)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "kdey.cli.__main__:main",
        "kdey.native:load",
        "kdey.quantifiers.base:checked_bags",
        "kdey.quantifiers.base:BaseQuantifier.fit",
        "kdey.quantifiers.nothing:PACC",
    ],
)
def test_only_classes_that_hold_data_can_be_named(model: Path, name: str) -> None:
    def change(members: dict[str, bytes], manifest: dict[str, Any]) -> None:
        tree = json.loads(members["quantifier.json"])
        tree["estimator"] = name
        members["quantifier.json"] = json.dumps(tree).encode()

    with pytest.raises(ModelFileError, match=r"must not name|there is no|is never read"):
        kdey.load(rewritten(model, change, honest=True))


def test_untrusted_classifiers_are_named(tmp_path: Path) -> None:
    X, y = blobs(100, seed=1)
    quantifier = kdey.PACC(FrozenEstimator(Odd().fit(X, y))).fit(X, y)
    path = kdey.save(quantifier, tmp_path / "m.kdey")
    with pytest.raises(ModelFileError, match=r"not trusted: .*Odd"):
        kdey.load(path)
    name = f"{Odd.__module__}.Odd"
    np.testing.assert_array_equal(kdey.load(path, trusted=[name]).predict(X), quantifier.predict(X))


def classifiers() -> dict[str, Any]:
    """Return scikit-learn's classifiers that need no parameter."""
    made = {}
    for name, kind in all_estimators(type_filter="classifier"):
        with contextlib.suppress(TypeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some are deprecated
            made[name] = kind()
    return {name: made[name] for name in made if name != "SelfTrainingClassifier"}  # cannot fit


@pytest.mark.filterwarnings("ignore")  # of convergence, and of what is deprecated
@pytest.mark.parametrize("name", classifiers())
def test_every_classifier_that_fits_with_its_defaults_loads(name: str, tmp_path: Path) -> None:
    assert len(classifiers()) >= 34
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.binomial(2, 0.2 + 0.3 * y[:, None], (120, 3)).astype(float)
    quantifier = kdey.CC(classifiers()[name]).fit(X, y)
    known = model_fingerprint(quantifier)
    expected = quantifier.predict(X[::2])
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "m.kdey"))
    np.testing.assert_array_equal(loaded.predict(X[::2]), expected)
    assert model_fingerprint(loaded) == model_fingerprint(quantifier) == known


@pytest.mark.parametrize(
    "options",
    [{"algorithm": "ball_tree", "metric": "manhattan"}, {"p": 3}, {"algorithm": "brute"}],
    ids=str,
)
def test_neighbours_of_every_kind_load(options: dict[str, Any], tmp_path: Path) -> None:
    X, y = blobs(100, seed=1)
    quantifier = kdey.CC(KNeighborsClassifier(**options)).fit(X, y)
    loaded = kdey.load(kdey.save(quantifier, tmp_path / "m.kdey"))
    np.testing.assert_array_equal(loaded.predict(X), quantifier.predict(X))


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path, monkeypatch: Any) -> None:
    """Boosting with categories holds a call of a function, which a file could make any call."""
    X, y = blobs(100, seed=1)
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    quantifier = kdey.CC(boosting).fit(np.abs(X).round(), y)
    path = tmp_path / "m.kdey"
    with pytest.raises(TypeError, match=r"could not be loaded .* functools\.partial") as refusal:
        kdey.save(quantifier, path)
    assert "trust" not in str(refusal.value)
    assert not path.exists()
    # As an older version would have written it.
    monkeypatch.setattr(persistence, "_quantifier", lambda *_, **__: None)
    kdey.save(quantifier, path)
    monkeypatch.undo()
    for trusted in ([], ["functools.partial", "sklearn.utils.validation.check_array"]):
        with pytest.raises(ModelFileError, match="is never read") as refused:
            kdey.load(path, trusted=trusted)
        assert "trust" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "joblib.load", "pandas.eval", "pip.main", "torch.load"]
)
def test_dangerous_names_are_never_offered(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is never read"):
        persistence._check_trusted(tmp_path, {name, "my.Classifier"}, [name])


def test_pickle_is_opt_in_on_both_sides(tmp_path: Path) -> None:
    X, y = blobs(100, seed=1)
    quantifier = kdey.PACC(Odd(), cv=3).fit(X, y)
    path = kdey.save(quantifier, tmp_path / "m.kdey", use_pickle=True)
    with pytest.raises(ModelFileError, match="use_pickle=True"):
        kdey.load(path)
    loaded = kdey.load(path, use_pickle=True)
    np.testing.assert_array_equal(loaded.predict(X), quantifier.predict(X))


def test_nothing_half_written(tmp_path: Path, model: Path, monkeypatch: Any) -> None:
    X, y = blobs(100, seed=1)
    before = model.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*model\.kdey: No space"):
        kdey.save(kdey.PACC(lr(), cv=3).fit(X, y), model)
    assert model.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.kdey"]
    with pytest.raises(OSError, match="cannot write"):
        kdey.save(kdey.PACC(lr(), cv=3).fit(X, y), tmp_path / "no folder" / "m.kdey")


def test_what_cannot_be_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not fitted"):
        kdey.save(kdey.PACC(), tmp_path / "m")
    with pytest.raises(TypeError, match="quantifiers of kdey"):
        kdey.save(LogisticRegression(), tmp_path / "m")
    X, y = blobs(100, seed=1)
    search = kdey.GridSearchQ(kdey.DM(lr(), cv=3), {"n_bins": [4, 5, 6]}, protocol=kdey.APP(5, 20))
    with pytest.raises(TypeError, match="best_estimator_"):
        kdey.save(search.fit(X, y), tmp_path / "m")


def test_describe_makes_nothing(model: Path) -> None:
    about = kdey.persistence.describe(model)
    assert about["quantifier"] == "PACC"
    assert about["classes"] == ["a", "b", "c"]
    assert "LogisticRegression" in about["foreign"][0]


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    """The same fit in two processes: places in memory and the time of day differ."""
    program = (
        "import sys, kdey, numpy as np\n"
        "from sklearn.ensemble import ExtraTreesClassifier\n"
        "kept = [object() for _ in range(int(sys.argv[2]))]\n"
        "X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3\n"
        "model = kdey.PACC(ExtraTreesClassifier(3, random_state=0), cv=3).fit(X, y)\n"
        "kdey.save(model, sys.argv[1])\n"
    )
    for name, kept in (("a", "0"), ("b", "100000")):
        run = [sys.executable, "-c", program, str(tmp_path / name), kept]
        subprocess.run(run, check=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    X = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_array_equal(
        kdey.load(tmp_path / "a").predict(X), kdey.load(tmp_path / "b").predict(X)
    )


@pytest.mark.parametrize("missing", [False, True])
def test_boosted_trees_are_a_few_arrays_of_the_file(missing: bool) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 50)).round(1), np.tile([0, 1, 2], 20)
    X[:, 3] = 1.0  # a constant column has one bin and no bound
    X[:, 4] = rng.integers(4, size=60)
    X[:, 4] += y == 2  # a category that the trees ask for
    if missing:
        X[::7, 5] = np.nan
    trees = HistGradientBoostingClassifier(
        max_iter=20, max_bins=8, min_samples_leaf=2, categorical_features=[4]
    ).fit(X, y)
    arrays: list[NDArray[Any]] = []
    data = persistence._skops_bytes(trees, arrays)
    assert len(arrays) == 7  # 60 trees have 180
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) < 40
    assert isinstance(trees._bin_mapper.bin_thresholds_, list)  # what was given is left as it was
    assert isinstance(trees._predictors, list)
    skops = persistence._skops()
    unknown = skops.get_untrusted_types(data=data)
    # Before 1.8 scikit-learn gave this part a name that nobody can trust.
    assert not any("CyHalf" in name for name in unknown)
    read = skops.loads(data, trusted=unknown)
    persistence._unpack_trees(read, arrays)
    pairs = zip(read._bin_mapper.bin_thresholds_, trees._bin_mapper.bin_thresholds_, strict=True)
    assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)
    np.testing.assert_array_equal(read.predict_proba(X), trees.predict_proba(X))
    assert [len(row) for row in read._predictors] == [len(row) for row in trees._predictors]


@pytest.mark.parametrize("change", ["too few nodes", "negative", "floats", "no columns", "rounds"])
def test_boosted_trees_that_do_not_match_their_lengths(change: str) -> None:
    X, y = np.arange(60.0).reshape(30, 2), np.tile([0, 1], 15)
    trees = HistGradientBoostingClassifier(max_iter=3).fit(X, y)
    nodes, binned, raw, lengths, per_round = persistence._packed_boosted(trees._predictors)
    if change == "too few nodes":
        nodes = nodes[:-1]
    elif change == "negative":
        lengths[0, 0], lengths[1, 0] = -1, lengths[0, 0] + lengths[1, 0] + 1
    elif change == "floats":
        lengths = lengths.astype(float)
    elif change == "no columns":
        lengths = lengths[:, 0]
    else:
        per_round = per_round[:-1]
    trees._predictors = (0, 1, 2, 3, 4)
    with pytest.raises(ValueError, match=r"of trees do not match"):
        persistence._unpack_trees(trees, [nodes, binned, raw, lengths, per_round])


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
def test_a_forest_is_a_few_arrays_of_the_file(kind: Any) -> None:
    X, y = blobs(150, seed=1)
    forest = kind(25, random_state=0, class_weight="balanced").fit(X, y)
    arrays: list[NDArray[Any]] = []
    data = persistence._skops_bytes(forest, arrays)
    assert len(arrays) == 1 + 2 * 3  # of ten trees at a time
    assert len(zipfile.ZipFile(io.BytesIO(data)).namelist()) < 12  # 25 trees have 100
    assert isinstance(forest.estimators_, list)
    skops = persistence._skops()
    read = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    persistence._unpack_trees(read, arrays)
    np.testing.assert_array_equal(read.predict_proba(X), forest.predict_proba(X))
    np.testing.assert_array_equal(read.feature_importances_, forest.feature_importances_)
    for ours, theirs in zip(read.estimators_, forest.estimators_, strict=True):
        assert ours.get_params() == theirs.get_params()
        assert ours.get_depth() == theirs.get_depth()
        for name, values in theirs.tree_.__getstate__().items():
            np.testing.assert_array_equal(ours.tree_.__getstate__()[name], values)


def test_a_forest_of_unlike_trees_is_written_tree_by_tree() -> None:
    X, y = blobs(150, seed=1)
    forest = ExtraTreesClassifier(4, random_state=0).fit(X, y)
    forest.estimators_[2].set_params(max_leaf_nodes=7)
    arrays: list[NDArray[Any]] = []
    assert persistence._with_packed_trees(forest, arrays) is forest
    assert arrays == []


@pytest.mark.parametrize(
    "change", ["too few nodes", "negative", "one tree less", "one tree more", "no values"]
)
def test_forests_that_do_not_match_their_lengths(change: str) -> None:
    X, y = blobs(150, seed=1)
    forest = ExtraTreesClassifier(3, random_state=0).fit(X, y)
    first = forest.estimators_[0]
    counts, nodes, values = persistence._packed_forest(forest.estimators_)
    if change == "too few nodes":
        nodes = nodes[:-1]
    elif change == "negative":
        counts[:2, 0] = -1, counts[0, 0] + counts[1, 0] + 1
    elif change == "one tree less":
        counts = counts[:-1]
    elif change == "one tree more":
        counts = np.concatenate([counts, [[0, 0, 0]] * 10])
    else:
        values = values[..., :1].copy()
    forest.estimators_ = (first, 0, 1, 2)
    with pytest.raises(ValueError, match=r"do not match|value array"):
        persistence._unpack_trees(forest, [counts, nodes, values])


@pytest.mark.parametrize(
    "lengths",
    [
        np.array([2, 2], dtype=np.int64),
        np.array([-1, 4], dtype=np.int64),
        np.array([2**62, 2**62, 2**62, 2**62, 3], dtype=np.int64),
        np.array([1.0, 2.0]),
        np.array([[1, 2]], dtype=np.int64),
    ],
)
def test_bins_that_do_not_match_their_bounds(lengths: NDArray[Any]) -> None:
    X, y = np.arange(60.0).reshape(30, 2), np.tile([0, 1], 15)
    trees = HistGradientBoostingClassifier(max_iter=1).fit(X, y)
    trees._bin_mapper.bin_thresholds_ = (0, 1)
    with pytest.raises(ValueError, match=r"of trees do not match"):
        persistence._unpack_trees(trees, [np.arange(3.0), lengths])


def test_reading_a_classifier_does_not_import_torch(tmp_path: Path) -> None:
    """It takes seconds, and skops would do it to list the estimators of scikit-learn."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    path = kdey.save(kdey.CC(lr()).fit(*blobs(40)), tmp_path / "m.kdey")
    code = f"import sys, kdey; kdey.load({str(path)!r}); sys.exit('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
