"""Groups of a Spark data frame against the same table in memory."""

from __future__ import annotations

import sys
import warnings

import pytest

from kdey import PACC, KDEyML
from kdey.groups import cluster
from tests.groups.cluster.frames import SCORES, assert_same, make_frame

CASE, FRAME = make_frame(1)


@pytest.mark.slow
def test_spark_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(cluster, "TOGETHER", 2)  # counts of groups are added up twice on workers
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
            table = spark.createDataFrame(FRAME[[*SCORES, "group", "row"]]).repartition(5)
            for q in (KDEyML(bandwidth=0.1), PACC()):
                q.fit_posteriors(CASE.training, CASE.labels)
                made = q.predict_groups(table, "group", scores=SCORES).to_frame()
                assert_same(made, q.predict_groups(FRAME, "group", scores=SCORES).to_frame())
        finally:
            spark.stop()
