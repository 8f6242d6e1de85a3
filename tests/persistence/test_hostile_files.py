"""Files made to do harm, or damaged where no checksum looks: found by fuzz/readers."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from kdey.persistence import archive
from kdey.persistence.archive import ModelFileError


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
    """A gigabyte of zeros in a megabyte: not unpacked, whatever the manifest promises."""
    promise = {"bytes": 10**12, "sha256": "0" * 64}
    said = refused(with_manifest(model, members={"quantifier.json": promise}))
    assert "1000000000000 bytes" in said
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
    columns = tree["state"]["row_map_"]["fields"]["columns"]
    columns.clear()
    columns["list"] = [0, 1, 77]
    assert "do not fit together" in refused(with_tree(model, json.dumps(tree)))


def test_a_missing_field_is_told_when_the_file_is_read(model: Path) -> None:
    tree = json.loads(parts(model)[0]["quantifier.json"])
    del tree["state"]["row_map_"]
    assert "do not fit together" in refused(with_tree(model, json.dumps(tree)))


def test_a_device_that_is_not_here_does_not_stop_the_reading(tmp_path: Path) -> None:
    held = kdey.KDEyML(bandwidth=0.2, device="cuda:7").set_params(device="cpu")
    posteriors = np.random.default_rng(0).dirichlet(np.ones(3), 36)
    held.fit_posteriors(posteriors, np.arange(36) % 3).set_params(device="cuda:7")
    assert kdey.load(kdey.save(held, tmp_path / "m.kdey")).device == "cuda:7"
