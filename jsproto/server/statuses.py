"""Status messages of consumers, in the words of nats-server 2.15.1: header blocks, the payload is empty.

Rules: a status is a number and words; what is left of a pull request, or where a consumer stands, goes into headers.

Not here: when they are sent (``deliver``, ``pull_requests``), what clients make of them.
"""

from __future__ import annotations

from typing import Final

FLOW_CONTROL: Final = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
NO_MESSAGES: Final = b"NATS/1.0 404 No Messages\r\n\r\n"
REQUESTS_PENDING: Final = b"NATS/1.0 408 Requests Pending\r\n\r\n"
CONSUMER_DELETED: Final = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
LEADERSHIP_CHANGE: Final = b"NATS/1.0 409 Leadership Change\r\n\r\n"
MAX_WAITING: Final = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
PUSH_BASED: Final = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
API_LEVEL: Final = b"NATS/1.0 412 Required Api Level\r\n\r\n"
WRONG_PIN: Final = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"

_TIMEOUT: Final = b"NATS/1.0 408 Request Timeout\r\n"
_TOO_LARGE: Final = b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n"
_COMPLETED: Final = b"NATS/1.0 409 Batch Completed\r\n"
_HEARTBEAT: Final = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n"


def request_timeout(messages: int, size: int) -> bytes:
    """408: a request expired, with so many messages and bytes not delivered."""
    return _TIMEOUT + _left(messages, size)


def message_too_large(messages: int, size: int) -> bytes:
    """409: the next message does not fit into the bytes that are left."""
    return _TOO_LARGE + _left(messages, size)


def batch_completed(size: int) -> bytes:
    """409: all messages were delivered, and there would have been room for more bytes."""
    return _COMPLETED + _left(0, size)


def exceeded(what: str, limit: str) -> bytes:
    """409: a request asks for more than the consumer's configuration allows."""
    return f"NATS/1.0 409 Exceeded {what} of {limit}\r\n\r\n".encode()


def bad_request(why: str) -> bytes:
    """400: a request cannot be understood."""
    return f"NATS/1.0 400 Bad Request - {why}\r\n\r\n".encode()


def heartbeat(consumer_seq: int, stream_seq: int, stalled: bytes | None = None) -> bytes:
    """100: nothing to deliver. ``stalled`` is the flow-control subject whose answer is missing."""
    block = _HEARTBEAT % (consumer_seq, stream_seq)
    return block + (b"\r\n" if stalled is None else b"Nats-Consumer-Stalled: %b\r\n\r\n" % stalled)


def _left(messages: int, size: int) -> bytes:
    return b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n\r\n" % (messages, size)
