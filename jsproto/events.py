"""What a session tells the application: facts, not answers (answers are tickets).

Rules: events are immutable to the type checker, and free of payloads, secrets and state. One that is lost costs news
alone.
"""

from __future__ import annotations

from typing import TypeAlias

from jsproto._event import event
from jsproto.errors import APIError, Error, InternalError
from jsproto.grammar.config import ServerInfo


@event
class Connected:
    """The handshake is complete."""

    url: str
    server: ServerInfo


@event
class Disconnected:
    """The link is gone. ``error`` says why, and is None after a close of our own."""

    error: Error | None


@event
class ServerInfoChanged:
    """The server sent INFO again (cluster topology, lame-duck mode)."""

    server: ServerInfo


@event
class LameDuckMode:
    """The server ``url`` is about to go, and will close its connections one by one.

    If there is another server, the connection moves there before, at a moment when answers and batches are complete.
    """

    url: str


@event
class ServerReportedError:
    """The server sent ``-ERR``. ``fatal``: it closes the connection after it."""

    text: str
    fatal: bool


@event
class SlowConsumer:
    """A subscription's buffer was full: messages were dropped since it was last drained.

    Told once for each time the buffer fills up. ``dropped`` counts over the life of the subscription.
    """

    subject: str
    dropped: int


@event
class MessageTooLarge:
    """A message that waited for a link was dropped: this server takes ``limit`` bytes in one, and it has ``size``.

    The last server took more. A request with such a message fails with MaxPayloadError.
    """

    subject: str
    size: int
    limit: int


@event
class FlowRateChanged:
    """The server acknowledges a fast-ingest batch every ``msgs`` messages from ``sequence`` on."""

    batch_id: str
    sequence: int
    msgs: int
    previous: int


@event
class GapReported:
    """The server missed messages of a fast-ingest batch: ``first_missing`` to ``last_missing``, both lost."""

    batch_id: str
    first_missing: int
    last_missing: int


@event
class MessageRefused:
    """The server left message ``sequence`` of a fast-ingest batch out."""

    batch_id: str
    sequence: int
    error: APIError


@event
class UnexpectedMessage:
    """A message other than what was awaited (stale, duplicate, malformed, forged). It changed nothing."""

    subject: str
    reason: str


@event
class ConsumerSilent:
    """A consumer was silent for ``seconds``: even heartbeats that it owes stayed away. Told once for each silence."""

    stream: str
    consumer: str
    seconds: float


@event
class DeliveriesLost:
    """A consumer's deliveries ``first`` to ``last``, by its own count, were lost on the way.

    Where messages are acknowledged they will come again.
    """

    stream: str
    consumer: str
    first: int
    last: int


@event
class ConsumerRestarted:
    """A consumer counts its deliveries anew: it was reset, or lost with its server and made again.

    Number ``expected`` was next, ``found`` came: messages may come that came before.
    """

    stream: str
    consumer: str
    expected: int
    found: int


@event
class OrderedConsumerRecreated:
    """An ordered consumer is made anew, to go on after stream sequence ``last_seq``. Nothing is lost, or comes twice.

    ``reason``: what was wrong with the one before. Where the stream has gone as well, StreamRecreated follows.
    """

    stream: str
    consumer: str
    last_seq: int
    reason: str


@event
class StreamRecreated:
    """A stream that is read in order was deleted and made again: the first message of the new one comes next.

    ``last_seq``: the sequence up to which the old one was received. What it had after that is gone. A user who is
    forbidden to ask for the stream's information misses this, and reading goes on after ``last_seq``.
    """

    stream: str
    last_seq: int


@event
class StreamRolledBack:
    """A stream that is read in order came back shorter than it was: a restored volume, or a crash (FACTS.md F6.19).

    ``last_seq``: the sequence up to which it was received. It gives some of these sequences to other messages. Reading
    goes on with the first message that is newer than the last one received. What the stream has lost is gone.
    """

    stream: str
    last_seq: int


@event
class MessagesMissed:
    """Limits, or a purge, took messages from a stream that is read in order, before their turn came.

    Messages ``first`` to ``last`` do not come, as far as there were any, and as far as the reading's filter takes them.
    """

    stream: str
    first: int
    last: int


@event
class SchedulePassedOver:
    """Message ``seq`` of a stream that is sourced is a schedule. It stays in its stream.

    Acknowledgements stop before it until it is gone: a work queue would delete it with them.
    """

    stream: str
    consumer: str
    seq: int
    subject: str


@event
class SourceBusy:
    """A consumer delivers to another subscriber, so sourcing from it here has to wait. Told once for each wait."""

    stream: str
    consumer: str


@event
class SourceReset:
    """A consumer that is sourced is reset by this side, because of ``reason``."""

    stream: str
    consumer: str
    position: int
    reason: str


@event
class CopyRestarted:
    """A copy begins again: the target ``target`` is looked up, and the consumer claimed.

    ``position``: the stream sequence up to which all is stored. ``error``: why.
    """

    stream: str
    target: str
    position: int
    error: Error


@event
class SourceSkipped:
    """Messages ``first`` to ``last`` of a stream, as far as there were any, were acknowledged by somebody else.

    Or they are before the first message of the consumer, or retention or a purge took them. They do not come.
    """

    stream: str
    consumer: str
    first: int
    last: int


@event
class ConsumerNotDeleted:
    """The consumer of a subscription that has ended is still there: its deletion failed."""

    stream: str
    consumer: str
    error: Error


@event
class SubscriptionFailed:
    """The callback of a subscription to ``subject`` gets no more messages, because of ``error``.

    An Error is the end of the subscription. Anything else ended the task, or thread, in which the callback ran.
    """

    subject: str
    error: BaseException


@event
class CallbackFailed:
    """The callback of a subscription to ``subject`` raised ``error``. Its message counts as unacknowledged.

    The next message is given to the callback all the same.
    """

    subject: str
    error: BaseException


@event
class SweepFailed:
    """A look for messages of ``stream`` that were given up without an advisory failed. It is repeated."""

    stream: str
    error: Error


@event
class ObjectChunksLeft:
    """Chunks of the object ``name`` are left in its bucket, or may be, under ``nuid``. ``gc()`` removes them.

    A put was given up, or could not remove what it has replaced: ``error`` says why, and is None where it was given up.
    """

    bucket: str
    name: str
    nuid: str
    error: Error | None


@event
class ConversationFailed:
    """The machine ``name`` has failed, which is a fault of this library. It has ended with ``error``, and it alone."""

    name: str
    error: InternalError


@event
class EventsDropped:
    """The ``count`` oldest events of those that waited were dropped: ``event_cb`` is slower than what happens.

    They went before the event that comes next.
    """

    count: int


Event: TypeAlias = (
    Connected
    | Disconnected
    | ServerInfoChanged
    | LameDuckMode
    | ServerReportedError
    | SlowConsumer
    | MessageTooLarge
    | FlowRateChanged
    | GapReported
    | MessageRefused
    | UnexpectedMessage
    | ConsumerSilent
    | DeliveriesLost
    | ConsumerRestarted
    | CopyRestarted
    | OrderedConsumerRecreated
    | StreamRecreated
    | StreamRolledBack
    | MessagesMissed
    | SchedulePassedOver
    | ObjectChunksLeft
    | SourceBusy
    | SourceReset
    | SourceSkipped
    | ConsumerNotDeleted
    | SubscriptionFailed
    | CallbackFailed
    | SweepFailed
    | ConversationFailed
    | EventsDropped
)
