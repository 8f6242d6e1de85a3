"""Downloading one file: resumed where it broke off, tried again, checked, never half there."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kdey.datasets.locate import sha256
from kdey.writing import write_whole

#: URL and the file to write; raises OSError where the connection fails.
Downloader = Callable[[str, Path], None]
#: What is lost of a broken connection is the last chunk.
_CHUNK = 1 << 16
_TIMEOUT = 60


def download(
    url: str,
    target: Path,
    known: str | None = None,
    *,
    downloader: Downloader | None = None,
    retries: int = 3,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Download a file and return its sha256.

    Parameters
    ----------
    url : str
    target : Path
        Exists afterwards, whole and checked, or is as it was before.
    known : str, optional
        The sha256 to ask for.
    downloader : callable, optional
        By default :func:`resume`.
    retries : int
        How often to try again after a failure.
    sleep : callable
        Waits 1, 2, 4, ... seconds between the tries.

    Raises
    ------
    OSError
        Names the URL, after the last try.
    ValueError
        Where what came does not have the sha256.
    """
    part = target.with_name(f"{target.name}.part")
    for attempt in range(retries + 1):
        try:
            return _once(url, target, part, known, downloader or resume)
        except (OSError, ValueError) as error:
            if attempt == retries:
                if isinstance(error, ValueError):
                    raise
                raise OSError(f"{url} could not be downloaded: {error}") from error
            sleep(2.0**attempt)
    raise AssertionError  # retries is never negative: the loop has returned or raised


def _once(url: str, target: Path, part: Path, known: str | None, downloader: Downloader) -> str:
    import pooch

    def fetch(_: str, output: Any, __: Any) -> None:
        downloader(url, part)
        Path(output).unlink(missing_ok=True)
        part.replace(output)

    target.parent.mkdir(parents=True, exist_ok=True)
    with _quiet(pooch.get_logger()):
        try:
            got = pooch.retrieve(
                url, known and f"sha256:{known}", target.name, target.parent, downloader=fetch
            )
        except ValueError as error:
            raise ValueError(
                f"{url}: what came does not have the sha256 {known}: the download is corrupted, "
                "or the file has changed at its home"
            ) from error
    return sha256(Path(got))


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch, which tells people to paste checksums into code."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def resume(url: str, part: Path) -> None:
    """Download into ``part``, going on with what is there if the server still has the same file.

    The server's tag of the file (ETag or date) is kept beside the part; without one, or where it
    has changed, the download begins again.
    """
    import requests

    tag = part.with_name(f"{part.name}.tag")
    there = part.stat().st_size if part.exists() and tag.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if there:
        headers |= {"Range": f"bytes={there}-", "If-Range": tag.read_text()}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
        if answer.status_code == 416:  # the part is as long as the file, or longer: begin again
            tag.unlink()
            part.unlink()
        answer.raise_for_status()
        if answer.status_code != 206:
            there = 0
            _remember(tag, answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        with part.open("ab" if there else "wb") as stream:
            for chunk in answer.iter_content(_CHUNK):
                stream.write(chunk)
        _check_length(part.stat().st_size - there, answer.headers.get("Content-Length"))
    tag.unlink(missing_ok=True)


def _remember(tag: Path, value: str | None) -> None:
    if value is None or value.startswith("W/"):  # a weak tag does not promise the same bytes
        tag.unlink(missing_ok=True)
    else:
        tag.write_text(value)


def _check_length(got: int, announced: str | None) -> None:
    if announced is not None and got != int(announced):
        raise OSError(f"broke off after {got} of {announced} bytes")


class Checksums:
    """The sha256 of every file of the cache, recorded when it first came.

    Parameters
    ----------
    cache : Path
        The record is ``checksums.json`` in it.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "checksums.json"
        self.known: dict[str, str] = {}
        if self.path.exists():
            try:
                self.known = dict(json.loads(self.path.read_text(encoding="utf-8")))
            except ValueError as error:
                raise ValueError(f"{self.path}: damaged ({error}); remove it") from error

    def record(self, name: str, checksum: str) -> None:
        """Keep the checksum of a file, named by its place in the cache."""
        self.known[name] = checksum
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(self.known, indent=1, sort_keys=True).encode())
