"""Testing without sockets and clocks: both roles of the library in one process, in simulated time.

``World`` is a server with the links of its clients. Its ``Network`` behaves as its ``NetworkConditions`` say, and what
goes wrong is a list of ``Fault``, which ``random_faults`` makes. ``Pair`` is a client in such a world. The same seed
and the same calls give the same bytes at the same times. ``StuckError``: what a test waits for never happens.
``WrongGuards`` makes the mistakes of old releases. ``invariants`` has checks of what must hold at the end.
"""

from __future__ import annotations

from jsproto.testing.faults import Fault, random_faults
from jsproto.testing.network import Network, NetworkConditions, WrongGuards
from jsproto.testing.pair import Pair
from jsproto.testing.world import Link, StuckError, World

__all__ = [
    "Fault", "Link", "Network", "NetworkConditions", "Pair", "StuckError", "World", "WrongGuards", "random_faults",
]  # fmt: skip
