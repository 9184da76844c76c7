"""A real server that is killed: which messages come again, and that none is lost.

A server keeps what its consumers know in memory and writes it to a file of each consumer: at most ten times a second,
after it has answered acknowledgements, whatever ``sync_interval`` says. So what was confirmed before the last but one
change of that file is there to stay, and what was confirmed in the last moments may not be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jsproto.grammar.config import StreamConfig
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, PullSubscription, connect
from tests.marks import promise
from tests.servers import recreate_stream

PATIENCE = 60.0
MESSAGES = 600
SETTLED, HASTY = 50, 300  # how many are acknowledged long before the crash, and right before it
ROUNDS = 20  # in one of which at least an acknowledgement must be too late for the file: nearly each of them has some


def acknowledge(sub: PullSubscription, count: int) -> set[int]:
    """So many more messages, each confirmed by the server."""
    confirmed: set[int] = set()
    while len(confirmed) < count:
        for message in sub.fetch(min(50, count - len(confirmed)), timeout=PATIENCE):
            message.ack_sync(timeout=PATIENCE)
            confirmed.add(message.metadata.sequence.stream)
    return confirmed


def written(file: Path) -> int:
    """When, in nanoseconds since 1970; 0 when it never was."""
    return file.stat().st_mtime_ns if file.exists() else 0


def confirm_until_written(sub: PullSubscription, file: Path) -> set[int]:
    """One more message; returns as soon as ``file`` has been written after the call."""
    before = written(file)
    confirmed = acknowledge(sub, 1)
    end = time.monotonic() + PATIENCE
    while written(file) == before:
        assert time.monotonic() < end, f"{file.name} was not written"
    return confirmed


def what_comes(js: JetStream, wanted: set[int]) -> set[int]:
    """All messages that the consumer still has, until those that are ``wanted`` were there and none is left."""
    found: set[int] = set()
    end = time.monotonic() + PATIENCE
    with js.pull_subscribe(stream="CRASH", durable="C") as sub:
        while time.monotonic() < end:
            for message in sub.fetch(100, timeout=1):
                message.ack_sync(timeout=PATIENCE)
                found.add(message.metadata.sequence.stream)
            info = js.consumer_info("CRASH", "C")
            if wanted <= found and not info.num_pending and not info.num_ack_pending:
                break
    return found


@promise("A message that was acknowledged may come again all the same")
@promise("After a crash (or `kill -9`) of a single server")
@promise("Nothing that is not acknowledged is lost by that.")
@pytest.mark.parametrize("jetstream", [True, "sync_interval: always"])
def test_what_comes_again_after_a_crash(server_for: Callable[..., NatsServer], jetstream: bool | str) -> None:
    server = server_for(jetstream=jetstream)
    for _ in range(ROUNDS):
        with connect(server.url) as nc:
            js = nc.jetstream()
            recreate_stream(js, StreamConfig("CRASH", subjects=["crash"]))
            for number in range(MESSAGES):
                js.publish("crash", b"%d" % number)
            everything = set(range(1, MESSAGES + 1))
            sub = js.pull_subscribe("crash", durable="C", ack_wait=2)
            settled = acknowledge(sub, SETTLED)
            (folder,) = server.directory.glob("store/**/CRASH/obs/C/")
            file = folder / "o.dat"
            between = confirm_until_written(sub, file) | confirm_until_written(sub, file)
            hasty = acknowledge(sub, HASTY)
            delivered = {message.metadata.sequence.stream for message in sub.fetch(20, timeout=PATIENCE)}
            server.kill()
        server.restart()
        unacknowledged = everything - settled - between - hasty
        assert delivered <= unacknowledged
        with connect(server.url) as nc:
            js = nc.jetstream()
            assert js.stream_info("CRASH").state.messages == MESSAGES
            came = what_comes(js, unacknowledged)
        assert unacknowledged <= came, "a message that nobody acknowledged is lost"
        assert not came & settled, "a message came again that was acknowledged long before"
        if came & hasty:
            return
    raise AssertionError("what was acknowledged never came again: then the README need not warn of it")


@promise("End the deliveries of the message, though it is not processed.")
def test_what_was_terminated_comes_again_after_a_crash(server_for: Callable[..., NatsServer]) -> None:
    server = server_for()
    for _ in range(ROUNDS):
        with connect(server.url) as nc:
            js = nc.jetstream()
            recreate_stream(js, StreamConfig("CRASH", subjects=["crash"]))
            for _ in range(HASTY):
                js.publish("crash")
            sub = js.pull_subscribe("crash", durable="C", ack_wait=2)
            for message in sub.fetch(HASTY, timeout=PATIENCE):
                message.term()
            while sub.consumer_info().num_ack_pending:
                pass
            server.kill()
        server.restart()
        with connect(server.url) as nc:
            js = nc.jetstream()
            info = js.consumer_info("CRASH", "C")
            if info.num_ack_pending or info.num_pending:
                with js.pull_subscribe("crash", durable="C") as sub:
                    assert sub.fetch(1, timeout=PATIENCE)
                return
    raise AssertionError("what was terminated never came again: then its docstring need not warn of it")
