"""Links that are waited for, left or counted: the first connection, force_reconnect, lame-duck mode, statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.lame_duck import CHECK_EVERY, MAX_PINGS
from jsproto.client.connection.session import Session
from jsproto.client.connection.subscription import Subscription
from jsproto.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
    MaxPayloadError,
    NoServersError,
)
from jsproto.events import Connected, Disconnected, LameDuckMode, MessageTooLarge, ServerInfoChanged
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.subjects import matches
from jsproto.wire.encoder import PING, PONG, encode_err, encode_info, encode_msg
from jsproto.wire.frames import Ping, Pub
from tests.harness import INFO, TOKEN, Harness
from tests.marks import promise


def linked(**options: Any) -> Harness:
    """A session with a link, which dials again when it is lost."""
    options.setdefault("max_reconnect_attempts", 60)
    return Harness(**options)


def host(session: Session) -> str | None:
    return None if session.connect_to is None else session.connect_to.host


def going(harness: Harness, **fields: Any) -> list[Any]:
    """The server says that it is about to go. The events."""
    harness.feed(encode_info(json.dumps({**INFO, "ldm": True, **fields}).encode()))
    return harness.events()


# -- the first connection ----------------------------------------------------------------------------------------------


def test_the_first_connection_may_wait_for_a_server() -> None:
    harness = Harness(
        connected=False, retry_on_first_connect=True, max_reconnect_attempts=60, servers="a,b", reconnect_jitter=0
    )
    session = harness.session
    for expected in "abab":
        if session.connect_to is None:
            assert session.deadline() == harness.now + 2.0
            harness.advance(2.0)
        assert host(session) == expected
        session.connection_failed("refused", harness.now)
        assert not session.connected.done
    harness.advance(2.0)
    harness.connect()
    assert session.connected.done
    assert [type(event) for event in harness.events()] == [Connected]
    assert session.stats["reconnects"] == 0


def test_the_first_connection_waits_no_longer_than_it_may() -> None:
    harness = Harness(
        connected=False, retry_on_first_connect=True, max_reconnect_attempts=-1, first_connect_timeout=5,
        reconnect_jitter=0,
    )  # fmt: skip
    session = harness.session
    session.handle_timeout(harness.now)
    assert session.deadline() == harness.now + 5
    for _ in range(3):
        session.connection_failed("refused", harness.now)
        harness.advance(2.0)
    error = session.connected.error
    assert isinstance(error, NoServersError)
    assert str(error) == (
        "cannot connect: nats://localhost:4222: refused (3 times); "
        "nats://localhost:4222: the time for the first connection is over"
    )
    assert session.closed
    assert session.deadline() is None


def test_a_handshake_counts_into_the_time_for_the_first_connection() -> None:
    harness = Harness(connected=False, retry_on_first_connect=True, max_reconnect_attempts=9, first_connect_timeout=1.5)
    harness.session.handle_timeout(harness.now)
    harness.session.connection_made(harness.now)
    assert harness.session.deadline() == harness.now + 1.5
    harness.advance(1.5)
    assert isinstance(harness.session.connected.error, NoServersError)
    assert harness.session.wants_close


@promise("So do credentials that were refused twice by one server.")
def test_the_first_connection_ends_when_the_credentials_are_refused_twice() -> None:
    harness = Harness(connected=False, retry_on_first_connect=True, max_reconnect_attempts=-1, token="t")
    session = harness.session
    for _ in range(2):
        assert not session.connected.done
        if session.connect_to is None:
            harness.advance(5.0)
        session.connection_made(harness.now)
        harness.feed(encode_info(json.dumps(INFO).encode()))
        harness.sent()
        harness.feed(encode_err(b"'Authorization Violation'"))
    assert type(session.connected.error) is AuthorizationError


def test_a_server_that_refuses_once_is_not_the_end() -> None:
    harness = Harness(connected=False, retry_on_first_connect=True, max_reconnect_attempts=-1, token="t")
    harness.session.connection_made(harness.now)
    harness.feed(encode_info(json.dumps(INFO).encode()))
    harness.sent()
    harness.feed(encode_err(b"'Authorization Violation'"))
    harness.advance(5.0)
    harness.connect()
    assert harness.session.connected.done


# -- force_reconnect ---------------------------------------------------------------------------------------------------


def test_a_link_is_left_for_the_next_server() -> None:
    harness = linked(servers="a,b")
    session = harness.session
    subscription = Subscription(session, "a")
    request = session.request("q", now=harness.now)
    harness.sent()
    session.force_reconnect(harness.now)
    assert host(session) == "b"
    assert session.wants_close
    assert not session.is_connected
    (event,) = harness.events()
    assert isinstance(event, Disconnected)
    assert str(event.error) == "this side left the link: force_reconnect() was called"
    assert isinstance(request.error, ConnectionLostError)
    session.receive_eof(harness.now)  # of the link that was left
    session.force_reconnect(harness.now)  # it is being dialled
    assert host(session) == "b"
    harness.connect()
    assert subscription.error is None
    assert b"a" in harness.subs.values()
    for _ in range(20):  # however often, there is no pause
        session.force_reconnect(harness.now)
        assert session.connect_to is not None
        harness.connect()
    assert session.stats["reconnects"] == 21


def test_a_pause_is_ended() -> None:
    harness = linked()
    harness.lose()
    harness.session.connection_failed("refused", harness.now)
    assert harness.session.connect_to is None
    harness.session.force_reconnect(harness.now)
    assert host(harness.session) == "localhost"
    harness.session.connection_made(harness.now)
    harness.session.force_reconnect(harness.now)  # the handshake goes on
    assert harness.session.connect_to is None


def test_a_link_without_a_next_one_is_not_left() -> None:
    harness = Harness()
    with pytest.raises(LocalProtocolError, match="max_reconnect_attempts is 0"):
        harness.session.force_reconnect(harness.now)
    assert harness.session.is_connected
    harness.session.close(harness.now)
    with pytest.raises(ConnectionClosedError):
        harness.session.force_reconnect(harness.now)


# -- lame-duck mode ----------------------------------------------------------------------------------------------------


def moving(**options: Any) -> Harness:
    """A session whose link may move at once."""
    return linked(servers="a,b", reconnect_time_wait=0, reconnect_jitter=0, **options)


def test_a_server_that_goes_is_left_when_nothing_is_under_way() -> None:
    harness = moving()
    Subscription(harness.session, "a")
    harness.sent()
    duck, info, lost = going(harness)
    assert duck == LameDuckMode("nats://a:4222")
    assert isinstance(info, ServerInfoChanged)
    assert str(lost.error) == "this side left the link: the server is in lame duck mode"
    assert host(harness.session) == "b"
    harness.connect()
    assert [type(event) for event in harness.events()] == [Connected]
    assert harness.session.deadline() == harness.now + 120.0  # it looks no more


def test_it_is_left_at_a_random_moment() -> None:
    delays = set()
    for token in range(20):
        session = Session(
            connect_options("a,b", reconnect_time_wait=10, reconnect_jitter=0, linger=1.0), token=bytes([token] * 16)
        )
        session.connection_made(0.0)
        session.receive_data(encode_info(json.dumps(INFO).encode()) + PONG, 0.0)
        session.receive_data(encode_info(json.dumps({**INFO, "ldm": True}).encode()), 0.0)
        due = session.deadline()
        assert due is not None
        assert 0 <= due < 10
        session.handle_timeout(due)
        assert not session.is_connected
        delays.add(due)
    assert len(delays) > 15


@pytest.mark.parametrize("options", [{"servers": "a"}, {"servers": "a,b", "max_reconnect_attempts": 0}])
def test_without_another_server_the_link_stays(options: dict[str, Any]) -> None:
    harness = linked(reconnect_time_wait=0, reconnect_jitter=0, **options)
    assert [type(event) for event in going(harness)] == [LameDuckMode, ServerInfoChanged]
    harness.advance(10.0)
    assert harness.session.is_connected


def test_the_other_server_may_be_one_that_it_names_itself() -> None:
    harness = linked(servers="a", reconnect_time_wait=0, reconnect_jitter=0)
    going(harness, connect_urls=["b:4222"])
    assert host(harness.session) == "b"


def test_the_last_server_of_a_cluster_is_not_left_for_those_that_are_gone() -> None:
    harness = linked(
        servers="a,b", reconnect_time_wait=0, reconnect_jitter=0, info={"connect_urls": ["a:4222", "c:4222"]}
    )
    harness.feed(encode_info(json.dumps({**INFO, "connect_urls": ["a:4222"]}).encode()))
    going(harness)
    harness.advance(10.0)
    assert harness.session.url == "nats://a:4222"
    going(harness, connect_urls=["d:4222"])  # one that has come meanwhile
    harness.advance(10.0)
    assert host(harness.session) == "b"
    harness.session.connection_failed("refused", harness.now)
    assert host(harness.session) == "d"


def test_another_server_may_go_before_the_link_was_left() -> None:
    harness = linked(
        servers="a", info={"connect_urls": ["a:4222", "b:4222"]}, reconnect_jitter=0, reconnect_time_wait=9
    )
    going(harness, connect_urls=["b:4222"])
    assert harness.session.is_connected
    going(harness)
    harness.advance(20.0)
    assert harness.session.is_connected


def test_it_is_told_once() -> None:
    harness = linked(servers="a")
    assert len(going(harness)) == 2
    assert [type(event) for event in going(harness)] == [ServerInfoChanged]


@promise("If there is another server, the connection moves there at a moment when no request")
def test_answers_are_waited_for() -> None:
    harness = moving()
    first = harness.session.request("q", now=harness.now)
    (question,) = harness.published()
    going(harness)
    harness.advance(1.0)
    assert harness.session.is_connected
    assert question.reply is not None
    harness.deliver(question.reply, b"answer")  # it shows that all before it was processed
    assert first.result().payload == b"answer"
    assert host(harness.session) == "b"
    assert harness.sent(Ping) == []


def test_what_was_published_is_waited_for() -> None:
    harness = moving()
    harness.session.publish_message("a", b"1")
    harness.sent()
    going(harness)
    assert harness.session.is_connected
    assert len(harness.sent(Ping)) == 1
    harness.advance(5.0)
    assert harness.sent(Ping) == []
    harness.session.publish_message("a", b"2")  # after the PING
    harness.sent()
    harness.feed(PONG)
    assert len(harness.sent(Ping)) == 1
    harness.feed(PONG)
    assert host(harness.session) == "b"


def test_a_stream_of_messages_does_not_hold_it_for_ever() -> None:
    harness = moving()
    harness.session.publish_message("a", b"1")
    harness.sent()
    going(harness)
    pings = 0
    while harness.session.is_connected:
        pings += len(harness.sent(Ping))
        harness.session.publish_message("a", b"more")
        harness.sent()
        harness.feed(PONG)
    assert pings == MAX_PINGS


def test_what_waits_to_be_written_is_written_first() -> None:
    harness = moving(linger=1.0)
    harness.session.publish_message("a", b"1")
    harness.session.receive_data(encode_info(json.dumps({**INFO, "ldm": True}).encode()), harness.now)
    assert harness.session.is_busy
    harness.session.handle_timeout(harness.now + CHECK_EVERY)
    assert harness.session.is_connected
    assert len(harness.published()) == 1


@promise("If there is another server, the connection moves there at a moment when no request")
def test_a_batch_that_is_given_up_is_noticed() -> None:
    harness = moving()
    batch = harness.js.atomic_batch(ack_first=False)
    batch.add("a", b"1", now=harness.now)
    harness.sent()
    going(harness)
    harness.advance(0.5)
    assert harness.session.is_connected
    batch.discard(harness.now)
    harness.sent()
    harness.advance(CHECK_EVERY)
    harness.feed(PONG)
    assert host(harness.session) == "b"


@promise("If there is another server, the connection moves there at a moment when no request")
def test_acknowledgements_are_waited_for() -> None:
    harness = moving()
    publisher = harness.js.async_publisher()
    assert not publisher.is_busy
    publisher.publish("a", b"1", now=harness.now)
    (message,) = harness.published()
    going(harness)
    assert harness.session.is_connected
    assert message.reply is not None
    harness.deliver(message.reply, b'{"stream": "S", "seq": 1}')
    harness.sent()
    harness.feed(PONG)
    assert host(harness.session) == "b"


def test_a_server_that_goes_before_the_link_moves() -> None:
    harness = moving()
    harness.session.request("q", now=harness.now)
    harness.sent()
    going(harness)
    harness.lose()
    assert host(harness.session) == "b"
    harness.connect()
    harness.advance(1.0)
    assert harness.session.is_connected


def test_a_session_that_is_closed_moves_nowhere() -> None:
    harness = moving()
    harness.session.request("q", now=harness.now)
    harness.sent()
    going(harness)
    harness.session.close(harness.now)
    assert harness.session.connect_to is None
    assert harness.session.deadline() is None


def test_a_server_that_goes_during_the_handshake() -> None:
    harness = linked(servers="a,b", connected=False)
    harness.session.connection_made(harness.now)
    harness.feed(encode_info(json.dumps(INFO).encode()))
    harness.sent()
    assert going(harness)[0] == LameDuckMode("nats://a:4222")
    harness.feed(PONG)
    assert harness.session.is_connected


# -- statistics --------------------------------------------------------------------------------------------------------


def test_messages_and_bytes_are_counted() -> None:
    harness = linked()
    session = harness.session
    before = session.stats
    assert (before["in_msgs"], before["out_msgs"], before["reconnects"]) == (0, 0, 0)
    subscription = Subscription(session, "a")
    session.publish_message("b", b"12345")
    session.publish_message("b", b"x", headers={"K": "v"})
    session.publish_to_pattern("b.*", b"", b"r")
    session.publish_replies([b"r1", b"r2"], b"+ACK")
    assert session.publish_run([("b", b"1"), ("b", b"2")], (b"r.", b".x"), 1) == 2
    assert session.publish_run(MessageColumns(["b", "b"], [b"1", b"2"]), (b"r.", b".x"), 1) == 2
    assert session.publish_numbered([("b", b"1")], (b"NATS/1.0\r\nN: ", b"\r\n\r\n"), 1, set()) == 1
    assert session.publish_replied([("b", b"1")], [b"r"]) == 1
    waiting = session.stats["pending_bytes"]
    assert waiting > 0
    harness.sent()
    found = session.stats
    assert (found["out_msgs"], found["out_bytes"], found["pending_bytes"]) == (11, waiting, 0)
    one = encode_msg(b"a", b"1", None, None, b"x")
    harness.feed(one * 3)
    assert session.stats["in_msgs"] == 3
    assert session.stats["in_bytes"] == before["in_bytes"] + 3 * len(one)
    assert len(subscription.pop_many(9)) == 3
    harness.feed(encode_err(b"'Permissions Violation for Publish to \"b\"'"))
    harness.lose()
    harness.connect()
    assert (session.stats["errors_received"], session.stats["reconnects"]) == (1, 1)
    assert session.stats["in_msgs"] == 3


def test_deliveries_and_pages_are_counted() -> None:
    harness = linked()
    subscription = Subscription(harness.session, "a")
    delivery = encode_msg(b"a", b"1", b"$JS.ACK.S.C.1.1.1.1.0", None, b"x")
    harness.sent()
    harness.feed(delivery * 40)
    assert harness.session.stats["in_msgs"] == 40
    assert len(subscription.pop_many(99)) == 40
    batch = harness.js.get_batch("S", now=harness.now)
    (request,) = [frame for frame in harness.sent() if isinstance(frame, Pub)]
    assert request.reply is not None
    header = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 1\r\n\r\n"
    sid = next(sid for sid, subject in harness.subs.items() if matches(subject.decode(), request.reply.decode()))
    harness.feed(encode_msg(request.reply, sid, None, header, b"x") * 5)
    assert harness.session.stats["in_msgs"] == 45
    batch.close(harness.now)


def test_a_round_trip_is_in_seconds() -> None:
    harness = linked()
    ticket = harness.session.ping(harness.now)
    assert PING
    harness.sent()
    harness.now += 0.125
    harness.feed(PONG)
    assert ticket.result() == 0.125


def test_the_same_token_gives_the_same_order() -> None:
    def first(token: bytes) -> str | None:
        return host(Session(connect_options("a,b,c"), token=token))

    tokens = [bytes([value]) * 16 for value in range(64)]
    assert {first(token) for token in tokens} == {"a", "b", "c"}
    assert [first(token) for token in tokens] == [first(token) for token in tokens]
    assert host(Session(connect_options("a,b,c", dont_randomize=True), token=TOKEN)) == "a"


# -- what waited for the link ------------------------------------------------------------------------------------------


def test_what_waits_is_measured_for_the_server_that_takes_it() -> None:
    """One that takes less would end the link at the first large message, and those after it would be lost."""
    harness = Harness(max_reconnect_attempts=60, reconnect_time_wait=0)
    session = harness.session
    before = session.request("asked.before", now=harness.now)  # so the inbox is subscribed to
    harness.lose()
    assert isinstance(before.error, ConnectionLostError)
    session.publish_message("a", b"1" * 100)
    session.publish_message("large", b"2" * 101)
    session.publish_message("large.answered", b"PUB x 0\r\n" * 20, reply="b")
    kept, large = (session.request("asked", b"x" * size, now=harness.now) for size in (100, 101))
    session.publish_message("large.headers", b"3" * 90, headers={"K": "v"})
    session.publish_message("large.both", b"3" * 90, headers={"K": "v"}, reply="b")
    session.publish_message("c", b"4" * 60, headers={"K": "v"})
    session.publish_message("split", b"5" * 100_000)
    Subscription(session, "d")
    session.publish_message("a", b"6")
    harness.info = {**INFO, "max_payload": 100}
    harness.connect()
    told = [event for event in harness.events() if isinstance(event, MessageTooLarge)]
    assert [(event.subject, event.size, event.limit) for event in told] == [
        ("large", 101, 100), ("large.answered", 180, 100), ("asked", 101, 100), ("large.headers", 108, 100),
        ("large.both", 108, 100), ("split", 100_000, 100),
    ]  # fmt: skip
    assert [(frame.subject, len(frame.payload)) for frame in harness.published()] == [
        (b"a", 100), (b"asked", 100), (b"c", 60), (b"a", 1),
    ]  # fmt: skip
    assert isinstance(large.error, MaxPayloadError)
    assert not kept.done
    assert b"d" in harness.subs.values()
    assert session.stats["pending_bytes"] == 0
    harness.lose()
    session.publish_message("a", b"1" * 100)
    harness.info = INFO  # takes more again
    harness.connect()
    assert not [event for event in harness.events() if isinstance(event, MessageTooLarge)]
    assert len(harness.published()) == 1


def test_servers_of_the_cluster_are_dialled_too() -> None:
    harness = Harness(info={"connect_urls": ["other:4333"]}, max_reconnect_attempts=-1)
    harness.lose()
    assert harness.session.connect_to is not None
    assert harness.session.connect_to.url == "nats://other:4333"


def test_what_was_dialled_may_end_after_the_session() -> None:
    """Nobody can keep the two from crossing."""
    harness = Harness(connected=False)
    harness.session.close(harness.now)
    before = harness.session.error, harness.session.connected.error
    harness.session.connection_failed("Connection refused", harness.now)
    harness.session.connection_made(harness.now)
    assert (harness.session.error, harness.session.connected.error) == before
    assert harness.session.wants_close
    assert not harness.session.is_connected
    harness = Harness()
    for dialled_unasked in (harness.session.connection_made, lambda now: harness.session.connection_failed("", now)):
        with pytest.raises(LocalProtocolError, match="asked for no connection"):
            dialled_unasked(harness.now)


def test_a_carrier_that_fails_for_good() -> None:
    """No new link is asked for; who waits is told why; the second time nothing happens."""
    client = Harness(max_reconnect_attempts=-1)
    waiting = Subscription(client.session, "a").readable()
    client.session.abort("the roof fell in", client.now)
    assert (client.session.closed, client.session.connect_to) == (True, None)
    assert not client.session.wants_send(client.now)
    client.session.abort("again", client.now)
    assert str(client.session.error) == "the roof fell in"
    with pytest.raises(ConnectionLostError, match="the roof fell in"):
        waiting.result()
