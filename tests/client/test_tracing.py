"""Following a message from server to server: what is believed, when it is complete, and how it ends."""

from __future__ import annotations

import pytest

from jsproto.client.publish.tracing import TraceCollector
from jsproto.errors import (
    ConnectionClosedError,
    ConnectionLostError,
    PermissionsViolationError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.wire.encoder import encode_err
from jsproto.wire.frames import Sub, Unsub
from tests.grammar.test_trace import report
from tests.harness import Harness

INBOX = "_INBOX.t"


def collector(harness: Harness) -> TraceCollector:
    return TraceCollector(harness.session, inbox=INBOX, server=harness.session.server)


def tell(harness: Harness, payload: bytes) -> None:
    harness.deliver(INBOX.encode(), payload)


def test_reports_in_any_order() -> None:
    harness = Harness()
    collected = collector(harness)
    assert harness.sent() == [Sub(INBOX.encode(), None, b"1")]
    complete = collected.complete()
    tell(harness, report("1"))
    tell(harness, report("", 2))
    assert not complete.done
    assert [event.path for event in collected.trace] == [(), (1,)]
    tell(harness, report("2"))
    assert complete.done
    assert complete in harness.completed
    assert collected.trace.is_complete
    assert collected.complete().done


def test_what_is_no_report_or_a_second_one_is_told_and_passed_over() -> None:
    harness = Harness()
    collected = collector(harness)
    tell(harness, b"junk")
    tell(harness, report("", 0))
    tell(harness, report("", 5))
    assert [type(event) for event in harness.events()] == [UnexpectedMessage] * 2
    assert collected.trace.is_complete


def test_how_it_ends() -> None:
    harness = Harness()
    collected = collector(harness)
    complete = collected.complete()
    collected.close()
    collected.close()
    assert harness.sent(Unsub) == [Unsub(b"1", None)]
    assert isinstance(complete.error, ConnectionClosedError)
    assert not collected.trace.is_complete


def test_a_subscription_that_is_refused_ends_it() -> None:
    harness = Harness()
    collected = collector(harness)
    harness.feed(encode_err(b"'Permissions Violation for Publish to \"s.a\"'"))
    assert collected.error is None
    harness.feed(encode_err(b"'Permissions Violation for Subscription to \"_INBOX.t\"'"))
    assert isinstance(collected.complete().error, PermissionsViolationError)


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_lost_link_ends_it(attempts: int) -> None:
    harness = Harness(max_reconnect_attempts=attempts)
    collected = collector(harness)
    complete = collected.complete()
    harness.lose()
    assert isinstance(complete.error, ConnectionLostError)
    assert isinstance(collected.complete().error, ConnectionLostError)


def test_servers_that_cannot_trace() -> None:
    harness = Harness(info={"version": "2.10.29"})
    with pytest.raises(UnsupportedByServerError, match=r"needs nats-server 2\.11"):
        collector(harness)
    assert harness.sent() == []
    assert TraceCollector(harness.session, inbox=INBOX).error is None
