"""Arrays of errors as short text: 1,000 of them in about 3 KB of a results file."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Array

#: Bits of a float32 that are kept: a relative precision of 2**-16, far below the spread of errors.
_KEPT = np.uint32(0xFFFFFF00)


def encode_array(values: ArrayLike) -> str:
    """Return a vector as text, rounded to a relative precision of 1.6e-5.

    float32, low byte cleared, bytes of equal weight together, zlib, base85 (whose alphabet needs
    no escape in JSON).
    """
    floats = np.asarray(values, dtype="<f4")
    if floats.ndim != 1:
        raise ValueError(f"values must be a vector, got shape {floats.shape}")
    # Half of the cleared part is added first: rounding, where clearing alone would shrink all.
    bits = (floats.view("<u4") + np.uint32(0x80)) & _KEPT
    planes = bits.view(np.uint8).reshape(-1, 4).T
    return base64.b85encode(zlib.compress(planes.tobytes(), 9)).decode()


def decode_array(text: str) -> Array:
    """Return the vector of :func:`encode_array` as float64."""
    try:
        planes = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8)
    except (ValueError, zlib.error, binascii.Error) as error:
        raise ValueError(f"not an encoded array: {error}") from error
    if len(planes) % 4:
        raise ValueError("not an encoded array: its length is not a multiple of four bytes")
    floats = np.ascontiguousarray(planes.reshape(4, -1).T).view("<f4")
    return floats.ravel().astype(np.float64)
