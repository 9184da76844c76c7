"""Advisories: what servers tell whoever listens. Here: that they gave up a batch (ADR-50, Abandonment Advisories), or a
message of a consumer.

Two spellings of one body are read, told apart by ``type``, and parse to the same value:

* released (nats-server from 2.12, the default when writing): ``io.nats.jetstream.advisory.v1.stream_batch_abandoned``.
* draft (the text of ADR-50): ``io.nats.jetstream.advisory.v1.batch_abandoned``.

Both travel on ``$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.<stream>``, in a JetStream domain too. Rules: an unknown
reason is kept as it is. Unknown fields are ignored. Whatever the bytes, only RemoteProtocolError is raised. Released
encodings are byte for byte what nats-server 2.15.1 sends.

nats-server 2.15.1 sends one for atomic batches alone, and leaves out those that fail a check at their commit.

A consumer gives up a message after ``max_deliver`` deliveries, or when a client terminates it. The advisory has its
stream sequence alone.

Not here: sending one (the server role), who wants to know (``jsproto.client.publish.advisories``,
``jsproto.client.consume.dead_letters``).
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from jsproto._event import event
from jsproto.errors import RemoteProtocolError
from jsproto.grammar.acks import Dialect
from jsproto.grammar.bodies import escaped, loads, text, uint64
from jsproto.grammar.subjects import check_name
from jsproto.grammar.times import Moment, as_datetime, format_timestamp, parse_timestamp

AbandonReason: TypeAlias = Literal["timeout", "incomplete", "unsupported", "large"]
"""Why servers abandon batches: 10 s of silence, a gap or an end that cannot be, an API level they do not have, or
more messages than they allow (``large`` is no part of ADR-50)."""

RELEASED_TYPE: Final = "io.nats.jetstream.advisory.v1.stream_batch_abandoned"
DRAFT_TYPE: Final = "io.nats.jetstream.advisory.v1.batch_abandoned"

_SUBJECT: Final = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED."


@event
class BatchAbandoned:
    """A server gave up batch ``batch_id`` to ``stream``. Nothing of it was stored.

    ``reason`` is an AbandonReason, or a word newer than this library. ``id`` is the advisory's own, ``timestamp``
    nanoseconds since the epoch.
    """

    stream: str
    batch_id: str
    reason: str
    id: str
    timestamp: int
    domain: str | None = None

    @property
    def time(self) -> Moment:
        """The same moment as a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)


def batch_abandoned_subject(stream: str) -> str:
    """The subject of such advisories about ``stream``. BadSubjectError for a bad stream name."""
    return _SUBJECT + check_name(stream)


def parse_batch_abandoned(payload: bytes) -> BatchAbandoned:
    """The advisory in ``payload``, in either spelling. RemoteProtocolError for anything else."""
    body = loads(payload)
    if body.get("type") not in (RELEASED_TYPE, DRAFT_TYPE):
        raise RemoteProtocolError("not an advisory about an abandoned batch", payload)
    try:
        timestamp = parse_timestamp(text(body, "timestamp"))
    except ValueError:
        raise RemoteProtocolError("an advisory with a malformed time stamp", payload) from None
    domain = None if body.get("domain") is None else text(body, "domain")
    return BatchAbandoned(
        text(body, "stream"), text(body, "batch"), text(body, "reason"), text(body, "id"), timestamp, domain
    )


def encode_batch_abandoned(advisory: BatchAbandoned, dialect: Dialect = "released") -> bytes:
    """The advisory as servers write it, in one of the two spellings.

    LocalProtocolError when its time stamp is outside RFC 3339.
    """
    fields = {
        "type": RELEASED_TYPE if dialect == "released" else DRAFT_TYPE,
        "id": advisory.id,
        "timestamp": format_timestamp(advisory.timestamp),
        "stream": advisory.stream,
        "domain": advisory.domain,
        "batch": advisory.batch_id,
        "reason": advisory.reason,
    }
    pieces = [f'"{name}":{escaped(value)}' for name, value in fields.items() if value is not None]
    # Text that UTF-8 cannot encode can only be an echo of what a peer sent: it becomes question marks.
    return ("{" + ",".join(pieces) + "}").encode("utf-8", "replace")


GiveUpReason: TypeAlias = Literal["max_deliver", "terminated"]
"""Why a consumer gives up a message."""

_GIVEN_UP: Final[dict[str, tuple[str, GiveUpReason]]] = {
    "io.nats.jetstream.advisory.v1.max_deliver": ("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES", "max_deliver"),
    "io.nats.jetstream.advisory.v1.terminated": ("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED", "terminated"),
}


@event
class MessageGivenUp:
    """A consumer has given up message ``seq`` of its stream.

    ``note`` is the reason that a client gave with ``term``. ``id`` is the advisory's own, ``timestamp`` nanoseconds
    since the epoch.
    """

    stream: str
    consumer: str
    seq: int
    deliveries: int
    reason: GiveUpReason
    note: str | None
    id: str
    timestamp: int

    @property
    def time(self) -> Moment:
        """The same moment as a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)


def given_up_subjects(stream: str, consumer: str | None = None) -> list[str]:
    """The subjects of such advisories about ``stream``: of one consumer, or of all (None), with a wildcard."""
    name = "*" if consumer is None else check_name(consumer, "consumer")
    return [f"{subject}.{check_name(stream)}.{name}" for subject, _ in _GIVEN_UP.values()]


def parse_given_up(payload: bytes) -> MessageGivenUp:
    """The advisory in ``payload``. RemoteProtocolError for anything else."""
    body = loads(payload)
    kind = _GIVEN_UP.get(text(body, "type", ""))
    if kind is None:
        raise RemoteProtocolError("not an advisory about a message that was given up", payload)
    try:
        timestamp = parse_timestamp(text(body, "timestamp"))
    except ValueError:
        raise RemoteProtocolError("an advisory with a malformed time stamp", payload) from None
    note = None if body.get("reason") is None else text(body, "reason")
    return MessageGivenUp(
        text(body, "stream"), text(body, "consumer"), uint64(body, "stream_seq"), uint64(body, "deliveries"), kind[1],
        note, text(body, "id"), timestamp,
    )  # fmt: skip
