"""What every driver's objects say of themselves: their state, in one line, without payloads and secrets."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

import jsproto_io.sync
from jsproto.errors import AuthorizationError, ConnectionLostError, Error, NoServersError, TimeoutError
from jsproto.events import Disconnected, Event
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.fake import FakeServer, Peer
from tests.drivers.test_facade import make_stream, read_all

pytestmark = pytest.mark.anyio

SECRET = "s3cret"
USERS = f'authorization {{ users: [{{user: "a", password: "{SECRET}"}}] }}'


def shown(thing: Any) -> str:
    """The repr of a facade. The one for threads is wrapped by the tests, and the object is inside."""
    text = repr(getattr(thing, "_target", thing))
    assert "\n" not in text
    assert "payload" not in text
    return text


@pytest.mark.server
async def test_a_connection(connect: Connect) -> None:
    events: list[Event] = []
    with NatsServer(config=USERS) as server:
        async with connect(
            server.url.replace("//", f"//a:{SECRET}@"), reconnect_time_wait=0.01, max_reconnect_attempts=-1,
            event_cb=events.append,
        ) as nc:  # fmt: skip
            assert shown(nc) == f"<Connection {server.url} connected, nats-server {server.version}, 0 bytes waiting>"
            sub = await nc.subscribe("a.*", queue="q")
            assert shown(sub) == "<Subscription 'a.*', queue group 'q': 0 waiting>"
            plain = await nc.subscribe("a.*", pending_msgs_limit=1)
            for _ in range(2):
                await nc.publish("a.b", b"payload")
            await nc.flush()
            assert shown(plain) == "<Subscription 'a.*': 1 waiting, 1 dropped>"
            assert shown(await plain.next_msg()) == "<Message 'a.b' 7 bytes>"
            await plain.unsubscribe()
            assert shown(plain) == "<Subscription 'a.*': 0 waiting, 1 dropped, ended: the subscription was closed>"
            server.stop()
            while not any(type(event) is Disconnected for event in events):
                with suppress(ConnectionLostError, TimeoutError):  # which one depends on who notices the end first
                    await nc.flush(timeout=0.05)
            assert shown(nc).startswith(f"<Connection {server.url} reconnecting, ")
            await nc.close()
            assert shown(nc) == f"<Connection {server.url} closed>"
    assert SECRET not in repr(events)


async def test_batches_and_publishers(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        fast = js.fast_publisher(batch_id="F")
        assert shown(fast) == "<FastPublisher F: idle, 0 sent, 0 acknowledged>"
        await fast.publish(f"{name}.a", b"payload")
        await fast.commit()
        assert shown(fast) == "<FastPublisher F: committed, 1 sent, 1 acknowledged>"
        broken = js.fast_publisher(batch_id="B")
        await broken.publish("nowhere.at.all", b"payload")
        with pytest.raises(Error) as caught:
            await broken.commit()
        assert shown(broken) == f"<FastPublisher B: failed, 1 sent, 0 acknowledged, failed: {caught.value}>"
        atomic = js.atomic_batch(batch_id="A")
        await atomic.add(f"{name}.a", b"payload")
        assert shown(atomic) == "<AtomicBatch A: open, 1 sent, 1 acknowledged>"
        await atomic.discard()
        assert shown(atomic).startswith("<AtomicBatch A: discarded, ")
        ahead = js.async_publisher()
        await (await ahead.publish(f"{name}.a", b"payload")).result()
        assert shown(ahead) == "<PipelinedPublisher 1 published, 0 pending, 1 acknowledged, 0 failed>"
        assert re.fullmatch(r"<PendingAck <Ticket (pending|done: .*)>>", shown(await js.publish_async(f"{name}.a")))
        await js.publish_async_completed()
        assert shown(js.batch_advisories(name)) == f"<BatchAdvisories of all batches of stream {name}: 0 waiting>"
        assert shown(js.batch_advisories(name, "A")) == f"<BatchAdvisories of batch A of stream {name}: 0 waiting>"


async def test_streams_consumers_and_what_is_read(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        for _ in range(3):
            await js.publish(f"{name}.a", b"payload")
        info = await js.stream_info(name)
        assert shown(info) == (
            f"<StreamInfo {name} [{name}.>]: 3 messages, {info.state.bytes} bytes, sequences 1 to 3, 0 consumers>"
        )
        consumer = await js.create_consumer(name, durable_name="C")
        assert shown(consumer) == (
            f"<ConsumerInfo C of stream {name} (pull): 3 pending, 0 without an acknowledgement, 0 redelivered>"
        )
        sub = await js.pull_subscribe_bind("C", name)
        (message,) = await sub.fetch(1)
        assert shown(message) == f"<JSMsg '{name}.a' 7 bytes>"
        assert shown(sub) == f"<PullSubscription consumer C of stream {name}: 0 waiting>"
        await sub.unsubscribe()
        assert shown(sub).startswith(f"<PullSubscription consumer C of stream {name}: 0 waiting, ended: ")
        pushed = await js.subscribe(f"{name}.a", durable="P")
        await pushed.next_msg()
        assert re.fullmatch(rf"<PushSubscription consumer P of stream {name}: \d waiting>", shown(pushed))
        reader = js.get_batch(name)
        position = r"read up to sequence \d|at its end"  # a thread may have received the page already
        assert re.fullmatch(rf"<BatchReader of stream {name}: ({position})>", shown(reader))
        assert shown((await read_all(reader))[0]) == f"<StoredMsg 1 '{name}.a' 7 bytes>"
        assert shown(reader) == f"<BatchReader of stream {name}: at its end>"
        session = js.consistent_session()
        await session.publish(f"{name}.a", b"payload")
        assert shown(session) == f"<ConsistentSession open: <SessionToken {name}:4/0>>"
        assert shown(js) == f"<JetStream $JS.API on {shown(nc)}>"
        assert shown(js.counter(name)) == f"<Counter of stream {name}>"
        copy = js.copy(name, "C", "OTHER")
        assert shown(copy) == (
            f"<StreamCopy of consumer C of stream {name} to stream OTHER: not running, 0 copied, position 0>"
        )


async def test_work_on_messages(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        sub = await js.pull_subscribe(f"{name}.a", durable="C")
        where = f"consumer C of stream {name}"
        async with sub.messages() as messages:
            assert shown(messages) == f"<PullMessages {where}: 0 waiting>"
        assert shown(messages) == f"<PullMessages {where}: closed>"
        async with sub.consume(print) as work:
            assert shown(work) == f"<ConsumeContext {where}: 0 running, 0 waiting, 0 finished, 0 failed>"
        assert shown(work) == f"<ConsumeContext {where}: 0 running, 0 waiting, 0 finished, 0 failed, ended>"
        async with nc.trace() as collector:
            assert shown(collector) == f"<TraceCollector {collector.subject}: 0 reports, not complete>"


def test_each_class_shows_its_state() -> None:
    for name in jsproto_io.sync.__all__:
        kind = getattr(jsproto_io.sync, name)
        assert not isinstance(kind, type) or any("__repr__" in vars(each) for each in kind.__mro__[:-1]), name


# -- errors of the handshake -------------------------------------------------------------------------------------------


@pytest.mark.server
async def test_an_error_of_the_handshake_names_the_server(connect: Connect, closed_port: int) -> None:
    with NatsServer(config=USERS) as server:
        address = server.url
        for url in (address.replace("//", "//a:wr0ng@"), address.replace("//", "//wr0ng@"), address):
            with pytest.raises(AuthorizationError) as caught:
                async with connect(url):
                    pass
            assert str(caught.value) == f"{address}: Authorization Violation"
    with pytest.raises(NoServersError) as nobody:
        async with connect(f"nats://a:{SECRET}@127.0.0.1:{closed_port}"):
            pass
    assert str(nobody.value).startswith(f"cannot connect: nats://127.0.0.1:{closed_port}: ")
    assert SECRET not in str(nobody.value)


@pytest.mark.parametrize("said", [b"", b"INFO {}\r\n", b"HTTP/1.1 400 Bad Request\r\n", b"INFO {nonsense}\r\n"])
async def test_a_handshake_that_breaks_off_names_the_server(connect: Connect, said: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.send(said)

    with FakeServer(script) as server:
        with pytest.raises(Error) as caught:
            async with connect(server.url.replace("//", f"//a:{SECRET}@")):
                pass
        assert server.url.removeprefix("nats://") in str(caught.value)
        assert SECRET not in str(caught.value)
