"""``kdey demo``."""

from __future__ import annotations

import click

from kdey.cli.common import guarded


@click.command()
@click.option("--bags", default=200, show_default=True, help="Number of test bags.")
@click.option("--seed", default=0, show_default=True, help="Seed of the splits and bags.")
@guarded
def demo(bags: int, seed: int) -> None:
    """Compare the paper's methods on scikit-learn's handwritten digits."""
    from kdey.demo import run_demo

    run_demo(n_bags=bags, seed=seed)
