"""How a stream answers: to the reply subject of the message that made it answer, through an outbox.

* A message without a reply subject gets no answer.
* A stream with ``no_ack`` answers neither plain messages nor refused ones. Fast ingest goes on with its flow.
* An answer to a malformed reply subject is dropped: a peer's message never raises.

Not here: routing the answer (``server.server``).
"""

from __future__ import annotations

from jsproto.errors import APIError, LocalProtocolError
from jsproto.grammar.acks import PubAck, encode_error_ack, encode_pub_ack
from jsproto.grammar.advisory import AbandonReason, BatchAbandoned, batch_abandoned_subject, encode_batch_abandoned
from jsproto.outbox import Outbox
from jsproto.server.store.context import ServerContext
from jsproto.server.store.refusals import draft_of
from jsproto.server.store.stream import Stream


class PublishReplies:
    """The voice of one stream."""

    __slots__ = ("_context", "_outbox", "_stream")

    def __init__(self, stream: Stream, context: ServerContext, outbox: Outbox) -> None:
        self._stream = stream
        self._context = context
        self._outbox = outbox

    @property
    def acknowledges(self) -> bool:
        """Whether the stream answers at all to plain messages and with refusals."""
        return not self._stream.config.no_ack

    def send(self, reply: bytes | None, payload: bytes, headers: bytes | None = None) -> None:
        """One answer, with or without ``no_ack``. ``headers``: an encoded block."""
        if not reply:
            return
        try:
            self._outbox.publish(reply.decode(), payload, headers=headers)
        except (UnicodeDecodeError, LocalProtocolError):
            return

    def error(self, reply: bytes | None, error: APIError) -> None:
        """An error in the shape of a publish acknowledgement."""
        if self._context.dialect == "draft":
            error = draft_of(error)
        self.send(reply, encode_error_ack(error, self._stream.config.name))

    def refuse(self, reply: bytes | None, error: APIError) -> None:
        """The same, unless the stream does not acknowledge."""
        if self.acknowledges:
            self.error(reply, error)

    def pub_ack(
        self,
        reply: bytes | None,
        seq: int,
        *,
        duplicate: bool = False,
        value: str | None = None,
        batch: str | None = None,
        count: int | None = None,
        error: APIError | None = None,
    ) -> None:
        """A publish acknowledgement."""
        name, domain = self._stream.config.name, self._context.domain
        ack = PubAck(name, seq, domain, duplicate=duplicate, value=value, batch=batch, count=count, error=error)
        self.send(reply, encode_pub_ack(ack))

    def abandoned(self, batch_id: str, reason: AbandonReason, now: float) -> None:
        """Publish the advisory that a batch was given up."""
        context, name = self._context, self._stream.config.name
        advisory = BatchAbandoned(name, batch_id, reason, context.next_id(), context.timestamp(now), context.domain)
        self._outbox.publish(batch_abandoned_subject(name), encode_batch_abandoned(advisory, context.dialect))
