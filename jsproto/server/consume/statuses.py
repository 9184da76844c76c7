"""Status messages of consumers as nats-server 2.15.1 writes them: header blocks, the payload is empty.

Rules: a status has a number and words, those of ``rules.status``. Its headers have what is left of a pull request, or
the consumer's place.

Not here: when they are sent (``consumer``, ``pull_requests``), what clients make of them.
"""

from __future__ import annotations

from typing import Final

from jsproto.rules import status


def _block(code: int, words: str) -> bytes:
    """A status without headers."""
    return _line(code, words) + b"\r\n"


def _line(code: int, words: str) -> bytes:
    return f"NATS/1.0 {code} {words}\r\n".encode()


FLOW_CONTROL: Final = _block(status.CONTROL, status.FLOW_CONTROL)
NO_MESSAGES: Final = _block(status.NO_MESSAGES, status.WORDS[status.NO_MESSAGES])
REQUESTS_PENDING: Final = _block(status.REQUEST_TIMEOUT, status.REQUESTS_PENDING)
CONSUMER_DELETED: Final = _block(status.CONFLICT, status.CONSUMER_DELETED)
LEADERSHIP_CHANGE: Final = _block(status.CONFLICT, status.LEADERSHIP_CHANGE)
MAX_WAITING: Final = _block(status.CONFLICT, status.MAX_WAITING)
PUSH_BASED: Final = _block(status.CONFLICT, status.PUSH_BASED)
API_LEVEL: Final = _block(status.API_LEVEL, status.WORDS[status.API_LEVEL])

PIN_MISMATCH: Final = _block(status.PIN_MISMATCH, status.WORDS[status.PIN_MISMATCH])

_TIMEOUT: Final = _line(status.REQUEST_TIMEOUT, status.WORDS[status.REQUEST_TIMEOUT])
_SHUTDOWN: Final = _line(status.CONFLICT, status.SERVER_SHUTDOWN)
_TOO_LARGE: Final = _line(status.CONFLICT, status.MESSAGE_SIZE)
_WRONG_PIN: Final = _line(status.PIN_MISMATCH, status.WRONG_PIN)
_COMPLETED: Final = _line(status.CONFLICT, status.BATCH_COMPLETED)
_HEARTBEAT: Final = (
    _line(status.CONTROL, status.WORDS[status.CONTROL]) + b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"
)


def request_timeout(messages: int, size: int) -> bytes:
    """408: a request expired. ``messages`` and ``size`` (bytes) are what is left of it."""
    return _TIMEOUT + _left(messages, size)


def server_shutdown(messages: int, size: int) -> bytes:
    """409: the server ends. Arguments as in ``request_timeout``."""
    return _SHUTDOWN + _left(messages, size)


def message_too_large(messages: int, size: int) -> bytes:
    """409: the next message has more bytes than the request has left. Arguments as in ``request_timeout``."""
    return _TOO_LARGE + _left(messages, size)


def wrong_pin(messages: int, size: int) -> bytes:
    """423: a request says the id of a client that is not pinned any more. Arguments as in ``request_timeout``."""
    return _WRONG_PIN + _left(messages, size)


def batch_completed(messages: int, size: int) -> bytes:
    """409: all messages of a request were delivered, and ``size`` bytes are left.

    ``messages``: 0, or less where the request asked for less than one.
    """
    return _COMPLETED + _left(messages, size)


def exceeded(what: str, limit: str) -> bytes:
    """409: a request asks for more than the configuration allows.

    ``what``: ``MAX_BATCH``, ``MAX_EXPIRES`` or ``MAX_BYTES`` of ``rules.status``. ``limit``: the configured value.
    """
    return _block(status.CONFLICT, f"{what} of {limit}")


def bad_request(why: str) -> bytes:
    """400: a request cannot be read, because of ``why``."""
    return _block(status.BAD_REQUEST, f"{status.WORDS[status.BAD_REQUEST]} - {why}")


def heartbeat(consumer_seq: int, stream_seq: int, stalled: bytes | None = None) -> bytes:
    """100: a heartbeat with the last sequences. ``stalled``: the flow-control subject that is not answered yet."""
    block = _HEARTBEAT % (consumer_seq, stream_seq)
    return block + (b"\r\n" if stalled is None else b"Nats-Consumer-Stalled: %b\r\n\r\n" % stalled)


def _left(messages: int, size: int) -> bytes:
    return b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n" % (messages, size)
