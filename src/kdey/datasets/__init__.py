"""The data sets of the paper, and a few more, behind one registry; and one that comes with kdey.

``load_dataset("letter").split(seed=0)`` gives training, validation and test parts. Files are
read from ``$KDEY_DATA`` and from the cache that ``python -m experiments data fetch`` fills, a
command of the repository; nothing here downloads anything.
"""

from __future__ import annotations

from kdey.datasets.lequa import BagFiles, load_lequa
from kdey.datasets.loading import (
    Bagged,
    BagSource,
    Dataset,
    IndexBags,
    Part,
    Pool,
    Split,
    load_beans,
    load_dataset,
)
from kdey.datasets.registry import names

__all__ = [
    "BagFiles",
    "BagSource",
    "Bagged",
    "Dataset",
    "IndexBags",
    "Part",
    "Pool",
    "Split",
    "load_beans",
    "load_dataset",
    "load_lequa",
    "names",
]
