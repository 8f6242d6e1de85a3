"""Files that appear whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kdey._support.files import check_writable, write_whole


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.csv.gz"
    write_whole(target, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.gz"]


def test_texts_are_utf8_and_files_are_ordinary(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_whole(target, "f\u00fcr \udcff")
    assert target.read_bytes() == b"f\xc3\xbcr ?"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "a.txt"
    with pytest.raises(OSError, match=r"cannot write .*a\.txt"):
        write_whole(nowhere, b"")
    with pytest.raises(OSError, match="there is no folder"):
        check_writable(nowhere)
    with pytest.raises(OSError, match="it is a folder"):
        check_writable(tmp_path)
