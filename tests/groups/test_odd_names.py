"""Tables whose column names are no text: found by fuzz/readers/fuzz_text.py."""

from pathlib import Path

import pytest

from kdey.tables.dialect import ReadOptions
from kdey.tables.sources import TableError, open_source

pytest.importorskip("pyarrow")


def test_a_name_that_is_not_utf8_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(b"\xff1,b\n1,2\n")
    with pytest.raises(TableError, match=r"odd\.csv: byte 0 is not utf-8"):
        open_source(str(path), ReadOptions("utf-8")).read()
