"""What servers report of a message on its way (ADR-41): one event for each server, with the steps of the message there.

Rules

* A server that sends the message to others numbers them from 1. Its number and theirs make a path: ``1.2`` is the
  second one to which the first one has sent it. The server to which the message was published has the path ``()``.
* A step of a kind that is newer than this library is left out. So are unknown fields.
* Whatever the bytes, only RemoteProtocolError is raised.

Not here: who listens (``client.publish.tracing``), asking for it (``publish_headers``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jsproto._event import event
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads, shown, text, uint64
from jsproto.grammar.times import Moment, as_datetime, parse_timestamp

TRACE_ONLY: Final = "Nats-Trace-Only"
TRACE_HOP: Final = "Nats-Trace-Hop"
MAX_HOPS: Final = 64
"""How many servers one after another a message may pass. What reports more is not believed."""

KINDS: Final = ("client", "route", "gateway", "system", "leafnode", "jetstream", "account")
"""What a connection of a server is to, by its number in an event."""

Path: TypeAlias = tuple[int, ...]


@event
class TraceIngress:
    """The message arrived from a connection: of ``kind`` (a word of KINDS), number ``cid`` and perhaps a ``name``."""

    kind: str
    cid: int
    name: str
    account: str
    subject: str
    error: str

    def __str__(self) -> str:
        return f"from {_connection(self.kind, self.cid, self.name)}: {self.subject}{_because(self.error)}"


@event
class TraceMapping:
    """A subject mapping gave the message another subject."""

    to: str

    def __str__(self) -> str:
        return f"mapped to {self.to}"


@event
class TraceExport:
    """The message went to another account: exported by a stream of messages, or imported as a service."""

    account: str
    to: str

    def __str__(self) -> str:
        return f"to account {self.account}: {self.to}"


@event
class TraceJetStream:
    """A stream took the message as ``subject``, or left it: interest is missing, or there is an ``error``."""

    stream: str
    subject: str
    no_interest: bool
    error: str

    def __str__(self) -> str:
        if self.no_interest:
            return f"stream {self.stream}: not stored, nobody is interested"
        what = f"not stored{_because(self.error)}" if self.error else f"stored as {self.subject}"
        return f"stream {self.stream}: {what}"


@event
class TraceEgress:
    """The message left to a connection, or stayed because of an ``error``.

    ``hop`` is the path of the server at its other end. ``subscription`` and ``queue`` are of clients alone.
    """

    kind: str
    cid: int
    name: str
    subscription: str
    queue: str
    hop: Path
    error: str

    def __str__(self) -> str:
        of = f", subscription {self.subscription}" if self.subscription else ""
        group = f" of queue {self.queue}" if self.queue else ""
        return f"to {_connection(self.kind, self.cid, self.name)}{of}{group}{_because(self.error)}"


TraceStep: TypeAlias = TraceIngress | TraceMapping | TraceExport | TraceJetStream | TraceEgress


@event
class TraceEvent:
    """What one server reports of a message.

    * ``server``, ``cluster``, ``version``: who reports. ``cluster`` is empty outside of one.
    * ``path``: its place among the servers, ``()`` for the first one.
    * ``hops``: to how many others it has sent the message.
    * ``timestamp``: when it did, in nanoseconds since 1970.
    * ``steps``: what it did with the message, in order.
    """

    server: str
    cluster: str
    version: str
    path: Path
    hops: int
    timestamp: int
    steps: tuple[TraceStep, ...]

    @property
    def time(self) -> Moment:
        """The same moment as a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)

    def __str__(self) -> str:
        cluster = f" of cluster {self.cluster}" if self.cluster else ""
        lines = [f"server {self.server}{cluster} ({self.version})", *(f"  {step}" for step in self.steps)]
        return "\n".join("  " * len(self.path) + line for line in lines)


@event
class Trace:
    """The way of one message, as far as servers reported it. ``str()`` has a line for each step.

    ``events`` are in the order of hops: a server, then those to which it sent the message. ``is_complete``: every
    server to which the message was sent has reported.
    """

    events: tuple[TraceEvent, ...]
    is_complete: bool

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def __str__(self) -> str:
        missing = () if self.is_complete else ("not every server has reported",)
        return "\n".join([*map(str, self.events), *missing])


def trace_of(events: Mapping[Path, TraceEvent]) -> Trace:
    """The trace of what was reported, by path."""
    return Trace(tuple(events[path] for path in sorted(events)), is_complete(events))


def is_complete(events: Mapping[Path, TraceEvent]) -> bool:
    """Whether the first server has reported, and each one to which another has sent the message."""
    return () in events and all(
        (*path, number) in events for path, found in events.items() for number in range(1, found.hops + 1)
    )


def parse_trace(payload: bytes) -> TraceEvent:
    """The event in ``payload``. RemoteProtocolError for anything else."""
    body = loads(payload)
    server, request = _object(body, "server"), _object(body, "request")
    reported = body.get("events")
    if not isinstance(reported, list) or not all(isinstance(each, dict) for each in reported):
        raise RemoteProtocolError("the events of a trace must be a list of objects", payload)
    steps = [read(each) for each in reported if (read := _STEPS.get(str(each.get("type")))) is not None]
    try:
        timestamp = parse_timestamp(text(server, "time"))
    except ValueError:
        raise RemoteProtocolError("a trace with a malformed time stamp", payload) from None
    return TraceEvent(
        text(server, "name"), text(server, "cluster", ""), text(server, "ver"), _path(_hop(request)),
        uint64(body, "hops", 0), timestamp, tuple(steps),
    )  # fmt: skip


def _ingress(body: Mapping[str, Any]) -> TraceStep:
    return TraceIngress(
        _kind(body), uint64(body, "cid", 0), text(body, "name", ""), text(body, "acc", ""), text(body, "subj", ""),
        text(body, "error", ""),
    )  # fmt: skip


def _mapping(body: Mapping[str, Any]) -> TraceStep:
    return TraceMapping(text(body, "to"))


def _export(body: Mapping[str, Any]) -> TraceStep:
    return TraceExport(text(body, "acc", ""), text(body, "to"))


def _jetstream(body: Mapping[str, Any]) -> TraceStep:
    no_interest = body.get("nointerest") is True
    return TraceJetStream(text(body, "stream"), text(body, "subject", ""), no_interest, text(body, "error", ""))


def _egress(body: Mapping[str, Any]) -> TraceStep:
    return TraceEgress(
        _kind(body), uint64(body, "cid", 0), text(body, "name", ""), text(body, "sub", ""), text(body, "queue", ""),
        _path(text(body, "hop", "")), text(body, "error", ""),
    )  # fmt: skip


_STEPS: Final[Mapping[str, Callable[[Mapping[str, Any]], TraceStep]]] = {
    "in": _ingress, "sm": _mapping, "se": _export, "si": _export, "js": _jetstream, "eg": _egress,
}  # fmt: skip


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{name} must be an object, not {shown(value)}")
    return value


def _kind(body: Mapping[str, Any]) -> str:
    number = uint64(body, "kind", 0)
    return KINDS[number] if number < len(KINDS) else f"kind {number}"


def _hop(request: Mapping[str, Any]) -> str:
    """The path of a server, as its request has it in a header. Empty: it is the first one."""
    header = request.get("header")
    values = header.get(TRACE_HOP) if isinstance(header, dict) else None
    if values is None:
        return ""
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        raise RemoteProtocolError(f"{TRACE_HOP} must have one value, not {shown(values)}")
    return values[0]


def _path(hop: str) -> Path:
    numbers: Sequence[str] = hop.split(".") if hop else ()
    if len(numbers) > MAX_HOPS or not all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers):
        raise RemoteProtocolError(f"a hop must be numbers joined by dots, not {shown(hop)}")
    return tuple(map(int, numbers))


def _connection(kind: str, cid: int, name: str) -> str:
    return f"{kind} {name}".rstrip() + f" ({cid})"


def _because(error: str) -> str:
    return f", {error}" if error else ""
