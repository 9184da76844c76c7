"""What ``publish_many`` takes from its caller is published or handed back, wherever it is interrupted.

Not here: what a batch keeps of what it has published (``tests/client/test_fast.py``), the README's program through
restarts of a server (``tests/test_readme.py``).
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import (
    AsyncPublishError,
    BatchClosedError,
    BatchError,
    BatchFullError,
    ConnectionClosedError,
    ConnectionLostError,
    LocalProtocolError,
)
from jsproto.grammar.columns import MessageColumns
from jsproto.rules.fast_batch import FastPhase
from jsproto_io import sync
from jsproto_io._blocking.connection import FastPublisher
from jsproto_io.testing import MemoryServer, serve
from tests.client.test_fast import Batch
from tests.drivers.conftest import Connect
from tests.drivers.test_reconnect import SOON
from tests.marks import promise

COUNT: Final = 1_600  # chunks have 512: the middle is in the second of four
MIDDLE: Final = COUNT // 2
BAD: Final = ("no subject", b"-1")
Hook = Callable[[], object]


@pytest.fixture
def memory() -> Iterator[MemoryServer]:
    with serve() as server:
        yield server


# -- sources: each calls ``hook`` once, before it gives the row in the middle ------------------------------------------


def number_of(message: Any) -> int:
    return int(message[1])


class Rows:
    """An iterator that can go on after an exception."""

    def __init__(self, rows: Sequence[Any], hook: Hook) -> None:
        self.rows = list(rows)
        self.hook: Hook | None = hook
        self.given = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.given == len(self.rows):
            raise StopIteration
        if self.given == MIDDLE and self.hook is not None:
            hook, self.hook = self.hook, None
            hook()
        self.given += 1
        return self.rows[self.given - 1]

    @property
    def rest(self) -> list[Any]:
        return self.rows[self.given :]


class AsyncRows(Rows):
    """The same for event loops."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        await anyio.lowlevel.checkpoint_if_cancelled()
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    __iter__ = None  # type: ignore[assignment]


class ListRows(list[Any]):
    """A list that knows when its middle is taken. The caller has all of it: there is no rest."""

    rest: Sequence[Any] = ()

    def __init__(self, rows: Sequence[Any], hook: Hook) -> None:
        super().__init__(rows)
        self.hook: Hook | None = hook

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice) and place.stop is not None and place.start <= MIDDLE < place.stop and self.hook:
            hook, self.hook = self.hook, None
            hook()
        return super().__getitem__(place)


class ColumnRows(MessageColumns):
    """Columns that do."""

    rest: Sequence[Any] = ()

    def __init__(self, rows: Sequence[Any], hook: Hook) -> None:
        super().__init__([subject for subject, _ in rows], [payload for _, payload in rows])
        self.hook: Hook | None = hook

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice) and place.stop is not None and place.start <= MIDDLE < place.stop and self.hook:
            hook, self.hook = self.hook, None
            hook()
        return super().__getitem__(place)


SOURCES: Final[dict[str, Any]] = {
    "iterator": Rows, "asynchronous iterator": AsyncRows, "list": ListRows, "columns": ColumnRows,
}  # fmt: skip
ENDS: Final = {
    "link": BatchError,  # it is cut
    "end": BatchClosedError,  # somebody else ends the batch
    "bad": LocalProtocolError,  # a message cannot be sent
    "own": KeyError,  # the source raises
    "cancel": None,
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, driver: str) -> str:
    name: str = request.param
    if driver.startswith("sync") and name == "asynchronous iterator":
        pytest.skip("only a loop can advance one")
    return name


@pytest.fixture(params=ENDS)
def end(request: pytest.FixtureRequest, driver: str, source: str) -> str:
    name: str = request.param
    if name == "cancel" and driver.startswith("sync"):
        pytest.skip("no thread can be cancelled")
    if name == "own" and source in ("list", "columns"):
        pytest.skip("these raise nothing")
    return name


def rows_for(end: str) -> list[Any]:
    rows: list[Any] = [("rows.a", b"%d" % n) for n in range(COUNT)]
    return [*rows[:MIDDLE], BAD, *rows[MIDDLE:]] if end == "bad" else rows


def raises_key_error() -> None:
    raise KeyError


async def interrupted(end: str, publisher: Any, make: Any, server: MemoryServer, ends: Hook) -> Any:
    """Publish until it is interrupted. The source."""
    scope = anyio.CancelScope()
    hooks: dict[str, Hook] = {
        "link": server.disconnect, "end": ends, "bad": lambda: None, "own": raises_key_error, "cancel": scope.cancel,
    }  # fmt: skip
    source = make(rows_for(end), hooks[end])
    expected = ENDS[end]
    if expected is None:
        with scope:
            await publisher.publish_many(source)
        assert scope.cancelled_caught
    else:
        with pytest.raises(expected if end != "end" else (BatchClosedError, ConnectionClosedError)):
            await publisher.publish_many(source)
    return source


async def stored(js: Any) -> list[int]:
    return [int(message.data) async for message in js.get_batch("ROWS")]


async def make(nc: Any) -> Any:
    js = nc.jetstream()
    await js.create_stream("ROWS", subjects=["rows.>"], storage="memory", allow_batched=True, allow_direct=True)
    return js


@promise("`unacknowledged` has every message that the batch took and is not known to have stored, in order")
@promise("Of a list, a tuple or columns `unacknowledged` has all the rest.")
@promise("It is the same after any error, a cancellation or Ctrl-C")
@promise("After a LocalProtocolError, a cancellation or Ctrl-C the batch is open.")
@promise("This holds for any error, for a cancellation and for Ctrl-C.")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:FastPublisher")
@pytest.mark.anyio
@pytest.mark.parametrize("gap", ["fail", "ok"])
async def test_nothing_is_lost_between_the_caller_and_a_batch(
    memory: MemoryServer, connect: Connect, source: str, end: str, gap: Any
) -> None:
    if (end, gap) == ("link", "ok"):
        pytest.skip("such a batch goes on")
    async with connect(memory.url, reconnect_time_wait=SOON) as nc:
        js = await make(nc)
        batch = js.fast_publisher(gap=gap, flow=10)
        core = getattr(batch, "_target", batch)._core
        rows = await interrupted(end, batch, SOURCES[source], memory, lambda: core.abandon(0.0))
        acked, published = batch.acked, batch.sequence
        back = [number_of(message) for message in batch.unacknowledged]
        left = back + [number_of(message) for message in rows.rest]
        everything = [number_of(message) for message in rows_for(end)]
        begin = len(everything) - len(left)
        assert left == everything[begin:]
        assert acked <= begin <= published
        assert all(isinstance(message, tuple) for message in batch.unacknowledged)
        if end in ("link", "end"):
            todo: list[Any] = batch.unacknowledged
            batch = js.fast_publisher()
        else:
            assert published == MIDDLE or end == "cancel"
            if end != "own" and source != "list" and source != "columns" and batch.unacknowledged[published - acked :]:
                with pytest.raises(LocalProtocolError, match="take_unpublished"):
                    await batch.commit()
            todo = batch.take_unpublished()
            assert batch.take_unpublished() == []
            if end == "bad":
                assert todo.pop(0) == BAD
        await batch.publish_many(todo)
        if rows.rest:
            await batch.publish_many(rows)
        await batch.commit()
        assert batch.unacknowledged == []
        found = await stored(js)
        assert sorted(set(found)) == list(range(COUNT))
        if end not in ("link", "end"):
            assert found == list(range(COUNT))


@promise("An `async_publisher()` has the same two.")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:PipelinedPublisher")
@promise("What it gave, and was not published when the call ended with an error")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:FastPublisher")
@pytest.mark.anyio
async def test_nothing_is_lost_between_the_caller_and_a_publisher_ahead(
    memory: MemoryServer, connect: Connect, source: str, end: str
) -> None:
    async with connect(memory.url, reconnect_time_wait=SOON) as nc:
        js = await make(nc)
        publisher = js.async_publisher(max_pending=100)
        core = getattr(publisher, "_target", publisher)._core
        todo: list[Any] = []
        if end == "link":  # it goes on, unless a window has failed
            rows = SOURCES[source](rows_for(end), memory.disconnect)
            try:
                await publisher.publish_many(rows)
                await publisher.flush()
            except AsyncPublishError as error:
                todo += [message for message, _ in error.failures]
        else:
            rows = await interrupted(end, publisher, SOURCES[source], memory, lambda: core.close(0.0))
            published = publisher.sequence
            everything = [number_of(message) for message in rows_for(end)]
            back = [number_of(message) for message in publisher.unacknowledged]
            assert [*back, *map(number_of, rows.rest)][-len(everything[published:]) :] == everything[published:]
        if end in ("bad", "own"):
            assert [number_of(message) for message in publisher.take_unpublished()[:1]] == [-1][: end == "bad"]
            await publisher.flush()
            assert await stored(js) == list(range(MIDDLE))
            return
        todo += publisher.unacknowledged
        async with js.async_publisher() as second:
            await second.publish_many(todo)
            if rows.rest:
                await second.publish_many(rows)
        assert sorted(set(await stored(js))) == list(range(COUNT))
        await publisher.close()


@promise("An `async_publisher()` has the same two.")
@pytest.mark.anyio
async def test_flush_does_not_forget_what_was_taken(memory: MemoryServer, connect: Connect) -> None:
    async with connect(memory.url) as nc:
        js = await make(nc)
        async with js.async_publisher() as publisher:
            with pytest.raises(LocalProtocolError, match="subject"):
                await publisher.publish_many(iter([("rows.a", b"1"), BAD, ("rows.a", b"2")]))
            with pytest.raises(LocalProtocolError, match="take_unpublished"):
                await publisher.flush()
            assert await publisher.publish_many(publisher.take_unpublished()[1:]) in (1, 2)
        assert {1} <= set(await stored(js)) <= {1, 2}


@pytest.mark.anyio
async def test_the_rest_of_a_list_is_kept_until_the_next_call(memory: MemoryServer, connect: Connect) -> None:
    """Its caller has it. What nobody else has is kept until it is taken back."""
    async with connect(memory.url) as nc:
        js = await make(nc)
        async with js.fast_publisher() as batch:
            rows: list[Any] = [BAD, ("rows.a", b"1")]
            for messages in (rows, iter(rows)):
                with pytest.raises(LocalProtocolError):
                    await batch.publish_many(messages)
            rows.clear()
            assert BAD in batch.unacknowledged
            kept = len(batch.unacknowledged)
            assert await batch.publish_many([("rows.a", b"2")]) == 1
            assert len(batch.take_unpublished()) == kept
            assert (await batch.commit()).count == 1


@promise("An atomic batch stores nothing of what was given to it before it failed.")
@pytest.mark.anyio
async def test_a_batch_of_too_many_takes_one_more_than_it_can_hold(memory: MemoryServer, connect: Connect) -> None:
    async with connect(memory.url) as nc:
        js = nc.jetstream()
        await js.create_stream("ROWS", subjects=["rows.>"], allow_atomic=True)
        source = Rows(rows_for("link"), lambda: None)
        with pytest.raises(BatchFullError):
            await js.publish_batch(source)
        assert source.given == 1_001
        assert (await js.stream_info("ROWS")).state.messages == 0


@promise("Of a list, a tuple or columns `unacknowledged` has all the rest.")
@promise("Each row is stored at least once.")
@pytest.mark.anyio
async def test_the_recovery_is_one_for_all_sources(memory: MemoryServer, connect: Connect, source: str) -> None:
    """Three links are cut, each before a row is taken."""
    async with connect(memory.url, reconnect_time_wait=SOON) as nc:
        js = await make(nc)
        todo: list[Any] = [("rows.a", b"%d" % n) for n in range(COUNT)]
        rows = SOURCES[source](todo, memory.disconnect)
        sequence = source in ("list", "columns")
        left: Any = rows if sequence else []
        for cut in range(3):
            batch = js.fast_publisher(flow=50)
            try:
                await batch.publish_many(left)
                if not sequence:
                    await batch.publish_many(rows)
                if cut == 2:
                    await batch.commit()
                    break
                await nc.force_reconnect()
                await batch.commit()
            except BatchError:
                left = batch.unacknowledged
        found = await stored(js)
        assert sorted(set(found)) == list(range(COUNT))


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@promise("It is the same after any error, a cancellation or Ctrl-C")
@promise("After a LocalProtocolError, a cancellation or Ctrl-C the batch is open.")
@promise("What it gave, and was not published when the call ended with an error")
@promise("This holds for any error, for a cancellation and for Ctrl-C.")
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("where", ["source", "wait"])
@pytest.mark.parametrize("kind", ["fast", "ahead"])
def test_ctrl_c_loses_nothing(memory: MemoryServer, where: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sync.connect(memory.url) as nc:
        js = nc.jetstream()
        js.create_stream("ROWS", subjects=["rows.>"], allow_batched=True, allow_direct=True)
        publisher: Any = js.fast_publisher(flow=10) if kind == "fast" else js.async_publisher(max_pending=20)
        rows = Rows(rows_for("link"), lambda: signal.raise_signal(signal.SIGINT) if where == "source" else None)
        calls, make_room = count(1), publisher._make_room

        def struck() -> None:
            if next(calls) == 20:
                signal.raise_signal(signal.SIGINT)
            make_room()

        if where == "wait":
            monkeypatch.setattr(publisher, "_make_room", struck)
        with pytest.raises(KeyboardInterrupt):
            publisher.publish_many(rows)
        monkeypatch.undo()
        unpublished = publisher.take_unpublished()
        left = [number_of(message) for message in (*unpublished, *rows.rest)]
        assert left == list(range(publisher.sequence, COUNT))
        assert bool(unpublished) == (where == "wait") or unpublished
        publisher.publish_many(unpublished)
        publisher.publish_many(rows)
        if kind == "fast":
            publisher.commit()
        else:
            publisher.flush()
            publisher.close()
        assert [int(message.data) for message in js.get_batch("ROWS")] == list(range(COUNT))


# -- any moment --------------------------------------------------------------------------------------------------------

MOMENTS = st.sampled_from(["go on", "go on", "go on", "interrupt", "lose the link"])


@promise("`unacknowledged` has every message that the batch took and is not known to have stored, in order")
@promise("It is the same after any error, a cancellation or Ctrl-C")
@promise("What it gave, and was not published when the call ended with an error")
@promise("The messages that are not known to be stored, in order", of="jsproto_io.sync:FastPublisher")
@given(
    rows=st.integers(0, 60),
    sequence=st.booleans(),
    room=st.integers(1, 12),
    slow=st.booleans(),
    bad=st.none() | st.integers(0, 60),
    raises=st.none() | st.tuples(st.integers(0, 60), st.sampled_from([KeyError, KeyboardInterrupt])),
    moments=st.lists(MOMENTS, max_size=12),
)
def test_each_row_is_published_or_handed_back_or_still_in_the_source(
    rows: int,
    sequence: bool,
    room: int,
    slow: bool,
    bad: int | None,
    raises: tuple[int, type[BaseException]] | None,
    moments: list[str],
) -> None:
    """Any chunks, and any moment of an interruption."""
    peer = Batch(flow=500)
    harness, waits = peer.h, iter(moments)
    todo: list[Any] = [BAD if n == bad else ("e.a", b"%d" % n) for n in range(rows)]
    given: list[Any] = []

    def pull() -> Iterator[Any]:
        for place, row in enumerate(todo):
            if slow:
                harness.now += 0.001
            if raises is not None and place == raises[0]:
                raise raises[1]
            given.append(row)
            yield row

    def wait(ticket: Any) -> None:
        moment = next(waits, "go on")
        if moment == "interrupt":
            raise KeyboardInterrupt
        if moment == "lose the link":
            peer.fast.link_lost(ConnectionLostError("cut"), harness.now)
        elif peer.fast.phase is FastPhase.STARTING:
            peer.ack(0, room)
        elif peer.fast.sequence:
            peer.ack(peer.fast.sequence, room)
        if ticket.done:
            ticket.result()

    connection: Any = SimpleNamespace(
        _session=harness.session, _pending_closes=[], _now=lambda: harness.now, _wait=wait,
        _call=lambda verb, coalesce=False: verb(harness.now), _look=lambda look: look(),
    )  # fmt: skip
    batch = FastPublisher(peer.fast, connection)
    ended: BaseException | None = None
    try:
        batch.publish_many(todo if sequence else pull())
    except (Exception, KeyboardInterrupt) as error:
        ended = error
    finally:
        peer.fast.abandon(harness.now)
    sent = [("e.a", pub.payload) for pub in harness.published() if (pub.reply or b"").endswith((b".0.$FI", b".1.$FI"))]
    back = [message[:2] for message in batch.unacknowledged]
    rest = [] if sequence else todo[len(given) :]
    assert sent == todo[: batch.sequence]
    assert sent[: batch.acked] + back + rest == todo
    assert batch.take_unpublished() + rest == todo[batch.sequence :]
    if ended is None:
        assert batch.sequence == rows
