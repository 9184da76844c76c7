"""The keywords of a publish against older releases: what works where, and what is said where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jsproto.api_errors import MessageSchedulesPatternInvalidError
from jsproto.errors import UnsupportedByServerError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.marks import promise

ServerFor = Callable[..., NatsServer]

pytestmark = pytest.mark.versions

SCHEDULE = {"target": "s.t"}


@promise("Impossible values raise `LocalProtocolError`")
@pytest.mark.parametrize(
    ("version", "options", "needed"),
    [
        ("2.11.11", {"at": 0, **SCHEDULE}, "2.12"),
        ("2.11.11", {"delay": 5, **SCHEDULE}, "2.12"),
        ("2.11.11", {"incr": 1}, "2.12"),
        ("2.12.8", {"every": 5, **SCHEDULE}, "2.14"),
        ("2.12.8", {"cron": "@daily", **SCHEDULE}, "2.14"),
        ("2.12.8", {"at": 0, "source": "s.s", **SCHEDULE}, "2.14"),
    ],
)
def test_what_a_release_does_not_know_is_refused_by_name(
    version: str, options: Any, needed: str, server_for: ServerFor
) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        with pytest.raises(UnsupportedByServerError) as caught:
            js.publish("s.a", **options)
        assert (caught.value.needed, caught.value.found) == (needed, version)
        with pytest.raises(UnsupportedByServerError):
            js.publish_async("s.a", **options)
        with js.atomic_batch() as batch, pytest.raises(UnsupportedByServerError):
            batch.add("s.a", **options)
        with js.fast_publisher() as publisher, pytest.raises(UnsupportedByServerError):
            publisher.publish("s.a", **options)
        assert js.stream_info("S").state.messages == 0


def test_a_release_without_schedules_stores_one_as_if_it_were_none(server_for: ServerFor) -> None:
    """So this side refuses it."""
    with connect(server_for("2.11.11").url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        headers = {"Nats-Schedule": "@at 1970-01-01T00:00:00Z", "Nats-Schedule-Target": "s.t"}
        assert js.publish("s.a", headers=headers).seq == 1


def test_what_2_11_knows(server_for: ServerFor) -> None:
    with connect(server_for("2.11.11").url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory", allow_msg_ttl=True)
        js.publish("s.b")
        ack = js.publish("s.a", ttl=60, expected_last_subject_seq=1, expected_last_subject_seq_subject="s.b")
        assert ack.seq == 2
        with nc.trace() as collector:
            js.publish("s.a", trace=collector.subject)
            assert collector.collect().is_complete


def test_what_2_12_knows_of_schedules(server_for: ServerFor) -> None:
    with connect(server_for("2.12.8").url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory", allow_msg_schedules=True, allow_msg_ttl=True)
        made = js.subscribe("s.t", stream="S", ordered=True)
        js.publish("s.later", b"x", delay=0, target="s.t", schedule_ttl=60)
        assert made.next_msg(timeout=20).data == b"x"
        with pytest.raises(MessageSchedulesPatternInvalidError):
            js.publish("s.later", headers={"Nats-Schedule": "@every 1h", "Nats-Schedule-Target": "s.t"})
