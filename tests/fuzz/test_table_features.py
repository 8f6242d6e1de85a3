"""A bounded part of the campaign over features and labels (fuzz/campaigns/features.py)."""

from __future__ import annotations

import pytest

pytest.importorskip("skops")
pytest.importorskip("polars")

from fuzz.campaigns.features import SHARES, run_case
from fuzz.campaigns.tally import Tally

CASES = 3


@pytest.mark.parametrize("kind", SHARES)
def test_the_same_rows_give_the_same_answer_through_every_door(kind: str) -> None:
    tally = Tally()
    for number in range(CASES):
        run_case(kind, 11, number, tally)
    assert tally.faults == []
    assert tally.cases == CASES
    assert tally.refused + tally.twins == tally.problems > 0
