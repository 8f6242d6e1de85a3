"""Names that come from data (classes, groups, columns, titles) are shown, and never obeyed.

Each is followed to every place it is written to: page, figure, notebook, table, plot, terminal.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from experiments.writers import to_html, to_latex, to_markdown
from kdey import make_report
from kdey.tables.output import Cell, Row, Table, headings

#: Ways out of text, attributes, scripts, comments, templates, tables, formulas and terminals.
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"' onmouseover=alert(1) x='",
    "<!--<svg/onload=alert(1)>-->",
    "{{ 7*7 }}{% raw %}",
    "]]></title></desc><img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp; javascript:alert(1)",
    "\\input{/etc/passwd} $\\frac{$ %",
    "\x1b]0;title\x07\x1b[2J",
    "\u202egnp.exe",
)
#: Elements that the pages themselves are made of; a name must not add another.
_ELEMENTS = (
    "a b body button caption dd div dl dt fieldset figcaption figure footer h1 h2 h3 head header "
    "html input label legend li link main meta nav option p path script section select span strong "
    "style sup svg table tbody td text th thead title tr ul"
)
KNOWN = frozenset(_ELEMENTS.split())


class Seen(HTMLParser):
    """Gathers elements, attributes and text of a page as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def assert_harmless(page: str, known: frozenset[str] = KNOWN) -> Seen:
    seen = Seen(page)
    assert set(seen.tags) <= known
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    places = [value for name, value in seen.attributes if name in ("href", "src", "xlink:href")]
    assert all(place.startswith(("#", "data:")) for place in places)
    return seen


def posteriors(rng: np.random.Generator, labels: Any) -> Any:
    made = rng.dirichlet(np.ones(3), len(labels))
    made[np.arange(len(labels)), labels] += 1.0
    return made / made.sum(axis=1, keepdims=True)


def fitted(name: str) -> tuple[Any, Any]:
    """Return a quantifier of three classes named after ``name``, and an estimate."""
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    names = np.array([f"{name}{i}" for i in range(3)], dtype=object)
    q = kdey.KDEyML(bandwidth=0.1, kernel="gaussian")
    q.fit_posteriors(posteriors(rng, labels), names[labels])
    return q, q.estimate_posteriors(posteriors(rng, np.arange(60) % 3))


def groups(name: str) -> list[dict[str, Any]]:
    return [
        {f"by {name}": f"{name} {g}", "week": f"2026-01-{5 + g:02d}", "class": f"{name}{i}"}
        | {"n": 20, "estimate": 1 / 3, "low": 0.1, "high": 0.6, "status": name}
        for g in range(3)
        for i in range(3)
    ]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("time", [None, "week"])
def test_a_report_shows_them_as_they_are(name: str, time: str | None) -> None:
    pytest.importorskip("jinja2")
    q, estimate = fitted(name)
    report = make_report(
        estimate,
        groups(name),
        by=[f"by {name}"],
        time=time,
        title=name,
        quantifier=q,
        options=kdey.Options(check_fit=False),
    )
    report = replace(report, settings={name: name})
    seen = assert_harmless(report.html())
    kinds = [
        kind for name, kind in seen.attributes if (name, kind[:12]) == ("type", "application/")
    ]
    assert set(kinds) == {"application/json"}
    assert seen.tags.count("script") == len(kinds) + 1  # data of the tables, and the one that runs
    assert seen.tags.count("title") == 1
    assert name in seen.text
    shown = Seen(report._repr_html_())
    assert shown.tags == ["iframe"]
    assert dict(shown.attributes)["sandbox"] == "allow-scripts allow-downloads"
    assert dict(shown.attributes)["title"] == name


@pytest.mark.parametrize("name", HOSTILE)
def test_files_in_a_report_hold_the_very_names(name: str) -> None:
    pytest.importorskip("jinja2")
    _, estimate = fitted(name)
    page = make_report(estimate, groups(name), by=[f"by {name}"]).html()
    files = re.findall(r'download="(.+?)" href="data:[^,]*;base64,([A-Za-z0-9+/=]+)', page)
    found = {file: base64.b64decode(data).decode("utf-8") for file, data in files}
    assert json.loads(found["report.json"])["estimate"]["classes"][0] == f"{name}0"
    for file, record in {
        "classes.csv": {"class": f"{name}0"},
        "groups.csv": {"class": f"{name}0", f"by {name}": f"{name} 0"},
    }.items():
        first = next(csv.DictReader(io.StringIO(found[file], newline="")))
        assert record.items() <= first.items()


@pytest.mark.parametrize("name", HOSTILE)
def test_an_estimate_in_a_notebook_is_a_plain_table(name: str) -> None:
    _, estimate = fitted(name)
    seen = assert_harmless(estimate._repr_html_())
    assert set(seen.tags) <= {"div", "p", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert f"{name}0" in seen.text


def table(name: str) -> Table:
    cells = (Cell(name, 0.5),)
    rows = (Row.named(name, cells), Row.named(f"[{name}", cells, "summary"))
    return Table("t", name, headings(name, [name], [name]), rows, (name,))


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_of_experiments_show_them_as_they_are(name: str) -> None:
    page = assert_harmless(to_html([table(name)], name))
    assert name in page.text
    made = to_latex(table(name))
    body = made.split(r"\begin{tabular}", 1)[1]
    assert "\\input" not in made
    # Dollars come in pairs of ours alone, and a line never begins with an option of the last one.
    assert body.replace(r"\$", "").count("$") % 2 == 0
    assert not re.search(r"^\s*[\[*]", body, re.MULTILINE)
    marked = to_markdown([table(f"{name}\n[x](javascript:1)`")])
    assert "\n" not in marked.split("\n\n", 1)[0]
    assert not re.search(r"(?<!\\)[<>\[`]", marked)


@pytest.mark.parametrize("name", [r"$\frac{$", "$", "_hidden", r"a\$b", "100 $ to 200 $"])
def test_plots_draw_them_as_they_are(name: str) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    from kdey.plots import IntervalsDisplay, PrevalenceOverTimeDisplay

    _, estimate = fitted(name)
    over_time = PrevalenceOverTimeDisplay.from_results(groups(name), time="week")
    shown = [
        IntervalsDisplay.from_estimate(estimate).figure_,
        over_time.figure_,
    ]
    for figure in shown:
        figure.canvas.draw()  # where formulas are read
    legend = [text.get_text() for text in over_time.ax_.get_legend().get_texts()]
    assert [text.strip().replace(r"\$", "$") for text in legend] == [f"{name}{i}" for i in range(3)]
    assert not any(
        text.get_parse_math() and "$" in text.get_text().replace(r"\$", "")
        for text in over_time.ax_.get_legend().get_texts()
    )
    plt.close("all")


def test_a_terminal_obeys_no_table(tmp_path: Path) -> None:
    click_testing = pytest.importorskip("click.testing")
    pytest.importorskip("rich"), pytest.importorskip("pyarrow"), pytest.importorskip("skops")
    from kdey.cli.__main__ import kdey as main

    rng = np.random.default_rng(0)
    labels = np.array(["\x1b[31mred\x07", "[bold]b[/bold]"])
    y = np.arange(120) % 2
    for file, extra, named in (("l.csv", "label", labels[y]), ("n.csv", "\x1b]0;g\x07", labels[y])):
        with open(tmp_path / file, "w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["a", extra])
            writer.writerows(zip(rng.normal(y, 0.5), named, strict=True))
    run = click_testing.CliRunner()
    model, new = str(tmp_path / "m.kdey"), str(tmp_path / "n.csv")
    for words in (
        ["fit", str(tmp_path / "l.csv"), "--label", "label", "--method", "kdey-ml", "-o", model],
        ["estimate", model, new, "--by", "\x1b]0;g\x07", "--format", "table"],
        ["inspect", model],
        ["estimate", model, new, "--by", "\x1b[2J"],  # no such column: told in an error
    ):
        done = run.invoke(main, words, color=True)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.output), words
    shown = run.invoke(main, ["inspect", model], color=True).output
    assert r"\x1b[31mred\x07" in shown
    assert "[bold]b[/bold]" in shown
