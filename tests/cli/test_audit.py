"""``kdey audit``: decided labels and a few labels of people in one table."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from ..runner import invoke


@pytest.fixture
def items(tmp_path):
    """A table of 1,200 tickets in two cities; the judge takes a third of the bugs for questions."""
    rng = np.random.default_rng(4)
    truth = rng.choice(["bug", "question"], 1200, p=[0.3, 0.7])
    decided = np.where((truth == "bug") & (rng.random(1200) < 0.33), "question", truth)
    human = np.where(rng.random(1200) < 0.1, truth, "")
    path = tmp_path / "items.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "city", "llm", "human"])
        writer.writerows(zip(range(1200), ["Rom", "Ulm"] * 600, decided, human, strict=True))
    return path, truth


def run(*arguments):
    return invoke("audit", *arguments)


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_the_shares_of_a_table(items):
    path, truth = items
    done = run(path, "--decided", "llm", "--human", "human")
    assert done.exit_code == 0, done.output
    bug, question = rows_of(done.stdout)
    share = (truth == "bug").mean()
    assert float(bug["low"]) < share < float(bug["high"])
    assert float(bug["decided"]) < share - 0.06
    assert bug["n"] == "1200"
    assert float(bug["estimate"]) + float(question["estimate"]) == pytest.approx(1.0, abs=1e-5)
    assert "most often, bug is taken for question" in done.stderr
    assert "question: 100 % of its rows are found" in done.stderr


def test_what_is_taken_for_what_is_shown_and_written(items, tmp_path):
    from kdey import audit

    path, _ = items
    columns = rows_of(path.read_text())
    human = [row["human"] or None for row in columns]
    found = audit([row["llm"] for row in columns], human)
    out = tmp_path / "confusion.csv"
    done = run(path, "--decided", "llm", "--human", "human", "--confusion", out)
    written = rows_of(out.read_text())
    assert [(row["decided"], row["human"]) for row in written] == [
        *(("bug", "bug"), ("bug", "question"), ("question", "bug"), ("question", "question"))
    ]
    shares = [float(row["share"]) for row in written]
    np.testing.assert_allclose(shares, found.confusion.ravel(), rtol=1e-5)
    assert [int(row["n_labels"]) for row in written] == found.counts.ravel().tolist()
    lines = done.stderr.splitlines()
    across = next(n for n, line in enumerate(lines) if line.endswith("(across):"))
    assert lines[across + 1].split() == ["bug", "question"]
    shown = next(line.split() for line in lines[across:] if line.split()[:1] == ["question"])
    np.testing.assert_allclose([float(x) for x in shown[1:]], found.confusion[1], atol=1e-4)
    bug = next(line.split() for line in lines[across + 2 :] if line.split()[:1] == ["bug"])
    assert len(bug) == 2, "no question is taken for a bug: the place is empty"


def test_two_judges_are_compared(items, tmp_path):
    path, truth = items
    table = rows_of(path.read_text())
    rng = np.random.default_rng(0)
    for row, right in zip(table, truth, strict=True):
        row["rule"] = right if rng.random() < 0.6 else ("bug" if right != "bug" else "question")
    two = tmp_path / "two.csv"
    with two.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)
    done = run(two, "--decided", "rule", "--decided", "llm", "--human", "human")
    assert done.exit_code == 0, done.output
    assert [(row["judge"], row["class"]) for row in rows_of(done.stdout)] == [
        *(("rule", "bug"), ("rule", "question"), ("llm", "bug"), ("llm", "question"))
    ]
    agree = round(100 * np.mean([row["rule"] == row["llm"] for row in table]))
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"rule and llm agree on {agree} % of the rows; llm is right ")
    assert "points more often than rule" in last
    assert "more than chance explains" in last
    commas = run(two, "--decided", "rule,llm", "--human", "human")
    assert commas.stdout == done.stdout
    alone = rows_of(run(two, "--decided", "rule", "--human", "human").stdout)
    assert [row["estimate"] for row in alone] == [
        row["estimate"] for row in rows_of(done.stdout)[:2]
    ], "the first judge is audited as if alone"
    same = run(two, "--decided", "llm", "--decided", "llm", "--human", "human")
    assert "judge" not in same.stdout
    refused = run(two, "--decided", "rule,llm", "--human", "human", "--by", "judge")
    assert "key column 'judge'" in refused.stderr


def test_judges_with_equal_decisions_and_names_of_their_own(tmp_path):
    """A name that only one judge uses has a narrow interval, which is no merit of the judge."""
    header, rows = "a,b,c,human", [("x", "y")[n % 2] for n in range(80)]
    made = [f"{y},{y},{f'odd {n}' if n % 8 == 0 else y},{y}" for n, y in enumerate(rows)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *made]))
    done = run(path, "--decided", "a,b,c", "--human", "human", "--target", "bag")
    equal = done.stderr.splitlines()[-2]
    assert equal.startswith("a and b agree on 100 % of the rows; a is right 0.0 points")
    assert equal.endswith("which chance may explain")
    assert "warning" not in done.stderr
    done = run(path, "--decided", "c,a", "--human", "human")
    narrower = float(done.stderr.split(" times as wide")[0].split()[-1])
    shares = {(row["judge"], row["class"]): row for row in rows_of(done.stdout)}
    widths = {
        judge: [float(shares[judge, y]["high"]) - float(shares[judge, y]["low"]) for y in "xy"]
        for judge in "ac"
    }
    assert narrower == pytest.approx(sum(widths["a"]) / sum(widths["c"]), abs=0.01)
    refused = run(path, "--decided", ",", "--human", "human")
    assert "--decided names no column" in refused.stderr


def test_groups_are_those_of_the_library(items):
    from kdey import audit

    path, _ = items
    shown = rows_of(run(path, "--decided", "llm", "--human", "human", "--by", "city").stdout)
    table = rows_of(path.read_text())
    columns = {name: np.array([row[name] for row in table]) for name in table[0]}
    human = np.where(columns["human"] == "", None, columns["human"].astype(object))
    found = audit(columns["llm"], human, by={"city": columns["city"]})
    assert [row["city"] for row in shown] == ["Rom", "Rom", "Ulm", "Ulm"]
    expected = [value for share in found.shares[1:] for value in share.estimate]
    np.testing.assert_allclose([float(row["estimate"]) for row in shown], expected, rtol=1e-5)


def test_filled_in_rows_narrow_the_intervals(items, tmp_path):
    path, truth = items
    options = ("--decided", "llm", "--human", "human")
    first = run(path, *options, "--next-rows", tmp_path / "next.csv", "--next", 200)
    assert "wrote" in first.stderr
    chosen = rows_of((tmp_path / "next.csv").read_text())
    assert len(chosen) == 200
    for row in chosen:
        row["human"] = truth[int(row["row"]) - 1]
    with (tmp_path / "filled.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, chosen[0])
        writer.writeheader()
        writer.writerows(chosen)
    second = run(path, *options, "--more", tmp_path / "filled.csv")
    before, after = rows_of(first.stdout)[0], rows_of(second.stdout)[0]
    assert int(after["n_labels"]) == int(before["n_labels"]) + 200
    width = [float(row["high"]) - float(row["low"]) for row in (before, after)]
    assert width[1] < 0.8 * width[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": "1300"}, "row 1300 with decision"),
        ({"llm": "praise"}, "is not in the table"),
    ],
)
def test_rows_of_another_table_are_refused(items, tmp_path, change, message):
    path, _ = items
    first = rows_of(path.read_text())[0]
    row = {"row": "1", "llm": first["llm"], "human": "bug", **change}
    (tmp_path / "more.csv").write_text(f"row,llm,human\n{row['row']},{row['llm']},bug\n")
    done = run(path, "--decided", "llm", "--human", "human", "--more", tmp_path / "more.csv")
    assert done.exit_code == 2
    assert message in done.stderr


def test_labels_that_contradict_each_other_are_refused(items, tmp_path):
    path, _ = items
    table = rows_of(path.read_text())
    number = next(i for i, row in enumerate(table) if row["human"] == "question")
    line = f"{number + 1},{table[number]['llm']},bug"
    (tmp_path / "more.csv").write_text(f"row,llm,human\n{line}\n")
    done = run(path, "--decided", "llm", "--human", "human", "--more", tmp_path / "more.csv")
    assert done.exit_code == 2
    assert "has the label 'bug', but 'question' in the table" in done.stderr


def test_what_is_missing_is_named(items):
    path, _ = items
    assert "no column 'gpt'" in run(path, "--decided", "gpt", "--human", "human").stderr
    assert "--human" in run(path, "--decided", "llm").stderr


def test_numbers_of_the_judge_and_texts_of_people_are_the_same_classes(tmp_path):
    path = tmp_path / "stars.csv"
    lines = [f"{1 + i % 2},{(str(1 + i % 2) if i % 3 else '')}" for i in range(90)]
    path.write_text("\n".join(["llm,human", *lines]) + "\n")
    done = run(path, "--decided", "llm", "--human", "human")
    assert done.exit_code == 0, done.output
    assert [row["class"] for row in rows_of(done.stdout)] == ["1", "2"]
