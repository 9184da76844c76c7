"""What a consumer without acknowledgements delivers while its server is stopped and killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import pytest

from jsproto.errors import Error
from jsproto.events import ConsumerRestarted, DeliveriesLost, Event
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests import servers
from tests.marks import promise

SOON = 0.02  # seconds
ROUNDS = 4
EACH = 300  # messages between two ends of the server


@contextmanager
def publishing(js: JetStream) -> Iterator[None]:
    """Somebody publishes all the time, whether there is a server or not."""
    over = threading.Event()

    def publish() -> None:
        while not over.is_set():
            with suppress(Error):
                js.publish("s.a", timeout=2)

    thread = threading.Thread(target=publish)
    thread.start()
    yield
    over.set()
    thread.join(30)
    assert not thread.is_alive()


@promise("every message at most once, in order, until a server is killed")
@promise("every message at most once, in order, until a server is killed: messages may then")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_comes_again_without_acknowledgements_is_told(end: str) -> None:
    """In order and at most once; a server that was killed may have forgotten what it delivered, which is told."""
    events: list[Event] = []
    got: list[int] = []
    with (
        NatsServer(config=servers.config()) as server,
        connect(server.url, event_cb=events.append, reconnect_time_wait=SOON, max_reconnect_attempts=-1) as nc,
        connect(server.url, reconnect_time_wait=SOON, max_reconnect_attempts=-1) as other,
    ):
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="file")
        subscription = js.subscribe("s.>", durable="D", ack_policy="none")
        with publishing(other.jetstream()):
            for _ in range(ROUNDS):
                for _ in range(EACH):
                    got.append(subscription.next_msg(timeout=30).metadata.sequence.stream)
                getattr(server, end)()
                server.start()
            for _ in range(EACH):
                got.append(subscription.next_msg(timeout=30).metadata.sequence.stream)
    backwards = sum(later <= earlier for earlier, later in pairwise(got))
    restarts = sum(isinstance(event, ConsumerRestarted) for event in events)
    lost = sum(event.last - event.first + 1 for event in events if isinstance(event, DeliveriesLost))
    assert backwards <= restarts <= (ROUNDS if end == "kill" else 0)
    assert len({*range(1, max(got) + 1)} - {*got}) <= lost
