"""Testing without sockets and clocks: both roles of the library in one process, in simulated time.

``Pair`` is a client and a server with a ``Network`` between them, which behaves as its ``NetworkConditions`` say. The
same seed and the same calls give the same bytes at the same times. ``StuckError``: what a test waits for never happens.
"""

from __future__ import annotations

from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair, StuckError

__all__ = ["Network", "NetworkConditions", "Pair", "StuckError"]
