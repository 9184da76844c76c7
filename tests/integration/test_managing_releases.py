"""Older releases: what they manage and keep as dead letters, and what is refused with the release that has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from jsproto.errors import UnsupportedByServerError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests import servers
from tests.marks import promise

ServerFor = Callable[..., NatsServer]
Verb = Callable[[JetStream], Any]

SINCE: Final[dict[str, list[Verb]]] = {
    "2.11": [
        lambda js: js.create_consumer("S", durable_name="D", priority_groups=["g"], priority_policy="overflow"),
        lambda js: js.create_consumer("S", durable_name="D", pause_until=2**62),
        lambda js: js.pause_consumer("S", "C", timedelta(hours=1)),
        lambda js: js.resume_consumer("S", "C"),
        lambda js: js.unpin_consumer("S", "C", "g"),
        lambda js: js.create_stream("P", subjects=["p"], pedantic=True),
    ],
    "2.12": [
        lambda js: js.create_consumer("S", durable_name="D", priority_groups=["g"], priority_policy="prioritized"),
        lambda js: js.create_stream("P", subjects=["p"], required_api_level=1),
        lambda js: js.update_consumer("S", "C", ack_wait=60, required_api_level=1),
        lambda js: js.update_stream("S", allow_atomic=True),
    ],
    "2.14": [
        lambda js: js.create_consumer("S", durable_name="D", ack_policy="flow_control", deliver_subject="d"),
        lambda js: js.reset_consumer("S", "C"),
        lambda js: js.update_stream("S", allow_batched=True),
    ],
}
"""What older releases refuse without a reason, drop without a word, or do not answer."""


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("version", ["2.10.26", *servers.OLDER])
def test_what_a_release_does_not_have_is_refused_with_the_one_that_has_it(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        js.create_consumer("S", durable_name="C")
        before = js.stream_info("S").config, js.consumer_info("S", "C").config
        for needed, verbs in SINCE.items():
            for verb in verbs if release(version) < release(needed) else ():
                with pytest.raises(UnsupportedByServerError) as caught:
                    verb(js)
                assert (caught.value.needed, caught.value.found) == (needed, version)
        assert (js.stream_names(), js.consumer_names("S")) == (["S"], ["C"])
        assert (js.stream_info("S").config, js.consumer_info("S", "C").config) == before


@pytest.mark.parametrize("version", servers.OLDER)
def test_each_release_manages_and_keeps_dead_letters(version: str, server_for: ServerFor) -> None:
    def bill(order: Any) -> None:
        raise LookupError("no such thing")

    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("ORDERS", subjects=["orders.>"], storage="memory")
        js.create_stream("DEAD", subjects=["dead.>"], storage="memory")
        for n in range(6):
            js.publish(f"orders.{n % 3}", b"%d" % n)
        assert js.find_stream("orders.1") == "ORDERS"
        assert js.stream_subjects("ORDERS") == {f"orders.{n}": 2 for n in range(3)}
        assert js.purge_stream("ORDERS", subject="orders.0", keep=1) == 1
        assert js.delete_msg("ORDERS", 2) is js.secure_delete_msg("ORDERS", 3) is True
        assert js.update_stream("ORDERS", max_age=timedelta(days=30)).config.max_age == 30 * 86_400
        with (
            js.pull_subscribe("orders.*", durable="billing", max_deliver=2) as orders,
            js.subscribe("dead.>", ordered=True) as dead,
            js.dead_letters("ORDERS", "billing", to="DEAD"),
            orders.consume(bill, retry_delay=0.01),
        ):
            letters = [dead.next_msg(timeout=30) for _ in range(3)]
        found = sorted((letter.headers["Dead-Letter-Subject"], letter.data) for letter in letters)
        assert found == [("orders.0", b"3"), ("orders.1", b"4"), ("orders.2", b"5")]
        assert [info.name for info in js.consumers("ORDERS")] == ["billing"]


@promise("A message that was given up without an advisory")
@pytest.mark.parametrize("version", servers.RELEASES)
def test_each_release_shows_what_was_given_up_without_an_advisory(version: str, server_for: ServerFor) -> None:
    """Up to 2.14.0 the ack floor stays before the first message that was given up, for ever."""
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("ORDERS", subjects=["orders.>"], retention="workqueue")
        js.create_stream("DEAD", subjects=["dead.>"], storage="memory")
        for n in range(8):
            js.publish("orders.1", b"%d" % n)
        with js.pull_subscribe("orders.*", durable="billing", max_deliver=1) as orders:
            for message in orders.fetch(8):
                if int(message.data) % 3:
                    message.ack_sync()
                else:
                    message.nak()
            assert orders.fetch(1, timeout=0.2) == []
        with js.subscribe("dead.>", ordered=True) as dead, js.dead_letters("ORDERS", "billing", to="DEAD"):
            assert [dead.next_msg(timeout=30).data for _ in range(3)] == [b"0", b"3", b"6"]
        assert js.stream_info("ORDERS").state.messages == 3
