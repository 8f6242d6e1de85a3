"""Names to data: where files are sought, what is done to them, how they are split."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kdey.datasets import load_dataset, names
from kdey.datasets.registry import cache_dir
from tests.real_data import DATA, needs_data

from .cases import sparse_text, table_text, write_gz, write_letter


def test_the_split_is_the_papers(tmp_path: Path) -> None:
    X, y = write_letter(tmp_path)
    split = load_dataset("letter", tmp_path).split(seed=0)
    X_dev, X_test, y_dev, y_test = train_test_split(
        X, y, train_size=0.7, stratify=y, random_state=0
    )
    X_train, X_validation, y_train, y_validation = train_test_split(
        X_dev, y_dev, train_size=0.6, stratify=y_dev, random_state=1
    )
    scaler = StandardScaler().fit(X_dev)
    for part, rows, labels in (
        (split.train, X_train, y_train),
        (split.validation, X_validation, y_validation),
        (split.test, X_test, y_test),
    ):
        np.testing.assert_allclose(part.X, scaler.transform(rows), atol=1e-12)
        np.testing.assert_array_equal(part.y, labels)
    development = split.development
    np.testing.assert_array_equal(development.X, np.vstack([split.train.X, split.validation.X]))
    np.testing.assert_allclose(development.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(development.X.std(axis=0), 1, atol=1e-12)
    assert any("standardised on the development part" in note for note in split.notes)


def test_seeds_give_other_splits_and_the_same_twice(tmp_path: Path) -> None:
    write_letter(tmp_path)
    data = load_dataset("letter", tmp_path)
    np.testing.assert_array_equal(data.split(3).test.X, data.split(3).test.X)
    assert not np.array_equal(data.split(3).test.X, data.split(4).test.X)
    assert len(data.split(3).train) == 84


def test_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("given", 1), ("environment", 2)):
        write_letter(tmp_path / name, seed=seed)
    cache = cache_dir()
    assert cache is not None
    write_letter(cache, seed=3)
    in_cache = load_dataset("letter")
    assert "from the cache" in in_cache.source
    monkeypatch.setenv("KDEY_DATA", str(tmp_path / "environment"))
    in_environment = load_dataset("letter")
    assert "from $KDEY_DATA" in in_environment.source
    named = load_dataset("letter", tmp_path / "given")
    assert "from data_dir" in named.source
    assert len({d.X[0, 0] for d in (in_cache, in_environment, named)}) == 3
    assert str(tmp_path) not in named.source


def test_a_missing_file_is_named_with_its_home(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"uci-multi/letter\.csv\.gz") as error:
        load_dataset("letter", tmp_path)
    message = str(error.value)
    assert "https://archive.ics.uci.edu/dataset/59" in message
    assert "python -m experiments data fetch uci-multi/letter" in message
    assert str(tmp_path) in message
    with pytest.raises(FileNotFoundError, match="4255764/files/tweet_sentiment"):
        load_dataset("gasp", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file to fetch.*dataset/193.*by hand"):
        load_dataset("ctg.1", tmp_path)


def test_a_data_directory_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotADirectoryError, match=r"data_dir: .*nowhere"):
        load_dataset("letter", tmp_path / "nowhere")
    monkeypatch.setenv("KDEY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match="KDEY_DATA"):
        load_dataset("letter")


def test_uncompressed_tables_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "uci-multi").mkdir()
    (tmp_path / "uci-multi" / "letter.csv").write_text("a,label\n" + "1,A\n2,B\n" * 10)
    assert load_dataset("letter", tmp_path).classes.tolist() == ["A", "B"]


def test_words_become_indicators_in_place(tmp_path: Path) -> None:
    rows = "".join(f"{s},{i},7\n{s},{i},8\n" for i, s in enumerate("MFIMFI"))
    write_gz(tmp_path / "uci-extra" / "abalone.csv.gz", "sex,size,label\n" + rows)
    data = load_dataset("abalone", tmp_path)
    # F is the first word and has no column; then I, M, and the size after them.
    np.testing.assert_array_equal(data.X[:6:2], [[0, 1, 0], [0, 0, 1], [1, 0, 2]])
    assert "one-hot without the first value: sex" in data.notes


def test_rare_classes(tmp_path: Path) -> None:
    y = np.array(["A"] * 50 + ["B"] * 30 + ["C"] * 5 + ["D"] * 3)
    X = np.arange(len(y), dtype=float)[:, None]
    write_gz(tmp_path / "uci-multi" / "letter.csv.gz", table_text(X, y))
    kept = load_dataset("letter", tmp_path)
    assert kept.classes.tolist() == ["A", "B", "C"]
    assert kept.notes == ("1 classes of fewer than 4 rows left out: D (3)",)
    for seed in range(20):
        split = kept.split(seed)
        assert all(set(part.y) == {"A", "B", "C"} for part in (split.train, split.test))
    few = y != "B"
    few[50:] &= y[50:] == "D"
    write_gz(tmp_path / "uci-multi" / "letter.csv.gz", table_text(X[few], y[few]))
    with pytest.raises(ValueError, match="uci-multi/letter: 1 classes have 4 rows or more"):
        load_dataset("letter", tmp_path)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = write_gz(tmp_path / "uci-multi" / "letter.csv.gz", "a,label\n1,A\nx,B\n")
    with pytest.raises(ValueError, match=f"{path}, line 3, column 'a'"):
        load_dataset("letter", tmp_path)


def test_lequa_is_loaded_otherwise() -> None:
    with pytest.raises(ValueError, match="load_lequa\\('T1B'\\)"):
        load_dataset("T1B")


@pytest.mark.parametrize("name", [*names("bundled"), *names("bundled-binary")])
def test_bundled_sets_need_no_directory(name: str) -> None:
    data = load_dataset(name)
    split = data.split(1)
    assert "scikit-learn" in data.source
    assert len(split.train) + len(split.validation) + len(split.test) == len(data.y)
    assert len(data.classes) == (2 if name in names("bundled-binary") else data.y.max() + 1)


def test_bundled_sets_hold_what_they_should() -> None:
    np.testing.assert_array_equal(load_dataset("digits-subset").X, load_digits().data)
    wine = load_dataset("wine.2")
    assert (wine.group, wine.name) == ("uci-binary", "wine.2")
    np.testing.assert_array_equal(wine.y, load_wine().target == 1)
    wdbc = load_dataset("wdbc")
    assert wdbc.y.sum() == 212  # malignant
    np.testing.assert_array_equal(wdbc.y == 0, load_breast_cancer().target == 1)


def test_a_file_goes_before_what_is_bundled(tmp_path: Path) -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    write_gz(tmp_path / "uci-binary" / "wine.1.csv.gz", table_text(X, y))
    assert len(load_dataset("wine.1", tmp_path).y) == 20
    assert len(load_dataset("wine.2", tmp_path).y) == 178


def test_newsgroups_keep_their_test_part(tmp_path: Path) -> None:
    X, y = np.arange(60.0)[:, None], np.array(list("AB") * 30)
    split = np.where(np.arange(60) < 40, "train", "test")
    write_gz(tmp_path / "text" / "news20-lsa300.csv.gz", table_text(X, y, split))
    cut = load_dataset("text/news20-lsa300", tmp_path).split(5)
    np.testing.assert_array_equal(cut.test.X[:, 0], np.arange(40, 60))
    assert (len(cut.train), len(cut.validation)) == (24, 16)
    assert sorted([*cut.train.X[:, 0], *cut.validation.X[:, 0]]) == list(range(40))


def write_parts(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.feature.txt").write_text(text)


def test_tweets_share_semeval_and_keep_their_parts(tmp_path: Path) -> None:
    write_parts(
        tmp_path / "tweets",
        {
            "semeval.train": sparse_text(30, 0, width=20),
            "semeval.dev": sparse_text(12, 1, width=25),
            "semeval.test13": sparse_text(9, 2, width=30),
            "semeval.test15": sparse_text(15, 3, width=22),
        },
    )
    data = load_dataset("semeval13", tmp_path)
    split = data.split()
    assert data.name == "SemEval13"
    assert [len(p) for p in (split.train, split.validation, split.test)] == [30, 12, 9]
    assert len(load_dataset("SemEval15", tmp_path).split().test) == 15
    assert split.train.X.shape[1] == split.test.X.shape[1] == data.X.shape[1]
    assert split.development.X.shape[0] == 42
    assert data.classes.tolist() == [-1, 0, 1]
    assert "not scaled" in split.notes[-1]
    with pytest.raises(FileNotFoundError, match=r"semeval\.test14"):
        load_dataset("SemEval14", tmp_path)


def test_tweets_as_the_published_archive_unpacks(tmp_path: Path) -> None:
    root = tmp_path / "tweet_sentiment_quantification_snam"
    write_parts(
        root / "train",
        {"semeval.train": sparse_text(30, 0), "semeval16.train": sparse_text(18, 4)},
    )
    write_parts(
        root / "test",
        {
            "semeval.dev": sparse_text(12, 1),
            "semeval13.test": sparse_text(9, 2),
            "semeval16.dev": sparse_text(6, 5),
            "semeval16.dev-test": sparse_text(21, 6),
        },
    )
    parts = load_dataset("SemEval13", tmp_path).split()
    assert [len(p) for p in (parts.train, parts.validation, parts.test)] == [30, 12, 9]
    parts = load_dataset("SemEval16", tmp_path).split()
    assert [len(p) for p in (parts.train, parts.validation, parts.test)] == [18, 6, 21]


def test_tweets_without_a_dev_part_get_one(tmp_path: Path) -> None:
    write_gz(tmp_path / "tweets-approx" / "omd.train.feature.txt.gz", sparse_text(30, 0))
    write_gz(tmp_path / "tweets-approx" / "omd.test.feature.txt.gz", sparse_text(9, 1))
    data = load_dataset("tweets-approx/omd", tmp_path)
    split = data.split(2)
    assert data.name == "tweets-approx/omd"
    assert [len(p) for p in (split.train, split.validation, split.test)] == [18, 12, 9]
    assert np.bincount(split.validation.y + 1).tolist() == [4, 4, 4]
    assert any("40 %" in note for note in split.notes)
    np.testing.assert_allclose(np.sqrt(split.test.X.power(2).sum(axis=1)), 1)


def test_tfidf_is_not_fitted_on_the_test_part(tmp_path: Path) -> None:
    for test in (1, 2):
        root = tmp_path / str(test)
        write_gz(root / "tweets-approx" / "omd.train.feature.txt.gz", sparse_text(30, 0))
        write_gz(root / "tweets-approx" / "omd.test.feature.txt.gz", sparse_text(9, test))
    one, two = (load_dataset("tweets-approx/omd", tmp_path / str(t)).split() for t in (1, 2))
    np.testing.assert_array_equal(one.train.X.toarray(), two.train.X.toarray())


@needs_data("uci-multi")
@pytest.mark.parametrize("name", [*names("uci-multi"), "uci-binary/yeast", "nursery", "iris.2"])
def test_real_copies_have_the_registered_size(name: str) -> None:
    data = load_dataset(name, DATA)
    assert "(the known copy)" in data.source
    assert os.fspath(DATA) not in data.source
    if name == "nursery":
        assert data.X.shape == (12958, 19)
    if name == "wine-quality":
        assert (len(data.y), len(data.classes)) == (4898, 7)
