"""Pulling and acknowledging on every release, and with the ack subjects that only a feature flag gives (version 2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

import pytest

from jsproto import errors
from jsproto.grammar.consumer import ConsumerOptions
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import Connection, JetStream, PullSubscription, connect
from tests import servers
from tests.marks import known_fault, promise, requirement

ServerFor = Callable[..., NatsServer]
COUNT = 1_200
SERVERS = [(version, "") for version in servers.RELEASES] + [(servers.NEWEST, servers.ACK_V2)]

pytestmark = pytest.mark.versions


@pytest.fixture(params=SERVERS, ids=[f"{version}{'-v2' if config else ''}" for version, config in SERVERS])
def server_here(request: pytest.FixtureRequest, server_for: ServerFor) -> NatsServer:
    """One release, or the newest one with ack subjects of version 2."""
    version, config = request.param
    return server_for(version, config=config)


def stream(nc: Connection, count: int = COUNT) -> JetStream:
    js = nc.jetstream()
    js.create_stream("S", subjects=["s.>"], storage="memory")
    with js.async_publisher() as publisher:
        publisher.publish_many(("s.a", b"%d" % n) for n in range(1, count + 1))
    return js


@known_fault("version 2 of the ack subjects kills the ordered consumer, and the connection with it")
@known_fault("version 2 of the ack subjects has too many tokens for a fetch")
def test_every_message_once_and_every_one_acknowledged(server_here: NatsServer) -> None:
    with connect(server_here.url) as nc:
        js = stream(nc)
        with js.pull_subscribe("s.*", "D") as sub:
            seen: list[bytes] = []
            while len(seen) < COUNT:
                messages = sub.fetch(min(500, COUNT - len(seen)))
                seen += [message.data for message in messages]
                metadata = messages[-1].metadata
                assert (metadata.stream, metadata.consumer, metadata.sequence.stream) == ("S", "D", len(seen))
                assert sub.ack_many(messages) == len(messages)
            nc.flush()
            assert seen == [b"%d" % n for n in range(1, COUNT + 1)]
            assert sub.fetch_no_wait(5) == []
            while (info := sub.consumer_info()).num_ack_pending:  # the server takes acknowledgements in its own time
                time.sleep(0.01)
            assert info.ack_floor.stream_seq == COUNT


@requirement(207, 208, 211)
def test_the_version_of_the_ack_subjects(server_here: NatsServer, request: pytest.FixtureRequest) -> None:
    with connect(server_here.url) as nc, stream(nc, 1).pull_subscribe("s.*") as sub:
        (message,) = sub.fetch(1)
        tokens = message.reply.split(".")
        wanted = 11 if "v2" in request.node.name else 9
        assert len(tokens) == wanted
        assert message.metadata.domain is None
        assert (message.metadata.account_hash is None) == (wanted == 9)
        message.ack_sync()


@requirement(213)
@promise("returns when the server has it")
@promise("End the deliveries of the message, though it is not processed.")
def test_each_acknowledgement_means_what_it_says(server_here: NatsServer) -> None:
    with connect(server_here.url) as nc, stream(nc, 4).pull_subscribe("s.*", ack_wait=20) as sub:
        acked, naked, later, ended = sub.fetch(4)
        acked.ack()
        naked.nak()
        later.nak(0.2)
        ended.term("no use")
        assert [message.data for message in sub.fetch(1)] == [b"2"]
        (again,) = sub.fetch(1)
        assert (again.data, again.metadata.num_delivered) == (b"3", 2)
        again.ack_sync()
        assert sub.consumer_info().num_ack_pending == 1


def test_a_partial_fetch_without_waiting(server_here: NatsServer) -> None:
    with connect(server_here.url) as nc, stream(nc, 2).pull_subscribe("s.*") as sub:
        assert [message.data for message in sub.fetch_no_wait(5)] == [b"1", b"2"]
        assert sub.fetch_no_wait(5) == []
        assert sub.fetch(5, timeout=0.1) == []


def test_a_pinned_client_that_was_unpinned_asks_again(server_here: NatsServer) -> None:
    with connect(server_here.url) as nc:
        js = stream(nc, 1)
        options: ConsumerOptions = {"priority_groups": ["g"], "priority_policy": "pinned_client"}
        with js.pull_subscribe("s.*", "D", group="g", **options) as sub, sub.messages() as messages:
            pins = []
            for n in range(1, 5):
                message = messages.next_msg(timeout=60)
                assert message.data == b"%d" % n
                pins.append(message.headers["Nats-Pin-Id"])
                js.unpin_consumer("S", "D", "g")
                js.publish("s.a", b"%d" % (n + 1))
            assert len(set(pins)) == 4


@known_fault("a fetch from a consumer that is deleted waits for all of its time")
def test_a_deleted_consumer_is_told_at_once(server_here: NatsServer) -> None:
    with connect(server_here.url) as nc:
        js = stream(nc, 0)
        sub = js.pull_subscribe("s.*", "D")
        failures: list[errors.Error] = []

        def fetch() -> None:
            try:
                sub.fetch(1, timeout=300)
            except errors.Error as error:
                failures.append(error)

        thread = Thread(target=fetch)
        thread.start()
        wait_for_request(sub)
        js.delete_consumer("S", "D")
        thread.join(60)
        assert [type(failure) for failure in failures] == [errors.ConsumerDeletedError]


@promise("A fetch waits through elections and lost links, and so does `messages()`.")
def test_a_stream_of_messages_survives_a_restart(server_for: ServerFor) -> None:
    server = server_for()
    with connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"])
        with js.pull_subscribe("s.*", "D") as sub, sub.messages(heartbeat=0.5) as messages:
            for n in range(1, 4):
                js.publish("s.a", b"%d" % n)
            for n in range(1, 4):
                message = messages.next_msg(timeout=30)
                assert message.data == b"%d" % n
                message.ack_sync()
            server.restart()
            publish_somehow(js, b"4")
            assert messages.next_msg(timeout=60).data == b"4"


def wait_for_request(sub: PullSubscription) -> None:
    """Until the server holds a pull request."""
    while not sub.consumer_info().num_waiting:
        time.sleep(0.01)


def publish_somehow(js: JetStream, payload: bytes) -> None:
    """Until it is stored."""
    while True:
        try:
            js.publish("s.a", payload, msg_id="once")
        except errors.Error:
            time.sleep(0.05)
        else:
            return
