"""Confident and wrong: bags whose interval misses, and whose status is "no problem found".

``python benchmarks/confident_wrong.py`` fits ``Quantifier()`` to splits of several data sets
(numbers, numbers and categories, embeddings, texts), changes bags of 300 and 2,000 rows in a dozen
ways, and counts per data set, change and size the bags that are wrong (some interval misses the
true share by more than five points), those of them that were said to have no problem, and those
with an alarm. ``label shift`` changes nothing but the shares: its alarms are false. Rows of an
unknown class belong to no class: their share is missing from the truth.

``classes trade rows`` makes rows of one class look like another's, which is label shift to whoever
sees no labels: no check can find it. Beside it stands the median factor by which the density of a
class would have to change for the drift intervals to reach the truth.

Outcomes go to ``build/benchmarks/confident_wrong.jsonl``; a stopped run goes on from there (half an
hour of processor time). ``--table`` prints the tables of ``docs/lab/checks.md``, and
``--figure`` draws its picture. Without ``KDEY_DATA`` only the sets of scikit-learn and synthetic
texts are used.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression

import kdey
from fit_check import DATA
from kdey import status
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE = RAW / "confident_wrong.jsonl"
SUMMARY = RESULTS / "confident_wrong.csv"
KEYS = ("data", "labels", "size", "change")
COUNTS = ("bags", "alarms", "wrong", "confident_and_wrong")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "what-a-check-sees.png"
#: Rows of bags, and how far an interval must miss to be wrong.
SIZES, MISS = (300, 2000), 0.05
#: Most rows of training; "few" has 20 of each class.
MOST, FEW = 2000, 20
#: A class that has fewer rows is left out.
LEAST = 150

Array = np.ndarray


@dataclass(frozen=True)
class Rows:
    """Rows of a data set: numbers, categories beside them, or texts as lists of words."""

    numbers: Array
    categories: Array
    texts: Array | None = None

    def __getitem__(self, rows: Array) -> Rows:
        texts = None if self.texts is None else self.texts[rows]
        return Rows(self.numbers[rows], self.categories[rows], texts)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def X(self) -> Any:
        """What a quantifier is given: an array, or a frame where there are words."""
        if self.texts is not None:
            return pd.DataFrame({"text": [" ".join(words) for words in self.texts]})
        if self.categories.shape[1] == 0:
            return self.numbers
        frame = pd.DataFrame(self.numbers).add_prefix("n")
        for i, column in enumerate(self.categories.T):
            frame[f"c{i}"] = [f"level {value}" for value in column]
        return frame


@dataclass(frozen=True)
class Training:
    """What changes know of the classes: of numbers in units of their standard deviation."""

    rows: Rows
    y: Array

    @property
    def scale(self) -> Array:
        """Standard deviations."""
        return self.rows.numbers.std(axis=0) + 1e-12

    def unknown_shift(self, off: bool, rng: np.random.Generator) -> Array:
        """Return how far an unknown class lies from a known one: as classes do from each other.

        In the direction that separates the two classes farthest apart, or at right angles to the
        weights of a logistic regression, which sees no change then.
        """
        Z = self.rows.numbers / self.scale
        means = np.array([Z[self.y == label].mean(axis=0) for label in np.unique(self.y)])
        gaps = (means[:, None] - means[None]).reshape(-1, Z.shape[1])
        widest = gaps[np.argmax((gaps**2).sum(axis=1))]
        length = max(float(np.linalg.norm(widest)), 2.0)
        if not off:
            return length * self.scale * widest / np.linalg.norm(widest)
        weights = LogisticRegression(max_iter=200).fit(Z, self.y).coef_
        beside = rng.normal(size=Z.shape[1])
        used = np.linalg.svd(weights, full_matrices=False)[2]
        if len(used) < Z.shape[1]:
            beside -= used.T @ (used @ beside)
        return length * self.scale * beside / np.linalg.norm(beside)

    def words(self, n: int, rng: np.random.Generator) -> Array:
        """Return words as frequent as in all of training."""
        words = np.concatenate([np.asarray(text, dtype=object) for text in self.rows.texts])
        return rng.choice(words, n)


#: A change returns the changed rows, and which of them belong to an unknown class.
Change = Callable[[Training, Rows, Array, np.random.Generator], tuple[Rows, Array]]


def _known(rows: Rows) -> Array:
    return np.zeros(len(rows), dtype=bool)


def numeric(change: Callable[[Training, Rows, Array, np.random.Generator], Array]) -> Change:
    """Return the change of the numbers of rows."""

    def changed(t: Training, rows: Rows, y: Array, rng: np.random.Generator) -> tuple[Rows, Array]:
        return replace(rows, numbers=change(t, rows, y, rng)), _known(rows)

    return changed


def unknown(share: float, off: bool) -> Change:
    """Return the change that moves a share of rows to where an unknown class is."""

    def change(t: Training, rows: Rows, y: Array, rng: np.random.Generator) -> tuple[Rows, Array]:
        strange = rng.random(len(rows)) < share
        moved = rows.numbers + strange[:, None] * t.unknown_shift(off, rng)
        return replace(rows, numbers=moved), strange

    return change


def spread(t: Training) -> int:
    """Return the column with the largest standard deviation of its values."""
    return int(np.argmax(t.scale))


def with_column(rows: Rows, i: int, values: Any) -> Array:
    numbers = rows.numbers.copy()
    numbers[:, i] = values
    return numbers


NUMERIC: dict[str, Change] = {
    "label shift": numeric(lambda t, rows, y, rng: rows.numbers),
    "all columns + 0.25 sd": numeric(lambda t, rows, y, rng: rows.numbers + 0.25 * t.scale),
    "all columns + 0.5 sd": numeric(lambda t, rows, y, rng: rows.numbers + 0.5 * t.scale),
    "one class - 0.5 sd": numeric(
        lambda t, rows, y, rng: rows.numbers - 0.5 * t.scale * (y == 0)[:, None]
    ),
    "one column in other units": numeric(
        lambda t, rows, y, rng: with_column(rows, spread(t), 2.54 * rows.numbers[:, spread(t)])
    ),
    "noise of 0.5 sd": numeric(
        lambda t, rows, y, rng: rows.numbers + 0.5 * t.scale * rng.normal(size=rows.numbers.shape)
    ),
    "a column constant": numeric(
        lambda t, rows, y, rng: with_column(rows, spread(t), t.rows.numbers[:, spread(t)].mean())
    ),
    # Rows are chosen when the bag is drawn.
    "covariate selection": numeric(lambda t, rows, y, rng: rows.numbers),
    **{
        f"unknown class of {share:.0%}, {where}": unknown(share, where == "off")
        for where in ("in direction", "off")
        for share in (0.1, 0.2, 0.4)
    },
    # Rows of one class are replaced when the bag is drawn.
    "classes trade rows": numeric(lambda t, rows, y, rng: rows.numbers),
}
SELECTION, TRADE = "covariate selection", "classes trade rows"


def of_texts(make: Callable[..., Sequence[str]], share: float = 1.0) -> Change:
    """Return the change of each text by ``make(training, words, label, rng)``.

    With a share below one that many texts are changed, and belong to an unknown class.
    """

    def change(t: Training, rows: Rows, y: Array, rng: np.random.Generator) -> tuple[Rows, Array]:
        chosen = rng.random(len(rows)) < share
        made = np.empty(len(rows), dtype=object)
        for i, words in enumerate(rows.texts):
            made[i] = make(t, words, y[i], rng) if chosen[i] else words
        return replace(rows, texts=made), chosen & (share < 1)

    return change


def other_words(share: float, new: bool, label: int | None = None) -> Callable[..., Sequence[str]]:
    """Return the change of a share of words for unseen ones, or for ones of all of training."""

    def make(t: Training, words: Sequence[str], y: int, rng: np.random.Generator) -> Sequence[str]:
        if label is not None and y != label:
            return words
        replaced = rng.random(len(words)) < share
        drawn = [f"new{word}" for word in words] if new else t.words(len(words), rng)
        return [b if r else a for a, b, r in zip(words, drawn, replaced, strict=True)]

    return make


TEXT: dict[str, Change] = {
    "label shift": of_texts(lambda t, words, y, rng: words),
    "changed vocabulary, 10 %": of_texts(other_words(0.1, new=True)),
    "changed vocabulary, 30 %": of_texts(other_words(0.3, new=True)),
    "noise: 25 % other words": of_texts(other_words(0.25, new=False)),
    "one class: 30 % other words": of_texts(other_words(0.3, new=False, label=0)),
    "texts cut to 5 words": of_texts(lambda t, words, y, rng: words[:5]),
    "covariate selection": of_texts(lambda t, words, y, rng: words),
    **{
        f"unknown class of {share:.0%}, {where}": of_texts(other_words(1.0, new), share)
        for where, new in (("in direction", False), ("off", True))
        for share in (0.1, 0.2, 0.4)
    },
    "classes trade rows": of_texts(lambda t, words, y, rng: words),
}


def read(path: str) -> pd.DataFrame:
    """Return a table of the data directory."""
    return pd.read_csv(DATA / f"{path}.csv.gz")


def plain(frame: pd.DataFrame, categories: Sequence[str] = (), y: Any = None) -> tuple[Rows, Array]:
    """Return the rows of a table and its labels as codes."""
    labels = frame["label"] if y is None else y
    frame = frame.drop(columns=[c for c in ("label", "split") if c in frame])
    numbers = frame.drop(columns=list(categories)).to_numpy(dtype=np.float64)
    own = frame[list(categories)].astype(str).to_numpy(dtype=object)
    return Rows(numbers, own), np.asarray(labels)


def tweets(name: str) -> tuple[Rows, Array]:
    """Return texts made of the word and word-pair numbers of a set of tweets."""
    texts, labels = [], []
    for part in ("train", "test", "dev"):
        path = DATA / "tweets-approx" / f"{name}.{part}.feature.txt.gz"
        if not path.exists():
            continue
        with gzip.open(path, "rt") as file:
            for line in file:
                label, *cells = line.split()
                pairs = [cell.split(":") for cell in cells]
                texts.append([f"w{w}" for w, n in pairs for _ in range(round(float(n)))])
                labels.append(int(label))
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return Rows(np.empty((len(texts), 0)), np.empty((len(texts), 0)), made), np.array(labels)


def synthetic_texts() -> tuple[Rows, Array]:
    """Return texts of two classes, whose words differ in how frequent they are."""
    rng = np.random.default_rng(1)
    frequencies = np.exp(rng.normal(scale=0.6, size=(2, 5000))) / np.arange(1, 5001) ** 1.05
    frequencies /= frequencies.sum(axis=1, keepdims=True)
    y = rng.integers(0, 2, 6000)
    texts = np.empty(len(y), dtype=object)
    for i, label in enumerate(y):
        words = rng.choice(5000, rng.integers(6, 20), p=frequencies[label])
        texts[i] = [f"w{word}" for word in words]
    return Rows(np.empty((len(y), 0)), np.empty((len(y), 0)), texts), y


def academic() -> tuple[Rows, Array]:
    frame = read("uci-multi/academic-success")
    codes = ("Marital", "Application mode", "Course", "Previous qualification", "Gender", "Mother")
    return plain(frame, [c for c in frame if c.startswith(codes) and "grade" not in c])


def topics() -> tuple[Rows, Array]:
    """Return embedded newsgroups by topic (comp, rec, sci, talk)."""
    frame = read("text/news20-lsa300")
    topic = frame["label"].str.split(".").str[0]
    keep = topic.isin(["comp", "rec", "sci", "talk"])
    return plain(frame[keep], y=topic[keep])


def abalone() -> tuple[Rows, Array]:
    frame = read("uci-extra/abalone")
    return plain(frame, ["sex"], y=np.digitize(frame["label"], [9, 11]))


def cmc() -> tuple[Rows, Array]:
    names = ("wife_education", "husband_education", "husband_occupation", "SOL_index")
    return plain(read("uci-extra/cmc"), names)


def bundled(load: Callable[..., Any]) -> tuple[Rows, Array]:
    X, y = load(return_X_y=True)
    return Rows(X, np.empty((len(X), 0))), y


SETS: dict[str, Callable[[], tuple[Rows, Array]]] = {
    "breast cancer": lambda: bundled(load_breast_cancer),
    "digits": lambda: bundled(load_digits),
    "synthetic texts": synthetic_texts,
    "spambase": lambda: plain(read("uci-binary/spambase")),
    "wine quality": lambda: plain(read("uci-binary/wine-q-white")),
    "pendigits": lambda: plain(read("uci-extra/pendigits")),
    "newsgroups, embedded": topics,
    "abalone": abalone,
    "contraception": cmc,
    "students": academic,
    "tweets (semeval)": lambda: tweets("semeval"),
    "tweets (sst)": lambda: tweets("sst"),
}
#: These need no files.
BUNDLED = ("breast cancer", "digits", "synthetic texts")


def load(name: str) -> tuple[Rows, Array]:
    """Return the rows of a set and their labels as codes, without classes of few rows."""
    rows, labels = SETS[name]()
    values, counts = np.unique(labels, return_counts=True)
    keep = np.flatnonzero(np.isin(labels, values[counts >= LEAST]))
    return rows[keep], np.unique(labels[keep], return_inverse=True)[1]


def draw(
    pool: Array, y: Array, prevalence: Array, size: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return rows of a bag, none twice; a class without enough rows gives all it has."""
    counts = rng.multinomial(size, prevalence)
    own = [rng.permutation(pool[y[pool] == i])[:n] for i, n in enumerate(counts)]
    rows = np.concatenate(own)
    return rows, y[rows]


def trade(pool: Array, rows: Array, y: Array, rng: np.random.Generator) -> Array:
    """Replace a third of the rows of the largest class of a bag by rows of another class."""
    found = y[rows]
    largest = int(np.bincount(found).argmax())
    other = rng.choice(np.setdiff1d(np.unique(y), [largest]))
    free = rng.permutation(np.setdiff1d(pool[y[pool] == other], rows))
    traded = np.flatnonzero(found == largest)
    traded = traded[: min(len(free), len(traded) // 3)]
    swapped = rows.copy()
    swapped[traded] = free[: len(traded)]
    return swapped


def selected(rows: Rows, pool: Array) -> Array:
    """Return the half of a pool with the largest values of the most spread column, or texts."""
    own = rows[pool]
    if own.texts is not None:
        values = np.array([float(len(words)) for words in own.texts])
    else:
        values = own.numbers[:, int(np.argmax(own.numbers.std(axis=0)))]
    return pool[np.argsort(values, kind="stable")[len(pool) // 2 :]]


def run_split(name: str, labels: str, seed: int, n_bags: int) -> Iterator[dict[str, Any]]:
    """Yield what came of every bag of a split."""
    rng = np.random.default_rng([seed, labels == "few", *name.encode()])
    rows, y = load(name)
    k = int(y.max()) + 1
    order = rng.permutation(len(y))
    if labels == "few":
        train = np.concatenate([order[y[order] == i][:FEW] for i in range(k)])
    else:
        train = order[: min(MOST, len(y) // 2)]
    pool = np.setdiff1d(order, train)
    quantifier = kdey.Quantifier(random_state=seed).fit(rows[train].X, y[train])
    training = Training(rows[train], y[train])
    for change_name, change in (TEXT if rows.texts is not None else NUMERIC).items():
        own = selected(rows, pool) if change_name == SELECTION else pool
        for size in SIZES:
            if size > SIZES[0] and len(own) < 2 * SIZES[0]:
                continue  # the bag would be no larger than the small one
            for _ in range(n_bags * (4 if change_name == "label shift" else 1)):
                chosen, found = draw(own, y, rng.dirichlet(np.ones(k)), size, rng)
                if change_name == TRADE:
                    chosen = trade(own, chosen, y, rng)
                bag, strange = change(training, rows[chosen], found, rng)
                truth = np.bincount(found[~strange], minlength=k) / len(found)
                yield {
                    "data": name,
                    "labels": labels,
                    "size": size,
                    "change": change_name,
                    "seed": seed,
                    **outcome(quantifier.estimate(bag.X), truth, change_name == TRADE),
                }


def outcome(estimate: kdey.Estimate, truth: Array, with_factor: bool) -> dict[str, Any]:
    """Return whether a bag is wrong, and what its checks say."""
    misses = np.maximum(estimate.low - truth, truth - estimate.high)
    wrong, worst, factor = bool(misses.max() > MISS), int(np.argmax(misses)), None
    if wrong and with_factor:
        label, share = estimate.classes[worst], float(truth[worst])
        too_high = estimate.low[worst] > share
        bound: dict[str, float] = {"above" if too_high else "below": share}
        factor = float(estimate.tipping_point(label, **bound))
    checks = {
        name: getattr(getattr(estimate.checks, name), "p_value", None)
        for name in ("scores", "columns")
    }
    return {"wrong": wrong, "status": estimate.status, "factor": factor, **checks}


def run(names: Sequence[str], splits: int, bags: int) -> None:
    """Run what is open; each finished split is written at once."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["data"], row["labels"], row["seed"]) for row in read_raw(FILE)}
    for seed in range(splits):
        for name in names:
            for labels in ("many", "few"):
                if (name, labels, seed) in done:
                    continue
                rows = list(run_split(name, labels, seed, bags))
                with FILE.open("a", encoding="utf-8") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in rows))
                print(name, labels, seed, flush=True)


def summarise() -> None:
    """Write a line per data set, number of labels, size and change to the summary."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in read_raw(FILE):
        cells.setdefault(tuple(row[key] for key in KEYS), []).append(row)
    lines = []
    for key, own in cells.items():
        wrong = [row for row in own if row["wrong"]]
        factors = [row["factor"] for row in own if row["factor"] is not None]
        lines.append(
            {
                **dict(zip(KEYS, key, strict=True)),
                "bags": len(own),
                "alarms": sum(status.POOR_FIT in row["status"] for row in own),
                "wrong": len(wrong),
                "confident_and_wrong": sum(row["status"] == status.OK for row in wrong),
                "factor": round(float(np.median(factors)), 2) if factors else "",
            }
        )
    update_summary(SUMMARY, lines, KEYS)


def _added(lines: Sequence[dict[str, str]], *names: str) -> list[int]:
    return [sum(int(line[name]) for line in lines) for name in names]


def table() -> None:
    """Print the figures of changes, sets and sizes, and of traded rows, from the summary."""
    lines = read_summary(SUMMARY)
    for labels in ("many", "few"):
        for key in ("change", "data", "size"):
            own = [line for line in lines if line["labels"] == labels]
            if key != "change":  # no check can find these
                own = [line for line in own if line["change"] != TRADE]
            print(f"| {key} | bags | alarms | wrong | confident and wrong |\n|---|---|---|---|---|")
            for value in dict.fromkeys(line[key] for line in own):
                print(_row(value, [line for line in own if line[key] == value]))
            print(_row("all", [line for line in own if line["change"] != TRADE]), end="\n\n")
    print("| data | size | wrong | confident and wrong | factor |\n|---|---|---|---|---|")
    for line in lines:
        if line["change"] == TRADE and line["labels"] == "many" and line["factor"]:
            cells = (line[name] for name in ("data", "size", *COUNTS[2:], "factor"))
            print(f"| {' | '.join(cells)} |")


def _row(name: str, lines: Sequence[dict[str, str]]) -> str:
    bags, alarms, wrong, unseen = (sum(int(line[n]) for line in lines) for n in COUNTS)
    return f"| {name} | {bags} | {alarms / max(bags, 1):.3f} | {wrong} | {unseen} |"


def figure() -> None:
    """Draw the picture of the page: four bags, what is said of them, and what is true."""
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)

    def rows(n_ham: int, n_spam: int) -> pd.DataFrame:
        links = np.concatenate([rng.normal(2, 1, n_ham), rng.normal(4, 1, n_spam)])
        return pd.DataFrame({"links": links, "length": rng.normal(5, 1, n_ham + n_spam)})

    training, y = rows(300, 300), np.repeat(["ham", "spam"], 300)
    quantifier = kdey.PACC(LogisticRegression(), random_state=0).fit(training, y)
    bag = rows(420, 180)
    bags = {
        "Only the shares changed": (bag, 30),
        "All mails are longer": (bag.assign(length=bag["length"] + 0.5), 30),
        "An unknown class": (pd.concat([rows(320, 180), rows(100, 0).assign(length=8.0)]), 30),
        "A third of spam looks like ham": (pd.concat([rows(420, 120), rows(60, 0)]), 30),
    }
    plot, axes = plt.subplots(2, 4, figsize=(12, 5.2), sharex="row", sharey="row")
    for (upper, lower), (title, (X, truth)) in zip(axes.T, bags.items(), strict=True):
        found = quantifier.estimate(X)
        weights = np.where(y == "spam", found.estimate[1], found.estimate[0]) / 300
        for ax, name in ((upper, "links"), (lower, "length")):
            bins = np.linspace(-1, 8, 19) if name == "links" else np.linspace(2, 9, 19)
            even = np.full(len(X), 1 / len(X))
            ax.hist(X[name], bins, weights=even, color="#9ecae1", label="the bag")
            mix = {"weights": weights, "histtype": "step", "color": "#222222", "linewidth": 1.6}
            ax.hist(training[name], bins, label="the mix of training that fits best", **mix)
            ax.set_xlabel(name)
            ax.set_yticks([])
        is_wrong = not found.low[1] <= truth / 100 <= found.high[1]
        seen = [finding.name for finding in found.checks.columns.findings]
        upper.set_title(title, fontsize=11)
        lower.text(
            *(0.5, -0.32),
            f"spam {100 * found.low[1]:.0f} to {100 * found.high[1]:.0f} %, true {truth} %"
            f"{' (missed)' if is_wrong else ''}\n"
            f"{f'poor fit: {seen[0]}' if seen else found.status}",
            **{"transform": lower.transAxes, "ha": "center", "va": "top", "fontsize": 10},
            color="#b00020" if seen or is_wrong else "#1b6e3c",
        )
    plot.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncol=2, frameon=False)
    plot.subplots_adjust(left=0.02, right=0.99, bottom=0.19, top=0.86, wspace=0.05, hspace=0.32)
    plot.savefig(FIGURE, dpi=100)


def main(arguments: list[str] | None = None) -> None:
    """Run what is open, write the summary and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--bags", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=list(SETS if DATA.exists() else BUNDLED))
    parser.add_argument("--table", action="store_true", help="print the tables and stop")
    parser.add_argument("--figure", action="store_true", help="draw the picture and stop")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if asked.figure:
        figure()
        return
    if not asked.table:
        run(asked.data, asked.splits, asked.bags)
        summarise()
    table()


if __name__ == "__main__":
    main()
