"""A driver's clock: it calls early, again and again, or late, and nothing but the times of late calls changes."""

from __future__ import annotations

from typing import Final

import pytest

from jsproto.client.connection.connect_options import connect_options
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from tests.effort import first
from tests.marks import promise
from tests.server.harness import config

STORMY: Final = NetworkConditions(latency=0.001, jitter=0.003, piece=200, loss=0.02, duplication=0.02, reordering=0.02)
COUNT: Final = 200


class Restless(Pair):
    """Wakes its client whenever it looks at it, whether that wants to be woken or not."""

    def _client(self) -> bool:
        for _ in range(3):
            self.client.handle_timeout(self.now)
        return super()._client()


class Late(Pair):
    """Wakes its client a quarter of a second after it wanted to be woken, or whenever something else happens."""

    def deadline(self) -> float | None:
        when, wanted = super().deadline(), self.client.deadline()
        return when if when is None or when != wanted else when + 0.25


def run(kind: type[Pair], seed: int) -> tuple[float, list[str], list[bytes], list[int]]:
    """Publish, lose the link, publish and read: when it was over, what was told, stored and read."""
    pair = kind(connect_options(max_reconnect_attempts=-1), network=Network(seed, STORMY))
    pair.server.add_stream(config({"allow_direct": True}), 0.0)
    pair.connect()
    publisher = pair.js.async_publisher(timeout=1.0)
    publisher.publish_many([("s.a", b"%d" % number) for number in range(COUNT)], pair.now)
    pair.run_until(publisher.answered())
    pair.lose_link()
    batch = pair.js.fast_publisher(gap="ok")
    messages = [("s.b", b"%d" % number) for number in range(COUNT)]
    while batch.sequence < COUNT:
        if not batch.publish_many(messages[batch.sequence :], pair.now):
            pair.run_until(batch.ready())
    pair.run_until(batch.commit(pair.now))
    pair.advance(300)  # keep-alive
    pair.network.cluster.conditions = NetworkConditions()  # what is lost again and again would end the read
    reader = pair.js.get_batch("S", now=pair.now)
    read: list[int] = []
    more = True
    while more or not reader.finished:
        pair.run_until(reader.readable())
        seqs = [message.seq for message in reader.pop_many(100, pair.now)]
        more = bool(seqs)
        read += seqs
    stored = [message.payload for message in pair.server.stream("S")]
    return pair.now, [repr(event) for event in pair.events], stored, read


@promise("Early and repeated calls of `handle_timeout` are harmless.")
@promise("Early and repeated calls are harmless.", of="jsproto:BatchAdvisories")
@promise("Early and repeated calls are harmless.", of="jsproto:Session")
@pytest.mark.parametrize("seed", first(range(10), 2))
def test_early_and_repeated_calls_change_nothing(seed: int) -> None:
    assert run(Restless, seed) == run(Pair, seed)


@promise("Early and repeated calls of `handle_timeout` are harmless.")
@promise("Early and repeated calls are harmless.", of="jsproto:Session")
@pytest.mark.parametrize("seed", first(range(10), 2))
def test_late_calls_lose_nothing(seed: int) -> None:
    _, _, stored, read = run(Late, seed)
    assert read == [*range(1, len(stored) + 1)]
    assert len(stored) > COUNT
