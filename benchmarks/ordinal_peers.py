"""Ordered classes: kdey, quantificationlib and qunfold on the same posteriors and bags.

    python benchmarks/ordinal_peers.py [--sets NAME ...]    # can be resumed
    python benchmarks/ordinal_peers.py --table

The sets, splits and classifiers of ``ordinal.py``, split seed 0, with 100 bags. quantificationlib
0.1.2 is installed from PyPI (with cvxpy, ecos, quadprog and statsmodels), qunfold from its
repository (with jax); a library that is missing is left out. Methods of quantificationlib take the
posteriors as they are, but its tree of classifiers is fitted on the features.

qunfold takes up to a second of processor time for a bag. Its o-ACC, o-PACC and penalised likelihood
are the problems of ``kdey.Ordered`` with a strength that has to be named, so three bags of each set
show that both give the same estimates, and the error on all bags is that of kdey at this strength
(lines of "qunfold's problem"). One line per set, classifier and method in
``results/ordinal_peers.jsonl``: normalised match distance, processor milliseconds per bag, and for
qunfold the largest difference between its estimates and kdey's.
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

import kdey
import ordinal
from cases import Records, geometric_mean, quiet
from kdey.posteriors import TrainingPosteriors
from printing import markdown

BAGS = 100
SEED = 0
#: Strengths of qunfold's penalty; the example of its documentation is the second.
STRENGTHS = (1e-3, 1e-2, 1e-1)
#: Bags that qunfold itself is asked about, at which strength.
CHECKED_BAGS, CHECKED_STRENGTH = 3, 1e-2
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


def problems_of_qunfold(strength: float) -> dict[str, kdey.Ordered]:
    """Return kdey's quantifiers for qunfold's problems: its least squares are not halved."""
    return {
        "o-ACC": kdey.Ordered(kdey.ACC(), strength=strength / 2),
        "o-PACC": kdey.Ordered(kdey.PACC(), strength=strength / 2),
        "penalised likelihood": kdey.Ordered(kdey.EMQ(), strength=strength),
    }


def of_qunfold(strength: float) -> dict[str, Fit]:
    """Return the methods of qunfold that take a penalty for ordered classes."""
    if importlib.util.find_spec("qunfold") is None:
        return {}
    import qunfold

    def least_squares(probabilistic: bool) -> Fit:
        def fitted(training: TrainingPosteriors) -> Predict:
            given = np.asarray(training.posteriors)
            rows = qunfold.ClassRepresentation(
                RepeatedPosteriors(given), is_probabilistic=probabilistic, fit_classifier=False
            )
            loss = qunfold.TikhonovRegularized(qunfold.LeastSquaresLoss(), strength)
            q = qunfold.LinearMethod(loss, rows, seed=0).fit(given, training.labels)
            return lambda p: np.asarray(q.predict(p))

        return fitted

    def likelihood(training: TrainingPosteriors) -> Predict:
        given = np.asarray(training.posteriors)
        q = qunfold.LikelihoodMaximizer(
            RepeatedPosteriors(given), tau_1=strength, fit_classifier=False, seed=0
        ).fit(given, training.labels)
        return lambda p: np.asarray(q.predict(p))

    return {
        "o-ACC": least_squares(probabilistic=False),
        "o-PACC": least_squares(probabilistic=True),
        "penalised likelihood": likelihood,
    }


def compare_with_qunfold(
    records: Records,
    head: dict[str, Any],
    data: ordinal.Split,
    training: TrainingPosteriors,
    posteriors: np.ndarray,
) -> None:
    """Add the largest difference between the estimates of qunfold and of kdey in a few bags."""
    quantifiers = problems_of_qunfold(CHECKED_STRENGTH)
    for method, fit in of_qunfold(CHECKED_STRENGTH).items():
        name = f"{method}, {CHECKED_STRENGTH:g}"
        if (head["set"], head["classifier"], "qunfold", name) in records:
            continue
        estimates, _, _ = ordinal.estimate(quantifiers[method], training, posteriors, data.bags)
        predict = fit(training)
        start = time.process_time()
        answers = [predict(posteriors[bag]) for bag in data.bags.bags[:CHECKED_BAGS]]
        seconds = time.process_time() - start
        difference = float(np.abs(np.array(answers) - estimates[:CHECKED_BAGS]).max())
        times = {"bag_ms": round(1000 * seconds / CHECKED_BAGS, 3)}
        records.add(head | {"library": "qunfold", "method": name, "difference": difference} | times)


def _labels(posteriors: np.ndarray) -> np.ndarray:
    return np.asarray(np.argmax(posteriors, axis=1))


def run(records: Records, name: str) -> None:
    """Add the lines of one set that the records lack."""
    data = ordinal.split(name, SEED, BAGS)
    for classifier in ordinal.CLASSIFIERS:
        training, posteriors = data.posteriors(classifier)
        head = {"set": name, "classifier": classifier}
        methods = list(contestants(data, training, posteriors))
        if importlib.util.find_spec("quantificationlib") is not None:
            tree = partial(tree_of_quantificationlib, data, classifier)
            methods.append(("quantificationlib", "OrdinalQuantificationTree", tree))
        for library, method, outcome in methods:
            if (name, classifier, library, method) in records:
                continue
            estimates, seconds = outcome()
            times = {"bag_ms": round(1000 * seconds / BAGS, 3)}
            line = {"library": library, "method": method, "nmd": data.error(estimates)}
            records.add(head | line | times)
        compare_with_qunfold(records, head, data, training, posteriors)


def contestants(
    data: ordinal.Split, training: TrainingPosteriors, posteriors: np.ndarray
) -> Iterator[tuple[str, str, Callable[[], tuple[np.ndarray, float]]]]:
    """Yield library, method, and a function that returns estimates and processor seconds."""
    for method, q in ordinal.methods().items():
        yield "kdey", method, partial(_of_kdey, q, data, training, posteriors)
    for strength in STRENGTHS:
        for method, q in problems_of_qunfold(strength).items():
            outcome = partial(_of_kdey, q, data, training, posteriors)
            yield "qunfold's problem", f"{method}, {strength:g}", outcome
    for method, fit in of_quantificationlib().items():
        if method != "EDy" or len(training.labels) <= MOST_INSTANCES:
            outcome = partial(_of_peer, fit, data, training, posteriors)
            yield "quantificationlib", method, outcome


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
    """Print the distance in every case, the geometric mean over cases that all methods have."""
    errors = {(r["set"], r["classifier"], r["library"], r["method"]): r for r in rows if "nmd" in r}
    cases = sorted(
        {key[:2] for key in errors}, key=lambda case: (list(ordinal.SETS).index(case[0]), case[1])
    )
    methods = list(dict.fromkeys(key[2:] for key in errors))
    common = [case for case in cases if all((*case, *method) in errors for method in methods)]
    lines: list[list[Any]] = []
    for method in methods:
        of_method = {case: errors.get((*case, *method)) for case in cases}
        shown = [None if row is None else row["nmd"] for row in of_method.values()]
        mean = geometric_mean(errors[*case, *method]["nmd"] for case in common)
        milliseconds = np.median([row["bag_ms"] for row in of_method.values() if row])
        lines.append([*method, mean, *shown, f"{milliseconds:.3g}"])
    lines.sort(key=lambda line: float(line[2]))
    heads = [", ".join(case) for case in cases]
    print(markdown(["library", "method", f"mean of {len(common)}", *heads, "bag, ms"], lines))
    checked = [row for row in rows if "difference" in row]
    if checked:
        largest = max(row["difference"] for row in checked)
        milliseconds = float(np.median([row["bag_ms"] for row in checked]))
        print(f"\nqunfold, {len(checked)} cases of {CHECKED_BAGS} bags: estimates differ from")
        print(f"kdey's by at most {largest:.1g}; {milliseconds:.0f} ms of processor time per bag.")


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
