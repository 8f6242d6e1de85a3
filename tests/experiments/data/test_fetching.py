"""From official homes into the cache: conversion, archives, checksums of first sight."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from experiments.download import Checksums, Recipe, convert, fetch
from kdey.datasets import load_dataset, load_lequa
from kdey.datasets.loading import read_table
from kdey.datasets.registry import DataFile, Entry, entries, find
from tests.datasets.cases import make_lequa, sparse_text
from tests.real_data import DATA, needs_data


class Web:
    """Stands for the internet: URL to content."""

    def __init__(self, **files: bytes) -> None:
        self.files: dict[str, bytes] = dict(files)
        self.asked: list[str] = []

    def __call__(self, url: str, part: Path) -> None:
        self.asked.append(url)
        if url not in self.files:
            raise OSError("404")
        part.write_bytes(self.files[url])


def raw_haberman() -> bytes:
    """Return text of haberman's format and size: age, year, nodes, survival 1 or 2."""
    lines = [f"{30 + i % 50},{58 + i % 12},{i % 7},{2 if i < 81 else 1}" for i in range(306)]
    return "\n".join(lines).encode()


URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/haberman/haberman.data"


def test_a_uci_set_is_downloaded_converted_recorded_and_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = Web(**{URL: raw_haberman()})
    with caplog.at_level(logging.INFO, "kdey"):
        (path,) = fetch("haberman", cache=tmp_path, downloader=web)
    assert path == tmp_path / "uci-binary" / "haberman.csv.gz"
    data = load_dataset("haberman", tmp_path)
    assert data.X.shape == (306, 3)
    assert data.y.sum() == 81
    assert any("converted" in line and "label 1 for 2" in line for line in caplog.messages)
    assert set(Checksums(tmp_path).known) == {
        "downloads/uci-43-haberman.data",
        "uci-binary/haberman.csv.gz",
    }
    assert fetch("haberman", cache=tmp_path, downloader=web) == [path]
    assert web.asked == [URL]


def test_a_changed_home_is_noticed(tmp_path: Path) -> None:
    web = Web(**{URL: raw_haberman()})
    fetch("haberman", cache=tmp_path, downloader=web)
    for path in (tmp_path / "uci-binary", tmp_path / "downloads"):
        for file in path.iterdir():
            file.unlink()
    web.files[URL] = raw_haberman().replace(b"58", b"59")
    with pytest.raises(ValueError, match="does not have the sha256"):
        fetch("haberman", cache=tmp_path, downloader=web, retries=0)
    assert not list((tmp_path / "uci-binary").iterdir())


def test_an_error_page_is_neither_kept_nor_recorded(tmp_path: Path) -> None:
    web = Web(**{URL: b"<html>down for\nmaintenance</html>"})
    with pytest.raises(ValueError, match="rows, features and classes are"):
        fetch("haberman", cache=tmp_path, downloader=web)
    assert Checksums(tmp_path).known == {}
    assert not (tmp_path / "uci-binary").exists()
    web.files[URL] = raw_haberman()
    assert fetch("haberman", cache=tmp_path, downloader=web)


def test_what_cannot_be_fetched_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FileNotFoundError, match=r"dataset/193.*by hand"):
        fetch("ctg.1", cache=tmp_path)
    with caplog.at_level(logging.INFO, "kdey"):
        assert fetch("wine", cache=tmp_path) == []
    assert "comes with scikit-learn" in caplog.text


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def test_tweets_are_unpacked_from_their_archive(tmp_path: Path) -> None:
    folder = "tweet_sentiment_quantification_snam"
    (url,) = find("gasp").urls
    files = {
        f"{folder}/train/gasp.train.feature.txt": sparse_text(30, 0),
        f"{folder}/test/gasp.dev.feature.txt": sparse_text(12, 1),
        f"{folder}/test/gasp.test.feature.txt": sparse_text(9, 2),
        f"{folder}/readme.txt": "hello",
        "../evil.feature.txt": "1 1:1",
    }
    cache = tmp_path / "cache"
    paths = fetch("gasp", cache=cache, downloader=Web(**{url: zipped(files)}))
    assert len(paths) == 3
    assert len(load_dataset("gasp", cache).split().validation) == 12
    assert not (cache / folder / "readme.txt").exists()
    assert not list(tmp_path.glob("evil*"))
    with pytest.raises(ValueError, match="does not hold the files of tweets/wa"):
        fetch("wa", cache=cache, downloader=Web(**{url: zipped(files)}))


def test_lequa_is_kept_in_its_archives(tmp_path: Path) -> None:
    lequa = make_lequa().write_zips(tmp_path / "home")
    urls = find("T1A").urls
    web = Web(**{url: (lequa / url.rpartition("/")[2]).read_bytes() for url in urls})
    paths = fetch("T1A", cache=tmp_path / "cache", downloader=web)
    assert [path.name for path in paths] == [url.rpartition("/")[2] for url in urls]
    assert len(load_lequa("T1A", tmp_path / "cache").test) == 5
    broken = {url: data[:-30] for url, data in web.files.items()}
    with pytest.raises(ValueError, match="not a whole zip file"):
        fetch("T1A", cache=tmp_path / "other", downloader=Web(**broken))
    assert not list((tmp_path / "other" / "lequa2022").iterdir())


RAW = {
    "uci-binary/wdbc": ("842302,M,17.99,10.38\n8510426,B,13.54,14.36\n", "17.99,10.38,1"),
    "uci-binary/tictactoe": ("x,o,b,positive\nb,x,o,negative\n", "2,0,1,0"),
    "uci-binary/breast-cancer": ("1,5,?,2\n2,5,1,2\n3,8,10,4\n", "5,1,1"),
    "uci-binary/wine-q-red": ('"a";"quality"\n7.4;5\n7.8;6\n', "7.4,0"),
    "uci-binary/yeast": ("ADT1_YEAST  0.58  0.61  MIT\nX  0.4  0.6  NUC\n", "0.58,0.61,0"),
    "uci-binary/german": ("   1   6   4    1 \n   2  48   2    2 \n", "1,6,4,1"),
    "uci-multi/letter": ("T,2,8,3\nI,5,12,3\n", "2,8,3,T"),
    "uci-extra/pendigits": (" 47,100, 27, 8\n  0, 89, 27, 2\n", "47,100,27,8"),
    "uci-extra/nursery": ("usual,proper,recommend\nusual,less,priority\n\n", None),
}


def small(entry: Entry, rows: int, features: int, classes: int) -> Entry:
    return Entry(
        entry.group,
        entry.name,
        (DataFile("all", entry.files[0].path, rows=rows),),
        features,
        classes,
        entry.uci,
    )


@pytest.mark.parametrize("name", RAW)
def test_recipes_on_lines_of_the_official_format(tmp_path: Path, name: str) -> None:
    text, first = RAW[name]
    recipe: Any = Recipe.of(find(name))
    downloads = [tmp_path / f"{number}.data" for number in range(len(recipe.urls))]
    for path in downloads:
        path.write_text(text)
    n_features = 2 if first is None else first.count(",")
    entry = small(find(name), 2 * len(downloads), n_features, 2)
    convert(entry, recipe, downloads, tmp_path / "out.csv.gz")
    X, labels, _, _ = read_table(tmp_path / "out.csv.gz", ["x0", "x1"] if first is None else [])
    assert len(labels) == 2 * len(downloads)
    if first is not None:
        numbers = ",".join(f"{value:g}" for value in X[0])
        assert f"{numbers},{labels[0]}" == first


def test_semeion_takes_one_indicator_column(tmp_path: Path) -> None:
    digits = np.eye(10, dtype=int)
    lines = [" ".join(["1.0000"] * 256 + [str(v) for v in digits[d]]) + " " for d in (7, 3)]
    (tmp_path / "s").write_text("\n".join(lines))
    recipe: Any = Recipe.of(find("uci-binary/semeion"))
    entry = small(find("uci-binary/semeion"), 2, 256, 2)
    convert(entry, recipe, [tmp_path / "s"], tmp_path / "out.csv.gz")
    assert read_table(tmp_path / "out.csv.gz")[1].tolist() == [1, 0]


def test_dry_bean_is_read_from_its_arff(tmp_path: Path) -> None:
    recipe: Any = Recipe.of(find("uci-multi/dry-bean"))
    text = "@RELATION beans\n@ATTRIBUTE a REAL\n@DATA\n1.5,2,SEKER\n3,4,BOMBAY\n"
    (tmp_path / "d.zip").write_bytes(zipped({recipe.member: text}))
    entry = small(find("dry-bean"), 2, 2, 2)
    convert(entry, recipe, [tmp_path / "d.zip"], tmp_path / "out.csv.gz")
    X, labels, _, _ = read_table(tmp_path / "out.csv.gz")
    assert X.tolist() == [[1.5, 2], [3, 4]]
    assert labels.tolist() == ["SEKER", "BOMBAY"]
    (tmp_path / "e.zip").write_bytes(zipped({"other.txt": text}))
    with pytest.raises(ValueError, match=r"e\.zip: cannot be read as the data file"):
        convert(entry, recipe, [tmp_path / "e.zip"], tmp_path / "none.csv.gz")
    assert not (tmp_path / "none.csv.gz").exists()


@needs_data("uci-multi")
def test_the_real_letters_survive_the_way_through_the_official_format(tmp_path: Path) -> None:
    table = load_dataset("letter", DATA)
    rows = zip(table.y, table.X.astype(int), strict=True)
    text = "\n".join(",".join([label, *map(str, row)]) for label, row in rows)
    (url,) = find("letter").urls
    fetch("letter", cache=tmp_path, downloader=Web(**{url: text.encode()}))
    again = load_dataset("letter", tmp_path)
    np.testing.assert_array_equal(again.X, table.X)
    np.testing.assert_array_equal(again.y, table.y)


def test_every_recipe_belongs_to_a_set_and_says_what_it_does() -> None:
    names = [Recipe.of(find(entry.full_name)) for entry in entries()]
    known = [recipe for recipe in names if recipe is not None]
    assert len(known) == 36
    assert all("label from column" in recipe.words() for recipe in known)
