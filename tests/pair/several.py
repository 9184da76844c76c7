"""Several clients of one server, over a simulated network: pairs that share one world.

Not here: what they do (``test_locks``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jsproto.client.bucket.bucket import Bucket
from jsproto.client.connection.connect_options import connect_options
from jsproto.testing.faults import Fault
from jsproto.testing.pair import Pair
from jsproto.testing.world import MAX_EXCHANGES, StuckError, World
from jsproto.ticket import Ticket
from jsproto.timers import earliest
from tests.harness import check_no_fault

T = TypeVar("T")
MAX_STEPS = 10_000


class Several:
    """So many clients with the bucket B, which the first one makes.

    Attributes: ``pairs``, ``buckets``, ``world``, ``stalled`` (the numbers of clients that do nothing just now).
    """

    def __init__(self, count: int = 2, *, faults: list[Fault] | None = None, **options: Any) -> None:
        settings = connect_options(reconnect_time_wait=0.1, reconnect_jitter=0.0, max_reconnect_attempts=-1, timeout=2)
        self.world = World(faults=faults or ())
        self.pairs = [Pair(settings, token=bytes([number] * 16)) for number in range(1, count + 1)]
        self.stalled: set[int] = set()
        for pair in self.pairs:
            pair.world = self.world
        for pair in self.pairs:
            self.wait(pair.client.connected)
        first = self.pairs[0]
        self.wait(first.js.create_bucket("B", now=self.now, **options))
        self.buckets: list[Bucket] = [self.wait(pair.js.bucket("B", now=self.now)) for pair in self.pairs]

    @property
    def now(self) -> float:
        return self.world.now

    def exchange(self) -> None:
        """Do everything that is due at this moment."""
        for _ in range(MAX_EXCHANGES):
            happened = [each() for pair in self._awake() for each in (pair._dial, pair._client, pair._receive)]
            if not any([*happened, self.world.exchange()]):
                break
        else:
            raise StuckError("there is no end to what happens in one moment")
        for pair in self.pairs:
            check_no_fault(pair.events)

    def advance(self, seconds: float) -> None:
        """Let time pass, with a step at each deadline on the way."""
        self._go(self.now + seconds, lambda: False)
        self.exchange()

    def wait(self, ticket: Ticket[T], within: float = 600.0) -> T:
        """Step until the ticket has its answer."""
        self._go(self.now + within, lambda: ticket.done)
        return ticket.result()

    def do(self, client: int, verb: Callable[..., Ticket[T]], *arguments: Any, **options: Any) -> T:
        """A verb of a client, waited for."""
        return self.wait(verb(*arguments, now=self.now, **options))

    def cut(self, client: int) -> None:
        """Break a client's link."""
        link = self.pairs[client]._link
        if link is not None:
            self.world.break_link(link)

    def _awake(self) -> list[Pair]:
        return [pair for number, pair in enumerate(self.pairs) if number not in self.stalled]

    def _go(self, end: float, until: Callable[[], bool]) -> None:
        self.exchange()
        for _ in range(MAX_STEPS):
            if until():
                return
            when = earliest([self.world.deadline(), *(pair.client.deadline() for pair in self._awake())])
            if when is None or when > end:
                self.world.now = end
                return
            self.world.now = max(self.now, when)
            self.exchange()
        raise StuckError("too many steps")
