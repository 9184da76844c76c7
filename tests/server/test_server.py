"""The server role as a whole: routing between links, conversations and streams, and the JetStream API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.client.publish.fast import FastPublisher
from jsproto.errors import APIError, BadSubjectError
from jsproto.events import UnexpectedMessage
from jsproto.grammar.config import StreamConfig, StreamOptions
from jsproto.grammar.subjects import matches
from jsproto.outbox import Conversation
from jsproto.server.server import RoutedMessage, Server
from jsproto.ticket import Ticket
from jsproto.wire.encoder import encode_pub, encode_sub
from jsproto.wire.frames import Msg
from tests.server.harness import Reader, config
from tests.server.test_session import Link


class Ear(Conversation):
    """Remembers what it receives, and answers if it has an answer."""

    def __init__(self, server: Server, answer: bytes | None = None) -> None:
        self.server = server
        self.answer = answer
        self.heard: list[tuple[bytes, bytes]] = []
        self.when: float | None = None
        self.woken: list[float] = []

    def receive(self, message: Msg, now: float) -> None:
        self.heard.append((message.subject, message.payload))
        if self.answer is not None and message.reply:
            self.server.publish(message.reply.decode(), self.answer)

    def handle_timeout(self, now: float) -> None:
        self.woken.append(now)
        self.when = None

    def deadline(self) -> float | None:
        return self.when


class Desk:
    """Somebody who asks the API of a server."""

    def __init__(self, **options: Any) -> None:
        self.server = Server(token=b"t", **options)
        self.inbox = Ear(self.server)
        self.server.subscribe("_I.>", self.inbox)

    def ask(self, verb: str, body: Any = b"", prefix: str = "$JS.API", headers: bytes | None = None) -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.server.publish(f"{prefix}.{verb}", payload, b"_I.1", headers)
        self.server.handle_timeout(1.0)
        if not self.inbox.heard:
            return None
        return json.loads(self.inbox.heard.pop()[1])

    def code(self, verb: str, body: Any = b"") -> int:
        code: int = self.ask(verb, body)["error"]["err_code"]
        return code


# -- routing -----------------------------------------------------------------------------------------------------------


def test_a_message_goes_to_everybody_and_to_one_of_each_group() -> None:
    server = Server(token=b"t")
    links = [Link(server) for _ in range(3)]
    for link in links:
        link.read()
        link.say(b"SUB a.> 1\r\nSUB a.> q 2\r\nSUB a.* r 3\r\n")
    ears = [Ear(server), Ear(server)]
    server.subscribe("a.b", ears[0])
    server.subscribe("a.>", ears[1], "q")
    for _ in range(8):
        links[0].say(b"PUB a.b 0\r\n\r\n")
    counts: dict[bytes, int] = {}
    for link in links:
        for frame in link.session.data_to_send() if link is not links[0] else []:
            sid = frame.split(b" ")[2]
            counts[sid] = counts.get(sid, 0) + 1
    assert counts[b"1"] == 16
    assert counts[b"2"] < 8
    assert (len(ears[0].heard), 0 < len(ears[1].heard) < 8) == (8, True)


def test_subscriptions_of_conversations_end() -> None:
    server = Server(token=b"t")
    ear = Ear(server)
    sid = server.subscribe("a", ear)
    server.unsubscribe(sid, 2)
    for _ in range(3):
        server.publish("a", b"x")
    assert ear.heard == []
    assert server.deadline() == 0.0
    server.handle_timeout(0.0)
    assert len(ear.heard) == 2
    sid = server.subscribe("a", ear)
    server.publish("a", b"x")
    server.unsubscribe(sid, 1)
    server.unsubscribe(sid)
    server.publish("a", b"x")
    server.handle_timeout(0.0)
    assert len(ear.heard) == 3
    with pytest.raises(BadSubjectError):
        server.subscribe("a..b", ear)
    with pytest.raises(BadSubjectError):
        server.publish("a..b", b"")


def test_conversations_get_what_matches_in_the_order_in_which_they_subscribed() -> None:
    patterns = [">", "a.>", "a.b", "*.b", "a.*", "a.b.>", "a", "*", "a.b.c", "a.b.*", "b.>", "*.*.c"]
    server = Server(token=b"t")
    ears = {pattern: Ear(server) for pattern in patterns}
    order: list[str] = []
    for pattern, ear in ears.items():
        ear.receive = lambda message, now, pattern=pattern: order.append(pattern)  # type: ignore[method-assign,misc]
    sids = [server.subscribe(pattern, ear) for pattern, ear in ears.items()]
    for subject in ("a", "b", "a.b", "b.b", "a.b.c", "a.c.c", "c.c.d.e"):
        order.clear()
        server.publish(subject, b"")
        server.handle_timeout(0.0)
        assert order == [pattern for pattern in patterns if matches(pattern, subject)]
    for sid in sids:
        server.unsubscribe(sid)
    server.publish("a.b", b"")
    assert server.deadline() is None


def test_what_a_driver_asks_of_a_server() -> None:
    server = Server(token=b"t", max_pending=1_000, ping_interval=2.0, tls_required=True)
    link = Link(server, connected=False)
    assert (link.session.wants_send, link.session.deadline()) == (True, 2.0)
    (info,) = link.session.data_to_send()
    assert json.loads(info.removeprefix(b"INFO "))["tls_required"] is True
    assert not link.session.wants_send
    link.session.receive_data(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPUB a 2000\r\n%b\r\n' % bytes(2_000), 1.0)
    assert link.session.error == "Slow Consumer"


def test_a_conversation_answers_a_client_after_the_message_was_delivered_to_all() -> None:
    server = Server(token=b"t")
    link = Link(server)
    link.read()
    server.subscribe("ask", Ear(server, b"answer"))
    assert link.say(b"SUB r 1\r\nSUB ask 2\r\nPUB ask r 1\r\n?\r\n") == [
        Msg(b"ask", b"2", b"r", None, b"?"), Msg(b"r", b"1", None, None, b"answer"),
    ]  # fmt: skip


def test_the_other_duties_of_an_outbox() -> None:
    server = Server(token=b"t", domain="hub", max_payload=100)
    assert server.closed_error is None
    assert (server.server.domain, server.server.max_payload) == ("hub", 100)
    server.flush()
    ear = Ear(server)
    ear.when = 5.0
    server.rearm(ear)
    assert server.deadline() == 5.0
    server.handle_timeout(6.0)
    assert (ear.woken, server.deadline()) == ([6.0], None)

    class Woken:
        woken = False

        def set(self) -> None:
            self.woken = True

    ticket: Ticket[None] = Ticket()
    ticket.event = woken = Woken()
    ticket.succeed(None)
    server.completed(ticket)
    assert woken.woken
    server.emit(UnexpectedMessage("a", "b"))
    assert server.events() == [UnexpectedMessage("a", "b")]
    assert server.events() == []


def test_a_clients_conversation_lives_beside_the_stream_without_a_link() -> None:
    server = Server(token=b"t")
    stream = server.add_stream(config(), 0.0)
    fast = FastPublisher(server, inbox="_I", batch_id="b")
    for number in range(3):
        assert fast.publish("s.a", b"%d" % number, now=0.0) == number + 1
        server.handle_timeout(0.0)
    commit = fast.commit(0.0, "s.a", b"3")
    server.handle_timeout(0.0)
    assert commit.result().count == 4
    assert [stored.payload for stored in stream] == [b"0", b"1", b"2", b"3"]
    assert server.stream("S") is stream


def test_time_reaches_streams_and_their_advisories_reach_subscribers() -> None:
    server = Server(token=b"t")
    server.add_stream(config(), 0.0)
    ear = Ear(server)
    server.subscribe("$JS.EVENT.ADVISORY.>", ear)
    server.publish("s.a", b"x", None, b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n\r\n")
    server.handle_timeout(0.0)
    assert server.deadline() == 10.0
    server.handle_timeout(9.0)
    assert ear.heard == []
    server.handle_timeout(10.0)
    assert [subject for subject, _ in ear.heard] == [b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"]
    assert server.deadline() is None


def test_a_stream_without_a_leader_takes_nothing() -> None:
    server = Server(token=b"t")
    stream = server.add_stream(config(), 0.0)
    link = Link(server)
    link.read()
    link.say(b"SUB r.> 1\r\n")
    link.say(b"PUB s.a r.b.500.fail.1.0.$FI 1\r\nx\r\n")
    server.lose_leader("S")
    (answer,) = link.say(b"PUB s.a r.b.500.fail.2.1.$FI 1\r\ny\r\n")
    assert isinstance(answer, Msg)
    assert answer.header == b"NATS/1.0 503\r\nNats-Subject: s.a\r\n\r\n"
    server.elect_leader("S", 1.0)
    (answer,) = link.read()
    assert isinstance(answer, Msg)
    assert (answer.subject, answer.payload) == (b"r.b.500.fail.1.0.$FI", b'{"type":"ack","seq":1,"msgs":500}')
    assert len(stream) == 1


class Shelf:
    """A bus that keeps everything until a test lets it go."""

    def __init__(self) -> None:
        self.parcels: list[RoutedMessage] = []
        self.due: list[RoutedMessage] = []

    def carry(self, routed: RoutedMessage, now: float) -> None:
        self.parcels.append(routed)

    def arrived(self, now: float) -> list[RoutedMessage]:
        due, self.due = self.due, []
        return due

    def deadline(self) -> float | None:
        return 0.0 if self.due else None


def test_messages_to_and_from_streams_pass_the_backbone() -> None:
    shelf = Shelf()
    server = Server(token=b"t", bus=shelf)
    stream = server.add_stream(config(), 0.0)
    ear = Ear(server)
    server.subscribe("r", ear)
    server.publish("s.a", b"x", b"r")
    (routed,) = shelf.parcels
    assert (routed.to, len(stream), server.deadline()) == ("S", 0, None)
    shelf.due = [routed, routed]
    assert server.deadline() == 0.0
    server.handle_timeout(0.0)
    assert (len(stream), ear.heard) == (2, [])
    shelf.due = shelf.parcels[1:]
    assert [routed.to for routed in shelf.due] == [None, None]
    server.handle_timeout(0.0)
    assert len(ear.heard) == 2
    server.lose_leader("S")
    shelf.due = [routed, RoutedMessage("T", routed.message)]
    server.handle_timeout(0.0)
    assert len(stream) == 2


# -- the JetStream API -------------------------------------------------------------------------------------------------


def test_the_life_of_a_stream() -> None:
    desk = Desk()
    created = desk.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], "allow_batched": True})
    assert created["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert (created["did_create"], created["config"]["metadata"]["_nats.req.level"]) == (True, "4")
    again = desk.ask("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], "allow_batched": True})
    assert again == created  # servers say that they made one that was there as well
    assert desk.code("STREAM.CREATE.A", {"name": "A", "subjects": ["b.>"]}) == 10058
    desk.server.publish("a.b", b"x")
    desk.server.handle_timeout(1.0)
    changed = desk.ask("STREAM.UPDATE.A", {"name": "A", "subjects": ["b.*"]})
    assert changed["type"] == "io.nats.jetstream.api.v1.stream_update_response"
    assert changed["config"]["subjects"] == ["b.*"]
    info = desk.ask("STREAM.INFO.A")
    assert info["state"]["messages"] == 1
    listed = desk.ask("STREAM.INFO.A", {"subjects_filter": "a.*"})
    assert listed["state"]["subjects"] == {"a.b": 1}
    assert (listed["total"], listed["offset"], listed["limit"]) == (1, 0, 100_000)
    assert "subjects" not in desk.ask("STREAM.INFO.A", {"subjects_filter": ">", "offset": 1})["state"]
    assert desk.code("STREAM.INFO.A", {"subjects_filter": 1}) == 10025
    assert desk.ask("STREAM.CREATE.B", {"name": "B"})["config"]["subjects"] == ["B"]
    names = desk.ask("STREAM.NAMES")
    assert names == {
        "type": "io.nats.jetstream.api.v1.stream_names_response", "total": 2, "offset": 0, "limit": 1024,
        "streams": ["A", "B"],
    }  # fmt: skip
    assert desk.ask("STREAM.NAMES", {"subject": "b.c"})["streams"] == ["A"]
    assert desk.ask("STREAM.NAMES", {"offset": 1})["streams"] == ["B"]
    assert desk.ask("STREAM.NAMES", {"offset": -5})["streams"] == ["A", "B"]
    assert [found["config"]["name"] for found in desk.ask("STREAM.LIST")["streams"]] == ["A", "B"]
    assert desk.ask("STREAM.DELETE.A") == {
        "type": "io.nats.jetstream.api.v1.stream_delete_response", "success": True,
    }  # fmt: skip
    assert desk.code("STREAM.DELETE.A") == desk.code("STREAM.INFO.A") == 10059
    assert desk.code("STREAM.UPDATE.A", {"name": "A"}) == 10059
    assert list(desk.server.api.streams) == ["B"]


def test_the_account() -> None:
    desk = Desk()
    desk.server.add_stream(config(), 0.0)
    desk.server.add_stream(StreamConfig("F"), 0.0)
    desk.server.publish("s.a", b"1234")
    desk.server.handle_timeout(1.0)
    desk.code("STREAM.INFO.X")
    account = desk.ask("INFO")
    assert (account["streams"], account["storage"], account["memory"] > 4) == (2, 0, True)
    assert account["api"] == {"level": 5, "total": 2, "errors": 1}


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("STREAM.CREATE.A", b"{", 10025),
        ("STREAM.CREATE.A", {"name": 3}, 10025),
        ("STREAM.CREATE.A", {"name": "B"}, 10056),
        ("STREAM.CREATE.A", {"name": "A", "pedantic": 1}, 10025),
        ("STREAM.SNAPSHOT.A", b"", 10003),
        ("STREAM.SNAPSHOT.NO", {"deliver_subject": "d"}, 10059),
        ("STREAM.SNAPSHOT.S", {"deliver_subject": ""}, 10003),
        ("STREAM.RESTORE.A", b"", 10003),
        ("STREAM.RESTORE.A", {"config": {"name": "A"}}, 10062),
        ("STREAM.LEADER.STEPDOWN.A", b"", 10010),
        ("CONSUMER.LEADER.STEPDOWN.A.C", b"", 10010),
        ("STREAM.CREATE.A", {"name": "A", "colour": "red"}, 10025),
        ("STREAM.CREATE.a\\b", {"name": "a\\b"}, 10052),
        ("STREAM.CREATE.A", {"name": "A", "subjects": ["a..b"]}, 10052),
        ("STREAM.CREATE.A", {"name": "A", "subjects": [">"]}, 10052),
        ("STREAM.CREATE.A", {"name": "A", "subjects": ["$JS.API.*"]}, 10052),
        ("STREAM.CREATE.A", {"name": "A", "subjects": ["*.b.c"], "no_ack": True}, 10065),
        ("STREAM.CREATE.A", {"name": "A", "subjects": ["s.b.c"]}, 10065),
        ("STREAM.UPDATE.F", {"name": "F", "subjects": ["f", "s.*"]}, 10065),
        ("STREAM.CREATE.A", {"name": "A", "mirror": {"name": "S"}, "allow_atomic": True}, 10198),
        ("STREAM.NAMES", {"offset": "1"}, 10025),
        ("STREAM.NAMES", {"subject": 1}, 10025),
        ("STREAM.LIST", b"{", 10025),
    ],
)
def test_refusals(verb: str, body: Any, code: int) -> None:
    desk = Desk()
    desk.server.add_stream(config(), 0.0)
    desk.server.add_stream(StreamConfig("F"), 0.0)
    assert desk.code(verb, body) == code
    assert sorted(desk.server.api.streams) == ["F", "S"]


def test_patterns_that_do_not_overlap() -> None:
    desk = Desk()
    desk.server.add_stream(config(StreamOptions(subjects=["s.a.*", "s.b"])), 0.0)
    for name, subject in (("A", "s.a"), ("B", "s.b.>"), ("C", "s.a.b.c"), ("D", "t.>")):
        assert desk.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})["did_create"]


def test_a_stream_of_all_subjects() -> None:
    desk = Desk()
    everything = {"name": "A", "subjects": [">"], "storage": "memory", "no_ack": True}
    assert desk.ask("STREAM.CREATE.A", everything)["did_create"]


def test_waiting_pulls_end_with_the_server() -> None:
    """FACTS.md F0.15"""
    reader = Reader()
    reader.make()
    assert reader.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C", "ack_policy": "explicit"}})
    assert reader.ask("CONSUMER.MSG.NEXT.S.C", {"batch": 3, "expires": 10**9}) == []
    reader.server.shut_down(reader.now)
    ((status, _),) = [(answer.header, answer.payload) for answer in reader.say(b"")]
    assert status is not None
    assert status.startswith(b"NATS/1.0 409 Server Shutdown")


def test_an_api_level_that_there_is_not() -> None:
    desk = Desk()
    level = b"NATS/1.0\r\nNats-Required-Api-Level: %d\r\n\r\n"
    assert desk.ask("INFO", headers=level % 5)["api"]["level"] == 5
    assert desk.ask("INFO", headers=level % 6)["error"]["err_code"] == 10185


def test_a_domain_has_a_prefix_of_its_own() -> None:
    desk = Desk(domain="hub")
    assert desk.ask("INFO", prefix="$JS.hub.API")["domain"] == "hub"
    assert desk.ask("INFO")["domain"] == "hub"
    assert desk.ask("STREAM.CREATE.A", {"name": "A"}, prefix="$JS.hub.API")["domain"] == "hub"


def test_what_nobody_answers() -> None:
    desk = Desk()
    for verb in (
        "STREAM.INFO",
        "STREAM.CREATE",
        "STREAM.INFO.A.B",
        "STREAM.NAMES.A",
        "STREAM.OTHER.A",
        "META.LEADER.STEPDOWN",
    ):
        assert desk.ask(verb) is None
    desk.server.publish("$JS.API.INFO", b"")
    desk.server.publish("$JS.API.INFO", b"", b"\xff")
    desk.server.publish("$JS.API.INFO", b"", b"a..b")
    desk.server.handle_timeout(1.0)
    assert desk.inbox.heard == []


def test_a_stream_is_made_beside_the_api_with_the_same_refusals() -> None:
    server = Server(token=b"t")
    with pytest.raises(APIError, match="name"):
        server.add_stream(StreamConfig("a.b"), 0.0)


def test_what_makes_work_without_end_goes_on_at_the_next_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody pulls to a subject of the stream, so that each message that is delivered is stored again."""
    monkeypatch.setattr("jsproto.server.server.MAX_TURNS", 10)
    reader = Reader()
    stream = reader.make()
    reader.say(encode_sub(b"s.>", None, b"2"))
    reader.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})
    reader.store("s.a")
    reader.say(encode_pub(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"s.a", None, b'{"batch":50}'))
    assert 1 < len(stream) < 12
    while reader.server.deadline() == 0.0:
        before = len(stream)
        reader.server.handle_timeout(0.0)
        assert len(stream) < before + 11
    assert len(stream) == 51
