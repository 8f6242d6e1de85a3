"""``kdey reproduce``: the paper's experiments, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.exit_codes import PROBLEMS, USER_ERRORS, Stopped, refusal

if TYPE_CHECKING:
    from kdey.paper.results import Results

_SETTINGS = ("multi", "binary", "tweets", "lequa", "lequa-binary")
_RESULTS = Path("results")
_quick = click.option(
    "--quick", is_flag=True, help="Small grids, few bags: minutes. Runs on bundled data if need be."
)
_datasets = click.option("--datasets", multiple=True, help="Data sets; repeat. Default: all.")
_seeds = click.option(
    "--seeds", multiple=True, type=click.IntRange(0), default=(0,), help="Split seeds; repeat."
)
_jobs = click.option(
    "--jobs", default=-1, show_default=True, help="Classifier fits and threads at once; -1: all."
)
_results = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=_RESULTS,
    show_default=True,
    help="Results file, or the folder of the results files.",
)


class SpacedCommand(click.Command):
    """Takes ``--seeds 0 1 2`` as ``--seeds 0 --seeds 1 --seeds 2``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat an option that takes several values before each of them."""
        several = {
            name
            for option in self.params
            if isinstance(option, click.Option) and option.multiple
            for name in option.opts
        }
        spread: list[str] = []
        current = None
        for arg, following in zip(args, [*args[1:], "-"], strict=True):
            if arg.startswith("-"):
                current = arg if arg in several else None
                if current is None:
                    spread.append(arg)
                elif following.startswith("-"):  # or all data sets would run instead of none
                    raise click.BadOptionUsage(arg, f"Option {arg!r} requires an argument.", ctx)
            elif current is not None:
                spread += [current, arg]
            else:
                spread.append(arg)
        return super().parse_args(ctx, spread)


@click.group()
def reproduce() -> None:
    """Run the paper's experiments; make its tables and figures.

    Finished cells are stored at once: the same command continues where it was stopped.
    """


def _setting_command(name: str) -> click.Command:
    """Return the command that runs one setting."""

    @click.command(name, cls=SpacedCommand, help=_HELP[name])
    @click.option("--metric", type=click.Choice(["mae", "mrae", "both"]), default="both")
    @click.option("--methods", multiple=True, help="Methods; repeat. Default: all.")
    @click.option(
        "--one-classifier", is_flag=True, help="No grid over the classifier: C = 1, unweighted."
    )
    @_datasets
    @_seeds
    @_jobs
    @_quick
    @_results
    def command(**options: Any) -> None:
        _guarded(lambda: _run_setting(name, _RunOptions(**options)))

    return command


_HELP = {
    "multi": "The five UCI multiclass sets: 250 validation and 1,000 test bags of 500.",
    "binary": "The 29 UCI binary sets: 250 validation and 1,000 test bags of 100.",
    "tweets": "The 11 Tweets sets, or the approximate ones where the files are missing.",
    "lequa": "LeQua 2022 T1B, or data of its size where the files are missing.",
    "lequa-binary": "LeQua 2022 T1A, or data of its size where the files are missing.",
}
for _name in _SETTINGS:
    reproduce.add_command(_setting_command(_name))


@reproduce.command(cls=SpacedCommand)
@_datasets
@_seeds
@_jobs
@_quick
@_results
def sensitivity(
    datasets: tuple[str, ...], seeds: tuple[int, ...], jobs: int, quick: bool, results: Path
) -> None:
    """Test error of DM-HD over bins and of KDEy-ML over bandwidths (UCI multiclass)."""

    def work() -> None:
        from kdey.paper.results import ResultsFile
        from kdey.paper.sensitivity import run_sensitivity
        from kdey.paper.settings import SETTINGS
        from kdey.paper.tasks import find_sources

        setting = SETTINGS["multi"].quick_version() if quick else SETTINGS["multi"]
        sources = find_sources(setting, datasets, _say)
        with ResultsFile(_file(results, "sensitivity", quick)) as store:
            run_sensitivity(setting, sources, seeds, store, jobs, _say)

    _guarded(work)


@reproduce.command()
@_results
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the files to write.")
@click.option(
    "--document",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Markdown document whose tables, between markers, to replace.",
)
@click.option("--quiet", is_flag=True, help="Do not print the tables.")
def tables(results: Path, out: Path | None, document: Path | None, quiet: bool) -> None:
    """Make all tables from results files; nothing is run."""
    _guarded(lambda: _make_tables(results, out, document, quiet))


@reproduce.command()
@_results
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True)
def figures(results: Path, out: Path) -> None:
    """Draw all figures that the results allow; the sketches need none."""

    def work() -> None:
        from kdey.paper.figures import draw_figures

        paths = _files(results) if results.exists() else []
        for path in draw_figures(_read(paths), out, _say):
            _say(f"wrote {path}")

    _guarded(work)


@dataclass(frozen=True)
class _RunOptions:
    """The options of a command that runs a setting, as click gives them."""

    metric: str
    methods: tuple[str, ...]
    one_classifier: bool
    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    jobs: int
    quick: bool
    results: Path


def _run_setting(name: str, options: _RunOptions) -> None:
    from kdey.paper.methods import find_methods
    from kdey.paper.results import ResultsFile
    from kdey.paper.run import Run, run
    from kdey.paper.settings import METRICS, SETTINGS
    from kdey.paper.tasks import find_sources

    setting = SETTINGS[name].quick_version() if options.quick else SETTINGS[name]
    setting = setting.with_one_classifier() if options.one_classifier else setting
    chosen = find_methods(options.methods or setting.methods, setting.methods)
    methods = [method.name for method in chosen]
    metrics = list(METRICS) if options.metric == "both" else [options.metric]
    sources = find_sources(setting, options.datasets, _say)
    path = _file(options.results, name, options.quick)
    plan = Run(setting, sources, methods, metrics, options.seeds, options.jobs)
    with ResultsFile(path) as store:
        failures = run(plan, store, _say)
    _print_tables(path)
    if failures:
        _say(f"{len(failures)} searches failed, the first: {failures[0]}")
        raise click.exceptions.Exit(PROBLEMS)


def _print_tables(path: Path) -> None:
    """Print the widest table of each metric, and the pairs."""
    from kdey.paper.tables import make_tables
    from kdey.tables.formats import print_tables

    tables = make_tables(_read([path]))
    wide = {table.name.removesuffix("-all") for table in tables if table.name.endswith("-all")}
    narrow = {f"{name}-{kind}" for name in wide for kind in ("full", "compact")}
    kept = ("-compact", "-difference", "-spread")
    print_tables(t for t in tables if t.name not in narrow and not t.name.endswith(kept))


def _make_tables(results: Path, out: Path | None, document: Path | None, quiet: bool) -> None:
    from kdey.paper.settings import SETTINGS
    from kdey.paper.tables import make_tables, write_document, write_tables
    from kdey.tables.formats import print_tables

    stored = _read(_files(results))
    by_experiment = {name: make_tables(stored, name) for name in SETTINGS}
    every = [table for part in by_experiment.values() for table in part]
    if not every:
        raise ValueError(f"{results} holds no finished cell")
    if not quiet:
        print_tables(every)
    if out is not None:
        for path in write_tables(every, out):
            _say(f"wrote {path}")
    if document is not None:
        write_document(document, {name: part for name, part in by_experiment.items() if part})
        _say(f"wrote {document}")


def _file(results: Path, name: str, quick: bool) -> Path:
    """Return the results file of an experiment: quick ones never mix with full ones."""
    if results.suffix == ".jsonl":
        return results
    return results / (f"{name}-quick.jsonl" if quick else f"{name}.jsonl")


def _files(results: Path) -> list[Path]:
    """Return one results file, or all full ones of a folder."""
    if not results.is_dir():
        return [results]
    return [path for path in sorted(results.glob("*.jsonl")) if not path.stem.endswith("-quick")]


def _read(paths: Sequence[Path]) -> Results:
    from kdey.paper.results import read_results

    return read_results(*paths)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _guarded(work: Callable[[], None]) -> None:
    """Run a command; an error of the user's is one line, not a traceback."""
    try:
        work()
    except USER_ERRORS as error:
        raise refusal(error) from error
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command continues from here") from None
