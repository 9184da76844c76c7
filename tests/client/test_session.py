"""Session and link: handshake, keep-alive, bounds, flush policy, the end; against a scripted server."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.connection.bulk_publish import LONGEST_LINE, MAX_CACHED_SUBJECTS
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.client.connection.subscription import Subscription
from jsproto.errors import (
    AuthorizationError,
    BadHeaderError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionLostError,
    Error,
    LocalProtocolError,
    MaxPayloadError,
    NoServersError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    ServerError,
    TimeoutError,
    UnsupportedByServerError,
)
from jsproto.events import (
    Connected,
    Disconnected,
    LameDuckMode,
    ServerInfoChanged,
    ServerReportedError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.ticket import Ticket
from jsproto.wire.encoder import PING, PONG, encode_err, encode_info, encode_msg
from jsproto.wire.frames import Connect, Ping, Pub, Sub, Unsub
from tests.harness import INFO, TOKEN, Harness
from tests.marks import known_fault, promise


def info(**fields: Any) -> bytes:
    return encode_info(json.dumps({**INFO, **fields}).encode())


def dialled(**options: Any) -> Harness:
    harness = Harness(connected=False, **options)
    harness.session.connection_made(harness.now)
    return harness


# -- the handshake -----------------------------------------------------------------------------------------------------


def test_the_handshake() -> None:
    harness = Harness(connected=False, name="me", token="secret")
    session = harness.session
    address = session.connect_to
    assert address is not None
    assert (address.host, address.port, address.url) == ("localhost", 4222, "nats://localhost:4222")
    assert (session.server, session.url) == (None, None)
    session.connection_made(harness.now)
    assert session.connect_to is None
    harness.feed(info())
    connect, ping = harness.sent()
    assert isinstance(connect, Connect)
    assert isinstance(ping, Ping)
    fields = json.loads(connect.raw)
    assert fields == {
        "verbose": False, "pedantic": False, "lang": "python-jsproto", "version": fields["version"], "protocol": 1,
        "echo": True, "headers": True, "no_responders": True, "name": "me", "auth_token": "secret",
    }  # fmt: skip
    assert not session.connected.done
    harness.feed(PONG)
    assert session.connected.result().version == "2.15.1"
    assert session.connected in harness.completed
    (event,) = harness.events()
    assert isinstance(event, Connected)
    assert event.url == session.url == "nats://localhost:4222"
    assert session.max_payload == 1_048_576


def test_credentials_of_the_url_go_before_those_of_the_options() -> None:
    def connect(url: str) -> dict[str, Any]:
        session = Session(connect_options(url, user="option", password="p"), token=TOKEN)
        session.connection_made(0.0)
        session.receive_data(info(), 0.0)
        raw = b"".join(session.data_to_send()).partition(b"\r\n")[0].removeprefix(b"CONNECT ")
        fields: dict[str, Any] = json.loads(raw)
        return {key: fields.get(key) for key in ("user", "pass", "auth_token")}

    assert connect("nats://h") == {"user": "option", "pass": "p", "auth_token": None}
    assert connect("nats://u%40x:s@h") == {"user": "u@x", "pass": "s", "auth_token": None}
    assert connect("nats://tok@h") == {"user": None, "pass": None, "auth_token": "tok"}


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (b"INFO {\r\n", RemoteProtocolError, "JSON"),
        (b"INFO []\r\n", RemoteProtocolError, ""),
        (b"HTTP/1.1 400 Bad Request\r\n", RemoteProtocolError, ""),
        (b"PING\r\n", RemoteProtocolError, "not spoken"),
        (info() + encode_msg(b"a", b"1", None, None, b""), RemoteProtocolError, "Msg"),
        (info() + encode_err(b"'Authorization Violation'"), AuthorizationError, "Authorization Violation"),
    ],
)
def test_a_handshake_that_fails(data: bytes, error: type[Error], text: str) -> None:
    harness = dialled()
    harness.feed(data)
    assert type(harness.session.connected.error) is error
    assert text in str(harness.session.connected.error)
    assert str(harness.session.connected.error).startswith("nats://localhost:4222: ")
    assert harness.session.closed
    assert harness.session.wants_close
    harness.feed(info())  # too late
    harness.session.receive_eof(harness.now)
    assert harness.session.deadline() is None


def test_the_peer_leaves_during_the_handshake() -> None:
    harness = dialled()
    harness.session.receive_eof(harness.now)
    error = harness.session.connected.error
    assert isinstance(error, ConnectionLostError)
    assert "handshake" in str(error)


def test_the_handshake_takes_too_long() -> None:
    harness = dialled(connect_timeout=2.0)
    harness.feed(info())
    harness.advance(1.9)
    assert not harness.session.closed
    harness.advance(0.2)
    assert "handshake" in str(harness.session.connected.error)


@promise("A link ends once. `receive_eof` after the end of the link changes nothing")
def test_no_address_answers() -> None:
    session = Session(connect_options("nats://a:1,b:2", dont_randomize=True), token=TOKEN)
    session.receive_data(b"junk", 0.0)  # no link: nothing to do with it
    session.receive_eof(0.0)
    session.handle_timeout(0.0)
    assert session.data_to_send() == []
    session.connection_failed("refused", 0.0)
    assert session.connect_to is not None
    assert session.connect_to.host == "b"
    session.connection_failed("timed out", 0.0)
    error = session.connected.error
    assert isinstance(error, NoServersError)
    assert error.attempts == (("nats://a:1", "refused"), ("nats://b:2", "timed out"))
    assert session.connect_to is None


def test_a_handshake_that_fails_leads_to_the_next_address() -> None:
    session = Session(connect_options("nats://a:1,b:2", dont_randomize=True), token=TOKEN)
    session.connection_made(0.0)
    session.receive_data(b"junk\r\n", 0.0)
    assert session.wants_close
    assert not session.connected.done
    assert session.connect_to is not None
    assert session.connect_to.host == "b"
    session.connection_made(0.0)
    assert not session.wants_close
    session.receive_data(info(), 0.0)
    session.receive_eof(0.0, "gone")
    error = session.connected.error
    assert isinstance(error, NoServersError)
    assert [url for url, _ in error.attempts] == ["nats://a:1", "nats://b:2"]
    assert "gone during the handshake" in str(error)


def test_where_a_session_stands_is_one_line_without_secrets() -> None:
    harness = Harness(connected=False, servers="nats://user:s3cret@localhost:4222", max_reconnect_attempts=1)
    session = harness.session
    assert repr(session) == "<Session nats://localhost:4222 connecting, 0 bytes waiting>"
    harness.connect()
    assert session.state == "nats://localhost:4222 connected, nats-server 2.15.1, 0 bytes waiting"
    harness.lose()
    session.publish("a", b"xyz")
    assert session.state == f"nats://localhost:4222 reconnecting, {len(b'PUB a 3;xyz;;;')} bytes waiting"
    session.connection_failed("refused", harness.now)
    assert session.state == "nats://localhost:4222 closed: cannot connect: nats://localhost:4222: refused"
    closed = Harness()
    closed.session.close(closed.now)
    assert closed.session.state == "nats://localhost:4222 closed"


def test_a_token_is_needed() -> None:
    with pytest.raises(LocalProtocolError, match="random"):
        Session(connect_options(), token=b"short")


@promise("The same inputs give the same bytes")
@promise("Everything that may be written now, in order")
def test_the_same_inputs_give_the_same_bytes() -> None:
    def run() -> list[str]:
        harness = Harness()
        harness.session.request("a", b"x", now=harness.now)
        return [str(frame) for frame in harness.sent()]

    assert run() == run()
    assert run()


# -- round trips -------------------------------------------------------------------------------------------------------


def test_round_trip() -> None:
    harness = Harness()
    harness.session.publish_message("a", b"before")
    ticket = harness.session.ping(harness.now)
    pub, ping = harness.sent()
    assert isinstance(pub, Pub)
    assert isinstance(ping, Ping)
    harness.now += 0.25
    harness.feed(PONG)
    assert ticket.result() == 0.25
    ticket = harness.session.ping(harness.now)
    harness.session.close(harness.now)
    assert isinstance(ticket.error, ConnectionClosedError)
    with pytest.raises(ConnectionClosedError):
        harness.session.ping(harness.now)


def test_round_trip_asked_for_before_there_is_a_link() -> None:
    harness = dialled()
    ticket = harness.session.ping(harness.now)
    harness.session.publish_message("a", b"before")
    harness.feed(info())
    harness.sent()
    harness.feed(PONG)
    pub, ping = harness.sent()
    assert isinstance(pub, Pub)
    assert isinstance(ping, Ping)
    harness.feed(PONG)
    assert ticket.result() == 0.0


# -- what the server says ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("headers", "more"), [(None, 0), ({"K": "v"}, len(b"NATS/1.0\r\nK: v\r\n\r\n"))])
def test_a_message_that_is_too_large_is_measured_to_the_byte(headers: Any, more: int) -> None:
    session = Harness(info={"max_payload": 100}).session
    session.publish_message("a", b"x" * (100 - more), headers=headers)
    for size in (101, 150):
        with pytest.raises(MaxPayloadError, match=f"has {size} bytes with its headers") as caught:
            session.publish_message("a", b"x" * (size - more), headers=headers)
        assert (caught.value.size, caught.value.limit) == (size, 100)


def test_info_again() -> None:
    harness = Harness()
    harness.feed(info(connect_info=True, client_id=7))  # what servers send behind the PONG
    assert harness.events() == []
    assert harness.session.server is not None
    assert harness.session.server.client_id == 7
    harness.feed(info(max_payload=10, ldm=True))
    going, event = harness.events()
    assert going == LameDuckMode("nats://localhost:4222")
    assert isinstance(event, ServerInfoChanged)
    with pytest.raises(MaxPayloadError):
        harness.session.publish_message("a", b"x" * 11)
    harness.feed(b"INFO {}}\r\n")
    assert isinstance(harness.session.error, RemoteProtocolError)


@pytest.mark.parametrize(
    "text", ['Permissions Violation for Publish to "a"', "Invalid Subject", "maximum subscriptions exceeded"]
)
def test_errors_that_leave_the_connection_alone(text: str) -> None:
    harness = Harness()
    harness.feed(encode_err(f"'{text}'".encode()))
    (event,) = harness.events()
    assert isinstance(event, ServerReportedError)
    assert (text in event.text, event.fatal) == (True, False)
    assert not harness.session.closed


def test_an_error_before_the_end_is_the_reason_of_the_end() -> None:
    harness = Harness()
    harness.feed(encode_err(b"'Slow Consumer'"))
    (event,) = harness.events()
    assert isinstance(event, ServerReportedError)
    assert event.fatal
    harness.session.receive_eof(harness.now)
    assert isinstance(harness.session.error, ServerError)
    assert "Slow Consumer" in str(harness.session.error)


def test_a_message_for_nobody_is_passed_over() -> None:
    harness = Harness()
    harness.feed(encode_msg(b"a", b"99", None, None, b"x"))
    assert harness.events() == []
    assert not harness.session.closed


def test_nothing_follows_a_refusal() -> None:
    harness = Harness()
    harness.feed(encode_err(b"'Authorization Violation'") + PING)
    assert isinstance(harness.session.error, AuthorizationError)


def test_an_error_that_was_survived_is_not_blamed_later() -> None:
    harness = Harness()
    harness.feed(encode_err(b"'Something New'") + PING)
    harness.lose("reset by peer")
    assert "reset by peer" in str(harness.session.error)


def test_ok_is_harmless() -> None:
    harness = Harness()
    harness.feed(b"+OK\r\n")
    assert not harness.session.closed


@promise("A peer that breaks the protocol becomes state and a typed error in every open ticket.")
def test_garbage_ends_the_session_but_what_came_before_counts() -> None:
    harness = Harness()
    subscription = Subscription(harness.session, "a")
    harness.sent()
    harness.feed(encode_msg(b"a", b"1", None, None, b"x") + b"junk\r\n")
    assert [message.payload for message in subscription.pop_many(9)] == [b"x"]
    assert isinstance(harness.session.error, RemoteProtocolError)
    with pytest.raises(RemoteProtocolError):
        subscription.readable().result()


# -- publishing --------------------------------------------------------------------------------------------------------


def test_publishing() -> None:
    harness = Harness()
    session = harness.session
    session.publish_message("a", b"1")
    session.publish_message("a", b"2", reply="r")
    session.publish_message("a", b"3", headers={"K": ["v", "w"]})
    session.publish_message("ä.b", b"", reply="r", headers={"K": "v"})
    block = b"NATS/1.0\r\nK: v\r\nK: w\r\n\r\n"
    assert harness.published() == [
        Pub(b"a", None, None, b"1"), Pub(b"a", b"r", None, b"2"), Pub(b"a", None, block, b"3"),
        Pub("ä.b".encode(), b"r", b"NATS/1.0\r\nK: v\r\n\r\n", b""),
    ]  # fmt: skip


STOPS: list[Any] = [
    ("a%", b"x", {"Nats-Batch-Id": "b"}), ("a%", b"x", None, 1), ("a%", b"x" * 1_201), ("a%", bytearray(b"x")),
    ("a%", memoryview(b"x")), ("a%", "x"), ("a%", None), ("a b", b"x"), (1, b"x"), (["a"], b"x"), ("a%",), None,
]  # fmt: skip
"""What no run takes."""


@known_fault("publishing is slow: a write, or a round trip, for each message")
def test_a_run_of_plain_messages_is_queued_at_once() -> None:
    harness = Harness(info={"max_payload": 100})
    session = harness.session

    def run(*messages: Any) -> int:
        return session.publish_run(messages, (b"r%.", b""), 8)

    assert run() == run(("a b", b"1")) == 0
    assert run(("a%", b"1"), ("a%", b""), ("b", b"x")) == 3
    for stop in STOPS:
        assert run(("new", b""), ("a%", b"x"), stop, ("a%", b"y")) == 2
    assert harness.published() == [
        Pub(b"a%", b"r%.8", None, b"1"), Pub(b"a%", b"r%.9", None, b""), Pub(b"b", b"r%.10", None, b"x"),
        *[Pub(b"new", b"r%.8", None, b""), Pub(b"a%", b"r%.9", None, b"x")] * len(STOPS),
    ]  # fmt: skip


def test_a_run_in_columns_is_queued_as_publish_would() -> None:
    harness = Harness(info={"max_payload": 100}, pending_size=60 * 100)

    def run(first: int, subjects: list[Any], payloads: list[Any]) -> int:
        return harness.session.publish_run(MessageColumns(subjects, payloads), (b"r%.", b""), first)

    assert run(8, ["a%", "b", "a%"], [b"1", b"", b"x" * 100]) == 3
    assert run(11, ["b", "c"], [b"2", b"3"]) == 2
    for payload in (b"x" * 101, bytearray(b"x"), "x", None):
        assert run(1, ["b", "b"], [b"4", payload]) == 1
    for subject in ("a b", None, ["b"]):
        assert run(1, ["b", subject], [b"5", b"x"]) == 1
    assert harness.published() == [
        Pub(b"a%", b"r%.8", None, b"1"), Pub(b"b", b"r%.9", None, b""), Pub(b"a%", b"r%.10", None, b"x" * 100),
        Pub(b"b", b"r%.11", None, b"2"), Pub(b"c", b"r%.12", None, b"3"),
        *[Pub(b"b", b"r%.1", None, b"4")] * 4, *[Pub(b"b", b"r%.1", None, b"5")] * 3,
    ]  # fmt: skip
    assert 0 < run(1, ["b"] * 100, [b"x" * 100] * 100) < 100  # no room for all
    assert harness.session._write_buffer.size <= 60 * 100


class Encoded(MessageColumns):
    """Messages of which the first ``ready`` are encoded already: as what they are, to tell them apart."""

    def __init__(self, ready: int) -> None:
        super().__init__(["a", "b", "c"], [b"1", b"2", b"3"])
        self.ready = ready
        self.asked: list[Any] = []

    def encoded(self, reply: tuple[bytes, bytes], first: int, largest: int, most: int) -> tuple[int, bytes]:
        self.asked.append((reply, first, largest, most))
        return self.ready, b"PUB encoded 1\r\nx\r\n" * self.ready


def test_a_run_that_is_encoded_already_is_queued_as_it_is() -> None:
    harness = Harness(info={"max_payload": 100}, pending_size=25, linger=9.0)
    session = harness.session

    def run(messages: Encoded) -> int:
        return session.publish_run(messages, (b"r.", b".s"), 7)

    two = Encoded(2)
    assert run(two) == 2
    assert session._write_buffer.size == 2 * len(b"PUB encoded 1\r\nx\r\n")
    assert run(two) == 0  # nothing may be queued, so nothing is encoded
    assert harness.published() == [Pub(b"encoded", None, None, b"x")] * 2
    session.publish_message("a", b"")
    assert run(two) == 2
    assert two.asked == [((b"r.", b".s"), 7, 100, 25), ((b"r.", b".s"), 7, 100, 25 - len(b"PUB a 0\r\n\r\n"))]
    harness.sent()
    none = Encoded(0)
    assert run(none) == 1  # and there is no room for another
    assert harness.published() == [Pub(b"a", b"r.7.s", None, b"1")]
    assert session.publish_numbered(two, (b"N: ", b"\r\n\r\n"), 7, set()) == 1
    assert harness.published() == [Pub(b"a", None, b"N: 7\r\n\r\n", b"1")]
    session.close(harness.now)
    assert run(two) == 0
    assert len(two.asked) == 2


def test_a_run_ends_with_the_room_for_it() -> None:
    harness = Harness(pending_size=3 * LONGEST_LINE, linger=9.0)
    harness.session.publish_message("a", b"x")
    harness.sent()
    messages = [("a", b"x" * 1_000)] * 100
    assert harness.session.publish_run(messages, (b"r.", b""), 1) == 4
    for _ in range(20):
        harness.session.publish_run(messages, (b"r.", b""), 1)
    assert harness.session._write_buffer.size <= 4 * LONGEST_LINE
    while harness.session._write_buffer.size <= 3 * LONGEST_LINE:
        harness.session.publish_message("a", b"x" * 1_000)
    assert harness.session.publish_run(messages, (b"r.", b""), 1) == 0
    harness.sent()
    harness.session.close(harness.now)
    assert harness.session.publish_run(messages, (b"r.", b""), 1) == 0


@known_fault("publishing is slow: a write, or a round trip, for each message")
def test_a_numbered_run_of_messages_is_queued_as_publish_would() -> None:
    harness = Harness(info={"max_payload": 200})
    session = harness.session
    written: set[str] = set()

    def run(*messages: Any, first: int = 8) -> int:
        return session.publish_numbered(messages, (b"NATS/1.0\r\nN: 5%-", b"\r\n\r\n"), first, written)

    assert run() == run(("a b", b"1")) == 0
    assert written == set()
    assert run(("a%", b"1"), ("a%", b"2"), ("a%", b"33"), ("b", b"44")) == 4
    assert written == {"a%", "b"}
    for stop in STOPS:
        assert run(("a%", b"x"), stop, ("c", b"y"), first=98) == 1
    assert written == {"a%", "b"}
    block = b"NATS/1.0\r\nN: 5%%-%d\r\n\r\n"
    assert harness.published() == [
        Pub(b"a%", None, block % 8, b"1"), Pub(b"a%", None, block % 9, b"2"), Pub(b"a%", None, block % 10, b"33"),
        Pub(b"b", None, block % 11, b"44"), *[Pub(b"a%", None, block % 98, b"x")] * len(STOPS),
    ]  # fmt: skip
    assert run(*[("b", b"x")] * 3, first=98) == 3
    assert [pub.header for pub in harness.published()] == [block % 98, block % 99, block % 100]
    assert run(("a", b"x" * (201 - len(block % 98))), first=98) == 0


def test_a_numbered_run_ends_with_the_room_for_it() -> None:
    harness = Harness(pending_size=3 * LONGEST_LINE, linger=9.0)
    harness.session.publish_message("a", b"x")
    harness.sent()
    messages = [("a", b"x" * 1_000)] * 100
    for _ in range(20):
        harness.session.publish_numbered(messages, (b"", b""), 1, set())
    assert 3 * LONGEST_LINE < harness.session._write_buffer.size <= 4 * LONGEST_LINE
    assert harness.session.publish_numbered(messages, (b"", b""), 1, set()) == 0
    pending = harness.session._write_buffer.size
    assert sum(map(len, harness.session.data_to_send())) == pending
    harness.session.close(harness.now)
    assert harness.session.publish_numbered(messages, (b"", b""), 1, set()) == 0


@promise("Everything that may be written now, in order")
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c.%d", "ä%%", "a"]), st.sampled_from([b"", b"%d", b"x" * 40, b"y" * 40]))
        | st.tuples(st.just("a"), st.sampled_from([b"z" * 1_024, b"z" * 1_025, b"z" * 3_000]))
        | st.sampled_from(STOPS),
        max_size=12,
    ),
    st.integers(1, 12),
    st.sampled_from([1, 6, 95, 996, 10**18 - 2]),
    st.sampled_from([60, 2_097_152]),
)
def test_runs_are_queued_as_publish_would(lot: list[Any], times: int, first: int, pending_size: int) -> None:
    messages = lot * times
    block = b"NATS/1.0\r\nN: 5%%-%d\r\n\r\n"
    large = (at for at, each in enumerate(messages) if each in STOPS or len(each[1]) > 1_024)
    plain = next(large, len(messages))
    pairs = messages and all(isinstance(each, tuple) and len(each) == 2 for each in messages)
    rows = MessageColumns(*zip(*messages, strict=True)) if pairs and first != 95 else messages
    for numbered in (False, True):
        one_by_one, at_once = Harness(), Harness(pending_size=pending_size)
        if numbered:
            written: set[str] = set()
            taken = at_once.session.publish_numbered(rows, (b"NATS/1.0\r\nN: 5%-", b"\r\n\r\n"), first, written)
            assert written == {subject for subject, _ in messages[:taken]}
        else:
            taken = at_once.session.publish_run(rows, (b"r%%.", b".1.%$FI"), first)
        assert taken == plain if pending_size > 60 else taken <= plain
        for number, (subject, payload) in enumerate(messages[:taken], first):
            how = (None, block % number) if numbered else (b"r%%%%.%d.1.%%$FI" % number, None)
            one_by_one.session.publish(subject, payload, *how)
        assert at_once.session._write_buffer.size == one_by_one.session._write_buffer.size
        data = [b"".join(each.session.data_to_send()) for each in (at_once, one_by_one)]
        assert data[0] == data[1]
        assert len(data[0]) <= 60 + LONGEST_LINE or pending_size > 60


def test_large_payloads_are_not_copied() -> None:
    harness = Harness()
    payload = b"x" * 2_000
    harness.session.publish_message("a", payload)
    assert any(piece is payload for piece in harness.session._write_buffer._frames)
    harness.session.publish_message("a", payload, headers={"K": "v"})
    assert [pub.payload for pub in harness.published()] == [payload, payload]


@promise('A payload that is not bytes raises `TypeError` ("the payload must be bytes, not str: encode it")')
def test_payloads_are_bytes_or_something_that_can_be_read_as_bytes() -> None:
    harness = Harness()
    harness.session.publish_message("a", memoryview(array("i", range(5))))  # type: ignore[arg-type]
    assert len(harness.published()[0].payload) == 5 * array("i").itemsize
    for size in (10, 2_000):
        payload = bytearray(b"x" * size)
        harness.session.publish_message("a", payload)  # type: ignore[arg-type]
        payload[:] = b"y" * size
        (pub,) = harness.published()
        assert pub.payload == b"x" * size
        with pytest.raises(TypeError, match="^the payload must be bytes, not str: encode it$"):
            harness.session.publish_message("a", "x" * size)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="^the payload must be bytes, not int$"):
            harness.session.publish_message("a", size)  # type: ignore[arg-type]
        assert harness.sent() == []


@promise("a caller's mistake raises `LocalProtocolError`, with nothing written")
@promise("A caller's mistake raises `LocalProtocolError` at the call.")
@promise("Raises, with nothing sent:", of="jsproto_io.sync:Connection")
@promise("Nothing was written and no state has changed.")
@promise("Raises, with nothing queued:")
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s: s.publish_message("a b"), BadSubjectError),
        (lambda s: s.publish_message("a\r\nPUB b 0\r\n\r\n"), BadSubjectError),
        (lambda s: s.publish_message("a.*"), BadSubjectError),
        (lambda s: s.publish_message("a", reply="b c"), BadSubjectError),
        (lambda s: s.publish_message("a", headers={"K": "v\r\nX: y"}), BadHeaderError),
        (lambda s: s.publish_message("a", b"x" * 101), MaxPayloadError),
        (lambda s: s.publish_message("a", b"x" * 90, headers={"K": "v"}), MaxPayloadError),
        (lambda s: Subscription(s, "a..b"), BadSubjectError),
        (lambda s: Subscription(s, "a", queue="q r"), LocalProtocolError),
        (lambda s: Subscription(s, "a", pending_msgs_limit=0), LocalProtocolError),
        (lambda s: s.request("a b", now=0.0), BadSubjectError),
    ],
)
def test_a_users_mistake_changes_nothing(call: Callable[[Session], object], error: type[Error]) -> None:
    harness = Harness(info={"max_payload": 100})
    with pytest.raises(error):
        call(harness.session)
    assert not harness.sent(Pub)
    assert len(harness.session.requests) == 0


def test_a_server_without_headers() -> None:
    harness = Harness(info={"headers": False})
    with pytest.raises(UnsupportedByServerError, match="headers"):
        harness.session.publish_message("a", headers={"K": "v"})


@promise("Memory is bounded whatever the peer sends.")
def test_the_cache_of_subjects_is_bounded() -> None:
    harness = Harness(pending_size=10**9)
    for n in range(MAX_CACHED_SUBJECTS + 5):
        harness.session.publish_message(f"a.{n}")
    assert len(harness.session._write_buffer._heads) == 5


# -- before the link is open -------------------------------------------------------------------------------------------


def test_nothing_but_the_handshake_leaves_before_the_link_is_open() -> None:
    harness = Harness(connected=False, linger=0.0)
    harness.session.publish_message("a", b"early")
    assert not harness.session.wants_send(harness.now)
    harness.session.connection_made(harness.now)
    assert not harness.session.wants_send(harness.now)
    assert harness.session.data_to_send() == []
    harness.feed(info())
    assert harness.sent(Pub) == []
    harness.feed(PONG)
    assert harness.published() == [Pub(b"a", None, None, b"early")]


def test_only_the_api_is_asked_by_patterns() -> None:
    harness = Harness(info={"max_payload": 100}, pending_size=100, linger=9.0)
    session = harness.session
    session.publish_to_pattern("a.*.>", b"x", b"r")
    assert harness.published() == [Pub(b"a.*.>", b"r", None, b"x")]
    with pytest.raises(BadSubjectError):
        session.publish_message("a.*.>")
    with pytest.raises(BadSubjectError):
        session.publish_to_pattern("a.>.b", b"x", b"r")
    with pytest.raises(MaxPayloadError):
        session.publish_to_pattern("a.*", b"x" * 101, b"r")
    session.publish_message("a", b"x" * 99)
    with pytest.raises(OutboundBufferLimitError):
        session.publish_to_pattern("a.*", b"x", b"r")
    assert harness.published() == [Pub(b"a", None, None, b"x" * 99)]
    session.close(harness.now)
    with pytest.raises(ConnectionClosedError):
        session.publish_to_pattern("a.*", b"x", b"r")


@promise("Raises, with nothing queued:")
@known_fault("memory grows with what is not acknowledged")
def test_the_outbound_buffer_is_bounded() -> None:
    harness = Harness(pending_size=100, linger=9.0)
    session = harness.session
    assert session.sendable().done
    session.publish_message("a", b"x" * 80)
    assert session.congested
    sendable = session.sendable()
    assert session.sendable() is sendable
    session.publish_message("a", b"x" * 80)
    with pytest.raises(OutboundBufferLimitError) as caught:
        session.publish_message("a", b"x")
    assert caught.value.limit == 100
    assert not sendable.done
    assert len(harness.published()) == 2
    assert sendable.done
    assert not session.congested


# -- requests ----------------------------------------------------------------------------------------------------------


def test_requests_share_one_inbox() -> None:
    harness = Harness()
    first = harness.session.request("a", b"1", now=harness.now)
    second = harness.session.request("b", b"2", now=harness.now, headers={"K": "v"})
    frames = harness.sent()
    assert [type(frame) for frame in frames] == [Sub, Pub, Pub]
    replies = [frame.reply for frame in frames if isinstance(frame, Pub) and frame.reply is not None]
    harness.deliver(replies[1], b"two")
    harness.deliver(replies[0], b"one")
    assert (first.result().payload, second.result().payload) == (b"one", b"two")
    harness.deliver(replies[0], b"again")
    assert "no request" in harness.events()[-1].reason  # type: ignore[union-attr]
    harness.advance(10.0)  # the deadlines of what was answered are spurious, and harmless
    assert harness.session.deadline() == harness.now + 110.0


def test_a_request_times_out_alone() -> None:
    harness = Harness(timeout=5.0)
    slow = harness.session.request("a", now=harness.now)
    quick = harness.session.request("b", now=harness.now, timeout=1.0)
    harness.advance(1.5)
    assert isinstance(quick.error, TimeoutError)
    assert "b within 1 s" in str(quick.error)
    assert not slow.done
    harness.advance(4.0)
    assert slow.done


def test_requests_fail_with_the_link() -> None:
    harness = Harness()
    ticket = harness.session.request("a", now=harness.now)
    harness.session.receive_eof(harness.now, "reset by peer")
    assert isinstance(ticket.error, ConnectionLostError)
    assert "reset by peer" in str(ticket.error)
    with pytest.raises(ConnectionClosedError, match="reset by peer"):
        harness.session.request("a", now=harness.now)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_leaves_the_last_bytes_to_be_written() -> None:
    harness = Harness(linger=9.0)
    subscription = Subscription(harness.session, "a")
    harness.sent()
    harness.session.publish_message("a", b"last")
    sendable = harness.session.sendable()
    harness.session.close(harness.now)
    harness.session.close(harness.now)
    assert sendable.done
    assert harness.session.sendable().done
    assert harness.session.wants_close
    assert harness.session.wants_send(harness.now + 10)
    assert b"".join(harness.session.data_to_send()).endswith(b"last\r\n")
    assert harness.events() == [Disconnected(None)]
    assert isinstance(subscription.error, ConnectionClosedError)
    for verb in (
        lambda: harness.session.publish_message("a"),
        lambda: Subscription(harness.session, "a"),
        lambda: harness.session.request("a", now=harness.now),
    ):
        with pytest.raises(ConnectionClosedError):
            verb()
    subscription.unsubscribe()
    harness.session.end_interest(1)
    harness.session.unsubscribe(1, 5)
    harness.session.handle_timeout(harness.now)
    assert harness.session.data_to_send() == []


def test_closing_before_anything_was_dialled() -> None:
    harness = Harness(connected=False)
    harness.session.close(harness.now)
    assert isinstance(harness.session.connected.error, ConnectionClosedError)
    assert not harness.session.wants_send(harness.now)


# -- scripts -----------------------------------------------------------------------------------------------------------


def test_a_script_asks_and_goes_on() -> None:
    harness = Harness()
    done: Ticket[int] = Ticket()
    done.succeed(5)

    def script() -> Generator[Ticket[Any], Any, int]:
        five: int = yield done
        answer = yield harness.session.request("a", now=harness.now)
        try:
            yield harness.session.request("b", now=harness.now)
        except TimeoutError:
            return five + len(answer.payload)
        return 0

    ticket = harness.session.run(script())
    (request,) = harness.published()
    assert request.reply is not None
    harness.deliver(request.reply, b"123")
    assert not ticket.done
    harness.advance(6.0)
    assert ticket.result() == 8
    assert harness.completed[-1] is ticket


def test_a_script_fails_with_the_error_it_does_not_catch() -> None:
    harness = Harness()

    def script() -> Generator[Ticket[Any], Any, None]:
        yield harness.session.request("a", now=harness.now)

    ticket = harness.session.run(script())
    harness.session.close(harness.now)
    assert isinstance(ticket.error, ConnectionClosedError)


def test_unsub_of_an_unknown_subscription() -> None:
    harness = Harness()
    harness.session.unsubscribe(99)
    harness.session.unsubscribe(99, 3)
    assert harness.sent(Unsub) == []


# -- another link ------------------------------------------------------------------------------------------------------


def reconnecting(**options: Any) -> Harness:
    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 2.0, **options}
    return Harness(**options)


@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
def test_a_new_link_carries_the_subscriptions_first() -> None:
    harness = reconnecting()
    subscription = Subscription(harness.session, "a.>", queue="q")
    gone = Subscription(harness.session, "b")
    gone.unsubscribe()
    counted = Subscription(harness.session, "c")
    counted.unsubscribe(5)
    harness.deliver(b"c")
    harness.sent()
    harness.session.publish_message("lost", b"with the link")
    sendable = harness.session.sendable()
    assert harness.session.is_connected
    harness.lose("reset by peer")
    assert not harness.session.is_connected
    assert sendable.done
    (event,) = harness.events()
    assert isinstance(event, Disconnected)
    assert "reset by peer" in str(event.error)
    assert harness.session.wants_close
    assert harness.session.connect_to is not None
    assert harness.session.server is not None
    harness.session.publish_message("kept", b"while there is no link")
    assert not harness.session.wants_send(harness.now + 10)
    harness.connect()
    assert isinstance(harness.events()[-1], Connected)
    assert harness.sent() == [
        Sub(b"a.>", b"q", b"1"), Sub(b"c", None, b"3"), Pub(b"kept", None, None, b"while there is no link"),
        Unsub(b"3", 4),
    ]  # fmt: skip
    assert not harness.session.wants_close
    harness.deliver(b"a.x", b"again")
    assert [message.payload for message in subscription.pop_many(9)] == [b"again"]
    assert harness.session.connected.done


def test_requests_under_way_fail_and_later_ones_wait_for_the_link() -> None:
    harness = reconnecting()
    lost = harness.session.request("a", now=harness.now)
    harness.sent()
    ping = harness.session.ping(harness.now)
    harness.lose()
    assert isinstance(lost.error, ConnectionLostError)
    assert isinstance(ping.error, ConnectionLostError)
    later = harness.session.request("a", now=harness.now)
    pinged = harness.session.ping(harness.now)
    harness.connect()
    (request,) = [frame for frame in harness.sent() if isinstance(frame, Pub)]
    assert request.reply is not None
    harness.deliver(request.reply, b"answer")
    assert later.result().payload == b"answer"
    harness.feed(PONG)
    assert pinged.result() == 0.0


@known_fault("what is published meanwhile grows without bound, or vanishes")
def test_what_is_published_without_a_link_waits_for_the_next_one_while_there_is_room() -> None:
    harness = Harness(max_reconnect_attempts=3, reconnect_time_wait=0, pending_size=100)
    harness.session.publish_message("a", b"under way")
    harness.lose()
    line = len(b"PUB a 2\r\n10\r\n")
    for number in range(10, 11 + 100 // line):  # up to the first that goes beyond
        harness.session.publish_message("a", b"%d" % number)
    with pytest.raises(OutboundBufferLimitError):
        harness.session.publish_message("a", b"too much")
    assert harness.session.congested
    harness.session.connection_failed("refused", harness.now)  # an attempt in vain loses nothing
    harness.advance(1)
    harness.connect()
    assert [pub.payload for pub in harness.published()] == [b"%d" % n for n in range(10, 11 + 100 // line)]
    harness.session.publish_message("a", b"goes on")
    assert [pub.payload for pub in harness.published()] == [b"goes on"]


@promise("It makes 60 attempts in a row at each server.")
def test_dialling_again_pauses_and_ends() -> None:
    harness = reconnecting(max_reconnect_attempts=2)
    subscription = Subscription(harness.session, "a")
    harness.lose()
    harness.session.connection_failed("refused", harness.now)
    assert harness.session.connect_to is None
    deadline = harness.session.deadline()
    assert deadline is not None
    assert 1.5 <= deadline - harness.now <= 2.5
    harness.advance(2.5)
    assert harness.session.connect_to is not None
    assert subscription.error is None
    pinged = harness.session.ping(harness.now)
    harness.session.connection_made(harness.now)
    harness.feed(b"junk\r\n")
    error = harness.session.error
    assert isinstance(error, NoServersError)
    assert error.attempts[0][1] == "refused"
    assert isinstance(subscription.error, NoServersError)
    assert isinstance(pinged.error, NoServersError)
    assert len([event for event in harness.events() if isinstance(event, Disconnected)]) == 1


def test_closing_while_there_is_no_link() -> None:
    harness = reconnecting()
    subscription = Subscription(harness.session, "a")
    harness.lose()
    harness.session.publish_message("a", b"never sent")
    harness.session.close(harness.now)
    assert harness.session.connect_to is None
    assert harness.session.deadline() is None
    assert harness.session.data_to_send() == []
    assert isinstance(subscription.error, ConnectionClosedError)


def test_scripts_and_the_application_may_wait_for_the_same_answer() -> None:
    session = Harness().session

    def script() -> Generator[Ticket[Any], Any, str]:
        yield session.sendable()
        return "went on"

    session.publish_message("a", b"x")
    asked = session.sendable()
    scripts = [session.run(script()) for _ in range(2)]
    assert not any(ticket.done for ticket in scripts)
    session.data_to_send()
    assert [ticket.result() for ticket in scripts] == ["went on", "went on"]
    assert asked in session.take_completed()
