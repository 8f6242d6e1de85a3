"""Inputs of the frozen data of 0.1.0, and the questions that were put to it.

Inputs are formulas in whole numbers and exact fractions, so that they have the same bits on every
machine. Nothing here may change: ``make_v0_1_0.py`` asked these questions of 0.1.0 and
``test_v0_1_0.py`` asks them of the present tree. Only public names are used.
"""

from __future__ import annotations

import csv
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FOLDER = Path(__file__).parent / "v0_1_0"
#: Instances of a bag, and of each of the three bags over it.
BAG_SIZE, BAGS = 80, (slice(0, 30), slice(20, 65), slice(10, 80))
_LABELS = {
    "numbers": [2, 5, 9, 11, 12, 13, 14, 15, 16, 17],
    "texts": [f"kind {letter}" for letter in "abcdefghij"],
    "truths": [False, True],
}


@dataclass(frozen=True)
class Inputs:
    """What a model was fitted on.

    Attributes
    ----------
    k : int
        Number of classes.
    n : int
        Number of training instances.
    seed : int
    labels : {"numbers", "texts", "truths"}
    weighted : bool
        Whether training instances have weights.
    features : bool
        Whether points are features instead of posteriors.
    single : bool
        Whether posteriors have single precision.
    """

    k: int = 3
    n: int = 100
    seed: int = 1
    labels: str = "numbers"
    weighted: bool = False
    features: bool = False
    single: bool = False

    @property
    def classes(self) -> NDArray[Any]:
        """The labels in order."""
        return np.array(_LABELS[self.labels][: self.k])

    def training(self) -> tuple[Array, NDArray[Any], Array | None]:
        """Return points, labels and weights."""
        codes = self._codes(self.n, self.seed)
        weights = 0.5 + noise((self.n,), self.seed + 900) if self.weighted else None
        return self._points(codes, self.seed + 100), self.classes[codes], weights

    def bag(self) -> tuple[Array, Array]:
        """Return the points of a bag whose first class is rare, and weights of its instances."""
        codes = self._codes(BAG_SIZE, self.seed + 200)
        codes[(codes == 0) & (np.arange(BAG_SIZE) % 4 > 0)] = self.k - 1
        return self._points(codes, self.seed + 300), 0.5 + noise((BAG_SIZE,), self.seed + 400)

    def _codes(self, n: int, seed: int) -> NDArray[np.int64]:
        codes = (noise((n,), seed) * self.k).astype(np.int64)
        codes[: 2 * self.k] = np.arange(2 * self.k) % self.k  # two of each class at least
        return codes

    def _points(self, codes: NDArray[np.int64], seed: int) -> Array:
        if self.features:
            return features(codes, seed)
        made = posteriors(codes, self.k, seed)
        return made.astype(np.float32) if self.single else made


def noise(shape: tuple[int, ...], seed: int) -> Array:
    """Return numbers in [0, 1) by SplitMix64: multiples of 2**-32, the same on every machine."""
    size = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(32)).astype(np.float64) / 2.0**32).reshape(shape)


def posteriors(codes: NDArray[np.int64], k: int, seed: int) -> Array:
    """Return posteriors (n, k) of a fair classifier.

    Classes overlap: where they do not, limits and calibrations hang on the last bits.
    """
    raw = noise((len(codes), k), seed) + 0.0625
    raw[np.arange(len(codes)), codes] *= 3.0
    squared = raw * raw
    return squared / squared.sum(axis=1, keepdims=True)


def features(codes: NDArray[np.int64], seed: int) -> Array:
    """Return two features in exact fractions, whose means depend on the class."""
    spread = noise((len(codes), 2), seed) + noise((len(codes), 2), seed + 1)
    return spread + np.stack([codes * 0.75, (codes % 2) * 0.5], axis=1)


def bags() -> list[NDArray[np.int64]]:
    """Return three bags over a pool of ``BAG_SIZE`` instances."""
    return [np.arange(BAG_SIZE)[part] for part in BAGS]


# Questions


def answers(quantifier: Any, inputs: Inputs) -> dict[str, Any]:
    """Return what a fitted quantifier answers, as plain values."""
    points, weights = inputs.bag()
    made: dict[str, Any] = {
        "classes": quantifier.classes_.tolist(),
        "training_prevalence": quantifier.prevalence_.tolist(),
        "chosen": {
            name: getattr(quantifier, name)
            for name in ("bandwidth_", "kernel_", "shrinkage_", "n_bins_")
            if hasattr(quantifier, name)
        },
    }
    if getattr(quantifier, "tuning_", None) is not None:
        tuning = quantifier.tuning_
        made["tuning"] = {
            "values": [[t.setting, t.value, t.score, t.spread, t.weight] for t in tuning.trials],
            "metric": tuning.metric,
            "baseline": tuning.baseline,
        }
    if inputs.features:
        solved = quantifier.solve(points, bags())
        made["whole"] = quantifier.predict(points).tolist()
        made["weighted"] = quantifier.predict(points, weights).tolist()
    else:
        solved = quantifier.solve_posteriors(points, bags())
        made["whole"] = quantifier.aggregate(points).tolist()
        made["weighted"] = quantifier.aggregate(points, weights).tolist()
    made["bags"] = solved.prevalence.tolist()
    made["objective"] = solved.objective.tolist()
    made["converged"] = solved.converged.tolist()
    if hasattr(quantifier, "adjust"):
        made["adjusted"] = quantifier.adjust(np.full(inputs.k, 1 / inputs.k)).tolist()
    return made


def is_analytic(quantifier: Any, inputs: Inputs) -> bool:
    """Whether ``estimate`` gives analytic limits without being asked for them."""
    ask = quantifier.estimate if inputs.features else quantifier.estimate_posteriors
    return bool(ask(inputs.bag()[0][:30], n_replicates=20).method == "analytic")


def limits(quantifier: Any, inputs: Inputs) -> dict[str, Any]:
    """Return analytic limits for both targets, of the bag with and without weights."""
    points, weights = inputs.bag()
    ask = quantifier.estimate if inputs.features else quantifier.estimate_posteriors
    made = {}
    for target in ("population", "bag"):
        for name, given in {"whole": None, "weighted": weights}.items():
            estimate = ask(points, sample_weight=given, target=target, method="analytic")
            made[f"{target}, {name}"] = [estimate.low.tolist(), estimate.high.tolist()]
    clusters = np.arange(BAG_SIZE) // 4
    estimate = ask(points, clusters=clusters, confidence=0.8, method="analytic")
    made["clusters"] = [estimate.low.tolist(), estimate.high.tolist()]
    made["counted"] = estimate.classify_and_count.tolist()
    return made


def groups(quantifier: Any, inputs: Inputs) -> dict[str, Any]:
    """Return the answers by group of a table of scores."""
    import pyarrow as pa

    points = np.array(inputs.bag()[0])
    points[7] = np.nan
    names = [f"p_{label}" for label in inputs.classes]
    table = pa.table(
        {name: points[:, i] for i, name in enumerate(names)}
        | {
            "office": ["north" if i % 3 else "south" for i in range(BAG_SIZE)],
            "day": np.datetime64("2026-01-05") + (np.arange(BAG_SIZE) // 6).astype("m8[D]"),
        }
    )
    made = quantifier.predict_groups(
        table, "office", scores=names, time="day", every="1w", method="analytic"
    )
    plain: dict[str, Any] = made.to_pydict()
    plain["day"] = [str(day)[:10] for day in plain["day"]]
    return plain


# Searches


def search_data() -> tuple[Array, NDArray[Any]]:
    """Return the training data of the searches on three classes."""
    points, labels, _ = Inputs(n=150, seed=40, features=True, labels="texts").training()
    return points, labels


def binary_search_data() -> tuple[Array, NDArray[Any]]:
    """Return the training data of the searches of binary methods."""
    points, labels, _ = Inputs(k=2, n=120, seed=41, features=True).training()
    return points, labels


def searches() -> dict[str, tuple[Any, tuple[Array, NDArray[Any]]]]:
    """Return a search of every quantifier with its data.

    The classifier has no parameters that differ between versions of scikit-learn.
    """
    from sklearn.naive_bayes import GaussianNB

    import kdey
    from kdey.calibration import BCTS, VectorScaling

    bayes = GaussianNB()
    common: dict[str, Any] = {
        "protocol": kdey.APP(n_bags=12, bag_size=30, random_state=0),
        "refit": False,
        "verbose": False,
    }
    seeded: dict[str, Any] = {"random_state": 0, "cv": 3}
    widths = {"bandwidth": [0.05, 0.1, 0.4]}
    grids: dict[str, tuple[Any, Any]] = {
        "kdeyml": (
            kdey.KDEyML(bayes, **seeded),
            widths | {"classifier__var_smoothing": [1e-9, 0.25]},
        ),
        "kdeyml-default-classifier": (kdey.KDEyML(**seeded), {"bandwidth": [0.1, 0.2]}),
        "kdeycs": (kdey.KDEyCS(bayes, **seeded), widths),
        "kdeyl2": (kdey.KDEyL2(bayes, **seeded), widths),
        "kdeyhd": (kdey.KDEyHD(bayes, n_points=100, **seeded), {"bandwidth": [0.1, 0.2]}),
        "emq": (kdey.EMQ(bayes, **seeded), {"calibration": [None, "bcts"]}),
        "emq-calibrators": (
            kdey.EMQ(bayes, **seeded),
            {"calibration": [BCTS(), VectorScaling()]},
        ),
        "dir": (kdey.DIR(bayes, **seeded), {"shrinkage": [1e-6, 1e-3]}),
        "cc": (kdey.CC(bayes), {"classifier__var_smoothing": [1e-9, 0.25]}),
        "pcc": (kdey.PCC(bayes), {"classifier__var_smoothing": [1e-9, 0.25]}),
        "acc": (kdey.ACC(bayes, **seeded), {"cv": [3, 0.4]}),
        "pacc": (kdey.PACC(bayes, **seeded), {"cv": [3, 0.4]}),
        "dm": (kdey.DM(bayes, **seeded), {"n_bins": [4, 8]}),
        "dmx": (kdey.DMx(), {"n_bins": [4, 8]}),
        "one-vs-all": (
            kdey.OneVsAll(kdey.HDy(bayes, **seeded)),
            {"quantifier__n_bins": [(4, 8), (6,)]},
        ),
        "median": (
            kdey.Median(kdey.KDEyCS(bayes, **seeded), {"bandwidth": [0.1, 0.2, 0.3]}),
            {"quantifier__kernel": ["gaussian", "aitchison"]},
        ),
        "ensemble": (
            kdey.Ensemble(kdey.PACC(bayes, **seeded), random_state=0),
            {"n_members": [2, 3]},
        ),
    }
    binary: dict[str, tuple[Any, Any]] = {
        "hdy": (kdey.HDy(bayes, **seeded), {"n_bins": [(4, 8), "auto"]}),
        "hdx": (kdey.HDx(), {"n_bins": [(4, 8), (6,)]}),
        "dys": (kdey.DyS(bayes, **seeded), {"dissimilarity": ["topsoe", "l1"]}),
        "mm": (kdey.MM(bayes, **seeded), {"criterion": ["pp-area", "ks"]}),
    }
    three, two = search_data(), binary_search_data()
    made = {n: (kdey.GridSearchQ(q, g, **common), three) for n, (q, g) in grids.items()}
    made |= {n: (kdey.GridSearchQ(q, g, **common), two) for n, (q, g) in binary.items()}
    made["random"] = (
        kdey.RandomSearchQ(kdey.KDEyML(bayes, **seeded), widths, n_iter=2, **common),
        three,
    )
    # One value each: what Optuna would ask for next differs between its versions.
    made["optuna"] = (
        kdey.OptunaSearchQ(
            kdey.KDEyML(bayes, **seeded),
            {"bandwidth": [0.1], "kernel": ["gaussian"]},
            n_trials=2,
            **common,
        ),
        three,
    )
    made["two-metrics"] = (
        kdey.GridSearchQ(
            kdey.DM(bayes, **seeded), {"n_bins": [4, 8]}, scoring=["ae", "rae"]
        ).set_params(**common | {"refit": False}),
        three,
    )
    return made


def search_answers(search: Any) -> dict[str, Any]:
    """Return what a finished search found, as plain values."""
    scores = {
        name: np.asarray(values, dtype=np.float64).tolist()
        for name, values in search.cv_results_.items()
        if name.startswith(("mean_test", "std_test", "rank_test"))
    }
    best = {name: str(value) for name, value in search.best_params_.items()}
    return {"best": best, "best_score": search.best_score_, "scores": scores}


# The command line

#: What the results files hold: the arguments of ``kdey reproduce`` but for the file.
RUNS = {
    "multi": (
        *("multi", "--quick", "--datasets", "bundled/iris", "--one-classifier"),
        # The methods of 0.1.0: later ones are missing in its results.
        *("--methods", "ACC", "PACC", "HDy-OvA", "DM-T", "DM-HD", "KDEy-HD", "DM-CS", "KDEy-CS"),
        *("KDEy-L2", "DIR", "EMQ", "EMQ-BCTS", "KDEy-ML"),
    ),
    "binary": (
        *("binary", "--quick", "--datasets", "bundled-binary/iris.2", "--methods", "HDy", "ACC"),
        "--one-classifier",
    ),
    "sensitivity": ("sensitivity", "--quick", "--datasets", "bundled/iris"),
}


def kdey_command(*arguments: object) -> str:
    """Run ``kdey ARGUMENTS`` in this process; return what it writes to standard output."""
    from kdey.cli import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    told = io.StringIO()
    before, sys.argv = sys.argv, ["kdey", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(told):
            main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"kdey ended with {end.code}: {told.getvalue()}") from end
    finally:
        sys.argv = before
    out.seek(0)
    return out.read()


def reproduce(name: str, results: Path) -> None:
    """Run the experiments of a results file; finished ones are not run again."""
    kdey_command("reproduce", *RUNS[name], "--jobs", 1, "--results", results)


def result_tables(results: Path, folder: Path) -> dict[str, list[list[Any]]]:
    """Return the values of all tables of a results file, by the name of the table."""
    kdey_command("reproduce", "tables", "--results", results, "--out", folder, "--quiet")
    made = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        made[path.stem] = [[row["row"], row["column"], float(row["value"])] for row in rows]
    return made


def estimated_table(model: Path, table: Path) -> dict[str, list[Any]]:
    """Return what ``kdey estimate`` writes for a table by field."""
    text = kdey_command(
        *("estimate", model, table, "--by", "field", "--time", "day", "--every", "1w"),
        *("--jobs", 1, "--format", "csv"),
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: [row[name] for row in rows] for name in rows[0]}


def plain(inputs: Inputs) -> dict[str, Any]:
    """Return inputs as plain values."""
    return asdict(inputs)
