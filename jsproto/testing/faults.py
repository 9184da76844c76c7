"""What goes wrong in a simulated world, as data: a list of faults is a schedule that can be printed and shortened.

Rules:

* A fault says what happens and when. ``World`` does it.
* ``random_faults`` makes the same list from the same seed.
* The ``repr`` of a fault is the Python text that makes it.

Not here: latency and jitter, which are always there (``NetworkConditions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from jsproto.errors import LocalProtocolError
from jsproto.testing.network import SplitMix64, described

FaultKind: TypeAlias = Literal[
    "cut", "cut_after", "partition", "pause", "restart", "crash", "leaderless", "lag", "loss", "duplication",
    "reordering", "kill",
]  # fmt: skip
Direction: TypeAlias = Literal["up", "down", "both"]

IN_CLUSTER: Final = frozenset({"loss", "duplication", "reordering"})
"""The kinds for which messages have to pass a cluster: see ``World``."""
MAX_FAULTS: Final = 5
MAX_LINKS: Final = 4
MAX_BYTE: Final = 3000
LONGEST: Final = 4.0  # seconds that a fault of ``random_faults`` lasts, at most
MOST_LIKELY: Final = 0.3  # the highest probability of a fault inside the cluster
_ON_LINKS: Final = ("cut", "cut_after", "cut_after", "partition")  # byte positions are many: they come twice as often
_ON_SERVER: Final = ("pause", "restart")


@dataclass(frozen=True, slots=True, repr=False)
class Fault:
    """One fault. Times are seconds.

    ``kind``:

    * ``cut``: the link breaks. What is under way on it is lost.
    * ``cut_after``: the link breaks when ``byte`` bytes of one ``direction`` have arrived.
    * ``partition``: nothing arrives, in one ``direction`` or in both. What was written waits.
    * ``pause``: the server does nothing, and its links stay.
    * ``restart``: the server ends in an orderly way, and comes again. See ``Server.restart``.
    * ``crash``: the server ends at once, and comes again without what was not on its disk. See ``Server.restart``.
    * ``leaderless``: a stream has no leader.
    * ``lag``: the replicas of a stream lag by ``amount`` seconds.
    * ``loss``, ``duplication``, ``reordering``: happen to messages inside the cluster, with the probability ``amount``.
    * ``kill``: a host of the application ends at once, and is started again when no such fault lasts.

    ``at``: when it begins. ``lasts``: how long it lasts. ``link``: the number of the link, in the order of dialing from
    1 on. 0 is all of them. ``byte``: see above. ``direction``: ``up`` is from a client to the server. ``stream``: its
    name. Empty is all that exist. ``host``: the application's host, as the simulation names it. ``amount``: see above.

    Raises:
        LocalProtocolError: the kind or the direction is unknown, a number is negative, or ``amount`` is no probability.
    """

    kind: FaultKind
    at: float = 0.0
    lasts: float = 0.0
    link: int = 0
    byte: int = 0
    direction: Direction = "both"
    stream: str = ""
    host: str = ""
    amount: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise LocalProtocolError(f"there is no fault {self.kind!r}")
        if self.direction not in get_args(Direction) or (self.kind == "cut_after" and self.direction == "both"):
            raise LocalProtocolError(f"a fault {self.kind} has no direction {self.direction!r}")
        if not (self.at >= 0 and self.lasts >= 0 and self.link >= 0 and self.byte >= 0 and self.amount >= 0):
            raise LocalProtocolError("the numbers of a fault must not be negative")
        if self.kind in IN_CLUSTER and self.amount > 1:
            raise LocalProtocolError("loss, duplication and reordering are probabilities: 0 to 1")

    def __repr__(self) -> str:
        return described(self)

    def concerns(self, number: int) -> bool:
        """Whether it is about the link with that number."""
        return self.link in (0, number)


def random_faults(
    seed: int,
    *,
    seconds: float = 2.0,
    links: int = MAX_LINKS,
    size: int = MAX_BYTE,
    streams: Sequence[str] = (),
    replicated: Sequence[str] = (),
    hosts: Sequence[str] = (),
    cluster: bool = False,
    crashes: bool = False,
    most: int = MAX_FAULTS,
) -> list[Fault]:
    """Faults that depend on ``seed`` alone: none, or up to ``most``, in the order of their beginnings.

    ``seconds``: they begin within so many. ``links``: they concern the links up to this number. ``size``: a link breaks
    within so many bytes. ``streams``: those that may lose their leader. ``replicated``: those whose replicas may lag.
    ``hosts``: those of the application that may be killed. ``cluster``: whether messages may be lost inside the
    cluster. ``crashes``: whether the server may lose what was not on its disk.
    """
    random = SplitMix64(SplitMix64(seed).number() ^ 0xFA17)
    kinds: list[FaultKind] = [*_ON_LINKS, *_ON_SERVER]
    if crashes:
        kinds.append("crash")
    if streams:
        kinds.append("leaderless")
    if replicated:
        kinds.append("lag")
    if hosts:
        kinds += ["kill", "kill"]
    if cluster:
        kinds += sorted(IN_CLUSTER)  # type: ignore[arg-type]
    found = []
    for _ in range(random.number() % (most + 1)):
        kind = kinds[random.number() % len(kinds)]
        at, lasts = round(seconds * random.fraction(), 3), round(LONGEST * random.fraction() ** 2, 3)
        link, byte = 1 + random.number() % links, 1 + random.number() % size
        direction = _direction(random, kind)
        amount = round(random.fraction(), 3)
        name = random.number()
        match kind:
            case "cut":
                found.append(Fault(kind, at, link=link))
            case "cut_after":
                found.append(Fault(kind, link=link, byte=byte, direction=direction))
            case "partition":
                found.append(Fault(kind, at, lasts, link, direction=direction))
            case "leaderless":
                found.append(Fault(kind, at, lasts, stream=streams[name % len(streams)]))
            case "lag":
                found.append(Fault(kind, at, lasts, stream=replicated[name % len(replicated)], amount=amount))
            case "loss" | "duplication" | "reordering":
                found.append(Fault(kind, at, lasts, amount=round(MOST_LIKELY * amount, 3)))
            case "kill":
                found.append(Fault(kind, at, lasts, host=hosts[name % len(hosts)]))
            case _:  # of the server
                found.append(Fault(kind, at, lasts))
    return sorted(found, key=lambda fault: fault.at)


def _direction(random: SplitMix64, kind: FaultKind) -> Direction:
    directions: tuple[Direction, ...] = ("up", "down") if kind == "cut_after" else ("up", "down", "both")
    return directions[random.number() % len(directions)]
