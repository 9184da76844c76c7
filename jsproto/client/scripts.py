"""Sequential flows: generators that yield a ticket and are sent its value (or have its error thrown into them).

Rules: a script is for question, answer, next question. Anything with concurrent input is a machine. ``now`` is the
time of the call: the flows below arm timers only through the requests they make.

Not here: the subscribe workflow (``consume.subscribe``), changes of streams (``manage.changes``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from jsproto.client.publish.message import parts
from jsproto.errors import BatchMessageError, Error, WrongTypeError
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session
    from jsproto.client.publish.atomic import AtomicBatch
    from jsproto.client.publish.message import Message
    from jsproto.grammar.acks import PubAck


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
    except WrongTypeError as error:  # of a payload
        batch.discard(now)
        raise WrongTypeError(f"message {batch.sequence + 1} cannot be sent: {error}") from error
    except Error:
        batch.discard(now)
        raise
    return ack
