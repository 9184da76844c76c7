"""What the server does not permit ends, at once, what waited for it; and nothing else.

Servers drop the message, or the subscription, and say so with an ``-ERR`` that names the subject (FACTS.md F5.19); the
connection lives on.
"""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.client.connection.subscription import Subscription
from jsproto.errors import (
    BatchMessageError,
    Error,
    PermissionsViolationError,
    TimeoutError,
)
from jsproto.events import ServerReportedError
from jsproto.rules.atomic_batch import AtomicPhase
from jsproto.rules.fast_batch import FastPhase
from jsproto.ticket import Ticket
from tests.client import test_atomic, test_fast
from tests.client.ordering import known
from tests.client.pulling import Pulling
from tests.client.test_direct import Read
from tests.client.test_pipelined import Peer
from tests.client.test_push import Subscribed
from tests.harness import Harness
from tests.marks import known_fault, promise


def deny(harness: Harness, subject: str, verb: str = "Publish") -> None:
    harness.sent()
    harness.feed(f"-ERR 'Permissions Violation for {verb} to \"{subject}\"'\r\n".encode())


def deny_inbox(harness: Harness, start: bytes = b"_INBOX") -> None:
    """No answers for whoever subscribed last."""
    harness.sent()
    deny(
        harness,
        [subject for subject in harness.subs.values() if subject.startswith(start)][-1].decode(),
        "Subscription",
    )


def denied(ticket: Ticket[Any]) -> PermissionsViolationError:
    assert isinstance(ticket.error, PermissionsViolationError)
    return ticket.error


@pytest.mark.parametrize(
    ("text", "operation", "subject"),
    [
        ('Permissions Violation for Publish to "a.b"', "publish", "a.b"),
        ('Permissions Violation for Subscription to "a.>"', "subscribe", "a.>"),
        ('Permissions Violation for Subscription to "a" using queue "q"', "subscribe", "a"),
        (r'Permissions Violation for Publish to "a\"b\\c"', "publish", 'a"b\\c'),
    ],
)
def test_what_the_text_says(text: str, operation: str, subject: str) -> None:
    violation = PermissionsViolationError.from_text(text)
    assert violation is not None
    assert (violation.operation, violation.subject, str(violation)) == (operation, subject, text)


@pytest.mark.parametrize(
    "text", ["Permissions Violation", "Invalid Subject", 'Permissions Violation for Publish to "a']
)
def test_other_texts(text: str) -> None:
    assert PermissionsViolationError.from_text(text) is None


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_that_was_dropped_fails_at_once_and_alone() -> None:
    harness = Harness()
    other, first, second = (harness.session.request(subject, now=harness.now) for subject in ("b", "a", "a"))
    deny(harness, "a")
    assert denied(first) is denied(second)
    assert (denied(first).operation, denied(first).subject) == ("publish", "a")
    assert str(denied(first)) == 'Permissions Violation for Publish to "a"'
    assert harness.events() == [ServerReportedError('Permissions Violation for Publish to "a"', False)]
    assert not other.done
    harness.answer(lambda pub: b"fine")
    harness.advance(60)
    assert isinstance(other.error, TimeoutError)  # its answer was not asked for again: it was sent before


@known_fault("a violation of permissions is told beside the publish, which waits for its timeout")
def test_a_stream_publish_that_was_dropped() -> None:
    harness = Harness()
    ticket = harness.js.publish("s.a", now=harness.now)
    deny(harness, "s.b")
    assert not ticket.done
    deny(harness, "s.a")
    assert denied(ticket).subject == "s.a"


def test_requests_without_answers_fail_and_each_tries_again() -> None:
    harness = Harness()
    first = [harness.session.request(subject, now=harness.now) for subject in ("a", "b")]
    deny_inbox(harness)
    assert [denied(ticket).operation for ticket in first] == ["subscribe"] * 2
    third = harness.session.request("a", now=harness.now)
    deny_inbox(harness)
    assert denied(third) is not denied(first[0])
    permitted = harness.session.request("a", now=harness.now)
    harness.answer(lambda pub: b"fine")
    assert permitted.result().payload == b"fine"


# -- messages with an acknowledgement each -----------------------------------------------------------------------------


@known_fault("a violation of permissions is told beside the publish, which waits for its timeout")
def test_a_message_of_many_that_was_dropped() -> None:
    peer = Peer()
    kept = peer.publisher.publish("s.b", now=peer.now)
    dropped = peer.publisher.publish("s.a", b"x", now=peer.now)
    peer.many(2)
    answered = peer.publisher.answered()
    deny(peer.harness, "s.a")
    assert denied(dropped).subject == "s.a"
    assert [(message, type(error)) for message, error in peer.publisher.take_failures()] == [
        (("s.a", b"x"), PermissionsViolationError)
    ] * 2
    assert (peer.publisher.failed, peer.publisher.pending, peer.publisher.pending_bytes) == (3, 1, 0)
    assert not kept.done
    assert not answered.done
    deny(peer.harness, "s.b")
    assert answered.done


def test_many_messages_without_answers_fail_and_the_next_one_tries_again() -> None:
    peer = Peer()
    first = peer.publisher.publish("s.a", now=peer.now)
    peer.look()
    deny_inbox(peer.harness)
    assert denied(first).operation == "subscribe"
    second = peer.publisher.publish("s.a", now=peer.now)
    peer.look()
    peer.answer(2)
    assert second.result().seq == 2


# -- fast ingest -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_a_batch_that_may_not_start(gap: str) -> None:
    batch = test_fast.Batch(gap=gap)
    batch.fast.publish("e.a", b"1", now=batch.h.now)
    ready = batch.fast.ready()
    deny(batch.h, "e.b")
    assert not ready.done
    deny(batch.h, "e.a")
    assert denied(ready) is batch.fast.error
    assert batch.fast.deadline() is None
    assert batch.fast.unacknowledged == [("e.a", b"1", None)]


@pytest.mark.parametrize("when", ["starting", "open", "committing"])
def test_a_batch_that_may_not_hear(when: str) -> None:
    batch = test_fast.Batch(gap="ok")
    if when == "starting":
        batch.fast.publish("e.a", b"1", now=batch.h.now)
    else:
        batch.start()
    ticket = batch.fast.commit(batch.h.now) if when == "committing" else None
    deny_inbox(batch.h)
    assert isinstance(batch.fast.error, PermissionsViolationError)
    assert ticket is None or denied(ticket)
    batch.h.sent()
    assert batch.h.subs == {}


def test_gap_fail_ends_at_a_dropped_message_with_what_was_stored() -> None:
    batch = test_fast.started(gap="fail")
    batch.fill(1)
    batch.fast.publish("e.b", b"x", now=batch.h.now)
    ready = batch.fast.ready()
    deny(batch.h, "e.b")
    assert batch.fast.phase is FastPhase.BROKEN
    assert test_fast.operations(batch.h.published()) == [(4, 3)]  # what was stored is asked for
    assert ready.done
    batch.pub_ack(2, 4, 3)
    error = batch.fast.error
    assert isinstance(error, BatchMessageError)
    assert (error.message_sequence, error.ack and error.ack.count) == (3, 2)
    assert isinstance(error.__cause__, PermissionsViolationError)
    deny(batch.h, "e.b")  # the end is the end
    assert batch.fast.error is error


def test_gap_ok_goes_on_behind_a_dropped_message() -> None:
    batch = test_fast.started(gap="ok")
    batch.fast.publish("e.b", b"x", now=batch.h.now)
    deny(batch.h, "e.b")
    assert batch.fast.phase is FastPhase.OPEN
    ticket = batch.fast.commit(batch.h.now, "e.c", b"last")
    deny(batch.h, "e.b")
    assert not ticket.done
    deny(batch.h, "e.c")
    assert isinstance(ticket.error, BatchMessageError)
    assert ticket.error.message_sequence == 3
    assert isinstance(ticket.error.__cause__, PermissionsViolationError)


def test_the_end_is_not_told_of_violations_and_faults() -> None:
    batch = test_fast.started()
    batch.fast.abandon(batch.h.now)
    batch.fast.denied(PermissionsViolationError("x", "publish", "e.a"), batch.h.now)
    batch.fast.crashed(TimeoutError("x"), batch.h.now)
    assert batch.fast.phase is FastPhase.ABANDONED
    atomic = test_atomic.opened()
    atomic.atomic.discard(atomic.h.now)
    atomic.atomic.denied(PermissionsViolationError("x", "publish", "e.a"), atomic.h.now)
    atomic.atomic.crashed(TimeoutError("x"), atomic.h.now)
    assert atomic.atomic.phase is AtomicPhase.DISCARDED


# -- atomic batches ----------------------------------------------------------------------------------------------------


def test_an_atomic_batch_that_may_not_start() -> None:
    batch = test_atomic.Batch()
    batch.add()
    ready = batch.atomic.ready()
    deny(batch.h, "e.b")
    assert not ready.done
    deny(batch.h, "e.a")
    assert batch.ended(denied(ready))


@pytest.mark.parametrize("awaiting", [False, True])
def test_an_atomic_batch_with_a_hole_cannot_be_committed(awaiting: bool) -> None:
    batch = test_atomic.opened()
    batch.add(subject="e.b")
    commit = batch.commit() if awaiting else None
    deny(batch.h, "e.b")
    assert isinstance(batch.atomic.error, PermissionsViolationError)
    assert commit is None or denied(commit) is batch.atomic.error
    assert batch.ended(batch.atomic.error)


def test_an_atomic_batch_that_may_not_hear() -> None:
    batch = test_atomic.Batch()
    batch.add()
    deny_inbox(batch.h)
    assert isinstance(batch.atomic.error, PermissionsViolationError)
    assert batch.ended(batch.atomic.error)


def test_a_message_whose_answer_is_awaited_is_given_back() -> None:
    batch = test_atomic.opened(ack_every=2)
    batch.add(subject="e.b")
    ready = batch.atomic.ready()
    deny(batch.h, "e.b")
    assert isinstance(ready.error, BatchMessageError)
    assert isinstance(ready.error.__cause__, PermissionsViolationError)
    assert (batch.atomic.sequence, batch.atomic.error) == (1, None)
    ticket = batch.atomic.commit(batch.h.now, "e.c", b"last")
    batch.sent()
    deny(batch.h, "e.c")
    assert isinstance(ticket.error, BatchMessageError)
    commit = batch.commit()
    batch.pub_ack(2, 2)
    assert commit.result().count == 2


# -- what listens ------------------------------------------------------------------------------------------------------


def test_a_subscription_that_is_not_permitted() -> None:
    harness = Harness()
    refused, other = Subscription(harness.session, "a.>", queue="q"), Subscription(harness.session, "a")
    readable = refused.readable()
    deny(harness, "a.>")  # of a message
    assert not readable.done
    deny(harness, "a.>", "Subscription")
    assert denied(readable) is refused.error
    assert other.error is None
    harness.sent()
    assert list(harness.subs.values()) == [b"a"]


def test_advisories_that_are_not_permitted() -> None:
    harness = Harness()
    advisories = harness.js.batch_advisories("S")
    readable = advisories.readable()
    deny(harness, "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S")
    assert not readable.done
    deny_inbox(harness, b"$JS")
    assert denied(readable) is advisories.error


@pytest.mark.parametrize("verb", ["Publish", "Subscription"])
def test_a_read_that_is_not_permitted(verb: str) -> None:
    read = Read()
    readable = read.direct.readable()
    deny(read.h, "$JS.API.DIRECT.GET.OTHER")
    assert not readable.done
    if verb == "Publish":
        deny(read.h, "$JS.API.DIRECT.GET.DG")
    else:
        deny_inbox(read.h)
    error: Error = denied(readable)
    assert read.direct.error is error


# -- consumers ---------------------------------------------------------------------------------------------------------

NEXT = "$JS.API.CONSUMER.MSG.NEXT.S.C"


def test_messages_that_may_not_be_asked_for() -> None:
    pulling = Pulling()
    fetches = [pulling.fetch(), pulling.fetch()]
    deny(pulling, "$JS.API.CONSUMER.MSG.NEXT.S.OTHER")
    deny(pulling, "$JS.ACK.S.OTHER.1.1.1.1.0")
    assert not any(fetch.done.done for fetch in fetches)
    deny(pulling, NEXT)
    assert [denied(fetch.done).subject for fetch in fetches] == [NEXT, NEXT]
    assert pulling.consumer.under_way == 0
    at_once = pulling.consumer.fetch_no_wait(1, now=pulling.now, patience=1.0)
    deny(pulling, NEXT)
    assert denied(at_once.done).subject == NEXT
    pulling.consumer.start(now=pulling.now)
    readable = pulling.consumer.readable()
    deny(pulling, NEXT)
    assert denied(readable).subject == NEXT
    assert pulling.consumer.error is None  # another link may have other permissions
    fetch = pulling.fetch()
    pulling.request()
    pulling.numbered(1)
    assert pulling.taken(fetch) == [b"1"]


def test_messages_that_may_not_be_received() -> None:
    pulling = Pulling()
    fetch = pulling.fetch()
    deny_inbox(pulling)
    assert denied(fetch.done) is pulling.consumer.error
    with pytest.raises(PermissionsViolationError):
        pulling.fetch()


@promise("A consumer that may not be acknowledged ends.")
@pytest.mark.parametrize("v2", [False, True])
def test_messages_that_may_not_be_acknowledged(v2: bool) -> None:
    pulling = Pulling(v2=v2)
    fetch = pulling.fetch(2)
    pulling.numbered(2)
    message, _ = pulling.consumer.take(fetch)
    message.ack()
    deny(pulling, message.reply)
    with pytest.raises(PermissionsViolationError, match="ACK"):
        pulling.fetch()


@promise("That holds for the requests that the library makes by itself")
@pytest.mark.parametrize("subject", ["$JS.ACK.S.{0}.1.1.1.1.0", "$JS.FC.S.C.x"])
def test_a_push_consumer_that_may_not_answer(subject: str) -> None:
    pushed = Subscribed()
    readable = pushed.push.readable()
    subject = subject.format(pushed.push.consumer)
    pushed.status(b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"$JS.FC.S.C.x")
    deny(pushed.h, "$JS.FC.S.C.y")
    deny(pushed.h, "$JS.ACK.S.OTHER.1.1.1.1.0")
    assert pushed.push.error is None
    deny(pushed.h, subject)
    assert denied(readable) is pushed.push.error


@promise("That holds for the requests that the library makes by itself")
def test_an_ordered_reading_that_may_not_answer() -> None:
    reading = known()
    reading.take()
    reading.take()
    readable = reading.ordered.readable()
    reading.status(b"NATS/1.0 100 FlowControl Request\r\n\r\n", b"$JS.FC.S.x.y")
    deny(reading.h, "$JS.FC.S.x.z")
    assert not readable.done
    deny(reading.h, "$JS.FC.S.x.y")
    assert denied(readable) is reading.ordered.error


def test_the_reads_of_a_session_that_are_not_permitted() -> None:
    harness = Harness()
    session = harness.js.consistent_session()
    direct = session.get_msg("S", 1, now=harness.now)
    leader = session.get_msg("S", 2, now=harness.now, level="leader")
    deny(harness, "$JS.API.DIRECT.GET.OTHER")
    assert not direct.done
    deny(harness, "$JS.API.DIRECT.GET.S")
    assert denied(direct).operation == "publish"
    assert not leader.done
    deny(harness, "$JS.API.STREAM.MSG.GET.S")
    assert denied(leader).subject == "$JS.API.STREAM.MSG.GET.S"
    deaf = session.get_msg("S", 1, now=harness.now)
    deny_inbox(harness)
    assert denied(deaf).operation == "subscribe"
    again = session.get_msg("S", 1, now=harness.now)
    deny_inbox(harness)
    assert denied(again) is not denied(deaf)
