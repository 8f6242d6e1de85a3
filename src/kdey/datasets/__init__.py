"""The data sets of the paper, and a few more, behind one registry.

``load_dataset("letter").split(seed=0)`` gives training, validation and test parts. Files are sought
in ``$KDEY_DATA`` and in the cache that ``kdey data fetch`` fills; nothing is downloaded unasked.
"""

from __future__ import annotations

from kdey.datasets.bagged import Bagged, BagSource, IndexBags, Pool
from kdey.datasets.data import Dataset, Part, Split
from kdey.datasets.lequa import BagFiles, load_lequa
from kdey.datasets.loading import load_dataset
from kdey.datasets.registry import names
from kdey.datasets.synthetic import synthetic_lequa

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
