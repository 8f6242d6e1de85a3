"""LeQua as QuaPy 0.2.3 reads, checks and measures it, on made-up files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.submission import score, write_submission
from kdey.datasets import load_lequa
from tests.datasets.cases import make_documents, make_lequa, make_samples

with warnings.catch_warnings():  # QuaPy's own, while it is imported
    warnings.simplefilter("ignore")
    qp = pytest.importorskip("quapy", reason="QuaPy is not installed: see docs/lab/release.md")
if qp.__version__ != "0.2.3":
    pytest.skip(f"tested against QuaPy 0.2.3, found {qp.__version__}", allow_module_level=True)

from quapy.data._lequa import (
    ResultSubmission,
    SamplesFromDir,
    load_category_map,
    load_raw_documents,
    load_vector_documents_2022,
    load_vector_documents_2024,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let QuaPy read sets of four and five bags."""
    monkeypatch.setattr("quapy.data._lequa.DEV_SAMPLES", 4)
    monkeypatch.setattr("quapy.data._lequa.TEST_SAMPLES", 5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("task", "n_features", "load"),
    [("T1A", 300, load_vector_documents_2022), ("T2", 256, load_vector_documents_2024)],
)
def test_vectors_and_prevalences(tmp_path: Path, task: str, n_features: int, load: Any) -> None:
    public = make_lequa(d=n_features).write(tmp_path, task)
    data = load_lequa(task, tmp_path)
    X, y = load(public / "training_data.txt")
    np.testing.assert_array_equal(data.train.X, X)
    np.testing.assert_array_equal(data.train.y, y)
    for part, bags in (("dev", data.validation), ("test", data.test)):
        theirs = SamplesFromDir(
            public / f"{part}_samples", public / f"{part}_prevalences.txt", load
        )
        for number, (sample, prevalence) in enumerate(theirs()):
            np.testing.assert_array_equal(bags.bag(number), sample)
            np.testing.assert_array_equal(bags.prevalences[number], prevalence)


def test_documents(tmp_path: Path) -> None:
    public = make_documents().write(tmp_path, "T2A")
    data = load_lequa("T2A", tmp_path)
    texts, labels = load_raw_documents(public / "training_data.txt")
    assert data.train.X.tolist() == texts
    np.testing.assert_array_equal(data.train.y, labels)
    assert data.validation.bag(2).tolist() == load_raw_documents(public / "dev_samples/2.txt")[0]


def test_training_samples_and_names(tmp_path: Path) -> None:
    public = make_samples(d=256).write(tmp_path, "T3")
    data = load_lequa("T3", tmp_path)
    samples = [load_vector_documents_2024(public / f"training_samples/{i}.txt") for i in range(9)]
    np.testing.assert_array_equal(data.train.X, np.vstack([X for X, _ in samples]))
    np.testing.assert_array_equal(data.train.y, np.concatenate([y for _, y in samples]))
    assert list(data.class_names) == load_category_map(public / "label_map.txt")[1]


@pytest.mark.parametrize("k", [2, 5, 28])
def test_a_submission_passes_their_check(tmp_path: Path, k: int) -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(k, 0.5), size=1000)
    write_submission(tmp_path / "s.csv", rows)
    loaded = ResultSubmission.load(tmp_path / "s.csv")
    np.testing.assert_allclose(loaded.df.to_numpy(), rows, atol=1e-15)


@pytest.mark.parametrize(("task", "size"), [("T1A", 250), ("T1B", 1000), ("T2", 1000), ("T4", 250)])
def test_measures(task: str, size: int) -> None:
    k = 28 if task in ("T1B", "T2") else 2
    true, estimated = np.random.default_rng(0).dirichlet(np.ones(k), size=(2, 50))
    scores = score(task, true, estimated)
    assert scores["MAE"] == pytest.approx(qp.error.mae(true, estimated))
    assert scores["MRAE"] == pytest.approx(qp.error.mrae(true, estimated, eps=1 / (2 * size)))


def test_measures_of_ordered_classes() -> None:
    true, estimated = np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 50))
    theirs = np.mean([qp.error.nmd(t, e) for t, e in zip(true, estimated, strict=True)])
    assert score("T3", true, estimated)["MNMD"] == pytest.approx(theirs)
