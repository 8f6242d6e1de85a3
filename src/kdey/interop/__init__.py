"""Other libraries' bags replayed here, our quantifiers and bags used there.

Reading (``from_quapy``) needs nothing but the object given to it; the way back imports QuaPy when
called, and nothing here does so before.
"""

from kdey.interop.quapy import Replay, from_quapy, to_quapy, to_quapy_protocol

__all__ = ["Replay", "from_quapy", "to_quapy", "to_quapy_protocol"]
