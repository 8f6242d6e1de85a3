"""A network trained on bags against methods that rest on label shift, on the same posteriors.

    python benchmarks/neural.py [--seeds 1 2 ...] [--settings NAME ...] [--classifiers NAME ...]
    python benchmarks/neural.py --table [--seeds 1 2 ...]

Sets are split 70/30. Every method gets the same out-of-fold training posteriors and the same 300
test bags; HistNetQ is trained on 2,000 bags of the training part that are drawn like the test bags,
or with labels of bags alone (``mixed``, ``drift``). From these bags "PACC, bags" learns its
templates, by least squares. Where bags are alike, "EMQ-BCTS, pooled" lets each lean on the others
(``predict_groups(shrink=True)``). Settings:

``uniform``
    prevalences uniform on the simplex, bags of 200;
``usual``
    prevalences of a Dirichlet distribution around the uniform one (concentration 10), bags of 100;
``sparse``
    prevalences near the corners (concentration 0.2), bags of 100;
``mixed``
    ``MixedShift`` of the first three features, bags of 200: the classes drift with every bag;
``drift``
    half of the features of every bag have moved by a quarter of a standard deviation since the
    labelled instances were collected; the prevalences of 2,000 bags after that are known;
``ordered``
    four sets with ordered classes, smooth prevalences, bags of 200; the error is the normalised
    match distance, elsewhere it is the absolute error.

One line per setting, set, seed, classifier and method in ``results/neural.jsonl``. The settings of
the network were chosen on seed 0, which neither runs nor counts in the table unless it is named.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kdey
import ordinal
from cases import DATA, Records, _read, quiet
from histogram_network import HistNetQ
from kdey.evaluation import APP, BagProtocol, DirichletProtocol
from kdey.metrics import get_metric
from kdey.posteriors import FittedStage, TrainingPosteriors, predict_posteriors, training_posteriors
from printing import markdown
from shifted_bags import MixedShift, SmoothAPP

#: Unordered sets: their files.
SETS = {
    "academic-success": "uci-multi/academic-success",
    "dry-bean": "uci-multi/dry-bean",
    "cmc": "uci-extra/cmc",
}
CLASSIFIERS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    "random forest": RandomForestClassifier(50, min_samples_leaf=3, random_state=0),
}
N_TRAINING, N_TEST = 2000, 300
#: Splits on which no setting of the network was chosen.
SEEDS = [1, 2, 3, 4]


@dataclass(frozen=True)
class Setting:
    """Bags of one kind.

    Attributes
    ----------
    sets : tuple of str
    protocol : callable
        From the number of bags, a seed and the features of the pool to the protocol.
    loss : str
    bag_size : int
    has_bags : bool
        Whether the network learns from bags whose instances have no labels.
    drifts : bool
        Whether the features of bags have moved since training.
    is_alike : bool
        Whether prevalences come from a distribution that bags can be pooled by.
    """

    sets: tuple[str, ...]
    protocol: Callable[[int, int, np.ndarray], BagProtocol]
    bag_size: int
    loss: str = "ae"
    has_bags: bool = False
    drifts: bool = False
    is_alike: bool = False


def _mixed(n_bags: int, seed: int, X: np.ndarray) -> MixedShift:
    return MixedShift(StandardScaler().fit_transform(X)[:, :3], n_bags, 200, seed)


SETTINGS = {
    "uniform": Setting(tuple(SETS), lambda n, s, X: APP(n, 200, s), 200),
    "usual": Setting(
        tuple(SETS),
        lambda n, s, X: DirichletProtocol(n, 100, s, concentration=10.0),
        100,
        is_alike=True,
    ),
    "sparse": Setting(
        tuple(SETS),
        lambda n, s, X: DirichletProtocol(n, 100, s, concentration=0.2),
        100,
        is_alike=True,
    ),
    "mixed": Setting(tuple(SETS), _mixed, 200, has_bags=True),
    "drift": Setting(tuple(SETS), lambda n, s, X: APP(n, 200, s), 200, has_bags=True, drifts=True),
    "ordered": Setting(tuple(ordinal.SETS), lambda n, s, X: SmoothAPP(n, 200, s), 200, loss="nmd"),
}


def methods(loss: str) -> dict[str, Any]:
    """Return the methods to compare with, by name."""
    made = {
        "PACC": kdey.PACC(),
        "EMQ": kdey.EMQ(),
        "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
        "KDEyML": kdey.KDEyML(random_state=0, tune_for=loss),
        "Quantifier": kdey.Quantifier(random_state=0),
    }
    if loss == "nmd":
        made["Ordered(EMQ-BCTS)"] = kdey.Ordered(made["EMQ-BCTS"])
        made["Ordered(PACC)"] = kdey.Ordered(made["PACC"])
    return made


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and codes of the classes with at least 50 rows (all of an ordered set)."""
    if name in ordinal.SETS:
        return ordinal.load(name)
    X, y = _read(DATA / f"{SETS[name]}.csv.gz")
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    keep = counts[codes] >= 50
    return X[keep], np.unique(codes[keep], return_inverse=True)[1]


def moved(X: np.ndarray, seed: int) -> np.ndarray:
    """Return features of which half have moved by a quarter of a standard deviation."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(X.shape[1])[: max(1, X.shape[1] // 2)]
    out = X.astype(np.float64)
    out[:, chosen] += 0.25 * out[:, chosen].std(axis=0) * rng.choice([-1.0, 1.0], len(chosen))
    return out


def run(records: Records, setting_name: str, name: str, seed: int, classifiers: list[str]) -> None:
    """Add the lines of one split that the records lack."""
    setting = SETTINGS[setting_name]
    X, y = load(name)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    classes = np.unique(y_train)
    bags = setting.protocol(N_TEST, seed, X_test).bags(y_test, classes)
    metric = get_metric(setting.loss)
    for label in classifiers:
        names = ["HistNetQ", *methods(setting.loss)]
        names += ["PACC, bags"] if setting.has_bags else []
        names += ["EMQ-BCTS, pooled"] if setting.is_alike else []
        missing = [m for m in names if (setting_name, name, seed, label, m) not in records]
        if not missing:
            continue
        model = CLASSIFIERS[label]
        fitted, training = training_posteriors(model, X_train, y_train, classes, cv=5)
        later = moved(X_test, seed) if setting.drifts else X_test
        posteriors = predict_posteriors(fitted, later, classes)
        known = Training(setting, training, fitted, X_train, y_train, seed)
        for method in missing:
            start = time.process_time()
            q = known.fit(method)
            seconds = time.process_time() - start
            answer = pooled if method.endswith("pooled") else type(q).aggregate_bags
            estimates = answer(q, posteriors, bags.bags)
            errors = metric(bags.prevalences, estimates, bag_size=setting.bag_size)
            head = {"setting": setting_name, "set": name, "seed": seed, "classifier": label}
            records.add(
                head
                | {"method": method, "error": round(float(errors.mean()), 6)}
                | {"se": round(float(errors.std() / np.sqrt(len(errors))), 6)}
                | {"fit_s": round(seconds, 2)}
            )


@dataclass(frozen=True)
class Training:
    """What the methods learn from.

    Attributes
    ----------
    setting : Setting
    posteriors : TrainingPosteriors
    classifier : fitted classifier
    X, y : arrays
        The training part.
    seed : int
    """

    setting: Setting
    posteriors: TrainingPosteriors
    classifier: Any
    X: np.ndarray
    y: np.ndarray
    seed: int

    def fit(self, method: str) -> Any:
        """Return a fitted method."""
        if method == "PACC, bags":
            rows, drawn = self._bags()
            means = drawn.bags.mean(rows)
            templates = np.linalg.lstsq(drawn.prevalences, means, rcond=None)[0].T
            templates = np.maximum(templates, 0.0)
            return kdey.PACC.from_misclassification(templates / templates.sum(axis=0))
        if method == "HistNetQ":
            return self._network()
        q = methods(self.setting.loss)[method.removesuffix(", pooled")]
        if method == "Quantifier":
            return q.fit_posteriors(self.posteriors.required(), self.posteriors.labels)
        stage = FittedStage(None, self.posteriors)
        return q._fit_stage(stage, np.zeros((len(self.y), 1)), self.posteriors.labels)

    def _protocol(self) -> BagProtocol:
        return self.setting.protocol(N_TRAINING, self.seed + 1000, self.X)

    def _bags(self) -> tuple[np.ndarray, Any]:
        """Return posteriors of the training part, and bags of which only prevalences are known."""
        rows = self.posteriors.required()
        if self.setting.drifts:
            later = moved(self.X, self.seed)
            rows = predict_posteriors(self.classifier, later, np.unique(self.y))
        return rows, self._protocol().bags(self.y)

    def _network(self) -> HistNetQ:
        q = HistNetQ(protocol=self._protocol(), loss=self.setting.loss, random_state=self.seed)
        if not self.setting.has_bags:
            return q.fit_posteriors(self.posteriors.required(), self.posteriors.labels)
        rows, drawn = self._bags()
        return q.fit_posterior_bags(rows, drawn.bags, drawn.prevalences)


def pooled(q: Any, posteriors: np.ndarray, bags: kdey.Bags) -> np.ndarray:
    """Return the prevalences of bags that lean on each other, shape (n_bags, k)."""
    names = [f"p{i}" for i in range(posteriors.shape[1])]
    table = pd.DataFrame(posteriors[bags.indices], columns=names)
    table["bag"] = np.repeat(np.arange(len(bags)), bags.sizes)
    answers = q.predict_groups(table, "bag", scores=names, shrink=True).to_frame()
    return answers.pivot(index="bag", columns="class", values="estimate").to_numpy()


#: Methods with a column of the table; the others are named in the last one.
COLUMNS = ("HistNetQ", "PACC", "EMQ", "EMQ-BCTS", "KDEyML", "Quantifier")


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the mean error over seeds and classifiers of each setting and set, the best in bold."""
    lines = []
    for setting in SETTINGS:
        for name in SETTINGS[setting].sets:
            part = [r for r in rows if (r["setting"], r["set"]) == (setting, name)]
            names = dict.fromkeys(r["method"] for r in part)
            means = {
                m: float(np.mean([r["error"] for r in part if r["method"] == m])) for m in names
            }
            if not set(COLUMNS) <= set(means):
                continue  # not finished
            best = min(means.values())
            texts = {m: f"**{e:.4f}**" if e == best else f"{e:.4f}" for m, e in means.items()}
            others = ", ".join(f"{m} {texts[m]}" for m in means if m not in COLUMNS)
            lines.append([setting, name, *(texts[m] for m in COLUMNS), others])
    print(markdown(["bags", "set", *COLUMNS, "others"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--classifiers", nargs="*", default=list(CLASSIFIERS))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("neural.jsonl", ("setting", "set", "seed", "classifier", "method"))
    if args.table:
        print_table([row for row in records.rows if row["seed"] in args.seeds])
        return
    quiet()
    with threadpool_limits(1):
        for seed in args.seeds:
            for setting in args.settings:
                for name in SETTINGS[setting].sets:
                    run(records, setting, name, seed, args.classifiers)


if __name__ == "__main__":
    main()
