"""PINGs and PONGs of both sides: what is answered, what is silence, what is late, what waits while there is no link."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jsproto.client.connection.link import MAX_PONGS
from jsproto.errors import StaleConnectionError
from jsproto.wire.encoder import PING, PONG, encode_err
from jsproto.wire.frames import Ping, Pong, Pub
from tests.effort import examples
from tests.harness import Harness
from tests.marks import promise


def test_pings_are_answered_and_asked() -> None:
    harness = Harness(ping_interval=10.0, max_outstanding_pings=2)
    harness.feed(PING)
    assert harness.sent() == [Pong()]
    harness.advance(10.0)
    assert harness.sent() == [Ping()]
    harness.feed(PONG)
    harness.feed(PONG)  # unsolicited
    harness.advance(20.0)
    assert harness.sent() == [Ping(), Ping()]
    harness.advance(10.0)
    assert isinstance(harness.session.error, StaleConnectionError)


def test_who_flushes_keeps_no_link_from_living() -> None:
    """Round trips that are under way when the keep-alive is due are no missing answers."""
    harness = Harness(ping_interval=10.0, max_outstanding_pings=2)
    for _ in range(3):
        harness.now += 9.9
        harness.session.handle_timeout(harness.now)
        tickets = [harness.session.ping(harness.now) for _ in range(5)]
        harness.advance(0.2)
        asked = harness.sent(Ping)
        harness.feed(PONG * len(asked))
        assert all(ticket.done and ticket.error is None for ticket in tickets)
    assert harness.session.is_connected


def test_an_answer_to_a_flush_is_a_sign_of_life() -> None:
    harness = Harness(ping_interval=10.0, max_outstanding_pings=2)
    flushed = harness.session.ping(harness.now)
    harness.advance(20.0)
    assert len(harness.sent(Ping)) == 3
    harness.feed(PONG)  # the server is slow: it has the first one now
    assert flushed.done
    harness.advance(20.0)
    assert harness.session.is_connected
    harness.advance(10.0)
    assert isinstance(harness.session.error, StaleConnectionError)


def test_a_flush_without_an_answer_does_not_keep_a_dead_link() -> None:
    harness = Harness(ping_interval=10.0, max_outstanding_pings=2)
    flushes = []
    for _ in range(3):
        flushes.append(harness.session.ping(harness.now))
        harness.advance(10.0)
    assert isinstance(harness.session.error, StaleConnectionError)
    assert all(flushed.error is harness.session.error for flushed in flushes)


def test_a_ping_while_much_waits_ends_no_link() -> None:
    harness = Harness(pending_size=10_000_000)
    for number in range(2_000):
        harness.session.publish_message("a", b"%d" % number)
    flushed = harness.session.ping(harness.now)  # which all of them have to go before
    for number in range(2_000, 4_000):
        harness.session.publish_message("a", b"%d" % number)
    harness.session.receive_data(PING, harness.now)
    assert harness.session.is_connected
    frames = harness.sent()
    assert [int(frame.payload) for frame in frames if isinstance(frame, Pub)] == list(range(4_000))
    assert [frame for frame in frames if not isinstance(frame, Pub)] == [Ping(), Pong()]
    harness.feed(PONG)
    assert flushed.done


@settings(max_examples=examples(25))
@given(st.lists(st.integers(1, 120_000), max_size=20), st.booleans())
def test_how_pings_are_cut_does_not_matter(cuts: list[int], writes_between: bool) -> None:
    """Each has its answer in the end, however many come at once, and whether something could leave meanwhile."""
    harness = Harness()
    data = PING * 20_000
    at = answered = 0
    for cut in [*sorted(set(cuts)), len(data)]:
        harness.session.receive_data(data[at:cut], harness.now)
        at = max(at, cut)
        if writes_between:
            answered += len(harness.sent(Pong))
    assert harness.session.is_connected
    while harness.session.wants_send(harness.now):
        (pongs,) = harness.session.data_to_send()
        assert len(pongs) <= MAX_PONGS * len(PONG)
        answered += pongs.count(PONG)
    assert answered == 20_000


@promise("Memory is bounded whatever the peer sends.")
def test_a_peer_that_asks_and_never_reads_costs_no_memory() -> None:
    """Nor does it live: it answers nothing either."""
    harness = Harness(ping_interval=10.0, max_outstanding_pings=2)
    for _ in range(20):
        harness.session.receive_data(PING * 10_000, harness.now)
    link = harness.session._link
    assert link is not None
    assert link.to_send == []
    for _ in range(3):
        harness.now += 10.0
        harness.session.handle_timeout(harness.now)
    assert isinstance(harness.session.error, StaleConnectionError)
    assert not harness.session.wants_send(harness.now)


def test_flushes_that_are_given_up_while_there_is_no_link_leave_nothing() -> None:
    harness = Harness(max_reconnect_attempts=-1)
    harness.lose()
    tickets = [harness.session.ping(harness.now) for _ in range(1_000)]
    assert len({id(ticket) for ticket in tickets}) == 1
    harness.connect()
    assert harness.sent(Ping) == [Ping()]
    harness.feed(PONG)
    assert tickets[0].result() == 0.0
    assert harness.session.ping(harness.now) is not tickets[0]


def test_what_comes_too_late_for_a_driver_that_sleeps() -> None:
    harness = Harness()
    session = harness.session
    harness.drain()
    keep_alive = session.deadline()
    assert keep_alive is not None
    assert not session.is_late(keep_alive)
    assert session.is_late(keep_alive + 1.0)  # it would sleep through a deadline
    session.receive_data(encode_err(b"'Permissions Violation for Publish to \"a\"'"), harness.now)
    assert session.is_late(harness.now)  # nobody would hear of the event
    session.events()
    assert not session.is_late(harness.now)
    session.abort("the end", harness.now)
    session.events()
    assert (session.take_completed(), session.deadline()) == ([], None)
    assert not session.is_late(keep_alive + 1.0)
