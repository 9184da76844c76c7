"""One fetch, and the ledger of requests, by themselves: what is asked for, what has come, and the pauses of retries."""

from __future__ import annotations

from typing import Any

from jsproto.client.connection.message_buffer import MessageBuffer
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.heartbeats import SilenceWatch
from jsproto.client.consume.pull_requests import PullRequests, wire_size
from jsproto.client.consume.retry import PULL_FIRST, PULL_MOST
from jsproto.errors import NoRespondersError
from jsproto.rules.status import ConsumerStatus, read_status
from jsproto.timers import Timers
from jsproto.wire.frames import RawMsg
from tests.client.pulling import NEXT, Pulling, failed
from tests.harness import Harness
from tests.marks import promise


def raw(payload: bytes = b"x") -> RawMsg:
    return (b"s.a", b"$JS.ACK.S.C.1.1.1.1.0", None, payload)


def buffered(*raws: RawMsg) -> MessageBuffer:
    buffer = MessageBuffer(100, 10_000)
    buffer.add(raws, len(raws))
    return buffer


def status(text: str) -> ConsumerStatus:
    found = read_status(f"NATS/1.0 {text}\r\n\r\n".encode())
    assert found is not None
    return found


def waiting(batch: int = 3, max_bytes: int | None = None, expires: float = 5.0, heartbeat: float | None = 1.0) -> Fetch:
    return Fetch.waiting(batch, expires, 100.0, {"max_bytes": max_bytes, "heartbeat": heartbeat})


def ledger(**options: Any) -> PullRequests:
    h = Harness()
    return PullRequests(
        h.session, SilenceWatch(Timers()), api_subject="next", inbox="inbox", options=options, heartbeats_missed=3.0
    )


def test_what_is_missing_is_asked_for() -> None:
    fetch = waiting(3, 1_000)
    assert not fetch.add([raw()])
    body = {"batch": 2, "expires": 5 * 10**9, "idle_heartbeat": 10**9, "max_bytes": 1_000 - wire_size([raw()])}
    assert fetch.request(100.0) == body
    assert "idle_heartbeat" not in fetch.request(104.0)  # two would not come in time
    assert fetch.request(105.0)["expires"] == 1_000_000
    assert fetch.add([raw(), raw()])
    assert len(fetch.take()) == 3
    assert fetch.take() == []


def test_no_more_is_moved_than_fits() -> None:
    one = wire_size([raw()])
    for room, moved in ((one - 1, 0), (one, 1), (2 * one, 2), (9 * one, 2)):
        fetch = waiting(3, room)
        assert not fetch.add_from(buffered(raw(), raw()))
        assert (len(fetch.raws), fetch.missing) == (moved, 3 - moved)
    assert waiting(2).add_from(buffered(raw(), raw(), raw()))


def test_buffered_messages_that_all_fit_leave_room_for_others() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2), pulling.now)
    pulling.numbered(2)
    size = 2 * (len(b"s.a") + len(pulling.reply()) + 1)  # two messages of one byte
    pulling.requests()
    fetch = pulling.fetch(3, max_bytes=size + 9)
    request = pulling.request()
    assert (request["batch"], request["max_bytes"]) == (1, 9)
    pulling.status(request, "408 Request Timeout")
    assert pulling.taken(fetch) == [b"1", b"2"]


def test_pauses_double_until_there_is_no_time_left() -> None:
    fetch = waiting(expires=3.0, heartbeat=0)
    leader = status("409 Leadership Change")
    pauses, now = [], 100.0
    while (pause := fetch.refused(leader, now)) is not None:
        pauses.append(pause)
        now += pause
    assert pauses == [*(PULL_FIRST * 2**n for n in range(5)), PULL_MOST]
    assert now + PULL_MOST >= 103.0
    assert fetch.refusal is leader.error


def test_that_nobody_answers_may_pass() -> None:
    fetch = waiting()
    nobody = status("503")
    assert fetch.refused(nobody, 100.0) == PULL_FIRST
    assert fetch.refused(status("409 Server Shutdown"), 100.0) == 2 * PULL_FIRST
    assert fetch.refused(nobody, 100.0) == 4 * PULL_FIRST
    assert fetch.refusal is nobody.error
    assert Fetch.immediate(1, None, 2.0, now=100.0).refused(nobody, 100.0) is None


def test_a_fetch_that_does_not_wait_is_not_made_again() -> None:
    fetch = Fetch.immediate(1, None, 2.0, now=100.0)
    assert fetch.refused(status("409 Leadership Change"), 100.0) is None
    assert fetch.may_ask(200.0)
    assert not waiting().may_ask(105.0)


def test_what_was_served_leaves_the_ledger() -> None:
    requests = ledger()
    assert requests.new_inbox() == "inbox.1.*"
    replies = [requests.send({"batch": 2, "max_bytes": 900}, 110.0, now=100.0, heartbeat=0.0) for _ in range(2)]
    assert replies == [b"inbox.1.1", b"inbox.1.2"]
    assert (requests.msgs, requests.bytes) == (4, 1_800)
    requests.served([raw()])
    assert (requests.msgs, requests.bytes) == (3, 1_800 - wire_size([raw()]))
    timed_out = status("408 Request Timeout\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 800")
    assert requests.ended(replies[0], timed_out) is not None
    assert (requests.msgs, requests.bytes) == (2, 900)  # no more than the other one asked for
    assert requests.ended(replies[0], timed_out) is None
    requests.served([raw(), raw()])
    assert (len(requests), requests.msgs, requests.bytes) == (0, 0, 0)


def test_requests_that_must_have_ended_are_forgotten() -> None:
    requests = ledger(group="g")
    requests.new_inbox()
    for lost_at in (130.0, 110.0):
        requests.send({"batch": 1}, lost_at, now=100.0, heartbeat=0.0)
    assert requests.next_overdue() == 110.0
    requests.make_room(120.0)  # the oldest has time left
    assert len(requests) == 2
    requests.forget_overdue(120.0)
    assert (len(requests), requests.msgs, requests.next_overdue()) == (1, 1, 130.0)
    requests.make_room(130.0)
    assert (len(requests), requests.msgs, requests.next_overdue()) == (0, 0, None)


def test_a_stream_of_messages_that_is_not_on_is_stopped() -> None:
    pulling = Pulling()
    assert pulling.consumer.stop(pulling.now)
    assert not pulling.consumer.readable().done


@promise("It waits, too, when it begins in one.")
def test_a_fetch_that_nobody_answers_waits_for_its_time() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(expires=5)
    while pulling.now < 103:
        for request in pulling.requests():
            pulling.status(request, "503")
        pulling.advance(0.5)
        assert failed(fetch) is None
    request = pulling.request()
    pulling.numbered(1)
    assert pulling.taken(fetch) == [b"1"]
    assert request["expires"] < 2.5e9  # what is left of its time


def test_a_consumer_that_has_no_leader_all_the_time_is_named() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(expires=5)
    while failed(fetch) is None:
        for request in pulling.requests():
            pulling.status(request, "503")
        pulling.advance(0.5)
    assert pulling.now >= 104
    assert isinstance(failed(fetch), NoRespondersError)
    assert NEXT.decode() in str(failed(fetch))
    assert "does not exist, or has no leader now" in str(failed(fetch))
