"""``python -m experiments``: the paper's data sets, experiments, tables, figures, submissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import kdey
from experiments.data import data
from experiments.figures import draw_figures
from experiments.results import ResultsFile, read_results
from experiments.run import Run, run
from experiments.sensitivity import run_sensitivity
from experiments.settings import METRICS, SETTINGS, find_methods
from experiments.submission import (
    estimate_all,
    fit_task,
    read_submission,
    score,
    task_classifier,
    task_quantifier,
    write_submission,
)
from experiments.tables import make_tables, rule_tables, write_document, write_tables
from experiments.tasks import find_sources
from experiments.writers import print_tables
from kdey.datasets.lequa import TASKS, find_task, load_lequa

#: Exit codes: something that was looked for was found wrong; refused with one line that says why.
PROBLEMS, REFUSED, INTERRUPTED = 1, 2, 130
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


class Refusal(click.ClickException):
    """An error that the user can correct: one line, not a traceback."""

    exit_code = REFUSED


class ExperimentCommands(click.Group):
    """Commands whose errors end in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise Refusal(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            _say("\nstopped; the same command continues from here")
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(cls=ExperimentCommands)
def main() -> None:
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
        _run_setting(name, **options)

    return command


_HELP = {
    "multi": "The five UCI multiclass sets: 250 validation and 1,000 test bags of 500.",
    "binary": "The 29 UCI binary sets: 250 validation and 1,000 test bags of 100.",
    "tweets": "The 11 Tweets sets, or the approximate ones where the files are missing.",
    "lequa": "LeQua 2022 T1B, or data of its size where the files are missing.",
    "lequa-binary": "LeQua 2022 T1A, or data of its size where the files are missing.",
}
main.add_command(data)
for _name in SETTINGS:
    main.add_command(_setting_command(_name))


@main.command(cls=SpacedCommand)
@click.option(
    "--setting", "name", type=click.Choice(["multi", "tweets"]), default="multi", show_default=True
)
@_datasets
@_seeds
@_jobs
@_quick
@_results
def sensitivity(
    name: str,
    datasets: tuple[str, ...],
    seeds: tuple[int, ...],
    jobs: int,
    quick: bool,
    results: Path,
) -> None:
    """Test error of DM-HD over bins, and of KDEy-ML over bandwidths and at those of rules."""
    setting = SETTINGS[name].quick_version() if quick else SETTINGS[name]
    sources = find_sources(setting, datasets, _say)
    with ResultsFile(_file(results, "sensitivity", quick)) as store:
        run_sensitivity(setting, sources, seeds, store, jobs, _say)


@main.command()
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
    stored = read_results(*_files(results))
    by_experiment = {name: make_tables(stored, name) for name in SETTINGS}
    by_experiment["rules"] = rule_tables(stored)
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


@main.command()
@_results
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True)
def figures(results: Path, out: Path) -> None:
    """Draw all figures that the results allow; the sketches need none."""
    paths = _files(results) if results.exists() else []
    for path in draw_figures(read_results(*paths), out, _say):
        _say(f"wrote {path}")


def _run_setting(
    name: str,
    *,
    metric: str,
    methods: tuple[str, ...],
    one_classifier: bool,
    datasets: tuple[str, ...],
    seeds: tuple[int, ...],
    jobs: int,
    quick: bool,
    results: Path,
) -> None:
    setting = SETTINGS[name].quick_version() if quick else SETTINGS[name]
    setting = setting.with_one_classifier() if one_classifier else setting
    chosen = [method.name for method in find_methods(methods or setting.methods, setting.methods)]
    metrics = list(METRICS) if metric == "both" else [metric]
    sources = find_sources(setting, datasets, _say)
    path = _file(results, name, quick)
    with ResultsFile(path) as store:
        failures = run(Run(setting, sources, chosen, metrics, seeds, jobs), store, _say)
    _print_tables(path)
    if failures:
        _say(f"{len(failures)} searches failed, the first: {failures[0]}")
        raise click.exceptions.Exit(PROBLEMS)


def _print_tables(path: Path) -> None:
    """Print the widest table of each metric, and the pairs."""
    tables = make_tables(read_results(path))
    wide = {table.name.removesuffix("-all") for table in tables if table.name.endswith("-all")}
    narrow = {f"{name}-{kind}" for name in wide for kind in ("full", "compact")}
    kept = ("-compact", "-difference", "-spread")
    print_tables(t for t in tables if t.name not in narrow and not t.name.endswith(kept))


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


def _say(line: str) -> None:
    click.echo(line, err=True)


_task = click.argument("task", type=click.Choice(list(TASKS)))
#: The methods of submissions, by name and class.
_SUBMITTED = {
    "kdey-ml": kdey.KDEyML,
    "kdey-hd": kdey.KDEyHD,
    "kdey-cs": kdey.KDEyCS,
    "kdey-l2": kdey.KDEyL2,
    "emq": kdey.EMQ,
    "pacc": kdey.PACC,
    "acc": kdey.ACC,
    "dm": kdey.DM,
    "pcc": kdey.PCC,
    "cc": kdey.CC,
}
_bags = click.option("--bags", type=click.IntRange(1), help="Number of bags, if not official.")


@main.group()
def submission() -> None:
    """Make, check and score submissions to LeQua 2022 and 2024.

    `python -m experiments data fetch T1` downloads a task; KDEY_DATA names the directory of files
    that are there.
    """


@submission.command()
@_task
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--part",
    type=click.Choice(["test", "dev"]),
    default="test",
    show_default=True,
    help="Bags to estimate; the truth of the test bags is not needed.",
)
@click.option(
    "--method",
    type=click.Choice(list(_SUBMITTED)),
    default="kdey-ml",
    show_default=True,
)
@click.option(
    "--from-samples",
    is_flag=True,
    help="T3: choose the penalty on rough prevalences by the error on training samples.",
)
@click.option("--data-dir", type=click.Path(exists=True, file_okay=False), help="Look there alone.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--jobs", default=-1, show_default=True, help="Fits and threads at once; -1: all.")
def make(task: str, output: Path, **options: Any) -> None:
    """Fit on TASK and write the estimates of its bags to OUTPUT, as the organisers want them.

    Classes of T3 are ordered: its method gets a penalty on rough prevalences.
    """
    facts = find_task(task)
    data = load_lequa(
        task, options["data_dir"], test="samples" if options["part"] == "test" else None
    )
    bags = data.test if options["part"] == "test" else data.validation
    method = _SUBMITTED[options["method"]](
        task_classifier(facts), random_state=options["seed"], n_jobs=options["jobs"]
    )
    _say(f"{task}: fitting on {len(data.train):,} instances of {len(data.classes)} classes")
    fitted = fit_task(task_quantifier(facts, method), data, from_samples=options["from_samples"])
    _say(f"estimating {len(bags):,} bags")
    estimates = estimate_all(fitted, bags)
    write_submission(output, estimates)
    _say(f"wrote {output}")
    if options["part"] == "dev":
        _print_scores(score(task, bags.prevalences, estimates))


@submission.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--task", type=click.Choice(list(TASKS)), help="Whose number of classes FILE must have."
)
@_bags
def check(file: str, task: str | None, bags: int | None) -> None:
    """Say whether FILE is a valid submission; the exit code is 1 if it is not."""
    try:
        prevalences = read_submission(file, task, n_bags=bags)
    except ValueError as error:
        click.echo(f"not valid: {error}")
        raise click.exceptions.Exit(PROBLEMS) from None
    click.echo(f"valid: {len(prevalences):,} bags, {prevalences.shape[1]} classes")


@submission.command(name="score")
@_task
@click.argument("truth", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_bags
def score_(task: str, truth: str, file: str, bags: int | None) -> None:
    """Print the measures of TASK for a submission FILE, given the file of true prevalences."""
    true = read_submission(truth, task, n_bags=bags)
    estimated = read_submission(file, task, n_bags=bags)
    _print_scores(score(task, true, estimated))


def _print_scores(scores: dict[str, float]) -> None:
    for name, value in scores.items():
        click.echo(f"{name}: {value:.5f}")


if __name__ == "__main__":
    main(prog_name="python -m experiments")
