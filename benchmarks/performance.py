"""Accuracy and F1 of a classifier on unlabelled bags: how far off, and how often covered.

    python benchmarks/performance.py --redraws 5     # measures, and writes the summary
    python benchmarks/performance.py --table         # prints what is stored

Every repetition redraws the training set of a real set and twenty bags from its other rows, without
replacement, whose shares are uniform on the simplex or near a corner (those of
``coverage_default.py``). A standardised logistic regression is watched. Beside ``kdey``
(``estimate_performance`` by KDEyML) stand its cross-validated accuracy, which takes the bag for the
training set; the mean confidence of its decisions; and NannyML's CBPE (``performance_peer.py``, in
an environment of its own, on the first five redraws: ``--keep-posteriors`` writes what it reads).
The truth is what the classifier does on the bag; "macro F1" is the mean over the classes that are
there or decided for, but for CBPE: it is compared with the mean over all classes, which it
estimates, and for two classes with the F1 of class 1.

Coverage is that of 95 % intervals: of the bag itself, and of its population, whose truth is the
share of classes behind the bag times the recall on all rows outside training.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, f1_score
from threadpoolctl import threadpool_limits

import kdey
from coverage_default import SOURCES, draw_bags, load, make_estimator, split
from printing import markdown
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE, FOLDER = RAW / "performance.jsonl", RAW / "performance"
SUMMARY = RESULTS / "performance.csv"
KEYS = ("source",)
WAYS = ("kdey", "true shares", "cross-validation", "confidence", "CBPE")
#: First seed of the redraws.
FIRST = 500


def repetition(name: str, seed: int, n_bags: int, keep: bool) -> dict[str, Any]:
    """Return errors and coverage of one redraw: a number per bag."""
    X, y = load(name)
    source, k = SOURCES[name], int(y.max()) + 1
    rng = np.random.default_rng([seed, 17])
    training, others = split(y, source.training, None, 0, rng)
    drawn, truth, shares = draw_bags(y[others], k, source.bag, n_bags, rng)
    quantifier = make_estimator("KDEyML").fit(X[training], y[training])
    rows = np.concatenate(drawn)
    pool, labels = X[others][rows], y[others][rows].reshape(n_bags, -1)
    posteriors = quantifier.classifier_.predict_proba(pool)
    decided = posteriors.argmax(axis=1).reshape(labels.shape)
    bags = np.arange(len(pool)).reshape(labels.shape)
    everywhere = quantifier.classifier_.predict_proba(X[others]).argmax(axis=1)
    recall = np.array(
        [
            np.bincount(everywhere[y[others] == c], minlength=k) / (y[others] == c).sum()
            for c in range(k)
        ]
    )
    known = quantifier.model_.training
    if keep:
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.savez(
            FOLDER / f"{name}.{seed}.npz",
            training=known.posteriors,
            labels=known.labels,
            bags=posteriors.reshape(n_bags, -1, k),
        )
    true = np.array([scores(*pair, k) for pair in zip(labels, decided, strict=True)])
    found = {
        target: kdey.estimate_performance(
            quantifier, quantifier.estimate_bags(pool, list(bags), target=target, check_fit=False)
        )
        for target in ("bag", "population")
    }
    own = known.posteriors.argmax(axis=1)
    own_recall = np.array(
        [
            np.bincount(own[known.labels == c], minlength=k) / (known.labels == c).sum()
            for c in range(k)
        ]
    )
    answers = {
        "kdey": found["bag"].estimate[:, :2],
        "true shares": np.array([of_shares(a, own_recall) for a in shares]),
        "cross-validation": np.tile(scores(known.labels, own, k)[:2], (n_bags, 1)),
        "confidence": confidence(posteriors.reshape(n_bags, -1, k)),
    }
    expected = {"bag": true[:, :2], "population": np.array([of_shares(a, recall) for a in truth])}
    covered = {
        target: (
            (made.low[:, :2] <= expected[target] + 1e-9)
            & (expected[target] <= made.high[:, :2] + 1e-9)
        )
        for target, made in found.items()
    }
    return {
        "truth": true.round(5).tolist(),
        "answers": {way: made.round(5).tolist() for way, made in answers.items()},
        "covered": {target: part.astype(int).tolist() for target, part in covered.items()},
        "width": {
            target: (made.high - made.low)[:, :2].round(4).tolist()
            for target, made in found.items()
        },
    }


def scores(labels: np.ndarray, decided: np.ndarray, k: int) -> tuple[float, float, float]:
    """Return accuracy, macro F1, and the F1 that CBPE estimates."""
    macro = float(f1_score(labels, decided, average="macro", zero_division=0))
    # NannyML averages over all classes.
    all_classes = {"average": "macro", "labels": range(k)} if k > 2 else {"pos_label": 1}
    theirs = float(f1_score(labels, decided, zero_division=0, **all_classes))
    return float(accuracy_score(labels, decided)), macro, theirs


def of_shares(shares: np.ndarray, recall: np.ndarray) -> tuple[float, float]:
    """Return accuracy and macro F1 by shares and recalls, in the plainest way."""
    confusion = shares[:, None] * recall
    f1 = [
        2 * confusion[c, c] / (confusion[c].sum() + confusion[:, c].sum())
        for c in range(len(shares))
        if confusion[c].sum() + confusion[:, c].sum() > 0
    ]
    return float(np.trace(confusion)), float(np.mean(f1))


def confidence(bags: np.ndarray) -> np.ndarray:
    """Return accuracy and macro F1 if posteriors were calibrated, of bags (n_bags, m, k)."""
    made = []
    for p in bags:
        hot = np.eye(p.shape[1])[p.argmax(axis=1)]
        confusion = p.T @ hot / len(p)
        shares = confusion.sum(axis=1)
        made.append(of_shares(shares, confusion / np.maximum(shares, 1e-300)[:, None]))
    return np.array(made)


def work(options: argparse.Namespace) -> None:
    """Run the repetitions that the raw file does not have."""
    done = {record["key"] for record in read_raw(FILE)}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a", encoding="utf-8") as file, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST, FIRST + options.redraws):
            for name in options.sources:
                key = f"{name}/{seed}/{options.bags}"
                if key in done:
                    continue
                row = {"key": key, "source": name, "seed": seed}
                row |= repetition(name, seed, options.bags, options.keep_posteriors)
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
                file.flush()
                print(key, flush=True)


def summarise() -> None:
    """Write one line per set to the summary."""
    rows = []
    records = list(read_raw(FILE))
    stored = {row["source"]: row for row in read_summary(SUMMARY)}
    for name in SOURCES:
        own = [record for record in records if record["source"] == name]
        if not own:
            continue
        truth = np.concatenate([record["truth"] for record in own])
        row: dict[str, Any] = {"source": name, "bags": len(truth)}
        for way in WAYS:
            errors = truth[:, :2] * np.nan
            if way != "CBPE":
                made = np.concatenate([record["answers"][way] for record in own])
                errors = np.abs(made - truth[:, :2])
            elif any(_peer(record).exists() for record in own):
                with_peer = [record for record in own if _peer(record).exists()]
                read = [json.loads(_peer(record).read_text()) for record in with_peer]
                made = np.concatenate(
                    [np.transpose([part["accuracy"], part["f1"]]) for part in read]
                )
                errors = np.abs(made - np.concatenate([r["truth"] for r in with_peer])[:, [0, 2]])
            else:  # what an earlier run, beside the peer's environment, has found on these bags
                known = stored.get(name, {})
                row |= {head: known.get(head, "nan") for head in ("CBPE accuracy", "CBPE f1")}
                continue
            row |= {f"{way} accuracy": errors[:, 0].mean(), f"{way} f1": errors[:, 1].mean()}
        for target in ("bag", "population"):
            covered = np.concatenate([record["covered"][target] for record in own])
            width = np.concatenate([record["width"][target] for record in own])
            for number, measure in enumerate(("accuracy", "f1")):
                row[f"{target} {measure} covered"] = covered[:, number].mean()
                row[f"{target} {measure} width"] = width[:, number].mean()
        rows.append(row)
    update_summary(SUMMARY, rows, KEYS)


def _peer(record: dict[str, Any]) -> Any:
    return FOLDER / f"{record['source']}.{record['seed']}.cbpe.json"


def tables() -> None:
    """Print the errors, and the coverage."""
    rows = read_summary(SUMMARY)
    mean = {"source": "mean"} | {
        name: str(np.mean([float(row[name]) for row in rows]))
        for name in rows[0]
        if name != "source"
    }

    def number(row: dict[str, str], name: str) -> str:
        value = float(row[name])
        return "-" if np.isnan(value) else f"{value:.3f}"

    for measure in ("accuracy", "f1"):
        names = [f"{way} {measure}" for way in WAYS]
        lines = [[row["source"], *(number(row, name) for name in names)] for row in (*rows, mean)]
        print(markdown(["data", *WAYS], lines))
        print()
    ends = [
        f"{target} {measure} {end}"
        for target in ("bag", "population")
        for measure in ("accuracy", "f1")
        for end in ("covered", "width")
    ]
    lines = [[row["source"], *(number(row, name) for name in ends)] for row in (*rows, mean)]
    heads = [name.replace("f1", "F1").replace("covered", "coverage") for name in ends]
    print(markdown(["data", *heads], lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--redraws", type=int, default=5)
    parser.add_argument("--bags", type=int, default=20)
    parser.add_argument("--sources", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--keep-posteriors", action="store_true")
    asked = parser.parse_args()
    if not asked.table:
        work(asked)
        summarise()
    tables()
