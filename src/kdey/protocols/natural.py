"""Natural prevalence: bags drawn from the pool as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdey.labels import encode_labels
from kdey.protocols.draw import Pool, Replace, bag_generators, draw_bags
from kdey.protocols.labels import LabelledBags, realised_prevalences
from kdey.protocols.parameters import check_draws, check_fits


@dataclass(frozen=True)
class NPP:
    """Natural prevalence protocol: bags of instances drawn uniformly from the whole pool.

    Prevalences scatter around the pool's as chance has it; those of each bag are recorded.
    ``replace="auto"`` draws without replacement unless the bag is larger than the pool. Other
    parameters as in :class:`kdey.protocols.APP`; bag b depends on ``random_state``, b and the
    pool alone.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey import NPP
    >>> drawn = NPP(n_bags=200, bag_size=100, random_state=0).bags(np.repeat([0, 1], [900, 100]))
    >>> drawn.prevalences.mean(axis=0).round(1)
    array([0.9, 0.1])
    """

    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"

    def __post_init__(self) -> None:
        check_draws(self.n_bags, self.bag_size, self.random_state, self.replace)

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        check_fits(self.bag_size, len(codes), self.replace)
        # To the drawing all instances are alike: one class.
        pool = Pool.from_codes(np.zeros_like(codes), np.array(["any"]))
        counts = np.full((self.n_bags, 1), self.bag_size, dtype=np.int64)
        generators = bag_generators(self.random_state, self.n_bags)
        bags = draw_bags(pool, counts, self.replace, generators)
        return LabelledBags(bags, realised_prevalences(bags, codes, len(known)), known)
