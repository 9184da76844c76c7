"""What the statuses mean that a consumer sends instead of a message (ADR-15). It is the same in both roles.

* A status is hidden from the application, or it ends a pull request that may be made again, or it is an error that
  stays. One table says which, by code and by the words that follow. Both roles use these words.
* A status outside the table is an error: taken for silence, it would be lost.
* A code alone stands for every text that lacks an entry.
* Servers before 2.12 send some statuses with other words. Those that are known are here too.

Not here: statuses of Direct Get, what a heartbeat or flow control leads to
(``client.consume.heartbeats``, ``client.consume.flow_control``).
"""

from __future__ import annotations

from typing import Final

from jsproto._event import event
from jsproto.enums import IdentityEnum
from jsproto.errors import (
    BadPullError,
    ConflictError,
    ConsumerDeletedError,
    Error,
    LeadershipChangedError,
    MaxWaitingError,
    MessageSizeError,
    NoRespondersError,
    PinnedError,
    PullLimitError,
    PushBasedError,
    RequiredApiLevelError,
    ServerShutdownError,
    StatusError,
)
from jsproto.grammar.headers import status_line
from jsproto.grammar.stored import number


class Meaning(IdentityEnum):
    """What a status is to a consumer of messages."""

    HIDDEN = "normal: the application hears nothing of it"
    RETRY = "the request ended, and another one may be served"
    FATAL = "an error of the request or of the consumer: asking again gives the same answer"


CONTROL: Final = 100
END_OF_BATCH: Final = 204  # a page of a Direct Get has ended
BAD_REQUEST: Final = 400
NO_MESSAGES: Final = 404
REQUEST_TIMEOUT: Final = 408
CONFLICT: Final = 409
API_LEVEL: Final = 412
PIN_MISMATCH: Final = 423
NO_RESPONDERS: Final = 503

WORDS: Final = {
    CONTROL: "Idle Heartbeat",
    BAD_REQUEST: "Bad Request",
    NO_MESSAGES: "No Messages",
    REQUEST_TIMEOUT: "Request Timeout",
    API_LEVEL: "Required Api Level",
    PIN_MISMATCH: "Nats-Pin-Id mismatch",
}
"""What servers write after the codes that have one meaning."""

WRONG_PIN: Final = "Nats-Wrong-Pin-Id"  # 423 of a request that waited while its pin was lost
FLOW_CONTROL: Final = "FlowControl Request"
REQUESTS_PENDING: Final = "Requests Pending"  # 408: others wait already, and this request would not
CONSUMER_DELETED: Final = "Consumer Deleted"
PUSH_BASED: Final = "Consumer is push based"
LEADERSHIP_CHANGE: Final = "Leadership Change"
SERVER_SHUTDOWN: Final = "Server Shutdown"
MESSAGE_SIZE: Final = "Message Size Exceeds MaxBytes"
BATCH_COMPLETED: Final = "Batch Completed"
MAX_WAITING: Final = "Exceeded MaxWaiting"
MAX_BATCH: Final = "Exceeded MaxRequestBatch"
MAX_EXPIRES: Final = "Exceeded MaxRequestExpires"
MAX_BYTES: Final = "Exceeded MaxRequestMaxBytes"

_H, _R, _F = Meaning.HIDDEN, Meaning.RETRY, Meaning.FATAL
_CODES: Final[dict[int, tuple[Meaning, type[StatusError]]]] = {
    CONTROL: (_H, StatusError),
    BAD_REQUEST: (_F, BadPullError),
    NO_MESSAGES: (_H, StatusError),
    REQUEST_TIMEOUT: (_H, StatusError),
    CONFLICT: (_F, ConflictError),
    API_LEVEL: (_F, RequiredApiLevelError),
    PIN_MISMATCH: (_R, PinnedError),
}
_CONFLICTS: Final[dict[str, tuple[Meaning, type[StatusError]]]] = {
    CONSUMER_DELETED: (_F, ConsumerDeletedError),
    PUSH_BASED: (_F, PushBasedError),
    LEADERSHIP_CHANGE: (_R, LeadershipChangedError),
    SERVER_SHUTDOWN: (_R, ServerShutdownError),
    MESSAGE_SIZE: (_F, MessageSizeError),
    BATCH_COMPLETED: (_H, StatusError),
    MAX_WAITING: (_R, MaxWaitingError),
    MAX_BATCH: (_F, PullLimitError),
    MAX_EXPIRES: (_F, PullLimitError),
    MAX_BYTES: (_F, PullLimitError),
}


def classify(code: int, description: str, subject: str = "") -> tuple[Meaning, Error]:
    """What a status means, and the error to raise for it.

    ``code`` and ``description``: as in the status line. ``subject``: what was asked, for the text of 503.
    """
    if code == NO_RESPONDERS:
        return Meaning.FATAL, NoRespondersError(subject, "the consumer does not exist, or has no leader now")
    if code == CONFLICT:
        lowered = description.lower()
        for words, (meaning, kind) in _CONFLICTS.items():
            if lowered.startswith(words.lower()):
                return meaning, kind(code, description)
    meaning, kind = _CODES.get(code, (Meaning.FATAL, StatusError))
    return meaning, kind(code, description)


@event
class ConsumerStatus:
    """A status of a consumer.

    * ``code`` and ``description``: as in the status line.
    * ``meaning``: what to do about it.
    * ``error``: what to raise, except where ``meaning`` is HIDDEN.
    * ``pending_msgs`` and ``pending_bytes``: how much of the pull request is left. None: it leaves that out.
    """

    code: int
    description: str
    meaning: Meaning
    error: Error
    pending_msgs: int | None
    pending_bytes: int | None


def read_status(header: bytes, subject: str = "") -> ConsumerStatus | None:
    """The status in the header block ``header``, or None.

    ``subject``: what was asked, for the text of 503.

    Raises: RemoteProtocolError: the status line, or a number in the block, is malformed.
    """
    found = status_line(header)
    if found is None:
        return None
    code, description = found
    meaning, error = classify(code, description, subject)
    messages, size = number(header, b"Nats-Pending-Messages"), number(header, b"Nats-Pending-Bytes")
    return ConsumerStatus(code, description, meaning, error, messages, size)
