"""How many null bags are drawn between two looks at a p-value."""

from __future__ import annotations

from kdey.diagnostics.score_check import LOOKS, N_NULL, _looks


def test_the_default_number_is_looked_at_as_before() -> None:
    ends = [part.stop for part in _looks(N_NULL)]
    assert ends == [*LOOKS, N_NULL]
    assert [part.stop for part in _looks(20)] == [9, 14, 20]


def test_many_null_bags_are_drawn_in_bounded_parts() -> None:
    """A p-value of one in thousands must not hold thousands of null bags in memory at once."""
    parts = _looks(12_000)
    assert max(len(part) for part in parts) <= N_NULL
    assert [number for part in parts for number in part] == list(range(12_000))
