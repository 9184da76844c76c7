"""A cluster whose members change under a connection: each is replaced by one with another address, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from jsproto.errors import Error
from jsproto.events import Connected, Event
from jsproto_io.sync import Connection, connect
from tests.integration.cluster import READY_WITHIN, SIZE, Cluster
from tests.marks import promise

pytestmark = pytest.mark.slow
ROUNDS = 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def known_to(nc: Connection) -> set[str]:
    """The addresses that would be dialled."""
    return {address.url for address in nc._session._server_pool._pool}


def until_knows(nc: Connection, wanted: set[str]) -> None:
    """Until the link is there, and its server has named ``wanted``."""
    until = monotonic() + READY_WITHIN
    while not (nc.is_connected and wanted <= known_to(nc)):
        assert monotonic() < until, (wanted, known_to(nc))
        try:
            nc.flush(timeout=1)
        except Error:
            assert not nc.is_closed
            sleep(0.01)


@promise("Servers that a cluster announces are dialled after the given ones")
def test_a_connection_outlives_all_the_servers_it_was_given(cluster: Cluster) -> None:
    events: list[Event] = []
    first = set(cluster.urls)
    with connect(cluster.urls, event_cb=events.append, max_reconnect_attempts=2, reconnect_time_wait=0.2) as nc:
        for _ in range(ROUNDS):
            for number in range(SIZE):
                cluster.replace(number)
                until_knows(nc, set(cluster.urls))
        assert not first & set(cluster.urls)
        assert len(known_to(nc) - first) == SIZE
        assert nc.connected_url in cluster.urls
        assert sum(isinstance(event, Connected) for event in events) > 1


def test_who_ignores_what_servers_announce_dials_the_given_ones_alone(cluster: Cluster) -> None:
    given = cluster.urls[0]
    with connect(given, ignore_discovered_servers=True) as nc:
        nc.flush()
        assert nc.server_info is not None
        assert len(nc.server_info.connect_urls or ()) == SIZE
        assert known_to(nc) == {given}
