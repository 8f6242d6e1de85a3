"""Ordered classes: kdey, quantificationlib and qunfold on the same posteriors and bags.

    python benchmarks/ordinal_peers.py [--sets NAME ...]    # can be resumed
    python benchmarks/ordinal_peers.py --table

The sets, splits and classifiers of ``ordinal.py``, split seed 0, with 100 bags, because the other
libraries take up to a second for one. quantificationlib 0.1.2 is installed from PyPI (with cvxpy,
quadprog and statsmodels), qunfold from its repository (with jax); a library that is missing is left
out. Methods of quantificationlib take the posteriors as they are (but its tree of classifiers is
fitted on the features), and those of qunfold by a classifier that repeats them. The strength of
qunfold's penalty has to be named: each of ``STRENGTHS`` is a line of its own. One line per set,
classifier and method in ``results/ordinal_peers.jsonl``: normalised match distance, and processor
milliseconds per bag.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import ordinal
from cases import Records, quiet
from kdey.posteriors import TrainingPosteriors

BAGS = 100
SEED = 0
#: Strengths of qunfold's penalty.
STRENGTHS = (1e-3, 1e-2, 1e-1)
#: Most training instances for methods that compare every instance of a bag with all of them.
MOST_INSTANCES = 8_000

#: From the posteriors of a bag to its prevalences.
Predict = Callable[[np.ndarray], np.ndarray]
#: From training posteriors to the estimates of bags.
Fit = Callable[[TrainingPosteriors], Predict]


@dataclass(eq=False)
class RepeatedPosteriors:
    """A fitted classifier whose instances are posteriors; qunfold wants them out of bag."""

    oob_decision_function_: np.ndarray
    oob_score: bool = True

    @property
    def classes_(self) -> np.ndarray:
        """Codes of the classes."""
        return np.arange(self.oob_decision_function_.shape[1])

    def predict_proba(self, posteriors: np.ndarray) -> np.ndarray:
        """Return the posteriors themselves."""
        return posteriors


def of_quantificationlib() -> dict[str, Fit]:
    """Return the methods of quantificationlib for ordered classes, and those it has for others."""
    if importlib.util.find_spec("quantificationlib") is None:
        return {}
    # It was written for NumPy before 1.24, which had this second name of float.
    setattr(np, "float", float)  # noqa: B010 (not a deprecated use, but its mending)
    from quantificationlib.baselines.ac import PAC
    from quantificationlib.multiclass.df import DFy
    from quantificationlib.multiclass.em import EM
    from quantificationlib.multiclass.energy import CvMy, EDy
    from quantificationlib.ordinal.ac_ordinal import ACOrdinal
    from quantificationlib.ordinal.pdf import PDFOrdinaly

    def fit(make: Callable[[], Any], labels: bool = False) -> Fit:
        def fitted(training: TrainingPosteriors) -> Predict:
            given = np.asarray(training.posteriors)
            q = make()
            q.fit(given, training.labels, predictions_train=_labels(given) if labels else given)
            return lambda p: q.predict(p, predictions_test=_labels(p) if labels else p)

        return fitted

    return {
        "ACOrdinal": fit(ACOrdinal, labels=True),
        "PDFOrdinaly, L2": fit(PDFOrdinaly),
        "PDFOrdinaly, EMD": fit(lambda: PDFOrdinaly(distance="EMD")),
        "CvMy": fit(CvMy),
        "EDy": fit(EDy),
        "PAC": fit(PAC),
        "EM": fit(EM),
        "DFy, HD": fit(lambda: DFy(distance="HD")),
    }


def tree_of_quantificationlib(data: ordinal.Split, classifier: str) -> tuple[np.ndarray, float]:
    """Return the estimates of the tree of binary classifiers, which is fitted on features."""
    from quantificationlib.ordinal.trees import OrdinalQuantificationTree

    q = OrdinalQuantificationTree(clone(ordinal.CLASSIFIERS[classifier]))
    q.fit(data.X, data.y)
    start = time.process_time()
    answers = [np.ravel(q.predict(data.X_test[bag])) for bag in data.bags.bags]
    return np.array(answers), time.process_time() - start


def of_qunfold() -> dict[str, Fit]:
    """Return the methods of qunfold that take a penalty for ordered classes."""
    if importlib.util.find_spec("qunfold") is None:
        return {}
    import qunfold

    def least_squares(strength: float, probabilistic: bool) -> Fit:
        def fitted(training: TrainingPosteriors) -> Predict:
            given = np.asarray(training.posteriors)
            rows = qunfold.ClassRepresentation(
                RepeatedPosteriors(given), is_probabilistic=probabilistic, fit_classifier=False
            )
            loss = qunfold.TikhonovRegularized(qunfold.LeastSquaresLoss(), strength)
            q = qunfold.LinearMethod(loss, rows, seed=0).fit(given, training.labels)
            return lambda p: np.asarray(q.predict(p))

        return fitted

    def likelihood(strength: float) -> Fit:
        def fitted(training: TrainingPosteriors) -> Predict:
            given = np.asarray(training.posteriors)
            classifier = RepeatedPosteriors(given)
            q = qunfold.LikelihoodMaximizer(
                classifier, tau_1=strength, fit_classifier=False, seed=0
            ).fit(given, training.labels)
            return lambda p: np.asarray(q.predict(p))

        return fitted

    methods: dict[str, Fit] = {}
    for strength in STRENGTHS:
        methods[f"o-ACC, {strength:g}"] = least_squares(strength, probabilistic=False)
        methods[f"o-PACC, {strength:g}"] = least_squares(strength, probabilistic=True)
        methods[f"o-SLD, {strength:g}"] = likelihood(strength)
    return methods


def _labels(posteriors: np.ndarray) -> np.ndarray:
    return np.asarray(np.argmax(posteriors, axis=1))


def run(records: Records, name: str) -> None:
    """Add the lines of one set that the records lack."""
    data = ordinal.split(name, SEED, BAGS)
    for classifier in ordinal.CLASSIFIERS:
        training, posteriors = data.posteriors(classifier)
        methods = list(contestants(data, training, posteriors))
        if importlib.util.find_spec("quantificationlib") is not None:
            tree = partial(tree_of_quantificationlib, data, classifier)
            methods.append(("quantificationlib", "OrdinalQuantificationTree", tree))
        for library, method, outcome in methods:
            if (name, classifier, library, method) in records:
                continue
            estimates, seconds = outcome()
            head = {"set": name, "classifier": classifier, "library": library, "method": method}
            times = {"bag_ms": round(1000 * seconds / BAGS, 3)}
            records.add(head | {"nmd": data.error(estimates)} | times)


def contestants(
    data: ordinal.Split, training: TrainingPosteriors, posteriors: np.ndarray
) -> Iterator[tuple[str, str, Callable[[], tuple[np.ndarray, float]]]]:
    """Yield library, method, and a function that returns estimates and processor seconds."""
    for method, q in ordinal.methods().items():
        yield "kdey", method, partial(_of_kdey, q, data, training, posteriors)
    for library, methods in (
        ("quantificationlib", of_quantificationlib()),
        ("qunfold", of_qunfold()),
    ):
        for method, fit in methods.items():
            if method != "EDy" or len(training.labels) <= MOST_INSTANCES:
                yield library, method, partial(_of_peer, fit, data, training, posteriors)


def _of_kdey(
    q: Any, data: ordinal.Split, training: TrainingPosteriors, posteriors: np.ndarray
) -> tuple[np.ndarray, float]:
    estimates, _, seconds = ordinal.estimate(q, training, posteriors, data.bags)
    return estimates, seconds


def _of_peer(
    fit: Fit, data: ordinal.Split, training: TrainingPosteriors, posteriors: np.ndarray
) -> tuple[np.ndarray, float]:
    predict = fit(training)
    start = time.process_time()
    answers = [np.ravel(predict(posteriors[bag])) for bag in data.bags.bags]
    seconds = time.process_time() - start
    estimates = np.clip(np.array(answers, dtype=np.float64), 0.0, None)  # some stop at -1e-9
    return estimates / estimates.sum(axis=1, keepdims=True), seconds


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the mean distance over classifiers of each set, and the geometric mean."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    lines: list[list[Any]] = []
    for library, method in dict.fromkeys((row["library"], row["method"]) for row in rows):
        found = [r for r in rows if (r["library"], r["method"]) == (library, method)]
        means = [[r["nmd"] for r in found if r["set"] == name] for name in sets]
        shown = [float(np.mean(values)) if values else "" for values in means]
        whole = ordinal.geometric_mean(shown) if all(means) else ""
        milliseconds = f"{np.median([r['bag_ms'] for r in found]):.3g}"
        lines.append([library, method, *shown, whole, milliseconds])
    lines.sort(key=lambda line: float(line[-2]) if line[-2] != "" else np.inf)
    heads = ["library", "method", *sets, "geometric mean", "bag, ms"]
    print(ordinal.markdown(heads, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(ordinal.SETS))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("ordinal_peers.jsonl", ("set", "classifier", "library", "method"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    with threadpool_limits(1):
        for name in args.sets:
            run(records, name)


if __name__ == "__main__":
    main()
