"""The seam between a conversation and the client that carries its messages.

A conversation (a fast-ingest batch, a Direct Get, a subscription) speaks messages, and leaves bytes to the session. It
sends only through an ``Outbox``. ``jsproto.Session`` is the outbox of this library. Another client embeds a
conversation by writing the methods of ``Outbox`` around its own publish and subscribe.

Rules

* Everything runs on one thread, or under one lock: the calls of a conversation and the calls of its outbox.
* An outbox calls no method of a conversation from within its own, except ``deadline`` in ``rearm``.
* The bulk interface changes the price and never the result. It is ``BulkOutbox``, ``BulkConversation`` and the runs
  that it is given (``wire.frames.MsgRun``, ``PlainRun``, ``RawMsg``), and an embedding client may ignore all of it.
* A conversation asks ``bulk(outbox)`` once for the bulk methods: they have their defaults in this module alone.

Not here: how a session carries messages (``client.connection.session``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from jsproto.errors import Error, PermissionsViolationError
from jsproto.events import Event
from jsproto.grammar.config import ServerInfo
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg, MsgRun, PlainRun, RawMsg


class Conversation:
    """A message-level machine. The defaults are those of one without timers that ignores the links.

    The outbox, or the client around it, calls these methods. ``now`` is the caller's monotonic time in seconds. None of
    them raises, whatever the peer has sent.

    Attribute: ``in_any_order`` (whether its messages may overtake those of other conversations of which this is true).
    """

    __slots__ = ()

    in_any_order: ClassVar[bool] = False

    def receive(self, message: Msg, now: float) -> None:
        """A message for one of its subscriptions. Never raises, whatever the message holds."""
        raise NotImplementedError

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Take messages of a consumer from the front of ``raws``, as ``receive`` would. Returns how many.

        ``size``: bytes of the header blocks and payloads of all of them. The messages that it leaves come through
        ``receive``, one by one, so a conversation is free to leave all.
        """
        return 0

    def receive_plain(self, run: PlainRun, now: float) -> int:
        """Take bare messages (payload alone) from the front of ``run``, as ``receive`` would. Returns how many.

        All are for one of its subscriptions. As with ``receive_many``, those that it leaves come through ``receive``.
        """
        return 0

    def handle_timeout(self, now: float) -> None:
        """Time has passed. Early and repeated calls are harmless. Before a late one, put in what has come."""

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in the caller's monotonic seconds."""
        return None

    @property
    def is_busy(self) -> bool:
        """Whether it would lose something with the link: an answer, or a batch. A client that can wait leaves later."""
        return False

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The server refused one of its subscriptions, or dropped a message that this client published."""

    def crashed(self, error: Error, now: float) -> None:
        """One of these methods has raised: end with ``error``. All subscriptions have ended: this is the last input."""

    def link_lost(self, error: Error, now: float) -> None:
        """The link is gone, with all requests and messages under way on it."""

    def link_restored(self, now: float) -> None:
        """A new link carries the subscriptions again."""


class BulkConversation(Conversation):
    """A conversation that may be given many messages at once: a page of Direct Get replies, for example.

    Runs are optional for an outbox. Then ``receive`` gets the messages one by one, with the same results.
    """

    __slots__ = ()

    def receive_run(self, run: MsgRun, now: float) -> None:
        """Messages for one of its subscriptions, as ``receive`` takes them. Ignores the rest after it unsubscribes."""
        raise NotImplementedError


class Outbox(Protocol):
    """What a conversation needs of the client that carries its messages.

    Conversations call these methods, from their constructors, from their verbs and from the methods of
    ``Conversation``. Each call returns at once: an outbox queues, and writes to its socket later. A method that raises
    has changed nothing.
    """

    __slots__ = ()

    @property
    def server(self) -> ServerInfo | None:
        """The server's last INFO, None before the first. It is read before a version is required."""

    @property
    def closed_error(self) -> Error | None:
        """The error that ended the outbox, None while it is usable.

        It is set when the last ``link_lost`` is called, which tells a conversation that its links have ended for good.
        """

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Send a message to ``subject``. ``headers`` is an encoded header block, ``reply`` a checked subject.

        Messages leave in the order of the calls. A message under way when the link breaks may be lost.

        Raises: LocalProtocolError for a bad subject or a payload that is too large, OutboundBufferLimitError where
        there is no room, ConnectionClosedError after the end. The message stays unsent then.
        """

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe to ``subject`` (wildcards allowed), in the queue group ``queue`` if given. Returns the id.

        Messages go to ``conversation.receive``, in the order in which they came. A subscription outlives its link: the
        outbox subscribes again before it calls ``link_restored``.

        Raises: BadSubjectError, and ConnectionClosedError after the end.
        """

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription: at once, or after ``max_msgs`` messages in all, counted from its beginning.

        After an end at once the outbox drops messages, even those under way. Unknown ids are ignored.
        """

    def completed(self, ticket: Ticket[Any]) -> None:
        """``ticket`` has its answer. The outbox calls ``ticket.wake()`` once, now or soon."""

    def emit(self, event: Event) -> None:
        """Something happened that the application may want to know. The outbox may drop it."""

    def flush(self) -> None:
        """Published messages should leave now: the conversation waits for an answer to one."""

    def rearm(self, conversation: Conversation) -> None:
        """The conversation's deadline moved: ask ``deadline()`` again before the next wait."""


class BulkOutbox(Outbox):
    """An outbox that takes much at once: a client derives from it and overrides methods that it has a cheaper way for.

    The defaults are those of a client that has none: they use the methods of ``Outbox``, or take nothing. A class that
    derives from it has ``server`` and ``closed_error`` as properties.
    """

    __slots__ = ()

    @property
    def takes_patterns(self) -> bool:
        """Whether ``publish_to_pattern`` may publish to a subject with wildcards: a pedantic connection refuses."""
        return False

    def publish_run(self, messages: Sequence[Any], reply: tuple[bytes, bytes], first: int) -> int:
        """Publish from the front of ``messages`` as many as one check covers.

        Each is a pair of subject and payload, or has headers as well: None, or a mapping. Returns how many it took, 0
        to all. The reply subject of each is a number between the two parts of ``reply``, and the numbers count up from
        ``first``. The caller gives the first message that is left (a bad subject, unusual headers, a large payload, a
        full buffer) to ``publish``, which raises if it must. A header whose name begins with ``Nats-Batch-`` is never
        taken. Never raises itself.
        """
        return 0

    def publish_replied(self, messages: Sequence[Any], replies: Sequence[bytes]) -> int:
        """``publish_run`` for messages with the reply subjects ``replies``, one for each."""
        return 0

    def publish_numbered(
        self, messages: Sequence[Any], block: tuple[bytes, bytes], first: int, subjects: set[str]
    ) -> int:
        """``publish_run`` for messages without replies, with the number in their header blocks.

        ``block`` is the header block before and after the number. The headers of a message come last in it, and none
        whose name begins with ``Nats-`` is taken. Adds the subjects of the messages that it took to ``subjects``.
        """
        return 0

    def publish_replies(self, replies: Sequence[bytes], payload: bytes) -> None:
        """Publish one small ``payload`` to each of these subjects, which are written as they came from the server.

        Raises: as ``publish``. Some may have been sent then.
        """
        for reply in replies:
            self.publish(reply.decode("utf-8", "surrogateescape"), payload)

    def publish_to_pattern(self, subject: str, payload: bytes, reply: bytes) -> None:
        """``publish`` to a subject that may have wildcards if ``takes_patterns``. Raises: as ``publish``."""
        self.publish(subject, payload, reply)

    def unsubscribe_later(self, sid: int) -> None:
        """``unsubscribe``, but the server may learn it with the next message that is sent."""
        self.unsubscribe(sid)

    def end_interest(self, sid: int) -> None:
        """Ask the server to stop sending. Messages under way are still delivered until ``unsubscribe``.

        An outbox that lacks the means ends the subscription at once.
        """
        self.unsubscribe(sid)

    def completed_many(self, tickets: Sequence[Ticket[Any]]) -> None:
        """``completed`` for each of ``tickets``."""
        for ticket in tickets:
            self.completed(ticket)

    def want_fields(self, sid: int) -> None:
        """From now on the runs of subscription ``sid`` should come with ``MsgRun.fields``. It need not be so."""


def bulk(outbox: Outbox) -> BulkOutbox:
    """``outbox`` itself if it is a ``BulkOutbox``, else the defaults around it: every message goes by itself."""
    return outbox if isinstance(outbox, BulkOutbox) else _OneByOne(outbox)


class _OneByOne(BulkOutbox):
    """The defaults of ``BulkOutbox`` around an outbox that has only the methods of ``Outbox``."""

    __slots__ = ("_outbox",)

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    @property
    def server(self) -> ServerInfo | None:
        return self._outbox.server

    @property
    def closed_error(self) -> Error | None:
        return self._outbox.closed_error

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        self._outbox.publish(subject, payload, reply, headers)

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        return self._outbox.subscribe(subject, conversation, queue)

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        self._outbox.unsubscribe(sid, max_msgs)

    def completed(self, ticket: Ticket[Any]) -> None:
        self._outbox.completed(ticket)

    def emit(self, event: Event) -> None:
        self._outbox.emit(event)

    def flush(self) -> None:
        self._outbox.flush()

    def rearm(self, conversation: Conversation) -> None:
        self._outbox.rearm(conversation)
