"""Torch tensors among arrays, without importing torch.

NumPy reads tensors in host memory as they are; those on a GPU have to be copied first.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from kdey.masks import refuse_masked

T = TypeVar("T")


def is_tensor(values: Any) -> bool:
    """Return whether ``values`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def on_gpu(values: Any) -> bool:
    """Return whether ``values`` is a tensor in the memory of a GPU."""
    return is_tensor(values) and values.device.type != "cpu"


def on_host(values: Any) -> Any:
    """Return a tensor as an array, without a copy if it is in host memory; other values as is.

    NumPy has no bfloat16, whose numbers become float32.
    """
    if not is_tensor(values):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def for_numpy(values: Any, name: str) -> Any:
    """Return what users pass as an array so that ``numpy.asarray`` reads the values that it has.

    Tensors are brought to the host; masked entries are refused.

    Parameters
    ----------
    values : array-like of any type
    name : str
        What to call the argument in messages.

    Raises
    ------
    ValueError
        If an entry is masked, or a tensor is not dense.
    """
    return refuse_masked(on_host(refuse_sparse(values, name)), name)


def refuse_sparse(values: T, name: str) -> T:
    """Return ``values`` unchanged, or raise ValueError for a tensor whose numbers are not there.

    Parameters
    ----------
    values : array-like of any type
    name : str
        What to call the argument in the message.
    """
    if is_tensor(values):
        tensor: Any = values
        if str(tensor.layout) != "torch.strided":
            raise ValueError(
                f"{name} is a tensor of layout {tensor.layout}: pass {name}.to_dense()"
            )
        if tensor.is_meta:
            raise ValueError(f"{name} is a tensor on the device 'meta', which holds no numbers")
    return values
