"""The API of consumers in the server role."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.outbox import Conversation
from jsproto.server import AccountLimits
from jsproto.server.api import consumers
from jsproto.wire.frames import Msg
from tests.marks import requirement
from tests.server.harness import config
from tests.server.test_server import Desk


class Office(Desk):
    """Somebody who asks for consumers of stream S."""

    def __init__(self, **stream: Any) -> None:
        super().__init__(epoch=1_795_208_700_000_000_000)
        wanted: Any = stream
        self.server.add_stream(config(wanted), 0.0)

    def create(self, name: str, action: str = "", **options: Any) -> Any:
        body = {"stream_name": "S", "config": {"ack_policy": "explicit", "durable_name": name} | options}
        return self.ask(f"CONSUMER.CREATE.S.{name}", body | {"action": action})

    def code_of(self, answer: Any) -> int:
        code: int = answer["error"]["err_code"]
        return code


def test_create_describe_list_and_delete() -> None:
    office = Office()
    created = office.create("A", filter_subject="s.a")
    assert created["type"] == "io.nats.jetstream.api.v1.consumer_create_response"
    assert (created["name"], created["config"]["durable_name"]) == ("A", "A")
    info = office.ask("CONSUMER.INFO.S.A")
    assert info["config"] == created["config"]
    office.create("B")
    assert office.ask("CONSUMER.NAMES.S")["consumers"] == ["A", "B"]
    page = office.ask("CONSUMER.NAMES.S", {"offset": 1})
    assert (page["total"], page["offset"], page["limit"], page["consumers"]) == (2, 1, 1024, ["B"])
    page = office.ask("CONSUMER.LIST.S", {"offset": 7})
    assert (page["total"], page["offset"], page["limit"], page["consumers"]) == (2, 2, 256, [])
    assert office.ask("CONSUMER.LIST.S")["consumers"][1]["name"] == "B"
    assert office.ask("STREAM.INFO.S")["state"]["consumer_count"] == 2
    assert office.ask("INFO")["consumers"] == 2
    assert office.ask("CONSUMER.DELETE.S.A")["success"] is True
    assert office.code("CONSUMER.INFO.S.A") == 10014
    assert office.ask("INFO")["api"]["errors"] == 1


def test_names() -> None:
    office = Office()
    assert len(office.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}})["name"]) == 8
    assert office.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "ZZ"}})["name"] == "ZZ"
    named = office.ask("CONSUMER.CREATE.S.B", {"stream_name": "S", "config": {"name": "OTHER"}})
    assert (named["name"], named["config"]["name"]) == ("B", "B")
    body = {"stream_name": "S", "config": {"durable_name": "H"}}
    assert office.ask("CONSUMER.DURABLE.CREATE.S.H", body)["name"] == "H"


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("CREATE.S", {"stream_name": "S", "config": {"durable_name": "A"}}, 10020),
        ("CREATE.S.A", {"stream_name": "S", "config": {"durable_name": "B"}}, 10017),
        ("CREATE.S.A", b"", 10056),
        ("CREATE.S.A", b"junk", 10025),
        ("CREATE.S.A", {"stream_name": "T", "config": {}}, 10056),
        ("CREATE.T.A", {"stream_name": "T", "config": {}}, 10059),
        ("CREATE.S.A", {"stream_name": "S", "zzz": 1}, 10025),
        ("CREATE.S.A", {"stream_name": "S", "config": {"zzz": 1}}, 10025),
        ("CREATE.S.A", {"stream_name": "S", "config": {"ack_wait": "1"}}, 10025),
        ("CREATE.S.A", {"stream_name": "S", "action": "bogus"}, 10025),
        ("CREATE.S.A", {"stream_name": "S", "action": "update"}, 10149),
        ("CREATE.S.A.s.a", {"stream_name": "S", "config": {"filter_subject": "s.b"}}, 10131),
        ("CREATE.S.A.s.a", {"stream_name": "S", "config": {"filter_subjects": ["s.a"]}}, 10137),
        ("CREATE.S.a/b", {"stream_name": "S"}, 10127),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "a.b"}}, 10052),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "a\vb"}}, 10052),
        ("CREATE.S", {"stream_name": "S", "config": {"name": "\0"}}, 10052),
        ("DURABLE.CREATE.S.A", {"stream_name": "S", "config": {}}, 10018),
        ("DURABLE.CREATE.S.A", {"stream_name": "S", "config": {"durable_name": "B"}}, 10017),
        ("INFO.S.A", b"", 10014),
        ("DELETE.S.A", b"", 10014),
        ("NAMES.T", b"", 10059),
        ("LIST.S", {"offset": "1"}, 10025),
        ("PAUSE.S.A", b"{}", 10014),
        ("UNPIN.S.A", b"", 10025),
        ("UNPIN.S.A", {"group": 5}, 10025),
        ("UNPIN.S.A", {}, 10025),
        ("UNPIN.S.A", {"group": "not one"}, 10162),
        ("UNPIN.S.A", {"group": "g"}, 10014),
        ("UNPIN.T.A", {"group": "g"}, 10059),
    ],
)
def test_what_is_refused(verb: str, body: Any, code: int) -> None:
    assert Office().code(f"CONSUMER.{verb}", body) == code


def test_what_an_error_says_besides() -> None:
    office = Office()
    names = office.ask("CONSUMER.NAMES.T")
    assert (names["total"], names["offset"], names["limit"], names["consumers"]) == (0, 0, 0, [])
    assert office.ask("CONSUMER.PAUSE.S.A")["pause_until"] == "0001-01-01T00:00:00Z"


def test_what_may_be_there_already() -> None:
    office = Office()
    office.create("A", "create")
    assert "error" not in office.create("A", "create")
    assert office.code_of(office.create("A", "create", max_ack_pending=7)) == 10148
    assert office.create("A", "update", max_ack_pending=7)["config"]["max_ack_pending"] == 7
    assert office.create("A", max_ack_pending=8)["config"]["max_ack_pending"] == 8
    assert office.code_of(office.create("A", ack_policy="all")) == 10012


def test_a_stream_has_so_many_consumers() -> None:
    office = Office(max_consumers=1)
    office.create("A")
    assert office.code_of(office.create("B")) == 10026


def test_a_stream_has_no_more_than_the_release_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "MAX_CONSUMERS", 2)
    for release, stream, most in (
        ((2, 15, 1), {}, 2), ((2, 15, 0), {"max_consumers": 0}, 2), ((2, 15, 1), {"max_consumers": 3}, 3),
        ((2, 14, 6), {}, 4),
    ):  # fmt: skip
        desk = Desk(release=release)
        desk.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **stream})
        answers = [
            desk.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {"name": name}}) for name in "ABCD"
        ]
        assert len([answer for answer in answers if "error" not in answer]) == most
        assert all(answer["error"]["err_code"] == 10026 for answer in answers[most:])
    desk = Desk(account_limits=AccountLimits(max_consumers=3))
    desk.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    answers = [desk.ask(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": {"name": name}}) for name in "ABCD"]
    assert ["error" in answer for answer in answers] == [False, False, False, True]


def test_consumers_of_a_work_queue_share_nothing() -> None:
    office = Office(retention="workqueue")
    assert office.code_of(office.create("A", deliver_policy="new")) == 10101
    office.create("A")
    assert office.code_of(office.create("B")) == 10099
    assert office.code_of(office.create("B", filter_subject="s.a")) == 10100
    office.ask("CONSUMER.DELETE.S.A")
    office.create("A", filter_subject="s.a")
    assert office.code_of(office.create("B", filter_subject="s.*")) == 10100
    assert "error" not in office.create("B", filter_subject="s.b")


def test_consumers_of_a_work_queue_that_source_share_everything() -> None:
    office = Office(retention="workqueue")
    flow: dict[str, Any] = {"ack_policy": "flow_control", "sourcing": True}
    assert office.create("A", deliver_subject="a", **flow)["config"]["sourcing"] is True
    assert "error" not in office.create("B", deliver_subject="b", deliver_policy="new", **flow)
    assert "error" not in office.create("C", deliver_subject="c", ack_policy="none", sourcing=True)
    assert "error" not in office.create("D")
    assert office.code_of(office.create("E")) == 10099
    assert office.code_of(office.create("E", filter_subject="s.a")) == 10100
    for wanted in (
        office.create("A", deliver_subject="a", ack_policy="flow_control"),
        office.create("D", sourcing=True),
    ):
        assert wanted["error"] == {"code": 500, "err_code": 10012, "description": "sourcing can not be updated"}


def test_direct_consumers_are_ephemeral_and_pushed_to() -> None:
    office = Office()
    assert office.code_of(office.create("A", direct=True)) == 10090
    assert office.code_of(office.create("A", direct=True, deliver_subject="a")) == 10091
    body = {"stream_name": "S", "config": {"name": "A", "direct": True, "deliver_subject": "a"}}
    assert office.ask("CONSUMER.CREATE.S.A", body)["config"]["direct"] is True


def test_pausing() -> None:
    office = Office()
    created = office.create("A", pause_until="2099-01-01T00:00:00Z")
    assert created["paused"] is True
    resumed = {"paused": False, "pause_until": "0001-01-01T00:00:00Z"}
    kind = {"type": "io.nats.jetstream.api.v1.consumer_pause_response"}
    assert office.ask("CONSUMER.PAUSE.S.A", b"junk") == kind | resumed
    assert office.ask("CONSUMER.PAUSE.S.A", {"pause_until": "0001-01-01T00:00:00Z"}) == kind | resumed
    past = office.ask("CONSUMER.PAUSE.S.A", {"pause_until": "2020-01-01T00:00:00Z"})
    assert past == kind | {"paused": False, "pause_until": "2020-01-01T00:00:00Z"}
    future = office.ask("CONSUMER.PAUSE.S.A", {"pause_until": "2099-01-01T00:00:00Z"})
    assert future["paused"] is True
    assert future["pause_remaining"] > 10**18
    for body in ({"pause_until": "x"}, {"pause_until": 5}):
        assert office.code("CONSUMER.PAUSE.S.A", body) == 10025


def test_unpinning() -> None:
    office = Office()
    office.create("A", priority_policy="pinned_client", priority_groups=["g"])
    kind = {"type": "io.nats.jetstream.api.v1.consumer_unpin_response"}
    assert office.ask("CONSUMER.UNPIN.S.A", {"group": "g"}) == kind
    assert office.code("CONSUMER.UNPIN.S.A", {"group": "h"}) == 10160
    office.create("B")
    assert office.code("CONSUMER.UNPIN.S.B", {"group": "g"}) == 10160


def test_requests_without_a_reply_and_of_a_newer_level() -> None:
    office = Office()
    office.server.publish("$JS.API.CONSUMER.NAMES.S", b"")
    office.server.handle_timeout(0.0)
    answer = office.ask("CONSUMER.NAMES.S", headers=b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n")
    assert answer["error"]["err_code"] == 10185


def test_a_consumer_that_nobody_uses_is_gone() -> None:
    office = Office()
    office.server.api.consumers.create("S", ConsumerConfig(name="E"), 1.0)
    assert office.ask("CONSUMER.NAMES.S")["consumers"] == ["E"]
    office.server.handle_timeout(7.0)
    assert office.ask("CONSUMER.NAMES.S")["consumers"] == []
    with pytest.raises(APIError, match="consumer not found"):
        office.server.api.consumers.find("S", "E")


def test_consumers_end_with_their_stream() -> None:
    office = Office()
    office.create("A")
    office.ask("STREAM.DELETE.S")
    assert office.code("CONSUMER.INFO.S.A") == 10059


@requirement(170)
def test_a_reset_goes_where_the_policy_allows() -> None:
    office = Office()
    for _ in range(5):
        office.server.publish("s.a", b"x")
    office.create("A")
    kind = "io.nats.jetstream.api.v1.consumer_reset_response"
    ahead = office.ask("CONSUMER.RESET.S.A", {"seq": 100})
    assert (ahead["type"], ahead["reset_seq"], ahead["ack_floor"]["stream_seq"]) == (kind, 100, 99)
    back = office.ask("CONSUMER.RESET.S.A", {"seq": 0, "other": 1})
    assert (back["reset_seq"], back["num_pending"]) == (100, 0)
    for body in ({"seq": -1}, {"seq": "2"}, b"junk"):
        refused = office.ask("CONSUMER.RESET.S.A", body)
        assert (refused["error"]["err_code"], refused["reset_seq"]) == (10025, 0)
    office.create("T", deliver_policy="by_start_time", opt_start_time="2099-01-01T00:00:00Z")
    assert office.code("CONSUMER.RESET.S.T", {"seq": 5}) == 10204
    assert office.ask("CONSUMER.RESET.S.T", {"seq": 6})["reset_seq"] == 6


@requirement(177)
def test_a_reset_of_what_is_not_there_is_not_answered() -> None:
    office = Office()
    assert office.ask("CONSUMER.RESET.S.A") is None
    assert office.ask("CONSUMER.RESET.OTHER.A") is None
    assert office.ask("INFO")["api"]["errors"] == 0
    old = Desk(release=(2, 12, 8))
    old.server.add_stream(StreamConfig(name="S", subjects=["s.>"]), 0.0)
    old.ask("CONSUMER.CREATE.S.A", {"stream_name": "S", "config": {"durable_name": "A"}})
    assert old.ask("CONSUMER.RESET.S.A") is None


class HeaderEar(Conversation):
    """Remembers the header of the last message."""

    header: bytes | None = None

    def receive(self, message: Msg, now: float) -> None:
        self.header = message.header


@pytest.mark.parametrize(("release", "says_it"), [((2, 14, 6), False), ((2, 15, 1), True)])
def test_a_reset_tells_the_identity_of_the_stream_to_who_asks(release: Any, says_it: bool) -> None:
    office = Desk(release=release)
    office.server.add_stream(config(), 0.0)
    office.ask("CONSUMER.CREATE.S.A", {"stream_name": "S", "config": {"durable_name": "A"}})
    said: list[bytes | None] = []
    ear = HeaderEar()
    office.server.subscribe("_I.>", ear)
    for headers in (None, b"NATS/1.0\r\nNats-Stream-Identity: \r\n\r\n"):
        office.server.publish("$JS.API.CONSUMER.RESET.S.A", b"", b"_I.1", headers)
        office.server.handle_timeout(1.0)
        said.append(ear.header)
    identity = office.server.stream("S").identity
    assert len(identity) == 8
    assert said == [None, b"NATS/1.0\r\nNats-Stream-Identity: %b\r\n\r\n" % identity.encode() if says_it else None]


@pytest.mark.parametrize(("retention", "left"), [("limits", 8), ("interest", 3), ("workqueue", 8)])
def test_what_a_reset_ahead_passes_over(retention: str, left: int) -> None:
    office = Office(retention=retention)
    office.create("A")
    for _ in range(8):
        office.server.publish("s.a", b"x")
    assert office.ask("CONSUMER.RESET.S.A", {"seq": 6})["num_pending"] == 3
    assert len(office.server.stream("S")) == left
    assert office.ask("CONSUMER.RESET.S.A", {"seq": 1})["num_pending"] == left


def test_a_reset_keeps_the_flow_control_that_is_not_answered() -> None:
    office = Office()
    office.server.subscribe("d", office.inbox)
    office.create("A", ack_policy="flow_control", deliver_subject="d", max_ack_pending=2)
    for _ in range(4):
        office.server.publish("s.a", b"x")
    office.server.handle_timeout(0.5)
    office.inbox.heard.clear()
    consumer = office.server.api.consumers.find("S", "A")
    asked = consumer._flow.asked
    assert asked is not None
    assert consumer.reset(None, 0.5) == 1
    office.server.handle_timeout(0.5)
    assert consumer._flow.asked == asked
    assert len(office.inbox.heard) == 2  # the same messages again, and no second question
