"""Publishing with many acknowledgements under way: each message ends in exactly one way, whatever happens."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.client.connection.script_runner import Script
from jsproto.client.connection.subscription import Subscription
from jsproto.client.publish.message import Message
from jsproto.client.publish.pipelined import PipelinedPublisher
from jsproto.errors import (
    APIError,
    AsyncPublishError,
    BadHeaderError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    MaxPayloadError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    TimeoutError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.grammar.columns import MessageColumns
from jsproto.ticket import Ticket
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Pub, Sub, Unsub
from tests.harness import Harness
from tests.marks import known_fault, promise

ACK = b'{"stream":"S","seq":%d}'
REFUSED = {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 4"}, "stream": "S", "seq": 0}
NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"


class Peer:
    """A publisher and what it has sent."""

    def __init__(self, harness: Harness | None = None, **options: Any) -> None:
        self.harness = harness or Harness()
        self.publisher = PipelinedPublisher(self.harness.session, **{"inbox": "_INBOX.p", **options})
        self.sent: list[Pub] = []

    @property
    def now(self) -> float:
        return self.harness.now

    def many(self, count: int, size: int = 1) -> int:
        messages: list[Message] = [("s.a", b"x" * size)] * count
        return self.publisher.publish_many(messages, self.now)

    def look(self) -> list[Pub]:
        """What was published since the last look."""
        new = self.harness.published()
        self.sent += new
        return new

    def answer(self, number: int, payload: bytes | dict[str, Any] | None = None, header: bytes | None = None) -> None:
        """Answer the ``number``-th message, counted from 1, by its acknowledgement if nothing else is given."""
        self.look()
        reply = self.sent[number - 1].reply
        assert reply is not None
        body = ACK % number if payload is None else payload
        self.harness.deliver(reply, body if isinstance(body, bytes) else json.dumps(body).encode(), header)


def test_each_message_has_a_reply_subject_of_its_own() -> None:
    peer = Peer()
    ticket = peer.publisher.publish("s.a", b"1", {"K": "v"}, now=peer.now)
    assert peer.publisher.publish_many([("s.b", b"2"), ("s.c", b"3", None), ("s.d", b"4", {"K": "w"})], peer.now) == 3
    frames = peer.harness.sent()
    assert frames == [
        Sub(b"_INBOX.p.*", None, b"1"),
        Pub(b"s.a", b"_INBOX.p.1-", b"NATS/1.0\r\nK: v\r\n\r\n", b"1"),
        Pub(b"s.b", b"_INBOX.p.2-", None, b"2"),
        Pub(b"s.c", b"_INBOX.p.3-", None, b"3"),
        Pub(b"s.d", b"_INBOX.p.4-", b"NATS/1.0\r\nK: w\r\n\r\n", b"4"),
    ]
    assert (peer.publisher.sequence, peer.publisher.pending, peer.publisher.pending_bytes) == (4, 4, 4)
    assert not ticket.done


def test_reply_subjects_count_up_and_use_each_drawn_text_once() -> None:
    texts = iter([b"t%d" % number for number in range(1, 1_000)])
    peer = Peer(inbox="_INBOX.%d", draw_many=lambda count: [*islice(texts, count)])
    publisher = peer.publisher
    for _ in range(3):
        publisher.publish("s.a", now=peer.now)
        with pytest.raises(BadSubjectError):
            publisher.publish("s a", now=peer.now)
        with pytest.raises(BadSubjectError):
            publisher.publish_many([("s.a", b""), ("s.a", b"", {"K": "v"}), ("s a", b""), ("s.a", b"")], peer.now)
        assert peer.many(70) == 70
    replies = [pub.reply for pub in peer.look()]
    assert publisher.sequence == len(replies) == 3 * 73
    numbers, drawn = zip(*[(reply or b"").removeprefix(b"_INBOX.%d.").split(b"-") for reply in replies], strict=True)
    assert numbers == tuple(b"%d" % number for number in range(1, len(replies) + 1))
    assert len({*drawn}) == len(drawn)
    assert b"" not in drawn


def test_acknowledgements_in_any_order() -> None:
    peer = Peer()
    tickets = [peer.publisher.publish("s.a", b"x", now=peer.now) for _ in range(3)]
    for number in (3, 1):
        peer.answer(number)
    peer.answer(2, {"stream": "S", "domain": "hub", "seq": 9, "duplicate": True})
    assert [ticket.result() for ticket in tickets] == [PubAck("S", 1), PubAck("S", 9, "hub", True), PubAck("S", 3)]
    assert all(ticket in peer.harness.completed for ticket in tickets)
    assert (peer.publisher.acked, peer.publisher.failed, peer.publisher.pending) == (3, 0, 0)
    assert peer.publisher.pending_bytes == 0


def test_acknowledgements_without_a_ticket_are_counted() -> None:
    peer = Peer()
    peer.many(3)
    ticket = peer.publisher.publish("s.a", now=peer.now)
    peer.answer(1)  # while somebody else waits
    peer.answer(4)
    peer.answer(2, {"stream": "S", "domain": "hub", "seq": 2})
    peer.answer(3)
    assert (peer.publisher.acked, peer.publisher.failed, peer.publisher.pending) == (4, 0, 0)
    assert ticket.result() == PubAck("S", 4)


@known_fault("a server's error never reaches the future of publish_async")
@known_fault('the server\'s text is lost in "invalid ack"')
def test_the_ways_to_fail_with_a_ticket() -> None:
    peer = Peer()
    tickets = [peer.publisher.publish("s.a", b"x", now=peer.now) for _ in range(4)]
    peer.answer(1, REFUSED)
    peer.answer(2, b"", NO_RESPONDERS)
    peer.answer(3, b"junk")
    peer.harness.advance(6.0)
    errors = [ticket.error for ticket in tickets]
    assert [type(error) for error in errors] == [
        StreamWrongLastSequenceError, NoStreamResponseError, RemoteProtocolError, TimeoutError,
    ]  # fmt: skip
    assert "s.a within 5 s" in str(errors[3])
    assert (peer.publisher.acked, peer.publisher.failed) == (0, 4)
    assert peer.publisher.take_failures() == []  # whoever has the tickets knows
    assert all(peer.harness.completed.count(ticket) == 1 for ticket in tickets)


def test_the_ways_to_fail_without_a_ticket_keep_the_message() -> None:
    peer = Peer()
    messages: list[Message] = [(f"s.{n}", b"%d" % n) for n in range(1, 6)]
    assert peer.publisher.publish_many(messages, peer.now) == 5
    peer.answer(1)
    peer.answer(2, REFUSED)
    peer.answer(3, b"", NO_RESPONDERS)
    peer.answer(4, b"junk", b"broken")
    peer.harness.advance(6.0)
    failures = peer.publisher.take_failures()
    assert [message for message, _ in failures] == messages[1:]
    assert [type(error) for _, error in failures] == [
        StreamWrongLastSequenceError, NoStreamResponseError, RemoteProtocolError, TimeoutError,
    ]  # fmt: skip
    assert isinstance(failures[1][1], NoStreamResponseError)
    assert failures[1][1].subject == "s.3"
    assert (peer.publisher.acked, peer.publisher.failed) == (1, 4)
    assert peer.publisher.take_failures() == []
    assert peer.publisher.publish_many([message for message, _ in failures], peer.now) == 4


@promise("Publishes ahead of the acknowledgements by a bounded window.")
def test_the_window_in_messages() -> None:
    peer = Peer(max_pending=4)
    assert peer.publisher.room == 4
    assert peer.many(9) == 4
    assert peer.publisher.room == 0
    assert peer.many(9) == 0
    assert peer.harness.session.wants_send(peer.now)  # nothing more will push what fills the window
    with pytest.raises(LocalProtocolError, match="ready"):
        peer.publisher.publish("s.a", now=peer.now)
    ready = peer.publisher.ready()
    assert peer.publisher.ready() is ready
    peer.answer(2)
    assert ready in peer.harness.completed
    assert ready.result() is None
    assert peer.publisher.ready().done
    assert peer.many(9) == 1
    assert len(peer.look()) == 1


def test_whoever_waits_for_room_gets_a_quarter_of_it() -> None:
    peer = Peer(max_pending=8)
    assert peer.many(8) == 8
    ready = peer.publisher.ready()
    peer.answer(1)
    assert not ready.done
    peer.answer(2)
    assert ready.done


@promise("Publishes ahead of the acknowledgements by a bounded window.")
@known_fault("memory grows with what is not acknowledged")
def test_the_window_in_bytes_is_overrun_by_one_message() -> None:
    peer = Peer(max_pending_bytes=10)
    assert peer.many(9, size=4) == 3
    assert (peer.publisher.pending_bytes, peer.publisher.room) == (12, 0)
    assert peer.many(1) == 0
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        peer.publisher.publish("s.a", b"x", now=peer.now)
    ready = peer.publisher.ready()
    peer.answer(1)
    assert not ready.done  # 8 bytes: more than three quarters
    peer.answer(2)
    assert ready.done
    assert peer.many(1, size=100) == 1
    assert peer.publisher.pending_bytes == 104


def test_all_answered() -> None:
    peer = Peer()
    assert peer.publisher.answered().done
    peer.many(2)
    answered = peer.publisher.answered()
    assert peer.publisher.answered() is answered
    assert peer.harness.session.wants_send(peer.now)
    peer.answer(1)
    assert not answered.done
    peer.answer(2, REFUSED)
    assert answered.result() is None
    assert answered in peer.harness.completed


@promise("Memory is bounded whatever the peer sends.")
@promise("An `async_publisher()` has the same two.")
@known_fault("memory grows with what is not acknowledged")
@pytest.mark.parametrize("window", [{"max_pending": 2}, {"max_pending_bytes": 18}])
def test_a_window_of_failures_stops_the_publisher_until_they_are_taken(window: dict[str, Any]) -> None:
    peer = Peer(**window)
    publisher = peer.publisher
    publisher.raise_failures()  # there are none
    for number in (1, 2):
        assert peer.many(1, size=9) == 1
        peer.answer(number, REFUSED)
    with pytest.raises(AsyncPublishError, match="acknowledgement: 2") as caught:
        peer.many(1, size=9)
    assert (publisher.sequence, publisher.failed) == (2, 2)
    assert [message for message, _ in caught.value.failures] == [("s.a", b"x" * 9)] * 2
    assert caught.value.__cause__ is caught.value.failures[0][1]
    assert publisher.take_failures() == []
    assert peer.many(1, size=9) == 1


@promise("An `async_publisher()` has the same two.")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:PipelinedPublisher")
def test_failures_are_kept_however_many_they_are() -> None:
    """One less than the window has failed, and the window is under way when the link goes."""
    peer = Peer(max_pending=4)
    rows: list[Message] = [("s.a", b"%d" % n) for n in range(8)]
    assert peer.publisher.publish_many(rows[:3], peer.now) == 3
    for number in range(1, 4):
        peer.answer(number, REFUSED)
    assert peer.publisher.publish_many(rows[3:7], peer.now) == 4
    assert peer.publisher.unacknowledged == rows[:7]
    peer.publisher.link_lost(ConnectionLostError("gone"), peer.now)
    assert peer.publisher.unacknowledged == rows[:7]
    assert [message for message, _ in peer.publisher.take_failures()] == rows[:7]
    assert peer.publisher.unacknowledged == []


def test_messages_with_tickets_are_not_handed_back() -> None:
    peer = Peer()
    peer.publisher.publish("s.a", b"promised", now=peer.now)
    peer.many(1)
    assert peer.publisher.unacknowledged == [("s.a", b"x")]


def test_a_timeout_is_looked_at_in_steps() -> None:
    peer = Peer(timeout=16.0)
    start = peer.now
    peer.many(1)
    for _ in range(40):
        peer.harness.advance(0.5)
        peer.many(1)
    failures = peer.publisher.failed
    assert peer.now == start + 20.0
    assert 20 - 16 - 1 <= failures / 2 <= 20 - 16
    peer.look()
    peer.harness.advance(17.0)
    assert peer.publisher.failed == 41
    assert peer.publisher.deadline() is None


def test_no_message_is_given_up_before_its_time() -> None:
    peer = Peer(timeout=16.0)
    peer.many(1)
    peer.harness.advance(0.9)
    ticket = peer.publisher.publish("s.a", now=peer.now)
    peer.harness.advance(16.0)
    assert peer.publisher.failed == 0
    peer.harness.advance(0.1)
    assert isinstance(ticket.error, TimeoutError)
    assert peer.publisher.failed == 2


def test_what_is_answered_has_no_deadline() -> None:
    peer = Peer()
    peer.many(1)
    peer.answer(1)
    peer.harness.advance(10.0)
    assert peer.publisher.deadline() is None
    assert peer.publisher.failed == 0


def test_answers_to_nothing_are_told() -> None:
    peer = Peer()
    ticket = peer.publisher.publish("s.a", now=peer.now)
    peer.answer(1)
    peer.answer(1, REFUSED)
    for token in (b"2-", b"01-", b"x", b"+1-"):
        peer.harness.deliver(b"_INBOX.p." + token, ACK % 1)
    events = peer.harness.events()
    assert events == [
        UnexpectedMessage(f"_INBOX.p.{token}", "no publish waits for it") for token in ("1-", "2-", "01-", "x", "+1-")
    ]
    assert ticket.result() == PubAck("S", 1)


@promise("Raises, with nothing sent:", of="jsproto_io.sync:PipelinedPublisher")
@promise("Raises, with nothing sent:", of="jsproto:PipelinedPublisher")
@pytest.mark.parametrize(
    ("message", "error"),
    [
        (("no blanks", b""), BadSubjectError),
        (("s.a", b"x" * 2_000_000), MaxPayloadError),
        (("s.a", b"", {"K": "a\r\nb"}), BadHeaderError),
    ],
)
def test_a_bad_message_leaves_those_before_it_taken(message: Message, error: type[Exception]) -> None:
    peer = Peer()
    with pytest.raises(error):
        peer.publisher.publish_many([("s.a", b"1"), message, ("s.a", b"3")], peer.now)
    assert (peer.publisher.sequence, peer.publisher.pending) == (1, 1)
    with pytest.raises(error):
        peer.publisher.publish_many([message], peer.now)
    assert [pub.payload for pub in peer.look()] == [b"1"]
    assert peer.publisher.publish_many([], peer.now) == 0


@promise("Raises, with nothing sent:", of="jsproto:PipelinedPublisher")
def test_a_full_outbox() -> None:
    peer = Peer(Harness(pending_size=100))
    assert peer.many(3, size=101) == 1
    with pytest.raises(OutboundBufferLimitError):
        peer.many(1)
    assert peer.publisher.sequence == 1
    peer.look()
    assert peer.many(1) == 1


def test_close() -> None:
    peer = Peer()
    ticket = peer.publisher.publish("s.a", now=peer.now)
    peer.many(1)
    answered = peer.publisher.answered()
    peer.look()
    peer.publisher.close(peer.now)
    peer.publisher.close(peer.now)
    assert peer.harness.sent(Unsub) == [Unsub(b"1", None)]
    assert isinstance(ticket.error, ConnectionClosedError)
    assert answered.result() is None  # each has ended
    ((_, error),) = peer.publisher.take_failures()
    assert isinstance(error, ConnectionClosedError)
    for verb in (lambda: peer.many(1), lambda: peer.publisher.publish("s.a", now=peer.now)):
        with pytest.raises(ConnectionClosedError, match="publisher was closed"):
            verb()
    assert isinstance(peer.publisher.ready().error, ConnectionClosedError)
    assert peer.publisher.room == 0
    assert peer.publisher.deadline() is None


def test_close_before_the_first_message() -> None:
    peer = Peer()
    peer.publisher.close(peer.now)
    assert peer.harness.sent() == []
    assert isinstance(peer.publisher.error, ConnectionClosedError)


def test_the_end_of_the_connection() -> None:
    peer = Peer(max_pending=1)
    ticket = peer.publisher.publish("s.a", now=peer.now)
    ready = peer.publisher.ready()
    peer.harness.session.receive_eof(peer.now)
    assert isinstance(ticket.error, ConnectionLostError)
    assert ready.error is ticket.error
    assert (peer.publisher.failed, peer.publisher.pending) == (1, 0)
    with pytest.raises(ConnectionLostError):
        peer.publisher.publish("s.a", now=peer.now)


def test_a_carrier_that_lives_on_can_publish_again() -> None:
    peer = Peer(max_pending=2)
    peer.many(2)
    ready, answered = peer.publisher.ready(), peer.publisher.answered()
    peer.look()
    peer.publisher.link_lost(ConnectionLostError("for a moment"), peer.now)
    peer.publisher.link_restored(peer.now)
    assert ready.result() is None
    assert answered.result() is None
    assert [type(error) for _, error in peer.publisher.take_failures()] == [ConnectionLostError] * 2
    assert peer.many(1) == 1
    peer.answer(3)
    assert (peer.publisher.acked, peer.publisher.failed) == (1, 2)


@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
def test_over_a_new_link() -> None:
    peer = Peer(Harness(max_reconnect_attempts=5, reconnect_time_wait=0.1))
    under_way = peer.publisher.publish("s.a", now=peer.now)
    peer.look()
    peer.harness.lose()
    assert isinstance(under_way.error, ConnectionLostError)
    later = peer.publisher.publish("s.a", now=peer.now)  # waits for the new link
    peer.harness.advance(1.0)
    peer.harness.connect()
    assert [type(frame) for frame in peer.harness.sent()] == [Sub, Pub]
    peer.harness.deliver(b"_INBOX.p.2-", ACK % 2)
    assert later.result() == PubAck("S", 2)
    assert (peer.publisher.acked, peer.publisher.failed, peer.publisher.error) == (1, 1, None)


@pytest.mark.parametrize("options", [{"timeout": 0.0}, {"max_pending": 0}, {"max_pending_bytes": 0}, {"inbox": "a.>"}])
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        PipelinedPublisher(Harness().session, **{"inbox": "_INBOX.p", **options})


def test_the_verbs_of_jetstream() -> None:
    harness = Harness()
    first = harness.js.async_publisher()
    second = harness.js.async_publisher(max_pending=1, timeout=1.0)
    tickets = [first.publish("s.a", b"1", now=harness.now), second.publish("s.a", b"2", now=harness.now)]
    assert second.room == 0
    replies = [pub.reply for pub in harness.published()]
    assert len(set(replies)) == 2
    harness.advance(2.0)
    assert [type(ticket.error) for ticket in tickets] == [type(None), TimeoutError]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 20)),
        st.tuples(st.just("many"), st.integers(1, 6)),
        st.tuples(st.sampled_from(["ack", "refuse", "junk", "nobody"]), st.integers(0, 9)),
        st.tuples(st.just("time"), st.sampled_from([0, 1, 3, 7])),
        st.tuples(st.just("lose"), st.just(0)),
    ),
    max_size=40,
)


@promise("a message that was under way when the link was lost may be stored or not")
@promise("Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`.")
@promise("Wait until every message has its acknowledgement or has failed.")
@known_fault("a server's error never reaches the future of publish_async")
@known_fault("errors of asynchronous publishes are lost")
@given(steps, st.integers(1, 8), st.integers(1, 60))
def test_every_message_ends_exactly_once(script: list[tuple[str, int]], most: int, most_bytes: int) -> None:
    peer = Peer(max_pending=most, max_pending_bytes=most_bytes)
    publisher, tickets, kept = peer.publisher, [], 0
    answers: dict[str, tuple[bytes, bytes | None]] = {
        "ack": (ACK % 1, None),
        "refuse": (json.dumps(REFUSED).encode(), None),
        "junk": (b"{", None),
        "nobody": (b"", NO_RESPONDERS),
    }
    for step, number in script:
        if step == "publish" and publisher.room:
            tickets.append(publisher.publish("s.a", b"x" * number, now=peer.now))
        elif step == "many":
            peer.many(number)
        elif step == "time":
            peer.harness.advance(number)
        elif step == "lose":
            publisher.link_lost(ConnectionLostError("lost"), peer.now)
        elif step in answers:
            peer.look()
            if peer.sent:
                reply = peer.sent[-1 - number % len(peer.sent)].reply
                assert reply is not None
                peer.harness.deliver(reply, *answers[step])
        kept += len(publisher.take_failures())
        assert publisher.pending <= most
        assert publisher.acked + publisher.failed + publisher.pending == publisher.sequence
        assert publisher.pending_bytes < most_bytes or publisher.room == 0
        assert publisher.pending or publisher.pending_bytes == 0
        assert (publisher.deadline() is None) <= (publisher.pending == 0)
    answered = publisher.answered()
    peer.harness.advance(6.0)
    assert answered.done
    assert publisher.pending == 0
    assert publisher.ready().done
    assert all(ticket.done for ticket in tickets)
    failed = [ticket.error for ticket in tickets if ticket.error is not None]
    assert publisher.failed == len(failed) + kept + len(publisher.take_failures())
    assert all(isinstance(error, APIError | RemoteProtocolError | NoStreamResponseError | TimeoutError
                          | ConnectionLostError) for error in failed)  # fmt: skip
    done = [ticket for ticket in peer.harness.completed if ticket in tickets]
    assert len(done) == len(set(map(id, done))) == len(tickets)


ANSWERS: list[tuple[bytes, bytes | None]] = [
    (ACK % 7, None),
    (ACK % 8, None),
    (b'{"stream":"T", "seq":9,"duplicate": true}', None),
    (b'{"stream":"S","domain":"hub","seq":1}', None),
    (json.dumps(REFUSED).encode(), None),
    (ACK % 1 + b"\n" + ACK % 2, None),
    (b"", None),
    (b"{", None),
    (b"", NO_RESPONDERS),
]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=6),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.sampled_from(ANSWERS)), max_size=40),
)
def test_answers_in_one_read_are_those_one_by_one(
    published: list[tuple[bool, int]], answers: list[tuple[int, int, tuple[bytes, bytes | None]]]
) -> None:
    """Of two publishers, in any order, and with some to nobody, between messages of another subscription."""
    outcomes = []
    for at_once in (True, False):
        harness = Harness()
        other = Subscription(harness.session, "_INBOX.c.*")
        peers = [Peer(harness, inbox=f"_INBOX.{name}") for name in "ab"]
        tickets: list[list[Ticket[PubAck]]] = [[], []]
        for with_tickets, count in published:
            for own, peer in zip(tickets, peers, strict=True):
                if with_tickets:
                    own += [peer.publisher.publish("s.a", b"12", now=peer.now) for _ in range(count)]
                else:
                    peer.many(count)
        waits = [wait for peer in peers for wait in (peer.publisher.answered(), peer.publisher.ready())]
        harness.sent()
        texts = [
            encode_msg(
                b"_INBOX.%b.%d-" % (b"cab"[which : which + 1], number), b"%d" % (which + 1), None, header, payload
            )
            for which, number, (payload, header) in answers
        ]
        for text in [b"".join(texts)] if at_once else texts:
            harness.feed(text)
        outcomes.append(
            (
                [
                    (type(ticket.error), ticket.done and ticket.error is None and ticket.result())
                    for own in tickets
                    for ticket in own
                ],
                [[own.index(ticket) for ticket in harness.completed if ticket in own] for own in tickets],
                [wait.done for wait in waits],
                [
                    (peer.publisher.acked, peer.publisher.failed, peer.publisher.pending, peer.publisher.pending_bytes)
                    for peer in peers
                ],
                [[(message, type(error)) for message, error in peer.publisher.take_failures()] for peer in peers],
                [
                    [
                        event
                        for event in events
                        if isinstance(event, UnexpectedMessage) and event.subject.startswith(inbox)
                    ]
                    for events in [harness.events()]
                    for inbox in ("_INBOX.a.", "_INBOX.b.")
                ],
                other.pop_many(100),
                harness.session.stats["in_msgs"],
            )
        )
    assert outcomes[0] == outcomes[1]


def test_acknowledgements_that_alternate_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    peers = [Peer(harness, inbox=f"_INBOX.{name}") for name in "ab"]
    for peer in peers:
        peer.many(20)
    harness.sent()
    monkeypatch.setattr(PipelinedPublisher, "receive", None)  # nothing comes by itself
    replies = [(number, which) for number in range(1, 21) for which in (0, 1)]
    harness.feed(
        b"".join(
            encode_msg(
                b"_INBOX.%b.%d-" % (b"ab"[which : which + 1], number), b"%d" % (which + 1), None, None, ACK % number
            )
            for number, which in replies
        )
    )
    assert [(peer.publisher.acked, peer.publisher.pending) for peer in peers] == [(20, 0)] * 2


def test_answers_of_all_kinds_in_one_read() -> None:
    peer = Peer()
    ready_to_go = peer.publisher.publish("s.a", b"x", now=peer.now)
    peer.many(9)
    answered = peer.publisher.answered()
    peer.look()
    answers = [(1, ACK % 1), (2, ACK % 2), (99, ACK % 3), (3, json.dumps(REFUSED).encode()), (4, ACK % 4), (4, ACK % 4)]
    answers += [(number, ACK % number) for number in range(5, 11)]

    def read(answers: list[tuple[int, bytes]]) -> bytes:
        return b"".join(encode_msg(b"_INBOX.p.%d-" % number, b"1", None, None, text) for number, text in answers)

    peer.harness.feed(read(answers))
    assert ready_to_go.result() == PubAck("S", 1)
    assert (peer.publisher.acked, peer.publisher.failed, peer.publisher.pending) == (9, 1, 0)
    assert answered.done
    assert [event.subject for event in peer.harness.events() if isinstance(event, UnexpectedMessage)] == [
        "_INBOX.p.99-",
        "_INBOX.p.4-",
    ]
    peer.many(10)
    answers = [(number, ACK % number + (b"\n" if number == 15 else b"")) for number in range(11, 21)]
    peer.harness.feed(read(answers))
    assert (peer.publisher.acked, peer.publisher.failed, peer.publisher.pending) == (19, 1, 0)


def test_scripts_go_on_when_their_answers_come_in_one_read() -> None:
    peer = Peer()
    tickets = [peer.publisher.publish("s.a", b"x", now=peer.now) for _ in range(12)]

    def script() -> Script[list[int]]:
        first = yield tickets[3]
        last = yield tickets[11]
        return [first.seq, last.seq]

    outcome = peer.harness.session.run(script())
    peer.look()
    peer.harness.feed(b"".join(encode_msg(b"_INBOX.p.%d-" % n, b"1", None, None, ACK % n) for n in range(1, 13)))
    assert outcome.result() == [4, 12]


def test_acknowledgements_of_several_publishers_in_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness()
    peers = [Peer(harness, inbox=f"_INBOX.{name}") for name in "ab"]
    tickets = [peer.publisher.publish("s.a", b"x", now=peer.now) for peer in peers for _ in range(20)]
    for peer in peers:
        peer.many(20)
    harness.sent()
    monkeypatch.setattr(PipelinedPublisher, "receive", None)  # nothing comes by itself
    harness.feed(
        b"".join(
            encode_msg(
                b"_INBOX.%b.%d-" % (b"ab"[which : which + 1], number), b"%d" % (which + 1), None, None, ACK % number
            )
            for which in (0, 1)
            for number in range(1, 41)
        )
    )
    assert [(peer.publisher.acked, peer.publisher.pending, peer.publisher.pending_bytes) for peer in peers] == [
        (40, 0, 0)
    ] * 2
    assert [ticket.result().seq for ticket in tickets] == [*range(1, 21)] * 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b.%d", "c"]), st.binary(max_size=9) | st.just(b"x" * 1_100))
        | st.tuples(st.just("d"), st.just(b"y"), st.sampled_from([None, {"A": "b"}])),
        max_size=30,
    ),
    st.sampled_from([5, 2_000, 1_000_000]),
    st.sampled_from([300, 2_097_152]),
    st.booleans(),
)
@example([("a", b"12345"), ("a", b"")], 5, 300, False)
def test_many_at_once_are_those_one_by_one(
    messages: list[Any], max_pending_bytes: int, pending_size: int, as_columns: bool
) -> None:
    if as_columns:
        messages = [message[:2] for message in messages]
    outcomes = []
    for at_once in (True, False):
        harness = Harness(pending_size=pending_size)
        publisher = PipelinedPublisher(harness.session, inbox="_INBOX.p", max_pending_bytes=max_pending_bytes)
        taken = 0
        try:
            if at_once:
                rows: Any = MessageColumns(*zip(*messages, strict=True)) if as_columns and messages else messages
                taken = publisher.publish_many(rows, harness.now)
            else:
                for message in messages:
                    if not publisher.room:
                        break
                    publisher.publish(*message, now=harness.now)
                    taken += 1
        except OutboundBufferLimitError:
            pass
        kept = [[*message[:2]] for message in publisher._open.values()]
        outcomes.append((taken, publisher.sequence, publisher.pending_bytes, kept, harness.published()))
    assert outcomes[0] == outcomes[1]


def test_what_is_no_message_is_refused_after_those_before_it() -> None:
    wrong: Any
    for wrong in (("a",), 7, ("a", "text"), ("a", b"", {}, 1)):
        harness = Harness()
        publisher = PipelinedPublisher(harness.session, inbox="_INBOX.p")
        with pytest.raises((LocalProtocolError, TypeError)):
            publisher.publish_many([("a", b"1"), wrong, ("a", b"2")], harness.now)
        assert (publisher.sequence, publisher.pending, len(harness.published())) == (1, 1, 1)
