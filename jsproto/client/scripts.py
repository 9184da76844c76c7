"""Sequential flows: generators that yield a ticket and are sent its value (or have its error thrown into them).

Rules: a script is for question, answer, next question. Anything with concurrent input is a machine. ``now`` is the
time of the call: the flows below arm timers only through the requests they make.

Not here: the subscribe workflow (``consume.subscribe``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from jsproto.api_errors import InvalidJSONError
from jsproto.client.publish.message import parts
from jsproto.errors import BatchMessageError, Error, LocalProtocolError, UnsupportedByServerError
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session
    from jsproto.client.jetstream import JetStream
    from jsproto.client.publish.atomic import AtomicBatch
    from jsproto.client.publish.message import Message
    from jsproto.grammar.acks import PubAck
    from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo


def change_stream(
    js: JetStream, name: str, changes: dict[str, Any], now: float, timeout: float | None
) -> Generator[Ticket[Any], Any, StreamInfo]:
    """Fetch a stream's configuration, change the named fields and send all of it back.

    All of it, because the server takes a field that an update leaves out for a change (FACTS.md F6.2).

    Raises, with nothing sent but the question:
        LocalProtocolError: the server would refuse the update.
    """
    info: StreamInfo = yield js.stream_info(name, now=now, timeout=timeout)
    config: StreamConfig = info.config.updated(**changes)
    if _persists_async(config) != _persists_async(info.config):
        raise LocalProtocolError(
            f"the persist_mode of a stream cannot be changed: it is {info.config.persist_mode or 'default'!r}"
        )
    updated: StreamInfo = yield js.update_stream(config, now=now, timeout=timeout)
    return updated


def explain_server_managed(
    asked: Ticket[StreamInfo], server: ServerInfo | None
) -> Generator[Ticket[Any], Any, StreamInfo]:
    """The answer to a stream configuration with ``server_managed``, which no release knows (FACTS.md F4.11).

    Raises:
        UnsupportedByServerError: the server does not know the field.
    """
    try:
        info: StreamInfo = yield asked
    except InvalidJSONError as error:
        if "server_managed" not in error.description:
            raise
        raise UnsupportedByServerError(
            "server_managed", "newer than 2.15", None if server is None else server.version,
            "create the consumer with sourcing_consumer, and give its name and deliver_subject",
        ) from error  # fmt: skip
    return info


def _persists_async(config: StreamConfig) -> bool:
    """Whether its messages are acknowledged before they are on disk. Unset means no, as ``default`` does."""
    return config.persist_mode == "async"


def publish_batch(
    session: Session, batch: AtomicBatch, messages: Sequence[Message], now: float
) -> Generator[Ticket[Any], Any, PubAck]:
    """Add all messages to the batch, the last one with the commit. After any failure nothing of it is stored."""
    taken, last = 0, len(messages) - 1
    try:
        while True:
            if session.congested:
                yield session.sendable()
            if taken == last:
                break
            taken += batch.add_many(messages, now, taken, last)
            yield batch.ready()
        ack: PubAck = yield batch.commit(now, *parts(messages[last]))
    except BatchMessageError as refused:  # which says that the batch may go on
        batch.discard(now)
        number = refused.message_sequence
        text = f"message {number} of the batch was refused: {refused.__cause__}; nothing of the batch is stored"
        raise BatchMessageError(
            text, message_sequence=number, batch_id=batch.batch_id, sequence=batch.sequence, acked=batch.acked, ack=None
        ) from refused.__cause__
    except Error:
        batch.discard(now)
        raise
    except TypeError as error:  # of a payload; nobody would catch it where an answer of the server is taken in
        batch.discard(now)
        raise LocalProtocolError(f"message {batch.sequence + 1} cannot be sent: {error}") from error
    return ack
