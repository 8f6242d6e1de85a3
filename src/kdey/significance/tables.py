"""Errors of several methods as a named table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kdey.simplex import Array

#: Errors by method name, or an array with one method per row (or column; the caller says which).
Errors: TypeAlias = "Mapping[str, ArrayLike] | ArrayLike"


def method_rows(errors: Errors, names: Sequence[str] | None = None) -> tuple[Array, list[str]]:
    """Return errors as (n_methods, n) with the methods' names.

    Parameters
    ----------
    errors : mapping of name to n errors, or array-like of shape (n_methods, n)
    names : sequence of str, optional
        Names of the rows of an array; by default "0", "1", ...
    """
    if not isinstance(errors, Mapping):
        rows = check_errors(errors, 2, "errors")
        return rows, _check_names(names, len(rows))
    if names is not None:
        raise ValueError("names must not be given with a mapping, which has names of its own")
    if not errors:
        raise ValueError("errors is empty: at least one method is needed")
    parts = {name: check_errors(part, 1, f"errors[{name!r}]") for name, part in errors.items()}
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"errors must have one entry per bag for every method, got {lengths}")
    return np.stack(list(parts.values())), [str(name) for name in parts]


def check_errors(values: ArrayLike, ndim: int, name: str) -> Array:
    """Return a non-empty float64 array of ``ndim`` axes without NaN or infinity, or raise."""
    array = as_numbers(values, name)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must be a non-empty array of {ndim} axes, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return ``values`` as a float64 array, or raise naming the parameter."""
    try:
        array = np.asarray(values)
        if not np.iscomplexobj(array):
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")


def _check_names(names: Sequence[str] | None, n_methods: int) -> list[str]:
    given = [str(number) for number in range(n_methods)] if names is None else list(names)
    if len(given) != n_methods or len(set(given)) != n_methods:
        raise ValueError(f"names must be {n_methods} distinct names, got {given}")
    return given
