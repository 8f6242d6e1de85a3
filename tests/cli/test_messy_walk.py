"""A newcomer's walk over a table as offices export it; the true shares are known.

The labelled file is Latin-1 with semicolons and decimal commas. It has ids, dates in two formats,
gaps, sentences, a class of eight labels, a column that never varies and a copy of another. The
classes lie so far apart that no classifier can miss them: every estimate is right to a few points,
or a message says why there is none.
"""

from __future__ import annotations

import csv
import io
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

import kdey

from .cases import FAST, run

CLASSES = ("lost", "damaged", "late", "wrong")
CITIES = ("Köln", "Zürich", "Genève", "Malmö")
SENTENCES = (
    "the parcel never arrived at my door",
    "the box was broken and so was the glass",
    "it came two weeks after the day you said",
    "another article was inside than I ordered",
)
#: Complaints of each class by shop; keys that a spreadsheet would make one number of.
SHOPS = {"01": (20, 40, 100, 40), "1": (100, 60, 30, 10), "007": (40, 120, 40, 0)}
#: What estimates may be off by, where the classes can hardly be mistaken.
CLOSE = 0.05


def complaints(counts: tuple[int, ...], seed: int) -> pd.DataFrame:
    """Return a table in which the classes have these counts, every value as it is written."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(4), counts))
    n = len(code)
    weight = _with_commas(rng.normal(6.0 * code, 1.0), 3)
    days = _with_commas(rng.normal(5.0 * ((code + 2) % 4), 1.0), 2)
    city = np.where(rng.random(n) < 0.8, code, rng.integers(0, 4, n))
    number = rng.permutation(n)
    return pd.DataFrame(
        {
            "case": [f"C-{seed}-{i:05d}" for i in number],
            "received": [f"{1 + i % 28:02d}.03.2026" for i in number],
            "kg": weight,
            "weight": weight,
            "days": ["" if i % 12 == 5 else text for i, text in enumerate(days)],
            "city": [CITIES[i] for i in city],
            "note": [f"{SENTENCES[c]} on day {i}" for c, i in zip(code, number, strict=True)],
            "country": "DE",
            "reason": [CLASSES[i] for i in code],
        }
    )


def _with_commas(values: Any, digits: int) -> list[str]:
    return [f"{value:.{digits}f}".replace(".", ",") for value in values]


def save(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, sep=";", index=False, encoding="latin-1")
    return path


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with numbers as numbers, as a spreadsheet or a Parquet file has them."""
    numbers = {name: table[name].str.replace(",", ".") for name in ("kg", "weight", "days")}
    return table.assign(**{name: pd.to_numeric(column) for name, column in numbers.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the labelled table, the new one, and what ``kdey fit`` made and said."""
    folder = tmp_path_factory.mktemp("walk")
    labelled = complaints((120, 140, 100, 8), seed=0)
    iso = labelled["received"].str.replace(r"(\d+)\.(\d+)\.(\d+)", r"\3-\2-\1", regex=True)
    labelled["received"] = labelled["received"].where(np.arange(len(labelled)) % 2 == 0, iso)
    save(labelled, folder / "labelled.csv")
    parts = [
        complaints(counts, seed).assign(shop=shop)
        for seed, (shop, counts) in enumerate(SHOPS.items(), start=1)
    ]
    new = pd.concat(parts, ignore_index=True).rename(columns={"reason": "known"})
    save(new, folder / "new.csv")
    typed(new).to_parquet(folder / "new.parquet")
    options = ("--label", "reason", "--method", "kdey-ml", *FAST, "-o", folder / "m.kdey")
    fitted = run("fit", folder / "labelled.csv", *options)
    assert fitted.exit_code == 0, fitted.output
    (folder / "said.txt").write_text(fitted.stderr, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def new(folder: Path) -> pd.DataFrame:
    return pd.read_csv(
        folder / "new.csv", sep=";", encoding="latin-1", dtype=str, keep_default_na=False
    )


def estimate(folder: Path, table: Path, *options: Any) -> Result:
    return run("estimate", folder / "m.kdey", table, "--format", "csv", *options)


def answers(result: Result) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def refusal(result: Result) -> str:
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    return lines[0]


def assert_right(rows: list[dict[str, str]], shops: tuple[str, ...] = tuple(SHOPS)) -> None:
    """Raise unless there is one row per shop and class, all near the true shares."""
    assert len(rows) == 4 * len(shops)
    for row in rows:
        counts = SHOPS[row["shop"]]
        true = counts[CLASSES.index(row["class"])] / sum(counts)
        assert abs(float(row["estimate"]) - true) < CLOSE, row
        assert float(row["low"]) - 0.02 <= true <= float(row["high"]) + 0.02, row


def test_check_and_fit_say_the_same_of_every_column(folder: Path) -> None:
    checked = run("check", folder / "labelled.csv", "--label", "reason", "--no-fit")
    assert checked.exit_code == 0, checked.output
    page = " ".join(checked.stdout.split())
    said = " ".join((folder / "said.txt").read_text(encoding="utf-8").split())
    for name, role, reason in (
        ("case", "id", "368 different texts in 368 rows"),
        ("received", "ignored", "holds dates such as '"),
        ("weight", "ignored", "the same in every row as 'kg'"),
        ("country", "ignored", "always 'DE'"),
    ):
        assert f"{name} {role} {reason}" in page, page
        assert f"{name} {role} {reason}" in said, said
    assert "note text sentences such as" in page
    assert "the rarest first: wrong 8, " in page
    for sentence in (
        "read as Windows-1252, because it is not UTF-8",
        "decimal commas, as in",
        "fewer than 20 labels of the class wrong (8): the intervals of it",
        "few labels: wrong (8)",
    ):
        assert sentence in said, said
    schema = kdey.load(folder / "m.kdey").model_.table_schema
    assert schema.feature_names == ("kg", "days", "city", "note")


def test_shares_are_right_from_every_file(folder: Path, new: pd.DataFrame) -> None:
    result = estimate(folder, folder / "new.csv", "--by", "shop")
    assert "fewer than 20 labels of the class wrong (8)" in " ".join(result.stderr.split())
    from_text = answers(result)
    assert [row["shop"] for row in from_text[::4]] == ["1", "01", "007"]
    assert_right(from_text)
    assert all("few labels" in row["status"].split("; ") for row in from_text)
    assert answers(estimate(folder, folder / "new.parquet", "--by", "shop")) == from_text
    q = kdey.load(folder / "m.kdey")
    for shop in SHOPS:
        shares = [float(row["estimate"]) for row in from_text if row["shop"] == shop]
        answer = q.estimate(new[new["shop"] == shop])
        np.testing.assert_allclose(answer.estimate, shares, rtol=1e-5)
        assert "few labels" in answer.status.split("; ")


def test_shares_are_right_from_excel(folder: Path, new: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    pytest.importorskip("xlsxwriter")
    typed(new).to_excel(tmp_path / "new.xlsx", index=False, engine="xlsxwriter")
    from_excel = answers(estimate(folder, tmp_path / "new.xlsx", "--by", "shop"))
    assert from_excel == answers(estimate(folder, folder / "new.csv", "--by", "shop"))


def test_upper_case_is_flagged_in_status_and_warning(
    folder: Path, new: pd.DataFrame, tmp_path: Path
) -> None:
    shouted = new.assign(city=new["city"].str.upper())
    result = estimate(folder, save(shouted, tmp_path / "upper.csv"), "--by", "shop")
    assert "column 'city': unseen values in 600 of 600 rows (such as '" in result.stderr
    assert all("unseen values" in row["status"].split("; ") for row in answers(result))
    with pytest.warns(UserWarning, match="column 'city': unseen values in 600 of 600 rows"):
        answer = kdey.load(folder / "m.kdey").estimate(shouted)
    assert "unseen values" in answer.status.split("; ")


def test_a_report_names_the_column_with_unseen_values(
    folder: Path, new: pd.DataFrame, tmp_path: Path
) -> None:
    path = save(new.assign(city=new["city"].str.upper()), tmp_path / "upper.csv")
    options = ("--no-check-fit", "-o", tmp_path / "page.html")
    assert run("report", folder / "m.kdey", path, *options).exit_code == 0
    page = unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Note: fewer than 20 labels of the class wrong (8)" in page
    front = page[: page.index('id="technical"')]
    assert "column 'city': unseen values in 600 of 600 rows" in front
    lead = page[page.index('class="lead"') : page.index("</section>")]
    assert "Beware: values that the training examples lack" in lead


def test_each_bag_has_a_status_of_its_own(folder: Path, new: pd.DataFrame) -> None:
    half = new.assign(city=new["city"].where(new.index < 300, "Oslo"))
    with pytest.warns(UserWarning, match="unseen values in 300 of 600 rows"):
        first, second = kdey.load(folder / "m.kdey").estimate_bags(
            half, [range(300), range(300, 600)], check_fit=False
        )
    turned_off = "not checked (the check was turned off)"
    assert first.status == f"few labels; {turned_off}"
    assert second.status == f"unseen values; few labels; {turned_off}"


def test_dates_by_day_first_give_months(folder: Path) -> None:
    months = ("--by", "shop", "--time", "received", "--every", "1mo")
    rows = answers(estimate(folder, folder / "new.csv", *months))
    assert {row["received"] for row in rows} == {"2026-03-01"}
    assert_right(rows)


@pytest.mark.parametrize("every", [(), ("--every", "1mo")])
def test_dates_in_two_formats_are_no_time(
    folder: Path, new: pd.DataFrame, tmp_path: Path, every: tuple[str, ...]
) -> None:
    # As texts, one day would be two groups.
    mixed = new.assign(received=new["received"].where(new.index > 0, "2026-03-09"))
    path = save(mixed, tmp_path / "mixed.csv")
    message = refusal(estimate(folder, path, "--time", "received", *every))
    assert "time column 'received' writes dates in several ways (row 2 has '2026-03-09'" in message
    asked = ("--time", "received", *every, "--date-format", "%d.%m.%Y")
    message = refusal(estimate(folder, path, *asked))
    assert "must hold dates written as '%d.%m.%Y', but row 2 has '2026-03-09'" in message
    assert message.endswith("correct the row, or the pattern")


@pytest.mark.parametrize(
    ("options", "name", "meant"),
    [(("--by", "Shop"), "Shop", "shop"), (("--time", "received_"), "received_", "received")],
)
def test_an_absent_key_is_named_beside_all_columns(
    folder: Path, options: tuple[str, ...], name: str, meant: str
) -> None:
    message = refusal(estimate(folder, folder / "new.csv", *options))
    assert f"no key column {name!r} (did you mean {meant!r}?)" in message
    assert "the table has case, received, kg, weight, days, city, note" in message


def test_an_absent_feature_is_named_beside_all_columns(
    folder: Path, new: pd.DataFrame, tmp_path: Path
) -> None:
    path = save(new.drop(columns="kg"), tmp_path / "less.csv")
    message = refusal(estimate(folder, path, "--by", "shop"))
    assert "no column 'kg'; the table has case, received, weight, days" in message


def test_known_labels_are_compared_or_refused(
    folder: Path, new: pd.DataFrame, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    options = ("--by", "shop", "--label", "known", "--no-check-fit", "-o", page)
    assert run("report", folder / "m.kdey", folder / "new.csv", *options).exit_code == 0
    html = page.read_text(encoding="utf-8")
    assert "few labels" in html
    assert "Genève" not in html  # nothing of the rows themselves is passed on
    other = save(new.assign(known=new["known"].str.upper()), tmp_path / "other.csv")
    message = refusal(run("report", folder / "m.kdey", other, *options))
    assert "column 'known' has the class '" in message
    assert "which training lacks (600 such rows" in message


@pytest.mark.parametrize(("first", "second"), [("true", "True"), ("01", "1"), ("yes", "yes ")])
def test_two_spellings_of_a_label_are_pointed_out(
    folder: Path, tmp_path: Path, first: str, second: str
) -> None:
    labelled = complaints((60, 60, 0, 0), seed=7)
    labels = np.where(labelled["reason"] == "lost", first, second)
    path = save(labelled.assign(reason=labels), tmp_path / "labels.csv")
    checked = run("check", path, "--label", "reason", "--no-fit")
    assert checked.exit_code == 0, checked.output
    page = " ".join(checked.stdout.split())
    alike = " and ".join(map(repr, sorted([first, second])))
    assert f"{alike} are taken for 2 classes: if they are one, write it alike" in page
    options = ("--label", "reason", "--method", "kdey-ml", *FAST, "-o", tmp_path / "m.kdey")
    fitted = run("fit", path, *options)
    assert f"{alike} are taken for 2 classes" in fitted.stderr


def test_inspect_shows_some_categories_and_json_all(folder: Path, tmp_path: Path) -> None:
    labelled = complaints((60, 60, 0, 0), seed=8)
    labelled["shelf"] = [f"shelf number {i % 12}" for i in range(len(labelled))]
    path = save(labelled, tmp_path / "shelves.csv")
    options = ("--label", "reason", "--method", "kdey-ml", *FAST, "-o", tmp_path / "m.kdey")
    assert run("fit", path, *options).exit_code == 0
    assert "shelf number 5, and 4 more)" in run("inspect", tmp_path / "m.kdey").stdout
    assert "shelf number 9" in run("inspect", tmp_path / "m.kdey", "--json").stdout
