"""Both roles: a client makes streams that copy by durable consumers, and the server role copies, whatever is lost."""

from __future__ import annotations

from typing import Any, Final

import pytest

from jsproto.api_errors import (
    MirrorConsumerRequiresAckFCError,
    SourceConsumerRequiresAckFCError,
    SourceDurableConsumerDuplicateDetectedError,
)
from jsproto.errors import UnsupportedByServerError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from jsproto.server.server import Server
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.pair import Pair
from jsproto.testing.world import TOKEN
from tests.effort import first
from tests.marks import requirement

CALM: Final = NetworkConditions()
STORMY: Final = NetworkConditions(latency=0.001, jitter=0.003, loss=0.05, duplication=0.05, reordering=0.05)
COUNT: Final = 200
IN_2099: Final = 4_070_908_800_000_000_000
USED: Final[dict[str, Any]] = {"consumer": {"name": "D", "deliver_subject": "to.d"}}


class Copying:
    """A server with a stream S, and a client of it."""

    def __init__(self, retention: str = "workqueue", *, seed: int = 1, **options: Any) -> None:
        self.network = Network(seed, CALM)
        self.pair = Pair(network=self.network, server=Server(token=TOKEN, bus=self.network.cluster, **options))
        self.pair.connect()
        self.published = 0
        self.make("S", subjects=["s.>"], retention=retention)

    def make(self, name: str, **options: Any) -> None:
        config = StreamConfig(name, storage="memory", **options)
        self.pair.run_until(self.pair.js.create_stream(config, now=self.pair.now))

    def consumer(self, config: ConsumerConfig) -> None:
        self.pair.run_until(self.pair.js.create_consumer("S", config, now=self.pair.now))

    def info(self, name: str) -> Any:
        return self.pair.run_until(self.pair.js.stream_info(name, now=self.pair.now))

    def publish(self, count: int) -> None:
        """Somebody publishes, on a way without faults."""
        cluster, stream = self.network.cluster, self.pair.server.stream("S")
        conditions, cluster.conditions = cluster.conditions, CALM
        for _ in range(count):
            self.published += 1
            self.pair.server.publish("s.a", b"%d" % self.published)
        self.pair.run(lambda: stream.last_seq == self.published)
        cluster.conditions = conditions

    def payloads(self, name: str) -> list[int]:
        return [int(message.payload) for message in self.pair.server.stream(name)]

    def copied(self, name: str = "T") -> None:
        """Wait until all is copied, and the queue is empty."""
        copies, queue = (self.pair.server.stream(each) for each in (name, "S"))
        self.pair.run(lambda: len(copies) == self.published and not len(queue))
        assert self.payloads(name) == [*range(1, self.published + 1)]


@requirement(162)
@pytest.mark.parametrize("seed", first(range(4), 2))
@pytest.mark.parametrize("kind", ["sources", "mirror"])
@pytest.mark.parametrize("is_managed", [True, False])
def test_a_work_queue_is_copied_whole(seed: int, kind: str, is_managed: bool) -> None:
    copying = Copying(seed=seed)
    if is_managed:
        copying.consumer(sourcing_consumer("D", "to.d", max_ack_pending=20))
    copying.publish(COUNT)
    block = {"name": "S", **(USED if is_managed else {})}
    copying.make("T", **{kind: [block] if kind == "sources" else block})
    copying.network.cluster.conditions = STORMY if seed else CALM
    copying.pair.advance(2.0)
    copying.publish(COUNT)
    copying.copied()
    (found,) = copying.info("T").sources or [copying.info("T").mirror]
    assert (found.name, found.failure) == ("S", None)
    assert found.seq == (2 * COUNT if kind == "sources" else None)


@requirement(162)
def test_a_client_sees_and_pauses_the_consumer_of_the_server() -> None:
    copying = Copying("interest")
    pair = copying.pair
    copying.make("T", sources=[{"name": "S"}])
    pair.advance(0.2)
    (name,) = pair.run_until(pair.js.consumer_names("S", now=pair.now))
    pair.run_until(pair.js.pause_consumer("S", name, IN_2099, now=pair.now))
    copying.publish(3)
    pair.advance(5.0)
    assert copying.payloads("T") == []
    assert (copying.info("T").sources[0].lag, copying.info("S").state.consumer_count) == (0, 1)
    pair.run_until(pair.js.resume_consumer("S", name, now=pair.now))
    copying.copied()
    reset = pair.run_until(pair.js.reset_consumer("S", name, 1, now=pair.now))
    assert (reset.reset_seq, reset.info.config.sourcing) == (1, True)
    pair.advance(5.0)
    copying.publish(1)
    copying.copied()
    pair.run_until(pair.js.delete_stream("T", now=pair.now))
    assert pair.run_until(pair.js.consumer_names("S", now=pair.now)) == []


@requirement(163, 164)
def test_the_client_has_types_for_what_is_wrong_with_a_source() -> None:
    copying = Copying("limits")
    pair = copying.pair
    copying.consumer(ConsumerConfig(durable_name="D", deliver_subject="to.d", ack_policy="all"))
    copying.make("T", sources=[{"name": "S", **USED}])
    copying.make("M", mirror={"name": "S", **USED})
    pair.advance(1.0)
    assert type(copying.info("T").sources[0].failure) is SourceConsumerRequiresAckFCError
    assert type(copying.info("M").mirror.failure) is MirrorConsumerRequiresAckFCError
    twice = [{"name": "S", **USED}, {"name": "S", **USED, "subject_transforms": [{"src": "s.a", "dest": "x"}]}]
    with pytest.raises(SourceDurableConsumerDuplicateDetectedError):
        copying.make("U", sources=twice)


def test_server_managed_is_for_the_draft() -> None:
    managed = {"consumer": {"name": "D", "server_managed": True}, "opt_start_seq": 2}
    with pytest.raises(UnsupportedByServerError):
        Copying().make("T", sources=[{"name": "S", **managed}])
    copying = Copying("limits", dialect="draft")
    copying.publish(3)
    copying.make("T", sources=[{"name": "S", **managed}])
    copying.pair.run(lambda: copying.payloads("T") == [2, 3])
