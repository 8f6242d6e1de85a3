"""Coverage-guided fuzzing of the model-file reader (needs atheris; see fuzz/README.md).

A file is changed byte by byte, or taken apart, changed inside and put together again with
checksums that match. ``load`` must give a quantifier or a ``ModelFileError``, and a quantifier
must answer a bag or refuse it by a documented error.

    python -m fuzz.readers.fuzz_model_file [libFuzzer options]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["kdey.persistence"]):
    import kdey
    from kdey.persistence import archive

import numpy as np
from sklearn.exceptions import NotFittedError

from fuzz.readers.changes import changed_array, changed_tree
from fuzz.readers.models import made, taken_apart

#: What ``predict`` and ``aggregate`` may raise for a bag that does not fit.
DOCUMENTED = (ValueError, TypeError, NotFittedError)
#: No file of these sizes may need more than this (bytes).
MEMORY = 4 << 30


class Bytes:
    """Choices from the bytes of the fuzzer, see :class:`fuzz.readers.changes.Source`."""

    def __init__(self, data: bytes) -> None:
        self._left = atheris.FuzzedDataProvider(data)

    def below(self, limit: int) -> int:
        """Return a number in [0, limit)."""
        return int(self._left.ConsumeIntInRange(0, limit - 1)) if limit > 1 else 0

    def take(self, count: int) -> bytes:
        """Return ``count`` bytes, or fewer at the end."""
        return bytes(self._left.ConsumeBytes(count))


class Target:
    """Writes changed files to one path and reads them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._models = [taken_apart(quantifier) for quantifier in made()]

    def __call__(self, data: bytes) -> None:
        """Run one input."""
        source = Bytes(data)
        whole, members, about = self._models[source.below(len(self._models))]
        if source.below(8) == 0:
            self._path.write_bytes(_damaged(whole, source))
        else:
            archive.write_archive(self._path, _changed(members, source), about)
        try:
            loaded = kdey.load(self._path)
            kdey.persistence.describe(self._path)
        except archive.ModelFileError:
            return
        _answers(loaded)


def _damaged(whole: bytes, source: Bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(1 + source.below(4)):
        at = source.below(len(data))
        data[at : at + 4] = source.take(4)
    return bytes(data)


def _changed(members: dict[str, bytes], source: Bytes) -> dict[str, bytes]:
    changed = dict(members)
    for _ in range(1 + source.below(3)):
        name = sorted(changed)[source.below(len(changed))]
        if source.below(16) == 0:
            del changed[name]
            if not changed:
                break
        elif name.endswith(".json"):
            changed[name] = changed_tree(changed[name], source)
        elif name.endswith(".npy") and members.get(name) == changed[name]:
            changed[name] = changed_array(changed[name], source)
        else:
            changed[name] = _damaged(changed[name] or b"x", source)
    return changed


def _answers(loaded: Any) -> None:
    points = np.random.default_rng(1).dirichlet(np.ones(3), 5)
    try:
        # A parameter may be any text: what is not fitted to it says so when it is asked.
        answer = loaded.aggregate(points) if hasattr(loaded, "aggregate") else None
        if answer is None:
            answer = loaded.predict(points[:, :2])
    except DOCUMENTED:
        return
    if not np.asarray(answer).shape:
        raise AssertionError(f"{loaded!r:.200} answered {answer!r:.200}")


def main() -> None:
    """Fuzz until an input breaks the promise or the options say to stop."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder) / "model.kdey")
        atheris.Setup(sys.argv, target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
