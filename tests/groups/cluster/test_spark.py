"""The functions that Spark runs, fed by hand; and Spark itself where it is installed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from kdey import PACC, KDEyML
from kdey.groups import SparkSource, predict_partitioned
from tests.groups.cluster.frames import SCORES, assert_same, make_frame

CASE, FRAME = make_frame(1)


class FakeFrame:
    """What the source asks of a Spark data frame: lazy partitions of pandas batches."""

    def __init__(self, partitions: list[Any]) -> None:
        self._partitions = partitions
        self.kept = 0

    @property
    def columns(self) -> list[str]:
        return list(next(self._partitions[0]()).columns)

    def select(self, *names: str) -> FakeFrame:
        def part(run: Any) -> Any:
            return lambda: (frame[list(names)] for frame in run())

        return FakeFrame([part(run) for run in self._partitions])

    def mapInPandas(self, function: Any, schema: str) -> FakeFrame:
        def part(run: Any) -> Any:
            return lambda: function(run())

        return FakeFrame([part(run) for run in self._partitions])

    def persist(self) -> FakeFrame:
        held = [list(run()) for run in self._partitions]
        made = FakeFrame([lambda frames=frames: iter(frames) for frames in held])
        made.kept += 1
        return made

    def unpersist(self) -> None:
        self.kept -= 1

    def collect(self) -> list[dict[str, Any]]:
        return [
            record
            for run in self._partitions
            for frame in run()
            for record in frame.to_dict("records")
        ]


def fake(frame: pd.DataFrame, sizes: tuple[int, ...] = (150, 200)) -> FakeFrame:
    """Return the frame in partitions, each in batches; one partition has none."""
    cut = len(frame) // 3

    def batches(part: pd.DataFrame, size: int) -> Iterator[pd.DataFrame]:
        for start in range(0, len(part), size):
            yield part.iloc[start : start + size]

    first, second = frame.iloc[:cut], frame.iloc[cut:]
    return FakeFrame(
        [lambda: batches(first, sizes[0]), lambda: iter(()), lambda: batches(second, sizes[1])]
    )


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("q", [KDEyML(bandwidth=0.1), PACC()], ids=["KDEyML", "PACC"])
def test_iterators_of_frames_give_the_table_of_memory(q, keep: bool) -> None:
    q.fit_posteriors(CASE.training, CASE.labels)
    made = predict_partitioned(q, fake(FRAME), SparkSource, "group", scores=SCORES, keep=keep)
    assert_same(made, q.predict_groups(FRAME, "group", scores=SCORES).to_frame())


def test_bootstrap_by_row_keys() -> None:
    q = KDEyML(bandwidth=0.1).fit_posteriors(CASE.training, CASE.labels)
    given = {"scores": SCORES, "key": "row", "method": "bootstrap", "n_replicates": 40}
    one, other = (
        predict_partitioned(q, fake(FRAME, sizes), SparkSource, "group", **given)
        for sizes in ((150, 200), (1000, 90))
    )
    assert_same(one, other)


def test_a_frame_without_rows() -> None:
    q = PACC().fit_posteriors(CASE.training, CASE.labels)
    empty = FakeFrame([lambda: iter([FRAME.iloc[:0]])])
    with pytest.raises(ValueError, match="no row"):
        predict_partitioned(q, empty, SparkSource, "group", scores=SCORES)


@pytest.mark.slow
def test_spark_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        try:
            table = spark.createDataFrame(FRAME[[*SCORES, "group", "row"]]).repartition(2)
            for q in (KDEyML(bandwidth=0.1), PACC()):
                q.fit_posteriors(CASE.training, CASE.labels)
                made = q.predict_groups(table, "group", scores=SCORES).to_frame()
                assert_same(made, q.predict_groups(FRAME, "group", scores=SCORES).to_frame())
        finally:
            spark.stop()
