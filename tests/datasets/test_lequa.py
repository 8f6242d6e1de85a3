"""LeQua in its official layout: folders or archives, read lazily, errors that name the line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kdey import KDEyML
from kdey.datasets import BagFiles, load_lequa
from kdey.datasets.lequa import Tree

from .cases import Lequa, make_lequa


def changed(lequa: Lequa, name: str, text: str | None) -> Lequa:
    texts = {key: value for key, value in lequa.texts.items() if key != name}
    return replace(lequa, texts=texts if text is None else {**texts, name: text})


@pytest.mark.parametrize("archived", [False, True])
def test_everything_comes_back(tmp_path: Path, archived: bool) -> None:
    lequa = make_lequa()
    lequa.write_zips(tmp_path) if archived else lequa.write(tmp_path)
    task = load_lequa("T1A", tmp_path)
    np.testing.assert_array_equal(task.train.X, lequa.X)
    np.testing.assert_array_equal(task.train.y, lequa.y)
    for part, bags in (("dev", task.validation), ("test", task.test)):
        np.testing.assert_array_equal(bags.prevalences, lequa.prevalences[part])
        assert len(bags) == len(lequa.bags[part])
        for number, X in enumerate(bags):
            np.testing.assert_array_equal(X, lequa.bags[part][number])
            np.testing.assert_array_equal(bags.bag(number), X)
        pool = bags.pool()
        np.testing.assert_array_equal(pool.X, np.vstack(lequa.bags[part]))
        labelled = pool.protocol.bags(classes=task.classes)
        np.testing.assert_array_equal(labelled.prevalences, lequa.prevalences[part])
        for positions, X in zip(labelled.bags, lequa.bags[part], strict=True):
            np.testing.assert_array_equal(pool.X[positions], X)


def test_the_directory_itself_may_be_given(tmp_path: Path) -> None:
    make_lequa().write(tmp_path)
    assert len(load_lequa("T1A", tmp_path / "lequa2022").test) == 5


def test_folder_and_archives_may_be_mixed(tmp_path: Path) -> None:
    lequa = make_lequa()
    lequa.write_zips(tmp_path)
    (tmp_path / "lequa2022" / "T1A.test_prevalences.zip").unlink()
    with pytest.raises(FileNotFoundError, match=r"T1A\.test_prevalences\.zip"):
        load_lequa("T1A", tmp_path)
    folder = tmp_path / "lequa2022" / "T1A" / "public"
    folder.mkdir(parents=True)
    (folder / "test_prevalences.txt").write_text(lequa.texts["test_prevalences.txt"])
    assert len(load_lequa("T1A", tmp_path).test) == 5


def test_bags_are_read_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lequa().write_zips(tmp_path)
    task = load_lequa("T1A", tmp_path)
    numbers = []
    read = BagFiles._read
    monkeypatch.setattr(
        BagFiles,
        "_read",
        lambda self, r, number: (numbers.append(number), read(self, r, number))[1],
    )
    iterator = iter(task.test)
    assert numbers == []
    next(iterator)
    assert numbers == [0]
    task.test.pool(n_bags=2)
    assert numbers == [0, 0, 1]


def test_a_transform_keeps_only_what_it_returns(tmp_path: Path) -> None:
    lequa = make_lequa(n_bags=3, d=4)
    lequa.write(tmp_path)
    task = load_lequa("T1A", tmp_path)
    pool = task.validation.pool(lambda X: X[:, :2].astype(np.float32), n_bags=2)
    assert pool.X.dtype == np.float32
    np.testing.assert_array_equal(pool.X, np.vstack(lequa.bags["dev"][:2])[:, :2].astype("f4"))
    assert len(pool.protocol.bags().bags) == 2
    with pytest.raises(ValueError, match="transform: 6 rows in, but 1 rows out"):
        task.validation.pool(lambda X: X[:1])


def test_bags_of_unequal_sizes_are_stacked(tmp_path: Path) -> None:
    lequa = make_lequa(n_bags=3)
    first, *rest = lequa.texts["dev_samples/1.txt"].splitlines()
    lequa = changed(lequa, "dev_samples/1.txt", "\n".join([first, *rest, *rest]))
    lequa = changed(lequa, "dev_samples/2.txt", "\n".join([first, rest[0]]))
    lequa.write(tmp_path)
    pool = load_lequa("T1A", tmp_path).validation.pool()
    assert pool.protocol.bags().bags.sizes.tolist() == [6, 12, 1]
    np.testing.assert_array_equal(pool.X[6:12], pool.X[12:18])
    np.testing.assert_array_equal(pool.X[18], pool.X[6])


def test_a_quantifier_runs_on_the_pool(tmp_path: Path) -> None:
    make_lequa(size=40).write(tmp_path)
    task = load_lequa("T1A", tmp_path)
    fitted = KDEyML(cv=2).fit(task.train.X, task.train.y)
    pool = task.test.pool()
    together = fitted.predict_bags(pool.X, pool.protocol.bags(classes=task.classes).bags)
    alone = np.array([fitted.predict(X) for X in task.test])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_bags_with_features_in_another_order_are_refused(tmp_path: Path) -> None:
    lequa = make_lequa(d=3)
    head, *rest = lequa.texts["dev_samples/1.txt"].splitlines()
    assert head == "0,1,2"
    changed(lequa, "dev_samples/1.txt", "\n".join(["2,1,0", *rest])).write(tmp_path)
    bags = load_lequa("T1A", tmp_path).validation
    bags.bag(0)
    with pytest.raises(ValueError, match=r"dev_samples/1\.txt, line 1: .* another order"):
        bags.bag(1)


def test_bags_with_other_names_of_features_are_read(tmp_path: Path) -> None:
    lequa = make_lequa(d=3)
    _, *rest = lequa.texts["dev_samples/1.txt"].splitlines()
    changed(lequa, "dev_samples/1.txt", "\n".join(["x,y,z", *rest])).write(tmp_path)
    bag = load_lequa("T1A", tmp_path).validation.bag(1)
    np.testing.assert_array_equal(bag, lequa.bags["dev"][1])


def test_prevalences_may_come_in_any_order(tmp_path: Path) -> None:
    lequa = make_lequa()
    head, *rest = lequa.texts["dev_prevalences.txt"].splitlines()
    changed(lequa, "dev_prevalences.txt", "\n".join([head, *rest[::-1]])).write(tmp_path)
    loaded = load_lequa("T1A", tmp_path).validation.prevalences
    np.testing.assert_array_equal(loaded, lequa.prevalences["dev"])


PREVALENCES = {
    "id,1,0\n0,0.5,0.5\n1,0.5,0.5\n2,1,0\n3,1,0\n": "line 1: .* are 1, 0, expected .* 0, 1",
    "id,1,2\n0,0.5,0.5\n1,0.5,0.5\n2,1,0\n3,1,0\n": "line 1: .* are 1, 2, expected .* 0, 1",
    "id,0,1\n0,0.5,0.5\n1,0.5,0.4\n2,1,0\n3,1,0\n": "line 3: .* do not sum to one",
    "id,0,1\n0,0.5,0.5\n1,1.5,-0.5\n2,1,0\n3,1,0\n": "line 3: the prevalences are negative",
    "id,0,1,2\n0,0.5,0.5,0\n": "line 1: 4 columns, expected 3",
    "id,0,1\n0,0.5,0.5\n1,0.5\n": "line 3: 2 columns, expected 3",
    "id,0,1\n0,0.5,0.5\n0,0.5,0.5\n2,1,0\n3,1,0\n": "line 3: bags must be numbered 0..3",
    "id,0,1\n0,0.5,0.5\n": "1 lines, but 4 bags .* dev_samples/1.txt has no line",
    "id,0,1\n"
    + "".join(f"{i},0.5,0.5\n" for i in range(5)): "5 lines, .* dev_samples/4.txt is not there",
    "id,0,1\n0,x,0.5\n": "line 2, column 2: 'x' is not a finite number",
    "": "a header and at least one line",
}


@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("text", PREVALENCES)
def test_prevalences_that_do_not_fit(tmp_path: Path, text: str, archived: bool) -> None:
    lequa = changed(make_lequa(), "dev_prevalences.txt", text)
    lequa.write_zips(tmp_path) if archived else lequa.write(tmp_path)
    with pytest.raises(ValueError, match=f"dev_prevalences.txt.*{PREVALENCES[text]}"):
        load_lequa("T1A", tmp_path)


BAGS = {
    "0,1\n1,2\n": "line 1: 2 columns, expected 3",
    "0,1,2\n1,2,3\n1,2\n": "line 3: 2 columns, expected 3",
    "0,1,2\n1,2,3,4\n": "line 2: 4 columns, expected 3",
    "0,1,2\n1,inf,3\n": "line 2, column 2: 'inf' is not a finite number",
    "0,1,2\n1,2,3\n\n1,2,3\n": "line 3: 1 columns, expected 3",
    "0,1,2\n": "a header and at least one line",
    "0,1,2\n1,é,3\n": "not a text file of numbers",
}


@pytest.mark.parametrize("text", BAGS)
def test_a_bag_that_does_not_fit(tmp_path: Path, text: str) -> None:
    changed(make_lequa(), "test_samples/2.txt", text).write(tmp_path)
    task = load_lequa("T1A", tmp_path)
    for read in (lambda: task.test.bag(2), lambda: list(task.test), lambda: task.test.pool()):
        with pytest.raises(ValueError, match=f"test_samples/2.txt.*{BAGS[text]}"):
            read()
    assert task.test.bag(1).shape == (6, 3)


def test_training_labels_must_be_integers(tmp_path: Path) -> None:
    changed(make_lequa(), "training_data.txt", "label,0\n0,1\n0.5,1\n").write(tmp_path)
    with pytest.raises(ValueError, match=r"training_data.txt, line 3: the label"):
        load_lequa("T1A", tmp_path)


def test_missing_parts_and_tasks(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"6546188/files/T1B\.train_dev\.zip"):
        load_lequa("T1B", tmp_path)
    with pytest.raises(ValueError, match="task must be one of"):
        load_lequa("T2C", tmp_path)
    changed(make_lequa(), "dev_samples/3.txt", None).write(tmp_path)
    with pytest.raises(ValueError, match=r"dev_prevalences.txt: 4 lines, but 3 bags"):
        load_lequa("T1A", tmp_path)


def test_damaged_archives(tmp_path: Path) -> None:
    folder = make_lequa(size=200).write_zips(tmp_path)
    archive = folder / "T1A.test.zip"
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=r"T1A\.test\.zip: not a whole zip file"):
        load_lequa("T1A", tmp_path)
    flipped = bytearray(whole)
    flipped[500] ^= 0xFF
    archive.write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match=r"test_samples/0.txt: damaged"):
        list(load_lequa("T1A", tmp_path).test)


def test_bag_numbers_and_counts_are_checked(tmp_path: Path) -> None:
    make_lequa().write(tmp_path)
    bags = load_lequa("T1A", tmp_path).validation
    for number in (-1, 4):
        with pytest.raises(IndexError, match=r"number must be in 0..3"):
            bags.bag(number)
    for count in (0, 5):
        with pytest.raises(ValueError, match=r"n_bags must be in 1..4"):
            bags.pool(n_bags=count)


def test_a_file_the_tree_does_not_have() -> None:
    with Tree([], "").open() as read, pytest.raises(FileNotFoundError, match=r"x.txt"):
        read("x.txt")
