"""The same rows through every door: a bounded part of the campaign over tables."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.campaigns.table_doors import DIALECTS
from fuzz.campaigns.table_rows import KINDS
from fuzz.campaigns.tables import DAMAGED, run_case
from fuzz.campaigns.tally import Tally
from kdey.tables import canonical_text

from .profiles import PROFILE

CASES = 300 if PROFILE == "fuzz-nightly" else 3


@pytest.fixture(autouse=True)
def _every_door_is_there() -> None:
    for name in ("pyarrow", "pandas", "polars", "dask.dataframe", "python_calamine", "xlsxwriter"):
        pytest.importorskip(name)


def tried(kind: str, cases: int = CASES) -> Tally:
    tally = Tally()
    for number in range(cases):
        run_case(kind, 1, number, tally)
    return tally


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_gives_the_same_groups(kind: str) -> None:
    tally = tried(kind)
    assert tally.faults == []
    assert (tally.refused == tally.problems) == (kind == "clashing")


def test_damaged_files_are_refused_or_pointed_out() -> None:
    tally = tried(DAMAGED, 4 * CASES)
    assert tally.faults == []
    assert min(tally.refused, tally.warned) > 0


def test_a_damage_that_nobody_sees_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdey.tables.dialect._check_quotes", lambda *_: [])
    found = {fault["what"] for fault in tried(DAMAGED, 20).faults}
    assert "unclosed quote: answered without a word" in found


def test_dialects_differ() -> None:
    assert len({(d.separator, d.decimal, d.encoding, d.quoting) for d in DIALECTS.values()}) >= 7


def test_keys_that_are_merged_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed_by_looks(name: str, value: Any) -> str:
        text = canonical_text(value)
        return text.lstrip("0") or text

    monkeypatch.setattr("kdey.groups.table.text_in_column", typed_by_looks)
    assert any("holds both" in fault["what"] for fault in tried("codes", 4).faults)
    monkeypatch.setattr("kdey.groups.table.check_same", lambda *_: None)
    assert any("not on both sides" in fault["what"] for fault in tried("codes", 4).faults)


def test_numbers_that_are_misread_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdey.tables.dialect._find_decimal", lambda *_: (".", []))
    assert any("german: refused" in fault["what"] for fault in tried("integers", 2).faults)
