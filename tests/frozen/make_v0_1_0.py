"""Freeze model files, search logs and results files of kdey 0.1.0.

Must be run with kdey 0.1.0, and with the oldest scikit-learn that it supports (1.6), so that every
supported version can load the classifiers inside the models:

    PYTHONPATH=<src of 0.1.0> python -m tests.frozen.make_v0_1_0

in an environment with the versions that ``scripts/versions.py`` prints. It writes
``tests/frozen/v0_1_0``: ``models/*.kdey``, ``searches/*.log``, ``results/*.jsonl``, the tables that
the command line was given, and ``answers.json`` with the inputs of every model (formulas of
``cases.py``) and all that 0.1.0 answered.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey.calibration import BCTS, PlattScaling
from kdey.diagnostics import hold_fold_models
from tests.frozen.cases import (
    FOLDER,
    RUNS,
    Inputs,
    answers,
    estimated_table,
    features,
    groups,
    is_analytic,
    kdey_command,
    limits,
    noise,
    plain,
    reproduce,
    result_tables,
    search_answers,
    searches,
)

SEEDED: dict[str, Any] = {"random_state": 0}
FEW = {"n_points": 60, "random_state": 0}
#: Models that are frozen without weights alone.
NUMBERS_ALONE = (
    *("cc", "pcc", "dm-cauchy-schwarz", "kdeyml-ilr", "ensemble-median", "kdeyl2-automatic"),
    *("kdeyml-automatic-rae", "kdeyml-automatic-best", "kdeyhd-automatic", "emq-calibrator"),
)


def on_posteriors() -> dict[str, Any]:
    """Return quantifiers for any number of classes, by the name of their files."""
    made: dict[str, Any] = {
        "cc": kdey.CC(),
        "pcc": kdey.PCC(),
        "acc": kdey.ACC(),
        "pacc": kdey.PACC(),
        "emq": kdey.EMQ(),
        "emq-em": kdey.EMQ(solver="em", tol=1e-12, max_iter=5000),
        "emq-calibrator": kdey.EMQ(calibration=BCTS()),
        "emq-platt-calibrator": kdey.EMQ(calibration=PlattScaling()),
        "dir": kdey.DIR(),
        "dir-shrunk": kdey.DIR(shrinkage=1e-3),
        "kdeyml-fixed": kdey.KDEyML(bandwidth=0.1),
        "kdeyml-automatic": kdey.KDEyML(**SEEDED),
        "kdeyml-automatic-gaussian": kdey.KDEyML(kernel="gaussian", **SEEDED),
        "kdeyml-automatic-best": kdey.KDEyML(average=False, **SEEDED),
        "kdeyml-automatic-rae": kdey.KDEyML(tune_for="rae", tune_bag_size=50, **SEEDED),
        "kdeyml-aitchison": kdey.KDEyML(bandwidth=0.5, kernel="aitchison"),
        "kdeyml-ilr": kdey.KDEyML(bandwidth=0.5, kernel="ilr", shrinkage=0.01),
        "kdeyml-scott": kdey.KDEyML(bandwidth="scott"),
        "kdeyml-silverman-double": kdey.KDEyML(bandwidth="silverman", precision="double"),
        "kdeycs-fixed": kdey.KDEyCS(bandwidth=0.1),
        "kdeycs-automatic": kdey.KDEyCS(**SEEDED),
        "kdeyl2-fixed": kdey.KDEyL2(bandwidth=0.1),
        "kdeyl2-automatic": kdey.KDEyL2(**SEEDED),
        "kdeyhd-fixed": kdey.KDEyHD(bandwidth=0.1, **FEW),
        "kdeyhd-automatic": kdey.KDEyHD(**FEW),
        "kdeyhd-kl": kdey.KDEyHD(bandwidth=0.4, kernel="aitchison", divergence="kl", **FEW),
        "dm-automatic": kdey.DM(**SEEDED),
        "dm-8": kdey.DM(n_bins=8),
        "dm-topsoe": kdey.DM(n_bins=6, divergence="topsoe"),
        "dm-cumulative": kdey.DM(n_bins=6, cdf=True),
        "dm-cauchy-schwarz": kdey.DM(n_bins=4, divergence="cauchy-schwarz"),
        "dm-mean-hellinger": kdey.DM(n_bins=4, divergence="mean-hellinger"),
        "one-vs-all-hdy": kdey.OneVsAll(kdey.HDy(n_bins=(4, 8))),
        "one-vs-all-softmax": kdey.OneVsAll(kdey.ACC(), normalisation="softmax"),
        "one-vs-all-kdeyml": kdey.OneVsAll(kdey.KDEyML(bandwidth=0.1)),
        "median": kdey.Median(kdey.KDEyCS(), {"bandwidth": [0.05, 0.1, 0.2]}),
        "ensemble": kdey.Ensemble(kdey.PACC(), n_members=3, **SEEDED),
        "ensemble-median": kdey.Ensemble(
            kdey.EMQ(), n_members=4, size=40, reduction="median", selection="prevalence", **SEEDED
        ),
    }
    for name in ("platt", "temperature", "bcts", "vector", "nbvs"):
        made[f"emq-{name}"] = kdey.EMQ(calibration=name)
    return made


def binary() -> dict[str, Any]:
    """Return quantifiers for two classes."""
    return {
        "hdy": kdey.HDy(n_bins=(4, 8, 12)),
        "hdy-automatic": kdey.HDy(n_bins="auto", **SEEDED),
        "dys": kdey.DyS(),
        "dys-l1": kdey.DyS(dissimilarity="l1", n_bins=6),
        "dys-automatic": kdey.DyS(n_bins="auto", **SEEDED),
        "mm": kdey.MM(n_bins=20),
        "mm-ks": kdey.MM(n_bins=20, criterion="ks"),
        "kdeyml-fixed": kdey.KDEyML(bandwidth=0.1),
        "emq-bcts": kdey.EMQ(calibration="bcts"),
        "acc": kdey.ACC(),
    }


def fitted_models() -> dict[str, tuple[Any, Inputs]]:
    """Return all models without a table, fitted, with their inputs."""
    made: dict[str, tuple[Any, Inputs]] = {}

    def add(name: str, quantifier: Any, inputs: Inputs) -> None:
        points, labels, weights = inputs.training()
        fit = quantifier.fit if inputs.features else quantifier.fit_posteriors
        made[name] = (fit(points, labels, weights), inputs)

    for name, quantifier in on_posteriors().items():
        add(name, quantifier, Inputs(seed=2))
    weighted = Inputs(seed=3, labels="texts", weighted=True)
    for name, quantifier in on_posteriors().items():
        if name not in NUMBERS_ALONE:
            add(f"{name}-weighted", quantifier, weighted)
    for name, quantifier in binary().items():
        add(f"{name}-binary", quantifier, Inputs(k=2, seed=4))
        add(f"{name}-truths", quantifier, Inputs(k=2, seed=5, labels="truths", weighted=True))
    many = Inputs(k=10, n=150, seed=6, labels="texts")
    for name, quantifier in (
        ("kdeyml-automatic", kdey.KDEyML(**SEEDED)),
        ("emq-bcts", kdey.EMQ(calibration="bcts")),
        ("acc", kdey.ACC()),
        ("dm-8", kdey.DM(n_bins=8)),
    ):
        add(f"{name}-ten", quantifier, many)
    add("kdeyml-single", kdey.KDEyML(bandwidth=0.1), Inputs(seed=7, single=True))
    on_features = Inputs(seed=8, features=True)
    add("dmx", kdey.DMx(), on_features)
    add("dmx-automatic", kdey.DMx(n_bins="auto"), on_features)
    add("dmx-weighted", kdey.DMx(), Inputs(seed=9, features=True, weighted=True))
    add("hdx", kdey.HDx(n_bins=(4, 8)), Inputs(k=2, seed=10, features=True))
    add("hdx-automatic", kdey.HDx(n_bins="auto"), Inputs(k=2, seed=10, features=True))
    add("training-prevalence", kdey.TrainingPrevalence(), on_features)
    texts = Inputs(seed=11, features=True, labels="texts")
    logistic = LogisticRegression(max_iter=1000)
    trees = ExtraTreesClassifier(4, max_depth=4, **SEEDED)
    add("logistic-kdeyml", kdey.KDEyML(logistic, **SEEDED), texts)
    add("logistic-emq", kdey.EMQ(logistic, calibration="bcts", cv=3, **SEEDED), texts)
    add("trees-kdeyml", kdey.KDEyML(trees, cv=3, **SEEDED), texts)
    add("bayes-one-vs-all", kdey.OneVsAll(kdey.PACC(GaussianNB(), cv=3, **SEEDED)), texts)
    add("bayes-ensemble", kdey.Ensemble(kdey.CC(GaussianNB()), n_members=2, **SEEDED), texts)
    add("bayes-folds-pacc", kdey.PACC(GaussianNB(), cv=3, **SEEDED), texts)
    points, labels, _ = texts.training()
    hold_fold_models(made["bayes-folds-pacc"][0], points, labels)
    made["acc-rates"] = (kdey.ACC.from_rates(0.9, 0.95), Inputs(k=2, seed=12))
    matrix = [[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.1, 0.2, 0.7]]
    rates = kdey.PACC.from_misclassification(matrix, classes=Inputs(labels="texts").classes)
    made["pacc-rates"] = (rates, Inputs(seed=13, labels="texts"))
    return made


def freeze_models(folder: Path) -> dict[str, Any]:
    """Write the model files; return inputs and answers by name."""
    folder.mkdir(parents=True)
    made = {}
    for name, (quantifier, inputs) in fitted_models().items():
        kdey.save(quantifier, folder / f"{name}.kdey")
        made[name] = {"inputs": plain(inputs), "answers": answers(quantifier, inputs)}
        if hasattr(quantifier, "training_") and is_analytic(quantifier, inputs):
            made[name]["limits"] = limits(quantifier, inputs)
            if not inputs.features:
                made[name]["groups"] = groups(quantifier, inputs)
    return made


def freeze_table_model(folder: Path) -> dict[str, Any]:
    """Write tables, and a model that ``kdey fit`` makes of one; return its answers."""
    codes = (noise((60,), 21) * 3).astype(np.int64)
    for name, seed in (("labelled", 22), ("new", 24)):
        points = features(codes, seed)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["length", "width", "colour", "field", "day", "kind"])
            for i, (code, point) in enumerate(zip(codes, points, strict=True)):
                colour = "red" if (i + code) % 3 else "blue"
                field, day = ("east", "west")[i % 2], f"2026-01-{5 + i % 14:02d}"
                writer.writerow([*point.tolist(), colour, field, day, "abc"[code]])
    model = folder / "models" / "table.kdey"
    kdey_command(
        *("fit", folder / "labelled.csv", "--label", "kind", "--ignore", "field,day"),
        *("-o", model),
    )
    return estimated_table(model, folder / "new.csv")


def freeze_searches(folder: Path) -> dict[str, Any]:
    """Write the logs of finished searches, and one that was stopped half-way."""
    folder.mkdir()
    made = {}
    for name, (search, (X, y)) in searches().items():
        log = folder / f"{name}.log"
        search.set_params(log=log).fit(X, y)
        made[name] = search_answers(search)
    lines = (folder / "kdeyml.log").read_bytes().splitlines(keepends=True)
    # The header, half of the six candidates, and a line that was being written.
    (folder / "kdeyml-stopped.log").write_bytes(b"".join(lines[:4]) + lines[4][:40])
    return made


def freeze_results(folder: Path) -> dict[str, Any]:
    """Write results files; return the values of their tables."""
    folder.mkdir()
    made = {}
    for name in RUNS:
        path = folder / f"{name}.jsonl"
        reproduce(name, path)
        if name != "sensitivity":  # its curves make figures
            with tempfile.TemporaryDirectory() as tables:
                made[name] = result_tables(path, Path(tables))
    return made


def main() -> None:
    """Write everything anew."""
    if kdey.__version__ != "0.1.0" or not sklearn.__version__.startswith("1.6."):
        raise SystemExit(
            "this must be run with kdey 0.1.0 and scikit-learn 1.6, not "
            f"{kdey.__version__} and {sklearn.__version__}"
        )
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    made = {
        "models": freeze_models(FOLDER / "models"),
        "table": freeze_table_model(FOLDER),
        "searches": freeze_searches(FOLDER / "searches"),
        "results": freeze_results(FOLDER / "results"),
    }
    text = json.dumps(made, separators=(",", ":"))
    # One line per model, search and table.
    text = text.replace('},"', '},\n"').replace(']],"', ']],\n"')
    (FOLDER / "answers.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
