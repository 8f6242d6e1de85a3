"""The words of a status."""

from __future__ import annotations

from kdey.status import (
    MISSING_VALUES,
    OK,
    ONE_SIDED,
    POOR_FIT,
    join_status,
    not_checked,
    problems,
    status_parts,
)


def test_parts_are_joined_and_parted() -> None:
    assert join_status([]) == OK
    assert join_status([OK]) == OK
    both = join_status([MISSING_VALUES, OK, ONE_SIDED])
    assert both == "missing values; checked one-sided"
    assert status_parts(both) == [MISSING_VALUES, ONE_SIDED]


def test_how_far_a_check_went_is_no_problem_and_not_ok() -> None:
    unchecked = not_checked("a reason")
    assert unchecked == "not checked (a reason)"
    assert problems(join_status([POOR_FIT])) == [POOR_FIT]
    assert problems(join_status([unchecked])) == problems(ONE_SIDED) == problems(OK) == []
    assert problems(join_status([MISSING_VALUES, unchecked])) == [MISSING_VALUES]
