"""What a user may not do on a real server, question by question: each verb that asks it says so at once.

The table of all verbs of the core is in ``tests/pair/test_refusals.py``, in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from jsproto.errors import Error, LocalProtocolError, PermissionsViolationError
from jsproto.events import ConversationFailed
from jsproto_io.nats_server import NatsServer
from tests.drivers.conftest import Connect
from tests.marks import promise, requirement

pytestmark = [pytest.mark.anyio, pytest.mark.server]

COUNT: Final = 4_000  # messages of 1 kB: servers ask for flow control after less


async def fetched(js: Any, verb: str) -> Any:
    async with await js.pull_subscribe_bind("d", "S") as sub:
        if verb == "fetch":
            return await sub.fetch(1)
        if verb == "fetch_no_wait":
            return await sub.fetch_no_wait(1)
        return await sub.messages().next_msg()


async def acknowledged(js: Any, *, sync: bool) -> Any:
    async with await js.pull_subscribe_bind("d", "S") as sub:
        (message,) = await sub.fetch(1)
        await (message.ack_sync() if sync else message.ack())
        return await sub.fetch(1, timeout=60)


async def pushed(js: Any, *, ordered: bool) -> Any:
    options: dict[str, Any] = {} if ordered else {"flow_control": True, "ack_policy": "none"}
    async with await js.subscribe("s.>", ordered=ordered, **options) as sub:
        for _ in range(COUNT):
            await sub.next_msg()


async def looked_up(js: Any, level: str) -> Any:
    return await js.consistent_session(level=level).get_msg("S", 1)


async def listed(reader: Any) -> Any:
    return [each async for each in reader]


async def published(js: Any, kind: str) -> Any:
    if kind == "atomic":
        return await js.publish_batch([("s.a", b"1"), ("s.a", b"2")])
    batch = js.fast_publisher()
    await batch.publish("s.a", b"1")
    return await batch.commit()


API = "$JS.API."
TABLE: Final[dict[str, dict[str, Callable[[Any], Any]]]] = {
    API + "CONSUMER.MSG.NEXT.>": {
        each: partial(fetched, verb=each) for each in ("fetch", "fetch_no_wait", "messages")
    },
    "$JS.ACK.>": {
        "ack": lambda js: acknowledged(js, sync=False), "ack_sync": lambda js: acknowledged(js, sync=True),
    },
    "$JS.FC.>": {
        "ordered": lambda js: pushed(js, ordered=True), "push": lambda js: pushed(js, ordered=False),
    },
    API + "DIRECT.GET.>": {
        "get_msg": lambda js: js.get_msg("S", 1), "get_last_msg": lambda js: js.get_last_msg("S", "s.a"),
        "session": lambda js: looked_up(js, "direct"), "get_batch": lambda js: listed(js.get_batch("S")),
        "get_last_msgs_for": lambda js: listed(js.get_last_msgs_for("S", ["s.*"])),
    },
    API + "STREAM.MSG.GET.>": {
        "get_msg": lambda js: js.get_msg("S", 1, level="leader"), "session": lambda js: looked_up(js, "leader"),
    },
    API + "CONSUMER.INFO.>": {"consumer_info": lambda js: js.consumer_info("S", "d")},
    API + "CONSUMER.CREATE.>": {
        "pull_subscribe": lambda js: js.pull_subscribe("s.>"), "subscribe": lambda js: js.subscribe("s.>"),
        "ordered": lambda js: js.subscribe("s.>", ordered=True),
    },
    API + "CONSUMER.DELETE.>": {"delete_consumer": lambda js: js.delete_consumer("S", "d")},
    API + "CONSUMER.RESET.>": {"reset_consumer": lambda js: js.reset_consumer("S", "d")},
    API + "CONSUMER.NAMES.>": {"consumer_names": lambda js: js.consumer_names("S")},
    API + "STREAM.INFO.>": {"stream_info": lambda js: js.stream_info("S")},
    API + "STREAM.NAMES": {
        "stream_names": lambda js: js.stream_names(), "subscribe": lambda js: js.subscribe("s.>"),
    },
    API + "STREAM.PURGE.>": {"purge_stream": lambda js: js.purge_stream("S")},
    API + "STREAM.MSG.DELETE.>": {"delete_msg": lambda js: js.delete_msg("S", 1)},
    API + "INFO": {"account_info": lambda js: js.account_info()},
    "s.>": {
        "publish": lambda js: js.publish("s.a"), "fast": lambda js: published(js, "fast"),
        "atomic": lambda js: published(js, "atomic"),
    },
}  # fmt: skip


def _users() -> str:
    denied = "\n".join(
        f'{{user: u{number}, password: p, permissions: {{publish: {{deny: "{question}"}}}}}}'
        for number, question in enumerate(TABLE)
    )
    return f"""authorization {{ users: [
        {{user: all, password: p}}
        {{user: puller, password: p, permissions: {{
            publish: ["$JS.API.CONSUMER.MSG.NEXT.S.d", "$JS.ACK.S.d.>"], subscribe: "_INBOX.>"}}}}
        {{user: deaf, password: p, permissions: {{subscribe: {{deny: "_INBOX.>"}}}}}}
        {denied} ] }}"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    """A server with one user for each question, who may not ask it, and a stream."""
    from jsproto_io.sync import connect

    with NatsServer(config=_users()) as running:
        with connect(running.url, user="all", password="p") as nc:
            js = nc.jetstream()
            js.create_stream(
                "S", subjects=["s.>"], storage="memory", allow_direct=True, allow_batched=True, allow_atomic=True
            )
            js.create_consumer("S", durable_name="d", ack_wait=1)
            with js.fast_publisher() as batch:
                batch.publish_many([("s.a", bytes(1000))] * COUNT)
                batch.commit()
        yield running


@promise("A forbidden request raises `PermissionsViolationError`")
@promise("That holds for the requests that the library makes by itself")
@promise("A consumer that may not be acknowledged ends.")
@pytest.mark.parametrize("question", TABLE)
async def test_a_refusal_is_heard(guarded: NatsServer, connect: Connect, question: str) -> None:
    user = f"u{[*TABLE].index(question)}"
    async with connect(guarded.url, user=user, password="p", timeout=60) as nc:
        for ask in TABLE[question].values():
            with pytest.raises(PermissionsViolationError) as caught:
                await ask(nc.jetstream())
            assert caught.value.operation == "publish"
        assert nc.is_connected


@requirement(267)
@promise("`pull_subscribe_bind` needs no right to look up the consumer.")
async def test_who_may_only_pull_and_acknowledge(guarded: NatsServer, connect: Connect) -> None:
    async with connect(guarded.url, user="puller", password="p") as nc:
        js = nc.jetstream()
        subscribes: list[Callable[[], Any]] = [
            lambda: js.pull_subscribe_bind("d", "S"),
            lambda: js.pull_subscribe("s.>", "d", stream="S"),
        ]
        for subscribe in subscribes:
            async with await subscribe() as sub:
                messages = await sub.fetch(3, timeout=20)
                assert len(messages) == 3
                await messages[0].ack_sync()
        with pytest.raises(PermissionsViolationError):
            await js.pull_subscribe("s.>", stream="S")  # which consumer?
        with pytest.raises(PermissionsViolationError):
            await js.subscribe("s.>", stream="S")


async def test_who_may_not_hear(guarded: NatsServer, connect: Connect) -> None:
    async with connect(guarded.url, user="deaf", password="p", timeout=60) as nc:
        js = nc.jetstream()
        async with await js.pull_subscribe_bind("d", "S") as sub:
            with pytest.raises(PermissionsViolationError):
                await sub.fetch(1)
        for ask in (
            lambda: js.subscribe("s.>"),
            lambda: js.subscribe("s.>", stream="S", ordered=True),
            lambda: looked_up(js, "direct"),
            lambda: js.get_msg("S", 1),
        ):
            with pytest.raises(PermissionsViolationError):
                await ask()


async def whatever(verb: Any, *args: Any, **keywords: Any) -> Any:
    """Call a verb that may have to be awaited, or iterated over."""
    found = verb(*args, **keywords)
    return await listed(await found if hasattr(found, "__await__") else found)


WRONG: Final[list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = [
    ("subscribe", ("s.>",), {"pending_msgs_limit": None}),
    ("subscribe", ("s.>",), {"pending_bytes_limit": "67108864"}),
    ("subscribe", ("s.>",), {"heartbeats_missed": None}),
    ("subscribe", ("s.>",), {"config": "x"}),
    ("subscribe", ("s.>",), {"ordered": True, "heartbeats_missed": "3"}),
    ("subscribe", ("s.>",), {"ordered": True, "pending_msgs_limit": 0}),
    ("subscribe", ("s.>",), {"ordered": True, "if_missed": "what"}),
    ("pull_subscribe", ("s.>",), {"heartbeats_missed": "3"}),
    ("pull_subscribe", ("s.>",), {"config": {}}),
    ("pull_subscribe_bind", ("d", "S"), {"heartbeats_missed": 0}),
    ("snapshot", ("S", "s.>"), {"max_bytes": 8e6}),
    ("snapshot", ("S", None), {}),
    ("get_batch", ("S",), {"batch": "5"}),
    ("get_batch", ("S",), {"max_bytes": 5.5}),
    ("get_last_msgs_for", ("S", 5), {}),
    ("get_last_msgs_for", ("S", ["s.a"]), {"max_bytes": "x"}),
]


@pytest.mark.parametrize(("verb", "args", "keywords"), WRONG, ids=[f"{verb}-{list(kw)}" for verb, _, kw in WRONG])
async def test_a_wrong_value_is_refused_and_nothing_is_sent(
    guarded: NatsServer, connect: Connect, verb: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    events: list[Any] = []
    async with connect(guarded.url, user="all", password="p", event_cb=events.append) as nc:
        js = nc.jetstream()
        await js.stream_info("S")
        sent = nc.stats["out_msgs"]
        with pytest.raises(LocalProtocolError):
            await whatever(getattr(js, verb), *args, **keywords)
        assert nc.stats["out_msgs"] == sent
        await js.stream_info("S")
    assert not any(isinstance(event, ConversationFailed) for event in events)


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("fetch", {"batch": None}), ("fetch", {"batch": "5"}), ("fetch", {"batch": 1.5}), ("fetch", {"max_bytes": "5"}),
        ("fetch_no_wait", {"batch": "5"}), ("messages", {"max_msgs": "5"}), ("messages", {"threshold": 1.5}),
        ("messages", {"max_bytes": 1e6}), ("consume", {"callback": print, "max_msgs": "5"}),
    ],
)  # fmt: skip
async def test_a_wrong_value_of_a_pull(guarded: NatsServer, connect: Connect, verb: str, wrong: dict[str, Any]) -> None:
    async with (
        connect(guarded.url, user="all", password="p") as nc,
        await nc.jetstream().pull_subscribe_bind("d", "S") as sub,
    ):
        sent = nc.stats["out_msgs"]
        with pytest.raises(LocalProtocolError):
            await getattr(sub, verb)(**wrong)
        assert nc.stats["out_msgs"] == sent
        assert len(await sub.fetch(1, timeout=20)) == 1


async def test_a_bug_of_one_machine_costs_that_machine(
    guarded: NatsServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    async with connect(guarded.url, user="all", password="p", event_cb=events.append) as nc:
        other = await nc.subscribe("other")
        with monkeypatch.context() as patch:
            for name in ("receive", "receive_many"):
                patch.setattr(f"jsproto.client.consume.pull.PullConsumer.{name}", lambda *_: 1 / 0)
            async with await nc.jetstream().pull_subscribe_bind("d", "S") as sub:
                with pytest.raises(Error, match="PullConsumer has failed, please report it: ZeroDivisionError"):
                    await sub.fetch(1)
        await nc.publish("other", b"1")
        assert (await other.next_msg()).data == b"1"
        await nc.jetstream().stream_info("S")
    assert [event.name for event in events if isinstance(event, ConversationFailed)] == ["PullConsumer"]
