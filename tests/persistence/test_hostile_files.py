"""Files made to do harm, or damaged where no checksum looks: found by fuzz/readers."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from kdey.persistence import archive, describe
from kdey.persistence.archive import MOST_CLASSES, ModelFileError


def quantifier() -> Any:
    posteriors = np.random.default_rng(0).dirichlet(np.ones(3), 36)
    return kdey.DM(n_bins=3).fit_posteriors(posteriors, np.arange(36) % 3)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return kdey.save(quantifier(), tmp_path / "model.kdey")


def parts(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    with zipfile.ZipFile(path) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    about = json.loads(members.pop("manifest.json"))
    for key in ("digest", "members", "format"):
        about.pop(key)
    return members, about


def with_tree(path: Path, tree: str) -> Path:
    members, about = parts(path)
    archive.write_archive(path, members | {"quantifier.json": tree.encode()}, about)
    return path


def with_manifest(path: Path, **changes: Any) -> Path:
    """Write the archive again with another manifest, whose digest is right."""
    with zipfile.ZipFile(path) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(members.pop("manifest.json")) | changes
    manifest.pop("digest")
    manifest["digest"] = archive._manifest_digest(manifest)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("manifest.json", json.dumps(manifest))
        for name, data in members.items():
            made.writestr(name, data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError, match=r"model\.kdey") as caught:
        kdey.load(path)
    return str(caught.value)


def test_a_member_that_begins_before_the_file(model: Path) -> None:
    """The place of a member was taken at its word, and seeking there raised OSError."""
    data = bytearray(model.read_bytes())
    end = data.rindex(b"PK\x05\x06")
    data[end + 16 : end + 20] = b"\xff\xff\xff\x7f"  # where the directory of members begins
    model.write_bytes(data)
    refused(model)


def test_a_member_with_a_password(model: Path) -> None:
    data = bytearray(model.read_bytes())
    for sign, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(sign) + flags] |= 1
    model.write_bytes(data)
    refused(model)


@pytest.mark.parametrize("method", [0, 12, 14, 99])
def test_a_member_of_another_compression(model: Path, method: int) -> None:
    data = bytearray(model.read_bytes())
    for sign, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.index(sign) + at] = method
    model.write_bytes(data)
    refused(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"members": {"quantifier.json": 3}},
        {"members": {"quantifier.json": {}}},
        {"members": {"quantifier.json": {"bytes": "x", "sha256": ""}}},
        {"members": {"quantifier.json": {"bytes": 1, "sha256": "", "more": 1}}},
        {"members": {"quantifier.json": {"bytes": -5, "sha256": ""}}},
        {"members": {}},
        {"members": []},
        {"format": float("inf")},
        {"format": None},
        {"format": "one"},
    ],
    ids=str,
)
def test_a_manifest_of_nonsense(model: Path, changes: dict[str, Any]) -> None:
    refused(with_manifest(model, **changes))


def test_more_than_a_model_can_be(model: Path) -> None:
    """A member is unpacked only if the manifest and the archive agree on its length."""
    promise = {"bytes": 10**12, "sha256": "0" * 64}
    said = refused(with_manifest(model, members={"quantifier.json": promise}))
    assert "quantifier.json does not match" in said
    less = {"bytes": -(10**12), "sha256": "0" * 64}
    said = refused(with_manifest(model, members={"quantifier.json": promise, "a": less}))
    assert "lists invalid sizes" in said


@pytest.mark.parametrize(
    "tree", ["[" * 100_000, '{"list": [' * 5_000 + "1" + "]}" * 5_000, "", "{"]
)
def test_a_tree_without_end(model: Path, tree: str) -> None:
    refused(with_tree(model, tree))


@pytest.mark.parametrize("shape", ["(9999999999,)", "(-1,)", "(2147483647, 99)", "(3,)", "()"])
def test_an_array_that_promises_more_than_it_holds(model: Path, shape: str) -> None:
    """NumPy made room for what the header said: MemoryError, or the memory itself."""
    members, about = parts(model)
    stream = io.BytesIO()
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    stream.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    stream.write(b"\0" * 16)
    archive.write_archive(model, members | {"arrays/0.npy": stream.getvalue()}, about)
    refused(model)


def test_an_array_of_objects_is_not_made(model: Path) -> None:
    members, about = parts(model)
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    archive.write_archive(model, members | {"arrays/0.npy": stream.getvalue()}, about)
    refused(model)


def test_parts_that_do_not_fit_together(model: Path) -> None:
    """Each part is in order by itself; the first bag would have ended in an IndexError."""
    tree = json.loads(parts(model)[0]["quantifier.json"])
    columns = tree["state"]["model_"]["fields"]["row_map"]["fields"]["columns"]
    columns.clear()
    columns["list"] = [0, 1, 77]
    assert "do not fit together" in refused(with_tree(model, json.dumps(tree)))


def test_a_missing_field_is_told_when_the_file_is_read(model: Path) -> None:
    tree = json.loads(parts(model)[0]["quantifier.json"])
    del tree["state"]["model_"]["fields"]["row_map"]
    assert "do not fit together" in refused(with_tree(model, json.dumps(tree)))


def test_a_device_that_is_not_here_does_not_stop_the_reading(tmp_path: Path) -> None:
    held = kdey.KDEyML(bandwidth=0.2, device="cuda:7").set_params(device="cpu")
    posteriors = np.random.default_rng(0).dirichlet(np.ones(3), 36)
    held.fit_posteriors(posteriors, np.arange(36) % 3).set_params(device="cuda:7")
    assert kdey.load(kdey.save(held, tmp_path / "m.kdey")).device == "cuda:7"


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """Fail if what runs inside allocates more than this at any one time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= n_bytes, f"{peak / 1e6:.0f} MB"


def padded(head: bytes, n_spaces: int) -> Iterator[bytes]:
    """Yield a text and spaces, a megabyte at a time."""
    yield head
    for _ in range(n_spaces >> 20):
        yield b" " * (1 << 20)


def archive_of(members: dict[str, Iterator[bytes]], compression: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        for name, chunks in members.items():
            with made.open(name, "w") as stream:
                for chunk in chunks:
                    stream.write(chunk)
    return buffer.getvalue()


def crafted(path: Path, members: dict[str, Callable[[], Iterator[bytes]]]) -> Path:
    """Write a model file whose lengths and checksums match, without its content in memory."""
    table = {}
    for name, chunks in members.items():
        digest, length = hashlib.sha256(), 0
        for chunk in chunks():
            digest.update(chunk)
            length += len(chunk)
        table[name] = {"bytes": length, "sha256": digest.hexdigest()}
    manifest = {"format": archive.FORMAT, "kdey": "0", "members": table}
    manifest["digest"] = archive._manifest_digest(manifest)
    parts = {"manifest.json": iter([json.dumps(manifest).encode()])}
    parts |= {name: chunks() for name, chunks in members.items()}
    path.write_bytes(archive_of(parts, zipfile.ZIP_DEFLATED))
    return path


def with_members(path: Path, changed: dict[str, bytes]) -> Path:
    members, about = parts(path)
    archive.write_archive(path, members | changed, about)
    return path


def array_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


SPACES = 200 << 20


def test_a_padded_tree_is_not_unpacked(tmp_path: Path) -> None:
    path = crafted(
        tmp_path / "model.kdey", {"quantifier.json": lambda: padded(b'{"list": []}', SPACES)}
    )
    assert path.stat().st_size < 1 << 20
    with at_most(20 << 20):
        assert "would unpack to" in refused(path)


def test_a_padded_manifest_is_not_unpacked(model: Path) -> None:
    manifest = zipfile.ZipFile(model).read("manifest.json")
    data = archive_of({"manifest.json": padded(manifest, SPACES)}, zipfile.ZIP_DEFLATED)
    model.write_bytes(data)
    for read in (kdey.load, describe):
        with at_most(20 << 20), pytest.raises(ModelFileError, match="its manifest has more"):
            read(model)


@pytest.mark.parametrize("nested", ["foreign/0.skops", "sparse"])
def test_an_archive_within_an_archive_is_not_unpacked(model: Path, nested: str) -> None:
    """A file of 6.5 kB took 102 s and 3.2 GB: a description padded with 1.5 GB of spaces."""
    pytest.importorskip("skops")
    inner = archive_of({"schema.json": padded(b"{}", SPACES)}, zipfile.ZIP_DEFLATED)
    if nested == "sparse":
        stored = {"schema.json": iter([b"{}"]), "1.npz": iter([inner])}
        inner = archive_of(stored, zipfile.ZIP_STORED)
    path = with_members(model, {"foreign/0.skops": inner})
    assert path.stat().st_size < 20_000
    with at_most(20 << 20):
        refused(path)


def test_members_that_share_their_bytes(model: Path) -> None:
    """An archive that lists the same bytes many times is refused before they are unpacked."""
    pytest.importorskip("skops")
    inner = archive_of({"schema.json": iter([b" " * (1 << 20)])}, zipfile.ZIP_STORED)
    entry = inner[inner.index(b"PK\x01\x02") : inner.index(b"PK\x05\x06")]
    end = bytearray(inner[inner.index(b"PK\x05\x06") :])
    end[8:12] = (100).to_bytes(2, "little") * 2
    end[12:16] = (100 * len(entry)).to_bytes(4, "little")
    data = inner[: inner.index(b"PK\x01\x02")] + entry * 100 + bytes(end)
    assert "compressed archive" in refused(with_members(model, {"foreign/0.skops": data}))


def test_entries_without_bytes(model: Path) -> None:
    """A thousand million empty texts take no byte of the file, and each a Python object."""
    header = b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }".ljust(117)
    data = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header + b"\n"
    with at_most(20 << 20):
        assert "not plain data" in refused(with_members(model, {"arrays/0.npy": data}))


def tree_of(name: str, **fields: Any) -> bytes:
    flags = {"crisp": False, "adjusted": False}
    parts = {
        "row_spec": {"dataclass": "kdey.rows.posterior:PosteriorMap", "fields": flags},
        "row_map": {
            "dataclass": "kdey.rows.posterior:PosteriorMap",
            "fields": flags | {"templates": {"array": 2}},
        },
        "matching": {"dataclass": "kdey.matching.squares:Mean", "fields": {}},
    }
    state = {"model_": {"dataclass": "kdey.model:Model", "fields": parts | fields}}
    node = {"estimator": f"kdey.quantifiers.{name}", "params": {}, "state": state}
    return json.dumps(node).encode()


def test_many_classes_in_a_small_file(model: Path) -> None:
    """15,000 classes in 2.9 kB took 29 s and 3.6 GB, for a trial with one instance per class."""
    k = 15_000
    tree = tree_of(
        "counting:PCC",
        classes={"array": 0},
        prevalence={"array": 1},
    )
    path = crafted(
        model,
        {
            "quantifier.json": lambda: iter([tree]),
            "arrays/0.npy": lambda: iter([array_bytes(np.zeros(k, np.int8))]),
            "arrays/1.npy": lambda: iter([array_bytes(np.zeros(k, np.float16))]),
            "arrays/2.npy": lambda: iter([array_bytes(np.zeros((k, 0)))]),
        },
    )
    assert path.stat().st_size < 4_000
    with at_most(50 << 20):
        assert len(kdey.load(path).classes_) == k


def test_a_row_map_that_was_not_fitted(model: Path) -> None:
    unfitted = {
        "dataclass": "kdey.rows.posterior:PosteriorMap",
        "fields": {"crisp": False, "adjusted": True},
    }
    tree = tree_of("counting:PACC", classes={"array": 0}, prevalence={"array": 1}, row_map=unfitted)
    path = crafted(
        model,
        {
            "quantifier.json": lambda: iter([tree]),
            "arrays/0.npy": lambda: iter([array_bytes(np.arange(3))]),
            "arrays/1.npy": lambda: iter([array_bytes(np.full(3, 1 / 3))]),
        },
    )
    assert "not been fitted" in refused(path)


def test_more_classes_than_are_read(model: Path) -> None:
    tree = tree_of("counting:PCC", classes={"array": 0}, prevalence={"array": 0}, row_map=None)
    zeros = array_bytes(np.zeros(MOST_CLASSES + 1, np.int8))
    path = crafted(
        model, {"quantifier.json": lambda: iter([tree]), "arrays/0.npy": lambda: iter([zeros])}
    )
    assert "100001 classes" in refused(path)


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        ("classes", (4,)),
        ("classes", (3, 1)),
        ("prevalence", (2,)),
        ("posteriors", (36, 4)),
        ("posteriors", (35, 3)),
        ("labels", (30,)),
        ("templates", (9, 5)),
    ],
)
def test_shapes_that_do_not_match(model: Path, part: str, shape: tuple[int, ...]) -> None:
    members, _ = parts(model)
    tree = json.loads(members["quantifier.json"])
    known = tree["state"]["model_"]["fields"]
    fields = known["training"]["fields"] | known["row_map"]["fields"]
    number = (known | fields)[part]["array"]
    old = np.load(io.BytesIO(members[f"arrays/{number}.npy"]), allow_pickle=False)
    new = {f"arrays/{number}.npy": array_bytes(np.zeros(shape, old.dtype))}
    said = refused(with_members(model, new))
    assert "do not fit together" in said or "classes" in said


def test_labels_of_other_classes(model: Path) -> None:
    members, _ = parts(model)
    fields = json.loads(members["quantifier.json"])["state"]["model_"]["fields"]["training"][
        "fields"
    ]
    name = f"arrays/{fields['labels']['array']}.npy"
    for label in (-1, 3):
        path = with_members(model, {name: array_bytes(np.full(36, label))})
        assert "classes that it does not have" in refused(path)


def test_a_problem_is_no_part_of_a_model(model: Path) -> None:
    """Its normal equations are made at once: 15,000 zeros become 225 million numbers."""
    tree = tree_of("counting:PCC")
    problem = {
        "dataclass": "kdey.matching.squares:LeastSquares",
        "fields": {"templates": {"array": 0}, "targets": {"array": 1}},
    }
    node = json.loads(tree) | {"state": {"model_": problem}}
    path = crafted(
        model,
        {
            "quantifier.json": lambda: iter([json.dumps(node).encode()]),
            "arrays/0.npy": lambda: iter([array_bytes(np.zeros((1, 15_000)))]),
            "arrays/1.npy": lambda: iter([array_bytes(np.zeros((1, 1)))]),
        },
    )
    with at_most(50 << 20):
        assert "must not name" in refused(path)


@pytest.mark.parametrize("name", ["GivenBags", "AtPrevalences", "DirichletProtocol"])
def test_a_protocol_of_many_bags_is_not_made(model: Path, name: str) -> None:
    """A million ones take no space in the file, and 90 bytes each as a row of Python numbers."""
    fields = {"prevalences": {"list": [{"array": 0}] * 9}}
    protocol = {"dataclass": f"kdey.evaluation.protocols:{name}", "fields": fields}
    node = json.loads(tree_of("counting:PCC")) | {"state": {"model_": protocol}}
    path = crafted(
        model,
        {
            "quantifier.json": lambda: iter([json.dumps(node).encode()]),
            "arrays/0.npy": lambda: iter([array_bytes(np.ones((1_000_000, 1)))]),
        },
    )
    with at_most(50 << 20):
        assert "must not name" in refused(path)


def test_a_trial_is_not_made_of_giant_parameters(model: Path) -> None:
    tree = json.loads(parts(model)[0]["quantifier.json"])
    tree["state"]["model_"]["fields"]["row_map"]["fields"]["n_bins"] = 100_000_000
    with at_most(50 << 20):
        kdey.load(with_tree(model, json.dumps(tree)))


@pytest.mark.skipif(sys.platform == "win32", reason="devices and pipes of Unix")
def test_devices_and_pipes_are_no_model_files(tmp_path: Path) -> None:
    """Reading /dev/zero never ended, nor did waiting for somebody to write to a pipe."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        for read in (kdey.load, describe):
            with pytest.raises(OSError, match="not a regular file"):
                read(path)


def test_a_list_is_no_quantifier(model: Path) -> None:
    assert "contains no quantifier" in refused(with_tree(model, '{"list": []}'))
