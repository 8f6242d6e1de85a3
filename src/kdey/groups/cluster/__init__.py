"""Groups on an engine of many processes: Dask data frames, and Spark by the same functions.

Each partition makes the rows of its instances where it lies and contributes sums per group
(``kdey.groups.sums``); sums are combined by a tree, and the groups are solved from them. No
instance moves and no group is gathered. ``partition.py`` is what runs on a partition, on whichever
engine.
"""

from kdey.groups.cluster.dask_source import fits_on_cluster
from kdey.groups.cluster.frames import predict_groups, predict_partitioned
from kdey.groups.cluster.partition import PartitionReader, PartitionSums, merge_partitions

__all__ = [
    "PartitionReader",
    "PartitionSums",
    "fits_on_cluster",
    "merge_partitions",
    "predict_groups",
    "predict_partitioned",
]
