"""What the examples about the methods themselves say, checked against what they computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Claim = Callable[[dict[str, Any]], None]


def prior_shift(found: dict[str, Any]) -> None:
    results, training = found["results"], found["training"]
    true = results.true[:, 0]
    mean = {
        name: np.array([results.estimated(name)[true == p, 0].mean() for p in np.unique(true)])
        for name in results.methods
    }
    grid = np.unique(true)
    for name in ("CC", "PCC"):
        assert mean[name][0] > 0.2  # none in the bag, and yet some are reported
        assert mean[name][-1] < 0.9
        crossing = grid[np.argmin(np.abs(mean[name] - grid))]
        assert abs(crossing - training) < 0.11
    assert np.ptp(mean["PCC"]) < np.ptp(mean["CC"])
    for name in ("PACC", "KDEy-ML"):
        assert np.abs(mean[name] - grid).max() < 0.12
        assert results.errors("ae", name).mean() < 0.5 * results.errors("ae", "CC").mean()


def densities(found: dict[str, Any]) -> None:
    estimated, counted = found["errors"]
    assert estimated < 0.7 * counted
    assert np.abs(found["estimate"] - found["true"]).max() < 0.06
    own = found["quantifier"].estimate(found["bag"]).classify_and_count
    assert own[2] < found["true"][2] - 0.05


def certificates(found: dict[str, Any]) -> None:
    gaps, away = found["gaps"], found["away"]
    assert max(gaps["kdey"]) < 1.1e-8
    assert min(gaps["SLSQP"]) > 1e3 * 1e-8
    assert max(gaps["SLSQP"]) > 1e4 * 1e-8
    assert max(away["SLSQP"]) < 1e-3
    assert 5e-3 < max(away["EM"]) < 5e-2
    assert min(gaps["EM"]) > 1e-4


def automatic(found: dict[str, Any]) -> None:
    errors, chosen = found["errors"], found["chosen"]
    assert (chosen < errors).all()
    assert 1.2 < errors[0] / errors.min() < 2.0
    assert errors[-1] > 3 * errors.min()
    assert sum(trial.weight > 0 for trial in found["tuning"].trials) > 1


def coverage(found: dict[str, Any]) -> None:
    analytic, bag_only = found["shares"]
    assert 0.92 <= analytic <= 0.99
    assert bag_only < 0.85
    widths = [np.mean([e.high - e.low for e in found[name]]) for name in ("whole", "bag_only")]
    assert widths[1] < 0.8 * widths[0]


def critical_difference(found: dict[str, Any]) -> None:
    ranked, test = found["ranked"], found["test"]
    assert test.p_value < 0.01
    at = {name: number for number, name in enumerate(ranked.names)}
    for name in ("DM", "KDEy-ML", "PACC"):
        assert ranked.p_values[at[name], at["PCC"]] < 0.05
    first = ranked.groups[0]
    assert {"DM", "KDEy-ML", "PACC", "CC"} <= set(first)
    assert "PCC" not in first
    rows = np.array(found["rows"])
    assert (rows[:, at["KDEy-ML"]] < rows[:, at["CC"]]).mean() > 0.5


def bag_size(found: dict[str, Any]) -> None:
    report, expected, seen = found["report"], found["expected"], found["found"]
    large = found["sizes"] >= 200
    np.testing.assert_allclose(seen[large], expected[large], rtol=0.12)
    assert seen[0].mean() > expected[0].mean()  # too hopeful for bags of 50
    from kdey import plan_bag_size

    assert plan_bag_size(report, 0.2).reachable
    assert not plan_bag_size(report, 0.1).reachable
    assert (found["floors"] > 0.1).all()
    assert (expected[-1] < 1.1 * found["floors"]).all()


def bayesian(found: dict[str, Any]) -> None:
    fixed, few, many, prior = found["draws"].values()
    bars = {name: (e.low[1], e.high[1]) for name, e in found["analytic"].items()}
    low, high = (side[1] for side in many.interval(0.95))
    np.testing.assert_allclose(bars["6,000 labels"], [low, high], atol=0.02)
    narrow = (fixed.interval(0.95)[1] - fixed.interval(0.95)[0])[1]
    np.testing.assert_allclose(narrow, high - low, rtol=0.2)
    assert fixed.population[:, 1].min() > found["TRUE"]
    for lower, upper in (bars["60 labels"], [side[1] for side in few.interval(0.95)]):
        assert lower < found["TRUE"] < upper
        assert upper - lower > 2 * narrow
    assert prior.mean()[1] < many.mean()[1]
    assert (prior.interval(0.95)[1] - prior.interval(0.95)[0])[1] < high - low


def adapted(found: dict[str, Any]) -> None:
    trained, estimated, true = found["right"].T
    assert abs(estimated[0] - trained[0]) < 0.02
    gain = estimated - trained
    assert (np.diff(gain) > -0.01).all()
    assert gain[-1] > 0.09
    assert np.abs(estimated - true).max() < 0.025


def not_label_shift(found: dict[str, Any]) -> None:
    errors = {
        kind: {name: np.abs(e) for name, e in by.items()} for kind, by in found["found"].items()
    }
    label, covariate = errors["label shift"], errors["covariate shift"]
    assert label["KDEy-ML"].max() < 0.08
    assert label["PCC"].max() > 0.3
    assert covariate["PCC"].max() < 0.04
    assert covariate["KDEy-ML"].max() > 0.3
    # What the method guide quotes.
    np.testing.assert_allclose(covariate["PCC"].mean(), 0.008, atol=0.004)
    np.testing.assert_allclose(covariate["KDEy-ML"].mean(), 0.272, atol=0.03)
    passed = found["passed"]
    assert passed["label shift"].all()
    refused = ~passed["covariate shift"]
    assert refused[[0, -1]].all()
    assert not refused.all()


METHOD_CLAIMS: dict[str, Claim] = {
    "plot_adapted_classifier": adapted,
    "plot_automatic_bandwidth": automatic,
    "plot_bag_size": bag_size,
    "plot_bayesian": bayesian,
    "plot_certificates": certificates,
    "plot_critical_difference": critical_difference,
    "plot_density_on_simplex": densities,
    "plot_interval_coverage": coverage,
    "plot_not_label_shift": not_label_shift,
    "plot_prior_shift": prior_shift,
}
