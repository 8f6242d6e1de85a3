"""``kdey demo``: the paper's methods on handwritten digits whose mix has shifted.

``kdey demo``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey import (
    ACC,
    CC,
    DIR,
    DM,
    EMQ,
    PACC,
    PCC,
    DirichletProtocol,
    HDy,
    KDEyCS,
    KDEyHD,
    KDEyML,
    OneVsAll,
)
from kdey.cli.common import guarded
from kdey.metrics import absolute_error
from kdey.posteriors import predict_posteriors, training_posteriors
from kdey.protocols import LabelledBags

Array = NDArray[np.float64]
_BAG_SIZE = 500


def demo_methods(seed: int) -> dict[str, Any]:
    """Return the twelve methods of the paper and the two baselines below them."""
    return {
        "CC": CC(),
        "PCC": PCC(),
        "ACC": ACC(),
        "PACC": PACC(),
        "HDy-OvA": OneVsAll(HDy()),
        "DM-T": DM(divergence="topsoe"),
        "DM-HD": DM(divergence="hellinger"),
        "DM-CS": DM(divergence="cauchy-schwarz"),
        "EMQ": EMQ(),
        "EMQ-BCTS": EMQ(calibration="bcts"),
        "DIR": DIR(),
        "KDEy-HD": KDEyHD(random_state=seed),
        "KDEy-CS": KDEyCS(),
        "KDEy-ML": KDEyML(),
    }


def run_demo(*, n_bags: int = 200, seed: int = 0) -> None:
    """Fit, draw shifted bags, estimate, and print what came out."""
    from rich.console import Console

    console = Console(highlight=False)
    digits = load_digits()
    # Every second pixel only: the classifier makes mistakes, as classifiers do in practice.
    X = digits.images[:, ::2, ::2].reshape(len(digits.images), -1)
    X_train, X_pool, y_train, y_pool = train_test_split(
        X, digits.target, train_size=0.5, stratify=digits.target, random_state=seed
    )
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fitted, training = training_posteriors(
        classifier, X_train, y_train, np.arange(10), cv=10, random_state=seed
    )
    pool = predict_posteriors(fitted, X_pool, np.arange(10))
    protocol = DirichletProtocol(n_bags, _BAG_SIZE, seed, concentration=0.3)
    bags = protocol.bags(y_pool)
    accuracy = float(np.mean(pool.argmax(axis=1) == y_pool))
    _print_setting(console, len(y_train), accuracy, n_bags)
    results = {
        name: _evaluate(method.fit_posteriors, method, training, pool, bags)
        for name, method in demo_methods(seed).items()
    }
    _print_table(console, results)
    _print_example(console, results, bags)
    _print_words(console, results)


def _print_setting(console: Any, n_training: int, accuracy: float, n_bags: int) -> None:
    console.print(
        "\n[bold]Handwritten digits at a quarter of their pixels.[/bold] A logistic regression "
        f"learnt from {n_training} labelled images is right on {accuracy:.0%} of new ones. In "
        f"training each digit makes up about 10 %. We draw {n_bags} bags of {_BAG_SIZE} images "
        "whose mix is quite another, often dominated by a few digits, and ask how many per cent "
        "of each digit a bag holds.\n"
    )


def _evaluate(
    fit: Callable[..., Any], method: Any, training: Any, pool: Any, bags: LabelledBags
) -> tuple[Array, Array, float]:
    """Return the estimates, their absolute errors and the seconds they took."""
    start = time.perf_counter()
    fit(training.posteriors, training.labels)
    estimates = method.aggregate_bags(pool, bags.bags)
    seconds = time.perf_counter() - start
    return estimates, absolute_error(bags.prevalences, estimates), seconds


def _print_table(console: Any, results: dict[str, tuple[Array, Array, float]]) -> None:
    from rich.table import Table

    table = Table(title="Mean absolute error per class, in percentage points")
    for heading in ("method", "mean", "worst bag", "ms per bag with fit"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    best = min(errors.mean() for _, errors, _ in results.values())
    for name, (estimates, errors, seconds) in results.items():
        table.add_row(
            name,
            f"{100 * errors.mean():.2f}",
            f"{100 * errors.max():.2f}",
            f"{1000 * seconds / len(estimates):.2f}",
            style="bold green" if errors.mean() == best else None,
        )
    console.print(table)


def _print_example(
    console: Any, results: dict[str, tuple[Array, Array, float]], bags: LabelledBags
) -> None:
    """Show one strongly shifted bag, digit by digit."""
    from rich.table import Table

    bag = int(np.argmax(np.abs(bags.prevalences - 0.1).sum(axis=1)))
    table = Table(title=f"The most shifted bag (number {bag}), per cent of each digit")
    table.add_column("")
    for digit in range(10):
        table.add_column(str(digit), justify="right")
    table.add_row("training", *["10"] * 10)
    table.add_row("truth", *_percent(bags.prevalences[bag]), style="bold")
    for name in ("CC", "KDEy-ML"):
        table.add_row(name, *_percent(results[name][0][bag]))
    console.print(table)


def _percent(prevalence: Array) -> list[str]:
    return [f"{100 * share:.1f}" for share in prevalence]


def _print_words(console: Any, results: dict[str, tuple[Array, Array, float]]) -> None:
    errors = {name: float(e.mean()) for name, (_, e, _) in results.items()}
    best = min(errors, key=lambda name: errors[name])
    console.print(
        "\n[bold]What you just saw.[/bold] Counting the classifier's decisions (CC) is off by "
        f"{100 * errors['CC']:.2f} points per digit: its mistakes spill from the frequent digits "
        "into the rare ones, and counting cannot tell. Methods that know how the classifier errs "
        f"undo this: {best} is best here with {100 * errors[best]:.2f} points, "
        f"{errors['CC'] / errors[best]:.1f} times closer than counting; KDEy-ML, which "
        f"chose its own bandwidths, has {100 * errors['KDEy-ML']:.2f}. All methods saw the same "
        "classifier, the same training posteriors and the same bags.\n"
    )


@click.command()
@click.option("--bags", default=200, show_default=True, help="Number of test bags.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits and bags.")
@guarded
def demo(bags: int, seed: int) -> None:
    """Compare the paper's methods on scikit-learn's handwritten digits."""
    from kdey.cli.demo import run_demo

    run_demo(n_bags=bags, seed=seed)
