"""Publishing and pulling while leaders change, by a step-down, SIGKILL or SIGSTOP, and while the client's node goes.

Every test of publishing asserts the same: what was acknowledged is stored, nothing is stored twice or out of order, and
what is missing was reported. How much that is, is up to the moment. ``soak_publish`` does this at length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from jsproto.api_errors import AtomicPublishIncompleteBatchError
from jsproto.client.consume import retry
from jsproto.errors import (
    BatchError,
    BatchGapError,
    BatchLostError,
    BatchMessageError,
    Error,
    NoRespondersError,
    NoStreamResponseError,
    TimeoutError,
)
from jsproto.events import Event, GapReported
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.trace import TraceJetStream
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import AtomicBatch, Connection, JetStream, PullSubscription, connect
from tests.integration.cluster import Cluster, stored
from tests.marks import promise, requirement
from tests.servers import paused

pytestmark = pytest.mark.slow
COUNT = 30_000


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    """All streams are made at first: for some seconds after a node was down none can be placed on it."""
    with Cluster() as running, connect(running.urls, dont_randomize=True) as nc:
        js = nc.jetstream()
        for name in ("FAIL", "STOP", "COUNT", "OK", "LINK", "LOST", "ATOMIC", "PULL", "RETRY"):
            js.create_stream(
                name, subjects=[f"{name}.>"], storage="file", num_replicas=3, duplicate_window=120, allow_direct=True,
                allow_batched=name != "ATOMIC", allow_atomic=name == "ATOMIC",
            )  # fmt: skip
        yield running


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """The same one for all tests, whole again after each."""
    yield running
    running.heal()


def leader_of(js: Any, name: str) -> str:
    while True:
        with suppress(Error):
            leader = (js.stream_info(name).cluster or {}).get("leader")
            if leader:
                return str(leader)


def step_down(nc: Connection, name: str) -> None:
    nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}")


def follower_first(cluster: Cluster, name: str) -> list[str]:
    """Addresses for a client that is to be connected to a follower of the stream's leader."""
    with connect(cluster.urls, dont_randomize=True) as nc:
        leader = cluster.node(leader_of(nc.jetstream(), name))
    return sorted(cluster.urls, key=lambda url: url == leader.url)


def interrupted(messages: list[Any], faults: dict[int, Callable[[], object]]) -> Iterator[Any]:
    """The messages, with a fault before some of them; each fault happens once."""
    for message in messages:
        fault = faults.pop(int(message[1]), None)
        if fault is not None:
            fault()
        yield message


def publish_all(nc: Connection, todo: list[Any], faults: dict[int, Callable[[], object]]) -> list[Error]:
    """Gap mode fail, a new batch after each failure; returns the failures."""
    js, failures = nc.jetstream(), []
    left: list[Any] = []
    rows = interrupted(todo, faults)
    while True:
        batch = js.fast_publisher(flow=100)
        try:
            batch.publish_many(left)
            batch.publish_many(rows)
            if batch.sequence:
                batch.commit()
            break
        except Error as error:
            failures.append(error)
            left = batch.unacknowledged
            with suppress(Error):
                nc.flush()
    assert faults == {}
    return failures


def numbered(name: str, count: int = COUNT) -> list[Any]:
    return [(f"{name}.a", b"%d" % number, {"Nats-Msg-Id": f"{number}"}) for number in range(count)]


@promise("A message that no stream takes")
def test_a_message_is_sent_again_after_a_step_down(cluster: Cluster) -> None:
    """Without it nearly every one of them fails: for some milliseconds nobody takes messages of the stream."""
    with connect(follower_first(cluster, "RETRY"), dont_randomize=True) as nc:
        js = nc.jetstream(retry_attempts=-1)
        acked: list[int] = []
        for number in range(10):
            step_down(nc, "RETRY")
            with suppress(TimeoutError):  # a leader that steps down may take one with it
                js.publish("RETRY.a", b"%d" % number)
                acked.append(number)
        found = stored(js, "RETRY")
        assert acked
        assert found == sorted(set(found))
        assert set(acked) <= set(found)


def test_a_trace_has_the_hop_to_the_leader(cluster: Cluster) -> None:
    with connect(follower_first(cluster, "RETRY"), dont_randomize=True) as nc, nc.trace() as collector:
        leader = leader_of(nc.jetstream(), "RETRY")
        nc.jetstream().publish("RETRY.traced", trace=collector.subject)
        trace = collector.collect()
    assert trace.is_complete
    assert [event.path for event in trace] == [(), (1,)]
    steps = [(event.server, step.stream) for event in trace for step in event.steps if isinstance(step, TraceJetStream)]
    assert steps == [(leader, "RETRY")]


@requirement(70)
@promise('with `gap="fail"` an error carries what was acknowledged')
@promise("A `BatchError` carries the last acknowledged sequence.")
def test_gap_fail_tells_what_is_stored(cluster: Cluster) -> None:
    """No message ids are needed to go on behind it."""
    with connect(follower_first(cluster, "COUNT"), dont_randomize=True) as nc:
        js = nc.jetstream()
        todo: list[Any] = [("COUNT.a", b"%d" % number) for number in range(COUNT)]
        faults: dict[int, Callable[[], object]] = {
            number: lambda: step_down(nc, "COUNT") for number in range(10_000, COUNT, 10_000)
        }
        ends: list[BatchError] = []
        while todo:
            batch = js.fast_publisher(flow=100)
            try:
                batch.publish_many(interrupted(todo, faults))
                count = batch.commit().count or 0
            except BatchError as error:
                ends.append(error)
                count = -1 if error.ack is None else error.ack.count or 0
            assert batch.acked <= count <= batch.sequence
            batch.take_unpublished()  # they are in todo
            assert [*batch.unacknowledged, *todo[batch.sequence :]] == todo[count:]
            todo = todo[count:]
        assert {type(error) for error in ends} <= {BatchGapError}
        assert stored(js, "COUNT") == list(range(COUNT))


@requirement(71)
def test_gap_ok_goes_on_under_a_new_leader_and_reports_what_is_missing(cluster: Cluster) -> None:
    events: list[Event] = []
    with connect(follower_first(cluster, "OK"), dont_randomize=True, event_cb=events.append) as nc:
        js = nc.jetstream()
        messages = [("OK.a", b"%d" % number) for number in range(COUNT)]
        faults: dict[int, Callable[[], object]] = {
            number: lambda: step_down(nc, "OK") for number in (COUNT // 3, 2 * COUNT // 3)
        }
        with js.fast_publisher(gap="ok", flow=100) as batch:
            assert batch.publish_many(interrupted(messages, faults)) == COUNT
            assert batch.commit().count == batch.acked == COUNT
        assert stored(js, "OK") == [number for number in range(COUNT) if number not in lost(events)]


def lost(events: list[Event]) -> set[int]:
    """The numbers of the messages reported as lost: the first message of the batch is number 0."""
    gaps = [event for event in events if isinstance(event, GapReported)]
    return {sequence - 1 for gap in gaps for sequence in range(gap.first_missing, gap.last_missing + 1)}


@promise("One atomic batch (ADR-50): stored whole, or not at all.")
def test_an_atomic_batch_does_not_outlive_its_leader(cluster: Cluster) -> None:
    """Nothing of it is stored; published again it is stored whole."""
    with connect(cluster.urls, dont_randomize=True) as nc:
        js = nc.jetstream()
        messages = [("ATOMIC.a", b"%d" % number) for number in range(500)]
        old = leader_of(js, "ATOMIC")
        with js.atomic_batch() as batch:
            for subject, payload in messages:
                batch.add(subject, payload)
            step_down(nc, "ATOMIC")
            while leader_of(js, "ATOMIC") == old:
                pass
            with pytest.raises(AtomicPublishIncompleteBatchError):
                commit(batch)
        assert js.stream_info("ATOMIC").state.messages == 0
        assert js.publish_batch(messages).sequences == range(1, 501)
        assert stored(js, "ATOMIC") == list(range(500))


def commit(batch: AtomicBatch) -> None:
    """Until somebody takes it: while there is no leader, the batch is as it was."""
    while True:
        with suppress(BatchMessageError):
            batch.commit()
            return


def test_a_leader_that_stood_still_until_there_was_another(cluster: Cluster) -> None:
    """Nobody says a word meanwhile; later it answers what the new one has answered."""
    with connect(follower_first(cluster, "STOP"), dont_randomize=True) as nc, ExitStack() as until_then:
        js = nc.jetstream()
        leader = cluster.node(leader_of(js, "STOP"))
        failures = publish_all(nc, numbered("STOP"), {COUNT // 2: lambda: until_then.enter_context(paused(leader))})
        until_then.close()
        failures += publish_all(nc, numbered("STOP", COUNT + 1_000)[COUNT:], {})
        assert all(isinstance(error, BatchError | NoRespondersError) for error in failures)
        assert stored(js, "STOP") == list(range(COUNT + 1_000))


def test_no_acknowledged_message_is_lost_when_the_leader_goes(cluster: Cluster) -> None:
    with connect(cluster.urls, dont_randomize=True, reconnect_time_wait=0.1) as nc:
        js = nc.jetstream()
        killed: list[NatsServer] = []

        def kill() -> None:
            killed.append(cluster.node(leader_of(js, "FAIL")))
            killed[0].kill()

        faults: dict[int, Callable[[], object]] = {COUNT // 3: lambda: step_down(nc, "FAIL"), 2 * COUNT // 3: kill}
        assert publish_all(nc, numbered("FAIL"), faults)
        cluster.heal()
        assert stored(js, "FAIL") == list(range(COUNT))


@requirement(72)
@promise('With `gap="ok"` losses are events')
@promise('With `gap="ok"` a fast-ingest batch asks the server for its position')
def test_gap_ok_goes_on_over_a_new_link_and_reports_what_is_missing(cluster: Cluster) -> None:
    # Again, where a leader is elected meanwhile, as on a busy machine: the batch ends with the old one.
    for attempt in range(3):
        events: list[Event] = []
        urls = follower_first(cluster, "LINK")
        with connect(urls, dont_randomize=True, event_cb=events.append, reconnect_time_wait=0.1) as nc:
            js = nc.jetstream()
            mine = next(node for node in cluster.nodes if node.url == nc.connected_url)
            messages = [("LINK.a", b"%d" % number) for number in range(COUNT)]
            try:
                with js.fast_publisher(gap="ok", flow=100) as batch:
                    assert batch.publish_many(interrupted(messages, {COUNT // 2: mine.kill})) == COUNT
                    assert batch.commit().count == batch.acked == COUNT
            except (NoStreamResponseError, BatchLostError):
                if attempt == 2:
                    raise
                cluster.heal()
                js.purge_stream("LINK")
                continue
            assert nc.connected_url != mine.url
            cluster.heal()
            assert stored(js, "LINK") == [number for number in range(COUNT) if number not in lost(events)]
            return


@requirement(72)
def test_gap_fail_ends_with_the_link(cluster: Cluster) -> None:
    with connect(follower_first(cluster, "LOST"), dont_randomize=True, reconnect_time_wait=0.1) as nc:
        mine = next(node for node in cluster.nodes if node.url == nc.connected_url)
        failures = publish_all(nc, numbered("LOST"), {COUNT // 2: mine.kill})
        first = failures[0]
        assert isinstance(first, BatchLostError)
        assert 0 < first.acked <= first.sequence <= first.acked + 200
        cluster.heal()
        assert stored(nc.jetstream(), "LOST") == list(range(COUNT))


@promise("every message at least once, until it is acknowledged or `max_deliver` is reached")
@promise("every message at least once: again and again until it is acknowledged")
@promise("A fetch waits through elections and lost links, and so does `messages()`.")
def test_pulling_goes_on_under_new_leaders(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer's leader steps down, then the stream's, then the node of the consumer's leader is killed.

    What was acknowledged just then may come again; nothing is missing, and in the end all is settled.
    """
    monkeypatch.setattr(retry, "PULL_GIVE_UP", 60.0)  # on a busy machine an election may take longer than 10 s
    with connect(
        cluster.urls, dont_randomize=True, timeout=30, max_reconnect_attempts=-1, reconnect_time_wait=0.1
    ) as nc:
        js = nc.jetstream()
        for number in range(400):
            stored_once(js, "PULL.a", b"%d" % number)
        js.create_consumer("PULL", durable_name="D", ack_wait=2)
        faults: dict[int, Callable[[], object]] = {
            100: lambda: nc.request("$JS.API.CONSUMER.LEADER.STEPDOWN.PULL.D"),
            200: lambda: step_down(nc, "PULL"),
            300: lambda: leader_of_consumer(cluster, js).kill(),
        }
        seen: set[int] = set()
        with js.pull_subscribe_bind("D", "PULL") as sub, sub.messages(max_msgs=20, heartbeat=0.5) as messages:
            while len(seen) < 400:
                message = messages.next_msg(timeout=30)
                seen.add(int(message.data))
                message.ack()
                faults.pop(len(seen), bool)()
        assert seen == set(range(400))
        with js.pull_subscribe_bind("D", "PULL") as sub:
            info, tries = state_of(sub), 30  # a new leader may count nothing as pending before it knows all
            while info.ack_floor.stream_seq < 400 and tries:
                sub.ack_many(sub.fetch(20, timeout=1))
                info, tries = state_of(sub), tries - 1
            assert (info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0, 400)
        assert faults == {}


def stored_once(js: JetStream, subject: str, payload: bytes) -> None:
    """Publish until it is acknowledged: there may be no leader for a moment."""
    while True:
        with suppress(Error):
            js.publish(subject, payload, msg_id=payload.decode())
            return


def leader_of_consumer(cluster: Cluster, js: Any) -> NatsServer:
    while True:
        with suppress(Error):
            leader = (js.consumer_info("PULL", "D").cluster or {}).get("leader")
            if leader:
                return cluster.node(leader)


def state_of(sub: PullSubscription) -> ConsumerInfo:
    """The state of the consumer, from whoever leads it now."""
    while True:
        with suppress(Error):
            return sub.consumer_info()
