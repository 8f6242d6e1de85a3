"""The campaign over the quantifiers: small fits, then many bags each."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import kdey
from fuzz.campaigns import estimator_inputs as inputs
from fuzz.campaigns.solver_kinds import numpy_path
from fuzz.campaigns.tally import Tally
from kdey.matching import Solution

Make = Callable[[np.random.Generator], Any]


def _bandwidth(rng: np.random.Generator) -> float:
    return float(rng.choice([1e-4, 0.01, 0.1, 1.0, 1e3]))


def _kernel(rng: np.random.Generator) -> dict[str, Any]:
    kernel = str(rng.choice(["gaussian", "aitchison", "ilr"]))
    return {"kernel": kernel, "bandwidth": _bandwidth(rng)}


def _bins(rng: np.random.Generator) -> int:
    return int(rng.choice([1, 2, 8, 64]))


def _dm(rng: np.random.Generator) -> Any:
    names = ["topsoe", "hellinger", "cauchy-schwarz", "kl", "reverse-kl", "chi2"]
    return kdey.DM(
        divergence=str(rng.choice(names)), n_bins=_bins(rng), cdf=bool(rng.random() < 0.2)
    )


#: Kind -> (how the quantifier is made, its share, how many classes it may have).
KINDS: dict[str, tuple[Make, float, int]] = {
    "CC": (lambda rng: kdey.CC(), 0.06, 8),
    "PCC": (lambda rng: kdey.PCC(), 0.05, 8),
    "ACC": (lambda rng: kdey.ACC(), 0.07, 8),
    "PACC": (lambda rng: kdey.PACC(), 0.08, 8),
    "EMQ": (lambda rng: kdey.EMQ(), 0.08, 8),
    "EMQ-em": (lambda rng: kdey.EMQ(solver="em"), 0.03, 6),
    "EMQ-bcts": (lambda rng: kdey.EMQ(calibration="bcts"), 0.03, 4),
    "DIR": (lambda rng: kdey.DIR(), 0.06, 5),
    "DM": (_dm, 0.06, 4),
    "HDy": (lambda rng: kdey.HDy(), 0.05, 2),
    "DyS": (lambda rng: kdey.DyS(n_bins=_bins(rng)), 0.05, 2),
    "MM": (lambda rng: kdey.MM(criterion=str(rng.choice(["pp-area", "ks"]))), 0.05, 2),
    "KDEyML": (lambda rng: kdey.KDEyML(**_kernel(rng)), 0.10, 8),
    "KDEyCS": (lambda rng: kdey.KDEyCS(**_kernel(rng)), 0.06, 8),
    "KDEyL2": (lambda rng: kdey.KDEyL2(**_kernel(rng)), 0.06, 8),
    "KDEyHD": (lambda rng: kdey.KDEyHD(n_points=60, random_state=0, **_kernel(rng)), 0.04, 5),
    "OneVsAll": (lambda rng: kdey.OneVsAll(kdey.MM()), 0.02, 4),
    "Median": (
        lambda rng: kdey.Median(kdey.PACC(), {"cv": [3, 5]}),
        *(0.02, 4),
    ),
    "Ensemble": (lambda rng: kdey.Ensemble(kdey.PACC(), n_members=2, random_state=0), 0.02, 4),
    "HDx": (lambda rng: kdey.HDx(), 0.02, 2),
    "DMx": (lambda rng: kdey.DMx(), 0.02, 4),
    "TrainingPrevalence": (lambda rng: kdey.TrainingPrevalence(), 0.01, 8),
    "automatic": (lambda rng: kdey.KDEyML(random_state=0), 0.01, 4),
}
SHARES = {name: share for name, (_, share, _) in KINDS.items()}
#: Errors that may be raised; LinAlgError is a ValueError, but no answer to bad input.
DOCUMENTED = (ValueError, TypeError)
BAGS = 40


def run_case(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Fit a quantifier of ``kind`` and ask it for many bags; count what came of it."""
    rng = np.random.default_rng([seed, 1000 + list(KINDS).index(kind), number])
    make, _, most = KINDS[kind]
    k = int(rng.integers(2, most + 1))
    tally.cases += 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", UserWarning)  # ours, and scikit-learn's on convergence
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            if rng.random() < 0.06 and kind != "automatic":
                with numpy_path():
                    _run(make(rng), kind, k, rng, number, tally)
            else:
                _run(make(rng), kind, k, rng, number, tally)
        except Exception as error:
            if isinstance(error, DOCUMENTED) and not isinstance(error, np.linalg.LinAlgError):
                tally.refuse(str(error))
            else:
                tally.fault(number, _told())
    tally.warned += bool(caught)


def _run(
    quantifier: Any, kind: str, k: int, rng: np.random.Generator, number: int, tally: Tally
) -> None:
    """Fit and solve; faults of the answers are noted, errors go to the caller."""
    y = inputs.labels(rng, k)
    pool = rng.integers(0, k, int(rng.integers(1, 80)))
    bags = inputs.bags(rng, len(pool), BAGS)
    if hasattr(quantifier, "fit_posteriors") and rng.random() < 0.9:
        p = inputs.posteriors(rng, y, k, training=True)
        weights = rng.gamma(0.5, size=len(y)) + 1e-9 if rng.random() < 0.2 else None
        options = {} if weights is None else {"sample_weight": weights}
        quantifier.fit_posteriors(inputs.as_given(rng, p), inputs.named(rng, y), **options)
        points = inputs.posteriors(rng, pool, k)
        solution = quantifier.solve_posteriors(inputs.as_given(rng, points), bags)
        _check_refusal(quantifier, points, rng, number, tally)
        limits = rng.random() < 0.1 and kind not in ("Ensemble", "Median", "OneVsAll", "automatic")
        if limits:
            _check_limits(quantifier.estimate_posteriors(points), k, number, tally)
    else:
        if "classifier" in quantifier.get_params():
            quantifier.set_params(classifier=DecisionTreeClassifier(max_depth=2, random_state=0))
        X = _features(rng, y)
        quantifier.fit(X, inputs.named(rng, y))
        solution = quantifier.solve(_features(rng, pool, X.shape[1]), bags)
    _check(solution, k, number, tally)


def _features(rng: np.random.Generator, y: Any, d: int | None = None) -> Any:
    d = int(rng.integers(1, 4)) if d is None else d
    X = rng.normal(size=(len(y), d)) + y[:, None] * rng.choice([0.0, 1.0, 100.0])
    if rng.random() < 0.2:
        X[:, 0] = 1.0
    return X * 10.0 ** rng.uniform(-8, 8)


def _check(solution: Solution, k: int, number: int, tally: Tally) -> None:
    x = solution.prevalence
    tally.problems += len(x)
    off = ~np.isfinite(x).all(axis=1) | (x < 0).any(axis=1) | (np.abs(x.sum(axis=1) - 1) > 1e-9)
    if x.shape != (BAGS, k) or off.any():
        tally.fault(number, f"not on the simplex: shape {x.shape}, bag {int(np.argmax(off))}")
    if (solution.gap < 0).any() or np.isposinf(solution.gap[solution.converged]).any():
        tally.fault(number, "converged with an infinite gap, or a negative one")
    left = ~solution.converged
    tally.unconverged += int(left.sum())
    known = left & np.isfinite(solution.gap)
    if known.any() and solution.gap[known].max() > tally.largest_gap:
        tally.largest_gap = float(solution.gap[known].max())
        tally.largest_gap_case = number


def _check_refusal(
    quantifier: Any, points: Any, rng: np.random.Generator, number: int, tally: Tally
) -> None:
    """Note a spoilt pool that is not refused by a message that names it."""
    spoilt, what = inputs.spoil(rng, points)
    try:
        quantifier.aggregate(spoilt)
    except DOCUMENTED as error:
        if "posteriors" not in str(error):
            tally.fault(number, f"spoilt ({what}), refused without naming it: {error}")
    except Exception:
        tally.fault(number, f"spoilt ({what}): {_told()}")
    else:
        if not (what == "empty" or np.shape(spoilt) == np.shape(points)):
            tally.fault(number, f"spoilt ({what}), and not refused")
    tally.problems += 1


def _check_limits(estimate: Any, k: int, number: int, tally: Tally) -> None:
    low, at, high = estimate.low, estimate.estimate, estimate.high
    good = all(np.isfinite(v).all() and v.shape == (k,) for v in (low, at, high))
    good = good and bool((low <= at + 1e-12).all() and (at <= high + 1e-12).all())
    if not (good and low.min() >= 0 and high.max() <= 1):
        tally.fault(number, f"limits: low {low}, estimate {at}, high {high}")
    tally.problems += 1


def _told() -> str:
    lines = [line.strip() for line in traceback.format_exc().strip().splitlines()]
    places = [line.rsplit("/", 1)[-1] for line in lines if line.startswith("File")]
    return f"{lines[-1]} | {' < '.join(reversed(places[-3:]))}"
