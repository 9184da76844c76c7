"""One client's link in the server role: handshake, verbs, limits, complaints, whatever bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.rules.link import LinkPhase
from jsproto.server.server import Server
from jsproto.server.session import MAX_OUTSTANDING_PINGS, PING_INTERVAL, ServerSession
from jsproto.wire.decoder import Decoder
from jsproto.wire.frames import Err, Frame, Info, Msg, Ok, Ping, Pong
from tests.marks import promise

CONNECT = {"verbose": False, "headers": True, "no_responders": True}


class Link:
    """One client that writes what a test says."""

    def __init__(self, server: Server | None = None, *, connected: bool = True, **connect: Any) -> None:
        self.server = server or Server(token=b"t")
        self.session = self.server.connect(0.0)
        self.decoder = Decoder("client")
        if connected:
            self.say(b"CONNECT " + json.dumps(CONNECT | connect).encode() + b"\r\nPING\r\n")

    def read(self) -> list[Frame]:
        frames = self.decoder.feed(b"".join(self.session.data_to_send()))
        assert self.decoder.error is None
        return frames

    def say(self, data: bytes) -> list[Frame]:
        """What the server answers."""
        self.session.receive_data(data, 1.0)
        return self.read()


def errors(frames: list[Frame]) -> list[bytes]:
    return [frame.text for frame in frames if isinstance(frame, Err)]


def test_the_handshake() -> None:
    link = Link(connected=False)
    (info,) = link.read()
    assert isinstance(info, Info)
    said = json.loads(info.raw)
    assert (said["version"], said["max_payload"], said["jetstream"], said["api_lvl"]) == ("2.15.1", 1048576, True, 5)
    assert (said["headers"], said["client_id"]) == (True, 1)
    assert link.say(b"PING\r\n") == [Pong()]
    assert link.say(b"CONNECT {}\r\n") == [Ok()]
    assert link.say(b"PING\r\n") == [Pong()]
    assert link.session.phase is LinkPhase.OPEN
    assert (link.session.echo, link.session.headers, link.session.no_responders) == (True, False, False)


def test_all_clients_hear_of_lame_duck_mode() -> None:
    server = Server(token=b"t")
    links = [Link(server), Link(server)]
    for link in links:
        link.read()
    server.lame_duck()
    for number, link in enumerate(links, 1):
        (info,) = link.read()
        assert isinstance(info, Info)
        said = json.loads(info.raw)
        assert (said["ldm"], said["client_id"]) == (True, number)
        assert link.say(b"PING\r\n") == [Pong()]


def test_publish_and_subscribe() -> None:
    link = Link()
    link.read()
    assert link.say(b"SUB a.* 1\r\nSUB a.> 2\r\nSUB a.b 1\r\nPUB a.b r 2\r\nhi\r\n") == [
        Msg(b"a.b", b"1", b"r", None, b"hi"), Msg(b"a.b", b"2", b"r", None, b"hi"),
    ]  # fmt: skip
    assert link.say(b"UNSUB 2\r\nUNSUB 9\r\nHPUB a.b 12 13\r\nNATS/1.0\r\n\r\nx\r\n") == [
        Msg(b"a.b", b"1", None, b"NATS/1.0\r\n\r\n", b"x")
    ]


def test_a_subscription_that_ends_by_itself() -> None:
    link = Link()
    link.read()
    link.say(b"SUB a 1\r\nUNSUB 1 2\r\n")
    assert len(link.say(b"PUB a 0\r\n\r\n" * 3)) == 2
    link.say(b"SUB a 1\r\nPUB a 0\r\n\r\nUNSUB 1 1\r\n")
    assert link.say(b"PUB a 0\r\n\r\n") == []


def test_an_empty_reply_is_none_and_asks_for_nothing() -> None:
    link = Link()
    link.read()
    link.say(b"SUB r 1\r\n")
    assert link.say(b"PUB nobody 0\r\n\r\n") == []
    assert link.say(b"PUB nobody other 0\r\n\r\n") == []
    assert link.say(b"PUB nobody r 0\r\n\r\n") == [
        Msg(b"r", b"1", None, b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n", b"")
    ]
    silent = Link(no_responders=False)
    silent.read()
    assert silent.say(b"SUB r 1\r\nPUB nobody r 0\r\n\r\n") == []


def test_verbose_and_echo() -> None:
    link = Link(verbose=True, echo=False)
    assert link.read() == []
    assert link.say(b"SUB a 1\r\nPUB a 0\r\n\r\nUNSUB 1\r\nPING\r\nPONG\r\n") == [Ok(), Ok(), Ok(), Pong()]


def test_headers_are_for_those_who_know_them() -> None:
    server = Server(token=b"t")
    old, new = Link(server, headers=False, no_responders=False), Link(server)
    old.say(b"SUB a 1\r\n")
    new.say(b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    assert old.read() == [Msg(b"a", b"1", None, None, b"")]
    assert old.say(b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n") == []
    assert old.session.wants_close
    assert old.session.error is not None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"JUNK\r\n", "Unknown Protocol Operation"),
        (b"PUB a " + b"9" * 5000, "maximum control line exceeded"),
        (b"PUB a 1048577\r\n", "Maximum Payload Violation"),
        (b"PUB a 1\r\nxyz", "Unknown Protocol Operation"),
        (b"SUB\r\n", "Unknown Protocol Operation"),
        (b'CONNECT {"protocol":7}\r\n', "invalid client protocol"),
        (b'CONNECT {"no_responders":true,"headers":false}\r\n', "no responders requires headers support"),
    ],
)
def test_what_breaks_the_protocol_ends_the_link(data: bytes, words: str) -> None:
    link = Link()
    link.read()
    assert errors(link.say(data + b"\r\nPING\r\n")) == [words.encode()]
    assert (link.session.wants_close, link.session.error) == (True, words)
    assert link.server.sessions == []
    assert link.say(b"PING\r\n") == []
    link.session.receive_eof()
    assert link.session.deadline() is None


@pytest.mark.parametrize(
    "data",
    [b"PUB a\r\n", b"PUB a x\r\n\r\n", b"SUB a b c d\r\n", b"CONNECT {\r\n", b'CONNECT {"verbose":"x"}\r\n',
     b'CONNECT {"protocol":"x"}\r\n'],
)  # fmt: skip
def test_what_cannot_be_read_ends_the_link_without_a_word(data: bytes) -> None:
    link = Link()
    link.read()
    assert link.say(data + b"PING\r\n") == []
    assert link.session.wants_close
    assert link.session.error
    assert link.server.sessions == []


def test_connect_may_come_late_and_again() -> None:
    link = Link(connected=False)
    link.read()
    assert link.say(b"SUB a.* 1\r\nPUB a.* 0\r\n\r\n") == [
        Ok(), Err(b"Invalid Publish Subject"), Ok(), Msg(b"a.*", b"1", None, None, b""),
    ]  # fmt: skip
    assert link.say(b'CONNECT {"verbose":false}\r\nPUB a.* 0\r\n\r\n') == [
        Err(b"Invalid Publish Subject"), Msg(b"a.*", b"1", None, None, b""),
    ]  # fmt: skip
    again = b'CONNECT {"pedantic":false}\r\nPUB a.* 0\r\n\r\n'  # the second one ends the subscriptions
    assert link.say(again + b"SUB a.* 1\r\nPUB a.* 0\r\n\r\n") == [Msg(b"a.*", b"1", None, None, b"")]


def test_what_is_no_subject_changes_nothing() -> None:
    link = Link()
    link.read()
    assert errors(link.say(b"SUB a..b 1\r\nSUB >.a 1\r\nPUB a.* 0\r\n\r\nPUB .a 0\r\n\r\n")) == [
        b"Invalid Subject", b"Invalid Subject", b"Invalid Publish Subject", b"Invalid Publish Subject",
    ]  # fmt: skip
    assert not link.session.wants_close
    assert link.session.interests == {}


def test_wildcards_are_published_to_unless_the_client_is_pedantic() -> None:
    link = Link(pedantic=False)
    link.read()
    assert link.say(b"SUB a.> 1\r\nPUB a.*.> 2\r\nhi\r\n") == [Msg(b"a.*.>", b"1", None, None, b"hi")]
    assert link.say(b"PUB a.>.b 0\r\n\r\nPUB a..b 0\r\n\r\n") == [Msg(b"a.>.b", b"1", None, None, b"")]
    strict = Link(pedantic=True)
    strict.read()
    assert errors(strict.say(b"PUB a.* 0\r\n\r\n")) == [b"Invalid Publish Subject"]


def session(server: Server, **bounds: Any) -> ServerSession:
    made = ServerSession(server, server.server, 0.0, **bounds)
    server.sessions.append(made)
    return made


@promise("Memory is bounded whatever the peer sends.")
def test_what_a_client_costs_is_bounded() -> None:
    server = Server(token=b"t")
    made = session(server, max_subscriptions=2, max_pending=2000)
    made.receive_data(b"CONNECT {}\r\nSUB a 1\r\nSUB b 2\r\nSUB c 3\r\n", 0.0)
    assert b"maximum subscriptions exceeded" in b"".join(made.data_to_send())
    assert sorted(made.interests) == [b"1", b"2"]
    made.receive_data(b"UNSUB 1 30\r\nSUB a 3\r\n" + (b"PUB a 500\r\n" + b"x" * 500 + b"\r\n") * 9, 0.0)
    assert made.data_to_send() == [b"-ERR 'Slow Consumer'\r\n"]
    assert (made.wants_close, server.sessions) == (True, [])


def test_a_slow_consumer_is_cut_off_in_the_middle_of_a_message() -> None:
    server = Server(token=b"t")
    made = session(server, max_pending=500)
    made.receive_data(b"CONNECT {}\r\nSUB a 1\r\nSUB a 2\r\n", 0.0)
    made.data_to_send()
    made.receive_data(b"PUB a 490\r\n" + b"x" * 490 + b"\r\n", 0.0)
    assert made.data_to_send() == [b"-ERR 'Slow Consumer'\r\n"]


def test_keep_alive() -> None:
    server = Server(token=b"t")
    made = server.connect(5.0)
    made.receive_data(b"CONNECT {}\r\nPING\r\n", 5.0)
    made.data_to_send()
    assert server.deadline() == made.deadline() == 5.0 + PING_INTERVAL
    server.handle_timeout(5.0)
    assert made.data_to_send() == []
    for _ in range(MAX_OUTSTANDING_PINGS + 3):
        server.handle_timeout(made.deadline() or 0.0)
        assert Decoder("client").feed(b"".join(made.data_to_send())) == [Ping()]
        made.receive_data(
            b"CONNECT {}\r\nPING\r\nPONG\r\n" if made.phase is LinkPhase.EXPECT_CONNECT else b"PONG\r\n", 0
        )
        made.data_to_send()
    for _ in range(MAX_OUTSTANDING_PINGS + 1):
        server.handle_timeout(made.deadline() or 0.0)
    assert made.error == "Stale Connection"
    assert server.deadline() is None


LINES = st.sampled_from([
    b"CONNECT {}\r\n", b'CONNECT {"headers":true,"no_responders":true,"verbose":true}\r\n', b"PING\r\n", b"PONG\r\n",
    b"SUB > 1\r\n", b"SUB $JS.API.> q 2\r\n", b"SUB _I.* 3\r\n", b"UNSUB 1 2\r\n", b"PUB s.a _I.1 1\r\nx\r\n",
    b"PUB $JS.API.INFO _I.1 0\r\n\r\n", b"PUB $JS.API.STREAM.NAMES _I.1 13\r\n{\"offset\":-1}\r\n",
    b"PUB s.a _I.b.500.fail.1.0.$FI 1\r\nx\r\n", b"PUB s.a _I.b.500.ok.2.2.$FI 1\r\nx\r\n",
    b"HPUB s.a 12 12\r\nNATS/1.0\r\n\r\n\r\n", b"PUB \xff \xfe\xfd 0\r\n\r\n", b"PUB nobody _I.1 0\r\n\r\n",
])  # fmt: skip
CONFIGS = st.fixed_dictionaries(
    {"name": st.just("S")},
    optional={
        "subjects": st.lists(st.sampled_from(["s.>", "s.a", "", "$JS.>", "a b", ">"]), max_size=2),
        "storage": st.sampled_from(["file", "memory", "elsewhere"]),
        "max_age": st.integers(-5, 5), "max_msgs": st.integers(-2, 2), "duplicate_window": st.integers(-1, 2**63),
        "discard": st.sampled_from(["old", "new", ""]), "allow_atomic": st.booleans(), "allow_batched": st.booleans(),
        "no_ack": st.booleans(), "first_seq": st.integers(0, 2**64 - 1), "unknown": st.none() | st.integers(),
    },
)  # fmt: skip


def _request(verb: str, config: dict[str, Any]) -> bytes:
    body = json.dumps(config).encode()
    return b"PUB $JS.API.STREAM.%b.S _I.1 %d\r\n%b\r\n" % (verb.encode(), len(body), body)


REQUESTS = st.builds(_request, st.sampled_from(["CREATE", "UPDATE", "INFO", "DELETE", "LIST", "OTHER"]), CONFIGS)


@promise("Receiving never raises.")
@given(st.lists(LINES | REQUESTS | st.binary(max_size=9), max_size=25), st.integers(1, 40))
def test_whatever_arrives_nothing_is_raised(lines: list[bytes], size: int) -> None:
    link = Link()
    data = b"".join(lines)
    for at in range(0, len(data), size):
        link.say(data[at : at + size])
    link.server.handle_timeout(100.0)
    link.read()
    assert link.session.wants_close == (link.session not in link.server.sessions)
