"""One consumer of the server role: what it delivers and when, and what acknowledgements do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.server.store.context import ACCOUNT_HASH, ServerContext
from jsproto.wire.frames import Msg
from tests.marks import promise, requirement
from tests.server.consuming import Shop

SECOND = 1_000_000_000


# -- pushing -----------------------------------------------------------------------------------------------------------


def test_a_push_consumer_delivers_while_somebody_listens() -> None:
    shop = Shop(messages=2, deliver_subject="dlv")
    assert shop.heard() == []
    assert not shop.consumer.is_bound()
    assert shop.listen() == ["1:1:1:1", "2:1:2:0"]
    assert shop.consumer.is_bound()
    shop.store("s.a")
    assert shop.heard() == ["3:1:3:0"]
    shop.leave()
    shop.store("s.a", "s.a")
    assert shop.heard() == []
    assert shop.listen() == ["4:1:4:1", "5:1:5:0"]


def test_a_queue_group_is_delivered_to_when_it_has_members() -> None:
    shop = Shop(messages=1, deliver_subject="dlv", deliver_group="q")
    assert shop.listen("dlv") == []
    assert shop.listen("dlv", "other") == []
    assert shop.listen("dlv", "q") == ["1:1:1:0"]


def test_messages_have_their_own_subject_and_headers() -> None:
    shop = Shop(deliver_subject="dlv", headers_only=True)
    shop.listen()
    shop.store("s.b", payload=b"12345", header=b"NATS/1.0\r\nA: b\r\n\r\n")
    ((inbox, message),) = shop.post.sent
    assert (inbox, message.subject, message.payload) == ("dlv", b"s.b", b"")
    assert message.header == b"NATS/1.0\r\nA: b\r\nNats-Msg-Size: 5\r\n\r\n"


def test_no_more_than_max_ack_pending_are_outstanding() -> None:
    shop = Shop(messages=3, deliver_subject="dlv", max_ack_pending=2)
    assert shop.listen() == ["1:1:1:2", "2:1:2:1"]
    assert shop.ack(1, 1) == ["ok", "3:1:3:0"]
    assert shop.outstanding == 2


def test_heartbeats_come_when_nothing_else_does() -> None:
    shop = Shop(deliver_subject="dlv", idle_heartbeat=1.0)
    assert shop.advance(3.0) == []
    shop.listen()
    assert shop.advance(2.5) == ["100 Idle Heartbeat 0 0"] * 2
    shop.store("s.a")
    assert shop.heard() == ["1:1:1:0"]
    assert shop.advance(0.9) == []
    assert shop.advance(0.1) == ["100 Idle Heartbeat 1 1"]


def test_a_message_that_the_filter_leaves_out_moves_the_place_in_the_stream() -> None:
    shop = Shop(deliver_subject="dlv", idle_heartbeat=1.0, filter_subjects=["s.b", "s.c.*"])
    shop.listen()
    shop.store("s.b", "s.a", "s.c.d", "s.a")
    assert shop.heard() == ["1:1:1:1", "3:1:2:0"]
    assert shop.advance(1.0) == ["100 Idle Heartbeat 2 4"]


@pytest.mark.parametrize(
    ("word", "sees_all"), [(b"+ACK", False), (b"+TERM", False), (b"+WPI", False), (b"-NAK 1h", False), (b"-NAK", True)]
)
def test_which_acknowledgements_make_it_look_for_messages(word: bytes, sees_all: bool) -> None:
    """FACTS.md F5.35"""
    shop = Shop(filter_subjects=["s.a"], messages=1)
    assert shop.pull(b"1") == ["1:1:1:0"]
    assert shop.pull(b"2") == []
    shop.store("s.b")
    shop.ack(1, 1, word)
    assert shop.ack(2, 2) == ["ok"] * sees_all


@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize(("limit", "sees_all"), [(1, True), (2, False), (-1, False)])
def test_an_acknowledgement_that_makes_room_makes_it_look(policy: str, limit: int, sees_all: bool) -> None:
    """FACTS.md F5.35"""
    shop = Shop(filter_subjects=["s.a"], messages=1, max_ack_pending=limit, ack_policy=policy)
    assert shop.pull(b"1") == ["1:1:1:0"]
    assert shop.pull(b"2") == []
    shop.store("s.b")
    shop.ack(1, 1)
    assert shop.ack(2, 2) == ["ok"] * sees_all


def test_a_request_that_is_refused_does_not_make_it_look() -> None:
    """FACTS.md F5.35"""
    shop = Shop(filter_subjects=["s.a"], max_batch=2)
    assert shop.pull() == []
    shop.store("s.b")
    assert shop.pull({"batch": 3}) == ["409 Exceeded MaxRequestBatch of 2"]
    assert shop.ack(1, 1) == []
    assert shop.pull() == []
    assert shop.ack(1, 1) == ["ok"]


def test_a_heartbeat_that_nobody_would_hear_is_not_sent() -> None:
    shop = Shop(deliver_subject="dlv", idle_heartbeat=1.0)
    shop.now += 5.0
    shop.store("s.a")
    assert shop.heard() == []
    assert shop.listen() == ["1:1:1:0"]


# -- replay ------------------------------------------------------------------------------------------------------------


def test_a_replay_goes_at_the_pace_at_which_messages_were_stored() -> None:
    shop = Shop(deliver_subject="elsewhere")
    for _ in range(3):
        shop.store("s.a")
        shop.advance(2.0)
    shop.store("s.a")
    shop.heard()
    shop.consumer = shop.another("C", deliver_subject="dlv", replay_policy="original")
    assert shop.listen() == ["1:1:1:3"]
    assert shop.advance(1.5) == []
    shop.store("s.a")
    assert shop.advance(0.5) == ["2:1:2:3"]
    assert shop.advance(3.0) == ["3:1:3:2"]
    assert shop.advance(1.0) == ["4:1:4:1", "5:1:5:0"]


# -- flow control ------------------------------------------------------------------------------------------------------


@requirement(153)
def test_flow_control_is_answered_on_the_newest_subject_only() -> None:
    shop = Shop(deliver_subject="dlv", flow_control=True, idle_heartbeat=1.0, ack_policy="none")
    shop.listen()
    shop.store(*["s.a"] * 3, payload=b"x" * 1_000_000)
    heard = shop.post.sent
    assert [message.reply for _, message in heard if message.header] == [heard[2][1].reply]
    asked = heard[2][1].reply
    assert asked is not None
    assert asked.startswith(b"$JS.FC.S.C.")
    shop.heard()
    shop.store("s.a")
    assert shop.heard() == []
    assert shop.send(b"$JS.FC.S.C.none") == []
    assert shop.advance(1.0) == [f"100 Idle Heartbeat 3 3 {asked.decode()}"]
    assert shop.send(asked) == ["4:1:4:0"]
    assert shop.advance(1.0) == ["100 Idle Heartbeat 4 4"]


@requirement(152, 153)
def test_acknowledging_by_flow_control() -> None:
    shop = Shop(messages=5, deliver_subject="dlv", ack_policy="flow_control", max_ack_pending=2)
    assert shop.listen() == ["1:1:1:4", "2:1:2:3", "100 FlowControl Request"]
    answer = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n"

    def reply(header: bytes | None) -> list[str]:
        asked = shop.consumer._flow.asked
        assert asked is not None
        return shop.send(asked, header=header)

    assert reply(None) == []
    assert shop.outstanding == 2
    assert shop.advance(1.0) == ["100 Idle Heartbeat 2 2", "100 FlowControl Request"]
    assert reply(b"NATS/1.0\r\nNats-Last-Stream: 2\r\n\r\n") == []
    shop.advance(1.0)
    assert reply(answer % (9, 9)) == []  # beyond what was delivered
    shop.advance(1.0)
    assert reply(answer % (1, 1)) == ["3:1:3:2", "100 FlowControl Request"]
    assert shop.floor() == (1, 1)
    assert reply(answer % (1, 1)) == []
    assert "$JS.ACK.S.C.*.*.*.*.*" not in shop.post.subscribed.values()


# -- pulling -----------------------------------------------------------------------------------------------------------


def test_requests_take_turns() -> None:
    shop = Shop(messages=0)
    shop.post.listening.add(("in.>", None))
    for inbox in ("in.1", "in.2"):
        assert shop.pull({"batch": 2}, inbox) == []
    shop.store(*["s.a"] * 4)
    assert [inbox for inbox, _ in shop.post.sent] == ["in.1", "in.2", "in.1", "in.2"]
    assert shop.consumer.info(shop.now).num_waiting == 0


def test_a_request_whose_inbox_is_gone_gets_nothing() -> None:
    shop = Shop()
    assert shop.pull({"batch": 1}, "nobody") == []
    assert shop.consumer.info(shop.now).num_waiting == 0
    shop.post.listening.add(("away", None))
    assert shop.pull({"batch": 1}, "away") == []
    assert shop.pull({"batch": 1}) == []
    assert shop.leave("away") == []
    shop.store("s.a")
    assert shop.heard() == ["1:1:1:0"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ["1:1:1:2"]),
        (b"2", ["1:1:1:2", "2:1:2:1"]),
        (b"-5", ["1:1:1:2"]),
        (b"junk", ["1:1:1:2"]),
        ({"batch": 0}, ["1:1:1:2"]),
        ({"batch": None, "zzz": 4}, ["1:1:1:2"]),
        ({"batch": 9, "no_wait": True}, ["1:1:1:2", "2:1:2:1", "3:1:3:0", "404 No Messages"]),
        ({"batch": 9, "no_wait": True, "expires": SECOND}, ["1:1:1:2", "2:1:2:1", "3:1:3:0", "404 No Messages"]),
        ({"batch": 1, "expires": -1}, ["408 Request Timeout 1 0"]),
        ({"batch": 1, "max_bytes": 1000}, ["1:1:1:2", "409 Batch Completed 0 975"]),
        ({"batch": 2, "max_bytes": 24}, ["409 Message Size Exceeds MaxBytes 2 24"]),
        ({"batch": 3, "max_bytes": 26}, ["1:1:1:2", "409 Message Size Exceeds MaxBytes 2 1"]),
        ({"batch": 3, "max_bytes": 25}, ["1:1:1:2"]),
        ({"batch": 1, "max_bytes": -1}, ["1:1:1:2"]),
    ],
)  # fmt: skip
def test_what_a_request_gets(body: Any, expected: list[str]) -> None:
    shop = Shop(messages=3, context=ServerContext(b"t", epoch=-100 * SECOND))
    assert shop.pull(body) == expected


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{junk", "not a JSON body: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"batch": "x"}, "json: cannot unmarshal string into Go struct field .batch of type int"),
        ({"batch": True}, "json: cannot unmarshal bool into Go struct field .batch of type int"),
        ({"batch": 1.5}, "json: cannot unmarshal number 1.5 into Go struct field .batch of type int"),
        ({"no_wait": 1}, "json: cannot unmarshal number into Go struct field .no_wait of type bool"),
        ({"group": []}, "json: cannot unmarshal array into Go struct field .group of type string"),
        ({"expires": {}}, "json: cannot unmarshal object into Go struct field .expires of type time.Duration"),
        ({"idle_heartbeat": SECOND, "expires": SECOND}, "heartbeat value too large"),
        ({"min_pending": 3}, "Not a Overflow Priority consumer"),
    ],
)
def test_requests_that_cannot_be_understood(body: Any, why: str) -> None:
    assert Shop(messages=1).pull(body) == [f"400 Bad Request - {why}"]


def test_a_request_that_waits_gets_heartbeats_and_expires() -> None:
    shop = Shop(messages=1)
    wanted = {"batch": 3, "max_bytes": 1000, "expires": 3 * SECOND, "idle_heartbeat": SECOND}
    assert shop.pull(wanted) == ["1:1:1:0"]
    assert shop.advance(1.5) == ["100 Idle Heartbeat 1 1"]
    shop.store("s.a")
    assert shop.heard() == ["2:1:2:0"]
    assert shop.advance(1.0) == ["100 Idle Heartbeat 2 2"]
    ((_, *left),) = [line.split(" ") for line in shop.advance(0.5)]
    assert left[:3] == ["Request", "Timeout", "1"]
    assert shop.advance(9.0) == []


def test_an_expired_request_gets_nothing_even_when_nobody_looked() -> None:
    shop = Shop()
    shop.pull({"batch": 1, "expires": SECOND})
    shop.now += 5.0
    shop.store("s.a")
    assert shop.heard() == ["408 Request Timeout 1 0"]
    assert shop.pull() == ["1:1:1:0"]


def test_requests_that_ask_for_too_much() -> None:
    shop = Shop(messages=1, max_batch=2, max_expires=90.0, max_bytes=500, max_waiting=2)
    assert shop.pull({"batch": 3}) == ["409 Exceeded MaxRequestBatch of 2"]
    assert shop.pull({"expires": 91 * SECOND}) == ["409 Exceeded MaxRequestExpires of 1m30s"]
    assert shop.pull({"max_bytes": 501}) == ["409 Exceeded MaxRequestMaxBytes of 500"]
    assert shop.pull({"batch": 2, "expires": SECOND, "max_bytes": 500}) == ["1:1:1:0"]
    assert shop.pull({"expires": 2 * SECOND}) == []
    assert shop.pull() == ["409 Exceeded MaxWaiting"]
    shop.now += 1.0  # the first has expired: there is room again
    heard = shop.pull()
    assert heard[0].startswith("408 Request Timeout 1")
    assert len(heard) == 1
    assert shop.pull(headers=b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n") == ["412 Required Api Level"]
    assert shop.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C") == []
    assert shop.pull({"batch": 9}, "no subject") == []


def test_a_request_that_would_not_wait_and_those_that_were_there_before() -> None:
    shop = Shop(max_ack_pending=1)
    assert shop.pull({"no_wait": True}) == ["404 No Messages"]
    shop.store("s.a", "s.a")
    assert shop.pull({"batch": 3}) == ["1:1:1:1"]
    assert shop.pull({"no_wait": True}) == ["408 Requests Pending"]
    assert shop.ack(1, 1) == ["ok", "2:1:2:0"]
    assert shop.ack(2, 2) == ["ok"]
    assert shop.pull({"no_wait": True, "expires": SECOND}) == []


def test_a_request_that_would_not_wait_hangs_at_max_ack_pending() -> None:
    shop = Shop(messages=3, max_ack_pending=1)
    assert shop.pull({"no_wait": True, "batch": 2}) == ["1:1:1:2"]
    assert shop.advance(5.0) == []
    assert shop.ack(1, 1) == ["ok", "2:1:2:1"]


def test_a_push_consumer_cannot_be_pulled_from() -> None:
    shop = Shop(messages=1, deliver_subject="dlv")
    assert shop.pull() == ["409 Consumer is push based"]


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_the_floor_follows_what_is_acknowledged_without_a_gap() -> None:
    shop = Shop(messages=4)
    shop.pull(b"4")
    assert shop.ack(2, 2) == ["ok"]
    assert shop.floor() == (0, 0)
    assert shop.ack(1, 1, b"") == ["ok"]
    assert shop.floor() == (2, 2)
    assert shop.ack(4, 4, b"+OK", None) == []
    assert shop.ack(3, 3) == ["ok"]
    assert shop.floor() == (4, 4)
    assert shop.ack(3, 3) == ["ok"]  # again
    assert shop.ack(5, 5) == []  # not delivered yet
    assert shop.outstanding == 0


def test_one_acknowledgement_for_all_before_it() -> None:
    shop = Shop(messages=4, ack_policy="all")
    shop.pull(b"4")
    assert shop.ack(3, 3) == ["ok"]
    assert (shop.floor(), shop.outstanding) == ((3, 3), 1)
    assert shop.ack(1, 1) == ["ok"]
    assert shop.floor() == (3, 3)


def test_one_acknowledgement_by_a_message_of_others() -> None:
    """The consumer has passed over it: those before it are done, and the ack floor that is reported stays."""
    shop = Shop(ack_policy="all", filter_subject="s.a")
    shop.store("s.a", "s.b", "s.a")
    shop.pull(b"2")
    assert shop.ack(2, 2) == ["ok"]
    assert (shop.floor(), shop.outstanding) == ((0, 0), 1)


@pytest.mark.parametrize("word", [b"junk", b"+ack", b"+ACK ", b"ack", b"+WPI"])
def test_whatever_is_said_is_answered(word: bytes) -> None:
    shop = Shop(messages=1)
    shop.pull()
    assert shop.ack(1, 1, word) == ["ok"]
    assert shop.outstanding == 1


@pytest.mark.parametrize(
    ("subject", "answer"),
    [
        (b"$JS.ACK.S.C.x.1.1.0.1", ["ok"]),
        (b"$JS.ACK.S.C.1.x.1.0.1", []),
        (b"$JS.ACK._.szMpdrwD.S.C.1.1.1.0.1", ["ok"]),
        (b"$JS.ACK._.szMpdrwD.S.C.1.1.1.0.1.more.still", ["ok"]),
        (b"$JS.ACK._.szMpdrwD.S.C", []),
    ],
)
def test_subjects_of_acknowledgements(subject: bytes, answer: list[str]) -> None:
    shop = Shop(messages=1)
    shop.pull()
    assert shop.send(subject, b"+ACK", b"r") == answer
    assert shop.outstanding == (not answer)


def test_version_two_says_domain_and_account() -> None:
    shop = Shop(messages=1, deliver_subject="dlv", context=ServerContext(b"t", domain="hub", ack_version=2))
    shop.listen()
    assert shop.post.subscribed.keys() == {0, 1, 2}
    shop = Shop(messages=1, context=ServerContext(b"t", ack_version=2))
    shop.consumer.receive(Msg(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"", b"in", None, b""), shop.now)
    reply = shop.post.sent[0][1].reply
    assert reply is not None
    assert reply.startswith(b"$JS.ACK._.%b.S.C.1.1.1." % ACCOUNT_HASH.encode())


def test_flow_control_of_version_two() -> None:
    shop = Shop(
        messages=1, deliver_subject="dlv", ack_policy="flow_control", max_ack_pending=1,
        context=ServerContext(b"t", domain="hub", ack_version=2),
    )  # fmt: skip
    shop.post.listening.add(("dlv", None))
    shop.consumer.interest_changed()
    shop.consumer.handle_timeout(shop.now)
    replies = [message.reply or b"" for _, message in shop.post.sent]
    assert replies[0].startswith(b"$JS.ACK.hub.szMpdrwD.S.C.1.")
    assert replies[1].startswith(b"$JS.FC.hub.szMpdrwD.S.C.")


def test_the_next_message_by_an_acknowledgement() -> None:
    shop = Shop(messages=4)
    shop.pull()
    assert shop.ack(1, 1, b"+NXT") == ["2:1:2:2"]
    assert shop.ack(2, 2, b'+NXT {"batch": 5, "no_wait": true}') == ["3:1:3:1", "4:1:4:0", "404 No Messages"]
    assert shop.ack(3, 3, b"+NXT", None) == []
    assert shop.floor() == (3, 3)


def test_an_acknowledgement_of_no_message_is_answered() -> None:
    shop = Shop(messages=1)
    shop.pull()
    assert [shop.ack(0, 1, word) for word in (b"+ACK", b"-NAK", b"x")] == [["ok"], [], []]
    assert (shop.outstanding, shop.floor()) == (1, (0, 0))


@promise("End the deliveries of the message, though it is not processed.")
def test_termination() -> None:
    shop = Shop(messages=2)
    shop.pull(b"2")
    assert shop.ack(1, 1, b"+TERM") == ["ok", "MSG_TERMINATED 1 1"]
    assert shop.ack(2, 2, b"+TERM bad record") == ["ok", "MSG_TERMINATED 2 1 bad record"]
    assert shop.ack(3, 3, b"+TERM") == ["MSG_TERMINATED 3 1"]


# -- redelivery --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "delay"),
    [
        (b"", 0.0), (b" 5", 0.0), (b' {"delay": 600000000}', 0.6), (b'{"delay": 600000000}', 0.6), (b" 600ms", 0.6),
        (b' {"delay":"1s"}', 0.0), (b" {junk", 0.0), (b" {}", 0.0), (b' {"delay": 0}', 0.0),
    ],
)  # fmt: skip
def test_what_is_not_wanted_now_comes_again(argument: bytes, delay: float) -> None:
    shop = Shop(messages=2, deliver_subject="dlv", ack_wait=60.0)
    shop.listen()
    heard = shop.ack(1, 1, b"-NAK" + argument)
    assert heard[:2] == ["MSG_NAKED 1 1", "ok"]
    if delay:
        assert heard[2:] == []
        assert shop.advance(delay - 0.001) == []
    heard += shop.advance(0.001)
    assert heard[2:] == ["1:2:3:0"]
    assert shop.consumer.info(shop.now).num_redelivered == 1


def test_a_nak_of_what_is_not_outstanding_does_nothing() -> None:
    shop = Shop(messages=2, deliver_subject="dlv")
    shop.listen()
    shop.ack(1, 1)
    assert shop.ack(1, 1, b"-NAK") == ["ok"]
    assert shop.ack(2, 9, b"-NAK") == ["ok"]
    assert shop.ack(1, 1, b"+WPI") == ["ok"]
    assert shop.advance(29.0) == []


def test_redelivery_when_nobody_acknowledges() -> None:
    shop = Shop(messages=2, deliver_subject="dlv", ack_wait=1.0)
    shop.listen()
    assert shop.advance(0.6) == []
    assert shop.ack(2, 2, b"+WPI") == ["ok"]
    assert shop.advance(0.5) == ["1:2:3:0"]
    assert shop.advance(0.6) == ["2:2:4:0"]
    assert shop.ack(1, 1) == ["ok"]
    assert shop.floor() == (1, 1)
    assert shop.advance(1.0) == ["2:3:5:0"]
    assert shop.ack(2, 5) == ["ok"]
    assert (shop.floor(), shop.outstanding) == ((5, 2), 0)
    assert shop.advance(10.0) == []


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
def test_backoff_and_the_last_delivery() -> None:
    shop = Shop(messages=1, deliver_subject="dlv", backoff=[1.0, 3.0], max_deliver=3)
    assert shop.listen() == ["1:1:1:0"]
    assert shop.advance(1.0) == ["1:2:2:0"]
    assert shop.advance(2.9) == []
    assert shop.advance(0.1) == ["1:3:3:0"]
    assert shop.advance(2.9) == []
    assert shop.advance(0.1) == ["MAX_DELIVERIES 1 3"]
    assert (shop.outstanding, shop.floor()) == (0, (0, 0))
    assert shop.ack(1, 3) == ["ok"]
    assert shop.floor() == (0, 0)


def test_a_nak_after_the_last_delivery() -> None:
    shop = Shop(messages=2, max_deliver=1)
    shop.pull()
    assert shop.ack(1, 1, b"-NAK") == ["MSG_NAKED 1 1", "ok"]
    assert shop.pull() == ["MAX_DELIVERIES 1 1", "2:1:2:0"]


def test_what_is_queued_for_redelivery_counts_for_requests() -> None:
    shop = Shop(messages=2, ack_wait=1.0)
    shop.pull(b"2")
    shop.advance(1.0)
    assert shop.pull({"batch": 5, "no_wait": True}) == ["1:2:3:0", "2:2:4:0", "404 No Messages"]
    shop.advance(1.0)
    assert shop.ack(2, 4, b'-NAK{"delay": 1000000000}')[1] == "ok"
    assert shop.pull({"batch": 5, "no_wait": True}) == ["1:3:5:0", "404 No Messages"]


def test_what_is_deleted_is_done_with() -> None:
    shop = Shop(messages=4, deliver_subject="dlv", max_ack_pending=2, ack_wait=1.0)
    shop.listen()
    shop.stream.remove(4)
    shop.stream.remove(1)
    assert shop.heard() == ["MSG_TERMINATED 1 1 Message deleted by stream limits", "3:1:3:0"]
    assert shop.ack(2, 2) == ["ok"]
    shop.stream.remove(3)
    shop.ack(3, 3)
    assert shop.outstanding == 0
    assert shop.floor() == (3, 3)  # what was not delivered is not counted


def test_acknowledged_before_it_could_note_the_deletion() -> None:
    shop = Shop(messages=1, deliver_subject="dlv")
    shop.listen()
    shop.stream.remove(1)
    shop.consumer.receive(Msg(b"$JS.ACK.S.C.1.1.1.0.0", b"", b"r", None, b"+ACK"), shop.now)
    assert shop.heard() == ["ok"]


# -- retention ---------------------------------------------------------------------------------------------------------


def test_a_work_queue_forgets_what_is_acknowledged() -> None:
    shop = Shop(messages=3, stream={"retention": "workqueue"})
    shop.pull(b"2")
    assert shop.ack(2, 2) == ["ok"]
    assert [stored.seq for stored in shop.stream] == [1, 3]
    shop.consumer.close(shop.now)
    assert len(shop.stream) == 2


def flow_requests(shop: Shop) -> list[bytes]:
    """The subjects on which answers to flow control are asked for, oldest first."""
    replies = [message.reply or b"" for _, message in shop.post.sent]
    return [reply for reply in replies if reply.startswith(b"$JS.FC.")]


FIRST_STORED = b"NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n"


def test_a_work_queue_keeps_what_a_sourcing_consumer_wants() -> None:
    shop = Shop(messages=2, stream={"retention": "workqueue"})
    source = shop.another("SRC", ack_policy="flow_control", deliver_subject="dlv", max_ack_pending=1, sourcing=True)
    shop.pull(b"2")
    shop.ack(1, 1)
    shop.ack(2, 2)
    assert len(shop.stream) == 2
    shop.post.listening.add(("dlv", None))
    source.interest_changed()
    shop.settle()
    (asked,) = flow_requests(shop)
    source.receive(Msg(asked, b"", None, FIRST_STORED, b""), shop.now)
    assert [stored.seq for stored in shop.stream] == [2]
    source.close(shop.now)
    assert len(shop.stream) == 1


def test_interest_keeps_what_somebody_wants() -> None:
    shop = Shop(stream={"retention": "interest"}, filter_subject="s.a")
    other = shop.another("D", ack_policy="none", deliver_subject="dlv", filter_subject="s.>")
    shop.store("s.a", "s.b", "t.c")
    assert [stored.seq for stored in shop.stream] == [1, 2]
    shop.post.listening.add(("dlv", None))
    other.interest_changed()
    shop.settle()
    assert [stored.seq for stored in shop.stream] == [1]
    shop.pull()
    assert shop.ack(1, 1) == ["ok"]
    assert len(shop.stream) == 0
    shop.store("s.a")
    assert len(shop.stream) == 1
    shop.consumer.close(shop.now)
    assert len(shop.stream) == 0


def test_acknowledging_all_of_a_stream_that_keeps_by_interest() -> None:
    shop = Shop(stream={"retention": "interest"}, ack_policy="all")
    shop.store(*["s.a"] * 3)
    shop.pull(b"3")
    assert shop.ack(2, 2) == ["ok"]
    assert [stored.seq for stored in shop.stream] == [3]


# -- pauses, leaders, the end ------------------------------------------------------------------------------------------


def test_a_pause_ends_by_itself() -> None:
    shop = Shop(messages=1, deliver_subject="dlv", idle_heartbeat=1.0, pause_until=101_500_000_000)
    assert shop.listen() == []
    info = shop.consumer.info(shop.now)
    assert (info.paused, info.pause_remaining) == (True, 1.5)
    assert shop.advance(2.0) == ["100 Idle Heartbeat 0 0", "PAUSE False", "1:1:1:0"]
    info = shop.consumer.info(shop.now)
    assert (info.paused, info.pause_remaining) == (None, None)


def test_a_consumer_that_is_resumed_goes_on_with_whatever_comes_next() -> None:
    shop = Shop(messages=1, deliver_subject="dlv", idle_heartbeat=1.0)
    shop.consumer.pause(200 * SECOND, shop.now)
    assert shop.listen() == []
    shop.consumer.pause(None, shop.now)
    assert shop.heard() == []
    assert shop.advance(1.0) == ["1:1:1:0"]


def test_a_request_that_would_not_wait_during_a_pause() -> None:
    shop = Shop(messages=1, pause_until=200 * SECOND)
    assert shop.pull({"no_wait": True}) == ["404 No Messages"]
    assert shop.pull({"no_wait": True, "expires": SECOND}) == []
    assert shop.advance(1.0) == ["408 Request Timeout 0 0"]


def test_a_new_leader_knows_what_was_delivered_and_no_requests() -> None:
    shop = Shop(messages=1, ack_wait=1.0)
    shop.pull(b"2")
    shop.consumer.lead(shop.now)
    assert shop.heard() == ["409 Leadership Change"]
    assert shop.pull() == []
    assert shop.advance(1.0) == ["1:2:2:0"]


def test_a_heartbeat_ends_a_request_that_would_not_wait() -> None:
    """FACTS.md F5.29"""
    shop = Shop(messages=3, max_ack_pending=2)
    asked = {"batch": 5, "no_wait": True, "expires": 3 * SECOND, "idle_heartbeat": SECOND}
    assert len(shop.pull(asked)) == 2
    assert shop.advance(0.9) == []
    assert shop.advance(0.1) == ["404 No Messages"]


def test_waiting_requests_end_with_the_server() -> None:
    shop = Shop()
    shop.pull(b"3")
    shop.consumer.shut_down()
    assert shop.heard() == ["409 Server Shutdown 3 0"]
    shop.consumer.shut_down()
    assert shop.heard() == []


def test_a_new_leader_asks_for_flow_control_again() -> None:
    shop = Shop(messages=2, ack_policy="flow_control", deliver_subject="dlv", max_ack_pending=1)
    shop.post.listening.add(("dlv", None))
    shop.consumer.interest_changed()
    shop.settle()
    (old,) = flow_requests(shop)
    shop.consumer.lead(shop.now)
    shop.settle()
    assert flow_requests(shop) == [old]
    shop.now += 1.0
    shop.consumer.handle_timeout(shop.now)
    (_, new) = flow_requests(shop)
    shop.consumer.receive(Msg(old, b"", None, FIRST_STORED, b""), shop.now)
    assert shop.floor() == (0, 0)
    shop.consumer.receive(Msg(new, b"", None, FIRST_STORED, b""), shop.now)
    assert shop.floor() == (1, 1)


def test_a_deleted_consumer_says_so_and_is_silent_then() -> None:
    shop = Shop()
    shop.pull(b"2")
    shop.consumer.close(shop.now)
    assert shop.heard() == ["409 Consumer Deleted", "DELETED"]
    assert (shop.post.subscribed, shop.consumer.deadline(), shop.stream.watchers) == ({}, None, [])
    shop.consumer.handle_timeout(shop.now)
    assert shop.pull() == []


def test_nobody_uses_it() -> None:
    shop = Shop(messages=1, inactive_threshold=2.0)
    shop.advance(1.5)
    assert shop.pull({"expires": 3 * SECOND}) == ["1:1:1:0"]
    assert shop.advance(1.9) == []
    assert shop.ack(1, 1) == ["ok"]
    assert shop.pull({"expires": 3 * SECOND}) == []
    assert shop.advance(4.9) == ["408 Request Timeout 0 0"]
    assert shop.gone == []
    assert shop.advance(0.1) == ["DELETED"]
    assert shop.gone == [shop.consumer]


def test_nobody_listens_to_it() -> None:
    shop = Shop(deliver_subject="dlv", inactive_threshold=2.0)
    shop.listen()
    assert shop.advance(9.0) == []
    shop.leave()
    shop.advance(1.0)
    shop.listen()
    shop.advance(5.0)
    shop.leave()
    assert shop.advance(2.0) == ["DELETED"]


# -- changes -----------------------------------------------------------------------------------------------------------


def test_a_change_of_filters_and_limits() -> None:
    shop = Shop(deliver_subject="dlv", max_ack_pending=1)
    shop.store("s.a", "s.b", "s.a", "s.b")
    assert shop.listen() == ["1:1:1:3"]
    changed = shop.consumer.config.updated(filter_subject="s.b", max_ack_pending=5, ack_wait=2.0)
    shop.consumer.update(changed, shop.now)
    assert shop.heard() == ["2:1:2:1", "4:1:3:0"]
    shop.consumer.update(changed.updated(max_ack_pending=7), shop.now)
    assert shop.advance(2.0) == ["2:2:4:0", "4:2:5:0"]


def test_information() -> None:
    shop = Shop(messages=3, context=ServerContext(b"t", epoch=0))
    shop.pull(b"2")
    shop.ack(1, 1)
    info = json.loads(json.dumps(shop.consumer.info(shop.now).to_json()))
    assert info["delivered"] == {"consumer_seq": 2, "stream_seq": 2, "last_active": "1970-01-01T00:01:40Z"}
    assert info["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1, "last_active": "1970-01-01T00:01:40Z"}
    assert (info["num_ack_pending"], info["num_pending"], info["num_waiting"]) == (1, 1, 0)
    assert "push_bound" not in info


def test_what_is_no_subject_has_nobody_who_listens() -> None:
    shop = Shop(messages=2, ack_policy="explicit")
    for inbox in ("in.*", "a..b"):
        assert shop.pull({"batch": 2}, inbox) == []
    assert shop.consumer.info(shop.now).num_waiting == 0
    assert shop.pull() == ["1:1:1:1"]
    assert shop.ack(1, 1, reply=b"a..b") == []
    assert shop.floor() == (1, 1)


@pytest.mark.parametrize("options", [{"ack_wait": 1e-9}, {"backoff": [1e-9, 1e-9]}])
def test_redeliveries_are_a_millisecond_apart(options: dict[str, Any]) -> None:
    shop = Shop(messages=1, ack_policy="explicit", **options)
    assert shop.pull({"batch": 3, "expires": 10**9, "idle_heartbeat": 1}) == ["1:1:1:0"]
    assert shop.advance(0.0009) == []
    assert [said for said in shop.advance(0.0021) if said.startswith("1:")] == ["1:2:2:0", "1:3:3:0"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_numbers_beyond_64_bits(number: int) -> None:
    shop = Shop(messages=1, ack_policy="explicit")
    for name, kind in (("expires", "time.Duration"), ("batch", "int"), ("min_pending", "int64")):
        words = f"json: cannot unmarshal number {number} into Go struct field .{name} of type {kind}"
        assert shop.pull({name: number}) == [f"400 Bad Request - {words}"]
    assert shop.pull() == ["1:1:1:0"]
    assert shop.ack(1, 1, b'-NAK{"delay": %d}' % number) == ["MSG_NAKED 1 1", "ok"]
    assert shop.pull() == ["1:2:2:0"]  # as if it had asked for no delay


def test_what_a_purge_takes_out_of_the_queue_comes_again_after_its_time() -> None:
    shop = Shop(ack_policy="explicit", ack_wait=10.0)
    shop.store("s.a", "s.a", "s.b", "s.b")
    assert shop.pull({"batch": 4}) == ["1:1:1:3", "2:1:2:2", "3:1:3:1", "4:1:4:0"]
    shop.advance(4.0)
    assert shop.ack(4, 4, b"+WPI", None) == []
    shop.advance(6.0)
    shop.store("s.b")  # which wakes it: 3 waits for somebody who takes it now
    assert shop.ack(4, 4, b"-NAK", None) == ["MSG_NAKED 4 1"]  # and so does 4
    shop.stream.purge("s.a")
    shop.settle()
    assert shop.pull({"batch": 4, "expires": 30 * 10**9}) == ["5:1:5:0"]
    assert shop.outstanding == 3
    assert shop.advance(4.0) == ["4:2:6:0"]
    assert shop.advance(6.0) == ["3:2:7:0", "5:2:8:0"]


def test_what_was_purged_before_its_time_is_not_delivered_again() -> None:
    shop = Shop(messages=1, ack_policy="explicit", ack_wait=10.0)
    shop.store("s.b", "s.a")
    consumer = shop.another("N", ack_policy="explicit", ack_wait=10.0, deliver_policy="new")
    shop.consumer = consumer
    shop.store("s.a")
    consumer.receive(Msg(b"$JS.API.CONSUMER.MSG.NEXT.S.N", b"", b"in", None, b""), shop.now)
    assert len(shop.heard()) == 1
    shop.stream.purge("s.a")
    shop.settle()
    assert shop.outstanding == 1  # as a real server counts it
    consumer.receive(
        Msg(b"$JS.API.CONSUMER.MSG.NEXT.S.N", b"", b"in", None, b'{"batch": 1, "expires": 60000000000}'), shop.now
    )
    assert shop.advance(40.0) == []
    assert shop.outstanding == 1
