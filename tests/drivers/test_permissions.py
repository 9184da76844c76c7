"""What every driver must do where the server does not permit something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jsproto.errors import BatchMessageError, MaxPayloadError, PermissionsViolationError
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, rows
from tests.marks import known_fault, requirement

pytestmark = [pytest.mark.anyio, pytest.mark.server]

USERS = """
authorization {
  users: [
    {user: all, password: all}
    {
      user: some, password: some
      permissions: {publish: {deny: ["secret.>", "*.secret.>"]}, subscribe: {deny: "secret.>"}}
    }
    {
      user: clerk, password: clerk
      permissions: {
        publish: {allow: [
          "$JS.API.CONSUMER.CREATE.ORD.*.ord.>", "$JS.API.CONSUMER.DELETE.ORD.*", "$JS.API.CONSUMER.MSG.NEXT.ORD.*",
          "$JS.ACK.>", "$JS.FC.>", "ord.>",
        ]}
      }
    }
    {user: deaf, password: deaf, permissions: {subscribe: {deny: "_INBOX.>"}}}
  ]
}
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    """A server that does not permit everything."""
    with NatsServer(config=USERS) as running:
        yield running


def user(server: NatsServer, name: str) -> str:
    return server.url.replace("//", f"//{name}:{name}@")


@known_fault("a violation of permissions is told beside the publish, which waits for its timeout")
async def test_what_may_not_be_asked_fails_at_once(guarded: NatsServer, connect: Connect) -> None:
    async with connect(user(guarded, "some"), timeout=60) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        verbs: list[Callable[[], Any]] = [
            lambda: nc.request("secret.a"),
            lambda: js.publish(f"{name}.secret.0"),
            lambda: js.publish_batch([(f"{name}.secret.0", b"1"), (f"{name}.a", b"2")]),
            lambda: js.publish_batch(
                [(f"{name}.a", b"1"), (f"{name}.secret.0", b"2"), (f"{name}.a", b"3")], ack_first=False
            ),
            lambda: js.fast_publisher().publish_many(rows(f"{name}.secret", 3)),
        ]
        for verb in verbs:
            with pytest.raises(PermissionsViolationError):
                await verb()
        promised = await js.publish_async(f"{name}.secret.0")
        with pytest.raises(PermissionsViolationError, match=f'Publish to "{name}.secret.0"') as caught:
            await promised.result()
        assert (caught.value.operation, caught.value.subject) == ("publish", f"{name}.secret.0")
        assert (await js.publish(f"{name}.a")).seq == 1  # the connection lives on


async def test_a_message_in_the_middle_of_a_batch(guarded: NatsServer, connect: Connect) -> None:
    async with connect(user(guarded, "some"), timeout=60) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        batch = js.fast_publisher(ack_timeout=60)
        await batch.publish(f"{name}.a", b"1")
        await batch.publish(f"{name}.a", b"2")
        await batch.publish(f"{name}.secret.0", b"3")
        with pytest.raises(BatchMessageError) as refused:
            await batch.publish_many(rows(name, 10_000))
        assert refused.value.message_sequence == 3
        assert refused.value.ack is not None
        assert refused.value.ack.count == 2
        assert isinstance(refused.value.__cause__, PermissionsViolationError)
        atomic = js.atomic_batch(ack_every=2, ack_timeout=60)
        await atomic.add(f"{name}.a", b"1")
        with pytest.raises(BatchMessageError):
            await atomic.add(f"{name}.secret.0", b"2")
        assert (await atomic.commit(f"{name}.a", b"2")).count == 2


async def test_who_may_not_hear_answers_does_not_wait_for_them(guarded: NatsServer, connect: Connect) -> None:
    async with connect(user(guarded, "all")) as nc:
        _, name = await make_stream(nc, allow_atomic=True)
    async with connect(user(guarded, "deaf"), timeout=60) as nc:
        js = nc.jetstream()
        verbs: list[Callable[[], Any]] = [
            lambda: js.stream_info(name),
            lambda: js.publish(f"{name}.a"),
            lambda: js.publish_batch([(f"{name}.a", b"1"), (f"{name}.a", b"2")]),
            lambda: js.fast_publisher(ack_timeout=60).publish_many(rows(name, 3)),
            lambda: js.get_batch(name).__anext__(),
        ]
        for verb in verbs:
            with pytest.raises(PermissionsViolationError, match="Subscription to") as caught:
                await verb()
            assert caught.value.operation == "subscribe"
        async with connect(user(guarded, "deaf"), inbox_prefix="mine", timeout=60) as other:
            assert (await other.jetstream().stream_info(name)).config.name == name


async def test_a_batch_that_may_not_hear_and_whose_first_message_is_too_large(
    guarded: NatsServer, connect: Connect
) -> None:
    """The inbox is open before the message is refused: its denial ends the batch and nothing else."""
    async with connect(user(guarded, "deaf")) as nc:
        batch = nc.jetstream().fast_publisher()
        with pytest.raises(MaxPayloadError):
            await batch.publish("s.a", b"x" * (nc.max_payload + 1))
        await nc.flush()
        with pytest.raises(PermissionsViolationError) as caught:
            await batch.publish("s.a", b"small")
        assert caught.value.operation == "subscribe"
        assert nc.is_connected


@requirement(267)
async def test_consumers_are_permitted_by_what_they_filter(guarded: NatsServer, connect: Connect) -> None:
    async with connect(user(guarded, "all")) as nc:
        await nc.jetstream().create_stream("ORD", subjects=["ord.>", "other.>"])
    async with connect(user(guarded, "clerk")) as nc:
        js = nc.jetstream()
        await nc.publish("ord.a", b"1")
        await nc.flush()
        for subject in ("ord.>", "ord.*", "ord.a"):
            async with await js.subscribe(subject, stream="ORD") as pushed:
                assert (await pushed.next_msg(timeout=20)).data == b"1"
            async with await js.pull_subscribe(subject, stream="ORD") as pulled:
                assert [message.data for message in await pulled.fetch(1, timeout=20)] == [b"1"]
            async with await js.subscribe(subject, stream="ORD", ordered=True) as ordered:
                assert (await ordered.next_msg(timeout=20)).data == b"1"
        named = await js.create_consumer("ORD", name="N", filter_subject="ord.*")
        assert named.config.filter_subject == "ord.*"
        for kind in ({}, {"ordered": True}):
            for forbidden in ("other.>", None):
                with pytest.raises(PermissionsViolationError):
                    await js.subscribe(forbidden, stream="ORD", **kind)
    async with connect(user(guarded, "all")) as nc:
        await nc.jetstream().delete_stream("ORD")


async def test_a_subscription_that_is_not_permitted_raises(guarded: NatsServer, connect: Connect) -> None:
    async with connect(user(guarded, "some")) as nc:
        for queue in (None, "q"):
            with pytest.raises(PermissionsViolationError, match="Subscription to"):
                await (await nc.subscribe("secret.a", queue=queue)).next_msg()
        sub = await nc.subscribe("a")
        await nc.publish("a", b"1")
        assert (await sub.next_msg()).data == b"1"
