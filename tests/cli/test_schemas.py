"""What commands and results write as JSON is what ``schemas.json`` says it is."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import polars as pl
import pytest

import kdey

from ..runner import invoke
from ..tables.test_sources import labelled

SCHEMAS = json.loads((files("kdey.cli") / "schemas.json").read_text(encoding="utf-8"))
LABELLED = ("train.csv", "--label", "kind", "--features", "x,colour")
BY_SHOP = ("m.kdey", "new.csv", "--by", "shop")
CALLS: dict[str, list[tuple[str, ...]]] = {
    "estimate": [
        ("m.kdey", "new.csv"),
        (*BY_SHOP, "--wide"),
        (*BY_SHOP, "--time", "day", "--every", "1d", "--shrink"),
        (*BY_SHOP, "--labelled", "some"),
    ],
    "compare": [BY_SHOP],
    "audit": [("new.csv", "--decided", "llm", "--human", "some", "--by", "shop")],
    "evaluate": [
        (*LABELLED, "--methods", "pacc,cc", "--bags", "5"),
        (*LABELLED, "--methods", "pacc", "--bags", "5", "--each-bag"),
    ],
    "monitor": [("m.kdey", "new.csv", "--time", "day", "--every", "1w", "--history", "h.parquet")],
    "inspect": [("m.kdey",)],
}
#: Columns of the user's in the tables below; all others must be in a schema.
KEYS = {"shop", "day"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two tables and a model; classes of the second table change."""
    place = tmp_path_factory.mktemp("schemas")
    labelled(300, 0).write_csv(place / "train.csv")
    rows = labelled(400, 1)
    late = pl.col("day") > pl.date(2024, 1, 20)
    new = rows.filter(~late | (pl.col("kind") == "bad")).with_row_index("i")
    sometimes = pl.when(pl.col("i") % 4 == 0).then("kind")
    decided = pl.when(pl.col("i") % 7 == 0).then(pl.lit("good")).otherwise("kind")
    new.with_columns(sometimes.alias("some"), decided.alias("llm")).drop("kind", "i").write_csv(
        place / "new.csv"
    )
    fit = invoke(
        *("fit", place / "train.csv", "--label", "kind", "--features", "x,colour"),
        *("--method", "pacc", "-o", place / "m.kdey"),
    )
    assert fit.exit_code == 0, fit.output
    return place


def checked(command: str, found: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = {"$ref": f"#/$defs/{command}", "$defs": SCHEMAS["$defs"]}
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(found, schema)


@pytest.mark.parametrize(
    ("command", "options"), [(name, call) for name, calls in CALLS.items() for call in calls]
)
def test_outputs_are_those_of_the_schema(
    folder: Path, command: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    as_json = ("--json",) if command == "inspect" else ("--format", "json")
    done = invoke(command, *options, *as_json)
    assert done.exit_code in (0, 1), done.output
    found = json.loads(done.stdout)
    assert found
    checked(command, found)
    if command == "inspect":
        return
    item = SCHEMAS["$defs"][command]["items"]
    patterns = item.get("patternProperties", {})
    known = {*item["properties"], *KEYS, "ae", "rae"}
    unknown = {name for row in found for name in row} - known
    assert not {name for name in unknown if not any(re.match(p, name) for p in patterns)}


def test_results_in_python_are_those_of_the_schema(folder: Path) -> None:
    q, new = kdey.load(folder / "m.kdey"), pl.read_csv(folder / "new.csv")
    known = new["some"].is_not_null().to_numpy()
    labels = (np.flatnonzero(known), new["some"].to_numpy()[known])
    for estimate in (q.estimate(new), q.estimate(new, labelled=labels)):
        checked("bag", json.loads(estimate.to_json()))
        assert set(estimate.to_dict()) <= set(SCHEMAS["$defs"]["bag"]["properties"])
    checked("bags", json.loads(q.predict_groups(new, "shop").to_json()))
    with ZipFile(folder / "m.kdey") as archive:
        checked("manifest", json.loads(archive.read("manifest.json")))


def test_the_numbers_of_a_page_are_those_of_the_schema(folder: Path) -> None:
    page = folder / "page.html"
    done = invoke("report", folder / "m.kdey", folder / "new.csv", "--by", "shop", "-o", page)
    assert done.exit_code == 0, done.output
    address = re.search(
        r'download="report.json" href="data:application/json;base64,([^"]+)"', page.read_text()
    )
    assert address is not None
    found = json.loads(b64decode(address[1]))
    checked("report", found)
    assert len(found["groups"]["shop"]) == 2 * 3


def test_what_is_no_output_is_refused() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    row = {"class": "a", "n": 3, "n_missing": 0, "estimate": 0.5, "status": "no problem found"}
    checked("estimate", [row])
    for wrong in ({"estimate": 1.5}, {"n": -1}, {"n": 0.5}, {"status": None}, {"low[a]": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            checked("estimate", [row | wrong])
    with pytest.raises(jsonschema.ValidationError, match="'n' is a required property"):
        checked("estimate", [{"class": "a"}])
