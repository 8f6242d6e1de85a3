"""Bytes of skops that depend on the object alone.

skops names the parts of an object by their places in memory and stamps its archive with the time
of day. Parts are numbered in order of appearance here, and time stands still, so that equal models
give equal files.
"""

from __future__ import annotations

import io
import re
import zipfile

_SCHEMA = "schema.json"
#: Where places in memory stand: names of parts, and the files that hold them.
_PLACE = re.compile(r'(?<="__id__": )\d+|(?<="file": ")\d+')
#: The first moment that a zip archive knows.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def canonical(data: bytes) -> bytes:
    """Return what ``skops.io.dumps`` gave, the same for equal objects."""
    given = zipfile.ZipFile(io.BytesIO(data))
    numbers: dict[str, str] = {}

    def number(place: re.Match[str]) -> str:
        return numbers.setdefault(place.group(), str(len(numbers)))

    schema = _PLACE.sub(number, given.read(_SCHEMA).decode())
    members = {_renamed(name, numbers): given.read(name) for name in given.namelist()}
    members[_SCHEMA] = schema.encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), members[name])
    return out.getvalue()


def _renamed(name: str, numbers: dict[str, str]) -> str:
    stem, dot, suffix = name.partition(".")
    return numbers.get(stem, stem) + dot + suffix
