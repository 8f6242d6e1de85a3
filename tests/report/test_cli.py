"""``kdey report`` as typed."""

from __future__ import annotations

import csv
import datetime as dt
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from kdey import KDEyML, load, make_report, save
from kdey.validation import make_frame

pytest.importorskip("click")
pd = pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")
FEATURES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model and a table of flowers, by site and day."""
    where = tmp_path_factory.mktemp("cli")
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    frame = make_frame({name: X[:, i] for i, name in enumerate(FEATURES)})
    q = KDEyML(LogisticRegression(max_iter=1000), bandwidth=0.1, kernel="gaussian")
    save(q.fit(frame, labels), where / "model.kdey")
    save(
        KDEyML(bandwidth=0.1, kernel="gaussian").fit_posteriors(q.training_.posteriors, labels),
        where / "scores.kdey",
    )
    rng = np.random.default_rng(0)
    rows: list[list[Any]] = [[*FEATURES[::-1], "species", "site", "day"]]
    for i in rng.choice(150, 200):
        day = dt.date(2026, 1, 1) + dt.timedelta(int(rng.integers(3)))
        rows.append([*X[i][::-1], labels[i], rng.choice(["<b>x</b>", "y"]), day])
    _write(where / "table.csv", rows)
    posteriors = q.classifier_.predict_proba(frame)[::2]
    _write(where / "scores.csv", [["setosa", "versicolor", "virginica"], *posteriors.tolist()])
    return where


def _write(path: Path, rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def run(*arguments: object) -> Any:
    from ..runner import invoke

    return invoke("report", *arguments)


def test_a_report_by_site_and_day(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    options = ["--by", "site", "--time", "day", "--label", "species"]
    result = run(folder / "model.kdey", folder / "table.csv", *options, "-o", out)
    assert result.exit_code == 0, result.output
    page = out.read_text(encoding="utf-8")
    assert "Shares of classes in table.csv" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x" not in page
    for part in ("groups", "classes", "fit", "reliability", "confusion"):
        assert f'id="{part}"' in page
    assert "SHA-256 of model.kdey" in page


def test_periods_by_name_totals_and_figures(folder: Path, tmp_path: Path) -> None:
    out, figures = tmp_path / "r.html", tmp_path / "figures"
    options = ["--by", "site", "--time", "day", "--every", "1mo", "--no-check-fit"]
    files = ["-o", out, "--figures", figures]
    result = run(folder / "model.kdey", folder / "table.csv", *options, *files)
    assert result.exit_code == 0, result.output
    assert f"figures to {figures}" in result.output
    assert {"prevalence.svg", "time.svg"} <= {path.name for path in figures.iterdir()}
    page = out.read_text(encoding="utf-8")
    assert "January 2026" in page, "a single month is a month if one asked for months"
    # The one month of a site holds all of its rows: so does its total.
    total = re.search(r'<tbody>\s*<tr id="groups-.*?</tbody>', page, re.DOTALL)
    month = re.search(r'id="group-rows">.*?</tbody>', page, re.DOTALL)
    assert total is not None
    assert month is not None
    shares = re.findall(r"<b>(\d+\.\d\u00a0%)</b>", total[0])
    assert len(shares) >= 2
    assert all(share in month[0] for share in shares)


def test_what_cannot_be_written_is_said_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "r.html"
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    figures = ["--figures", tmp_path / "figures", "--figure-format", "png"]
    result = run(folder / "model.kdey", folder / "table.csv", "-o", out, *figures)
    assert result.exit_code == 2
    assert "plots need matplotlib: pip install 'kdey[plot]'" in result.output
    assert not out.exists()


def test_the_page_is_about_the_class_that_was_asked_for(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    options = ["--by", "site", "--focus", "setosa", "--labelled", "species"]
    result = run(folder / "model.kdey", folder / "table.csv", *options, "-o", out)
    assert result.exit_code == 0, result.output
    page = out.read_text(encoding="utf-8")
    headline = page.split('class="headline">')[1].split("</p>")[0]
    assert headline.count("are “") == 1
    assert "are “setosa”" in headline
    assert "whatever has changed since training" in page, "labels of the rows are used"
    result = run(folder / "model.kdey", folder / "table.csv", "--focus", "rose", "-o", out)
    assert result.exit_code == 2
    assert "focus must be one of" in result.output


def test_python_makes_the_same_page(folder: Path, tmp_path: Path) -> None:
    options = ["--by", "site", "--time", "day", "--label", "species", "--against", "previous"]
    out = tmp_path / "r.html"
    assert run(folder / "model.kdey", folder / "table.csv", *options, "-o", out).exit_code == 0
    model = load(folder / "model.kdey")
    keys: Any = {"by": "site", "time": "day", "truth": "species", "against": "previous"}
    typed = out.read_text(encoding="utf-8")
    by_path = make_report(model, folder / "table.csv", **keys).html()
    frame = pd.read_csv(folder / "table.csv")
    by_frame = make_report(model, frame, title="Shares of classes in table.csv", **keys).html()
    for page in (by_path, by_frame):
        assert shown(page) == shown(typed)


def shown(page: str) -> str:
    """Return what a page shows before its files and settings; not the values that sort tables."""
    text = page.split("<main", 1)[1].split('id="files"', 1)[0]
    return re.sub(r' data-value="[^"]*"', "", text)


def test_scores_in_answer_out(folder: Path, tmp_path: Path) -> None:
    for options in ([], ["--scores", "setosa,versicolor,virginica"]):
        out = tmp_path / f"{len(options)}.html"
        result = run(folder / "scores.kdey", folder / "scores.csv", *options, "-o", out)
        assert result.exit_code == 0, result.output
        assert out.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--by", "region"], "no key column 'region'"),
        (["--label", "site"], "in row 2, which training lacks"),
        (["--scores", "a,site,b"], "column 'site' must hold numbers, but row 2"),
        (["--confidence", "2"], "confidence"),
        (["-o", "/nowhere/at/all.html"], "cannot write /nowhere/at/all.html"),
    ],
)
def test_what_is_wrong_is_one_line(
    folder: Path, tmp_path: Path, change: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(folder / "model.kdey", folder / "table.csv", *change)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c\n1,2,3\n", "no column 'd'"),
        ("a,b,c,d\n", "has no rows"),
        ("a,b,c,d\n1,2,3,4\n1,2\n", "Row #3: Expected 4 columns"),
        ("", "the file is empty"),
    ],
)
def test_bad_tables(folder: Path, tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "bad.csv"
    table.write_text(text)
    result = run(folder / "model.kdey", table, "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "bad.csv" in result.output
    assert message in result.output
    assert list(tmp_path.iterdir()) == [table]


def test_files_that_are_no_models(folder: Path, tmp_path: Path) -> None:
    result = run(folder / "table.csv", folder / "table.csv", "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "is not a kdey model file" in result.output
    result = run(folder / "none.kdey", folder / "table.csv", "-o", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "No such file" in result.output
