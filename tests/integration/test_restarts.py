"""What a restart takes: the server role loses what a real server loses, and keeps what it keeps (FACTS.md F6.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from json import loads
from typing import Any

import pytest

from jsproto.errors import APIError, ConnectionLostError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, connect
from jsproto_io.testing import serve

CONSUMERS = {
    "durable": ConsumerConfig(name="durable", durable_name="durable"),
    "named": ConsumerConfig(name="named", inactive_threshold=300),
    "memory": ConsumerConfig(name="memory", durable_name="memory", mem_storage=True),
}


@contextmanager
def real(end: str) -> Iterator[tuple[str, Callable[[], None]]]:
    with NatsServer() as server:

        def restart() -> None:
            getattr(server, end)()
            server.start()

        yield server.url, restart


@contextmanager
def role() -> Iterator[tuple[str, Callable[[], None]]]:
    with serve() as server:

        def restart() -> None:
            server.call(lambda role, now: role.restart(now))

        yield server.url, restart


def reach(nc: Connection) -> None:
    """Wait for a link to the server that was started again."""
    while True:
        with suppress(ConnectionLostError):
            nc.flush(timeout=60)
            return


def code_of(verb: Callable[[], Any]) -> int | None:
    """The error code of the API with which ``verb`` fails. None: it succeeds."""
    try:
        verb()
    except APIError as error:
        return error.err_code
    return None


def server_id(nc: Connection) -> str:
    assert nc.server_info is not None
    return nc.server_info.server_id


def program(url: str, restart: Callable[[], None]) -> dict[str, Any]:
    with connect(url, reconnect_time_wait=0.02, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        before = server_id(nc)
        js.create_stream("F", subjects=["f.>"], storage="file", allow_atomic=True)
        js.create_stream("M", subjects=["m.>"], storage="memory")
        for config in CONSUMERS.values():
            js.create_consumer("F", config)
        for number in range(3):
            js.publish("f.a", b"%d" % number, msg_id=str(number))
        nc.publish("f.a", b"staged", headers={"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"})
        nc.flush()
        restart()
        reach(nc)
        state = js.stream_info("F").state
        commit = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
        return {
            "another id": server_id(nc) != before,
            "state": (state.messages, state.first_seq, state.last_seq),
            "memory": code_of(lambda: js.stream_info("M")),
            "consumers": {name: code_of(lambda name=name: js.consumer_info("F", name)) for name in CONSUMERS},  # type: ignore[misc]
            "duplicate": js.publish("f.a", b"2", msg_id="2").duplicate,
            "batch": loads(nc.request("f.a", headers=commit).data)["error"]["err_code"],
            "next": js.publish("f.a", b"next").seq,
        }


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_role_loses_what_a_real_server_loses(end: str) -> None:
    with real(end) as (url, restart):
        seen = program(url, restart)
    with role() as (url, restart):
        assert program(url, restart) == seen
    assert seen["consumers"] == {"durable": None, "named": None, "memory": 10014}
    assert (seen["memory"], seen["duplicate"], seen["batch"], seen["next"]) == (10059, True, 10176, 4)
