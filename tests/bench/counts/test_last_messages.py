"""What it costs to read the last messages of a few subjects, through the facade for threads.

Such a read is made for each question to a key-value store, so what it costs does not pay over many messages. Calls are
counted as ``counter`` counts them, and the files in which they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from unittest.mock import patch

import pytest

from jsproto import StreamConfig
from jsproto.testing.world import World
from jsproto_io import sync
from jsproto_io.testing.simulation import current, simulate
from tests.bench.counts.counter import Counter
from tests.bench.counts.worker import NEARBY, uncounted

FIVE = [f"k.{number}" for number in range(5)]


class Files(Counter):
    """Attributes: ``calls``, and ``files`` (in which they were)."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.files: set[str] = set()

    def profile(self, frame: FrameType, what: str, argument: object) -> None:
        """For ``sys.setprofile``."""
        if self._runs and what == "call" and self.is_ours(frame.f_code):
            self.calls += 1
            self.files.add(frame.f_code.co_filename)

    def count(self, job: Callable[[], object]) -> None:
        """Count what ``job`` does."""
        self._runs = True
        sys.setprofile(self.profile)
        try:
            job()
        finally:
            sys.setprofile(None)
            self._runs = False


def counted(read: Callable[[sync.JetStream], list[int]]) -> Files:
    """What the second one of two reads costs."""
    files = Files()

    def program() -> None:
        current().server.add_stream(StreamConfig("KV", subjects=["k.>"], allow_direct=True), current().world.now)
        for subject in FIVE:
            current().server.publish(subject, b"x")
        with sync.connect("nats://server") as nc:
            js = nc.jetstream()
            assert read(js) == [1, 2, 3, 4, 5]
            files.count(partial(read, js))

    with (
        patch.object(World, "exchange", uncounted(World.exchange, files)),
        patch.object(World, "deadline", uncounted(World.deadline, files)),
    ):
        simulate(program, clients="blocking", conditions=NEARBY, faults=())
    return files


def last_messages(js: sync.JetStream) -> list[int]:
    return [message.seq for message in js.get_last_msgs_for("KV", FIVE)]


def snapshot(js: sync.JetStream) -> list[int]:
    return [message.seq for message in js.snapshot("KV", FIVE)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before, comprehensions were calls")
@pytest.mark.parametrize(("read", "calls", "files"), [(last_messages, 250, 36), (snapshot, 570, 44)])
def test_what_a_read_of_five_messages_costs(
    read: Callable[[sync.JetStream], list[int]], calls: int, files: int
) -> None:
    cost = counted(read)
    assert cost.calls <= calls
    assert len(cost.files) <= files, sorted(cost.files)
