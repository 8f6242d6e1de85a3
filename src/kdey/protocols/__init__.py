"""Protocols: labels of a pool in, bags with true prevalences out.

A protocol is a frozen dataclass with one method, ``bags(y, classes=None) -> LabelledBags``. It
never sees X and owns no data but what it was given; what it draws is a function of its
parameters and the labels. ``artificial`` chooses prevalences, ``natural`` leaves them to chance,
``given`` takes bags as they come; ``labels`` and ``draw`` hold what they share.
"""

from kdey.protocols.draw import BagProtocol, LabelledBags, round_counts
from kdey.protocols.drawn import APP, NPP, DirichletProtocol, GridAPP
from kdey.protocols.given import GivenBags, GroupBags

__all__ = [
    "APP",
    "NPP",
    "BagProtocol",
    "DirichletProtocol",
    "GivenBags",
    "GridAPP",
    "GroupBags",
    "LabelledBags",
    "round_counts",
]
