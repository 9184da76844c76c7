"""One server and the links of its clients in simulated time, with a network that behaves badly and faults on a list.

Whoever holds a client holds a ``Link``: it writes with ``send``, and takes what arrived with ``received``. Time is
``world.now``, which the holder moves: to ``deadline()`` or earlier. Then ``run()`` does everything that is due.

Rules:

* The same seed, conditions, faults and calls give the same bytes at the same times. ``digest`` proves it.
* Each direction of a link has random numbers of its own, so leaving out a fault moves no others.
* A break of a link reaches both sides, and what is under way is lost.
* What happened is in ``log``.

Not here: the clients (``Pair``, and the simulations of ``jsproto_io.testing``), which faults there are (``faults``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from struct import Struct
from typing import Any, Final, NamedTuple

from jsproto.errors import Error
from jsproto.server.replication.replicas import Lag
from jsproto.server.server import Server
from jsproto.server.session import ServerSession
from jsproto.server.store.stream import Stored, Stream
from jsproto.testing.faults import IN_CLUSTER, Fault
from jsproto.testing.network import Network, NetworkConditions, Pipe

TOKEN: Final = bytes(range(16))
MAX_EXCHANGES: Final = 10_000  # in one moment: more means endless messages, or a deadline that does not move
MAX_LOG: Final = 100_000  # entries
BROKEN: Final = "the link broke"
_SHOWN: Final = 70  # bytes of a piece in the log
_HEAD: Final = Struct("<dIB")
_NEVER: Final = float("inf")


class StuckError(Error):
    """What the caller waits for does not happen within the bounds of the simulation."""


class Entry(NamedTuple):
    """One line of the log, at ``when`` (seconds): bytes that arrived on a ``link``, or what happened, in words.

    ``is_fault``: it is about a fault, or the break of a link.
    """

    when: float
    link: int
    what: str
    data: bytes = b""
    is_fault: bool = False

    def __str__(self) -> str:
        if self.what not in ("up", "down"):
            return f"{self.when:12.6f}  {self.what}"
        arrow = "->" if self.what == "up" else "<-"
        if not self.data:
            return f"{self.when:12.6f}  link {self.link} {arrow} the end"
        shown = repr(self.data[:_SHOWN])[2:-1] + ("..." if len(self.data) > _SHOWN else "")
        return f"{self.when:12.6f}  link {self.link} {arrow} {len(self.data)} bytes: {shown}"


class Link:
    """One connection of a client, from the client's side.

    Attributes: ``number`` (in the order of dialing, from 1 on), ``host`` (which dialed it), ``up``, ``down`` (its
    directions), ``session`` (the server's end, None until it is accepted), ``error`` (why it broke, None while it
    lives), ``on_receive`` (called when bytes have come, may be set).
    """

    __slots__ = (
        "_has_ended", "_ignores", "_inbox", "_world", "down", "error", "host", "number", "on_receive", "session", "up"
    )  # fmt: skip

    def __init__(self, world: World, number: int, host: str, up: Pipe, down: Pipe) -> None:
        self.number = number
        self.host = host
        self.up = up
        self.down = down
        self.session: ServerSession | None = None
        self.error: str | None = None
        self.on_receive: Callable[[], None] | None = None
        self._world = world
        self._inbox: list[bytes | None] = []
        self._has_ended = False  # the server has closed its end
        self._ignores = False  # the client has gone

    def send(self, data: bytes) -> None:
        """Write bytes to the server. On a link that broke, or that the client has left, they are lost."""
        if self.error is None and not self._ignores:
            self.up.send(data, self._world.now)

    def end(self) -> None:
        """Close the client's end: the server gets what is under way, then the end."""
        if self.error is None and not self._ignores:
            self.up.end(self._world.now)

    def abort(self) -> None:
        """Leave at once: the server gets what is under way, then the end. The client gets nothing any more."""
        self.end()
        self._ignores = True
        self._inbox.clear()
        self.on_receive = None

    def received(self) -> list[bytes | None]:
        """Take what arrived since the last call, in order. None among it: the server closed its end."""
        inbox, self._inbox = self._inbox, []
        return inbox


class _Loss:
    """Breaks ``pipe`` after what it has carried, when ``stream`` stores something."""

    def __init__(self, stream: Stream, pipe: Pipe) -> None:
        self._stream = stream
        self._pipe = pipe

    def stored(self, message: Stored, now: float) -> None:
        self._pipe.breaks_after = self._pipe.sent
        self._stream.followers.remove(self)

    def removed(self, message: Stored, now: float) -> None:
        """Nothing happens."""


class World:
    """A server, the links of its clients, and what goes wrong.

    Attributes:

    * ``server``: the role. It may be looked at and changed at any time.
    * ``network``: makes links, and is the way inside the cluster.
    * ``now``: seconds. The holder sets it, never to an earlier time.
    * ``links``: the open ones.
    * ``log``: what happened, oldest first, at most ``MAX_LOG`` entries.
    * ``is_up``: whether the server runs, so that it can be dialed.
    * ``on_host``: called with a host's name and whether it is up, when a fault kills it or lets it start again.
    """

    def __init__(
        self,
        seed: int = 0,
        conditions: NetworkConditions | None = None,
        faults: Iterable[Fault] = (),
        *,
        network: Network | None = None,
        server: Server | None = None,
        token: bytes = TOKEN,
        now: float = 0.0,
    ) -> None:
        """A server without clients.

        ``seed``, ``conditions``: of the network, unless there is one already. ``server``: one of the caller's, with the
        bus that it was made with. Without it, one of the current release. Its bus is the network's cluster, unless
        neither conditions nor faults ask for it. ``token``: the entropy of a server made here.
        """
        self.network = network or Network(seed, conditions)
        self.now = now
        self.links: list[Link] = []
        self.log: deque[Entry] = deque(maxlen=MAX_LOG)
        self.is_up = True
        self.on_host: Callable[[str, bool], None] | None = None
        self._faults = tuple(faults)
        self._agenda = sorted(
            [(fault.at, index, True) for index, fault in enumerate(self._faults) if fault.kind != "cut_after"]
            + [(fault.at + fault.lasts, index, False) for index, fault in enumerate(self._faults) if fault.lasts]
        )
        self._active: set[int] = set()  # indices of faults
        self._leaderless: dict[int, list[str]] = {}
        self._calm = self.network.cluster.conditions
        self._number = 0
        self._paused = False
        self._hash = sha256()
        asks = any((self._calm.loss, self._calm.duplication, self._calm.reordering))
        asks = asks or network is not None or any(fault.kind in IN_CLUSTER for fault in self._faults)
        self.server = server or Server(token=token, bus=self.network.cluster if asks else None)

    # -- for clients ---------------------------------------------------------------------------------------------------

    def dial(self, host: str = "") -> Link | None:
        """Open a link from ``host`` to the server. None: nobody listens there."""
        if not self.is_up:
            self.note(f"{host or 'a client'} dials, and is refused")
            return None
        self._number += 1
        link = Link(self, self._number, host, *self.network.link())
        self.links.append(link)
        for fault in self._faults:
            if fault.kind == "cut_after" and fault.concerns(link.number):
                pipe = link.up if fault.direction == "up" else link.down
                pipe.breaks_after = min(fault.byte, fault.byte if pipe.breaks_after is None else pipe.breaks_after)
        self._hold(link)
        self.note(f"link {link.number} is dialed by {host or 'a client'}")
        return link

    # -- time ----------------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """The next moment at which anything is due, in seconds. None: there is none."""
        first = self._agenda[0][0] if self._agenda else _NEVER
        is_listening = self.is_up and not self._paused
        if is_listening:
            when = self.server.deadline()
            if when is not None and when < first:
                first = when
        for link in self.links:
            when = link.down.deadline()
            if when is not None and when < first:
                first = when
            if is_listening:
                if link.session is None or link.session.wants_send:
                    return self.now
                when = link.up.deadline()
                if when is not None and when < first:
                    first = when
        return None if first == _NEVER else first

    def run(self) -> None:
        """Do everything that is due at ``now``.

        Raises:
            StuckError: there is no end to it.
        """
        for _ in range(MAX_EXCHANGES):
            if not self.exchange():
                return
        raise StuckError("there is no end to what happens in one moment")

    def exchange(self) -> bool:
        """Do what is due at ``now``, once. Returns whether anything happened, so that more may be due."""
        happened = self._begin_and_end_faults()
        if self.is_up and not self._paused:
            when = self.server.deadline()
            if when is not None and when <= self.now:
                self.server.handle_timeout(self.now)
                happened = True
            for link in list(self.links):
                happened |= self._carry_up(link)
            for link in list(self.links):
                happened |= self._write(link)
        for link in list(self.links):
            happened |= self._carry_down(link)
        return happened

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, with everything that is due on the way.

        Raises:
            StuckError: there is no end to what is due in one moment.
        """
        end = self.now + seconds
        self.run()
        while (when := self.deadline()) is not None and when <= end:
            self.now = max(self.now, when)
            self.run()
        self.now = end
        self.run()

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    @property
    def healed_at(self) -> float:
        """When the last fault will have ended, in seconds: those that end, and do not wait for a byte."""
        return max((when for when, _, _ in self._agenda if when != _NEVER), default=self.now)

    def heal(self) -> None:
        """End all faults at once, and let no other begin."""
        self._agenda.clear()
        for index in sorted(self._active):
            self._end(index)
        self._faults = ()
        for link in self.links:
            link.up.breaks_after = link.down.breaks_after = None
        self.note("all faults have ended")

    def break_link(self, link: Link, reason: str = BROKEN) -> None:
        """Break a link. What is under way on it is lost. No effect on one that is not open."""
        if link not in self.links:
            return
        self.links.remove(link)
        link.error = reason
        self._note_fault(f"link {link.number} breaks")
        if link.session is not None:
            link.session.receive_eof()
        if link.on_receive is not None:
            link.on_receive()

    def lose_answer(self, link: Link, name: str) -> None:
        """Break the link when the stream ``name`` next stores something, before its answer leaves the server.

        What was written on the link before still arrives.

        Raises:
            KeyError: there is no such stream.
        """
        stream = self.server.stream(name)
        stream.followers.append(_Loss(stream, link.down))

    def leave(self, host: str) -> None:
        """The host ends: it leaves all its links at once."""
        for link in self.links:
            if link.host == host:
                link.abort()

    # -- what happened -------------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        """A hash of all bytes that arrived, with their times, links and directions."""
        return self._hash.hexdigest()

    def timeline(self, entries: int = MAX_LOG) -> str:
        """The last ``entries`` of the log as text, one a line."""
        return "\n".join(map(str, list(self.log)[-entries:]))

    # -- inside: links -------------------------------------------------------------------------------------------------

    def _carry_up(self, link: Link) -> bool:
        happened = False
        session = link.session
        if session is None:
            session = link.session = self.server.connect(self.now)
            happened = True
        for piece in link.up.arrived(self.now):
            happened = True
            self._record(link, 0, "up", piece)
            if piece is None:
                session.receive_eof()
            else:
                session.receive_data(piece, self.now)
        if link.up.is_broken(self.now):
            self.break_link(link)
            return True
        return happened

    def _write(self, link: Link) -> bool:
        session = link.session
        if session is None or link._has_ended:
            return False
        happened = session.wants_send
        for data in session.data_to_send():
            link.down.send(data, self.now)
        if session.wants_close:
            link._has_ended = True
            link.down.end(self.now)
        return happened or link._has_ended

    def _carry_down(self, link: Link) -> bool:
        pieces = link.down.arrived(self.now)
        for piece in pieces:
            self._record(link, 1, "down", piece)
        if pieces and not link._ignores:
            link._inbox += pieces
            if link.on_receive is not None:
                link.on_receive()
        if None in pieces:
            self.links.remove(link)
        elif link.down.is_broken(self.now):
            self.break_link(link)
            return True
        return bool(pieces)

    def _hold(self, link: Link) -> None:
        """Hold the directions that a fault wants held, and let go of the others."""
        held = [
            fault.direction for fault in self._lasting() if fault.kind == "partition" and fault.concerns(link.number)
        ]
        link.up.is_held = "up" in held or "both" in held
        link.down.is_held = "down" in held or "both" in held

    # -- inside: faults ------------------------------------------------------------------------------------------------

    def _begin_and_end_faults(self) -> bool:
        happened = False
        while self._agenda and self._agenda[0][0] <= self.now:
            _, index, is_begin = self._agenda.pop(0)
            if is_begin:
                self._begin(index)
            else:
                self._end(index)
            happened = True
        return happened

    def _begin(self, index: int) -> None:
        fault = self._faults[index]
        self._note_fault(f"{fault!r} begins" if fault.lasts else repr(fault))
        self._active.add(index)
        match fault.kind:
            case "cut":
                for link in [one for one in self.links if fault.concerns(one.number)]:
                    self.break_link(link)
            case "restart" | "crash":
                self.is_up = False
                for link in list(self.links):
                    self.break_link(link)
            case "leaderless":
                self._leaderless[index] = [name for name in self.server.api.streams if fault.stream in ("", name)]
                for name in self._leaderless[index]:
                    self.server.lose_leader(name)
            case "kill":
                self.leave(fault.host)
                if self.on_host is not None:
                    self.on_host(fault.host, False)
            case _:
                self._apply(fault.kind)
        if not fault.lasts:
            self._end(index)

    def _end(self, index: int) -> None:
        fault = self._faults[index]
        self._active.discard(index)
        if fault.lasts:
            self._note_fault(f"{fault!r} ends")
        match fault.kind:
            case "cut":
                pass
            case "restart" | "crash":
                since = fault.at - fault.amount if fault.kind == "crash" else None
                self.server.restart(self.now, unsynced_since=since)
                self.is_up = not any(one.kind in ("restart", "crash") for one in self._lasting())
            case "leaderless":
                for name in self._leaderless.pop(index):
                    if name in self.server.api.streams:
                        self.server.elect_leader(name, self.now)
            case "kill":
                is_up = not any(one.kind == "kill" and one.host == fault.host for one in self._lasting())
                if is_up and self.on_host is not None:
                    self.on_host(fault.host, True)
            case _:
                self._apply(fault.kind)

    def _lasting(self) -> list[Fault]:
        return [self._faults[index] for index in sorted(self._active)]

    def _apply(self, kind: str) -> None:
        """Let the world be as the faults of this kind that last now want it."""
        lasting = [fault for fault in self._lasting() if fault.kind == kind]
        match kind:
            case "partition":
                for link in self.links:
                    self._hold(link)
            case "pause":
                self._paused = bool(lasting)
            case "lag":
                lags = {"": self.server.context.apply_delay} | {fault.stream: fault.amount for fault in lasting}
                for name, replica_set in self.server.api.replica_sets.items():
                    for replica in replica_set.replicas:
                        replica.lag = Lag(seconds=lags.get(name, lags[""]))
            case _:  # inside the cluster
                changed: Any = {kind: lasting[-1].amount if lasting else getattr(self._calm, kind)}
                cluster = self.network.cluster
                cluster.conditions = replace(cluster.conditions, **changed)

    # -- inside: the log -----------------------------------------------------------------------------------------------

    def _record(self, link: Link, direction: int, what: str, piece: bytes | None) -> None:
        self._hash.update(_HEAD.pack(self.now, link.number, direction))
        self._hash.update(piece or b"")
        self.log.append(Entry(self.now, link.number, what, piece or b""))

    def note(self, words: str) -> None:
        """Write a line into the log."""
        self.log.append(Entry(self.now, 0, words))

    def _note_fault(self, words: str) -> None:
        self.log.append(Entry(self.now, 0, words, is_fault=True))
