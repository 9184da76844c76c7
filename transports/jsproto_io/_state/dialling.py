"""The addresses of one name: which of them is dialled when. The drivers share it.

Rules (RFC 8305, Happy Eyeballs)
 * The families take turns, and that of the first address begins.
 * Each attempt has a head start of ``HEAD_START`` before the next one. After a failure it is over at once.
 * All addresses are begun within ``ALL_WITHIN``: of a name with many, each has a shorter head start.
 * The first that is connected wins. When all have failed, the first failure is told.

Nothing here waits, or asks a clock: ``now`` is in the driver's seconds.

Not here: looking up a name, the time for all of it, what becomes of the losers.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from errno import EINPROGRESS, EWOULDBLOCK
from itertools import zip_longest
from math import inf
from os import strerror
from typing import Any, Final, TypeAlias

AddressInfo: TypeAlias = tuple[Any, Any, int, str, Any]
"""Family, type, protocol, name and address, as ``socket.getaddrinfo`` has them."""

HEAD_START: Final = 0.25  # seconds, as RFC 8305 recommends
ALL_WITHIN: Final = 1.0  # seconds: half of the default ``connect_timeout``

_UNDER_WAY: Final = frozenset({0, EINPROGRESS, EWOULDBLOCK})


class AddressRace:
    """The attempts to reach one name.

    Attributes:
        next_at: when the next address is due, in seconds. ``inf``: none is left.
        error: the first failure, once all addresses have failed. None: one may still be reached.
    """

    def __init__(self, addresses: Sequence[AddressInfo], now: float) -> None:
        """``addresses``: one at least. The first is due ``now``."""
        self._left = deque(_interleaved(addresses))
        self._head_start = min(HEAD_START, ALL_WITHIN / len(addresses))
        self._under_way = 0
        self._failure: OSError | None = None
        self.next_at = now
        self.error: OSError | None = None

    def take(self, now: float) -> AddressInfo | None:
        """The address to dial at ``now``. None: none is due."""
        if now < self.next_at:
            return None
        address = self._left.popleft()
        self.next_at = now + self._head_start if self._left else inf
        self._under_way += 1
        return address

    def failed(self, error: OSError) -> None:
        """One of the addresses is unreachable: the next one is due."""
        self._failure = self._failure or error
        self._under_way -= 1
        if self._left:
            self.next_at = -inf
        elif not self._under_way:
            self.error = self._failure


def begin(address: AddressInfo) -> socket.socket:
    """A socket that never blocks, which is being connected. Once it is writable, ``finish`` it.

    Raises:
        OSError: that fails at once.
    """
    family, kind, protocol, _, place = address
    attempt = socket.socket(family, kind, protocol)
    attempt.setblocking(False)
    failure = attempt.connect_ex(place)
    if failure not in _UNDER_WAY:
        attempt.close()
        raise OSError(failure, strerror(failure))
    return attempt


def finish(attempt: socket.socket) -> None:
    """The socket of ``begin`` is writable: it is connected.

    Raises:
        OSError: it is not.
    """
    if failure := attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(failure, strerror(failure))
    attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _interleaved(addresses: Sequence[AddressInfo]) -> list[AddressInfo]:
    """The addresses with the families in turn, the family of the first one first."""
    preferred = [address for address in addresses if address[0] == addresses[0][0]]
    others = [address for address in addresses if address[0] != addresses[0][0]]
    return [address for pair in zip_longest(preferred, others) for address in pair if address is not None]
