"""A network in memory, the same for the same seed: slow links, and a cluster that loses messages.

Rules:

* Bytes on a link keep their order, may be cut anywhere, and are not lost while the link lives.
* Each direction of each link has random numbers of its own. So what happens to one moves nothing on the others.
* A direction can be held, and can break after a byte. It breaks when what was written before has arrived.
* Messages are lost, duplicated and reordered only inside the cluster, between a server's connections and its streams
  (``ClusterFaults``).

Not here: bandwidth, when links break and are held (``World``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import Any, Final

from jsproto.errors import LocalProtocolError
from jsproto.server.server import RoutedMessage

_MASK: Final = 2**64 - 1


def described(value: Any) -> str:
    """The Python text that makes a dataclass, without the fields that have their defaults."""
    said = [
        (field.name, getattr(value, field.name))
        for field in fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({', '.join(f'{name}={what!r}' for name, what in said)})"


@dataclass(frozen=True, slots=True, repr=False)
class NetworkConditions:
    """How a network behaves. Times are seconds, for one way. Probabilities are 0 to 1.

    * ``latency``: how long bytes take on the link, and messages inside the cluster.
    * ``jitter``: up to so much is added, at random.
    * ``piece``: at most so many bytes arrive at once. 0 cuts nothing.
    * ``loss``: the probability that the cluster loses a message.
    * ``duplication``: the probability that a message arrives twice.
    * ``reordering``: the probability that later messages overtake it, which come within ``delay``.

    Raises:
        LocalProtocolError: a number is negative, or a probability above 1.
    """

    latency: float = 0.0
    jitter: float = 0.0
    piece: int = 0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay: float = 0.05

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.jitter >= 0 and self.delay >= 0 and self.piece >= 0):
            raise LocalProtocolError("latency, jitter, delay and piece must not be negative")
        if not all(0 <= random <= 1 for random in (self.loss, self.duplication, self.reordering)):
            raise LocalProtocolError("loss, duplication and reordering are probabilities: 0 to 1")

    def __repr__(self) -> str:
        return described(self)


class SplitMix64:
    """Numbers that look random and are the same for the same seed (splitmix64)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        """``seed``: any whole number, of which the lower 64 bits count."""
        self._state = seed & _MASK

    def number(self) -> int:
        """The next number, 0 to 2**64 - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def fraction(self) -> float:
        """The next number, from 0 up to, but not including, 1."""
        return (self.number() >> 11) / 2**53

    def happens(self, probability: float) -> bool:
        """Whether an event of that ``probability`` happens this time."""
        return self.fraction() < probability


class WrongGuards:
    """The ``wrong_guards`` of a server role that checks guards as releases before 2.14.4 do: wrongly now and then.

    Each earlier guard of the batch is taken for the one at hand with the same probability (FACTS.md F1.35).
    """

    __slots__ = ("_probability", "_random")

    def __init__(self, seed: int, probability: float = 1 / 128) -> None:
        """The same ``seed`` and the same batches give the same mistakes. ``probability``: 1/128 is that of releases."""
        self._random = SplitMix64(seed)
        self._probability = probability

    def __call__(self, count: int) -> int | None:
        """Which of the ``count`` guards before is taken for the next. None: none is."""
        return next((index for index in range(count) if self._random.happens(self._probability)), None)


class Pipe:
    """One direction of a link: bytes go in with ``send`` and come out with ``arrived``.

    Attributes: ``is_held`` (whether bytes are held back, may be set), ``breaks_after`` (breaks after so many bytes, may
    be set), ``sent`` (how many bytes were written).
    """

    __slots__ = ("_breaks_at", "_conditions", "_pieces", "_random", "breaks_after", "is_held", "sent")

    def __init__(self, conditions: NetworkConditions, random: SplitMix64) -> None:
        """Nothing is under way. ``random`` decides on jitter and sizes of pieces."""
        self._conditions = conditions
        self._random = random
        self._pieces: deque[tuple[float, bytes | None]] = deque()
        self._breaks_at: float | None = None
        self.is_held = False
        self.breaks_after: int | None = None
        self.sent = 0

    def send(self, data: bytes, now: float) -> None:
        """Take bytes that were written at ``now``, in seconds. Those after ``breaks_after`` are lost."""
        limit = self.breaks_after
        if limit is not None and self.sent + len(data) >= limit:
            data = data[: max(limit - self.sent, 0)]
            self._cut(data, now)
            self._breaks_at = self._breaks_at or self._last_arrival(now)
        else:
            self._cut(data, now)

    def _cut(self, data: bytes, now: float) -> None:
        self.sent += len(data)
        longest = self._conditions.piece
        while longest and data:
            size = 1 + self._random.number() % longest
            self._put(data[:size], now)
            data = data[size:]
        if data:
            self._put(data, now)

    def end(self, now: float) -> None:
        """The writer closed its end. What is under way still arrives, then the end."""
        self._put(None, now)

    def deadline(self) -> float | None:
        """When the next piece arrives, or the pipe breaks, in seconds. None: nothing is under way, or it is held."""
        if self.is_held:
            return None
        return self._pieces[0][0] if self._pieces else self._breaks_at

    def is_broken(self, now: float) -> bool:
        """Whether the pipe is broken at ``now``, and all that arrived before was taken."""
        return not self.is_held and self._breaks_at is not None and self._breaks_at <= now and not self._pieces

    def arrived(self, now: float) -> list[bytes | None]:
        """The pieces that arrived since the last call, in order. None among them is the end."""
        pieces: list[bytes | None] = []
        while self._pieces and self._pieces[0][0] <= now and not self.is_held:
            pieces.append(self._pieces.popleft()[1])
        return pieces

    def _put(self, piece: bytes | None, now: float) -> None:
        when = now + self._conditions.latency + self._conditions.jitter * self._random.fraction()
        self._pieces.append((self._last_arrival(when), piece))

    def _last_arrival(self, when: float) -> float:
        return max(when, self._pieces[-1][0]) if self._pieces else when


class ClusterFaults:
    """The way between a server's connections and its streams: a ``MessageBus`` with faults.

    Attributes: ``conditions`` (may be changed), ``lost``, ``doubled`` and ``overtaken`` (how many messages were).
    """

    __slots__ = ("_count", "_latest", "_random", "_under_way", "conditions", "doubled", "lost", "overtaken")

    def __init__(self, conditions: NetworkConditions, random: SplitMix64) -> None:
        """Nothing is under way. ``random`` decides which messages meet a fault."""
        self.conditions = conditions
        self.lost = 0
        self.doubled = 0
        self.overtaken = 0
        self._random = random
        self._count = 0
        self._latest = {True: 0.0, False: 0.0}  # by direction: to a stream, or back
        self._under_way: list[tuple[float, int, RoutedMessage]] = []

    def carry(self, routed: RoutedMessage, now: float) -> None:
        """Take a message, which arrives once, twice or not at all. ``now``: seconds."""
        conditions, random = self.conditions, self._random
        if random.happens(conditions.loss):
            self.lost += 1
            return
        self._put(routed, now)
        if random.happens(conditions.duplication):
            self.doubled += 1
            self._put(routed, now)

    def arrived(self, now: float) -> list[RoutedMessage]:
        """The messages that arrived since the last call, in their order."""
        arrived: list[RoutedMessage] = []
        while self._under_way and self._under_way[0][0] <= now:
            arrived.append(heappop(self._under_way)[2])
        return arrived

    def deadline(self) -> float | None:
        """When the next message arrives, in seconds. None: nothing is under way."""
        return self._under_way[0][0] if self._under_way else None

    def _put(self, routed: RoutedMessage, now: float) -> None:
        conditions, random = self.conditions, self._random
        inwards = routed.to is not None
        when = max(now + conditions.latency + conditions.jitter * random.fraction(), self._latest[inwards])
        if random.happens(conditions.reordering):
            self.overtaken += 1
            when += conditions.delay * random.fraction()
        else:
            self._latest[inwards] = when
        self._count += 1
        heappush(self._under_way, (when, self._count, routed))


class Network:
    """Everything between a client and the streams of a server. ``cluster`` is the ``bus`` of that server."""

    def __init__(self, seed: int = 0, conditions: NetworkConditions | None = None) -> None:
        """``seed`` makes all random choices. ``conditions``: by default no delay and no fault."""
        self.conditions = conditions or NetworkConditions()
        self.cluster = ClusterFaults(self.conditions, SplitMix64(seed ^ _MASK))
        self._seed = SplitMix64(seed).number()
        self._directions = 0

    def link(self) -> tuple[Pipe, Pipe]:
        """The two directions of a new link: from the client to the server, and back."""
        return self._pipe(), self._pipe()

    def _pipe(self) -> Pipe:
        self._directions += 1
        return Pipe(self.conditions, SplitMix64(SplitMix64(self._seed ^ self._directions).number()))
