"""The interface of problems, the certificate of convex problems, and checks of their data."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Self = TypeVar("Self", bound="Problem")
Checked = TypeVar("Checked")

#: Largest accepted absolute value of an entry: products of three do not overflow.
LARGEST = 1e100


class Problem(Protocol):
    """The data of B bags over k classes, and an objective on the simplex for each of them.

    ``prevalences`` always has shape (B, k): row b belongs to bag b.
    """

    #: Whether the objective is convex over the simplex.
    convex: ClassVar[bool]

    @property
    def n_bags(self) -> int:
        """Number of bags B."""

    @property
    def n_classes(self) -> int:
        """Number of classes k."""

    def objective(self, prevalences: Array) -> Array:
        """Return the value to minimise, shape (B,)."""

    def gradient(self, prevalences: Array) -> Array:
        """Return its gradient, shape (B, k)."""

    def hessian(self, prevalences: Array) -> Array:
        """Return its Hessian, or a positive semidefinite model of it, shape (B, k, k)."""

    def gap(self, prevalences: Array) -> Array:
        """Return a bound on the distance to the optimal value, shape (B,); NaN if none is known."""

    def take(self: Self, which: Indices) -> Self:
        """Return the problem of the bags at positions ``which`` (repetitions allowed)."""


def frank_wolfe_gap(prevalences: Array, gradient: Array) -> Array:
    """Return alpha . g - min_i g_i per bag, shape (B,).

    For a convex objective this bounds its distance to the minimum over the simplex (Jaggi, 2013).
    A gradient of -inf at a class of prevalence zero gives inf.
    """
    with np.errstate(invalid="ignore"):
        spread = gradient - gradient.min(axis=1, keepdims=True)
        terms = np.where(prevalences > 0, prevalences * spread, 0.0)
    gap = terms.sum(axis=1)
    return np.where(np.isneginf(gradient).any(axis=1), np.inf, np.maximum(gap, 0.0))


def with_fields(problem: Checked, **fields: Any) -> Checked:
    """Return a copy of a frozen problem with some fields replaced, without checking them."""
    result = object.__new__(type(problem))
    result.__dict__.update(vars(problem), **fields)
    return result


def check_array(
    values: ArrayLike, name: str, shape: tuple[int | None, ...], largest: float = LARGEST
) -> Array:
    """Return ``values`` as a finite, C-contiguous float64 array of ``shape`` (None: any size).

    Raises ValueError for another shape, and for entries beyond ``largest`` in absolute value.
    """
    array = np.ascontiguousarray(values, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        size is None or size == actual for size, actual in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({expected}), got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}")
    # Both are NaN if an entry is.
    low, high = float(array.min()), float(array.max())
    if not (-np.inf < low and high < np.inf):
        raise ValueError(f"{name} contains NaN or infinity")
    if max(-low, high) > largest:
        raise ValueError(f"{name} has values beyond {largest:g}, whose products overflow: rescale")
    return array


def check_non_negative(
    values: ArrayLike, name: str, shape: tuple[int | None, ...], largest: float = LARGEST
) -> Array:
    """Return ``values`` as :func:`check_array` does; raises ValueError for negative entries."""
    array = check_array(values, name, shape, largest)
    if array.min() < 0:
        raise ValueError(f"{name} contains negative values (lowest {array.min():.3g})")
    return array


def check_gram(values: ArrayLike, name: str = "gram") -> Array:
    """Return ``values`` as a symmetric float64 array of shape (k, k), or raise ValueError."""
    gram = check_array(values, name, (None, None))
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(f"{name} must be square, got shape {gram.shape}")
    if np.abs(gram - gram.T).max() > 1e-10 * np.abs(gram).max():
        raise ValueError(f"{name} must be symmetric")
    return np.ascontiguousarray((gram + gram.T) / 2)
