"""The same rows give the same groups from every source and engine; what is no source is refused.

Packages of the extra ``sources`` are needed for some of them, PostgreSQL and a JVM for one each.
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.tables.dialect import ReadOptions
from kdey.tables.features import prepare, reading_tables
from kdey.tables.sources import TableError, open_source
from kdey.tables.training import learn_schema

from ..runner import invoke

N = 240


def labelled(n: int, seed: int) -> pl.DataFrame:
    """Return rows with a number that has gaps, a category, a key, a day, a weight and a label."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["bad", "good"], n, p=[0.4, 0.6])
    x = rng.normal(size=n) + 1.5 * (y == "bad")
    days = np.datetime64("2024-01-01") + rng.integers(0, 28, n)
    return pl.DataFrame(
        {
            "x": [None if rng.random() < 0.1 else round(float(value), 6) for value in x],
            "colour": np.where(rng.random(n) < np.where(y == "bad", 0.8, 0.2), "red", "blue"),
            "shop": rng.integers(1, 4, n),
            "day": days,
            "weight": rng.integers(1, 4, n) / 2,
            "kind": y,
        }
    )


ROWS = labelled(N, 1).drop("kind")


@pytest.fixture(scope="module")
def quantifier() -> Any:
    frame = labelled(200, 0)
    schema = learn_schema(frame, "kind", features=["x", "colour"])
    classifier = reading_tables(prepare(LogisticRegression(), schema.kinds), schema)
    return kdey.PACC(classifier, random_state=0).fit(frame, frame["kind"].to_numpy())


def groups(quantifier: Any, source: Any) -> pl.DataFrame:
    found = quantifier.predict_groups(source, "shop", time="day", every="1w", weights="weight")
    frame = pl.DataFrame(found.to_frame("polars"))
    return frame.with_columns(pl.col("shop").cast(pl.Int64), pl.col("day").cast(pl.Date))


def assert_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert_frame_equal(found.to_pandas(), expected.to_pandas(), rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------ sources


class Stream:
    """An object of which nothing is known but that it hands out Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def parts() -> list[pl.DataFrame]:
    """Return the rows in three parts, columns in another order."""
    return [ROWS[:100], ROWS[100:101], ROWS[101:].select(reversed(ROWS.columns))]


def text(frame: pl.DataFrame, separator: str = ",") -> bytes:
    return frame.write_csv(separator=separator).encode()


def lines(frame: pl.DataFrame) -> bytes:
    return frame.with_columns(pl.col("day").cast(pl.String)).write_ndjson().encode()


def written(data: bytes, name: str, folder: Path) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def by_polars(method: str, name: str, folder: Path) -> str:
    getattr(ROWS, method)(folder / name)
    return str(folder / name)


def in_folder(folder: Path) -> str:
    for number, part in enumerate(parts()):
        part.write_parquet(folder / f"{number}.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".hidden.csv").write_text("a\n1\n")
    return str(folder)


def in_hive(folder: Path, ending: str = "csv") -> str:
    for (shop,), part in ROWS.group_by("shop"):
        place = folder / f"shop={shop}"
        place.mkdir()
        rows = part.drop("shop")
        if ending == "csv":
            (place / "part.csv").write_bytes(text(rows))
        else:
            rows.write_parquet(place / "part.parquet")
    return str(folder)


def by_pattern(folder: Path) -> str:
    for number, part in enumerate(parts()):
        (folder / f"{number}.csv").write_bytes(text(part))
    (folder / "other.txt").write_text("something else\n")
    return str(folder / "*.csv")


def several(folder: Path) -> list[Any]:
    by_pattern(folder)
    return [folder / "0.csv", str(folder / "1.csv"), folder / "2.csv"]


def in_two_encodings(folder: Path) -> list[str]:
    accented = ROWS.with_columns(pl.lit("é").alias("more"))
    first = written(text(accented[:100]), "a.csv", folder)
    second = accented[100:].write_csv().encode("cp1252")
    return [first, written(second, "b.csv", folder)]


def of_json_list(folder: Path) -> str:
    objects = [json.loads(line) for line in lines(ROWS).splitlines()]
    return written(json.dumps(objects, indent=1).encode(), "rows.json", folder)


def arrow_stream(folder: Path) -> str:
    table = ROWS.to_arrow()
    path = str(folder / "rows.arrows")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    return path


def duckdb_relation(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    ROWS.write_parquet(folder / "rows.parquet")
    # The connection of the module: another one may close before its relations are read.
    return duckdb.sql(f"select * from '{folder / 'rows.parquet'}'")


def in_decimals() -> pl.DataFrame:
    as_text = pl.col("x").cast(pl.String)  # casts of floats cut digits off in some versions
    return ROWS.with_columns(as_text.cast(pl.Decimal(12, 6)))


def own_type(_: Path) -> pa.RecordBatchReader:
    """Return a stream whose numbers have a type of their own, as NUMERIC of PostgreSQL has."""
    table = ROWS.to_arrow()
    texts = pa.array(ROWS["x"].cast(pl.String).to_list(), pa.string())
    numeric = pa.opaque(pa.string(), "numeric", "PostgreSQL")
    column = pa.ExtensionArray.from_storage(numeric, texts)
    return table.set_column(0, "x", column).to_reader()


def adbc_cursor(folder: Path) -> Any:
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi")
    with closing(sqlite3.connect(folder / "rows.db")) as database, database:  # which commits
        names = ", ".join(ROWS.columns)
        database.execute(f"create table sales ({names})")
        records = ROWS.with_columns(pl.col("day").cast(pl.String)).rows()
        database.executemany("insert into sales values (?, ?, ?, ?, ?)", records)
    with dbapi.connect(str(folder / "rows.db")) as connection, connection.cursor() as cursor:
        cursor.execute("select * from sales")
        return open_source(cursor).repeatable()


def delta_table(folder: Path) -> Any:
    deltalake = pytest.importorskip("deltalake")
    for part in parts():
        deltalake.write_deltalake(folder, part.select(ROWS.columns).to_arrow(), mode="append")
    return deltalake.DeltaTable(folder)


def iceberg_table(folder: Path) -> Any:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    where = {"uri": f"sqlite:///{folder}/catalogue.db", "warehouse": f"file://{folder}"}
    catalogue = sql.SqlCatalog("shops", **where)
    catalogue.create_namespace("shops")
    rows = pa.Table.from_pandas(ROWS.to_pandas())
    table = catalogue.create_table("shops.sales", schema=rows.schema)
    table.append(rows)
    return table


def postgresql_cursor(folder: Path) -> Any:
    """Return what a server of this machine answers, in which x is NUMERIC."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed")
    if (user := "postgres" if os.geteuid() == 0 else None) is not None:  # it refuses to be root
        folder = Path(tempfile.mkdtemp(prefix="kdey-"))
        shutil.chown(folder, user)

    def run(program: str, *options: str) -> None:
        call = [programs[-1] / program, "-D", folder / "data", *options]
        subprocess.run(call, user=user, check=True, stdout=subprocess.DEVNULL)

    run("initdb", "--auth=trust", "--username=kdey", "--no-sync")
    settings = f"-c listen_addresses='' -k {folder}"  # a socket in the folder, and no port
    run("pg_ctl", "--wait", "-l", f"{folder}/log", "-o", settings, "start")
    try:
        address = f"postgresql://kdey@/postgres?host={folder}"
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("sales", pa.Table.from_pandas(ROWS.to_pandas()), mode="create")
            cursor.execute("select x::numeric, colour, shop, day, weight from sales")
            return open_source(cursor).repeatable()
    finally:
        run("pg_ctl", "--wait", "--mode=immediate", "stop")


def dask_frame(_: Path) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(ROWS.to_pandas(), npartitions=3)


def spark_frame(folder: Path) -> Any:
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = sql.SparkSession.builder.master("local[2]").getOrCreate()
    return session.read.parquet(by_polars("write_parquet", "rows.parquet", folder))


def in_memory_system(folder: Path) -> str:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for number, part in enumerate(parts()):
        system.pipe_file(f"/{folder.name}/year=2024/{number}.csv.gz", gzip.compress(text(part)))
    return f"memory://{folder.name}"


def zstandard(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: ROWS.to_pandas(),
    "polars": lambda _: ROWS,
    "pyarrow": lambda _: ROWS.to_arrow(),
    "polars lazily": lambda _: ROWS.lazy().filter(pl.col("weight") > 0),
    "polars, scanned": lambda folder: pl.scan_parquet(by_polars("write_parquet", "r.pq", folder)),
    "dataset": lambda folder: ds.dataset(in_hive(folder, "pq"), partitioning="hive"),
    "record batches": lambda _: ROWS.to_arrow().to_reader(max_chunksize=50),
    "stream": lambda _: Stream(ROWS.to_arrow()),
    "scanner": lambda _: ds.dataset(ROWS.to_arrow()).scanner(),
    "decimals": lambda _: in_decimals().to_arrow(),
    "decimals, lazily": lambda _: in_decimals().lazy(),
    "type of its own": own_type,
    "Delta Lake": delta_table,
    "Iceberg": iceberg_table,
    "DuckDB": duckdb_relation,
    "SQLite by ADBC": adbc_cursor,
    "PostgreSQL by ADBC": postgresql_cursor,
    "CSV": partial(written, text(ROWS), "rows.csv"),
    "CSV, gzip": partial(written, gzip.compress(text(ROWS, "\t")), "rows.csv.gz"),
    "CSV, zstd": partial(written, zstandard(text(ROWS)), "rows.csv.zst"),
    "CSV, bz2": partial(written, bz2.compress(text(ROWS, ";")), "rows.csv.bz2"),
    "JSON lines": partial(written, lines(ROWS), "rows.jsonl"),
    "JSON lines, gzip": partial(written, gzip.compress(lines(ROWS)), "rows.jsonl.gz"),
    "JSON": of_json_list,
    "Parquet": partial(by_polars, "write_parquet", "rows.parquet"),
    "Arrow": partial(by_polars, "write_ipc", "rows.feather"),
    "Arrow stream": arrow_stream,
    "Excel": partial(by_polars, "write_excel", "rows.xlsx"),
    "several": several,
    "two encodings": in_two_encodings,
    "folder": in_folder,
    "hive": in_hive,
    "hive, Parquet": partial(in_hive, ending="parquet"),
    "pattern": by_pattern,
    "file system": in_memory_system,
    "Dask": dask_frame,
    "Spark": spark_frame,
}
MARKS = {"Spark": (pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark"))}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in SOURCES]
)
def test_every_source_gives_the_same_groups(quantifier: Any, name: str, tmp_path: Path) -> None:
    expected = groups(quantifier, ROWS)
    assert len(expected) == 2 * 3 * 4
    found = groups(quantifier, SOURCES[name](tmp_path))
    assert_same(found, expected)


# ---------------------------------------------------------------------------- other machines


@pytest.fixture
def bucket() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the address of a bucket on a server of this machine, and how it is reached."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    s3fs = pytest.importorskip("s3fs")
    server.start()
    host, port = server.get_host_and_port()
    how = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    s3fs.S3FileSystem(**how).makedirs("sales", exist_ok=True)
    yield "s3://sales", how
    server.stop()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_object_store_is_read_like_a_folder(
    quantifier: Any,
    bucket: tuple[str, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    address, how = bucket
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setitem(fsspec.config.conf, "s3", how)
    in_hive(tmp_path, ending)
    fsspec.filesystem("s3").put(f"{tmp_path}/", f"{address}/{ending}", recursive=True)
    expected = groups(quantifier, ROWS)
    for path in (f"{address}/{ending}", f"{address}/{ending}/shop=*/part.{ending}"):
        assert_same(groups(quantifier, path), expected)
    with pytest.raises(TableError, match=f"{address}/nothing.csv: cannot be opened"):
        open_source(f"{address}/nothing.csv")


def test_a_file_behind_a_web_address(quantifier: Any, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    written(gzip.compress(text(ROWS)), "rows.csv.gz", tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.csv.gz?version=1"
        found = groups(quantifier, address)
        with pytest.raises(TableError, match="cannot be opened"):
            open_source(address.replace("rows", "none"))
        server.shutdown()
    assert_same(found, groups(quantifier, ROWS))


def test_what_a_file_system_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    def missing(path: str) -> None:
        raise ImportError("Install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(TableError, match=r"gs://sales/x\.csv: reading it needs .*gcsfs: pip|gcsfs"):
        open_source("gs://sales/x.csv")


def test_a_copy_of_a_distant_file_is_removed(tmp_path: Path) -> None:
    import tempfile

    source = open_source(in_memory_system(tmp_path))
    copies = set(Path(tempfile.gettempdir()).glob("kdey-*"))
    assert source.read().shape == (N, 6)
    del source
    assert len(set(Path(tempfile.gettempdir()).glob("kdey-*")) & copies) <= len(copies) - 3


# ------------------------------------------------------------------------------- several files


def two(folder: Path, first: bytes, second: bytes, ending: str = "csv") -> list[str]:
    names = (f"a.{ending}", f"b.{ending}")
    return [written(data, name, folder) for data, name in zip((first, second), names, strict=True)]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (b"x,z\n1,2\n", r"b\.csv: no column 'y', which .*a\.csv has; the file has x, z"),
        (b"x,y,z\n1,2,3\n", r"b\.csv: has a column 'z', which .*a\.csv lacks"),
        (b"x;y\n1;2\n", r"b\.csv: no column 'x', .*; the file has x;y"),
        (b"", r"b\.csv: the file is empty"),
        (b"x,y\n1,2,3\n", r"b\.csv: .*Expected 2 columns, got 3"),
    ],
)
def test_a_file_that_differs_is_refused(tmp_path: Path, second: bytes, message: str) -> None:
    with pytest.raises(TableError, match=message):
        list(open_source(two(tmp_path, b"x,y\n1,2\n", second)).batches())


def as_parquet(*columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(list(columns), names=["x", "y"][: len(columns)]), sink)
    return bytes(sink.getvalue())


def test_columns_of_several_files_have_one_type(tmp_path: Path) -> None:
    whole, nothing = pa.array([1, 2]), pa.nulls(2)
    texts = pa.array(["a", "b"])
    files = two(
        tmp_path, as_parquet(whole, nothing), as_parquet(pa.array([0.5, None]), texts), "pq"
    )
    frame = open_source(files).read()
    assert frame["x"].to_list() == [1.0, 2.0, 0.5, None]
    assert frame["y"].to_list() == [None, None, "a", "b"]
    both = two(tmp_path, as_parquet(whole), as_parquet(texts), "pq")
    with pytest.raises(
        TableError, match=r"b\.pq: column 'x' holds .* string, but int64 in .*a\.pq"
    ):
        open_source(both)


def test_the_separator_of_the_first_file_is_that_of_all(tmp_path: Path) -> None:
    files = two(tmp_path, b"x;y\n1,5;2\n", b"x;y\n3;4\n")
    source = open_source(files)
    assert (source.options.separator, source.decimal) == (";", ",")
    assert any("decimal commas" in note for note in source.notes)
    assert source.read()["x"].to_list() == ["1,5", "3"]


def test_folders_name_values(tmp_path: Path) -> None:
    for folder in ("year=2024/shop=a%20b", "year=2025/shop=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "rows.csv").write_text("x\n1\n")
    source = open_source(tmp_path)
    assert source.columns == ["x", "year", "shop"]
    assert source.read().rows() == [("1", 2024, "a b"), ("1", 2025, None)]
    assert [frame.rows() for frame in source.batches(["year"])] == [[(2024,)], [(2025,)]]
    (tmp_path / "year=2025" / "shop=c").mkdir()
    (tmp_path / "year=2025" / "shop=c" / "rows.csv").write_text("x,shop\n1,d\n")
    with pytest.raises(TableError, match="'shop' is in the file, and in the name of its folder"):
        open_source(tmp_path)


def test_tables_with_a_log_of_their_own_are_not_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.json").write_text("{}")
    with pytest.raises(TableError, match=r"is a table of Delta Lake.*deltalake\.DeltaTable"):
        open_source(tmp_path)


# ----------------------------------------------------------------------------------- refusals


def test_what_cannot_be_read_is_refused_with_what_can(tmp_path: Path) -> None:
    for thing in (7, [1, 2], object(), np.eye(2), []):
        with pytest.raises(TypeError, match=r"CSV, JSON, Parquet, Arrow .* got"):
            open_source(thing)
    files = {
        b"FEA1....": "first version of Feather",
        b"\0\0\1\2\3\0": "is neither CSV nor JSON, Parquet, Arrow or Excel",
        b'{"a": 1} {"b"': "is no JSON with an object in each line",
        b'{"a": 1}\n{"a": "x"}\n': "is no JSON .* changed from number to string",
        b'[{"a": 1': "rows.bin",
    }
    for data, message in files.items():
        with pytest.raises(TableError, match=message):
            open_source(written(data, "rows.bin", tmp_path))
    with pytest.raises(TableError, match="no file is there"):
        open_source(tmp_path / "*.none")


def test_a_stream_is_read_once_or_held() -> None:
    source = open_source(ROWS.to_arrow().to_reader())
    assert sum(len(frame) for frame in source.batches(["x"])) == N
    with pytest.raises(TableError, match="a stream can be read only once"):
        source.read()
    held = open_source(ROWS.to_arrow().to_reader()).repeatable()
    assert held.read().shape == held.read().shape == ROWS.shape


def test_texts_of_json_keep_their_types(tmp_path: Path) -> None:
    """They were read as CSV with one odd column."""
    data = b'\xef\xbb\xbf{"code": "007", "n": 1}\n{"n": 2.5, "flag": true}\n'
    frame = open_source(written(data, "rows.jsonl", tmp_path)).read()
    assert frame.rows() == [("007", 1.0, None), (None, 2.5, True)]
    read = ReadOptions(missing_values=("007",))
    assert open_source(tmp_path / "rows.jsonl", read).read()["code"].to_list() == [None, None]


def test_texts_of_arrow_files_are_like_others(tmp_path: Path) -> None:
    """Missing values were not found among those of polars, nor did they go with other files."""
    frame = pl.DataFrame({"a": ["x", "-", None]})
    frame.write_ipc(tmp_path / "1.feather")
    frame.write_parquet(tmp_path / "2.parquet")
    source = open_source(tmp_path, ReadOptions(missing_values=("-",)))
    assert source.read()["a"].to_list() == ["x", None, None] * 2


# --------------------------------------------------------------------------------- other doors


def test_commands_and_reports_take_folders_and_patterns(quantifier: Any, tmp_path: Path) -> None:
    model, folder = kdey.save(quantifier, tmp_path / "m.kdey"), tmp_path / "rows"
    folder.mkdir()
    pattern = by_pattern(folder)
    result = invoke("estimate", model, pattern, "--by", "shop", "--format", "json")
    assert result.exit_code == 0, result.output
    expected = quantifier.predict_groups(ROWS, "shop").to_frame()
    found = [row["estimate"] for row in json.loads(result.stdout)]
    np.testing.assert_allclose(found, expected["estimate"], atol=1e-6)
    report = kdey.make_report(quantifier, ROWS.lazy(), by="shop")
    assert "240" in str(report)
    (folder / "1.csv").write_text("x,colour\n1,red\n")
    result = invoke("estimate", model, pattern, "--by", "shop")
    assert result.exit_code != 0
    assert "1.csv: no column" in result.output


def test_differences_are_those_of_a_frame(quantifier: Any) -> None:
    expected = kdey.compare_groups(quantifier, ROWS, "shop").to_frame("polars")
    found = kdey.compare_groups(quantifier, ROWS.to_arrow().to_reader(), "shop")
    assert_same(pl.DataFrame(found.to_frame("polars")), pl.DataFrame(expected))
