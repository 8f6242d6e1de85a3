"""A cluster of two processes: groups, evaluation and model selection, with a worker killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from kdey import ACC, APP, GridSearchQ, KDEyML, evaluate
from kdey.groups import fits_on_cluster
from tests.groups.cluster.frames import SCORES, assert_same, make_frame

distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra 'dask' is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CASE, FRAME = make_frame(2)
X, Y = make_classification(1200, 8, n_informative=5, n_classes=3, random_state=0)


@pytest.fixture
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as made:
        yield made


class Slow(LogisticRegression):
    """A classifier that takes its time, so that there is a middle to kill a worker in."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Slow:
        time.sleep(0.5)
        return super().fit(X, y)


def killed(client: Any, call: Callable[[], Any]) -> Any:
    """Return what ``call`` gives while a worker that has work is killed."""
    pids = client.run(os.getpid)
    victims: list[int] = []

    def watch() -> None:
        busy: list[str] = []
        while not busy:
            time.sleep(0.2)
            busy = [address for address, tasks in client.processing().items() if tasks]
        victims.append(pids[busy[0]])
        os.kill(victims[0], signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    made = call()
    watcher.join(timeout=60)
    assert victims
    assert victims[0] not in client.run(os.getpid).values()
    return made


def slowly(frame: pd.DataFrame) -> pd.DataFrame:
    time.sleep(0.5)
    return frame


def test_groups_with_a_worker_killed(client: Any) -> None:
    q = KDEyML(bandwidth=0.1).fit_posteriors(CASE.training, CASE.labels)
    table = dd.from_pandas(FRAME, npartitions=10).map_partitions(slowly, meta=FRAME.iloc[:0])
    whole = q.predict_groups(table, "group", scores=SCORES).to_frame()
    assert_same(whole, q.predict_groups(FRAME, "group", scores=SCORES).to_frame())
    again = killed(client, lambda: q.predict_groups(table, "group", scores=SCORES).to_frame())
    pd.testing.assert_frame_equal(whole, again)


def search() -> GridSearchQ:
    grid = {"classifier__C": [0.1, 1.0], "bandwidth": [0.05, 0.2]}
    model = KDEyML(Slow(), bandwidth=0.1, cv=4, random_state=0)
    protocol = APP(n_bags=20, bag_size=50, random_state=0)
    return GridSearchQ(model, grid, protocol=protocol, error_score="raise", verbose=False)


def test_model_selection_with_a_worker_killed(client: Any) -> None:
    expected = search().fit(X[:600], Y[:600])
    with fits_on_cluster(client):
        made = killed(client, lambda: search().fit(X[:600], Y[:600]))
    assert made.best_params_ == expected.best_params_
    np.testing.assert_allclose(
        made.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )


def test_the_backend_of_joblib_works_too(client: Any) -> None:
    expected = KDEyML(bandwidth=0.1, random_state=0).fit(X[:600], Y[:600]).predict(X[600:])
    with joblib.parallel_backend("dask"):
        made = KDEyML(bandwidth=0.1, random_state=0).fit(X[:600], Y[:600]).predict(X[600:])
    np.testing.assert_allclose(made, expected, atol=1e-9)


def test_evaluations_side_by_side(client: Any) -> None:
    protocol = APP(n_bags=50, bag_size=80, random_state=0)
    models = {"ML": KDEyML(bandwidth=0.1), "ACC": ACC(LogisticRegression())}
    for model in models.values():
        model.set_params(random_state=0).fit(X[:600], Y[:600])
    expected = evaluate(models, X[600:], Y[600:], protocol, verbose=False)
    with fits_on_cluster():
        parts = joblib.Parallel()(
            joblib.delayed(evaluate)({name: model}, X[600:], Y[600:], protocol, verbose=False)
            for name, model in models.items()
        )
    frames = pd.concat([part.to_frame() for part in parts], ignore_index=True)
    told = [c for c in frames.columns if c.startswith(("ae", "rae", "estimate"))]
    np.testing.assert_allclose(frames[told], expected.to_frame()[told], rtol=1e-9)
