r"""Mean kernels between bags and given points on a device, for Monte Carlo rows.

The device's :func:`kdey.rows.kernel_means.kernel_means`, in float64:

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1
"""

from __future__ import annotations

import numpy as np
import torch

from kdey.bags import Bags
from kdey.device import as_tensor
from kdey.gpu.tiles import in_tiles

#: Kernel values held at a time.
_TILE = {"cuda": 1 << 27, "cpu": 1 << 21}


def kernel_means(
    points: torch.Tensor,
    log_scale: torch.Tensor,
    instances: torch.Tensor,
    bags: Bags,
    bandwidth: float,
) -> torch.Tensor:
    """Return the mean kernel of each bag at each point over ``exp(log_scale)``, (n_bags, t).

    Parameters
    ----------
    points : tensor of shape (t, D)
    log_scale : tensor of shape (t,)
    instances : tensor of shape (m, D)
        The pool.
    bags : Bags
    bandwidth : float
    """
    used, columns = np.unique(bags.indices, return_inverse=True)
    u = instances[as_tensor(used, instances.device)]
    centre = u.mean(dim=0)  # small norms make exact distances
    u = u - centre
    norms = (u**2).sum(dim=1, keepdim=True)
    places = as_tensor(columns.reshape(-1), u.device)
    offsets = as_tensor(bags.offsets[:-1], u.device)
    shares = as_tensor(bags.matrix().data, u.device)
    out = u.new_empty((len(bags), len(points)))
    factor = -0.5 / bandwidth**2

    def work(start: int, stop: int) -> None:
        x = points[start:stop] - centre
        last = factor * (x**2).sum(dim=1) - log_scale[start:stop]
        exponents = torch.addmm(last, u, x.T, alpha=-2.0 * factor).add_(factor * norms)
        # A bag is a weighted sum of rows: what an embedding layer calls a bag, too.
        out[:, start:stop] = torch.nn.functional.embedding_bag(
            places, exponents.exp_(), offsets, mode="sum", per_sample_weights=shares
        )

    in_tiles(work, len(points), _TILE.get(u.device.type, 1 << 22) // len(used))
    return out
