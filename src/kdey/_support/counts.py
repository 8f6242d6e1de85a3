"""Counts in messages and sentences: "1 row", "2 rows", "1,200 rows"."""

from __future__ import annotations


def count_of(count: int, singular: str, plural: str | None = None) -> str:
    """Return a number with what is counted, which agrees with it.

    Parameters
    ----------
    count : int
    singular : str
        What is counted, for one of them; a verb may follow: "row lacks one".
    plural : str, optional
        The same for any other number. Default: ``singular`` with an "s".

    Returns
    -------
    str
    """
    many = f"{singular}s" if plural is None else plural
    return f"{count:,} {singular if count == 1 else many}"
