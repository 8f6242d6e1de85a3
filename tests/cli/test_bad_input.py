"""Bad input: one line that names the file and the row or column, exit code 2, nothing written.

Rows of text files are counted as an editor counts lines: the header is row 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kdey import PACC, save
from kdey.tables import sources as reading

from .cases import FAST, rows, run, without, write


def refused(*arguments: Any, says: tuple[str, ...], **options: Any) -> None:
    result = run(*arguments, **options)
    assert result.exit_code == 2, (result.exit_code, result.output)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len([line for line in lines if line.startswith("Error: ")]) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for text in says:
        assert text in lines[-1], lines[-1]


def changed(table: list[dict[str, Any]], row: int, **values: Any) -> list[dict[str, Any]]:
    return [{**one, **values} if i == row - 1 else one for i, one in enumerate(table)]


def placed(folder: Path, table: list[dict[str, Any]] | str) -> Path:
    path = folder / "t.csv"
    if not isinstance(table, str):
        return write(path, table)
    path.write_text(table, encoding="utf-8")
    return path


@pytest.fixture
def fitting(tmp_path: Path) -> Any:
    def refuse(table: list[dict[str, Any]] | str, *options: Any, says: tuple[str, ...]) -> None:
        rest = ("--label", "kind", *FAST, *options, "-o", tmp_path / "m.kdey")
        refused("fit", placed(tmp_path, table), *rest, says=("t.csv: ", *says))
        assert sorted(os.listdir(tmp_path)) == ["t.csv"]

    return refuse


@pytest.fixture
def estimating(tmp_path: Path, model: Path) -> Any:
    def refuse(table: list[dict[str, Any]] | str, *options: Any, says: tuple[str, ...]) -> None:
        rest = (*options, "-o", tmp_path / "o.csv")
        refused("estimate", model, placed(tmp_path, table), *rest, says=("t.csv: ", *says))
        assert sorted(os.listdir(tmp_path)) == ["t.csv"]

    return refuse


def test_missing_label_column(fitting: Any) -> None:
    fitting(without(rows(), "kind"), says=("no label column 'kind'", "the table has length, width"))


def test_missing_labels(fitting: Any) -> None:
    fitting(changed(rows(), 7, kind=""), says=("'kind' has no label in row 8", "--unlabelled drop"))


def test_one_class(fitting: Any) -> None:
    table = [{**row, "kind": "good"} for row in rows()]
    fitting(table, "--ignore", "shop,day", says=("'kind' holds one class only",))


def test_labels_that_are_no_classes(fitting: Any) -> None:
    table = [{**row, "kind": 0.5 + i} for i, row in enumerate(rows())]
    fitting(table, "--ignore", "shop,day", says=("'kind' must hold classes, but row 2 has 0.5",))


def test_columns_that_are_no_features(fitting: Any) -> None:
    table = without(rows(), "length", "width", "colour", "shop")
    fitting(table, says=("no column is left", "'day' (holds dates such as '2024-01-01')"))


def test_mixed_numbers_and_texts(fitting: Any) -> None:
    table = changed(without(rows(), "shop", "day"), 9, width="wide")
    fitting(table, says=("'width' holds", "row 10 has 'wide'", "--ignore width"))


def test_missing_features(fitting: Any) -> None:
    table = changed(without(rows(), "shop", "day"), 9, width="")
    says = ("'width' has no value in row 10", "--missing drop")
    fitting(table, "--missing", "error", says=says)


def test_unknown_columns_in_options(fitting: Any) -> None:
    fitting(rows(), "--ignore", "nope", says=("no column 'nope'",))
    fitting(rows(), "--features", "length,nope", says=("no column 'nope'",))


def test_malformed_csv_names_the_line(fitting: Any, estimating: Any) -> None:
    text = "length,width,colour,kind\n1,2,red,good\n1,2,red\n"
    fitting(text, says=("#3", "Expected 4 columns, got 3"))
    estimating(text, says=("#3", "Expected 4 columns, got 3"))


def test_empty_files_and_headers_alone(fitting: Any, estimating: Any) -> None:
    for refuse in (fitting, estimating):
        refuse("", says=("empty",))
        refuse("length,width,colour,kind\n", says=("no rows",))


def test_a_column_twice(fitting: Any) -> None:
    fitting("a,a,kind\n1,2,x\n", says=("the column 'a' is there twice",))


def test_other_files(tmp_path: Path, model: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refused("estimate", model, empty, says=("empty: no file is there",))
    book = tmp_path / "t.xlsx"
    book.write_bytes(b"PK\x03\x04" + bytes(100))
    refused("estimate", model, book, says=("t.xlsx: not a sheet that can be read",))
    refused("estimate", model, tmp_path / "no.csv", says=("no.csv: No such file",))
    refused("estimate", model, tmp_path, says=("t.xlsx",))
    cut = tmp_path / "cut.parquet"
    pl.DataFrame(rows()).write_parquet(cut)
    cut.write_bytes(cut.read_bytes()[:-20])
    refused("estimate", model, cut, says=("cut.parquet: ", "Parquet"))
    latin = tmp_path / "latin.csv"
    latin.write_bytes("length,width,colour\n1,2,gr\xfcn\n".encode("latin-1"))
    refused("estimate", model, latin, "--encoding", "utf-8", says=("latin.csv: ", "not utf-8"))


def test_missing_columns_are_named(estimating: Any) -> None:
    estimating(without(rows(), "width", "colour", "kind"), says=("no columns 'width', 'colour'",))


def test_text_where_training_had_numbers(estimating: Any) -> None:
    table = changed(without(rows(), "kind"), 9, width="wide")
    estimating(
        table, says=("'width' must hold numbers, but row 10 has 'wide'", "--missing-values wide")
    )


def test_missing_values(estimating: Any) -> None:
    table = changed(without(rows(), "kind"), 9, colour="")
    estimating(table, "--missing", "error", says=("'colour' has no value in row 10",))


def test_classes_that_training_lacks(estimating: Any, tmp_path: Path, model: Path) -> None:
    table = changed(rows(), 5, kind="ugly")
    estimating(table, says=("'kind' has the class 'ugly' in row 6, which training lacks",))
    path = write(tmp_path / "t.csv", table)
    rest = ("--label", "kind", "--model", model)
    refused("evaluate", path, *rest, says=("t.csv: ", "'ugly' in row 6"))


def test_keys_and_periods(estimating: Any) -> None:
    table = without(rows(), "kind")
    estimating(table, "--by", "nope", says=("no key column 'nope'",))
    estimating(table, "--time", "shop", "--every", "1w", says=("'shop' must hold dates",))


def test_scores(tmp_path: Path, model: Path) -> None:
    good = [{"bad": 0.25, "good": 0.75}] * 20
    cases = (
        (changed(good, 3, bad="nan"), "'bad' has no value in row 4"),
        (changed(good, 3, bad=""), "'bad' has no value in row 4"),
        (changed(good, 3, bad=0.5), "row 4 has scores that sum to 1.25"),
        (changed(good, 3, bad=-0.25, good=1.25), "row 4 has a negative score"),
        (changed(good, 3, bad="many"), "'bad' must hold numbers, but row 4 has 'many'"),
    )
    for table, message in cases:
        path = write(tmp_path / "s.csv", table)
        rest = ("--scores", "bad,good", "--missing", "error")
        refused("estimate", model, path, *rest, says=("s.csv: ", message))
    path = write(tmp_path / "s.csv", [{**row, "n": 1} for row in good])
    refused("estimate", model, path, "--by", "n", says=("'n' has the name of a column",))
    refused("estimate", model, path, "--scores", "bad", says=("one column per class, 2",))
    refused("estimate", model, path, "--scores", "bad,nope", says=("no score column 'nope'",))
    refused("estimate", model, path, "--scores", "p1,p2", says=("no score columns 'p1', 'p2'",))


def test_a_model_on_scores_asks_for_them(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet([1, 1], 60)
    save(PACC().fit_posteriors(p, (p[:, 1] > 0.4).astype(int)), tmp_path / "m.kdey")
    path = write(tmp_path / "s.csv", [{"a": 0.25, "b": 0.75}] * 20)
    refused("estimate", tmp_path / "m.kdey", path, says=("s.csv: ", "--scores"))


def test_rows_are_counted_across_batches(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BATCH", 16)
    path = tmp_path / "s.parquet"
    pl.DataFrame({"bad": [0.25] * 69 + [None], "good": [0.75] * 70}).write_parquet(path)
    rest = ("--scores", "bad,good", "--missing", "error")
    refused("estimate", model, path, *rest, says=("'bad' has no value in row 70",))


def test_model_files(tmp_path: Path, model: Path) -> None:
    table = write(tmp_path / "t.csv", without(rows(), "kind"))
    cut, other = tmp_path / "cut.kdey", tmp_path / "other.kdey"
    cut.write_bytes(model.read_bytes()[:-100])
    other.write_bytes(b"not a model")
    for command in (("estimate", cut, table), ("inspect", cut)):
        refused(*command, says=("cut.kdey",))
    refused("estimate", other, table, says=("other.kdey", "not a kdey model file"))
    refused("inspect", tmp_path / "none.kdey", says=("none.kdey", "No such file"))


def test_outputs_that_cannot_be_written(tmp_path: Path, model: Path) -> None:
    table = write(tmp_path / "t.csv", rows())
    nowhere = tmp_path / "none" / "o.csv"
    refused("estimate", model, table, "-o", nowhere, says=("cannot write", "there is no folder"))
    refused("estimate", model, table, "-o", tmp_path, says=("cannot write", "is a folder"))
    rest = ("--label", "kind", "-o", nowhere)
    refused("fit", table, *rest, says=("cannot write", "there is no folder"))


def test_settings_that_do_not_exist(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", without(rows(), "shop", "day"))
    rest = ("fit", table, "--label", "kind", "--method", "kdey-ml", "-o", tmp_path / "m")
    refused(*rest, "--option", "bandwith=1", says=("kdey-ml has no 'bandwith'", "bandwidth"))
    refused(*rest, "--option", "bandwidth", says=("takes name=value",))
    refused(*rest, "--option", "bandwidth=-1", says=("bandwidth",))
    refused(*rest, "--classifier-option", "D=1", says=("logistic has no 'D'",))
    refused(*rest, "--method", "magic", says=("'magic' is not one of",))


def test_debug_shows_the_traceback(tmp_path: Path, model: Path) -> None:
    result = run("estimate", model, tmp_path / "none.csv", "--debug")
    assert isinstance(result.exception, ValueError)


def test_hostile_names_pass_through(tmp_path: Path, model: Path) -> None:
    table = [{**row, "shop": '<script>,"\n='} for row in without(rows(), "kind")]
    path = write(tmp_path / "t.csv", table)
    result = run("estimate", model, path, "--by", "shop", "--format", "json")
    assert result.exit_code == 0, result.output
    assert '"<script>,\\"\\n="' in result.stdout


def test_an_unknown_ending_of_the_output(model: Path, tmp_path: Path) -> None:
    table, out = placed(tmp_path, rows()), tmp_path / "answers.odt"
    refused("estimate", model, table, "-o", out, says=("answers.odt", ".odt", "--format"))


def test_a_text_among_numbers_at_fit(fitting: Any) -> None:
    fitting(changed(rows(), 5, length="lots"), says=("'length' holds numbers", "row 6 has 'lots'"))


def test_a_misspelt_column_is_guessed(fitting: Any) -> None:
    table = [{**without([one], "kind")[0], "kinds": one["kind"]} for one in rows()]
    fitting(table, says=("no label column 'kind' (did you mean 'kinds'?)",))


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--option", f"bandwidth={'[' * 1500}{']' * 1500}"), "nested too deeply"),
        (("--option", "a" * 3000), "takes name=value"),
        (("--option", f"{'a' * 3000}=1"), "kdey-ml has no"),
        (("--option", f"bandwidth={'a' * 3000}"), "bandwidth must be"),
        (("--effort", "a" * 3000), "is not one of"),
        ((f"--{'a' * 3000}",), "No such option"),
    ],
)
def test_long_options_are_shortened(tmp_path: Path, option: tuple[str, ...], says: str) -> None:
    """A pasted value of 3,000 characters was repeated whole; brackets counted as a text."""
    table = write(tmp_path / "t.csv", without(rows(), "shop", "day"))
    target = ("-o", tmp_path / "m.kdey")
    result = run("fit", table, "--label", "kind", "--method", "kdey-ml", *option, *target)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert len(result.stderr) < 700, result.stderr


def test_errors_name_options_and_what_may_be_missing(tmp_path: Path) -> None:
    table = [{"age": 20 + i % 40, "x": i % 7, "kind": "ab"[i % 2]} for i in range(120)]
    table[107]["age"], table[110]["age"] = "unknown", "??"
    path = write(tmp_path / "t.csv", table)
    rest = ("--label", "kind", "--method", "cc", "-o", tmp_path / "m")
    said = run("fit", path, *rest).stderr
    assert "column 'age' holds numbers, but row 109 has 'unknown'" in said
    assert "(--missing-values '??,unknown'), leave the column out (--ignore age)" in said
    assert "(--type age=category)" in said
    assert run("fit", path, *rest, "--missing-values", "??,unknown").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("estimate", "M", "T", "--by", "shpo"), "did you mean 'shop'?"),
        (("estimate", "M", "T", "--time", "dya"), "no key column 'dya'"),
        (("estimate", "M", "T", "--weights", "mass"), "no column 'mass'"),
        (("estimate", "M", "T", "--scores", "p1,p2"), "no score columns 'p1', 'p2'"),
        (("estimate", "M", "T", "--every", "1w"), "every needs time"),
        (("estimate", "M", "T", "--shrink"), "shrink needs groups"),
        (("compare", "M", "T", "--by", "shpo"), "did you mean 'shop'?"),
        (("report", "M", "T", "--label", "knid"), "no label column 'knid'"),
        (("report", "M", "T", "--strata", "region"), "no column 'region'"),
        (("monitor", "M", "T", "--history", "H", "--time", "dya"), "no key column 'dya'"),
        (("monitor", "M", "T", "--history", "H", "--time", "day", "--above", "bad"), "--above"),
        (("evaluate", "T", "--label", "knid", "--model", "M"), "no label column 'knid'"),
        (("fit", "T", "--label", "knid", "-o", "x.kdey"), "no label column 'knid'"),
        (("fit", "T", "--label", "kind", "--ignore", "shpo", "-o", "x.kdey"), "no column 'shpo'"),
    ],
)
def test_columns_and_options_are_checked_before_a_model_loads_or_rows_are_read(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    """A typo was answered after the model had loaded, or all rows had been scored."""

    def too_late(*_: Any, **__: Any) -> Any:
        raise AssertionError("a model is loaded, or rows are read")

    monkeypatch.setattr("kdey.load", too_late)
    monkeypatch.setattr("kdey.tables.sources.TableSource.read", too_late)
    monkeypatch.setattr("kdey.tables.sources.TableSource.batches", too_late)
    table = write(tmp_path / "t.csv", rows())
    paths = {"M": model, "T": table, "H": tmp_path / "h.parquet"}
    result = run(*(paths.get(text, text) for text in arguments))
    assert (result.exit_code, says in result.stderr) == (2, True), result.output


TYPOS = (
    *("estimate M T --by shpo", "compare M T --by shpo", "report M T --by shpo"),
    *("monitor M T --history H --time dya", "fit T --label knid -o x.kdey", "check T --label knid"),
    *("evaluate T --label knid", "evaluate T --label knid --model M"),
    *("audit T --decided knid --human kind", "estimat M T"),
    *("estimate M T", "compare M T --by shop", "report M T", "evaluate T --label kind --model M"),
    *("monitor M T --history H --period 1", "estimate M none.csv"),
)


def test_a_typo_is_answered_without_scikit_learn(tmp_path: Path) -> None:
    """Importing it takes longer than all else that a typo needs; there is no model "M", either."""
    table, model, history = write(tmp_path / "t.csv", rows()), tmp_path / "m.kdey", tmp_path / "h.p"
    paths = {"M": str(model), "T": str(table), "H": str(history.with_suffix(".parquet"))}
    lines = [[paths.get(word, word) for word in typo.split()] for typo in TYPOS]
    code = (
        "import sys\n"
        "from kdey.cli.__main__ import kdey\n"
        f"for line in {lines!r}:\n"
        "    try:\n"
        "        kdey(line)\n"
        "    except SystemExit as end:\n"
        "        print(end.code, 'sklearn' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["2 False"] * len(TYPOS), done.stderr
    answers = [line.lower() for line in done.stderr.splitlines() if line.startswith("Error: ")]
    wanted = ["did you mean"] * 10 + ["no such file"] * 6
    assert all(want in text for want, text in zip(wanted, answers, strict=True)), done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--drift", "nan"), "--drift takes a number of at least 1, got nan"),
        (("--drift", "1.2", "--by", "drift_low"), "'drift_low' has the name of a column of the"),
        (("--label-noise", "bad=0.1", "--label-noise", "bad=0.2"), "gives 'bad' twice"),
        (("--strata", "shop", *("--stratum-share", "A=1") * 2), "--stratum-share gives 'A' twice"),
        (("--by", "shop", *("--key-type", "shop=text", "--key-type", "shop=integer")), "twice"),
    ],
)
def test_options_that_contradict_themselves(
    tmp_path: Path, model: Path, options: tuple[str, ...], says: str
) -> None:
    table = write(tmp_path / "t.csv", without(rows(), "kind"))
    refused("estimate", model, table, *options, says=(says,))


def test_weights_whose_sum_would_be_infinite(estimating: Any) -> None:
    table = [{**row, "w": 1e308 if i < 5 else 1} for i, row in enumerate(rows())]
    estimating(table, "--weights", "w", says=("must have a weight", "row 2 has '1e+308'"))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("1,234", "if it parts thousands, write the numbers without"),
        ("12 kg", "correct it, or make it empty if it is missing"),
        ("n/k", "--missing-values n/k"),
    ],
)
def test_what_to_do_about_a_text_depends_on_the_text(estimating: Any, cell: str, says: str) -> None:
    estimating(changed(rows(), 3, length=cell), says=("column 'length' must hold numbers", says))


def test_a_warning_of_a_leak_names_the_option(tmp_path: Path) -> None:
    table = [{**row, "leak": row["kind"].upper()} for row in rows()]
    path = write(tmp_path / "t.csv", table)
    result = run("fit", path, "--label", "kind", *FAST, "-o", tmp_path / "m.kdey")
    assert "leave out (--ignore leak) what was made from the label" in result.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ("estimate", "m", "t", "--shrink-covers", "average-group"),
            "--shrink-covers has no effect without --shrink or --shrink-within",
        ),
        (("estimate", "m", "t", "--believe", "labels"), "--believe has no effect without"),
        (("estimate", "m", "t", "--level", 0.2, "--no-check-fit"), "--level has no effect without"),
        (("report", "m", "t", "--figure-format", "png"), "--figure-format has no effect without"),
        (("report", "m", "t", "--correction", "fdr"), "--correction has no effect without"),
        (
            ("audit", "t", "--decided", "a", "--human", "b", "--next", 9),
            "--next has no effect without --next-rows",
        ),
        (("monitor", "--history", "h", "--above", "a=0.5"), "--above has no effect without MODEL"),
        (("demo", "--tables", "d", "--bags", 9), "--bags has no effect with --tables"),
    ],
)
def test_an_option_without_effect_is_refused(
    command: tuple[Any, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(*command, says=(says,))
    assert list(tmp_path.iterdir()) == []


def test_an_option_with_effect_is_taken(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", without(rows(60), "kind"))
    for options in (["--shrink"], ["--shrink-within", "shop"]):
        done = run("estimate", model, table, *options, "--shrink-covers", "average-group")
        assert "no effect" not in done.stderr
    done = run("estimate", model, table, "--level", 0.2)
    assert done.exit_code == 0, done.stderr
