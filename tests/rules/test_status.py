"""Every status of a consumer has a meaning, and one that nobody knows is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    RemoteProtocolError,
    RequiredApiLevelError,
    ServerShutdownError,
    StatusError,
)
from jsproto.rules.status import WORDS, Meaning, classify, read_status
from tests.grammar.recorded import frames
from tests.marks import known_fault, requirement

HIDDEN, RETRY, FATAL = Meaning


@requirement(237, 239, 240, 241)
@known_fault("a fetch from a consumer that is deleted waits for all of its time")
@pytest.mark.parametrize(
    ("code", "text", "meaning", "kind"),
    [
        (100, "Idle Heartbeat", HIDDEN, StatusError),
        (100, "FlowControl Request", HIDDEN, StatusError),
        (404, "No Messages", HIDDEN, StatusError),
        (408, "Request Timeout", HIDDEN, StatusError),
        (409, "Batch Completed", HIDDEN, StatusError),
        (409, "Leadership Change", RETRY, LeadershipChangedError),
        (409, "Server Shutdown", RETRY, ServerShutdownError),
        (409, "Exceeded MaxWaiting", RETRY, MaxWaitingError),
        (423, "Nats-Pin-Id mismatch", RETRY, PinnedError),
        (409, "Consumer Deleted", FATAL, ConsumerDeletedError),
        (409, "consumer deleted", FATAL, ConsumerDeletedError),
        (409, "Consumer is push based", FATAL, PushBasedError),
        (409, "Exceeded MaxRequestBatch of 2", FATAL, PullLimitError),
        (409, "Exceeded MaxRequestExpires of 1s", FATAL, PullLimitError),
        (409, "Exceeded MaxRequestMaxBytes of 500", FATAL, PullLimitError),
        (409, "Message Size Exceeds MaxBytes", FATAL, MessageSizeError),
        (409, "Something Else", FATAL, ConflictError),
        (409, "", FATAL, ConflictError),
        (400, "Bad Request - json", FATAL, BadPullError),
        (412, "Required Api Level", FATAL, RequiredApiLevelError),
        (499, "Unknown", FATAL, StatusError),
        (204, "EOB", FATAL, StatusError),
        (503, "", FATAL, NoRespondersError),
    ],
)
def test_the_table(code: int, text: str, meaning: Meaning, kind: type[Error]) -> None:
    found, error = classify(code, text, "api")
    assert (found, type(error)) == (meaning, kind)
    if isinstance(error, StatusError):
        assert (error.code, error.description) == (code, text)


@requirement(242)
def test_pending_counts() -> None:
    status = read_status(
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 4\r\nNats-Pending-Bytes: 17\r\n\r\n", "api"
    )
    assert status is not None
    assert (status.code, status.description, status.meaning) == (408, "Request Timeout", HIDDEN)
    assert (status.pending_msgs, status.pending_bytes) == (4, 17)
    status = read_status(b"NATS/1.0 404 No Messages\r\n\r\n")
    assert status is not None
    assert (status.pending_msgs, status.pending_bytes) == (None, None)


def test_no_status() -> None:
    assert read_status(b"NATS/1.0\r\nA: b\r\n\r\n") is None


@pytest.mark.parametrize(
    "header",
    [
        b"NATS/1.0 4x4 No\r\n\r\n",
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: -1\r\n\r\n",
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Bytes: 1" + b"0" * 20 + b"\r\n\r\n",
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Bytes: \r\n\r\n",
    ],
)
def test_statuses_that_are_none(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_status(header)


@given(st.binary())
def test_arbitrary_blocks(header: bytes) -> None:
    try:
        status = read_status(b"NATS/1.0 " + header + b"\r\n\r\n")
    except RemoteProtocolError:
        return
    assert status is None or isinstance(status.meaning, Meaning)


def recorded_statuses() -> set[tuple[int, str]]:
    """Every status that a recorded server sent in a scenario of subscriptions."""
    found: set[tuple[int, str]] = set()
    for frame in frames():
        if frame.from_server and frame.scenario.startswith("sub-") and frame.raw.startswith(b"HMSG"):
            block = frame.raw.partition(b"\r\n")[2]
            status = read_status(block[: block.index(b"\r\n\r\n") + 4])
            if status is not None:
                found.add((status.code, status.description))
    return found


@requirement(239)
def test_every_recorded_status_is_known() -> None:
    found = recorded_statuses()
    assert len(found) > 10
    for code, text in found:
        _, error = classify(code, text)
        assert code == 503 or type(error) is not ConflictError, text
        assert code in (100, 404, 408, 503) or type(error) is not StatusError, text
    assert {code for code, _ in found} >= {100, 400, 404, 408, 409, 412, 423}
    assert all(any(text.startswith(words) for seen, text in found if seen == code) for code, words in WORDS.items())
