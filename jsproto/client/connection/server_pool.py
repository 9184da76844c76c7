"""Reconnection: which address is dialled, and when, at first and after a lost link.

Rules:

* The first time each address is tried once, without waiting.
* After a lost link the other addresses go first and the lost one last, at once.
* When all have been tried there is a pause. Jitter makes it longer or shorter, so that many clients do not come back in
  step.
* A link that was lost before it lived as long as a pause counts as a failed attempt. After as many of them in a row as
  there are addresses, a pause follows each.
* Failed attempts in a row are counted. The session ends when there are ``max_reconnect_attempts`` of them.
* The session ends as well when one address has refused the credentials twice since the last connection.
* A server names others of its cluster (``connect_urls`` in INFO). They are tried after the given addresses.

Not here: sockets, handshakes, what is lost with a link.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from jsproto.client.connection.options import Address, ConnectOptions, parse_address
from jsproto.errors import LocalProtocolError
from jsproto.timers import Timer, Timers

MAX_ADDRESSES: Final = 64  # addresses that servers may add are anybody's: keep few
MAX_ATTEMPTS_KEPT: Final = 64  # for the error; counting goes on
MAX_REFUSALS: Final = 2  # of one address; the second attempt is for credentials that were renewed meanwhile
JITTER: Final = 0.25  # of the pause, up or down


class ServerPool:
    """The dialling plan of one session.

    Attributes:

    * ``address``: dial it now. None: not now.
    * ``attempts``: the failures since the last connection.
    * ``refused``: the credentials are why it gave up.
    """

    __slots__ = (
        "_connected_at", "_failures", "_max_failures", "_pause", "_pool", "_refusals", "_seed", "_short_links",
        "_timers", "address", "attempts", "refused",
    )  # fmt: skip

    def __init__(self, options: ConnectOptions, seed: int) -> None:
        """``seed`` spreads the pauses of different clients."""
        self._pool = deque(options.servers)
        self._pause = options.reconnect_time_wait
        self._max_failures = options.max_reconnect_attempts
        self._seed = seed
        self._failures: int | None = None  # in a row, after the first connection; None before it
        self._connected_at = 0.0
        self._short_links = 0  # in a row
        self._timers = Timers()
        self.address: Address | None = self._pool[0]
        self.attempts: deque[tuple[str, str]] = deque(maxlen=MAX_ATTEMPTS_KEPT)
        self.refused = False
        self._refusals: Counter[str] = Counter()  # by URL, since the last connection

    def connected(self, now: float) -> None:
        """The address of the last attempt answered and the handshake is complete."""
        self.attempts.clear()
        self._refusals.clear()
        self.refused = False
        self._failures = 0
        self._connected_at = now

    def learn(self, connect_urls: Iterable[str]) -> None:
        """Add the addresses that a server names in its INFO. A text that is no address is passed over."""
        known = {(address.host, address.port) for address in self._pool}
        like = self._pool[0]
        name = like.tls_name if like.is_numeric else like.host
        for url in connect_urls:
            try:
                found = parse_address(url)
            except LocalProtocolError:
                continue
            if (found.host, found.port) not in known and len(self._pool) < MAX_ADDRESSES:
                known.add((found.host, found.port))
                self._pool.append(
                    Address(
                        found.host, found.port, like.user, like.password, like.token, like.tls,
                        name if found.is_numeric else None,
                    )
                )  # fmt: skip

    def dialled(self) -> None:
        """The address is being connected: dial nothing else meanwhile."""
        self.address = None

    def lost(self, now: float) -> None:
        """The link of a complete handshake is gone: the next address is due at once, unless no link lasts."""
        self._pool.rotate(-1)
        self.address = None
        self._short_links = self._short_links + 1 if now - self._connected_at < self._pause else 0
        if not self._max_failures:
            return
        if self._short_links <= len(self._pool):
            self.address = self._pool[0]
        else:
            self._wait(now)

    def failed(self, reason: str, now: float, *, refused: bool = False) -> None:
        """The last address cannot be reached, or its handshake failed. ``refused``: for its credentials."""
        self._refusals[self._pool[0].url] += refused
        self.attempts.append((self._pool[0].url, reason))
        self._pool.rotate(-1)
        self.address = None
        if self._failures is None:
            if len(self.attempts) < len(self._pool):
                self.address = self._pool[0]
            self.refused = self._refusals.total() == len(self.attempts)
            return
        self._failures += 1
        self.refused = max(self._refusals.values()) >= MAX_REFUSALS
        if self._failures == self._max_failures or self.refused:
            return
        if self._failures % len(self._pool):
            self.address = self._pool[0]
        else:
            self._wait(now)

    @property
    def gave_up(self) -> bool:
        """Nothing is to be dialled, now or later."""
        return self.address is None and Timer.RECONNECT not in self._timers

    def handle_timeout(self, now: float) -> None:
        """Time has passed: perhaps the pause is over."""
        if self._timers.expired(now):
            self.address = self._pool[0]

    def deadline(self) -> float | None:
        """The end of the pause, in the caller's seconds. None outside of one."""
        return self._timers.next()

    def _wait(self, now: float) -> None:
        """Dial again after a pause."""
        # A linear congruential step (Numerical Recipes) is all the randomness that spreading needs.
        self._seed = (self._seed * 1_664_525 + 1_013_904_223) % 2**32
        self._timers.set(Timer.RECONNECT, now + self._pause * (1 + JITTER * (self._seed / 2**31 - 1)))
