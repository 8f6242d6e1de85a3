"""The command line: ``kdey demo`` (more commands will join it here)."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        import click
    except ImportError:
        sys.exit("the kdey command needs its extra: pip install 'kdey[cli]'")

    @click.group(context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(package_name="kdey")
    def kdey() -> None:
        """Estimate class prevalences in unlabelled data."""

    @kdey.command()
    @click.option("--bags", default=200, show_default=True, help="Number of test bags.")
    @click.option("--seed", default=0, show_default=True, help="Seed of the splits and bags.")
    def demo(bags: int, seed: int) -> None:
        """Compare the paper's methods on scikit-learn's handwritten digits."""
        from kdey.demo import run_demo

        run_demo(n_bags=bags, seed=seed)

    kdey()


if __name__ == "__main__":
    main()
