"""The web service of the examples, where FastAPI is installed."""

from __future__ import annotations

import pickle
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import kdey

testclient = pytest.importorskip("fastapi.testclient", reason="FastAPI is not installed")
SERVICE = Path(__file__).parents[2] / "examples" / "service.py"


def test_items_are_posted_and_shares_are_asked_for() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    client = testclient.TestClient(runpy.run_path(str(SERVICE))["make_app"](q))
    assert client.get("/shares").json()["status"] == "empty"
    new = X[1::2]
    parts = [new[i : i + 15] for i in range(0, len(new), 15)]
    with ThreadPoolExecutor(4) as pool:
        replies = pool.map(lambda p: client.post("/items", json=p.to_dict("records")), parts)
    assert {reply.status_code for reply in replies} == {200}
    answer = client.get("/shares").json()
    assert answer["items"] == len(new)
    expected = q.predict_groups(new)[0]
    shares = pd.DataFrame(answer["shares"])
    assert_allclose(shares["estimate"], expected.estimate)
    assert_allclose(shares["low"], expected.low)
    totals = q.accumulator(every="1h")
    totals.merge(pickle.loads(client.get("/totals").content))
    assert totals.size == len(new)
