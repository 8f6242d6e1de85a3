"""Classifier fits on a Dask cluster, through joblib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fits_on_cluster(client: Any = None) -> Iterator[None]:
    """Run what joblib runs in this block (fits of folds, members, methods) on a Dask cluster.

    It is joblib's own ``parallel_config("dask")`` but for one thing: arguments travel inside the
    tasks. joblib's hands out larger ones ahead, each to one worker, and what a killed worker was
    given is then gone for good; a task that carries its arguments is simply run again.

    Leave ``n_jobs`` unset inside: joblib then takes the whole cluster, and native threads stay one.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the current one.
    """
    from joblib import parallel_config, register_parallel_backend
    from joblib._dask import DaskDistributedBackend

    class Carrying(DaskDistributedBackend):
        """joblib's backend with arguments inside the tasks."""

        call_data_futures: Any

        def start_call(self) -> None:
            super().start_call()
            self.call_data_futures = None  # nothing is handed out ahead

        def stop_call(self) -> None:
            self.call_data_futures = {}  # joblib clears it
            super().stop_call()

    register_parallel_backend("kdey-dask", Carrying)
    with parallel_config("kdey-dask", client=client):
        yield
