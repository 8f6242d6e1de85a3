"""A web service that keeps the shares of a stream: post items, ask for the shares.

``KDEY_MODEL=model.kdey uvicorn service:app`` (with FastAPI and uvicorn). Each worker has totals of
its own; ``/totals`` gives them to whoever merges those of all workers.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

import pandas as pd
from fastapi import FastAPI, Response

import kdey
from kdey.groups import Accumulator


def make_app(quantifier: Any) -> FastAPI:
    """Return the service of a fitted quantifier."""
    app = FastAPI(title="kdey")
    totals: Accumulator = quantifier.accumulator(every="1h", window=24 * 7)

    # Plain functions run in threads, several at once: the accumulator may be shared.
    @app.post("/items")
    def add(items: list[dict[str, Any]]) -> dict[str, int]:
        totals.add(pd.DataFrame(items))
        return {"items": totals.size}

    @app.get("/shares")
    def shares(since: str | None = None, until: str | None = None) -> dict[str, Any]:
        if totals.size == 0:
            return {"items": 0, "status": "empty", "shares": []}
        found = totals.estimate(since, until)
        columns = (found.classes.tolist(), found.estimate, found.low, found.high)
        rows = [
            {"class": label, "estimate": float(share), "low": float(low), "high": float(high)}
            for label, share, low, high in zip(*columns, strict=True)
        ]
        return {"items": found.size, "status": found.status, "shares": rows}

    @app.get("/totals")
    def state() -> Response:
        return Response(pickle.dumps(totals), media_type="application/octet-stream")

    return app


if "KDEY_MODEL" in os.environ:
    app = make_app(kdey.load(os.environ["KDEY_MODEL"]))
