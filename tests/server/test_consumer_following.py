"""Streams that copy by durable consumers, in the server role alone: what is copied, acknowledged and said of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.outbox import Conversation
from jsproto.server.replication.consumer_reader import FAILURE_DELAY, ConsumerReader
from jsproto.server.replication.progress import SETUP_DELAY, Progress
from jsproto.server.store.context import ACCOUNT_HASH, Release, hashed
from jsproto.wire.frames import Msg
from tests.marks import promise, requirement
from tests.server.sides import OnTheRole, consumers, copies, messages, sources
from tests.server.test_following_consumers import (
    IN_2099,
    USED,
    consumer,
    follow,
    make,
    origin,
    publish,
    settle,
)


def payloads(side: OnTheRole, name: str = "T") -> list[bytes]:
    return [stored.payload for stored in side.reader.server.stream(name)]


def name_of(side: OnTheRole, stream: str = "S") -> str:
    (found,) = consumers(side, stream)
    name: str = found["name"]
    return name


def drained() -> OnTheRole:
    """A work queue S that T copies, which has its first message."""
    side = OnTheRole()
    origin(side)
    follow(side, sources=[{"name": "S"}])
    publish(side, b"1")
    settle(side, 1)
    return side


class Listener(Conversation):
    """Somebody who hears what is sent to a subject: subjects, headers and payloads."""

    def __init__(self, side: OnTheRole, subject: str) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        side.reader.server.subscribe(subject, self)

    def receive(self, message: Msg, now: float) -> None:
        headers = {} if message.header is None else dict(Headers.parse(message.header).items())
        self.heard.append((message.subject.decode(), headers, message.payload))


# -- what is asked for -------------------------------------------------------------------------------------------------


@requirement(162)
@promise("Streams with retention `workqueue` and `interest` need no such steps.")
def test_the_server_makes_a_consumer_of_a_work_queue() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1", b"2")
    follow(side, sources=[{"name": "S"}])
    (found,) = consumers(side, "S")
    assert found["name"] == "JS_SRC_z0QrXDOm"  # as a real server calls it, for a stream T of the account $G
    assert found["config"] == {
        "durable_name": "JS_SRC_z0QrXDOm", "name": "JS_SRC_z0QrXDOm", "deliver_policy": "all",
        "ack_policy": "flow_control", "max_deliver": -1, "replay_policy": "instant", "max_ack_pending": 1000,
        "flow_control": True, "idle_heartbeat": 1_000_000_000, "num_replicas": 0, "sourcing": True,
        "metadata": {"_nats.req.level": "4", "_nats.src.acc": "$G", "_nats.src.stream": "T"},
    }  # fmt: skip
    assert (found["num_ack_pending"], messages(side, "S")) == (2, 2)
    assert payloads(side) == [b"1", b"2"]
    settle(side, 2)
    assert side.reader.now == pytest.approx(1.1)  # a second of silence after the delivery
    assert sources(side) == [{"name": "S", "lag": 0, "active": True, "seq": 2}]


def test_names_are_hashed_as_servers_do_it() -> None:
    assert hashed("$G") == ACCOUNT_HASH
    side = OnTheRole(domain="hub")
    origin(side)
    follow(side, sources=[{"name": "S"}])
    (found,) = consumers(side, "S")
    assert found["name"] == f"JS_SRC_{hashed(hashed('T $G hub'))}"
    assert found["config"]["metadata"]["_nats.src.domain"] == "hub"


@pytest.mark.parametrize(
    ("release", "header"),
    [
        ((2, 15, 1), {"Nats-Required-Api-Level": "5", "Nats-Stream-Identity": ""}),
        ((2, 14, 6), {"Nats-Required-Api-Level": "4"}),
    ],
)
def test_what_is_asked_of_the_origin(release: Release, header: dict[str, str]) -> None:
    side = OnTheRole(release=release)
    asked = Listener(side, "$JS.API.CONSUMER.>")
    origin(side)
    origin(side, name="Q")
    follow(side, sources=[{"name": "S", "filter_subject": "s.a"}])
    make(side, "M", mirror={"name": "Q", "filter_subject": "q.*"})
    side.wait(1.0)
    made = [(subject, headers) for subject, headers, _ in asked.heard if ".LIST." not in subject]
    assert made == [
        (f"$JS.API.CONSUMER.CREATE.S.{name_of(side)}.s.a", header),
        ("$JS.API.CONSUMER.CREATE.Q", {"Nats-Required-Api-Level": "4"}),
    ]
    assert consumers(side, "Q")[0]["config"]["filter_subject"] == "q.*"
    side.api("STREAM.DELETE.T")
    assert asked.heard[-1][0].startswith("$JS.API.CONSUMER.DELETE.S.JS_SRC_")


@pytest.mark.parametrize(
    ("release", "header"),
    [((2, 15, 1), {"Nats-Required-Api-Level": "5", "Nats-Stream-Identity": ""}), ((2, 14, 6), {})],
)
def test_what_is_asked_of_a_consumer_of_the_user(release: Release, header: dict[str, str]) -> None:
    side = OnTheRole(release=release)
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    assert asked.heard == [("$JS.API.CONSUMER.RESET.S.D", header, b"")]
    publish(side, b"1")
    settle(side, 1)
    (copy,) = side.reader.server.stream("T")
    value = Headers.parse(copy.header or b"")["Nats-Stream-Source"]
    assert value.startswith(f"S:C={hashed('D')} 1 > > s.a")
    assert len(value.split(" ")) == (6 if header else 5)


def test_a_start_by_time_is_one_of_the_consumer() -> None:
    side = OnTheRole()
    origin(side)
    follow(side, sources=[{"name": "S", "opt_start_time": "2026-01-01T00:00:00Z"}])
    (found,) = consumers(side, "S")
    assert found["config"]["deliver_policy"] == "by_start_time"
    assert found["config"]["opt_start_time"] == "2026-01-01T00:00:00Z"


def test_several_filters_are_those_of_the_consumer() -> None:
    side = OnTheRole()
    origin(side)
    moved = [{"src": "s.a", "dest": "x"}, {"src": "s.b", "dest": ""}]
    follow(side, sources=[{"name": "S", "subject_transforms": moved}])
    assert consumers(side, "S")[0]["config"]["filter_subjects"] == ["s.a", "s.b"]
    for subject in ("s.a", "s.b", "s.c"):
        publish(side, b"1", subject=subject)
    settle(side, 2, left=1)
    assert [one[1] for one in copies(side)] == ["x", "s.b"]


# -- what is copied and acknowledged -----------------------------------------------------------------------------------


@requirement(162)
def test_interest_begins_with_the_consumer_and_lasts_until_the_copy() -> None:
    side = OnTheRole()
    origin(side, "interest")
    publish(side, b"1")
    follow(side, sources=[{"name": "S"}])
    assert sources(side) == [{"name": "S", "lag": 0, "active": True}]
    publish(side, b"2")
    assert (payloads(side), payloads(side, "S")) == ([b"2"], [b"2"])
    settle(side, 1)
    side.api("STREAM.DELETE.T")
    publish(side, b"3")
    assert payloads(side, "S") == []


def test_a_full_copy_takes_the_rest_when_it_has_room() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1", b"2", b"3", b"4")
    follow(side, sources=[{"name": "S"}], max_msgs=2, discard="new")
    side.wait(10.0)
    assert (payloads(side), payloads(side, "S")) == ([b"1", b"2"], [b"3", b"4"])
    assert sources(side)[0]["seq"] == 2
    side.api("STREAM.PURGE.T")
    settle(side, 2)
    assert payloads(side) == [b"3", b"4"]


def test_a_copy_whose_message_id_is_known_counts_as_copied() -> None:
    side = OnTheRole()
    origin(side)
    header = encode_headers({"Nats-Msg-Id": "i"})
    side.reader.store("s.a", b"1", header)
    make(side, "T", sources=[{"name": "S"}], subjects=["t"], duplicate_window=120 * 10**9)
    side.reader.store("t", b"own", header)
    settle(side, 1)
    assert payloads(side) == [b"own"]


def test_a_mirror_leaves_out_what_is_gone() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1", b"2", b"3", b"4")
    side.api("STREAM.MSG.DELETE.S", {"seq": 3})
    follow(side, "M", mirror={"name": "S"})
    settle(side, 3, name="M")
    assert [one[0] for one in copies(side, "M")] == [1, 2, 4]
    assert side.api("STREAM.INFO.M")["state"]["num_deleted"] == 1
    with pytest.raises(KeyError):
        side.reader.server.mirror("M")  # which would copy the store


def test_a_mirror_goes_on_where_its_consumer_does() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1")
    follow(side, "M", mirror={"name": "S"})
    settle(side, 1, name="M")
    name = name_of(side)
    side.api(f"CONSUMER.RESET.S.{name}", {"seq": 6})
    publish(side, b"2", b"3", b"4", b"5", b"6")
    settle(side, 2, name="M", left=4)
    assert [one[0] for one in copies(side, "M")] == [1, 6]
    side.api(f"CONSUMER.RESET.S.{name}", {"seq": 10})
    side.reader.server.lose_leader("M")
    side.reader.server.elect_leader("M", side.reader.now)
    side.wait(1.0)
    assert side.api("STREAM.INFO.M")["state"]["last_seq"] == 9
    publish(side, *(b"%d" % number for number in range(7, 11)))
    assert [one[0] for one in copies(side, "M")] == [1, 6, 10]


@requirement(259)
def test_what_a_reset_passes_over_is_all_that_is_not_copied() -> None:
    """Real servers lose the first message after such a reset, where the next comes alone (FACTS.md F4.36)."""
    side = drained()
    side.api(f"CONSUMER.RESET.S.{name_of(side)}", {"seq": 3})
    publish(side, b"2", b"3", b"4")
    settle(side, 3, left=1)
    assert (payloads(side), payloads(side, "S")) == ([b"1", b"3", b"4"], [b"2"])
    side.api(f"CONSUMER.RESET.S.{name_of(side)}", {"seq": 1})
    side.wait(5.0)
    assert (payloads(side), payloads(side, "S")) == ([b"1", b"3", b"4"], [])  # the position is after it


@requirement(165)
def test_a_pause_is_obeyed_and_hides_in_the_lag() -> None:
    side = drained()
    side.api(f"CONSUMER.PAUSE.S.{name_of(side)}", {"pause_until": IN_2099})
    publish(side, b"2")
    side.wait(30.0)
    assert payloads(side) == [b"1"]
    assert side.reader.api("STREAM.INFO.T")["sources"][0]["lag"] == 0
    assert side.reader.api("STREAM.INFO.T")["sources"][0]["active"] <= 1_000_000_000
    side.api(f"CONSUMER.PAUSE.S.{name_of(side)}")
    settle(side, 2)


def test_the_lag_is_what_is_pending_after_the_next() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1", b"2", b"3", b"4", b"5")
    make(side, "T", sources=[{"name": "S"}], max_msgs=1, discard="new")
    side.until(lambda: payloads(side) == [b"1"])
    assert sources(side)[0]["lag"] == 2  # that of the second message, after which there are three


def test_both_versions_of_ack_subjects_are_read() -> None:
    side = OnTheRole(ack_version=2)
    origin(side)
    publish(side, b"1", b"2")
    follow(side, sources=[{"name": "S"}])
    settle(side, 2)
    assert [one[3] for one in copies(side)] == ["S 1 > > s.a", "S 2 > > s.a"]


def test_a_consumer_serves_two_copies() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, "T", sources=[{"name": "S", **USED}])
    make(side, "U", sources=[{"name": "S", **USED}])
    side.wait(1.0)
    publish(side, b"1", b"2")
    settle(side, 2)
    settle(side, 2, name="U")
    assert payloads(side) == payloads(side, "U") == [b"1", b"2"]


# -- errors, and how they end ------------------------------------------------------------------------------------------


@requirement(164, 266)
def test_another_ack_policy_is_an_error_until_it_is_right() -> None:
    side = OnTheRole()
    origin(side, "limits")
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    consumer(side, ack_policy="all")
    make(side, "T", sources=[{"name": "S", **USED}])
    make(side, "M", mirror={"name": "S", **USED})
    side.wait(200.0)
    assert [sources(side, name)[0]["error"]["err_code"] for name in "TM"] == [10217, 10214]
    assert sources(side)[0]["active"] is False
    publish(side, b"1")
    assert payloads(side) == payloads(side, "M") == []
    assert len(asked.heard) == 2 * 6  # after 0.1, 12.2, 34.3, 66.4, 108.5 and 160.6 seconds
    side.api("CONSUMER.DELETE.S.D")
    consumer(side)
    side.until(lambda: payloads(side) == payloads(side, "M") == [b"1"])
    assert "error" not in sources(side)[0]
    side.reader.server.publish("to.d", b"7", b"$JS.ACK.S.D.1.7.7.0.0")  # a gap, which is no failure
    publish(side, b"2")
    side.wait(2.5)
    assert payloads(side) == payloads(side, "M") == [b"1", b"2"]


def test_the_pause_between_failures_has_an_end() -> None:
    side = OnTheRole()
    origin(side, "limits")
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    consumer(side, ack_policy="all")
    make(side, "T", sources=[{"name": "S", **USED}])
    side.wait(2000.0)
    assert len(asked.heard) == 22  # the pauses grow to 122.1 seconds


def test_a_consumer_that_is_missing_is_asked_as_soon_as_it_delivers() -> None:
    side = OnTheRole()
    origin(side)
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    make(side, "T", sources=[{"name": "S", **USED}])
    side.wait(16.0)
    assert len(asked.heard) == 2  # the second one 5 and 10.1 seconds later
    assert sources(side) == [{"name": "S", "lag": 0, "active": False}]
    side.wait(6.0)
    publish(side, b"1")
    now = side.reader.now
    consumer(side)
    side.until(lambda: payloads(side) == [b"1"])
    assert side.reader.now == pytest.approx(now + 0.1)
    settle(side, 1)


class Liar(Conversation):
    """Somebody who answers requests for a consumer that is not there."""

    def __init__(self, side: OnTheRole, *answers: bytes) -> None:
        self.server, self.answers = side.reader.server, [*answers]
        self.server.subscribe("$JS.API.CONSUMER.RESET.NONE.D", self)

    def receive(self, message: Msg, now: float) -> None:
        for answer in self.answers:
            self.server.publish((message.reply or b"").decode(), answer)


def test_answers_that_are_none_are_ignored() -> None:
    side = OnTheRole()
    Liar(side, b"junk", b"{}", b'{"error":1}', b'{"stream_name":"NONE","name":"D","config":[]}')
    make(side, "T", sources=[{"name": "NONE", **USED}])
    side.wait(4.0)
    assert sources(side) == [{"name": "NONE", "lag": 0, "active": False}]
    error = {"code": 500, "err_code": 10008, "description": "no"}
    Liar(side, b'{"error":{"code":500,"err_code":10008,"description":"no"}}')
    side.until(lambda: "error" in sources(side)[0])
    assert sources(side)[0]["error"] == error


@requirement(263)
def test_a_missing_stream_is_an_error_until_it_is_made() -> None:
    side = OnTheRole()
    make(side, "T", sources=[{"name": "S"}])
    make(side, "M", mirror={"name": "Q"})
    side.wait(1.0)
    assert [sources(side, name)[0]["error"]["err_code"] for name in "TM"] == [10059, 10059]
    origin(side)
    origin(side, "interest", "Q")
    side.until(lambda: bool(consumers(side, "S") and consumers(side, "Q")))
    assert all("error" not in sources(side, name)[0] for name in "TM")


def test_a_consumer_whose_origin_has_no_leader_is_asked_for_again_and_again() -> None:
    side = OnTheRole()
    origin(side)
    publish(side, b"1")
    side.reader.server.lose_leader("S")
    asked = Listener(side, "$JS.API.CONSUMER.>")
    make(side, "T", sources=[{"name": "S"}])
    side.wait(35.0)
    assert len(asked.heard) == 4  # after ten seconds of silence each
    assert payloads(side) == []
    side.reader.server.elect_leader("S", side.reader.now)
    settle(side, 1)
    assert payloads(side) == [b"1"]


class Said:
    """An outbox that notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def subscribe(self, subject: str, conversation: Conversation) -> int:
        self.said.append(f"+ {subject}")
        return 7

    def unsubscribe(self, sid: int) -> None:
        self.said.append(f"- {sid}")

    def publish(self, subject: str, payload: bytes, reply: bytes, header: bytes | None) -> None:
        self.said.append(subject)


def test_an_answer_to_a_creation_is_waited_for_half_a_minute() -> None:
    outbox, progress = Said(), Progress()
    request = SimpleNamespace(subject="create", payload=b"", header=None)
    requests = SimpleNamespace(deliver_subject=None, begin=lambda position, identity: request)
    parts: Any = requests, progress, None, SimpleNamespace(next_id=lambda: "0123456789"), outbox
    reader = ConsumerReader(*parts)
    reader.begin(100.0)
    assert outbox.said[-2:] == ["+ $JSC.R.01234567", "create"]
    reader.receive(Msg(b"a", b"9", None, None, b"of somebody else"), 110.0)
    reader.handle_timeout(129.0)
    assert (reader.is_idle, reader.deadline()) == (False, 130.0)
    reader.handle_timeout(130.0)
    assert (reader.is_idle, reader.deadline()) == (True, None)
    assert "- 7" in outbox.said
    assert progress.due_at == pytest.approx(130.0 + FAILURE_DELAY + SETUP_DELAY)


def test_a_consumer_that_cannot_be_made_is_an_error() -> None:
    side = OnTheRole()
    origin(side)
    clash = {"durable_name": f"JS_SRC_{hashed(hashed('T $G'))}", "ack_policy": "explicit"}
    side.api(f"CONSUMER.CREATE.S.{clash['durable_name']}", {"stream_name": "S", "config": clash})
    make(side, "T", sources=[{"name": "S"}])
    side.wait(1.0)
    assert sources(side)[0]["error"]["err_code"] == 10012


def test_a_filter_that_is_no_subject_is_an_error() -> None:
    side = OnTheRole()
    origin(side)
    make(side, "T", sources=[{"name": "S", "filter_subject": "a..b c"}])
    side.wait(1.0)
    assert sources(side)[0]["error"]["err_code"] == 10052


@pytest.mark.parametrize(
    "noise",
    [
        ("to.d", b"junk", None, None),
        ("to.d", b"junk", b"$JS.ACK.S.OTHER.1.2.2.0.0", None),
        ("to.d", b"again", b"$JS.ACK.S.D.2.2.2.0.0", None),
        ("to.d", b"old", b"$JS.ACK.S.D.1.1.1.0.0", None),
        ("to.d", b"", b"a..b", b"NATS/1.0 100 FlowControl Request\r\n\r\n"),
        ("to.d", b"", None, b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: a..b\r\n\r\n"),
        ("to.d", b"", None, b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: x\r\n\r\n"),
    ],
)
def test_what_others_send_to_the_deliver_subject_changes_nothing(noise: Any) -> None:
    side = OnTheRole()
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    publish(side, b"1")
    subject, payload, reply, header = noise
    side.reader.server.publish(subject, payload, reply, header)
    publish(side, b"2")
    settle(side, 2)
    assert payloads(side) == [b"1", b"2"]
    assert len(asked.heard) == 1


def test_a_consumer_that_was_set_back_and_waits_is_not_asked_again() -> None:
    side = OnTheRole()
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    publish(side, b"1")
    settle(side, 1)
    side.api("CONSUMER.RESET.S.D")
    side.wait(30.0)  # its heartbeats say that it has delivered nothing
    assert len(asked.heard) == 2


def test_a_mirror_takes_the_next_message_whatever_its_number() -> None:
    side = OnTheRole()
    for letter in "ST":
        origin(side, "limits", letter)
        consumer(side, letter, deliver_subject=f"to.{letter}")
    used = [{"consumer": {"name": "D", "deliver_subject": f"to.{letter}"}} for letter in "ST"]
    follow(side, "M", mirror={"name": "S", **used[0]})
    follow(side, "C", "T", sources=[{"name": "T", **used[1]}])
    for letter in "ST":
        publish(side, b"1", b"2", subject=f"{letter.lower()}.a")
        side.api(f"CONSUMER.RESET.{letter}.D", {"seq": 3})
        publish(side, b"3", subject=f"{letter.lower()}.a")
    assert (payloads(side, "M"), payloads(side, "C")) == ([b"1", b"2", b"3"], [b"1", b"2"])
    side.until(lambda: payloads(side, "C") == [b"1", b"2", b"3"])


def test_a_mirrored_message_is_as_old_as_its_origin() -> None:
    side = OnTheRole(epoch=1_795_208_700_000_000_000)
    origin(side)
    follow(side, "M", mirror={"name": "S"}, max_age=20 * 10**9)
    publish(side, b"1")
    side.wait(10.0)
    publish(side, b"2")
    side.wait(11.0)
    assert payloads(side, "M") == [b"2"]


def test_what_no_transform_takes_keeps_its_subject() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED, "subject_transforms": [{"src": "s.a", "dest": "x"}]}])
    publish(side, b"1")
    publish(side, b"2", subject="s.b")
    settle(side, 2)
    assert [one[1] for one in copies(side)] == ["x", "s.b"]


def test_a_gap_is_closed_by_a_reset() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    publish(side, b"1")
    side.reader.server.publish("to.d", b"7", b"$JS.ACK.S.D.1.7.7.0.0")
    publish(side, b"2")
    side.wait(0.0)
    assert payloads(side) == [b"1"]
    settle(side, 2)
    assert payloads(side) == [b"1", b"2"]


def test_a_stalled_heartbeat_is_answered() -> None:
    side = drained()
    answers = Listener(side, "$JS.FC.>")
    stalled = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Consumer-Stalled: $JS.FC.S.C.1\r\n\r\n"
    (found,) = side.api("CONSUMER.LIST.S")["consumers"]
    side.reader.server.publish(found["config"]["deliver_subject"], b"", None, stalled)
    side.wait(0.0)
    assert answers.heard == [("$JS.FC.S.C.1", {}, b"")]


def noises() -> st.SearchStrategy[tuple[str, bytes, bytes | None, bytes | None]]:
    """What somebody may send to where the server listens: subject, payload, reply and header."""
    lines = st.sampled_from(
        [
            b"Nats-Last-Consumer: 1", b"Nats-Last-Consumer: 99", b"Nats-Last-Stream: 9", b"Nats-Last-Consumer: -1",
            b"Nats-Consumer-Stalled: to.d", b"Nats-Consumer-Stalled: >", b"Nats-Consumer-Stalled: \xff",
            b"Nats-Stream-Identity: OTHER", b"Nats-Stream-Source: x",
        ]
    )  # fmt: skip
    starts = st.sampled_from([b"NATS/1.0 100 FlowControl Request", b"NATS/1.0 100 Idle", b"NATS/1.0", b"NATS/1.0 1"])
    blocks = st.builds(lambda start, rest: b"\r\n".join([start, *rest, b"", b""]), starts, st.lists(lines, max_size=3))
    replies = st.sampled_from(
        [
            b"to.d", b"$JS.ACK.S.D.1.2.2.0.0", b"$JS.ACK.S.D.1.9.2.0.0", b"$JS.ACK.S.D.1.1.1.0.0",
            b"$JS.ACK.S.D.2.9.9.0.0", b"$JS.ACK._.H.S.D.1.9.9.0.0", b"$JS.ACK.S.D.1.18446744073709551615.2.0.0", b">",
        ]
    )  # fmt: skip
    return st.tuples(st.just("to.d"), st.sampled_from([b"", b"noise"]), st.none() | replies, st.none() | blocks)


@given(st.lists(noises(), max_size=8), st.sampled_from(["T", "M"]))
def test_noise_ends_nothing(said: list[tuple[str, bytes, bytes | None, bytes | None]], copy: str) -> None:
    """Who may publish to the deliver subject may pass as the consumer. All of that is survived."""
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, copy, **({"sources": [{"name": "S", **USED}]} if copy == "T" else {"mirror": {"name": "S", **USED}}))
    for number, (subject, payload, reply, header) in enumerate(said):
        side.reader.server.publish(subject, payload, reply, header)
        publish(side, b"%d" % number)
        side.wait(0.3)
    side.wait(30.0)
    assert consumers(side, "S")[0]["push_bound"] is True
    assert "error" not in sources(side, copy)[0]


# -- what happens to the streams ---------------------------------------------------------------------------------------


def test_a_deleted_consumer_is_made_anew() -> None:
    side = drained()
    name = name_of(side)
    side.api(f"CONSUMER.DELETE.S.{name}")
    publish(side, b"2")
    now = side.reader.now
    side.until(lambda: bool(consumers(side, "S")))
    assert 9.0 < side.reader.now - now < 10.2
    assert name_of(side) == name
    settle(side, 2)


def test_nothing_is_made_anew_after_the_copy_is_gone() -> None:
    side = drained()
    side.api("STREAM.DELETE.T")
    assert consumers(side, "S") == []
    side.wait(60.0)
    assert consumers(side, "S") == []


def test_a_consumer_of_the_user_stays() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    side.api("STREAM.DELETE.T")
    assert name_of(side) == "D"
    assert "push_bound" not in consumers(side, "S")[0]


def test_a_promoted_mirror_lets_its_consumer_go() -> None:
    side = OnTheRole()
    origin(side)
    follow(side, "M", mirror={"name": "S"})
    publish(side, b"1")
    settle(side, 1, name="M")
    side.api("STREAM.UPDATE.M", {"name": "M", "storage": "memory", "subjects": ["m"]})
    assert consumers(side, "S") == []
    publish(side, b"2")
    side.wait(20.0)
    assert payloads(side, "M") == [b"1"]


def test_an_election_in_the_copy_repeats_nothing() -> None:
    side = drained()
    side.reader.server.lose_leader("T")
    publish(side, b"2")
    side.wait(20.0)
    assert payloads(side) == [b"1"]
    side.reader.server.elect_leader("T", side.reader.now)
    settle(side, 2)
    assert payloads(side) == [b"1", b"2"]


def test_an_election_in_the_origin_repeats_nothing() -> None:
    side = drained()
    side.reader.server.lose_leader("S")
    side.wait(12.0)
    side.reader.server.elect_leader("S", side.reader.now)
    publish(side, b"2")
    settle(side, 2)
    assert payloads(side) == [b"1", b"2"]


@pytest.mark.parametrize(("release", "copied"), [((2, 15, 1), [b"1", b"2", b"3"]), ((2, 14, 6), [b"1", b"3"])])
def test_an_origin_that_is_made_anew(release: Release, copied: list[bytes]) -> None:
    """Before 2.15 it goes on after the position, so the new stream's first message is not copied."""
    side = OnTheRole(release=release)
    origin(side)
    follow(side, sources=[{"name": "S"}])
    publish(side, b"1")
    settle(side, 1)
    side.api("STREAM.DELETE.S")
    origin(side)
    publish(side, b"2", b"3")
    side.wait(8.5)
    assert payloads(side) == [b"1"]  # it is missed after ten seconds of silence
    side.until(lambda: payloads(side) == copied)
    side.wait(20.0)
    assert payloads(side) == copied


def test_an_origin_that_is_made_anew_beside_a_consumer_of_the_user() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}])
    publish(side, b"1", b"2")
    settle(side, 2)
    side.api("STREAM.DELETE.S")
    origin(side)
    consumer(side)
    publish(side, b"3")
    settle(side, 3)
    assert payloads(side) == [b"1", b"2", b"3"]


def test_a_stream_that_comes_and_goes_is_asked_in_its_time() -> None:
    side = OnTheRole()
    asked = Listener(side, "$JS.API.CONSUMER.RESET.>")
    make(side, "T", sources=[{"name": "S", **USED}])
    side.wait(6.0)
    origin(side)
    side.wait(1.0)
    side.api("STREAM.DELETE.S")
    origin(side)
    side.wait(1.0)
    assert len(asked.heard) == 1
    side.wait(8.0)
    assert len(asked.heard) == 2


def test_an_update_without_a_leader_begins_with_the_next_one() -> None:
    side = OnTheRole()
    origin(side)
    make(side, "T", subjects=["t"])
    side.reader.server.lose_leader("T")
    side.api("STREAM.UPDATE.T", {"name": "T", "storage": "memory", "subjects": ["t"], "sources": [{"name": "S"}]})
    publish(side, b"1")
    side.wait(5.0)
    assert consumers(side, "S") == []
    side.reader.server.elect_leader("T", side.reader.now)
    settle(side, 1)


def test_an_origin_may_come_again_with_another_retention() -> None:
    side = OnTheRole()
    origin(side, "limits")
    origin(side, "limits", "Q")
    make(side, "T", sources=[{"name": "S"}])
    make(side, "M", mirror={"name": "Q"})
    side.wait(1.0)
    publish(side, b"1")
    publish(side, b"1", subject="q.a")
    assert payloads(side) == payloads(side, "M") == [b"1"]
    for name in "SQ":
        side.api(f"STREAM.DELETE.{name}")
        origin(side, name=name)
        publish(side, b"2", b"3", subject=f"{name.lower()}.a")
    settle(side, 3)
    settle(side, 2, left=1, name="M", stream="Q")
    assert payloads(side) == [b"1", b"2", b"3"]
    assert payloads(side, "M") == [b"1", b"3"]  # a mirror goes on after its last sequence


def test_sources_of_one_stream_have_names_of_their_own() -> None:
    side = OnTheRole()
    origin(side)
    pair: list[dict[str, Any]] = [{"name": "S", "filter_subject": f"s.{letter}"} for letter in "ab"]
    follow(side, sources=pair, subjects=["t"])
    side.until(lambda: len(consumers(side, "S")) == 2)
    names = {one["name"] for one in consumers(side, "S")}
    assert names == {f"JS_SRC_{hashed(hashed('T $G') + f' S s.{letter} >')}" for letter in "ab"}
    side.api("STREAM.UPDATE.T", {"name": "T", "storage": "memory", "subjects": ["t"], "sources": pair[:1]})
    assert consumers(side, "S") == []
    publish(side, b"1")
    settle(side, 1)
    assert name_of(side) == f"JS_SRC_{hashed(hashed('T $G'))}"


def test_another_filter_keeps_the_consumer_and_its_interest() -> None:
    side = OnTheRole()
    origin(side, "interest")
    asked = Listener(side, "$JS.API.CONSUMER.DELETE.>")
    follow(side, sources=[{"name": "S", "filter_subject": "s.a"}], subjects=["t"])
    changed = {"name": "T", "storage": "memory", "subjects": ["t"], "sources": [{"name": "S", "filter_subject": "s.b"}]}
    side.api("STREAM.UPDATE.T", changed)
    publish(side, b"1")
    assert payloads(side, "S") == [b"1"]
    side.until(lambda: consumers(side, "S")[0]["config"]["filter_subject"] == "s.b")
    publish(side, b"2", subject="s.b")
    side.until(lambda: payloads(side) == [b"2"])
    assert asked.heard == []


def test_an_update_keeps_the_place_and_takes_a_new_deliver_subject() -> None:
    side = OnTheRole()
    origin(side)
    consumer(side)
    follow(side, sources=[{"name": "S", **USED}], subjects=["t"])
    publish(side, b"1")
    side.wait(0.0)
    other = {"consumer": {"name": "D", "deliver_subject": "to.e"}}
    side.api(
        "STREAM.UPDATE.T", {"name": "T", "storage": "memory", "subjects": ["t"], "sources": [{"name": "S", **other}]}
    )
    side.api("CONSUMER.DELETE.S.D")
    consumer(side, deliver_subject="to.e")
    publish(side, b"2")
    settle(side, 2)
    assert payloads(side) == [b"1", b"2"]


def test_sources_of_other_servers_are_not_followed() -> None:
    side = OnTheRole()
    origin(side)
    make(side, "T", sources=[{"name": "S", "external": {"api": "$JS.hub.API"}}])
    make(side, "M", mirror={"name": "S", "external": {"api": "$JS.hub.API"}})
    publish(side, b"1")
    side.wait(30.0)
    assert payloads(side) == payloads(side, "M") == []
    assert [sources(side, name)[0]["active"] for name in "TM"] == [False, False]


# -- the API -----------------------------------------------------------------------------------------------------------


def test_a_consumer_that_copies_names_the_identity_of_its_stream() -> None:
    side = OnTheRole()
    stream = side.reader.server.add_stream(StreamConfig("S", subjects=["s"]), 0.0)
    body = {"stream_name": "S", "config": {"durable_name": "D", "deliver_subject": "to", "ack_policy": "flow_control"}}
    copying = {**body, "config": {**body["config"], "durable_name": "E", "sourcing": True}}  # type: ignore[dict-item]
    ask = side.reader.ask
    ((plain, _),) = ask("CONSUMER.CREATE.S.D", body)
    assert plain is None
    for verb in ("CREATE", "DURABLE.CREATE"):
        ((header, _),) = ask(f"CONSUMER.{verb}.S.E", copying)
        assert Headers.parse(header or b"")["Nats-Stream-Identity"] == stream.identity
        ((header, payload),) = ask(f"CONSUMER.{verb}.S.E", copying, encode_headers({"Nats-Stream-Identity": "OTHER"}))
        assert header is None
        assert b"10225" in payload
        assert stream.identity.encode() in payload
    same = encode_headers({"Nats-Stream-Identity": stream.identity})
    assert b"error" not in ask("CONSUMER.CREATE.S.E", copying, same)[0][1]
    assert b"error" not in ask("CONSUMER.CREATE.S.D", body, encode_headers({"Nats-Stream-Identity": "OTHER"}))[0][1]


def test_hidden_consumers_stay_what_they_are_on_streams_that_keep_messages() -> None:
    hidden = {
        "name": "H", "deliver_subject": "to.h", "ack_policy": "none", "max_deliver": 1, "direct": True,
        "sourcing": True, "flow_control": True, "idle_heartbeat": 1_000_000_000,
    }  # fmt: skip
    side = OnTheRole()
    origin(side, "limits")
    origin(side, "interest", "I")
    made = [side.api(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": hidden})["config"] for name in "SI"]
    assert [one["ack_policy"] for one in made] == ["none", "flow_control"]
    assert [one.get("durable_name") for one in made] == [None, "H"]


@pytest.mark.parametrize("release", [(2, 11, 11), (2, 12, 8)])
def test_the_ack_policy_came_with_2_14(release: Release) -> None:
    side = OnTheRole(release=release)
    origin(side, "limits")
    assert consumer(side)["error"] == {
        "code": 400, "err_code": 10025, "description": 'invalid JSON: can not unmarshal "\\"flow_control\\""',
    }  # fmt: skip


# -- the draft ---------------------------------------------------------------------------------------------------------

MANAGED: Final[dict[str, Any]] = {"consumer": {"name": "D", "server_managed": True}}


@requirement(162)
@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
def test_the_draft_manages_a_consumer_of_that_name(retention: str) -> None:
    side = OnTheRole(dialect="draft")
    origin(side, retention)
    publish(side, b"1", b"2", b"3")
    publish(side, b"4", subject="s.b")
    follow(side, sources=[{"name": "S", **MANAGED, "opt_start_seq": 2, "filter_subject": "s.a"}])
    (found,) = consumers(side, "S")
    assert (found["name"], found["config"]["ack_policy"]) == ("D", "flow_control")
    assert (found["config"]["opt_start_seq"], found["config"]["filter_subject"]) == (2, "s.a")
    publish(side, b"5")
    kept = [] if retention == "interest" else [b"2", b"3"]
    side.until(lambda: payloads(side) == [*kept, b"5"] and not consumers(side, "S")[0]["num_ack_pending"])
    assert payloads(side, "S") == {"limits": [b"1", b"2", b"3", b"4", b"5"], "workqueue": [b"1", b"4"]}.get(
        retention, []
    )
    side.api("CONSUMER.DELETE.S.D")
    side.until(lambda: bool(consumers(side, "S")))
    publish(side, b"6")
    side.until(lambda: payloads(side) == [*kept, b"5", b"6"])
    side.api("STREAM.DELETE.T")
    assert consumers(side, "S") == []


def test_the_draft_manages_a_consumer_of_a_mirror() -> None:
    side = OnTheRole(dialect="draft")
    origin(side, "limits")
    publish(side, b"1", b"2")
    managed = {"consumer": {"name": "D", "server_managed": True, "deliver_subject": "to.d"}}
    follow(side, "M", mirror={"name": "S", **managed})
    assert payloads(side, "M") == [b"1", b"2"]
    assert side.api("CONSUMER.INFO.S.D")["config"]["deliver_subject"] == "to.d"


def test_released_servers_manage_none() -> None:
    side = OnTheRole()
    origin(side)
    assert make(side, "T", sources=[{"name": "S", **MANAGED}])["error"]["err_code"] == 10025
    with pytest.raises(KeyError):
        side.reader.server.stream("T")


# -- a model -----------------------------------------------------------------------------------------------------------

STEPS: Final = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(["s.a", "s.b"])),
    st.tuples(st.just("wait"), st.sampled_from([0.05, 0.5, 3.0, 11.0])),
    st.tuples(st.just("reset"), st.none()),
    st.tuples(
        st.sampled_from(["delete_consumer", "pause", "resume", "lose_S", "lose_T", "elect_S", "elect_T"]), st.none()
    ),
)


@requirement(162)
@given(st.lists(STEPS, max_size=25), st.sampled_from(["T", "M"]))
def test_a_work_queue_is_copied_once_and_drained_whatever_happens(steps: list[tuple[str, Any]], copy: str) -> None:
    side = OnTheRole()
    origin(side, max_msgs=-1)
    block = {"name": "S", "filter_subject": "s.a"}
    follow(side, copy, **({"sources": [block]} if copy == "T" else {"mirror": block}))
    server, count = side.reader.server, 0
    name = name_of(side)
    wanted: list[bytes] = []
    leaderless: set[str] = set()

    def do(step: str, what: Any) -> None:
        nonlocal count
        if step == "publish" and "S" not in leaderless:
            count += 1
            publish(side, b"%d" % count, subject=what)
            if what == "s.a":
                wanted.append(b"%d" % count)
        elif step == "wait":
            side.wait(what)
        elif step == "reset":
            side.api(f"CONSUMER.RESET.S.{name}") if consumers(side, "S") else None
        elif step == "delete_consumer":
            side.api(f"CONSUMER.DELETE.S.{name}")
        elif step in ("pause", "resume"):
            side.api(f"CONSUMER.PAUSE.S.{name}", {"pause_until": IN_2099} if step == "pause" else b"")
        elif step.startswith("lose"):
            leaderless.add(step[-1])
            server.lose_leader("S" if step == "lose_S" else copy)
        elif step.startswith("elect") and step[-1] in leaderless:
            leaderless.discard(step[-1])
            server.elect_leader("S" if step == "elect_S" else copy, side.reader.now)

    for step, what in (*steps, ("elect_S", None), ("elect_T", None), ("resume", None)):
        do(step, what)
    side.until(lambda: payloads(side, copy) == wanted)
    if ("delete_consumer", None) not in steps:  # a new one begins after what is copied (FACTS.md F4.35)
        side.until(lambda: not [stored for stored in server.stream("S") if stored.subject == b"s.a"])
    side.wait(30.0)
    assert payloads(side, copy) == wanted
