"""Tables say what the results say, in every form."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.scores import gather, published_order
from experiments.tables import (
    difference_table,
    make_tables,
    pairs_table,
    results_table,
    spread_table,
    write_document,
    write_tables,
)
from experiments.writers import (
    escape_latex,
    to_csv,
    to_html,
    to_latex,
    to_latex_document,
    to_markdown,
)
from kdey.tables.output import Cell, Row, Table, headings

from .cases import cell, drawn_results, results

HOSTILE = Table(
    "x",
    "a <script>alert(1)</script> & 100 % of $x_1$",
    headings("set|corner", ("M_1", "{M}~2"), ("<b>", "<b>")),
    (Row.named("a_b & c\\d", (Cell("0.1", 0.1, True, "‡", 1.0), Cell())),),
    ("# note ^ with *stars* and 0.1 ± 0.2",),
)


def by_name(table: Table, name: str) -> dict[str, Cell]:
    (row,) = [row for row in table.rows if row.name == name]
    return dict(zip(methods_of(table), row.cells[1:], strict=True))


def methods_of(table: Table) -> list[str]:
    return [column.name for column in table.columns[1:]]


def test_means_best_shades_and_ranks_are_those_of_the_errors() -> None:
    drawn = drawn_results(("letter", "digits"), ("PACC", "EMQ", "KDEy-ML"))
    table = results_table(gather(drawn, "multi", "mae"), "full")
    assert [row.name for row in table.rows] == ["digits", "letter", "Average", "Rank"]
    means = {(k.dataset, k.method): c.mean for k, c in drawn.cells.items() if k.metric == "mae"}
    ranks = []
    for dataset in ("digits", "letter"):
        entries = by_name(table, dataset)
        values = [means[dataset, m] for m in methods_of(table)]
        assert [e.value for e in entries.values()] == pytest.approx(values)
        assert [e.best for e in entries.values()] == [v == min(values) for v in values]
        shades = [1 - 2 * (v - min(values)) / (max(values) - min(values)) for v in values]
        assert [e.shade for e in entries.values()] == pytest.approx(shades)
        ranks.append(stats.rankdata(values))
    average = [np.mean([means[d, m] for d in ("digits", "letter")]) for m in methods_of(table)]
    assert [e.value for e in by_name(table, "Average").values()] == pytest.approx(average)
    expected = np.mean(ranks, axis=0)
    assert [e.value for e in by_name(table, "Rank").values()] == pytest.approx(expected)


def test_marks_follow_the_test_against_the_best() -> None:
    rng = np.random.default_rng(0)
    base = rng.gamma(2.0, 0.01, size=400)
    cells = [
        cell("digits", "KDEy-ML", base),
        cell("digits", "EMQ", base + rng.normal(1e-6, 1e-3, size=400)),
        cell("digits", "PACC", base + 0.01),
    ]
    entries = by_name(results_table(gather(results(cells), "multi", "mae"), "full"), "digits")
    assert entries["EMQ"].mark == "‡" or entries["KDEy-ML"].mark == "‡"
    assert entries["PACC"].mark == ""


def test_only_common_seeds_count() -> None:
    cells = [
        cell("digits", "KDEy-ML", [0.1, 0.1], seed=0),
        cell("digits", "KDEy-ML", [0.9, 0.9], seed=1),
        cell("digits", "EMQ", [0.2, 0.2], seed=0),
        cell("letter", "EMQ", [0.2, 0.3], seed=0),
        cell("letter", "EMQ", [0.4, 0.5], seed=1),
    ]
    scores = gather(results(cells), "multi", "mae")
    assert (scores.seeds("digits"), scores.seeds("letter")) == ([0], [0, 1])
    table = results_table(scores, "full")
    assert by_name(table, "digits")["KDEy-ML"].value == pytest.approx(0.1)
    assert by_name(table, "letter")["KDEy-ML"] == Cell()
    assert by_name(table, "letter")["EMQ"].value == pytest.approx(0.35)
    assert len(table.rows) == 2  # no averages: only digits has both methods
    assert "Fewer of them: digits." in table.notes[-1]
    spread = spread_table(scores)
    assert spread is not None
    assert by_name(spread, "letter")["EMQ"].text == "0.35000 ± 0.14142"


def test_the_spread_is_over_the_seeds_of_the_most_complete_methods() -> None:
    cells = [
        cell(dataset, method, [0.1 * (seed + 1), 0.1 * (seed + 1)], seed=seed)
        for dataset in ("digits", "letter")
        for method in ("EMQ", "KDEy-ML")
        for seed in (0, 1)
    ]
    cells += [cell(dataset, "KDEy-HD", [0.3, 0.5]) for dataset in ("digits", "letter")]
    tables = {table.name: table for table in make_tables(results(cells), "multi")}
    assert by_name(tables["multi-mae-full"], "digits")["EMQ"].value == pytest.approx(0.1)
    spread = tables["multi-mae-spread"]
    assert methods_of(spread) == ["EMQ", "KDEy-ML"]
    assert by_name(spread, "digits")["EMQ"].text == "0.15000 ± 0.07071"
    assert by_name(spread, "Average")["EMQ"].value == pytest.approx(0.15)
    (row,) = tables["multi-mae-pairs"].rows  # KDEy-ML against EMQ, on both seeds
    assert row.cells[-1].text == "8"


def test_automatic_methods_are_in_every_table_and_in_one_of_the_ranks() -> None:
    methods = ("PACC", "EMQ", "KDEy-ML", "KDEy-ML-auto", "Quantifier")
    drawn = drawn_results(("letter", "digits"), methods, seeds=(0, 1))
    tables = {table.name.split("-")[-1]: table for table in make_tables(drawn, "multi")}
    for kind in ("full", "spread"):
        assert methods_of(tables[kind]) == list(methods)
        alone = by_name(tables[kind], "Rank, paper's")
        assert sum(cell.value or 0 for cell in alone.values()) == pytest.approx(1 + 2 + 3)
        assert alone["Quantifier"] == Cell()
    assert "3 methods optimised for MRAE and 2 automatic ones" in tables["full"].title
    assert any("at their defaults" in note for note in tables["full"].notes)
    assert methods_of(tables["difference"]) == ["PACC", "EMQ", "KDEy-ML"]
    assert [row.name for row in tables["pairs"].rows] == [
        "KDEy-ML against EMQ",
        "KDEy-ML-auto against KDEy-ML",
        "Quantifier against KDEy-ML",
    ]


def test_differences_are_to_the_published_values() -> None:
    cells = [cell("letter", "PACC", [0.0104] * 5), cell("letter", "KDEy-L2", [0.1] * 5)]
    table = difference_table(gather(results(cells), "multi", "mae"))
    assert table is not None
    assert methods_of(table) == ["PACC"]
    entry = by_name(table, "letter")["PACC"]
    assert entry.text == "+0.00520 (+100%)"
    assert entry.shade == -1.0
    assert difference_table(gather(results([cell("iris", "PACC", [1.0])]), "multi", "mae")) is None


def test_pairs_are_compared_over_all_bags() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.gamma(2.0, 0.01, size=(2, 100))
    cells = [
        cell("digits", "KDEy-ML", a),
        cell("digits", "EMQ", a + 0.01),
        cell("letter", "KDEy-ML", b),
        cell("letter", "EMQ", b - 0.001),
        cell("letter", "DM-HD", b),
    ]
    table = pairs_table(gather(results(cells), "multi", "mae"))
    assert table is not None
    (row,) = table.rows
    assert row.name == "KDEy-ML against EMQ"
    texts = [cell.text for cell in row.cells[1:]]
    assert texts[3:5] == ["1 of 2", "50%"]
    difference = np.concatenate([a - (a + 0.01), b - (b - 0.001)])
    assert row.cells[6].value == pytest.approx(stats.wilcoxon(difference).pvalue)


def test_all_tables_of_a_run_with_extra_methods_and_seeds() -> None:
    methods = ("ACC", "PACC", "DM-HD", "KDEy-HD", "KDEy-L2", "EMQ", "KDEy-ML")
    tables = make_tables(drawn_results(("letter", "digits"), methods, seeds=(0, 1)))
    kinds = ("compact", "full", "all", "difference", "pairs", "spread")
    assert [t.name for t in tables] == [f"multi-{m}-{k}" for m in ("mae", "mrae") for k in kinds]
    widths = {t.name: len(methods_of(t)) for t in tables}
    assert (widths["multi-mae-compact"], widths["multi-mae-full"]) == (5, 6)
    assert widths["multi-mae-all"] == 7


def test_stand_ins_are_never_called_by_the_papers_name() -> None:
    (table, *_) = make_tables(drawn_results(("iris", "wine"), ("PACC", "KDEy-ML")))
    assert "stand-ins for UCI-multi" in table.title
    assert published_order("multi", {"zoo", "letter", "dry-bean"}) == ["dry-bean", "letter", "zoo"]


def test_the_competition_is_a_reference_line() -> None:
    cells = [cell("T1B", m, [0.01, 0.02], experiment="lequa") for m in ("EMQ", "KDEy-ML")]
    table = results_table(gather(results(cells), "lequa", "mae"), "full")
    assert table.rows[-1].name == "T1B: best of the competition"
    assert table.rows[-1].cells[1].value == 0.01173


def test_html_is_escaped_and_whole() -> None:
    page = to_html([HOSTILE], "a < b")
    assert "<script" not in page
    assert "alert(1)" in page
    assert not re.search(r"(src|href)=\"(?!#)", page)
    opened: list[str] = []

    class Balanced(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Balanced().feed(page)
    assert not opened


def test_markdown_keeps_its_columns() -> None:
    lines = [line for line in to_markdown([HOSTILE]).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {4}
    assert "**0.1**‡" in lines[2]
    assert to_markdown([HOSTILE, HOSTILE]).count("# note") == 1
    assert "<script>" not in to_markdown([HOSTILE]).replace("\\<", "")


def test_csv_is_read_back() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(HOSTILE))))
    assert rows == [
        {
            "row": "a_b & c\\d",
            "column": "M_1",
            "value": "0.1",
            "text": "0.1",
            "best": "1",
            "mark": "‡",
            "shade": "1.000",
        }
    ]


def test_latex_is_escaped_and_balanced() -> None:
    assert escape_latex("a_b & 5 %") == r"a\_b \& 5 \%"
    text = to_latex(HOSTILE)
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))
    assert text.isascii()
    assert r"\textbf{0.1}$^{\ddagger}$\cellcolor{green!35}" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {2}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(tmp_path: Path) -> None:
    tables = [
        HOSTILE,
        *make_tables(drawn_results(("letter", "digits"), ("PACC", "EMQ", "KDEy-ML"))),
    ]
    (tmp_path / "t.tex").write_text(to_latex_document(tables), encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:]


def test_files_are_written_whole(tmp_path: Path) -> None:
    tables = make_tables(drawn_results(("letter", "digits"), ("PACC", "KDEy-ML")))
    paths = write_tables(tables, tmp_path / "out")
    assert {path.name for path in paths} >= {"tables.html", "tables.md", "tables.tex"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in paths}


def test_tables_go_between_the_markers_of_a_document(tmp_path: Path) -> None:
    path = tmp_path / "doc.md"
    text = "before\n<!-- tables: multi -->\nold\n<!-- end of tables: multi -->\nafter \\1\n"
    path.write_text(text)
    tables = {"multi": [HOSTILE]}
    write_document(path, tables)
    once = path.read_text()
    assert once.startswith("before\n<!-- tables: multi -->\n\n**a ")
    assert once.endswith("<!-- end of tables: multi -->\nafter \\1\n")
    assert "old" not in once
    write_document(path, tables)
    assert path.read_text() == once
    with pytest.raises(ValueError, match=r"doc\.md must hold <!-- tables: binary -->"):
        write_document(path, {"binary": [HOSTILE]})
    assert path.read_text() == once


def test_a_method_without_a_data_set_does_not_cost_the_others_their_averages() -> None:
    cells = [
        *(cell("digits", name, [0.1, 0.3]) for name in ("EMQ", "KDEy-ML", "PACC")),
        *(cell("letter", name, [0.2, 0.4]) for name in ("EMQ", "KDEy-ML")),
    ]
    table = results_table(gather(results(cells), "multi", "mae"), "full")
    average = by_name(table, "Average")
    assert average["EMQ"].value == pytest.approx(0.25)
    assert average["PACC"] == by_name(table, "Rank")["PACC"] == Cell()
