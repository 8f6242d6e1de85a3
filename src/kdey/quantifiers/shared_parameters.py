"""Descriptions of the parameters that many quantifiers share, for their docstrings."""

from __future__ import annotations

#: Written out by :func:`kdey._display.write_out` in every class that has them and does
#: not describe them by itself.
SHARED_PARAMETERS = """
tune_for : str or Metric
    The error that an automatic choice minimises: "ae", "rae" or another of :mod:`kdey.metrics`.
tune_bag_size : int
    Expected size of bags, for an automatic choice.
random_state : int, RandomState or None
    Seed of all random draws of the method.
n_jobs : int, optional
    Number of threads of the native core.
device : {"cpu", "auto", "cuda", "cuda:N", "torch-cpu"} or torch.device
    Where rows are computed and bags solved: the native core, a GPU (extra ``gpu``), or, with
    "auto", a GPU if there is one and the work is large enough. Posteriors that are tensors on
    a GPU are processed there. So are automatic choices and analytic limits; Gram matrices, the
    quadratic programs of limits, and bootstraps are left to the host.
"""
