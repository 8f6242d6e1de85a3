"""The default of ``kdey fit``: a pool of classifiers and methods, through all commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import kdey
import kdey.stacking

from .cases import rows, run, without, write

LOW = ("--label", "kind", "--effort", "low")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    return write(folder / "labelled.csv", without(rows(90), "shop", "day"))


@pytest.fixture(scope="module")
def fitted(labelled: Path) -> tuple[Path, Result]:
    """Return the model file of the default, and what was said."""
    model = labelled.with_name("pool.kdey")
    result = run("fit", labelled, *LOW, "-o", model)
    assert result.exit_code == 0, result.output
    return model, result


@pytest.fixture(scope="module")
def model(fitted: tuple[Path, Result]) -> Path:
    return fitted[0]


def test_the_default_is_a_pool_that_says_how_far_it_is(fitted: tuple[Path, Result]) -> None:
    model, result = fitted
    assert type(kdey.load(model)) is kdey.Quantifier
    lines = result.stderr.splitlines()
    steps = [line for line in lines if "classifiers)" in line]
    assert [line.partition(":")[0] for line in steps] == [
        "logistic regression",
        "extra trees",
        "gradient boosting",
    ]
    assert all(" s left" in line for line in steps[:-1])
    assert "(3 of 3 classifiers)" in steps[-1]
    assert " s left" not in steps[-1]
    assert any(line.startswith("- accuracy") for line in lines)
    assert any(line.startswith("- A pool of") for line in lines)
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines if str(model.parent) not in line)


def test_inspect_explains_the_pool(model: Path) -> None:
    facts = json.loads(run("inspect", model, "--json").stdout)
    quantifier: Any = kdey.load(model)
    assert facts["explanation"] == quantifier.explain().splitlines()
    assert facts["classifier"].startswith("a pool of ")
    shown = run("inspect", model).stdout
    assert "have these weights:" in " ".join(shown.split())


def test_estimate_report_and_evaluate_take_a_pool(model: Path, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", rows(60, seed=1))
    result = run("estimate", model, new, "--by", "shop", "--format", "csv")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 1 + 2 * 2
    page = tmp_path / "r.html"
    result = run("report", model, new, "--by", "shop", "-o", page)
    assert result.exit_code == 0, result.output
    technical = page.read_text(encoding="utf-8").partition('id="technical"')[2]
    quantifier: Any = kdey.load(model)
    assert quantifier._description in technical
    bags = ("--bags", 5, "--bag-size", 20)
    result = run("evaluate", new, "--label", "kind", "--model", model, *bags)
    assert result.exit_code == 0, result.output


def test_a_pool_among_methods(labelled: Path) -> None:
    rest = ("--label", "kind", "--classifier", "logistic", "--bags", 5, "--bag-size", 20)
    result = run("evaluate", labelled, *rest, "--methods", "quantifier,pacc")
    assert result.exit_code == 0, result.output
    assert {line.partition(",")[0] for line in result.stdout.splitlines()[1:]} == {
        "quantifier",
        "pacc",
    }


def test_a_fit_goes_on_from_the_folder(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = (*LOW, "--classifier", "logistic,naive-bayes", "-o", tmp_path / "m.kdey")
    resume = ("--resume", tmp_path / "fits")
    result = run("fit", labelled, *rest, *resume)
    assert result.exit_code == 0, result.output
    assert "pickles" in result.stderr
    assert len(list((tmp_path / "fits").iterdir())) == 2

    def refuse(*args: Any, **options: Any) -> None:
        raise RuntimeError("fitted again")

    monkeypatch.setattr(kdey.stacking, "cross_fit", refuse)
    result = run("fit", labelled, *rest, *resume)
    assert result.exit_code == 0, result.output
    assert "left out" not in result.stderr
    with pytest.raises(RuntimeError, match="fitted again"):
        run("fit", labelled, *rest, catch_exceptions=False)


def test_limits_and_classifiers_by_name(labelled: Path, tmp_path: Path) -> None:
    rest = ("--classifier", "logistic", "--classifier", "random-forest", "--size-limit", "0.02")
    result = run("fit", labelled, *LOW, *rest, "-o", tmp_path / "m.kdey")
    assert result.exit_code == 0, result.output
    assert "random-forest is left out of the pool" in result.stderr
    q: Any = kdey.load(tmp_path / "m.kdey")
    assert {member.classifier for member in q.stack_.members} == {"logistic regression"}
    one = ("--classifier", "logistic", "--classifier-option", "C=0.5", "--time-limit", "60")
    assert run("fit", labelled, *LOW, *one, "-o", tmp_path / "m.kdey").exit_code == 0
    q = kdey.load(tmp_path / "m.kdey")
    assert q.time_limit == 60
    assert q.classifiers["logistic regression"][-1].C == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "pacc", "--effort", "low"), "--effort is for --method quantifier"),
        (("--method", "pacc", "--resume", "f"), "--resume is for --method quantifier"),
        (("--method", "pacc", "--classifier", "logistic,boosting"), "pacc takes one"),
        (("--classifier", "perceptron"), "no 'perceptron'"),
        (("--classifier-option", "C=1"), "needs one --classifier"),
        (("--no-fold-models",), "not for --method quantifier"),
        (("--time-limit", "0"), "--time-limit"),
        (("--option", "schema=3"), "no 'schema'"),
    ],
)
def test_options_that_do_not_go_together(
    labelled: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = run("fit", labelled, "--label", "kind", *options, "-o", tmp_path / "m.kdey")
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_report_uses_the_threads_asked_for(
    model: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """``kdey report`` had no --jobs and used one thread, beside all of ``kdey estimate``."""
    import kdey.report
    from kdey.stacking.pooled_classifier import pool_of

    used = []

    def spy(*arguments: Any, **options: Any) -> Any:
        used.append(arguments[0])
        return make_report(*arguments, **options)

    make_report = kdey.report.make_report
    monkeypatch.setattr(kdey.report, "make_report", spy)
    result = run("report", model, labelled, "--jobs", jobs, "-o", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    pool = pool_of(used[0].classifier_)
    assert pool is not None
    assert pool.n_threads == used[0].n_jobs == jobs
