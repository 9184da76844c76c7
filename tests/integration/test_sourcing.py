"""A work queue of a real server, copied by the sourcing end: with links that end, and a second owner that waits."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jsproto.client.consume.message import Acker, JSMsg
from jsproto.client.consume.sourcing import SourcingConsumer
from jsproto.errors import SourcePositionError
from jsproto.events import Event, SourceBusy
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.rules.sourcing_phases import SourcingPhase
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, connect
from tests.integration.soak_sourcing import KINDS, run
from tests.marks import promise
from tests.servers import recreate_stream

PATIENCE = 120.0
COUNT = 3_000
CONFIG = ConsumerConfig(ack_policy="flow_control", max_ack_pending=500)


def source(nc: Connection, stream: str, position: int = 0, identity: str | None = None) -> SourcingConsumer[JSMsg]:
    session, api = nc._session, nc.jetstream()._core.api
    acker = Acker(session, session.requests, JSMsg, wants_acks=False)
    return nc._call(
        lambda now: SourcingConsumer(
            session, acker, api=api, inbox=session.new_inbox(), consumer="C", config=CONFIG,
            stream=stream, subject=stream, position=position, identity=identity, now=now,
        )
    )  # fmt: skip


def copy(nc: Connection, machine: SourcingConsumer[JSMsg], copied: list[int], until: int) -> None:
    """Store what comes, until message number ``until`` is stored, and confirm it."""
    end = time.monotonic() + PATIENCE
    while not copied or copied[-1] < until:
        assert time.monotonic() < end, (machine.phase, machine.position, machine.resets)
        nc._wait(nc._call(lambda now: machine.readable()), PATIENCE)
        messages = nc._call(lambda now: machine.pop_many(97, now))
        copied += [int(message.data) for message in messages]
        last = messages[-1].metadata.sequence.stream
        nc._call(partial(machine.confirm, last))


def empty(nc: Connection, stream: str) -> None:
    """Wait until the server has deleted all."""
    end = time.monotonic() + PATIENCE
    while nc.jetstream().stream_info(stream).state.messages:
        assert time.monotonic() < end
        time.sleep(0.05)


def fill(nc: Connection, stream: str) -> None:
    js = nc.jetstream()
    recreate_stream(js, StreamConfig(stream, subjects=[stream.lower()], retention="workqueue"))
    with js.async_publisher() as publisher:
        for number in range(1, COUNT + 1):
            publisher.publish(stream.lower(), b"%d" % number)


@promise("Unconfirmed messages come again the next time")
def test_a_work_queue_is_copied_once_and_in_order_whatever_happens_to_the_link(
    server_for: Callable[..., NatsServer],
) -> None:
    server = server_for()
    copied: list[int] = []
    with connect(server.url, reconnect_time_wait=0.02, max_reconnect_attempts=-1) as nc:
        fill(nc, "SOURCEQ")
        machine = source(nc, "SOURCEQ")
        copy(nc, machine, copied, COUNT // 3)
        server.stop()
        server.start()
        copy(nc, machine, copied, COUNT // 2)
        assert machine.identity
        # Another process resumes by what the sink has, after the first one has ended.
        position, identity = machine.position, machine.identity
        with connect(server.url) as other:
            nc._call(lambda now: machine.unsubscribe(now))
            heir = source(other, "SOURCEQ", position, identity)
            copy(other, heir, copied, COUNT)
            assert copied == list(range(1, COUNT + 1))
            empty(other, "SOURCEQ")
            assert heir.phase is SourcingPhase.RUNNING


def test_a_second_owner_waits_for_the_first(server: NatsServer) -> None:
    events: list[Event] = []
    copied: list[int] = []
    with connect(server.url) as nc, connect(server.url, event_cb=events.append) as second:
        fill(nc, "SOURCETWO")
        machine = source(nc, "SOURCETWO")
        copy(nc, machine, copied, COUNT // 2)
        heir = source(second, "SOURCETWO", machine.position, machine.identity)
        copy(nc, machine, copied, 2 * COUNT // 3)
        end = time.monotonic() + PATIENCE
        while not any(isinstance(event, SourceBusy) for event in events):
            assert time.monotonic() < end
            time.sleep(0.01)
        nc._call(lambda now: machine.unsubscribe(now))
        copy(second, heir, [*copied], COUNT)
        empty(second, "SOURCETWO")
        assert machine.resets == 0


def copied(target: str, how: dict[str, Any], config: ConsumerConfig, js: JetStream) -> int:
    """Copy what a stream has now, by a consumer of the target's own."""
    prefix = f"{target.lower()}."
    return js.copy("OLD", f"C{target}", target, config=config, prefix=prefix, **how).run(until_caught_up=True)


def restored(store: Path, backup: Path, stream: str) -> None:
    """Only this stream gets its earlier files, those of its consumers among them."""
    for folder in backup.rglob(f"streams/{stream}"):
        target = store / folder.relative_to(backup)
        shutil.rmtree(target)
        shutil.copytree(folder, target)


@promise("Nothing is acknowledged that the target does not have.")
@pytest.mark.parametrize("new", [2, 50])
def test_a_copy_of_a_stream_that_was_restored_ends_and_acknowledges_nothing(tmp_path: Path, new: int) -> None:
    store, backup = tmp_path / "store", tmp_path / "backup"
    fast: dict[str, Any] = {}
    atomic: dict[str, Any] = {"delivery": "atomic", "marker": "position"}
    with NatsServer(store=store) as server:
        with connect(server.url) as nc:
            js = nc.jetstream()
            js.create_stream("OLD", subjects=["old.>"], retention="workqueue")
            js.create_stream("FAST", subjects=["fast.>"], allow_batched=True, allow_direct=True)
            js.create_stream("MARKED", subjects=["marked.>", "position"], allow_atomic=True, allow_direct=True)
            shared = CONFIG.updated(sourcing=True)
            copies = [partial(copied, name, how, shared) for name, how in (("FAST", fast), ("MARKED", atomic))]
            for copy_all in copies:
                assert copy_all(js) == 0  # from here on each message waits for both consumers
            for number in range(30):
                js.publish("old.a", b"%d" % number)
            for copy_all in copies:
                assert copy_all(js) == 30
        server.stop()
        shutil.copytree(store, backup)
        server.start()
        with connect(server.url) as nc:
            js = nc.jetstream()
            for number in range(10):
                js.publish("old.a", b"%d" % number)
            for copy_all in copies:
                assert copy_all(js) == 10
        server.stop()
        restored(store, backup, "OLD")
        server.start()
        with connect(server.url) as nc:
            js = nc.jetstream()
            for number in range(new):
                js.publish("old.a", b"new%d" % number)
            for copy_all in copies:
                with pytest.raises(SourcePositionError, match="came back shorter"):
                    copy_all(js)
            assert js.stream_info("OLD").state.messages == new
            js.create_stream("AGAIN", subjects=["again.>"], allow_batched=True, allow_direct=True)
            assert copied("AGAIN", fast, shared, js) == new  # the way out
            assert [message.data for message in js.get_batch("AGAIN")] == [b"new%d" % n for n in range(new)]


@promise("Each message is in the target once and in order")
@promise("Each message must be there once and in order, and the queue empty.")
@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["fast", "atomic"])
def test_a_short_soak(delivery: str) -> None:
    outcome = run(20_000, 1, 3, delivery)
    assert outcome.violations == []
    assert outcome.faults == Counter(KINDS)
