"""The results file survives whatever happens to it, or says what did."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from experiments.results import BagsRecord, Curve, ResultsFile, encode_line, read_results

from .cases import cell


def fill(path: Path, n: int = 3) -> None:
    with ResultsFile(path) as store:
        for seed in range(n):
            store.append(cell("iris", "ACC", [0.1, 0.2, 0.3], seed=seed))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "multi.jsonl"
    bags = BagsRecord("multi", "iris", 0, np.array([0.1, 0.2]), 3, 10, 40, "here", ("scaled",))
    curve = Curve("iris", "DM-HD", "mae", 0, "c", "n_bins", (2.0, 3.0), (0.1, 0.2), "here")
    written = cell("iris", "KDEy-ML", [0.1, 0.25])
    with ResultsFile(path) as store:
        for record in (written, bags, curve):
            store.append(record)
    stored = read_results(path)
    read = stored.cells[written.key]
    np.testing.assert_allclose(read.errors, written.errors, rtol=2e-5)
    assert (read.params, read.seconds, read.on_edge) == (written.params, written.seconds, ())
    assert read.mean == pytest.approx(0.175, rel=2e-5)
    assert stored.bags["multi", "iris", 0].notes == ("scaled",)
    assert stored.curves["iris", "DM-HD", "mae", 0].means == (0.1, 0.2)


def test_a_file_cut_anywhere_loses_the_last_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    fill(path)
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    for cut in range(0, len(content) + 1, 7):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends)
        assert len(read_results(path).cells) == max(whole - 1, 0)
        with ResultsFile(path) as store:
            store.append(cell("wine", "ACC", [0.1]))
        assert len(read_results(path).cells) == max(whole - 1, 0) + 1


@pytest.mark.parametrize("line", [2, 3])
def test_a_damaged_line_is_named(tmp_path: Path, line: int) -> None:
    path = tmp_path / "r.jsonl"
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b"iris", b"Iris")
    path.write_bytes(b"".join(lines))
    for read in (lambda: read_results(path), lambda: ResultsFile(path)):
        with pytest.raises(ValueError, match=rf"r\.jsonl, line {line}: damaged"):
            read()
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    "content", [b"label,x\n1,2\n", b"{}\n", b'{"kind":"cell"}\n', b"label,x", b"eggs\nmilk", b"1"]
)
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="line 1"):
        ResultsFile(path)
    assert path.read_bytes() == content


def test_an_unknown_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    fill(path, 1)
    with path.open("ab") as file:
        file.write(encode_line({"kind": "dream"}))
    with pytest.raises(ValueError, match=r"line 3: not a known result"):
        read_results(path)


def test_a_full_disk_leaves_a_valid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    fill(path)
    before = path.read_bytes()
    real, calls = os.write, iter([40])

    def full(file: int, data: bytes) -> int:
        """Take 40 bytes of the line, then nothing more."""
        for room in calls:
            return real(file, data[:room])
        raise OSError(errno.ENOSPC, "No space left on device")

    with ResultsFile(path) as store:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="cannot write the results file: No space left"):
            store.append(cell("wine", "ACC", [0.1]))
    assert path.read_bytes() == before


def test_the_last_line_counts_and_files_join(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path, error in ((first, 0.1), (second, 0.3)):
        with ResultsFile(path) as store:
            store.append(cell("iris", "ACC", [0.9]))
            store.append(cell("iris", "ACC", [error]))
    with ResultsFile(second) as store:
        store.append(cell("wine", "ACC", [0.5]))
    joined = read_results(first, second)
    assert sorted(round(first_file.mean, 3) for first_file in joined.cells.values()) == [0.3, 0.5]
