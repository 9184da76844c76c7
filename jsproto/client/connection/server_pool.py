"""Reconnection: which address is dialled, and when, at first and after a lost link.

Rules:

* The order of the addresses is random, unless ``dont_randomize`` keeps that in which they were given.
* The first time each address is tried once, at once. With ``retry_on_first_connect`` pauses follow, and more rounds,
  until there were enough attempts or the time ``first_connect_timeout`` is over.
* After a lost link the other addresses go first and the lost one last, at once.
* When all have been tried there is a pause. Jitter makes it longer, so that many clients come back out of step.
* A link that was lost before it lived as long as a pause counts as a failed attempt. After as many of them in a row as
  there are addresses, a pause follows each. A link that this side has left keeps the count as it is.
* Failed attempts in a row are counted by address. The session ends when each address of the pool has had
  ``max_reconnect_attempts`` of them. So each address is dialled before it is given up.
* The session ends as well when one address has refused the credentials twice since the last connection.
* A server names those of its cluster (``connect_urls`` in INFO). They are tried after the given addresses.
* A named address that the last INFO with names leaves out is forgotten, unless it is in use. Given ones stay.
* INFO that lacks names is passed over, unless the server is in lame-duck mode. With it, the server is the last one.

Not here: sockets, handshakes, what is lost with a link.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, TypeAlias

from jsproto.client.connection.connect_options import Address, ConnectOptions, parse_address
from jsproto.errors import LocalProtocolError
from jsproto.timers import Timer, Timers

Place: TypeAlias = tuple[str, int]
"""Host and port."""

MAX_NAMED: Final = 64  # addresses that one INFO may add: they are anybody's, so keep few
MAX_ATTEMPTS_KEPT: Final = 64  # for the error; counting goes on
MAX_REFUSALS: Final = 2  # of one address; the second attempt is for credentials that were renewed meanwhile


class ServerPool:
    """The dialling plan of one session.

    Attributes:

    * ``address``: dial it now. None: not now.
    * ``attempts``: the failures since the last connection.
    * ``refused``: the credentials are why it gave up.
    """

    __slots__ = (
        "_connected_at", "_failures", "_first_until", "_given", "_ignores_named", "_jitter", "_keeps_order",
        "_max_failures", "_named", "_pause", "_pool", "_refusals", "_repeats", "_seed", "_short_links", "_timers",
        "address", "attempts", "refused",
    )  # fmt: skip

    def __init__(self, options: ConnectOptions, seed: int) -> None:
        """``seed`` spreads the pauses of different clients, and orders the addresses."""
        self._seed = seed
        self._keeps_order = options.dont_randomize
        self._pool = deque(self._ordered(options.servers))  # the first one is in use, or dialled next
        self._given = {_place(address) for address in options.servers}
        self._named: set[Place] | None = None  # by the server in use. None: it has named none
        self._ignores_named = options.ignore_discovered_servers
        self._pause = options.reconnect_time_wait
        is_secure = options.tls not in (None, False) or any(address.tls for address in options.servers)
        self._jitter = options.reconnect_jitter_tls if is_secure else options.reconnect_jitter
        self._max_failures = options.max_reconnect_attempts
        self._repeats = options.retry_on_first_connect  # whether a round that failed is followed by another one
        self._first_until = options.first_connect_timeout  # seconds
        self._failures = 0  # in a row
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
        self._repeats = True
        self._first_until = None
        self._timers.clear()
        self._connected_at = now

    def learn(self, connect_urls: Iterable[str], *, leaving: bool) -> None:
        """Take over the addresses that the server in use names in its INFO. A malformed address is passed over.

        ``leaving``: the server is in lame-duck mode, and names only others.
        """
        if self._ignores_named:
            return
        named: dict[Place, Address] = {}
        like = self._pool[0]
        name = like.tls_name if like.is_numeric else like.host
        for url in connect_urls:
            try:
                told = parse_address(url)
            except LocalProtocolError:
                continue
            if len(named) < MAX_NAMED:
                named[_place(told)] = Address(
                    told.host, told.port, like.user, like.password, like.token, like.tls,
                    name if told.is_numeric else None,
                )  # fmt: skip
        if not named and not (leaving and self._named is not None):
            return  # it names no servers at all
        self._named = set(named)
        kept = {_place(like), *self._given, *named}
        self._pool = deque(address for address in self._pool if _place(address) in kept)
        known = {_place(address) for address in self._pool}
        self._pool.extend(self._ordered(address for place, address in named.items() if place not in known))

    @property
    def has_others(self) -> bool:
        """Whether there are servers besides the one that is connected, as far as that one says."""
        others = [_place(address) for address in self._pool][1:]
        return bool(others) if self._named is None else not self._named.isdisjoint(others)

    def dialled(self) -> None:
        """The address is being connected: dial nothing else meanwhile."""
        self.address = self._named = None

    def lost(self, now: float, *, left: bool = False) -> None:
        """The link of a complete handshake is gone: the next address is due at once, unless no link lasts.

        ``left``: this side has ended it, to have another one.
        """
        self._pool.rotate(-1)
        self.address = None
        self._short_links = self._short_links + 1 if not left and now - self._connected_at < self._pause else 0
        if not self._max_failures:
            return
        if self._short_links <= len(self._pool):
            self.address = self._pool[0]
        else:
            self._wait(now)

    def failed(self, reason: str, now: float, *, refused: bool = False) -> None:
        """The last address is unreachable, or its handshake failed. ``refused``: for its credentials."""
        self._refusals[self._pool[0].url] += refused
        self.attempts.append((self._pool[0].url, reason))
        self._pool.rotate(-1)
        self.address = None
        self._failures += 1
        self._start_clock(now)
        if not self._repeats:
            if len(self.attempts) < len(self._pool):
                self.address = self._pool[0]
            self.refused = self._refusals.total() == len(self.attempts)
            return
        self.refused = max(self._refusals.values()) >= MAX_REFUSALS
        is_over = 0 <= self._max_failures * len(self._pool) <= self._failures
        if is_over or self.refused:
            self._timers.clear()
        elif self._failures % len(self._pool):
            self.address = self._pool[0]
        else:
            self._wait(now)

    def hurry(self) -> None:
        """End the pause, if there is one: dial now."""
        if Timer.RECONNECT in self._timers:
            self._timers.stop(Timer.RECONNECT)
            self.address = self._pool[0]

    def spread(self) -> float:
        """A random time in seconds, after which this client may leave a server that all of its clients leave."""
        return (self._pause + self._jitter) * self._random()

    @property
    def gave_up(self) -> bool:
        """Dialling has ended for good."""
        return self.address is None and Timer.RECONNECT not in self._timers

    def handle_timeout(self, now: float) -> bool:
        """Time has passed: perhaps the pause is over. True: the time for the first connection is over."""
        self._start_clock(now)
        expired = self._timers.expired(now)
        if Timer.RECONNECT in expired:
            self.address = self._pool[0]
        if Timer.FIRST_CONNECTION in expired:
            self.attempts.append((self._pool[0].url, "the time for the first connection is over"))
            return True
        return False

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in the caller's seconds."""
        return self._timers.next()

    def _start_clock(self, now: float) -> None:
        """The time for the first connection begins with the first time that is known."""
        if self._first_until is not None:
            self._timers.set(Timer.FIRST_CONNECTION, now + self._first_until)
            self._first_until = None

    def _wait(self, now: float) -> None:
        """Dial again after a pause."""
        self._timers.set(Timer.RECONNECT, now + self._pause + self._jitter * self._random())

    def _ordered(self, addresses: Iterable[Address]) -> list[Address]:
        """The addresses in the order in which they are tried."""
        ordered = list(addresses)
        if not self._keeps_order:
            for last in range(len(ordered) - 1, 0, -1):
                at = int(self._random() * (last + 1))
                ordered[at], ordered[last] = ordered[last], ordered[at]
        return ordered

    def _random(self) -> float:
        """A number from 0 to below 1."""
        # A linear congruential step (Numerical Recipes) is all the randomness that spreading needs.
        self._seed = (self._seed * 1_664_525 + 1_013_904_223) % 2**32
        return self._seed / 2**32


def _place(address: Address) -> Place:
    return address.host, address.port
