"""Where the work is done: what ``device=`` means, and tensors that already lie somewhere.

Nothing here imports torch unless a device other than the host's native core is asked for.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import numpy as np

from kdey.simplex import SUM_TOLERANCE, check_posteriors

#: What ``device=`` may be, besides a ``torch.device`` and "cuda:1", "cuda:2", ...
DEVICES = ("cpu", "auto", "cuda", "torch-cpu")
#: Kernel pairs from which "auto" takes the GPU: about a second of two cores' work, and well above
#: what starting up a GPU costs.
AUTO_PAIRS = 2e9
_FLOATS = ("float32", "float64")


def device_name(device: Any) -> str:
    """Return ``device`` as one of :data:`DEVICES` or "cuda:N", or raise.

    "cpu" is the native core, "torch-cpu" (or ``torch.device("cpu")``) torch on the same
    processor, which serves tests; "auto" takes the GPU where there is one and enough to do.
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
        Kernel values (or what costs about as much) that are to be computed.
    points : array or tensor, optional
        What the work is on: a tensor on a GPU is worked on there, whatever ``device`` says.
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
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found <= int(name.partition(":")[2] or 0):
        raise RuntimeError(
            f"device={name!r}, but torch {torch.__version__} sees {found} CUDA device(s): install "
            "a torch built for CUDA and a driver, or use device='auto' or 'cpu'"
        )
    return torch.device(name)


def _gpu_if_any() -> Any:
    try:
        torch = import_torch("device='auto'")
    except ImportError:
        return None
    return torch.device("cuda") if torch.cuda.is_available() else None


def import_torch(what: str) -> Any:
    """Return the torch module, or raise saying which extra ``what`` needs."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'kdey[gpu]'") from error
    return torch


def is_tensor(values: Any) -> bool:
    """Whether ``values`` is a torch tensor (torch is not imported to find out)."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def on_gpu(values: Any) -> bool:
    """Whether ``values`` is a tensor in a GPU's memory."""
    return is_tensor(values) and values.device.type != "cpu"


def on_host(values: Any) -> Any:
    """Return a tensor as an array (no copy where it lies in host memory), all else as it is."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def as_tensor(values: Any, device: Any) -> Any:
    """Return an array or tensor as a tensor on ``device``, without a copy where it is there."""
    torch = import_torch("a tensor")
    if is_tensor(values):
        return values.detach().to(device)
    with warnings.catch_warnings():  # nothing is ever written to it
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def posteriors_on(posteriors: Any, n_classes: int, device: Any, name: str = "posteriors") -> Any:
    """As :func:`kdey.simplex.check_posteriors`, checked where the work is done.

    Parameters
    ----------
    posteriors : array-like or tensor of shape (m, k)
    n_classes : int
    device : torch.device or None
        None: returns an array. Otherwise a float tensor there; what lies there is not copied.
    name : str
        What to call the argument in messages.
    """
    if device is None:
        return check_posteriors(posteriors, n_classes, name=name)
    given = posteriors if is_tensor(posteriors) else np.asarray(posteriors)
    if given.ndim == 2 and len(given) and str(given.dtype).rpartition(".")[2] in _FLOATS:
        p = as_tensor(given, device)
        off = (p.sum(dim=1, dtype=import_torch(name).float64) - 1.0).abs().amax()
        if p.shape[1] == n_classes and bool((p.amin() >= 0) & (off <= SUM_TOLERANCE)):
            return p
    # Whatever is wrong is told, or clipped, by the host's check.
    return as_tensor(check_posteriors(posteriors, n_classes, name=name), device)
