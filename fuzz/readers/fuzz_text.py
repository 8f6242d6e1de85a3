"""Coverage-guided fuzzing of the readers of text (needs atheris; see fuzz/README.md).

CSV tables, sparse vectors, the files of LeQua 2022 and the tables of the command line: every bytes
must give values, or a ValueError that names the file.

    python -m fuzz.readers.fuzz_text [libFuzzer options]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["kdey.datasets", "kdey.tables"]):
    from kdey.datasets.lequa import read_numbers, read_prevalences
    from kdey.datasets.loading import read_sparse, read_table
    from kdey.tables.sources import open_source
    from kdey.tables.training import learn_schema

Reader = Callable[[Path], Any]


def _cli_table(path: Path) -> Any:
    frame = open_source(str(path)).read()
    try:
        return learn_schema(frame, frame.columns[-1])
    except ValueError:
        return None  # of the columns, which it names; the command line adds the file


READERS: tuple[Reader, ...] = (
    read_table,
    lambda path: read_table(path, ("a",)),
    read_sparse,
    lambda path: read_numbers(path.read_bytes(), str(path)),
    lambda path: read_prevalences(path.read_bytes(), str(path), 3),
    _cli_table,
)
#: Pieces that such files are made of: libFuzzer alone would take long to find them.
PIECES = (
    *(b"a,b,label\n", b"1,2,x\n", b"split", b"train", b"\n", b"\r\n", b",", b";", b'"', b"1:2 "),
    *(b"id,0,1,2\n", b"0,0.5,0.25,0.25\n", b"nan", b"inf", b"1e400", b"-", b"\xff", b"\0", b" "),
    *(b"3 1:0.5 7:2\n", b"99999999999999999999", b"PAR1", b"\x1f\x8b\x08", b"\xef\xbb\xbf", b":"),
)


def text(source: Any) -> bytes:
    """Return a file put together from pieces and loose bytes."""
    made = b""
    while source.remaining_bytes() and len(made) < 4000:
        choice = source.ConsumeIntInRange(0, len(PIECES) + 4)
        made += PIECES[choice] if choice < len(PIECES) else source.ConsumeBytes(choice - 20)
    return made


def main() -> None:
    """Fuzz until an input breaks the promise or the options say to stop."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("data.csv", "data.csv.gz")]

        def target(data: bytes) -> None:
            source = atheris.FuzzedDataProvider(data)
            reader = READERS[source.ConsumeIntInRange(0, len(READERS) - 1)]
            path = paths[source.ConsumeIntInRange(0, 15) == 1]
            path.write_bytes(text(source))
            try:
                reader(path)
            except ValueError as error:
                if path.name not in str(error):
                    raise AssertionError(f"the error does not name the file: {error!r}") from error

        atheris.Setup(sys.argv, target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
