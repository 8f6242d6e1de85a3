"""Devices: the meaning of ``device=``, and tensors on them.

torch is imported only if a device other than the native core on the host is requested.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kdey.class_columns import in_class_order
from kdey.masks import refuse_masked
from kdey.simplex import SUM_TOLERANCE, check_posteriors
from kdey.tensors import is_tensor, on_gpu, refuse_sparse

#: Values of ``device=``, besides a ``torch.device`` and "cuda:1", "cuda:2", ...
DEVICES = ("cpu", "auto", "cuda", "torch-cpu")
#: Number of kernel values from which "auto" uses the GPU: about one second of work for two cores,
#: well above the cost of starting a GPU.
AUTO_PAIRS = 2e9
_FLOATS = ("float32", "float64")


def device_name(device: Any) -> str:
    """Return ``device`` as one of :data:`DEVICES` or "cuda:N"; raises ValueError otherwise.

    "cpu" is the native core; "torch-cpu" (or ``torch.device("cpu")``) is torch on the same
    processor, for tests; "auto" is the GPU if there is one and the work is large enough.
    """
    if isinstance(device, str):
        if device in DEVICES or re.fullmatch(r"cuda:\d+", device):
            return device
    elif type(device).__module__ == "torch" and type(device).__name__ == "device":
        return "torch-cpu" if device.type == "cpu" else str(device)
    raise ValueError(
        f"device must be one of {', '.join(DEVICES)}, 'cuda:N' or a torch.device, got {device!r}"
    )


def choose_device(device: Any, n_pairs: float, points: Any = None) -> Any:
    """Return the torch device to work on; None for the native core.

    Parameters
    ----------
    device : str or torch.device
        See :func:`device_name`.
    n_pairs : float
        Number of kernel values (or operations of about the same cost) to compute.
    points : array or tensor, optional
        The data. A tensor on a GPU is processed there, whatever ``device`` says.

    Raises
    ------
    RuntimeError
        If torch does not see the requested GPU.
    """
    name = device_name(device)
    if on_gpu(points):
        return points.device
    if name == "cpu" or (name == "auto" and n_pairs < AUTO_PAIRS):
        return None
    if name == "auto":
        return _gpu_if_any()
    torch = import_torch(f"device={name!r}")
    if name == "torch-cpu":
        return torch.device("cpu")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if n_devices <= int(name.partition(":")[2] or 0):
        raise RuntimeError(
            f"device={name!r}, but torch {torch.__version__} sees {n_devices} CUDA device(s): "
            "install a torch built for CUDA and a driver, or use device='auto' or 'cpu'"
        )
    return torch.device(name)


def _gpu_if_any() -> Any:
    try:
        torch = import_torch("device='auto'")
    except ImportError:
        return None
    return torch.device("cuda") if torch.cuda.is_available() else None


def import_torch(what: str) -> Any:
    """Return the torch module; raises ImportError with the extra that ``what`` needs."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'kdey[gpu]'") from error
    return torch


def as_tensor(values: Any, device: Any) -> Any:
    """Return an array or tensor as a tensor on ``device``, without a copy if it is there."""
    torch = import_torch("a tensor")
    if is_tensor(values):
        return values.detach().to(device)
    with warnings.catch_warnings():  # torch warns about read-only arrays; nothing is written here
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def posteriors_on(
    posteriors: Any, classes: ArrayLike, device: Any, name: str = "posteriors"
) -> Any:
    """Check posteriors as :func:`kdey.simplex.check_posteriors` does, on the device of the work.

    Parameters
    ----------
    posteriors : array-like, data frame or tensor of shape (m, k)
    classes : array-like of shape (k,)
        The labels, by which the columns of a data frame are matched.
    device : torch.device or None
        None: an array is returned. Otherwise a float tensor on it, not copied if already there.
    name : str
        What to call the argument in messages.
    """
    if device is None:
        return check_posteriors(posteriors, classes=classes, name=name)
    refuse_sparse(posteriors, name)
    values = posteriors if is_tensor(posteriors) else in_class_order(posteriors, classes, name)
    values = values if is_tensor(values) else np.asarray(refuse_masked(values, name))
    n_classes = len(np.asarray(classes))
    if values.ndim == 2 and len(values) and str(values.dtype).rpartition(".")[2] in _FLOATS:
        p = as_tensor(values, device)
        deviation = (p.sum(dim=1, dtype=import_torch(name).float64) - 1.0).abs().amax()
        if p.shape[1] == n_classes and bool((p.amin() >= 0) & (deviation <= SUM_TOLERANCE)):
            return p
    # The check on the host reports whatever is wrong, or clips rounding noise.
    return as_tensor(check_posteriors(posteriors, classes=classes, name=name), device)
