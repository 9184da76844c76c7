"""What every driver must do on a real nats-server: the keywords of a publish, the same on each path."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import (
    MessageIncrDisabledError,
    MessageIncrMissingError,
    MessageSchedulesDisabledError,
    MessageSchedulesTimeZoneInvalidError,
    MessageTTLDisabledError,
    StreamNotMatchError,
    StreamRollupFailedError,
    StreamWrongLastMsgIDError,
    StreamWrongLastSequenceError,
)
from jsproto.errors import (
    APIError,
    BatchMessageError,
    ConnectionClosedError,
    LocalProtocolError,
    MessageNotFoundError,
    NoStreamResponseError,
)
from jsproto.grammar.publish_headers import publish_headers
from jsproto.grammar.trace import TraceIngress, TraceJetStream
from tests.drivers.conftest import PATIENCE, Connect
from tests.drivers.test_facade import make_stream, read_all, unique
from tests.marks import promise

pytestmark = pytest.mark.anyio

PATHS = ("publish", "publish_async", "async_publisher", "fast", "fast commit", "atomic", "atomic commit")
FEATURES = {"allow_atomic": True, "allow_msg_ttl": True, "allow_rollup_hdrs": True}
SCHEDULING = {"allow_atomic": True, "allow_msg_ttl": True, "allow_msg_schedules": True}


async def send(js: Any, path: str, subject: str, payload: bytes = b"", **options: Any) -> Any:
    """Publish one message by that path. Returns its acknowledgement. APIError: the server refused it."""
    try:
        if path == "publish":
            return await js.publish(subject, payload, **options)
        if path == "publish_async":
            return await (await js.publish_async(subject, payload, **options)).result()
        if path == "async_publisher":
            async with js.async_publisher() as publisher:
                return await (await publisher.publish(subject, payload, **options)).result()
        async with js.fast_publisher() if path.startswith("fast") else js.atomic_batch() as batch:
            if path.endswith("commit"):
                return await batch.commit(subject, payload, **options)
            await (batch.publish if path == "fast" else batch.add)(subject, payload, **options)
            return await batch.commit()
    except BatchMessageError as error:
        raise error.__cause__ or error from None


@promise("The same keywords go with `publish`")
@promise("it replaces all of its subject")
async def test_each_keyword_arrives(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, **FEATURES)
        for path in PATHS:
            last = (await js.publish(f"{name}.a", b"1")).seq + 1
            await js.publish(f"{name}.b", b"2")
            await send(
                js, path, f"{name}.a", b"3", headers={"K": "v"}, msg_id=path, expected_stream=name,
                expected_last_seq=last, expected_last_subject_seq=last, expected_last_subject_seq_subject=f"{name}.b",
                ttl=90.5, rollup="sub",
            )  # fmt: skip
            messages = await read_all(js.get_batch(name))
            assert [message.data for message in messages] == [b"2", b"3"], path
            assert [pair for pair in messages[-1].headers.items() if not pair[0].startswith("Nats-Batch-")] == [
                ("K", "v"), ("Nats-Msg-Id", path), ("Nats-Expected-Stream", name),
                ("Nats-Expected-Last-Sequence", f"{last}"), ("Nats-Expected-Last-Subject-Sequence", f"{last}"),
                ("Nats-Expected-Last-Subject-Sequence-Subject", f"{name}.b"), ("Nats-TTL", "91"),
                ("Nats-Rollup", "sub"),
            ]  # fmt: skip
            await send(js, path, f"{name}.a", b"4", ttl="never", rollup="all")
            assert [message.data for message in await read_all(js.get_batch(name))] == [b"4"], path
            await js.purge_stream(name)


REFUSED: tuple[tuple[dict[str, Any], type[APIError], str], ...] = (
    ({"expected_stream": "OTHER"}, StreamNotMatchError, ""),
    ({"expected_last_seq": 7}, StreamWrongLastSequenceError, ""),
    ({"expected_last_subject_seq": 7}, StreamWrongLastSequenceError, ""),
    ({"ttl": 5}, MessageTTLDisabledError, "allow_msg_ttl=True"),
    ({"rollup": "sub"}, StreamRollupFailedError, "allow_rollup_hdrs=True"),
)


@promise("Impossible values raise `LocalProtocolError`")
async def test_refusals_are_typed(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        for path in PATHS:
            for options, error, needs in REFUSED:
                with pytest.raises(error) as caught:
                    await send(js, path, f"{name}.a", **options)
                assert needs in str(caught.value)
        assert (await js.stream_info(name)).state.last_seq == 0


@promise("In an atomic batch there is no `expected_last_msg_id`")
async def test_the_message_id_of_the_last_message(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        for path in PATHS:
            await js.publish(f"{name}.a", msg_id=f"last {path}")
            expected: Any = LocalProtocolError if path.startswith("atomic") else StreamWrongLastMsgIDError
            with pytest.raises(expected):
                await send(js, path, f"{name}.a", expected_last_msg_id="other")
            if not path.startswith("atomic"):
                await send(js, path, f"{name}.a", expected_last_msg_id=f"last {path}")


@promise("Impossible values raise `LocalProtocolError`")
async def test_bad_values_are_refused_and_nothing_is_sent(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, **FEATURES)
        wrong: list[dict[str, Any]] = [{"ttl": 0.5}, {"rollup": "each"}, {"msg_id": ""}, {"expected_last_seq": -1}]
        for path in PATHS:
            for options in wrong:
                with pytest.raises(LocalProtocolError, match=next(iter(options))):
                    await send(js, path, f"{name}.a", **options)
            with pytest.raises(TypeError, match="no option 'msgid': did you mean 'msg_id'"):
                await send(js, path, f"{name}.a", msgid="x")
        for batch in (js.fast_publisher(), js.atomic_batch()):
            async with batch:
                with pytest.raises(LocalProtocolError, match="ttl goes with a message"):
                    await batch.commit(ttl=5)
        assert (await js.stream_info(name)).state.last_seq == 0


# -- schedules ---------------------------------------------------------------------------------------------------------


@promise("The same keywords go with `publish`")
@promise("the same again and again")
async def test_schedules_publish(server: Any, connect: Connect) -> None:
    when: dict[str, Any] = {"at": 0, "delay": 0, "every": 1, "cron": "* * * * * *"}
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, **SCHEDULING)
        cases = {f"{path.replace(' ', '-')}.{keyword}": path for path in PATHS for keyword in when}
        made = await js.subscribe(f"{name}.due.>", stream=name, ordered=True)
        for token, path in cases.items():
            keyword = token.rpartition(".")[2]
            await send(
                js, path, f"{name}.later.{token}", token.encode(), headers={"K": "v"}, target=f"{name}.due.{token}",
                schedule_ttl=60, **{keyword: when[keyword]},
            )  # fmt: skip
        while cases:
            message = await made.next_msg(timeout=PATIENCE / 4)
            token = message.subject.removeprefix(f"{name}.due.")
            cases.pop(token, None)  # those that repeat come more than once
            assert (message.data, message.headers["K"], message.headers["Nats-TTL"]) == (token.encode(), "v", "60")
            assert message.headers["Nats-Scheduler"] == f"{name}.later.{token}"
            assert (message.headers["Nats-Schedule-Next"] == "purge") == token.endswith((".at", ".delay"))


async def test_a_schedule_with_a_source_in_a_time_zone(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, **SCHEDULING)
        await js.publish(f"{name}.s", b"sample")
        await js.publish(
            f"{name}.later", b"else", cron="* * * * * *", target=f"{name}.t", source=f"{name}.s",
            time_zone="Asia/Tokyo", schedule_rollup="sub",
        )  # fmt: skip
        made = await js.subscribe(f"{name}.t", stream=name, ordered=True)
        message = await made.next_msg(timeout=PATIENCE / 4)
        assert (message.data, message.headers["Nats-Rollup"]) == (b"sample", "sub")
        assert message.headers["Nats-Schedule-Next"].endswith("+09:00")
        with pytest.raises(MessageSchedulesTimeZoneInvalidError):
            await js.publish(f"{name}.later", cron="@daily", target=f"{name}.t", time_zone="Nowhere")


@promise("Impossible values raise `LocalProtocolError`")
async def test_schedules_that_cannot_be(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True)
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"delay": 1}, "needs a target"),
            ({"delay": -1, "target": "t"}, "delay must be 0 seconds"),
            ({"delay": 1, "at": 0, "target": "t"}, "not at and delay"),
            ({"delay": 1, "every": 5, "target": "t"}, "not at and every"),
            ({"cron": "x", "target": "t"}, "six fields"),
        ]
        for path in PATHS:
            for options, words in wrong:
                with pytest.raises(LocalProtocolError, match=words):
                    await send(js, path, f"{name}.a", **options)
            with pytest.raises(MessageSchedulesDisabledError, match="allow_msg_schedules=True"):
                await send(js, path, f"{name}.a", delay=1, target=f"{name}.t")
        assert (await js.stream_info(name)).state.last_seq == 0


# -- counters ----------------------------------------------------------------------------------------------------------


@promise("The same keywords go with `publish`")
async def test_increments_on_each_path(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_atomic=True, allow_msg_counter=True)
        for token, path in enumerate(PATHS):
            subject = f"{name}.{token}"
            ack = await send(js, path, subject, incr=5)
            again = await send(js, path, subject, incr=-7)
            if "fast" not in path and "atomic" not in path:  # the acknowledgement of a batch has no value
                assert (ack.value, again.value) == ("5", "-2")
            assert await js.counter(name).value(subject) == -2
            with pytest.raises(LocalProtocolError, match="has no payload"):
                await send(js, path, subject, b"x", incr=1)
            with pytest.raises(MessageIncrMissingError, match="publish with incr"):
                await send(js, path, subject)


@promise("the message is stored once within `duplicate_window`")
async def test_counters(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_msg_counter=True)
        counter = js.counter(name)
        assert (counter.stream, await counter.value(f"{name}.a")) == (name, 0)
        with pytest.raises(MessageNotFoundError):
            await counter.get(f"{name}.a")
        assert await counter.add(f"{name}.a", 10**30) == 10**30
        assert await counter.add(f"{name}.a", msg_id="once") == 10**30 + 1
        assert await counter.add(f"{name}.a", msg_id="once") == 10**30 + 1
        assert await counter.add(f"{name}.b", -1) == -1
        found = await counter.get(f"{name}.a")
        assert (found.subject, found.value, found.increment, found.sources) == (f"{name}.a", 10**30 + 1, 1, {})
        assert await counter.sum(f"{name}.*") == 10**30
        assert await counter.sum([f"{name}.b", f"{name}.c"]) == -1
        plain, other = await make_stream(nc)
        with pytest.raises(MessageIncrDisabledError, match="allow_msg_counter=True"):
            await plain.counter(other).add(f"{other}.a")


async def test_a_sum_of_more_counters_than_one_answer_has(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, allow_msg_counter=True)
        async with js.fast_publisher() as batch:
            await batch.publish_many((f"{name}.{n}", b"", publish_headers(f"{name}.{n}", incr=n)) for n in range(1_100))
            await batch.commit()
        assert await js.counter(name).sum(f"{name}.*") == sum(range(1_100))


async def test_a_counter_that_sums_its_sources(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, east = await make_stream(nc, allow_msg_counter=True)
        _, west = await make_stream(nc, allow_msg_counter=True)
        for name, value in ((east, 3), (east, 4), (west, 10)):
            await js.counter(name).add(f"{name}.hits", value)
        total = unique("T")
        transforms = [
            {"name": name, "subject_transforms": [{"src": f"{name}.hits", "dest": f"{total}.hits"}]}
            for name in (east, west)
        ]
        await js.create_stream(total, sources=transforms, storage="memory", allow_msg_counter=True, allow_direct=True)
        counter = js.counter(total)
        while await counter.value(f"{total}.hits") != 17:  # copies take their time
            await js.counter(east).add(f"{east}.hits", 0)
        found = await counter.get(f"{total}.hits")
        assert found.sources == {east: {f"{east}.hits": 7}, west: {f"{west}.hits": 10}}


# -- traces ------------------------------------------------------------------------------------------------------------


@promise("The same keywords go with `publish`")
async def test_a_trace_of_a_message(server: Any, connect: Connect) -> None:
    async with connect(server.url, name="app") as nc:
        js, name = await make_stream(nc, **FEATURES)
        for path in PATHS:
            if path == "atomic":
                continue  # what a batch holds is not reported, as below
            async with nc.trace() as collector:
                await send(js, path, f"{name}.a", b"x", trace=collector.subject)
                trace = await collector.collect(timeout=PATIENCE / 4)
            assert trace.is_complete
            (event,) = trace
            assert (event.path, event.hops) == ((), 0)
            source = event.steps[0]
            assert isinstance(source, TraceIngress)
            assert (source.kind, source.name, source.subject) == ("client", "app", f"{name}.a")
            stored = [step for step in event.steps if isinstance(step, TraceJetStream)]
            assert [(step.stream, step.subject, step.error) for step in stored] == [(name, f"{name}.a", "")]
            assert f"  stream {name}: stored as {name}.a" in str(trace).splitlines()


@promise("In an atomic batch there is no `expected_last_msg_id`")
async def test_of_an_atomic_batch_the_commit_is_reported(server: Any, connect: Connect) -> None:
    """FACTS.md F16.1."""
    async with connect(server.url) as nc:
        js, name = await make_stream(nc, **FEATURES)
        async with nc.trace() as first, nc.trace() as last, js.atomic_batch() as batch:
            await batch.add(f"{name}.a", trace=first.subject)
            await batch.commit(f"{name}.b", trace=last.subject)
            assert [event.steps[0].subject for event in await last.collect(timeout=PATIENCE / 4)] == [f"{name}.b"]
            assert first.trace.events == ()


async def test_a_message_that_is_only_traced(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js, name = await make_stream(nc)
        async with nc.trace() as collector:
            await collector.send(f"{name}.a", b"x", headers={"K": "v"})
            trace = await collector.collect(timeout=PATIENCE / 4)
        assert [step.stream for event in trace for step in event.steps if isinstance(step, TraceJetStream)] == [name]
        assert (await js.stream_info(name)).state.last_seq == 0
        async with nc.trace() as collector:
            assert not (await collector.collect(timeout=0)).is_complete
        with pytest.raises(ConnectionClosedError):
            await collector.collect()


# -- messages that no stream takes -------------------------------------------------------------------------------------


@promise("A message that no stream takes")
async def test_a_message_is_sent_again_until_its_stream_is_there(server: Any, connect: Connect) -> None:
    async with connect(server.url) as nc:
        js = nc.jetstream(retry_attempts=-1, retry_wait=0.01, timeout=PATIENCE / 4)
        name = unique("S")
        pending = await js.publish_async(f"{name}.a", b"x")
        with pytest.raises(NoStreamResponseError):
            await js.publish(f"{name}.a", b"y", retry_attempts=2)
        await js.create_stream(name, subjects=[f"{name}.>"], storage="memory")
        assert (await pending.result()).seq == 1
        with pytest.raises(LocalProtocolError, match="retry_attempts"):
            nc.jetstream(retry_attempts=-2)
