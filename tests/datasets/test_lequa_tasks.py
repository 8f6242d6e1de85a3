"""All tasks of both editions of LeQua: texts, training samples, parts that are missing, headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kdey.datasets import load_lequa
from kdey.datasets.lequa import TASKS, read_label_map, read_labelled_documents
from kdey.datasets.registry import entries, find

from .cases import Lequa, make_documents, make_lequa, make_samples

VECTORS = [name for name, task in TASKS.items() if not task.documents and not task.ordered]
TEXTS = [name for name, task in TASKS.items() if task.documents]


def without(lequa: Lequa, beginning: str) -> Lequa:
    texts = {name: text for name, text in lequa.texts.items() if not name.startswith(beginning)}
    return replace(lequa, texts=texts)


def changed(lequa: Lequa, name: str, old: str, new: str) -> Lequa:
    assert old in lequa.texts[name]
    return replace(lequa, texts={**lequa.texts, name: lequa.texts[name].replace(old, new, 1)})


def test_the_registry_has_every_task() -> None:
    assert {entry.name for entry in entries() if entry.is_lequa} == set(TASKS)
    for name, task in TASKS.items():
        entry = find(name)
        assert entry.classes == task.n_classes
        assert all(file.path.startswith(f"{task.folder}/{name}.") for file in entry.files)
        assert all(f"/files/{name}." in url for url in entry.urls)


@pytest.mark.parametrize("task", VECTORS)
def test_vectors(tmp_path: Path, task: str) -> None:
    lequa = make_lequa()
    lequa.write_zips(tmp_path, task)
    data = load_lequa(task, tmp_path)
    np.testing.assert_array_equal(data.train.X, lequa.X)
    assert str(TASKS[task].edition) in data.source
    assert data.training_bags is None
    assert data.class_names == ()


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("task", TEXTS)
def test_documents(tmp_path: Path, task: str, archived: bool) -> None:
    lequa = make_documents()
    lequa.write_zips(tmp_path, task) if archived else lequa.write(tmp_path, task)
    data = load_lequa(task, tmp_path)
    assert data.train.X.tolist() == lequa.X.tolist()
    np.testing.assert_array_equal(data.train.y, lequa.y)
    for part, bags in (("dev", data.validation), ("test", data.test)):
        for number, bag in enumerate(bags):
            assert bag.tolist() == lequa.bags[part][number].tolist()
        pool = bags.pool(lambda texts: np.array([[len(text)] for text in texts]), n_bags=2)
        assert pool.X[:, 0].tolist() == [len(t) for bag in lequa.bags[part][:2] for t in bag]
    assert data.test.pool().X.dtype == object


def test_training_samples(tmp_path: Path) -> None:
    lequa = make_samples()
    lequa.write_zips(tmp_path, "T3")
    data = load_lequa("T3", tmp_path)
    np.testing.assert_array_equal(data.train.X, lequa.X)
    np.testing.assert_array_equal(data.train.y, lequa.y)
    assert data.training_bags is not None
    assert len(data.training_bags) == 9
    for number, sample in enumerate(data.training_bags):
        np.testing.assert_array_equal(sample, lequa.X[12 * number : 12 * (number + 1)])
    np.testing.assert_allclose(data.training_bags.prevalences.sum(axis=1), 1)
    assert data.class_names == ("1_stars", "2_stars", "3_stars", "4_stars", "5_stars")


@pytest.mark.parametrize("task", ["T1A", "T1", "T2A", "T3"])
def test_development_alone_and_test_without_truth(tmp_path: Path, task: str) -> None:
    make = make_documents if task == "T2A" else make_samples if task == "T3" else make_lequa
    lequa = make()
    development = without(lequa, "test")
    development.write(tmp_path / "dev", task)
    with pytest.raises(FileNotFoundError, match=rf"{task}\.test\.zip.*test=None"):
        load_lequa(task, tmp_path / "dev")
    with pytest.raises(FileNotFoundError, match=rf"{task}\.test\.zip.*test=None"):
        load_lequa(task, tmp_path / "dev", test="samples")
    data = load_lequa(task, tmp_path / "dev", test=None)
    assert len(data.test) == 0
    assert list(data.test) == []
    assert len(data.validation) == 4

    without(lequa, "test_prevalences").write(tmp_path / "samples", task)
    with pytest.raises(FileNotFoundError, match=r"test_prevalences.*test='samples' or None"):
        load_lequa(task, tmp_path / "samples")
    data = load_lequa(task, tmp_path / "samples", test="samples")
    assert len(data.test) == 5
    assert np.isnan(data.test.prevalences).all()
    assert len(next(iter(data.test))) == 6
    with pytest.raises(ValueError, match="are not known: iterate"):
        data.test.pool()


def test_samples_without_truth_must_be_numbered(tmp_path: Path) -> None:
    lequa = without(make_lequa(), "test_prevalences")
    without(lequa, "test_samples/2").write(tmp_path, "T1")
    with pytest.raises(ValueError, match=r"numbered 0\.\.3, each once, but there is 4\.txt"):
        load_lequa("T1", tmp_path, test="samples")
    with pytest.raises(ValueError, match="test must be"):
        load_lequa("T1", tmp_path, test="all")  # type: ignore[arg-type]


def test_what_is_missing_of_an_archive_is_named(tmp_path: Path) -> None:
    without(make_lequa(), "dev_samples/2").write(tmp_path / "bag", "T1")
    with pytest.raises(ValueError, match=r"dev_samples/; dev_samples/2\.txt is not there"):
        load_lequa("T1", tmp_path / "bag")
    without(make_lequa(), "dev_prevalences").write(tmp_path / "truth", "T1")
    with pytest.raises(FileNotFoundError, match=r"dev_prevalences\.txt was not found in .*truth"):
        load_lequa("T1", tmp_path / "truth")
    changed(make_lequa(), "dev_prevalences.txt", "\n2,", "\n1,").write(tmp_path / "twice", "T1")
    with pytest.raises(ValueError, match="each once, but bag 2 is not there"):
        load_lequa("T1", tmp_path / "twice")
    without(make_lequa(), "test_samples").write(tmp_path / "alone", "T1")
    with pytest.raises(FileNotFoundError, match="kdey lequa submit T1 FILE --part dev"):
        load_lequa("T1", tmp_path / "alone", test="samples")


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("training_data.txt", "label,", "class,", "first column is 'class', expected 'label'"),
        ("training_data.txt", "label,0", "0,label", "first column is '0', expected 'label'"),
        ("dev_prevalences.txt", "id,0", "0,id", "first column is '0', expected 'id'"),
        ("dev_prevalences.txt", "id,", "sample,", "first column is 'sample', expected 'id'"),
        ("test_prevalences.txt", "id,0,1", "id,1,0", "expected .* 0, 1"),
    ],
)
@pytest.mark.parametrize("task", ["T1A", "T1"])
def test_headers_of_tables(
    tmp_path: Path, task: str, name: str, old: str, new: str, says: str
) -> None:
    changed(make_lequa(), name, old, new).write(tmp_path, task)
    with pytest.raises(ValueError, match=rf"{name}, line 1: .*{says}"):
        load_lequa(task, tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("training_data.txt", "label,text", "text,label", "line 1: the columns are text, label"),
        ("training_data.txt", "0,plain", "x,plain", "document 1: the label 'x'"),
        ("training_data.txt", "0,plain", "0,1,plain", "document 1: 3 columns, expected 2"),
    ],
)
def test_documents_that_do_not_fit(
    tmp_path: Path, name: str, old: str, new: str, says: str
) -> None:
    changed(make_documents(), name, old, new).write(tmp_path, "T2A")
    with pytest.raises(ValueError, match=f"{name}.*{says}"):
        load_lequa("T2A", tmp_path)


def test_a_bag_of_documents_needs_its_header(tmp_path: Path) -> None:
    changed(make_documents(), "dev_samples/1.txt", "text", "document").write(tmp_path, "T2B")
    bags = load_lequa("T2B", tmp_path).validation
    with pytest.raises(ValueError, match=r"dev_samples/1\.txt, line 1: the columns are document"):
        bags.bag(1)


def test_bytes_that_are_no_documents() -> None:
    for data, says in ((b"", "line 1"), (b"label,text\n", "at least one document")):
        with pytest.raises(ValueError, match=says):
            read_labelled_documents(data, "x.txt")
    with pytest.raises(ValueError, match=r"x\.txt: not a text file"):
        read_labelled_documents(b"label,text\n0,\xff\n", "x.txt")
    with pytest.raises(ValueError, match=r"x\.txt: "):
        read_labelled_documents(b'label,text\n0,"a" b\n', "x.txt")


def test_training_samples_that_do_not_fit(tmp_path: Path) -> None:
    lequa = make_samples()
    line = lequa.texts["training_prevalences.txt"].splitlines()[1]
    wrong = changed(lequa, "training_prevalences.txt", line, "0,1,0,0,0,0")
    wrong.write(tmp_path / "a", "T3")
    with pytest.raises(ValueError, match="of sample 0 are not those of its labels"):
        load_lequa("T3", tmp_path / "a")
    changed(lequa, "training_samples/4.txt", "0,1,2", "1,0,2").write(tmp_path / "b", "T3")
    with pytest.raises(ValueError, match=r"training_samples/4\.txt, line 1"):
        load_lequa("T3", tmp_path / "b")
    changed(lequa, "label_map.txt", "5_stars 4\n", "").write(tmp_path / "c", "T3")
    with pytest.raises(ValueError, match=r"label_map\.txt: 4 classes, but .* 0, 1, 2, 3, 4"):
        load_lequa("T3", tmp_path / "c")


@pytest.mark.parametrize("text", ["a 0\na 0\n", "0\n", "a x\n", "a 1\n"])
def test_label_maps_that_do_not_fit(text: str) -> None:
    with pytest.raises(ValueError, match=r"map\.txt"):
        read_label_map(text.encode(), "map.txt")
