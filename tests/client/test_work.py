"""Callbacks on the messages of a pull consumer: who works on what, and what becomes of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.schedule import Job
from jsproto.client.consume.work import ConsumerWork
from jsproto.errors import ConnectionClosedError, ConsumerDeletedError, LocalProtocolError, OutboundBufferLimitError
from jsproto.events import CallbackFailed, SubscriptionFailed
from jsproto.ticket import Ticket
from jsproto.wire.encoder import PONG
from tests.client.pulling import Pulling
from tests.marks import promise


class Working(Pulling):
    """A session whose workers the test plays."""

    def __init__(self, config: dict[str, Any] | None = None, **keywords: Any) -> None:
        super().__init__(**(config or {}))
        self.keywords = keywords
        self.work = self.begin()

    def begin(self) -> ConsumerWork[JSMsg]:
        config = self.info_of_consumer.config
        return self.js.consume(self.consumer, config, now=self.now, **self.keywords)

    def take(self) -> Job[JSMsg] | Ticket[None] | None:
        found = self.work.take(self.now)
        self.drain()
        return found

    def job(self) -> Job[JSMsg]:
        found = self.take()
        assert isinstance(found, Job)
        return found

    def idle(self) -> Ticket[None]:
        found = self.take()
        assert isinstance(found, Ticket)
        assert not found.done
        return found

    def finish(self, job: Job[JSMsg], error: BaseException | None = None) -> None:
        self.work.finish(job, self.now, error)
        self.drain()

    def ponged(self) -> None:
        """The server answers the PING that ends the interest."""
        self.session.flush()
        self.drain()
        self.feed(PONG)


def key_of(message: JSMsg) -> bytes:
    return message.data[:1]


# -- taking ------------------------------------------------------------------------------------------------------------


@promise("four for each callback unless given, and 16 at least.")
def test_a_message_is_acknowledged_when_its_callback_has_returned() -> None:
    working = Working(concurrency=1)
    assert working.request()["batch"] == 16
    waits = working.idle()
    working.messages(b"1")
    assert waits.done
    job = working.job()
    assert (job.message.data, working.acks(), working.work.running) == (b"1", [], 1)
    working.finish(job)
    assert working.acks() == [(b"1", b"+ACK")]
    assert (working.work.running, working.work.finished, working.work.failed) == (0, 1, 0)
    assert job.message.settled


def test_the_next_job_is_taken_with_the_end_of_one() -> None:
    working = Working(concurrency=1)
    working.messages(b"1", b"2")
    found = working.work.finish_and_take(working.job(), working.now)
    assert isinstance(found, Job)
    assert (found.message.data, working.work.finished, working.work.running) == (b"2", 1, 1)
    assert working.acks() == [(b"1", b"+ACK")]
    found = working.work.finish_and_take(found, working.now, LookupError())
    assert isinstance(found, Ticket)
    assert (working.work.finished, working.work.failed) == (1, 1)
    assert not working.session.has_news
    working.messages(b"3")
    assert found.done


@promise("| returns | it is acknowledged, unless the callback has settled it |")
def test_what_the_callback_has_settled_itself_is_left_alone() -> None:
    working = Working()
    working.messages(b"1", b"2")
    job = working.job()
    job.message.term("no")
    working.finish(job)
    assert working.acks() == [(b"1", b"+TERM no")]
    job = working.job()
    job.message.nak(5)
    working.finish(job, LookupError())
    assert working.acks() == [(b"2", b'-NAK {"delay":5000000000}')]
    assert (working.work.finished, working.work.failed) == (1, 1)


def test_workers_begin_as_there_is_work_and_no_more_than_wanted() -> None:
    working = Working(concurrency=3)
    working.messages(b"1", b"2", b"3", b"4")
    assert [working.job().brings_worker for _ in range(3)] == [True, True, False]
    assert working.work.workers == 3
    working.idle()  # no slot is free: it does not watch
    assert working.work.pending_msgs == 1


def test_one_worker_watches_and_wakes_the_next() -> None:
    working = Working(concurrency=2)
    watch = working.idle()
    working.work.workers += 1
    other = working.idle()
    working.messages(b"1")
    assert (watch.done, other.done) == (True, False)
    assert working.job().brings_worker is False
    assert other.done  # it watches from now on
    watch = working.idle()
    working.messages(b"2")
    assert watch.done


def test_a_worker_that_leaves_hands_over() -> None:
    working = Working(concurrency=3)
    working.work.workers = 3
    watch, one, two = working.idle(), working.idle(), working.idle()
    working.work.leave(one, working.now)
    working.work.leave(watch, working.now)
    working.drain()
    assert (one.done, two.done) == (False, True)
    watch = working.idle()
    working.messages(b"1")
    assert watch.done


def test_the_last_worker_that_leaves_ends_the_work() -> None:
    working = Working()
    working.messages(b"1", b"2")
    job = working.job()
    working.work.abandon(job, working.now)
    working.work.leave(None, working.now)
    working.ponged()
    assert working.work.closed.done
    assert working.acks() == [(b"2", b"-NAK")]


# -- failures ----------------------------------------------------------------------------------------------------------


@promise("| raises | it comes again, after `retry_delay`")
@promise("| raises an exception of `term_on` | it does not come again.")
@pytest.mark.parametrize(
    ("config", "keywords", "payload"),
    [
        ({}, {}, b'-NAK {"delay":1000000000}'),
        ({"backoff": [3.0, 9.0]}, {}, b'-NAK {"delay":3000000000}'),
        ({"backoff": [3.0, 9.0]}, {"retry_delay": 2.0}, b'-NAK {"delay":2000000000}'),
        ({}, {"retry_delay": 0.0}, b"-NAK"),
        ({}, {"term_on": LookupError}, b"+TERM KeyError: 'a b'"),
        ({}, {"term_on": (OSError, KeyError)}, b"+TERM KeyError: 'a b'"),
        ({}, {"term_on": OSError}, b'-NAK {"delay":1000000000}'),
    ],
)
def test_what_a_callback_raised_from_comes_again_or_not(
    config: dict[str, Any], keywords: dict[str, Any], payload: bytes
) -> None:
    working = Working(config, **keywords)
    working.messages(b"1")
    working.finish(working.job(), KeyError("a b"))
    assert working.acks() == [(b"1", payload)]
    assert (working.work.finished, working.work.failed) == (0, 1)


@promise("| raises | it comes again, after `retry_delay`")
def test_the_backoff_follows_the_deliveries() -> None:
    working = Working({"backoff": [3.0, 9.0]})
    for delivered, delay in ((2, 9), (5, 9)):
        working.messages(b"1", reply=b"$JS.ACK.S.C.%d.1.%d.1.0" % (delivered, delivered))
        working.finish(working.job(), KeyError())
        assert working.acks() == [(b"%d" % delivered, b'-NAK {"delay":%d000000000}' % delay)]


def test_a_reason_is_one_short_line() -> None:
    working = Working(term_on=ValueError)
    working.messages(b"1")
    working.finish(working.job(), ValueError("a\nb\udc80" + "c" * 999))
    ((_, payload),) = working.acks()
    assert payload == b"+TERM ValueError: a b?" + b"c" * (200 - len("ValueError: a b?"))


def test_a_message_that_cannot_be_acknowledged_is_given_up() -> None:
    working = Working()
    working.messages(b"1")
    job = working.job()
    working.session.close(working.now)
    with pytest.raises(ConnectionClosedError):
        working.finish(job)
    assert working.work.finished == 0
    working.work.abandon(job, working.now)
    assert working.work.closed.done
    assert working.take() is None


def test_without_room_nothing_is_changed() -> None:
    working = Working()
    working.messages(b"1")
    job = working.job()
    for size in (100_000, 1_000, 0):
        with suppress(OutboundBufferLimitError):
            while True:
                working.session.publish_message("a", b"x" * size)
    with pytest.raises(OutboundBufferLimitError):
        working.work.finish(job, working.now)
    assert (working.work.running, working.work.finished, job.message.settled) == (1, 0, False)


def test_a_key_that_cannot_be_one_is_a_failure() -> None:
    events = []
    keys: tuple[Any, ...] = (lambda message: [], lambda message: message.nothing)
    for key in keys:
        working = Working(key=key)
        working.messages(b"1")
        working.idle()
        assert working.acks() == [(b"1", b'-NAK {"delay":1000000000}')]
        assert working.work.failed == 1
        events += working.events()
    assert [type(event) for event in events] == [CallbackFailed, CallbackFailed]


def test_a_reply_subject_that_says_nothing_is_a_failure() -> None:
    working = Working()
    working.messages(b"1", reply=b"$JS.ACK.S.C.x.y.z.1.0")
    working.idle()
    assert working.work.failed == 1
    assert working.acks() == []  # nobody knows how often it was delivered


# -- keys --------------------------------------------------------------------------------------------------------------


def test_messages_of_a_key_follow_each_other() -> None:
    working = Working(concurrency=3, key=key_of)
    working.messages(b"a1", b"a2", b"b1", b"a3")
    one, other = working.job(), working.job()
    assert (one.message.data, other.message.data) == (b"a1", b"b1")
    working.idle()
    assert working.work.pending_msgs == 2
    working.finish(one)
    assert working.job().message.data == b"a2"


def test_a_key_waits_for_what_is_asked_for_again() -> None:
    working = Working({"ack_wait": 10.0}, key=key_of, retry_delay=2.0, concurrency=2)
    working.messages(b"a1", b"a2")
    working.finish(working.job(), KeyError())
    watch = working.idle()
    working.messages(b"a1", reply=b"$JS.ACK.S.C.2.1.3.1.0")
    assert watch.done
    again = working.job()
    assert again.message.data == b"a1"
    working.finish(again)
    assert working.job().message.data == b"a2"


@promise("Such a key waits for the delay and another `ack_wait`.")
def test_a_key_goes_on_when_the_message_does_not_come_again() -> None:
    """Another client has got it, for example."""
    working = Working({"ack_wait": 10.0}, key=key_of, retry_delay=2.0)
    working.messages(b"a1", b"a2")
    working.finish(working.job(), KeyError())
    watch = working.idle()
    working.advance(11.9)
    assert not watch.done
    working.advance(0.2)
    assert watch.done
    assert working.job().message.data == b"a2"


def test_a_nak_of_the_callbacks_own_counts_as_one() -> None:
    working = Working({"ack_wait": 10.0}, key=key_of)
    working.messages(b"a1", b"a2")
    job = working.job()
    job.message.nak()
    working.finish(job)
    working.idle()


@promise("| is cancelled | it is not acknowledged")
def test_a_key_waits_for_what_was_cancelled() -> None:
    working = Working({"ack_wait": 10.0}, key=key_of)
    working.messages(b"a1", b"a2")
    working.work.abandon(working.job(), working.now)
    watch = working.idle()
    assert working.acks() == []
    working.advance(20.1)
    assert watch.done


def test_a_key_does_not_wait_for_what_the_server_gives_up() -> None:
    working = Working({"max_deliver": 1}, key=key_of)
    working.messages(b"a1", b"a2", b"a3")
    working.finish(working.job(), KeyError())
    job = working.job()
    assert job.message.data == b"a2"
    job.message.term()
    working.work.abandon(job, working.now)
    assert working.job().message.data == b"a3"


def test_timers_wake_an_idle_worker() -> None:
    working = Working({"ack_wait": 10.0}, key=key_of, concurrency=2)
    working.messages(b"a1", b"a2")
    job = working.job()
    working.finish(job, KeyError())
    watch, other = working.idle(), working.idle()
    working.advance(30)
    assert other.done
    assert working.job().message.data == b"a2"
    assert not watch.done


def test_jobs_of_several_keys_that_go_on_at_once_get_all_workers() -> None:
    working = Working({"ack_wait": 10.0}, key=key_of, concurrency=2)
    working.messages(b"a1", b"a2", b"b1", b"b2")
    for job in (working.job(), working.job()):
        working.finish(job, KeyError())
    watch, other = working.idle(), working.idle()
    working.advance(30)
    assert (watch.done, other.done) == (False, True)
    working.job()
    working.drain()
    assert watch.done
    working.job()


@promise("As many again may wait for their keys.")
def test_only_so_many_messages_wait_for_their_keys() -> None:
    working = Working(key=key_of, max_msgs=4, concurrency=2)
    working.messages(*[b"a"] * 4)
    job = working.job()
    working.idle()
    working.messages(*[b"a"] * 4)
    working.idle()
    assert (working.work.pending_msgs, working.consumer.pending_msgs) == (7, 3)
    working.finish(job)
    working.job()
    working.idle()
    assert working.consumer.pending_msgs == 2


def test_what_waits_does_not_keep_off_a_message_that_comes_again() -> None:
    """With a full buffer no request is open, so the server could not deliver it."""
    working = Working({"ack_wait": 30.0}, key=key_of, max_msgs=4, retry_delay=2.0)
    working.messages(b"a")
    working.finish(working.job(), KeyError())
    waits = working.idle()
    while working.consumer.under_way:
        working.messages(b"a")
        waits = working.idle() if waits.done else waits
    assert (working.work.pending_msgs, working.consumer.under_way) == (7, 0)
    working.advance(2.0)
    assert not waits.done
    working.advance(0.1)
    assert waits.done
    working.idle()
    assert working.consumer.under_way
    working.messages(b"a", reply=b"$JS.ACK.S.C.2.1.99.1.0")
    assert working.job().seq == 1


# -- in progress -------------------------------------------------------------------------------------------------------


def test_work_in_progress_is_reported_until_it_ends() -> None:
    working = Working({"ack_wait": 9.0}, working=True, key=key_of)
    working.messages(b"a1", b"a2")
    job = working.job()
    working.advance(0)
    assert working.acks() == [(b"1", b"+WPI")]
    working.advance(3.0)
    assert working.acks() == [(b"1", b"+WPI")]
    working.finish(job)
    working.acks()
    working.advance(9.0)
    assert working.acks() == []


def test_a_message_without_acknowledgement_is_not_in_progress() -> None:
    working = Working({"ack_policy": "none"}, working=True)
    working.messages(b"a1")
    job = working.job()
    working.advance(9.0)
    working.finish(job)
    working.messages(b"a2")
    working.finish(working.job(), KeyError())
    working.messages(b"a3")
    working.work.stop(working.now)
    assert working.acks() == []


# -- the end -----------------------------------------------------------------------------------------------------------


@promise("given back by a nak, so that another client gets them at once.")
def test_stop_waits_for_what_is_under_way_and_gives_back_the_rest() -> None:
    working = Working(concurrency=2)
    working.messages(b"1", b"2")
    job = working.job()
    working.work.stop(working.now)
    assert working.acks() == [(b"2", b"-NAK")]
    working.messages(b"3")  # it was under way
    working.ponged()
    assert working.acks() == [(b"3", b"-NAK")]
    assert not working.work.closed.done
    waits = working.idle()
    working.finish(job)
    assert waits.done
    assert working.work.closed in working.completed
    assert working.take() is None
    assert (working.work.given_back, working.work.pending_msgs, working.work.error) == (2, 0, None)
    working.work.stop(working.now)
    working.work.drain(working.now)


def test_with_keys_nothing_is_given_back_before_the_last_callback_has_ended() -> None:
    working = Working(key=key_of)
    working.messages(b"a1", b"a2", b"b1")
    job = working.job()
    working.work.stop(working.now)
    working.ponged()
    assert working.acks() == []
    working.finish(job)
    assert working.acks() == [(b"1", b"+ACK"), (b"2", b"-NAK"), (b"3", b"-NAK")]
    assert working.work.closed.done


@promise("Afterwards the subscription can be used again.")
def test_the_consumer_can_be_used_again() -> None:
    working = Working()
    working.work.stop(working.now)
    working.ponged()
    assert working.work.closed.done
    working.work = working.begin()
    working.messages(b"1")
    assert working.job().message.data == b"1"


@promise("| `work.drain()` | worked off | waited for |")
def test_drain_works_off_what_has_come() -> None:
    working = Working()
    working.messages(b"1", b"2")
    job = working.job()
    working.work.drain(working.now)
    working.messages(b"3")
    working.ponged()
    for data in (b"2", b"3"):
        working.finish(job)
        job = working.job()
        assert job.message.data == data
    working.finish(job)
    assert working.work.closed.done
    assert working.work.given_back == 0


def test_a_drain_can_become_a_stop() -> None:
    working = Working()
    working.messages(b"1", b"2")
    job = working.job()
    working.work.drain(working.now)
    working.ponged()
    working.work.stop(working.now)
    working.finish(job)
    assert working.acks() == [(b"2", b"-NAK"), (b"1", b"+ACK")]
    assert working.work.closed.done


def test_drain_gives_back_what_waits_for_a_key() -> None:
    working = Working(key=key_of)
    working.messages(b"a1", b"a2", b"b1")
    working.finish(working.job(), KeyError())
    working.work.drain(working.now)
    working.ponged()
    job = working.job()
    assert job.message.data == b"b1"
    working.acks()
    working.finish(job)
    assert working.acks() == [(b"3", b"+ACK"), (b"2", b"-NAK")]
    assert working.work.closed.done


def test_without_a_link_an_end_does_not_wait_for_one() -> None:
    working = Working()
    working.lose()
    working.work.stop(working.now)
    working.drain()
    assert working.work.closed.done


def test_a_link_that_breaks_during_the_end() -> None:
    working = Working()
    working.work.drain(working.now)
    assert not working.work.closed.done
    working.lose()
    assert working.work.closed.done


def test_the_end_of_the_subscription_ends_the_work() -> None:
    working = Working()
    watch = working.idle()
    working.consumer.unsubscribe(working.now)
    working.drain()
    assert watch.error is not None
    assert working.take() is None
    assert working.work.closed.done
    assert working.work.error is None


def test_a_drain_of_the_subscription_ends_the_work_after_the_last_message() -> None:
    working = Working(concurrency=2)
    working.messages(b"1", b"2")
    ticket = working.session.drain(working.now, [working.consumer])
    working.ponged()
    assert ticket.done
    one, two = working.job(), working.job()
    working.idle()
    working.finish(one)
    assert not working.work.closed.done
    working.finish(two)
    assert working.take() is None
    assert working.work.closed.done


def test_the_end_of_the_consumer_is_an_error() -> None:
    working = Working()
    request = working.request()
    working.idle()
    working.status(request, "409 Consumer Deleted")
    assert working.take() is None
    assert isinstance(working.work.error, ConsumerDeletedError)
    ((event),) = [each for each in working.events() if isinstance(each, SubscriptionFailed)]
    assert (event.subject, event.error) == ("S", working.work.error)


def test_the_end_of_the_consumer_lets_callbacks_end() -> None:
    working = Working(concurrency=2)
    request = working.request()
    working.messages(b"1")
    job = working.job()
    working.status(request, "409 Consumer Deleted")
    waits = working.idle()
    working.finish(job)
    assert waits.done
    assert working.take() is None


def test_a_busy_worker_that_leaves_wakes_another() -> None:
    working = Working(concurrency=2)
    working.messages(b"1")
    job = working.job()
    assert job.brings_worker
    waits = working.idle()
    working.work.abandon(job, working.now)
    working.work.leave(None, working.now)
    assert (working.work.workers, waits.done) == (1, False)
    working.messages(b"2")
    assert waits.done


def test_a_stop_after_the_end_of_the_subscription() -> None:
    working = Working()
    working.consumer.unsubscribe(working.now)
    working.work.stop(working.now)
    assert working.work.closed.done


def test_the_connection_closes_during_a_drain() -> None:
    working = Working()
    working.work.drain(working.now)
    working.session.close(working.now)
    working.drain()
    assert working.take() is None
    assert working.work.closed.done


def test_the_subscription_ends_during_a_drain() -> None:
    working = Working()
    working.work.drain(working.now)
    watch = working.idle()
    working.consumer.unsubscribe(working.now)
    assert watch.error is not None
    assert working.take() is None
    working.ponged()
    assert working.work.closed.done


def test_drain_works_off_what_waits_for_its_turn() -> None:
    working = Working(key=key_of, concurrency=2)
    working.messages(b"a1", b"a2")
    job = working.job()
    working.idle()
    working.work.drain(working.now)
    working.ponged()
    working.finish(job)
    job = working.job()
    assert job.message.data == b"a2"
    working.finish(job)
    assert working.work.closed.done
    assert working.work.given_back == 0


def test_without_room_nothing_is_given_back() -> None:
    working = Working()
    working.messages(b"1")
    for size in (100_000, 1_000, 0):
        with suppress(OutboundBufferLimitError):
            while True:
                working.session.publish_message("a", b"x" * size)
    working.work.stop(working.now)
    assert working.work.given_back == 0


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"term_on": "ValueError"}, "term_on"),
        ({"term_on": (int,)}, "term_on"),
        ({"max_msgs": 0}, "max_msgs is a whole number of 1 or more"),
        ({"expires": 0}, "expire"),
    ],
)
def test_what_cannot_be_is_refused(keywords: dict[str, Any], text: str) -> None:
    pulling = Pulling()
    with pytest.raises(LocalProtocolError, match=text):
        pulling.js.consume(pulling.consumer, pulling.info_of_consumer.config, now=pulling.now, **keywords)
    assert pulling.requests() == []
    assert not pulling.consumer.is_streaming


def test_a_consumer_that_acknowledges_many_at_once_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="'all'"):
        Working({"ack_policy": "all"})


def test_a_subscription_works_for_one_at_a_time() -> None:
    working = Working()
    with pytest.raises(LocalProtocolError, match="streams messages already"):
        working.begin()
