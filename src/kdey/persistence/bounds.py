"""How much a model file may unpack to, and how large the model in it may be.

Compression is what makes a small file dangerous: a kilobyte can hold a megabyte of zeros, and a
compressed archive inside a compressed archive a gigabyte. Every size is therefore compared with
the bytes that are really there before anything is unpacked, and every array with its header before
memory is allocated for it. All functions raise ValueError with the second half of a sentence that
begins with the name of the file.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from typing import IO

import numpy as np

#: All members together may have this many bytes, or this many times the size of the file if that
#: is more. Labels and weights of training instances are often constant and compress well.
_MOST_BYTES, _MOST_TIMES = 256 << 20, 100
#: The same for members that become Python objects, which take some 20 times the memory of their
#: text. The largest ratio that we saw was 27, for the vocabulary of a text classifier.
_MOST_TEXT, _MOST_TEXT_TIMES = 8 << 20, 50
#: A manifest lists members and classes.
MOST_MANIFEST = 4 << 20
#: Reading a model takes time and memory in proportion to its classes.
MOST_CLASSES = 100_000
#: Methods of compression that zipfile unpacks in bounded memory, and the only ones that we write.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Endings of members that become Python objects.
_TEXT = (".json", ".skops")


def check_members(members: Sequence[zipfile.ZipInfo], n_bytes: int) -> None:
    """Raise ValueError if members of an archive are suspiciously large.

    Parameters
    ----------
    members : sequence of ZipInfo
    n_bytes : int
        Size of the archive.
    """
    texts = [member for member in members if member.filename.endswith(_TEXT)]
    for chosen, most, times in (
        (members, _MOST_BYTES, _MOST_TIMES),
        (texts, _MOST_TEXT, _MOST_TEXT_TIMES),
    ):
        # Members may share their bytes: all together, they cannot have more than the archive.
        packed = min(n_bytes, sum(member.compress_size for member in chosen))
        total = sum(member.file_size for member in chosen)
        if total > max(most, times * packed):
            raise ValueError(
                f"would unpack to {total} bytes, many times its own size: kdey.save did not write "
                "it"
            )
    if any(member.compress_type not in _COMPRESSIONS for member in members):
        raise ValueError("uses a method of compression that kdey.save does not use")


def check_skops(data: bytes) -> None:
    """Raise ValueError if an archive of skops would unpack to more than its own size.

    :func:`~kdey.persistence.model_file.save` writes it without compression, because the model file
    around it is compressed. Only sparse matrices are compressed again, by SciPy.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > len(data):
            raise ValueError("it contains a compressed archive, which save does not write")
        for member in members:
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    check_array_header(stream, member.file_size)
            elif member.filename.endswith(".npz"):
                _check_sparse(archive.read(member))


def _check_sparse(data: bytes) -> None:
    """Raise ValueError if the arrays of a sparse matrix are larger than they may be."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > max(_MOST_TEXT, _MOST_TIMES * len(data)):
            raise ValueError("it contains a sparse matrix many times the size of its bytes")
        for member in members:
            with archive.open(member) as stream:
                check_array_header(stream, member.file_size)


def check_array_header(stream: IO[bytes], n_bytes: int) -> None:
    """Raise ValueError if the header of an array does not match its bytes.

    NumPy allocates the memory that the header declares before it reads the data.

    Parameters
    ----------
    stream : binary stream at the beginning of the array
    n_bytes : int
        Length of header and data.
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"it contains an array of format {version}, which save does not write")
    size = math.prod(shape)
    # Entries without bytes would cost the file nothing, whatever their number.
    if dtype.hasobject or (dtype.itemsize == 0 and size > 0):
        raise ValueError("it contains an array of entries that are not plain data")
    if size * dtype.itemsize != n_bytes - stream.tell():
        raise ValueError("it contains an array whose header does not match its bytes")
