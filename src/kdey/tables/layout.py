"""Names of :mod:`kdey.tables.columns` under the module that had them in 0.1.0."""

from kdey.tables.columns import (
    Frame,
    Series,
    is_number,
    is_text,
    missing_in,
    numbers,
    require,
)

__all__ = ["Frame", "Series", "is_number", "is_text", "missing_in", "numbers", "require"]
