"""Small files of the official formats, and a loopback server that misbehaves on request."""

from __future__ import annotations

import csv
import gzip
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from kdey.datasets.lequa import TASKS


def write_gz(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def table_text(X: np.ndarray, y: Any, split: Any = None) -> str:
    header = [f"f{j}" for j in range(X.shape[1])] + (["split"] if split is not None else [])
    lines = [",".join([*header, "label"])]
    for i, row in enumerate(X):
        middle = [] if split is None else [split[i]]
        lines.append(",".join([*(repr(float(v)) for v in row), *middle, str(y[i])]))
    return "\n".join(lines) + "\n"


def write_letter(root: Path, n: int = 200, classes: str = "ABC", seed: int = 0) -> Any:
    """Write a small uci-multi/letter.csv.gz and return what is in it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(3) * 7 + 3
    y = np.array(list(classes))[np.arange(n) % len(classes)]
    write_gz(root / "uci-multi" / "letter.csv.gz", table_text(X, y))
    return X, y


def sparse_text(n: int, seed: int, width: int = 30) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        columns = np.sort(rng.choice(width, size=5, replace=False)) + 1
        cells = " ".join(f"{c}:{rng.integers(1, 4)}" for c in columns)
        lines.append(f"{i % 3 - 1} {cells}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Lequa:
    """A small task in the official layout."""

    X: np.ndarray
    y: np.ndarray
    bags: dict[str, list[np.ndarray]]
    prevalences: dict[str, np.ndarray]
    texts: dict[str, str]

    def write(self, root: Path, task: str = "T1A") -> Path:
        folder = root / TASKS[task].folder / task / "public"
        for name, text in self.texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    def write_zips(self, root: Path, task: str = "T1A") -> Path:
        folder = root / TASKS[task].folder
        folder.mkdir(parents=True, exist_ok=True)
        for kind in ("train_dev", "test", "test_prevalences"):
            with ZipFile(folder / f"{task}.{kind}.zip", "w") as archive:
                for name, text in self.texts.items():
                    if _archive(name) == kind:
                        archive.writestr(f"{task}/public/{name}", text)
        return folder


def _archive(name: str) -> str:
    if name == "test_prevalences.txt":
        return "test_prevalences"
    return "test" if name.startswith("test") else "train_dev"


def make_lequa(n_bags: int = 4, size: int = 6, d: int = 3, k: int = 2, seed: int = 0) -> Lequa:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, d)), np.arange(20) % k
    columns = ",".join(map(str, range(d)))
    texts = {"training_data.txt": _lines(f"label,{columns}", np.column_stack([y, X]), 1)}
    bags: dict[str, list[np.ndarray]] = {}
    prevalences: dict[str, np.ndarray] = {}
    for part, count in (("dev", n_bags), ("test", n_bags + 1)):
        bags[part] = [rng.normal(size=(size, d)) for _ in range(count)]
        prevalences[part] = rng.dirichlet(np.ones(k), size=count)
        for number, bag in enumerate(bags[part]):
            texts[f"{part}_samples/{number}.txt"] = _lines(columns, bag, 0)
        table = np.column_stack([np.arange(count), prevalences[part]])
        head = "id," + ",".join(map(str, range(k)))
        texts[f"{part}_prevalences.txt"] = _lines(head, table, 1)
    return Lequa(X, y, bags, prevalences, texts)


def make_documents(k: int = 2, seed: int = 0) -> Lequa:
    """Return a task whose instances are texts, with all that a CSV file may hold."""
    rng, lequa = np.random.default_rng(seed), make_lequa(k=k, seed=seed)
    words = ("plain", 'a "quoted" word', "one, two", "two\nlines", "été", "NA", "#hash", " space")

    def document(number: int) -> str:
        return f"{words[number % len(words)]} class{number % k} " + rng.choice(["so", "thus"])

    texts = [document(i) for i in range(len(lequa.y))]
    files = {n: t for n, t in lequa.texts.items() if n.endswith("prevalences.txt")}
    files["training_data.txt"] = _csv(
        ["label", "text"], [[str(label), text] for label, text in zip(lequa.y, texts, strict=True)]
    )
    bags: dict[str, list[np.ndarray]] = {}
    for part, samples in lequa.bags.items():
        bags[part] = []
        for number, sample in enumerate(samples):
            bag = [document(number + i) for i in range(len(sample))]
            files[f"{part}_samples/{number}.txt"] = _csv(["text"], [[text] for text in bag])
            bags[part].append(np.array(bag, dtype=object))
    return Lequa(np.array(texts, dtype=object), lequa.y, bags, lequa.prevalences, files)


def make_samples(n_samples: int = 9, size: int = 12, d: int = 3, seed: int = 0) -> Lequa:
    """Return a task like T3: five ordered classes, trained on samples."""
    rng = np.random.default_rng(seed)
    lequa = make_lequa(d=d, k=5, seed=seed)
    columns = ",".join(map(str, range(d)))
    texts = {n: t for n, t in lequa.texts.items() if n != "training_data.txt"}
    X, y = [], []
    for number in range(n_samples):
        labels = rng.permutation(np.arange(size) % 5)
        features = labels[:, None] + rng.normal(size=(size, d))
        X.append(features)
        y.append(labels)
        rows = np.column_stack([labels, features])
        texts[f"training_samples/{number}.txt"] = _lines(f"label,{columns}", rows, 1)
    shares = np.stack([np.bincount(labels, minlength=5) / size for labels in y])
    table = np.column_stack([np.arange(n_samples), shares])
    texts["training_prevalences.txt"] = _lines("id,0,1,2,3,4", table, 1)
    texts["label_map.txt"] = "".join(f"{code + 1}_stars {code}\n" for code in range(5))
    return Lequa(np.vstack(X), np.concatenate(y), lequa.bags, lequa.prevalences, texts)


def _csv(header: list[str], rows: list[list[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header, *rows])
    return out.getvalue()


def _lines(header: str, rows: np.ndarray, integers: int) -> str:
    cells = (
        ",".join(str(int(v)) if j < integers else repr(float(v)) for j, v in enumerate(row))
        for row in rows
    )
    return "\n".join([header, *cells]) + "\n"


@dataclass
class Server:
    """Files by path, and faults to commit: one per request, first come first served."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    log: list[tuple[str, int, str | None]] = field(default_factory=list)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        body, requested = self.files.get(request.path), request.headers.get("Range")
        if body is None or fault == "error":
            return self._send(request, 404 if body is None else 503, b"no", {}, None)
        tag = self.tags.get(request.path, '"one"')
        headers = {"ETag": tag} if tag else {}
        start = 0
        if requested and request.headers.get("If-Range") == tag:
            start = int(requested.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            return self._send(request, 416, b"", headers, requested)
        if fault == "shifted":  # other bytes than those asked for, as the header says
            start = max(start - 7, 0)
        data = body[start:]
        if fault == "corrupt":
            data = data[:-1] + bytes([data[-1] ^ 1])
        if start or fault == "unprompted":
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        if fault == "no range":
            del headers["Content-Range"]
        if fault == "shorter":  # less than the rest of the file
            headers["Content-Range"] = f"bytes {start}-{len(body) - 11}/{len(body)}"
            data = data[:-10]
        if fault == "changed":
            headers["ETag"] = '"another"'
        sent = data[: len(data) // 2] if fault in ("truncate", "unannounced") else data
        length: int | None = len(data)
        if fault == "empty":
            sent, length = b"", 0
        if fault in ("unannounced", "unannounced whole"):
            length = -1
        status = 206 if start or fault == "unprompted" else 200
        return self._send(request, status, sent, headers, requested, length)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        headers: dict[str, str],
        wanted: str | None,
        length: int | None = None,
    ) -> None:
        self.log.append((request.path, status, wanted))
        request.send_response(status)
        for key, value in headers.items():
            request.send_header(key, value)
        if length != -1:  # the end of the connection is the end of the file
            request.send_header("Content-Length", str(len(data) if length is None else length))
        request.end_headers()
        request.wfile.write(data)


@contextmanager
def serve() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
