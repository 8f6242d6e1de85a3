"""Protocols: bags with true prevalences from the labels of a pool.

A protocol is a frozen dataclass with one method, ``bags(y, classes=None) -> LabelledBags``. It does
not need X, and its bags are a function of its parameters and the labels. ``drawn`` contains the
protocols that draw bags at random, ``given`` those for bags that exist already, ``shift`` those
under which more than the shares changes, and ``draw`` the interface and the random drawing itself.
"""

from kdey.protocols.draw import BagProtocol, LabelledBags, round_counts
from kdey.protocols.drawn import (
    APP,
    NPP,
    AtPrevalences,
    DirichletProtocol,
    GridAPP,
    SmoothAPP,
)
from kdey.protocols.given import GivenBags, GroupBags
from kdey.protocols.shift import CovariateShift, MixedShift

__all__ = [
    "APP",
    "NPP",
    "AtPrevalences",
    "BagProtocol",
    "CovariateShift",
    "DirichletProtocol",
    "GivenBags",
    "GridAPP",
    "GroupBags",
    "LabelledBags",
    "MixedShift",
    "SmoothAPP",
    "round_counts",
]
