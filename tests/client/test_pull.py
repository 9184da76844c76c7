"""Pulling: every fetch ends, nothing that came is lost, nothing is polled for."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import ConsumerNotFoundError
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.pull_requests import ANSWER_GRACE, MAX_REQUESTS
from jsproto.client.consume.retry import PULL_GIVE_UP
from jsproto.errors import (
    APIError,
    BadPullError,
    ConflictError,
    ConnectionClosedError,
    ConnectionLostError,
    ConsumerDeletedError,
    ConsumerSilentError,
    Error,
    LeadershipChangedError,
    LocalProtocolError,
    MaxWaitingError,
    MessageSizeError,
    PinnedError,
    PullLimitError,
    PushBasedError,
    RequiredApiLevelError,
    ServerShutdownError,
    StatusError,
    TimeoutError,
)
from jsproto.events import ConsumerSilent
from jsproto.wire.encoder import PONG
from tests.client.pulling import TIMED_OUT, Pulling, failed
from tests.marks import known_fault, promise, requirement

NO_MESSAGES = "404 No Messages"
HEARTBEAT = "100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 0"
DELETED = "409 Consumer Deleted"
LEADER = "409 Leadership Change\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 0"
TOO_BIG = "409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d"


# -- fetch -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 200])
def test_messages_of_several_fetches_that_come_at_once(size: int) -> None:
    """Many small ones come one by one, larger ones as runs, which are cut where a fetch ends."""
    pulling = Pulling()
    fetches = [pulling.fetch(count) for count in (3, 5, 9)]
    payloads = [b"%0*d" % (size, number % 10) for number in range(17)]
    pulling.at_once(*payloads)
    assert [pulling.taken(fetch) for fetch in fetches] == [payloads[:3], payloads[3:8], payloads[8:]]


@requirement(267)
def test_a_fetch_asks_once_and_ends_with_its_last_message() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    request = pulling.request()
    reply = request.pop("reply")
    assert request == {"batch": 3, "expires": 5_000_000_000}
    assert reply.startswith(b"_INBOX.")
    pulling.messages(b"1", b"2")
    assert not fetch.done.done
    pulling.messages(b"3")
    assert fetch.done in pulling.completed
    assert pulling.taken(fetch) == [b"1", b"2", b"3"]
    assert pulling.consumer.under_way == 0
    assert pulling.requests() == []
    assert pulling.consumer.deadline() is None


def test_whoever_drives_is_not_told_of_the_end_of_each_fetch() -> None:
    pulling = Pulling()
    first = pulling.fetch(1)
    deadline = pulling.session.deadline()
    pulling.messages(b"1")
    assert first.done.done
    assert pulling.session.deadline() == deadline
    pulling.now += 1.0
    fetch = pulling.fetch(1)  # whoever sleeps until then need not be woken
    later = pulling.session.deadline()
    assert deadline is not None
    assert later is not None
    assert later > deadline
    pulling.messages(b"2")
    assert pulling.taken(fetch) == [b"2"]
    assert len(pulling.requests()) == 2
    pulling.now = later
    pulling.session.handle_timeout(pulling.now)  # nothing is due, and nothing is left to wait for but the link
    assert pulling.published() == []
    assert pulling.session.deadline() != later


@requirement(208)
@promise("An application that consumes works the same with both versions.")
@known_fault("version 2 of the ack subjects has too many tokens for a fetch")
@pytest.mark.parametrize("v2", [False, True])
def test_both_versions_of_ack_subjects_are_messages(v2: bool) -> None:
    pulling = Pulling(v2=v2)
    fetch = pulling.fetch(1)
    pulling.messages(b"1")
    (message,) = pulling.consumer.take(fetch)
    assert (message.metadata.stream, message.metadata.sequence.consumer) == ("S", 1)
    message.ack()
    assert pulling.acks() == [(b"1", b"+ACK")]


@requirement(237)
@promise("A fetch that finds nothing is an empty list.")
@known_fault("an empty fetch raises")
def test_an_empty_fetch_is_no_error() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    pulling.status(pulling.request(), TIMED_OUT % (3, 0))
    assert pulling.taken(fetch) == []
    fetch = pulling.no_wait(3)
    assert pulling.request().keys() == {"batch", "no_wait", "reply"}
    pulling.advance(0.1)


@requirement(242)
def test_a_fetch_that_got_some() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    pulling.numbered(1)
    pulling.status(pulling.request(), TIMED_OUT % (2, 0))
    assert pulling.taken(fetch) == [b"1"]
    assert pulling.consumer.under_way == 0


@requirement(237)
def test_a_partial_fetch_that_does_not_wait_ends_with_404() -> None:
    pulling = Pulling()
    fetch = pulling.no_wait(5)
    pulling.numbered(1)
    assert not fetch.done.done
    pulling.status(pulling.request(), NO_MESSAGES)
    assert pulling.taken(fetch) == [b"1"]
    assert pulling.consumer.under_way == 0


@requirement(238, 240, 241)
@promise("It ends at once, with `ConsumerDeletedError` or another error of the server")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (DELETED, ConsumerDeletedError),
        ("409 Consumer is push based", PushBasedError),
        ("409 Exceeded MaxRequestBatch of 2", PullLimitError),
        ("409 Exceeded MaxRequestExpires of 1s", PullLimitError),
        ("409 Exceeded MaxRequestMaxBytes of 500", PullLimitError),
        (TOO_BIG % (3, 50), MessageSizeError),
        ("409 Whatever Comes Next", ConflictError),
        ("400 Bad Request - heartbeat value too large", BadPullError),
        ("412 Required Api Level", RequiredApiLevelError),
        ("499 Something New", StatusError),
    ],
)
def test_an_error_ends_a_fetch_at_once(text: str, kind: type[Error]) -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3, expires=60)
    pulling.status(pulling.request(), text)
    assert type(failed(fetch)) is kind
    assert pulling.requests() == []


def test_what_came_before_an_error_is_returned_and_the_error_comes_next_time() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    pulling.numbered(2)
    pulling.status(pulling.request(), DELETED)
    assert pulling.taken(fetch) == [b"1", b"2"]
    fetch = pulling.fetch(3)
    pulling.status(pulling.request(), DELETED)
    assert isinstance(failed(fetch), ConsumerDeletedError)


@requirement(239)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LEADER, LeadershipChangedError),
        ("409 Server Shutdown", ServerShutdownError),
        ("409 Exceeded MaxWaiting", MaxWaitingError),
        ("423 Nats-Pin-Id mismatch", PinnedError),
    ],
)
def test_what_may_pass_is_asked_for_again(text: str, kind: type[Error]) -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    pulling.status(pulling.request(), text)
    assert pulling.requests() == []
    pulling.advance(0.05)
    again = pulling.request()
    assert (again["batch"], again["expires"]) == (3, 4_950_000_000)
    pulling.status(again, "503")  # while the new leader is not there yet
    pulling.advance(0.1)
    pulling.status(pulling.request(), text)
    pulling.advance(0.2)
    third = pulling.request()
    pulling.numbered(2)
    pulling.status(third, text)
    pulling.advance(0.4)
    last = pulling.request()
    assert last["batch"] == 1
    pulling.numbered(1)
    assert pulling.taken(fetch) == [b"1", b"2", b"3"]

    fetch = pulling.fetch(1, expires=0.04)
    pulling.status(pulling.request(), text)
    assert type(failed(fetch)) is kind
    fetch = pulling.no_wait(1)
    pulling.status(pulling.request(), text)
    assert type(failed(fetch)) is kind


def test_a_refused_fetch_ends_with_the_refusal() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1, expires=1)
    pulling.status(pulling.request(), LEADER)
    pulling.advance(0.05)
    pulling.request()
    pulling.advance(1 + ANSWER_GRACE)
    assert isinstance(failed(fetch), LeadershipChangedError)


def test_a_server_that_says_nothing() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1, expires=1)
    pulling.advance(1)
    assert not fetch.done.done
    pulling.advance(ANSWER_GRACE)
    assert isinstance(failed(fetch), TimeoutError)
    fetch = pulling.fetch(2, expires=1)
    pulling.messages(b"late")  # of the first one: nothing is lost
    pulling.advance(1 + ANSWER_GRACE)
    assert pulling.taken(fetch) == [b"late"]


@requirement(223, 224, 225)
@known_fault("two heartbeats missed are an alarm, or none is told at all")
@pytest.mark.parametrize("text", [HEARTBEAT, None])
def test_heartbeats(text: str | None) -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1, expires=60)
    request = pulling.request()
    assert request["idle_heartbeat"] == 5_000_000_000
    for _ in range(4):
        pulling.advance(4.9)
        if text is not None:
            pulling.status(request, text)
    silent = ConsumerSilent("S", "C", 15.0)
    if text is None:
        assert isinstance(failed(fetch), ConsumerSilentError)
        assert pulling.events() == [silent]
        return
    assert not fetch.done.done
    pulling.advance(15.0)
    assert isinstance(failed(fetch), ConsumerSilentError)
    assert pulling.events() == [silent]


@requirement(224)
def test_the_alarm_can_be_moved() -> None:
    pulling = Pulling()
    consumer = pulling.js.pull_consumer(pulling.info_of_consumer, JSMsg, heartbeats_missed=2)
    fetch = consumer.fetch(1, now=pulling.now, expires=30, heartbeat=1)
    pulling.advance(1.9)
    assert not fetch.done.done
    pulling.advance(0.1)
    assert isinstance(failed(fetch), ConsumerSilentError)


@requirement(226)
@promise("Three heartbeats missed are the event `ConsumerSilent`")
@known_fault("a missed heartbeat is told although the link was down")
def test_no_alarm_without_a_link() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1, expires=60)
    pulling.lose()
    pulling.advance(50)
    assert pulling.events()
    assert not fetch.done.done
    pulling.advance(11)
    assert isinstance(failed(fetch), ConnectionLostError)


@promise("A fetch that finds nothing is an empty list.")
@promise("A fetch waits through elections and lost links, and so does `messages()`.")
@known_fault("a fetch hangs, or times out with messages waiting")
def test_a_fetch_survives_its_link() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    first = pulling.request()
    pulling.numbered(1)
    pulling.lose()
    pulling.advance(1)
    other = pulling.no_wait(1)
    assert pulling.consumer.under_way == 0
    pulling.connect()
    again, not_waiting = pulling.requests()
    assert (again["batch"], again["expires"]) == (2, 4_000_000_000)
    assert again["reply"] != first["reply"]
    assert not_waiting["no_wait"]
    pulling.status(first, DELETED)  # stale: it changes nothing
    pulling.numbered(2)
    assert pulling.taken(fetch) == [b"1", b"2", b"3"]
    pulling.status(not_waiting, NO_MESSAGES)
    assert pulling.taken(other) == []


def test_a_fetch_whose_time_is_over_when_the_link_is_back() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1)
    pulling.request()
    pulling.lose()
    pulling.now += 5.5
    pulling.connect()
    assert pulling.requests() == []
    pulling.advance(0)
    assert isinstance(failed(fetch), TimeoutError)


def test_a_fetch_without_a_link_waits_for_no_answer() -> None:
    pulling = Pulling()
    before = pulling.fetch(1)
    pulling.advance(1)
    pulling.lose()
    fetch = pulling.fetch(1)
    pulling.advance(3.9)
    assert not before.done.done
    assert pulling.consumer.deadline() == pytest.approx(pulling.now + 0.1)
    pulling.advance(0.1)
    assert isinstance(failed(before), ConnectionLostError)
    assert not fetch.done.done
    pulling.advance(1)
    assert isinstance(failed(fetch), ConnectionLostError)


def test_one_that_does_not_wait_ends_without_a_link() -> None:
    pulling = Pulling()
    pulling.lose()
    fetch = pulling.no_wait(1, patience=1)
    pulling.advance(1)
    assert isinstance(failed(fetch), ConnectionLostError)


def test_fetches_end_with_the_session() -> None:
    pulling = Pulling()
    some, none = pulling.fetch(3), pulling.fetch(1)
    pulling.numbered(1)
    pulling.session.close(pulling.now)
    assert pulling.taken(some) == [b"1"]
    assert isinstance(failed(none), ConnectionClosedError)
    with pytest.raises(ConnectionClosedError):
        pulling.fetch(1)


@known_fault("a fetch hangs, or times out with messages waiting")
def test_the_server_says_nothing_of_a_full_max_ack_pending() -> None:
    pulling = Pulling()
    fetch = pulling.no_wait(1, patience=2)
    old = pulling.request()
    pulling.advance(2)
    assert pulling.taken(fetch) == []
    # The request that would wait for ever is forgotten: nobody listens to its inbox any more.
    assert pulling.requests() == []
    assert not [pattern for pattern in pulling.subs.values() if old["reply"].startswith(pattern[:-1])]
    assert len(pulling.subs) == 1
    fetch = pulling.no_wait(1)
    pulling.numbered(1)
    assert pulling.taken(fetch) == [b"1"]


def test_one_that_does_not_wait_beside_another_fetch_only_ends() -> None:
    pulling = Pulling()
    other, fetch = pulling.fetch(1, expires=9), pulling.no_wait(1, patience=2)
    subs = dict(pulling.subs)
    pulling.advance(2)
    assert pulling.taken(fetch) == []
    assert pulling.subs == subs
    pulling.numbered(1)
    assert pulling.taken(other) == [b"1"]


def test_max_bytes() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(9, max_bytes=300)
    request = pulling.request()
    assert request["max_bytes"] == 300
    pulling.messages(b"x" * 100)
    pulling.status(request, TOO_BIG % (8, 160))
    assert pulling.taken(fetch) == [b"x" * 100]


def test_max_bytes_after_a_refusal() -> None:
    pulling = Pulling()
    pulling.fetch(9, max_bytes=300)
    request = pulling.request()
    pulling.messages(b"x" * 100)
    pulling.status(request, LEADER)
    pulling.advance(0.05)
    assert pulling.request()["max_bytes"] == 300 - 100 - len(b"s.a") - len("$JS.ACK.S.C.1.1.1.1000.0")


# -- nothing is lost ---------------------------------------------------------------------------------------------------


@known_fault("cancelling a fetch, or a wait for a message, loses messages")
def test_what_comes_for_a_fetch_that_was_given_up_is_for_the_next() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(3)
    pulling.numbered(1)
    pulling.consumer.give_back(fetch, pulling.now)
    pulling.numbered(1)
    assert (pulling.consumer.pending_msgs, pulling.consumer.pending_bytes, pulling.consumer.under_way) == (2, 2, 1)
    fetch = pulling.fetch(2)
    assert pulling.taken(fetch) == [b"1", b"2"]
    assert pulling.consumer.pending_bytes == 0


def test_a_fetch_that_was_done_can_be_given_back() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(2)
    pulling.numbered(2)
    pulling.consumer.give_back(fetch, pulling.now)
    assert pulling.taken(pulling.fetch(1)) == [b"1"]
    assert pulling.taken(pulling.fetch(1)) == [b"2"]


def test_what_is_given_back_goes_to_those_who_wait() -> None:
    pulling = Pulling()
    first, second, third = pulling.fetch(3), pulling.fetch(1), pulling.fetch(9)
    pulling.numbered(2)
    pulling.consumer.give_back(first, pulling.now)
    assert pulling.taken(second) == [b"1"]
    pulling.consumer.give_back(third, pulling.now)
    assert pulling.taken(pulling.fetch(1)) == [b"2"]


def test_a_fetch_takes_what_is_buffered_and_asks_for_the_rest() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2), pulling.now)
    pulling.messages(b"x" * 90)
    pulling.published()
    fetch = pulling.fetch(3)
    assert pulling.request()["batch"] == 2
    pulling.messages(b"y", b"z")
    assert pulling.taken(fetch) == [b"x" * 90, b"y", b"z"]


def test_a_message_that_does_not_fit_waits_for_the_next_fetch() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2), pulling.now)
    pulling.messages(b"x", b"y" * 500)
    pulling.published()
    assert pulling.taken(pulling.fetch(2, max_bytes=100)) == [b"x"]
    fetch = pulling.fetch(2, max_bytes=100)
    pulling.status(pulling.request(), TOO_BIG % (2, 100))
    assert isinstance(failed(fetch), MessageSizeError)
    assert pulling.taken(pulling.fetch(1)) == [b"y" * 500]


@requirement(242)
@promise("A subscriber that pulls gets no more than it asked for.")
def test_requests_are_served_in_turn_and_only_their_sum_counts() -> None:
    pulling = Pulling()
    first, second = pulling.fetch(4), pulling.fetch(4)
    one, two = pulling.requests()
    pulling.numbered(6)
    assert pulling.taken(first) == [b"1", b"2", b"3", b"4"]
    assert pulling.consumer.under_way == 2
    pulling.status(one, TIMED_OUT % (1, 0))
    assert pulling.consumer.under_way == 1
    pulling.status(two, TIMED_OUT % (1, 0))
    assert pulling.taken(second) == [b"5", b"6"]
    assert pulling.consumer.under_way == 0


def test_a_status_without_counts_leaves_no_more_than_the_others_asked_for() -> None:
    pulling = Pulling()
    pulling.fetch(4), pulling.no_wait(2)
    waiting, _ = pulling.requests()
    pulling.status(waiting, NO_MESSAGES)
    assert pulling.consumer.under_way == 2


# -- the stream of messages --------------------------------------------------------------------------------------------


def streaming(**keywords: Any) -> tuple[Pulling, dict[str, Any]]:
    config = keywords.pop("config", {})
    pulling = Pulling(**config)
    pulling.consumer.start(now=pulling.now, **keywords)
    return pulling, pulling.request()


def test_a_stream_of_messages_and_a_fetch_do_not_mix() -> None:
    pulling = Pulling()
    pulling.fetch(1)
    with pytest.raises(LocalProtocolError, match="a fetch is under way"):
        pulling.consumer.start(now=pulling.now)


def test_a_request_without_an_end_of_its_own_has_the_default() -> None:
    _, request = streaming(expires=None)
    assert request["expires"] == 30_000_000_000


@promise("for ever: it asks for more when half of what it asked for has come")
def test_a_stream_of_messages_asks_again_at_its_threshold() -> None:
    pulling, request = streaming(max_msgs=10, threshold=4)
    reply = request.pop("reply")
    assert request == {"batch": 10, "expires": 30_000_000_000, "idle_heartbeat": 5_000_000_000}
    pulling.numbered(10)
    assert pulling.popped(5) == [b"1", b"2", b"3", b"4", b"5"]
    assert pulling.requests() == []
    assert pulling.popped(1) == [b"6"]
    assert pulling.request()["batch"] == 6
    pulling.numbered(3)
    assert pulling.popped() == [b"7", b"8", b"9", b"10", b"11", b"12", b"13"]
    assert pulling.request()["batch"] == 7
    assert pulling.consumer.under_way == 10
    pulling.status(reply, TIMED_OUT % (1, 0))
    assert pulling.requests() == []


@promise("for ever: it asks for more when half of what it asked for has come")
@known_fault("requests are made by a loop that polls")
def test_a_stream_of_messages_waits_without_polling() -> None:
    pulling, request = streaming(max_msgs=10)
    readable = pulling.consumer.readable()
    assert pulling.consumer.readable() is readable
    pulling.advance(4)
    assert pulling.requests() == []
    pulling.numbered(1)
    assert readable in pulling.completed
    assert pulling.consumer.readable().done
    for _ in range(6):
        pulling.status(request, HEARTBEAT)
        pulling.advance(5)
    pulling.status(request, TIMED_OUT % (9, 0))
    assert pulling.request()["batch"] == 9


def test_a_stream_of_messages_counts_bytes() -> None:
    pulling, request = streaming(max_bytes=1_000)
    assert (request["batch"], request["max_bytes"]) == (1_000_000, 1_000)
    pulling.messages(b"x" * 400, b"x" * 400)
    pulling.status(request, TOO_BIG % (999_998, 1_000 - 2 * 427))
    assert pulling.requests() == []
    assert pulling.popped(1) == [b"x" * 400]
    assert pulling.request()["max_bytes"] == 600


def test_a_message_that_needs_all_the_room() -> None:
    pulling, request = streaming(max_bytes=1_000)
    pulling.messages(b"x" * 600)
    pulling.status(request, TOO_BIG % (999_999, 373))
    assert pulling.popped() == [b"x" * 600]
    request = pulling.request()
    assert request["max_bytes"] == 1_000
    pulling.messages(b"x" * 300)
    pulling.status(request, TOO_BIG % (999_999, 673))
    request = pulling.request()
    assert request["max_bytes"] == 700
    pulling.status(request, TOO_BIG % (1_000_000, 700))
    assert pulling.requests() == []
    assert pulling.popped() == [b"x" * 300]
    request = pulling.request()
    assert request["max_bytes"] == 1_000
    pulling.status(request, TOO_BIG % (1_000_000, 1_000))
    with pytest.raises(MessageSizeError):
        pulling.consumer.readable().result()


def test_a_stream_of_messages_keeps_to_the_limits_of_its_consumer() -> None:
    limits = {"max_batch": 7, "max_expires": 4, "max_bytes": 900}
    _, request = streaming(max_msgs=10, config=limits)
    assert (request["batch"], request["expires"], request["idle_heartbeat"]) == (7, 4_000_000_000, 2_000_000_000)
    _, request = streaming(max_bytes=2_000, config=limits)
    assert (request["batch"], request["max_bytes"]) == (7, 900)


@known_fault("most conflicts end an iteration silently")
@pytest.mark.parametrize("text", [DELETED, "400 Bad Request - json", "499 New", "409 Consumer is push based"])
def test_an_error_ends_a_stream_of_messages_after_what_came(text: str) -> None:
    pulling, request = streaming(max_msgs=10)
    pulling.numbered(2)
    pulling.status(request, text)
    assert pulling.consumer.readable().done
    assert pulling.popped() == [b"1", b"2"]
    with pytest.raises((StatusError, APIError)):
        pulling.consumer.readable().result()
    assert pulling.requests() == []
    pulling.consumer.start(now=pulling.now, max_msgs=10)  # it may be there again
    assert pulling.request()["batch"] == 10
    assert not pulling.consumer.readable().done


@promise("A fetch waits through elections and lost links, and so does `messages()`.")
@pytest.mark.parametrize("text", [LEADER, "409 Server Shutdown", "503", "409 Exceeded MaxWaiting"])
def test_a_stream_of_messages_sits_out_an_election(text: str) -> None:
    pulling, request = streaming(max_msgs=10)
    readable = pulling.consumer.readable()
    started = pulling.now
    while not readable.done:
        pulling.status(request, text)
        pulling.advance(1)
        requests = pulling.requests()
        if not requests:
            break
        (request,) = requests
    assert PULL_GIVE_UP <= pulling.now - started <= PULL_GIVE_UP + 1
    assert readable.error is not None


def looks(pulling: Pulling) -> list[bytes]:
    """Where answers go to the questions for the consumer that were sent since the last call."""
    return [pub.reply or b"" for pub in pulling.published() if pub.subject == b"$JS.API.CONSUMER.INFO.S.C"]


GONE = b'{"error":{"code":404,"err_code":10014,"description":"consumer not found"}}'
THERE = b'{"stream_name":"S","name":"C","config":{}}'


@known_fault("whoever waits for a consumer that is not there waits for ever, or for long")
def test_a_stream_of_messages_whose_consumer_is_not_there_ends_at_once() -> None:
    pulling, request = streaming(max_msgs=10)
    readable = pulling.consumer.readable()
    pulling.status(request, "503")
    (look,) = looks(pulling)
    assert not readable.done  # it may be an election
    pulling.deliver(look, GONE)
    assert isinstance(readable.error, ConsumerNotFoundError)
    pulling.advance(60)
    assert pulling.requests() == []


@pytest.mark.parametrize("answer", [THERE, None])
def test_a_stream_of_messages_waits_for_a_consumer_that_is_there(answer: bytes | None) -> None:
    pulling, request = streaming(max_msgs=10)
    pulling.status(request, "503")
    (look,) = looks(pulling)
    pulling.advance(0.05)
    request = pulling.request()
    pulling.status(request, "503")
    assert looks(pulling) == []  # one question at a time
    if answer is None:
        pulling.advance(10)
    else:
        pulling.deliver(look, answer)
        pulling.advance(0.1)
    (request,) = pulling.requests()
    pulling.status(request, "503")
    assert len(looks(pulling)) == 1
    assert not pulling.consumer.readable().done


@promise("It ends at once, with `ConsumerDeletedError` or another error of the server")
@known_fault("a fetch from a consumer that is not there fails without saying why")
def test_a_fetch_whose_consumer_goes_during_an_election_ends_at_once() -> None:
    pulling = Pulling()
    fetch = pulling.fetch(1, 60)
    pulling.status(pulling.request(), LEADER)
    pulling.advance(0.05)
    pulling.status(pulling.request(), "503")
    (look,) = looks(pulling)
    pulling.deliver(look, GONE)
    assert isinstance(failed(fetch), ConsumerNotFoundError)


@promise("0: no heartbeats, and a request that was lost is made again a second after it must have expired.")
@known_fault("a request that was lost is never made again")
def test_a_request_that_was_lost_is_made_again_when_it_must_have_ended() -> None:
    pulling, first = streaming(max_msgs=10, heartbeat=0, expires=20)
    assert "idle_heartbeat" not in first
    pulling.numbered(6)
    assert len(pulling.popped()) == 6
    second = pulling.request()
    assert second["batch"] == 6
    pulling.advance(5)
    pulling.status(first, TIMED_OUT % (4, 0))
    pulling.numbered(1)  # of the second request, of which nothing is heard any more
    assert pulling.popped() == [b"7"]
    third = pulling.request()
    assert third["batch"] == 5
    pulling.advance(15.9)
    assert pulling.requests() == []
    pulling.advance(0.1)  # a second after the end of the second request
    assert pulling.request()["batch"] == 5
    assert pulling.consumer.under_way == 10
    pulling.advance(5)  # and of the third
    assert pulling.request()["batch"] == 5
    assert pulling.events() == []


def test_a_long_request_that_was_given_up_hides_no_lost_one() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2, 300), pulling.now)
    pulling.published()
    pulling.consumer.start(now=pulling.now, max_msgs=10, heartbeat=0, expires=20)
    assert pulling.request()["batch"] == 8
    pulling.advance(20.9)
    assert pulling.requests() == []
    pulling.advance(0.1)
    assert pulling.request()["batch"] == 8
    pulling.consumer.stop(pulling.now)
    assert pulling.consumer.deadline() is None


def test_a_request_that_was_given_up_and_lost_does_not_hold_up_the_stream_of_messages() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(20, 5), pulling.now)
    pulling.published()
    pulling.consumer.start(now=pulling.now, max_msgs=10, heartbeat=0)
    assert pulling.requests() == []
    pulling.advance(6)
    assert pulling.request()["batch"] == 10


def test_refusals_long_apart_do_not_add_up() -> None:
    pulling, request = streaming(max_msgs=1, threshold=0)
    for _ in range(3):
        pulling.status(request, LEADER)
        pulling.advance(0.05)
        for _ in range(60):  # all are served whole, so no status says that it is well again
            pulling.request()
            pulling.numbered(1)
            assert len(pulling.popped()) == 1
            pulling.advance(1)
        (request,) = pulling.requests()
    assert not pulling.consumer.readable().done


def test_a_refusal_is_forgotten_when_something_comes() -> None:
    pulling, request = streaming(max_msgs=10)
    for _ in range(30):
        pulling.status(request, LEADER)
        pulling.advance(1)
        request = pulling.request()
        pulling.numbered(1)
        pulling.status(request, TIMED_OUT % (9, 0))
        assert pulling.popped()
        (request, *_) = pulling.requests()
    assert not pulling.consumer.readable().done


@requirement(225)
@known_fault("a request that was lost is never made again")
def test_a_silent_consumer_is_asked_again() -> None:
    pulling, request = streaming(max_msgs=10, heartbeat=2)
    pulling.advance(6)
    assert pulling.events() == [ConsumerSilent("S", "C", 6.0)]
    assert pulling.request()["batch"] == 10
    pulling.advance(6)
    assert pulling.events() == []
    request = pulling.request()
    pulling.status(request, HEARTBEAT)
    pulling.advance(12)
    assert len(pulling.events()) == 1
    assert len(pulling.requests()) == 2


def test_no_alarm_while_nothing_is_asked_for() -> None:
    pulling, _ = streaming(max_msgs=2, heartbeat=1)
    pulling.numbered(2)
    pulling.advance(60)
    assert pulling.events() == []
    assert pulling.popped() == [b"1", b"2"]
    pulling.advance(2.9)
    assert pulling.events() == []


@promise("A fetch waits through elections and lost links, and so does `messages()`.")
@known_fault("subscriptions, those for acknowledgements too, are dead after a reconnect")
def test_a_stream_of_messages_survives_its_link() -> None:
    pulling, _ = streaming(max_msgs=10)
    pulling.numbered(3)
    pulling.lose()
    assert pulling.popped() == [b"1", b"2", b"3"]
    pulling.advance(1)
    pulling.connect()
    assert pulling.request()["batch"] == 10
    pulling.session.close(pulling.now)
    with pytest.raises(ConnectionClosedError):
        pulling.consumer.readable().result()


def test_a_stream_of_messages_is_stopped() -> None:
    pulling, request = streaming(max_msgs=10)
    readable = pulling.consumer.readable()
    with pytest.raises(LocalProtocolError):
        pulling.fetch(1)
    with pytest.raises(LocalProtocolError):
        pulling.no_wait(1)
    with pytest.raises(LocalProtocolError):
        pulling.consumer.start(now=pulling.now)
    pulling.consumer.stop(pulling.now)
    assert isinstance(readable.error, ConnectionClosedError)
    pulling.numbered(1)
    assert pulling.taken(pulling.fetch(1)) == [b"1"]
    pulling.status(request, TIMED_OUT % (9, 0))
    assert pulling.requests() == []
    assert pulling.consumer.under_way == 0


def test_messages_that_nobody_looked_at_are_put_back() -> None:
    pulling, _ = streaming(max_msgs=10)
    pulling.numbered(3)
    taken = pulling.consumer.pop_many(3, pulling.now)
    pulling.consumer.stop(pulling.now)
    pulling.consumer.put_back(taken[1:])
    assert pulling.consumer.pending_bytes == 2
    assert pulling.taken(pulling.fetch(2)) == [b"2", b"3"]


def test_a_request_that_ends_lets_the_stream_of_messages_ask() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(5), pulling.now)
    old = pulling.request()
    pulling.consumer.start(now=pulling.now, max_msgs=5)
    assert pulling.requests() == []
    pulling.status(old, TIMED_OUT % (5, 0))
    assert pulling.request()["batch"] == 5


def test_a_push_consumer_is_not_pulled_from() -> None:
    with pytest.raises(PushBasedError):
        Pulling(deliver_subject="to.me")


def test_a_request_of_the_stream_without_room_is_sent_later() -> None:
    pulling, _ = streaming(max_msgs=2)
    pulling.numbered(2)
    pulling.session._write_buffer.size, pending = 10**9, pulling.session._write_buffer.size
    pulling.popped()
    pulling.session._write_buffer.size = pending
    assert pulling.requests() == []
    pulling.advance(0.05)
    assert pulling.request()["batch"] == 2


def test_the_ledger_is_bounded() -> None:
    pulling, _ = streaming(max_msgs=10, threshold=9, heartbeat=0)
    for _ in range(2 * MAX_REQUESTS):
        pulling.numbered(2)
        pulling.popped()
    assert len(pulling.consumer._requests) <= MAX_REQUESTS
    assert pulling.consumer.under_way == 10
    pulling.now += 40
    pulling.numbered(2)
    pulling.popped()
    assert len(pulling.consumer._requests) == 1


def test_the_ledger_of_fetches_is_bounded() -> None:
    pulling = Pulling()
    for _ in range(5):
        pulling.fetch(10)
        pulling.advance(5.0 + ANSWER_GRACE)
    assert len(pulling.consumer._requests) == 1
    assert pulling.consumer.under_way == 10


def test_a_stream_of_messages_after_a_fetch_that_was_never_answered() -> None:
    pulling = Pulling()
    pulling.fetch(500)
    pulling.advance(5.0 + ANSWER_GRACE)
    pulling.requests()
    pulling.consumer.start(now=pulling.now)
    assert pulling.request()["batch"] == 500


def test_a_stream_of_messages_after_a_fetch_that_was_given_up() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(500), pulling.now)
    pulling.requests()
    pulling.consumer.start(now=pulling.now)
    assert pulling.requests() == []  # what was asked for would fill it
    pulling.advance(20.0)
    assert pulling.requests()[0]["batch"] == 500


def test_only_the_stream_of_messages_that_was_meant_is_stopped() -> None:
    pulling = Pulling()
    first = pulling.consumer.start(now=pulling.now)
    pulling.status(pulling.request(), DELETED)
    second = pulling.consumer.start(now=pulling.now)
    pulling.consumer.stop(pulling.now, first)
    assert not pulling.consumer.readable().done
    pulling.consumer.stop(pulling.now, second)
    assert isinstance(pulling.consumer.readable().error, ConnectionClosedError)


@promise("Several workers, threads or tasks, share one subscription")
def test_a_stream_of_messages_is_shared_until_the_last_one_leaves() -> None:
    pulling, _ = streaming(max_msgs=10)
    second = pulling.consumer.start(now=pulling.now, max_msgs=10)
    third = pulling.consumer.start(now=pulling.now, max_msgs=10, threshold=5)  # what is the default
    assert pulling.requests() == []  # it is one stream
    readable = pulling.consumer.readable()
    assert not pulling.consumer.stop(pulling.now, second)
    assert readable.result() is None  # who has left is to notice
    assert not pulling.consumer.readable().done
    pulling.numbered(1)
    assert not pulling.consumer.stop(pulling.now, second)
    assert not pulling.consumer.stop(pulling.now, 1)  # nobody waits
    assert pulling.popped() == [b"1"]
    readable = pulling.consumer.readable()
    assert pulling.consumer.stop(pulling.now, third)
    assert isinstance(readable.error, ConnectionClosedError)
    pulling.consumer.start(now=pulling.now, max_msgs=10)
    pulling.consumer.start(now=pulling.now, max_msgs=10)
    assert pulling.consumer.stop(pulling.now)  # for all of them
    assert pulling.consumer.readable().error is not None


@pytest.mark.parametrize(
    "other", [{"max_msgs": 11}, {"max_bytes": 10}, {"threshold": 3}, {"expires": 9}, {"heartbeat": 1}]
)
def test_who_shares_a_stream_of_messages_wants_the_same(other: dict[str, Any]) -> None:
    pulling, _ = streaming(max_msgs=10)
    with pytest.raises(LocalProtocolError, match="with other bounds"):
        pulling.consumer.start(now=pulling.now, **({} if "max_bytes" in other else {"max_msgs": 10}) | other)
    assert pulling.consumer.stop(pulling.now, 1)  # nobody else shares it


def test_an_error_ends_the_stream_of_messages_for_all_who_share_it() -> None:
    pulling, request = streaming(max_msgs=10)
    pulling.consumer.start(now=pulling.now, max_msgs=10)
    pulling.status(request, DELETED)
    for _ in range(2):
        assert isinstance(pulling.consumer.readable().error, ConsumerDeletedError)
    third = pulling.consumer.start(now=pulling.now, max_msgs=10)
    assert not pulling.consumer.stop(pulling.now, 1)  # of the one that has ended
    assert pulling.consumer.stop(pulling.now, third)


def test_unsubscribing() -> None:
    pulling, _ = streaming(max_msgs=10)
    pulling.numbered(2)
    pulling.consumer.unsubscribe(pulling.now)
    pulling.consumer.unsubscribe(pulling.now)
    assert pulling.popped() == []
    assert pulling.requests() == []
    assert (pulling.consumer.pending_bytes, pulling.subs) == (0, {})
    with pytest.raises(ConnectionClosedError):
        pulling.consumer.readable().result()
    with pytest.raises(ConnectionClosedError):
        pulling.consumer.start(now=pulling.now)
    with pytest.raises(ConnectionClosedError):
        pulling.fetch(1)


def test_a_drained_subscription_gives_what_it_has() -> None:
    pulling = Pulling()
    pulling.consumer.give_back(pulling.fetch(2), pulling.now)
    pulling.numbered(2)
    waiting: Fetch = pulling.fetch(9)
    pulling.consumer.give_back(waiting, pulling.now)
    pulling.session.drain(pulling.now, [pulling.consumer])
    pulling.feed(PONG)
    assert pulling.subs == {}
    assert pulling.taken(pulling.fetch(5)) == [b"1", b"2"]
    with pytest.raises(ConnectionClosedError):
        pulling.fetch(1)
