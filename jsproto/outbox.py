"""The seam between a conversation and whatever carries its messages.

A conversation (a fast-ingest batch, a Direct Get, a subscription) speaks messages and never bytes on a socket. It
sends only through an ``Outbox``. ``jsproto.Session`` is the outbox of this library; another client
embeds a conversation by writing these few methods around its own publish and subscribe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from jsproto.errors import Error, PermissionsViolationError
    from jsproto.events import Event
    from jsproto.grammar.config import ServerInfo
    from jsproto.ticket import Ticket
    from jsproto.wire.frames import Msg, MsgRun, RawMsg


class Conversation:
    """A message-level machine. The defaults are those of one without timers that does not care about links."""

    __slots__ = ()

    def receive(self, message: Msg, now: float) -> None:
        """A message for one of its subscriptions. Never raises, whatever the message holds."""
        raise NotImplementedError

    def receive_many(self, raws: Sequence[RawMsg], size: int, now: float) -> int:
        """Take messages of a consumer from the front of these, as ``receive`` would; returns how many.

        ``size``: how many bytes the header blocks and payloads of all of them have. All that it leaves come through
        ``receive``, one by one, so a conversation need not take any.
        """
        return 0

    def handle_timeout(self, now: float) -> None:
        """Time has passed; early, late and repeated calls are harmless."""

    def deadline(self) -> float | None:
        """When ``handle_timeout`` wants to be called, in the caller's monotonic seconds."""
        return None

    def denied(self, violation: PermissionsViolationError, now: float) -> None:
        """The server dropped one of its subscriptions, or what somebody of this session published to a subject."""

    def link_lost(self, error: Error, now: float) -> None:
        """The link is gone, with what was under way on it."""

    def link_restored(self, now: float) -> None:
        """A new link carries the subscriptions again."""


class BulkConversation(Conversation):
    """A conversation that may be given many messages at once: a page that it asked for, say.

    Whoever carries its messages need not make rows: then ``receive`` gets them one by one, with the same results.
    """

    __slots__ = ()

    def receive_run(self, row: MsgRun, now: float) -> None:
        """Messages for one of its subscriptions, as ``receive`` takes them; once it has unsubscribed, no more."""
        raise NotImplementedError


class Outbox(Protocol):
    """What a conversation needs of its carrier.

    It may also have what ``Session`` has besides: ``publish_run``, which makes a fast-ingest batch cheaper;
    ``publish_numbered`` and ``unsubscribe_later``, which do the same for an atomic batch; ``publish_replies``, which
    does it for acknowledgements; and ``want_fields``, which does it for whoever reads columns. Without
    ``publish_to_pattern``, as where the connection is pedantic, a filter with wildcards is not in the subject by which
    a consumer is created.
    """

    @property
    def server(self) -> ServerInfo | None:
        """What the server said of itself, None while unknown."""

    @property
    def closed_error(self) -> Error | None:
        """Why nothing can be sent any more; None while the carrier is usable."""

    def publish(self, subject: str, payload: bytes, reply: bytes | None = None, headers: bytes | None = None) -> None:
        """Send a message. ``headers`` is an encoded block. LocalProtocolError before anything is written."""

    def subscribe(self, subject: str, conversation: Conversation, queue: str | None = None) -> int:
        """Subscribe; messages go to ``conversation.receive``. Returns the subscription's id."""

    def unsubscribe(self, sid: int, max_msgs: int | None = None) -> None:
        """End a subscription, at once or after ``max_msgs`` messages in all."""

    def completed(self, ticket: Ticket[Any]) -> None:
        """``ticket`` has its answer: let whoever waits know."""

    def emit(self, event: Event) -> None:
        """Something happened that the application may want to know."""

    def flush(self) -> None:
        """What was published should leave now: this side waits for an answer to it."""

    def rearm(self, conversation: Conversation) -> None:
        """The conversation's deadline moved: ask it again."""
