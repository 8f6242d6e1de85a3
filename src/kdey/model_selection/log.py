"""The log of a search: one line per scored candidate, from which a killed search resumes.

A line is ``<checksum> <json>``; the first line contains the fingerprint of the search. Each line is
appended with a single write and synced before the search continues. When the log is opened again, a
line that a crash cut short is removed, and a damaged line is ignored with a warning, so that its
candidate is scored again.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kdey._support.files import AppendedFile
from kdey.model_selection.candidates import Score

_KIND = "kdey search log 1"


class SearchLog(AppendedFile):
    """An append-only log of scores, open for one search.

    Parameters
    ----------
    path : path-like
        The file, which is created if it does not exist.
    fingerprint : str
        Fingerprint of data, parameters and seed.

    Attributes
    ----------
    scores : dict from the key of a candidate to its Score

    Raises
    ------
    ValueError
        If the file is not a log, or the log of another search.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        super().__init__(path, "the log", "search")
        self.scores = dict[str, Score]()
        try:
            self._read(fingerprint)
        except BaseException:  # Nobody else could close the file, as there will be no object.
            self.close()
            raise

    def append(self, key: str, score: Score) -> None:
        """Write the score of a candidate, which is on disk when this method returns."""
        self.write(_encode({"candidate": key, **asdict(score)}))
        self.scores[key] = score

    def _read(self, fingerprint: str) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines:
            self._write_header(content, _encode({"kind": _KIND, "search": fingerprint}))
            return
        self._check_header(_decode(lines[0]), fingerprint)
        self.cut(whole)  # only after the check that the file is a log
        damaged = 0
        for line in lines[1:]:
            record = _decode(line)
            if record is None:
                damaged += 1
            else:
                key = record.pop("candidate")
                self.scores[key] = Score(**record)
        if damaged:
            warnings.warn(
                f"log {self.path}: {damaged} damaged line(s) ignored; their candidates are "
                "scored again",
                UserWarning,
                stacklevel=4,
            )

    def _write_header(self, content: bytes, header: bytes) -> None:
        """Write the first line, over an incomplete copy of the same line if there is one."""
        if not header.startswith(content):
            self._check_header(None, "")
        self.cut(0)
        self.write(header)

    def _check_header(self, header: Mapping[str, Any] | None, fingerprint: str) -> None:
        if header is None or header.get("kind") != _KIND:
            raise ValueError(f"log {self.path} is not the log of a search; use another file")
        if header["search"] != fingerprint:
            raise ValueError(
                f"log {self.path} belongs to another search (its data, parameters or seed "
                "differ); use another file, or delete it to start from the beginning"
            )


def _encode(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != f"{zlib.crc32(text):08x}".encode():
        return None
    record: dict[str, Any] = json.loads(text)
    return record
