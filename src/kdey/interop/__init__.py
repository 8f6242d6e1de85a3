"""Bags of other libraries replayed in kdey, and quantifiers and bags of kdey used in them.

``from_quapy`` needs nothing but its argument; the functions that go the other way import QuaPy
when they are called, and nothing here does so before.
"""

from kdey.interop.quapy import Replay, from_quapy, to_quapy, to_quapy_protocol

__all__ = ["Replay", "from_quapy", "to_quapy", "to_quapy_protocol"]
