"""The data sets of the paper, and a few more, behind one registry.

The code lives in :mod:`kdey.paper.datasets`; these names stay here for good.
"""

from kdey.paper.datasets import (
    BagFiles,
    Bagged,
    BagSource,
    Dataset,
    IndexBags,
    Part,
    Pool,
    Split,
    load_dataset,
    load_lequa,
    names,
    synthetic_lequa,
)

__all__ = [
    "BagFiles",
    "BagSource",
    "Bagged",
    "Dataset",
    "IndexBags",
    "Part",
    "Pool",
    "Split",
    "load_dataset",
    "load_lequa",
    "names",
    "synthetic_lequa",
]
