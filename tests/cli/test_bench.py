"""``jsproto bench``: what it measures, and that it leaves nothing."""

from __future__ import annotations

import pytest

from jsproto_io.cli.commands import bench
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.cli.calling import Place

OWN = ["publish, an ack each", "fast ingest", "fetch and ack", "read a range"]


@pytest.fixture
def real(server: NatsServer) -> Place:
    return Place(server.url)


def measured(place: Place, *options: str) -> list[tuple[str, str]]:
    found = place.ok("bench", "--msgs", "30", "--storage", "memory", "--json", *options).objects
    assert {each["messages"] for each in found} == {30}
    assert all(each["seconds"] > 0 and each["messages_per_s"] > 0 for each in found)
    return [(each["client"], each["what"]) for each in found]


def test_it_measures_what_is_installed_and_leaves_nothing(real: Place) -> None:
    peer = [("nats-py", what) for what in ("publish, an ack each", "fetch and ack")]
    assert measured(real) == [*(("jsproto", what) for what in OWN), *peer]
    with connect(real.url) as nc:
        assert [name for name in nc.jetstream().stream_names() if name.startswith("BENCH-")] == []


def test_without_the_peer_it_measures_itself(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    assert measured(memory, "--quiet") == [("jsproto", what) for what in OWN]
    done = memory.call("bench", "--msgs", "30", COLUMNS="60")
    assert (done.code, done.err) == (0, "jsproto: nats-py is not installed: it is not measured\n")
    assert [line.split()[0] for line in done.out.splitlines()[2:]] == ["jsproto"] * 4
    assert max(map(len, done.out.splitlines())) <= 60


def test_a_storage_that_is_none(memory: Place) -> None:
    assert memory.fails(2, "bench", "--storage", "disk") == "stream option storage is 'file' or 'memory', not 'disk'"
