"""Downloads over a loopback server that breaks off, errs and corrupts."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.download import Checksums, download, resume
from tests.datasets.cases import Server

DATA = bytes(range(256)) * 4000
KNOWN = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def url(server: Server) -> str:
    server.files["/a.zip"] = DATA
    return f"{server.url}/a.zip"


def quick(url: str, target: Path, known: str | None = None, retries: int = 3) -> list[float]:
    """Download without waiting; return the waits asked for."""
    waits: list[float] = []
    assert download(url, target, known, retries=retries, sleep=waits.append) == KNOWN
    return waits


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("known", [None, KNOWN])
def test_a_plain_download(url: str, tmp_path: Path, known: str | None) -> None:
    folder = tmp_path / "new" / "folder"
    assert quick(url, folder / "a.zip", known) == []
    assert (folder / "a.zip").read_bytes() == DATA
    assert leftovers(folder) == {"a.zip"}


def test_what_is_there_is_not_downloaded_again(url: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(DATA)
    quick(url, tmp_path / "a.zip", KNOWN)
    assert server.log == []


def test_a_damaged_file_is_replaced(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(DATA[:-1])
    quick(url, tmp_path / "a.zip", KNOWN)
    assert (tmp_path / "a.zip").read_bytes() == DATA


def test_a_broken_off_download_is_resumed(url: str, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    server.faults[:] = ["truncate", "truncate"]
    assert quick(url, folder / "a.zip") == [1.0, 2.0]
    assert (folder / "a.zip").read_bytes() == DATA
    assert [status for _, status, _ in server.log] == [200, 206, 206]
    starts = [int(wanted[6:-1]) for _, _, wanted in server.log if wanted]
    assert 0.4 * len(DATA) < starts[0] < starts[1] < len(DATA)
    assert leftovers(folder) == {"a.zip"}


def test_a_later_run_resumes_too(url: str, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    server.faults[:] = ["truncate"]
    with pytest.raises(OSError, match=r"a\.zip could not be downloaded"):
        quick(url, folder / "a.zip", retries=0)
    assert not (folder / "a.zip").exists()
    quick(url, folder / "a.zip", retries=0)
    assert server.log[-1][1] == 206


def test_a_file_that_changed_meanwhile_is_begun_again(
    url: str, server: Server, tmp_path: Path
) -> None:
    server.faults[:] = ["truncate"]
    server.files["/a.zip"] = b"old" * 1000
    with pytest.raises(OSError, match="could not"):
        download(url, tmp_path / "a.zip", retries=0)
    server.files["/a.zip"], server.tags["/a.zip"] = DATA, '"two"'
    quick(url, tmp_path / "a.zip", retries=0)
    assert (tmp_path / "a.zip").read_bytes() == DATA


def without_waiting(url: str, target: Path, retries: int) -> str:
    return download(url, target, retries=retries, sleep=lambda seconds: None)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("shifted", "was asked for the bytes from .* and sent 'bytes "),
        ("no range", "was asked for the bytes from .* and sent ''"),
        ("changed", "has changed at its home since the download began"),
        ("shorter", "is not the rest of the file"),
    ],
)
def test_a_part_that_does_not_fit_is_begun_again(
    url: str, server: Server, tmp_path: Path, fault: str, message: str
) -> None:
    server.faults[:] = ["truncate", fault]
    with pytest.raises(OSError, match=message):
        without_waiting(url, tmp_path / "a.zip", retries=1)
    assert [status for _, status, _ in server.log] == [200, 206]
    assert not (tmp_path / "a.zip").exists()
    assert not list(tmp_path.glob("*.part*"))
    assert without_waiting(url, tmp_path / "a.zip", retries=0) == KNOWN
    assert server.log[-1][1] == 200


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("unprompted", "sent a part of the file, but was asked for all of it"),
        ("empty", "sent an empty file"),
        ("unannounced", "does not say how long the file is"),
        ("unannounced whole", "does not say how long the file is"),
    ],
)
def test_answers_that_cannot_be_known_to_be_whole(
    url: str, server: Server, tmp_path: Path, fault: str, message: str
) -> None:
    server.faults[:] = [fault]
    with pytest.raises(OSError, match=message):
        without_waiting(url, tmp_path / "a.zip", retries=0)
    assert not (tmp_path / "a.zip").exists()
    assert without_waiting(url, tmp_path / "a.zip", retries=0) == KNOWN


def test_an_error_of_the_server_does_not_cost_the_part(
    url: str, server: Server, tmp_path: Path
) -> None:
    server.faults[:] = ["truncate", "error"]
    assert without_waiting(url, tmp_path / "a.zip", retries=2) == KNOWN
    assert [status for _, status, _ in server.log] == [200, 503, 206]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_strong_tag_nothing_is_resumed(
    url: str, server: Server, tmp_path: Path, tag: str
) -> None:
    server.tags["/a.zip"] = tag
    server.faults[:] = ["truncate"]
    quick(url, tmp_path / "a.zip")
    assert [status for _, status, _ in server.log] == [200, 200]


def test_a_part_longer_than_the_file_is_begun_again(
    url: str, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "a.zip.part").write_bytes(DATA + b"more")
    (tmp_path / "a.zip.part.tag").write_text('"one"')
    quick(url, tmp_path / "a.zip")
    assert [status for _, status, _ in server.log] == [416, 200]


def test_a_corrupted_download_is_tried_again(url: str, server: Server, tmp_path: Path) -> None:
    server.faults[:] = ["corrupt"]
    quick(url, tmp_path / "a.zip", KNOWN)
    assert (tmp_path / "a.zip").read_bytes() == DATA


def test_corruption_that_stays_is_an_error_and_leaves_nothing(
    url: str, server: Server, tmp_path: Path
) -> None:
    folder = tmp_path / "d"
    server.faults[:] = ["corrupt"] * 2
    with pytest.raises(ValueError, match=rf"a\.zip: the download does not have the sha256 {KNOWN}"):
        download(url, folder / "a.zip", KNOWN, retries=1, sleep=lambda s: None)
    assert leftovers(folder) == set()


def test_errors_of_the_server_and_of_the_network(url: str, server: Server, tmp_path: Path) -> None:
    server.faults[:] = ["error", "error"]
    quick(url, tmp_path / "a.zip")
    with pytest.raises(OSError, match=r"b\.zip could not be downloaded: 404"):
        download(f"{server.url}/b.zip", tmp_path / "b.zip", retries=0)
    with pytest.raises(OSError, match="could not be downloaded"):
        download("http://127.0.0.1:9/a.zip", tmp_path / "c.zip", retries=0)


def test_the_downloader_may_be_replaced(tmp_path: Path) -> None:
    asked = []

    def mine(url: str, part: Path) -> None:
        asked.append(url)
        part.write_bytes(DATA)

    assert download("https://example.org/a", tmp_path / "a", downloader=mine) == KNOWN
    assert asked == ["https://example.org/a"]


def test_resume_alone_writes_the_part(url: str, tmp_path: Path) -> None:
    resume(url, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == DATA


def test_checksums_are_kept_and_damage_is_named(tmp_path: Path) -> None:
    Checksums(tmp_path).record("a/b", "12")
    Checksums(tmp_path).record("c", "34")
    assert Checksums(tmp_path).known == {"a/b": "12", "c": "34"}
    assert json.loads((tmp_path / "checksums.json").read_text()) == {"a/b": "12", "c": "34"}
    (tmp_path / "checksums.json").write_text('{"a": ')
    with pytest.raises(ValueError, match=r"checksums\.json: damaged"):
        Checksums(tmp_path)


@pytest.mark.parametrize("content", ["5", "[]", "null", '"text"', '{"a": 5}', '[["a", "b"]]', "{"])
def test_a_record_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "checksums.json").write_text(content)
    with pytest.raises(ValueError, match=r"checksums\.json: damaged .*; remove it"):
        Checksums(tmp_path)


def test_two_records_of_one_cache_lose_nothing(tmp_path: Path) -> None:
    first, second = Checksums(tmp_path), Checksums(tmp_path)
    first.record("a", "12")
    second.record("b", "34")
    assert Checksums(tmp_path).known == {"a": "12", "b": "34"}
    assert second.known == {"a": "12", "b": "34"}


def test_processes_that_record_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from experiments.download import Checksums; "
        "record = Checksums(Path(sys.argv[1])); "
        "[record.record(f'{sys.argv[2]}-{i}', str(i)) for i in range(40)]"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "abc"
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    expected = {f"{name}-{i}": str(i) for name in "abc" for i in range(40)}
    assert Checksums(tmp_path).known == expected
