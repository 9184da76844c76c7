"""The client role and the server role against each other, in simulated time: every verb, bad conditions, lost links."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import BatchPublishDisabledError
from jsproto.client.connection.connect_options import connect_options
from jsproto.client.connection.session import Session
from jsproto.errors import (
    APIError,
    BatchLostError,
    BatchUnknownError,
    ConnectionLostError,
    Error,
    JetStreamNotAvailableError,
    NoRespondersError,
    NoServersError,
    NoStreamResponseError,
    ServerError,
    TimeoutError,
)
from jsproto.events import Connected, Disconnected, MessageRefused
from jsproto.grammar.config import StreamConfig
from jsproto.outbox import Conversation
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import StuckError
from jsproto.ticket import Ticket
from jsproto.wire.frames import Msg
from tests.effort import first
from tests.marks import promise, requirement
from tests.server.harness import config

FAR = NetworkConditions(latency=0.01)
ROUGH = NetworkConditions(latency=0.01, jitter=0.02, piece=50)
STORMY = NetworkConditions(latency=0.001, jitter=0.003, piece=200, loss=0.02, duplication=0.02, reordering=0.02)


def connected(conditions: NetworkConditions | None = None, seed: int = 1, **options: Any) -> Pair:
    pair = Pair(connect_options(**options), network=Network(seed, conditions))
    pair.server.add_stream(config(), 0.0)
    pair.connect()
    return pair


def stored(pair: Pair) -> list[bytes]:
    return [message.payload for message in pair.server.stream("S")]


def test_connecting_takes_the_time_of_the_way() -> None:
    pair = connected(NetworkConditions(latency=0.5))
    assert pair.now == 1.5  # INFO, then CONNECT and PING, then PONG
    assert pair.is_linked
    assert pair.client.server is not None
    assert (pair.client.server.version, pair.client.server.jetstream) == ("2.15.1", True)
    assert [type(event) for event in pair.events] == [Connected]


def test_the_verbs_of_jetstream() -> None:
    pair = connected(ROUGH)
    js, run = pair.js, pair.run_until
    made = run(js.create_stream(StreamConfig("T", subjects=["t.>"], storage="memory"), now=pair.now))
    assert made.config.subjects == ["t.>"]
    assert run(js.update_stream(StreamConfig("T", subjects=["t.*"], storage="memory"), now=pair.now)).created
    assert run(js.change_stream("T", {"max_msgs": 5}, now=pair.now)).config.max_msgs == 5
    assert run(js.publish("t.a", b"x", now=pair.now, msg_id="1")).seq == 1
    assert run(js.publish("t.a", b"x", now=pair.now, msg_id="1")).duplicate
    assert run(js.stream_info("T", now=pair.now)).state.messages == 1
    assert run(js.account_info(now=pair.now)).streams == 2
    assert run(js.delete_stream("T", now=pair.now)) is True
    with pytest.raises(APIError, match="stream not found"):
        run(js.stream_info("T", now=pair.now))
    with pytest.raises(NoStreamResponseError):
        run(js.publish("t.a", b"x", now=pair.now))
    with pytest.raises(NoRespondersError):
        run(pair.client.request("nobody", now=pair.now))
    assert run(pair.client.ping(pair.now)) >= 2 * ROUGH.latency
    with pytest.raises(JetStreamNotAvailableError):
        run(js._ask("$JS.OTHER.INFO", b"", dict, pair.now, None))


def test_fast_ingest() -> None:
    pair = connected(ROUGH)
    fast = pair.js.fast_publisher(flow=20)
    messages = [("s.a", b"%d" % number) for number in range(500)]
    while fast.sequence < len(messages):
        if not fast.publish_many(messages[fast.sequence :], pair.now):
            pair.run_until(fast.ready())
    assert pair.run_until(fast.commit(pair.now)).count == 500
    assert stored(pair) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("others", first([3, 0, 1], 1))
@pytest.mark.parametrize("dialect", ["released", "draft"])
def test_a_full_stream_ends_no_batch_that_may_lose(others: int, dialect: Any) -> None:
    """A second publisher begins with a rate of 1; whatever the rate, nothing is acknowledged while all is refused."""
    server = Server(token=b"t", dialect=dialect)
    server.add_stream(config({"discard": "new", "max_msgs": 5}), 0.0)
    pair = Pair(server=server, network=Network(1, ROUGH))
    pair.connect()
    for _ in range(others):
        other = pair.js.fast_publisher()
        other.publish("s.a", b"other", now=pair.now)
        pair.run_until(other.ready())
    fast = pair.js.fast_publisher(gap="ok", flow=20, ack_timeout=1.0)
    messages = [("s.a", b"%d" % number) for number in range(500)]
    while fast.sequence < len(messages):
        if not fast.publish_many(messages[fast.sequence :], pair.now):
            pair.run_until(fast.ready())
    assert pair.run_until(fast.commit(pair.now)).count == 500
    refused = [event.sequence for event in pair.events if isinstance(event, MessageRefused)]
    assert refused == [*range(6 - others, 501)]
    assert stored(pair)[others:] == [b"%d" % number for number in range(5 - others)]


@requirement(83)
@pytest.mark.parametrize("dialect", ["released", "draft"])
@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_the_ends_of_a_batch_have_one_class_in_both_dialects(dialect: Any, gap: Any) -> None:
    server = Server(token=b"t", dialect=dialect)
    server.add_stream(config({"allow_batched": False}), 0.0)
    pair = Pair(server=server)
    pair.connect()
    fast = pair.js.fast_publisher(gap=gap)
    fast.publish("s.a", b"x", now=pair.now)
    with pytest.raises(BatchPublishDisabledError):
        pair.run_until(fast.ready())
    pair.run_until(pair.js.delete_stream("S", now=pair.now))
    server.add_stream(config(), pair.now)
    forgotten = pair.js.fast_publisher(gap=gap)
    forgotten.publish("s.a", b"x", now=pair.now)
    pair.run_until(forgotten.ready())
    pair.run_until(pair.js.delete_stream("S", now=pair.now))
    server.add_stream(config(), pair.now)
    forgotten.publish("s.a", b"y", now=pair.now)
    with pytest.raises(BatchUnknownError):
        pair.run_until(forgotten.commit(pair.now))


@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
def test_refusals_that_a_lost_link_takes_with_it_end_no_batch() -> None:
    pair = Pair(connect_options(max_reconnect_attempts=-1, reconnect_time_wait=0.1), network=Network(1, FAR))
    pair.server.add_stream(config({"discard": "new", "max_msgs": 5}), 0.0)
    pair.connect()
    fast = pair.js.fast_publisher(gap="ok", flow=4, ack_timeout=2.0)
    for _ in range(20):
        for _ in range(30):
            if not fast.publish_many([("s.a", b"x")] * 8, pair.now):
                pair.run_until(fast.ready())
        pair.advance(0.015)  # the server has refused what was published last, and its answers are on the way
        pair.lose_link()
    assert fast.error is None
    assert pair.run_until(fast.commit(pair.now)).count == fast.sequence
    assert len(stored(pair)) == 5


@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
@pytest.mark.parametrize("commits", [False, True])
def test_a_batch_that_may_lose_does_not_wait_for_ever_for_a_server_that_is_gone(commits: bool) -> None:
    pair = connected(ROUGH, max_reconnect_attempts=-1)
    fast = pair.js.fast_publisher(gap="ok", ack_timeout=3.0)
    fast.publish("s.a", b"1", now=pair.now)
    pair.run_until(fast.ready())
    pair.is_reachable = False
    pair.lose_link()
    lost = pair.now
    waits: Ticket[Any] = fast.commit(pair.now) if commits else fast.ready()
    with pytest.raises(BatchLostError):
        pair.run_until(waits)
    assert pair.now == pytest.approx(lost + 3.0, abs=0.1)


def test_an_atomic_batch() -> None:
    pair = connected(ROUGH)
    batch = pair.js.atomic_batch(ack_every=3)
    for number in range(10):
        batch.add("s.a", b"%d" % number, now=pair.now)
        pair.run_until(batch.ready())
        assert stored(pair) == []
    assert pair.run_until(batch.commit_eob(pair.now)).count == 10
    assert batch.sequences == range(1, 11)
    assert pair.run_until(pair.js.publish_batch([("s.b", b"x")] * 5, now=pair.now)).seq == 15


@promise("its publisher may never hear of it")
def test_advisories_of_a_batch_that_is_left_alone() -> None:
    pair = connected(ROUGH)
    watch = pair.js.batch_advisories("S")
    batch = pair.js.atomic_batch(batch_id="b")
    batch.add("s.a", b"x", now=pair.now)
    pair.run_until(batch.ready())
    pair.run_until(watch.readable())
    (advisory,) = watch.pop_many(10)
    assert (advisory.batch_id, advisory.reason) == ("b", "timeout")


def test_publishing_ahead_of_acknowledgements_in_bad_weather() -> None:
    pair = connected(STORMY)
    publisher = pair.js.async_publisher(timeout=1.0, max_pending=50)
    messages = [("s.a", b"%d" % number) for number in range(400)]
    while publisher.sequence < len(messages):
        if not publisher.publish_many(messages[publisher.sequence :], pair.now):
            pair.run_until(publisher.ready())
    pair.run_until(publisher.answered())
    failures = publisher.take_failures()
    assert publisher.acked + publisher.failed == 400
    assert len(failures) == publisher.failed > 0
    assert all(isinstance(error, TimeoutError) for _, error in failures)
    failed = {message[1] for message, _ in failures}
    assert {payload for _, payload in messages} - failed <= set(stored(pair))
    assert pair.network.cluster.lost
    assert pair.network.cluster.doubled


@promise("The same inputs give the same bytes")
@promise("Nothing sleeps: time is a number that moves from deadline to deadline")
@promise("The same seed gives the same bytes at the same times.")
def test_the_same_seed_gives_the_same_times_and_messages() -> None:
    def run(seed: int) -> tuple[float, list[bytes]]:
        pair = connected(STORMY, seed)
        publisher = pair.js.async_publisher(timeout=1.0)
        publisher.publish_many([("s.a", b"%d" % number) for number in range(100)], pair.now)
        pair.run_until(publisher.answered())
        return pair.now, stored(pair)

    assert run(5) == run(5)
    assert run(5) != run(6)


# -- links -------------------------------------------------------------------------------------------------------------


@promise("The same inputs give the same bytes")
def test_a_lost_link_is_dialled_again() -> None:
    pair = connected(ROUGH, max_reconnect_attempts=-1)
    fast = pair.js.fast_publisher(gap="ok")
    lost = pair.js.fast_publisher()
    for one in (fast, lost):
        one.publish("s.a", b"1", now=pair.now)
        pair.run_until(one.ready())
    question = pair.client.request("nobody", now=pair.now)
    pair.is_reachable = False
    pair.lose_link()
    pair.lose_link()
    assert isinstance(question.error, ConnectionLostError)
    assert isinstance(lost.error, BatchLostError)
    pair.advance(3.0)
    assert not pair.is_linked
    pair.is_reachable = True
    pair.run_until(fast.ready())
    assert pair.is_linked
    fast.publish("s.a", b"2", now=pair.now)
    assert pair.run_until(fast.commit(pair.now)).count == 2
    assert [type(event) for event in pair.events if isinstance(event, Connected | Disconnected)] == [
        Connected, Disconnected, Connected,
    ]  # fmt: skip
    assert len(pair.server.sessions) == 1


@promise("A ticket that would never be answered raises `StuckError` instead of hanging.")
def test_nobody_answers() -> None:
    pair = Pair()
    pair.is_reachable = False
    with pytest.raises(NoServersError):
        pair.connect()
    assert not pair.is_linked
    assert pair.step() is False


def test_the_client_closes_and_what_it_wrote_still_arrives() -> None:
    pair = connected(ROUGH)
    pair.client.publish_message("s.a", b"last")
    pair.client.close(pair.now)
    pair.exchange()
    assert not pair.is_linked
    assert stored(pair) == []
    while pair.step():
        pass
    assert stored(pair) == [b"last"]
    assert pair.server.sessions == []


def test_the_server_closes() -> None:
    pair = connected(NetworkConditions(latency=0.1), max_reconnect_attempts=0)
    (session,) = pair.server.sessions
    session.receive_data(b"JUNK\r\n", pair.now)
    pair.run(lambda: pair.client.closed)
    assert isinstance(pair.client.error, ServerError)
    assert "Unknown Protocol Operation" in str(pair.client.error)
    assert not pair.is_linked


def test_both_close_at_once() -> None:
    pair = connected(NetworkConditions(latency=0.1))
    (session,) = pair.server.sessions
    session.receive_data(b"JUNK\r\n", pair.now)
    pair.client.close(pair.now)
    while pair.step():
        pass
    assert pair.client.error is None
    assert pair.deadline() is None


# -- bounds ------------------------------------------------------------------------------------------------------------


@promise("A ticket that would never be answered raises `StuckError` instead of hanging.")
def test_waiting_is_bounded() -> None:
    pair = connected(NetworkConditions(latency=0.01))
    never: Ticket[None] = Ticket()
    with pytest.raises(StuckError):
        pair.run_until(never, steps=10)
    pair.client.close(pair.now)
    with pytest.raises(StuckError):
        pair.run_until(never)
    done: Ticket[int] = Ticket()
    done.succeed(3)
    assert pair.run_until(done, steps=0) == 3


def test_a_moment_without_end() -> None:
    class Restless(Conversation):
        def receive(self, message: Msg, now: float) -> None:
            raise AssertionError

        def deadline(self) -> float | None:
            return 0.0

    pair = Pair(server=Server(token=b"t"))
    pair.server.rearm(Restless())
    with pytest.raises(StuckError, match="one moment"):
        pair.exchange()


@promise("Nothing sleeps: time is a number that moves from deadline to deadline")
@promise("The same seed gives the same bytes at the same times.")
def test_time_passes_with_nothing_to_do() -> None:
    pair = Pair(server=Server(token=b"t"), now=5.0)
    pair.client.close(pair.now)
    pair.advance(10.0)
    assert (pair.now, pair.deadline()) == (15.0, None)


def test_keep_alive_on_both_sides() -> None:
    pair = connected(NetworkConditions(latency=0.1), ping_interval=30.0)
    pair.advance(1000.0)
    assert pair.is_linked
    assert isinstance(pair.client, Session)
    with pytest.raises(Error):
        pair.run_until(pair.client.request("nobody", now=pair.now))


@promise("Early and repeated calls are harmless.", of="jsproto:Session")
def test_a_quiet_batch_is_pinged_at_times_that_floats_round() -> None:
    """Found by the state machine: ``sent + 5.0 - sent < 5.0``, and the timer was set to the same moment for ever."""
    for tenths in range(1, 200):
        pair = Pair(server=Server(token=b"t"), now=tenths / 10)
        pair.server.add_stream(config(), pair.now)
        pair.connect()
        fast = pair.js.fast_publisher()
        fast.publish("s.a", b"x", now=pair.now)
        pair.advance(12.0)
        assert pair.run_until(fast.commit(pair.now)).count == 1
