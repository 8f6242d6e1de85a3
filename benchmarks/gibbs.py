"""Gibbs sampling: speed, and coverage and width of its credible intervals on synthetic bags.

Run with ``python benchmarks/gibbs.py [--bags 500]`` (minutes; 0 for the speed alone).
Speed: 2,000 sweeps (4 chains of 500) of a 1,000 x 28 bag. Coverage: two classes with scores from
Beta(2, 4) and Beta(4, 2), densities known exactly, so that a 90 % interval under a uniform prior
must hold the truth, drawn from that prior, 90 % of the time; the normal interval of the likelihood
stands beside it. Comparison: KDEy-ML from training sets of three normal classes, truths uniform on
the simplex, bags of 300: credible intervals with drawn templates, and with fixed ones (which know
nothing of the templates' error), bootstrap, analytic. ``--sets`` does the same with the rows of
real sets that a classifier has scored once, from training sets and at shares that are uniform on
the simplex of their classes. Means and standard errors of each way go to ``results/gibbs.csv``;
``--table`` prints them.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import beta, norm

from kdey import KDEyML, Options
from kdey.bags import Bags
from kdey.bayes import sample_posterior
from kdey.bayes.chains import Chains, gibbs_sweeps
from kdey.bayes.sampling import sample_rows
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from kdey.posteriors import training_posteriors
from populations import SCORED, classifier, gaussian, scored_population
from printing import markdown
from summaries import RESULTS, read_summary, update_summary

CONFIDENCE, SUMMARY, SIMULATED = 0.9, RESULTS / "gibbs.csv", "simulated"
GIBBS = {"Gibbs": "drawn", "Gibbs, templates fixed": "fixed"}
WAYS = [*GIBBS, "bootstrap", "analytic"]


def speed() -> None:
    rng = np.random.default_rng(0)
    rows = rng.gamma(0.3, size=(1000, 28))
    table = []
    for n_threads in (1, 2):
        seconds = []
        for _ in range(5):
            chains = Chains.dispersed(4, np.ones(28), np.random.SeedSequence(0))
            start = time.perf_counter()
            gibbs_sweeps(rows, np.ones(28), chains, 500, n_threads=n_threads)
            seconds.append(time.perf_counter() - start)
        table.append([n_threads, f"{min(seconds):.3f}"])
    print("2,000 sweeps of a bag of 1,000 x 28:\n")
    print(markdown(["threads", "seconds"], table))


def normal_interval(problem: MixtureLikelihood) -> tuple[float, float]:
    """Return the interval from the curvature of the likelihood along the prevalence."""
    found = solve_mixture(problem).prevalence
    step = np.array([-1.0, 1.0])
    curvature = len(problem.rows) * step @ problem.hessian(found)[0] @ step
    half = norm.ppf(0.5 + CONFIDENCE / 2) / np.sqrt(curvature)
    return max(found[0, 1] - half, 0.0), min(found[0, 1] + half, 1.0)


def coverage(n_bags: int, size: int) -> None:
    held, widths = np.zeros((n_bags, 3)), np.zeros((n_bags, 3))
    for number in range(n_bags):
        rng = np.random.default_rng(number)
        true = rng.random()
        labels = rng.random(size) < true
        x = np.where(labels, rng.beta(4, 2, size), rng.beta(2, 4, size))
        rows = np.stack([beta.pdf(x, 2, 4), beta.pdf(x, 4, 2)], axis=1)
        problem = MixtureLikelihood(rows, Bags.whole(size))
        draws = sample_rows(problem, random_state=number)
        for column, (target, truth) in enumerate((("population", true), ("bag", labels.mean()))):
            low, high = draws.interval(CONFIDENCE, target)
            held[number, column] = low[1] <= truth <= high[1]
            widths[number, column] = high[1] - low[1]
        low, high = normal_interval(problem)
        held[number, 2], widths[number, 2] = low <= true <= high, high - low
    for name, c, w in zip(
        ("Gibbs, population", "Gibbs, this bag", "normal, population"),
        held.mean(axis=0), widths.mean(axis=0), strict=True,
    ):  # fmt: skip
        print(f"| {size} | {name} | {c:.3f} | {w:.4f} |")


def intervals(
    fitted: KDEyML, points: np.ndarray, seed: int, ways: Sequence[str]
) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]:
    """Return the intervals of one bag for both targets, by the ways asked for."""
    out = {}
    for way in ways:
        if way in GIBBS:
            draws = sample_posterior(
                fitted, posteriors=points, templates=GIBBS[way], random_state=seed
            )
        for target in ("population", "bag"):
            if way in GIBBS:
                out[target, way] = draws.interval(CONFIDENCE, target)
                continue
            options = Options(method=way, random_state=seed)
            made = fitted.estimate_posteriors(
                points, target=target, confidence=CONFIDENCE, options=options
            )
            out[target, way] = (made.low, made.high)
    return out


#: A fitted quantifier, the posteriors of a bag, its labels and the shares of its population.
Drawn = tuple[KDEyML, np.ndarray, np.ndarray, np.ndarray]


def simulated(n_bags: int, n: int, size: int) -> Iterator[Drawn]:
    """Yield bags of normal classes, with a classifier and a quantifier of their own."""
    for number in range(n_bags):
        rng = np.random.default_rng([number, n])
        X, y = gaussian(labels := rng.permutation(np.arange(n) % 3), rng), labels
        model, training = training_posteriors(
            classifier(), X, y, range(3), cv=5, random_state=number
        )
        fitted = KDEyML(bandwidth=0.1).fit_posteriors(training.required(), training.labels)
        truth = rng.dirichlet(np.ones(3))
        drawn = rng.choice(3, size, p=truth)
        yield fitted, model.predict_proba(gaussian(drawn, rng)), drawn, truth


def real(name: str, n_bags: int, n: int, size: int) -> Iterator[Drawn]:
    """Yield bags of a real set, with a quantifier of their own."""
    population = scored_population(name)
    k = population.n_classes
    for number in range(n_bags):
        rng = np.random.default_rng([number, n, k])
        labels = np.arange(n) % k
        fitted = KDEyML(bandwidth=0.1).fit_posteriors(population.draw(labels, rng), labels)
        truth = rng.dirichlet(np.ones(k))
        drawn = rng.choice(k, size, p=truth)
        yield fitted, population.draw(drawn, rng), drawn, truth


def compare(name: str, n_bags: int, n: int, ways: Sequence[str], size: int = 300) -> None:
    """Print coverage and width of the ways for both targets."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    bags = simulated(n_bags, n, size) if name == SIMULATED else real(name, n_bags, n, size)
    for number, (fitted, points, drawn, truth) in enumerate(bags):
        shares = np.bincount(drawn, minlength=len(truth)) / size
        true = {"population": truth, "bag": shares}
        for (target, way), (low, high) in intervals(fitted, points, number, ways).items():
            covered = np.mean((low <= true[target] + 1e-12) & (true[target] - 1e-12 <= high))
            found[target, way].append((float(covered), float(np.mean(high - low))))
    rows = []
    for (target, way), values in found.items():
        covered, width = np.mean(values, axis=0)
        print(f"| {name} | {n} | {target} | {way} | {covered:.3f} | {width:.4f} |", flush=True)
        error = np.std(values, axis=0, ddof=1)[0] / np.sqrt(len(values))
        numbers = {"covered": covered, "error": error, "width": width}
        rounded = {name: f"{value:.4f}" for name, value in numbers.items()}
        place = {"rows": name, "training": n, "target": target, "way": way}
        rows.append({**place, **rounded, "n": len(values)})
    update_summary(SUMMARY, rows, ["rows", "training", "target", "way"])


def table() -> None:
    """Print what is stored of the comparison."""
    order = [SIMULATED, *SCORED]
    rows = [
        [
            *(line[name] for name in ("rows", "training", "target", "way")),
            f"{float(line['covered']):.3f} ± {float(line['error']):.3f}",
            line["width"],
            line["n"],
        ]
        for line in sorted(
            read_summary(SUMMARY),
            key=lambda line: (order.index(line["rows"]), int(line["training"])),
        )
    ]
    names = ["rows", "training", "target", "interval", f"coverage ({CONFIDENCE:.0%})", "mean width"]
    names += ["bags"]
    print(markdown(names, rows))
    for target in ("population", "bag"):
        own = [
            (float(line["covered"]), float(line["error"]))
            for line in read_summary(SUMMARY)
            if line["rows"] in SCORED and line["target"] == target
        ]
        if own:
            covered, errors = np.array(own).T
            error = np.sqrt((errors**2).sum()) / len(own)
            print(f"\nmean of real sets, {target}: {covered.mean():.3f} ± {error:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bags", type=int, default=500)
    parser.add_argument("--training", type=int, nargs="+", default=[200, 1000, 10_000])
    parser.add_argument("--sets", nargs="*", choices=SCORED, help="real sets, instead")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--table", action="store_true", help="print what is stored and stop")
    args = parser.parse_args()
    if args.table:
        table()
        return
    if "Gibbs, templates fixed" in args.ways and args.sets is None:
        speed()
        if not args.bags:
            return
        print(
            f"\n| bag size | interval | coverage ({CONFIDENCE:.0%}) | mean width |"
            "\n|---|---|---|---|"
        )
        for size in (50, 200, 1000):
            coverage(args.bags, size)
    print(
        f"\n| rows | training | target | interval | coverage ({CONFIDENCE:.0%}) | mean width |"
        "\n|---|---|---|---|---|---|"
    )
    for name in [SIMULATED] if args.sets is None else args.sets or SCORED:
        for n in args.training:
            compare(name, args.bags, n, args.ways)


if __name__ == "__main__":
    main()
