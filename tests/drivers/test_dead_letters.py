"""What every driver must do with dead letters, on a real nats-server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.errors import DeadLetterError, LocalProtocolError
from jsproto.events import CallbackFailed, Event, SweepFailed
from tests.drivers.conftest import Connect
from tests.drivers.test_facade import make_stream, unique
from tests.drivers.test_subscribing import until
from tests.marks import promise

pytestmark = pytest.mark.anyio


class Cemetery:
    """A stream of orders, a consumer that fails with all of them, and a stream of dead letters."""

    sub: Any = None

    def __init__(self, nc: Any, js: Any, name: str, dead: str) -> None:
        self.nc, self.js, self.name, self.dead = nc, js, name, dead

    async def letters(self, count: int) -> list[Any]:
        """The dead letters, when there are so many."""
        while (await self.js.stream_info(self.dead)).state.messages < count:
            await anyio.sleep(0.01)
        return [await self.js.get_msg(self.dead, seq, level="leader") for seq in range(1, count + 1)]


@pytest.fixture
async def cemetery(server: Any, connect: Connect) -> Any:
    kept_until_closed: list[Cemetery] = []
    async with AsyncExitStack() as stack:

        async def make(event_cb: Any = None, dead: dict[str, Any] | None = None, **options: Any) -> Cemetery:
            nc = await stack.enter_async_context(connect(server.url, event_cb=event_cb))
            js, name = await make_stream(nc, **options)
            dead_name = unique("DEAD")
            await js.create_stream(
                dead_name,
                **{"subjects": [f"{dead_name}.x.>"], "storage": "memory", "duplicate_window": 0.1, **(dead or {})},
            )
            kept_until_closed.append(Cemetery(nc, js, name, dead_name))
            return kept_until_closed[-1]

        yield make


def fail(message: Any) -> None:
    if message.data == b"term":
        raise ValueError("no such thing")
    raise LookupError("not now")


@promise("A dead letter has the payload and the headers of its message.")
async def test_what_a_consumer_gives_up_is_kept(cemetery: Any) -> None:
    here = await cemetery()
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C", max_deliver=2)
    async with await here.js.dead_letters(here.name, "C", to=here.dead) as letters:
        await here.js.publish(f"{here.name}.a", b"max", headers={"Shop": "Berlin"}, msg_id="7")
        async with sub.consume(fail, retry_delay=0.05, term_on=ValueError):
            (one,) = await here.letters(1)
            await here.js.publish(f"{here.name}.a", b"term")
            _, two = await here.letters(2)
        await until(lambda: letters.finished == 2)
    assert (one.subject, one.data) == (f"{here.dead}.x.{here.name}.C.1", b"max")
    assert (one.headers["Shop"], one.headers["Original-Nats-Msg-Id"]) == ("Berlin", "7")
    assert (one.headers["Dead-Letter-Reason"], one.headers["Dead-Letter-Deliveries"]) == ("max_deliver", "2")
    assert (two.subject, two.data) == (f"{here.dead}.x.{here.name}.C.2", b"term")
    assert two.headers["Dead-Letter-Reason"] == "terminated"
    assert two.headers["Dead-Letter-Note"] == "ValueError: no such thing"
    assert two.headers["Dead-Letter-Subject"] == f"{here.name}.a"


@promise("What was given up while no program was at work is stored by the next one.")
async def test_what_was_given_up_meanwhile_is_stored_by_the_next_program(cemetery: Any) -> None:
    here = await cemetery()
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C", max_deliver=1)
    await (await here.js.dead_letters(here.name, to=here.dead)).stop()
    for number in range(5):
        await here.js.publish(f"{here.name}.a", b"%d" % number)
    async with sub.consume(fail, retry_delay=0.01) as work:
        await until(lambda: work.failed == 5)
        while (await here.js.stream_info(f"{here.name}-GIVEN-UP")).state.last_seq < 5:
            await anyio.sleep(0.01)
    async with await here.js.dead_letters(here.name, to=here.dead):
        assert sorted(letter.data for letter in await here.letters(5)) == [b"%d" % number for number in range(5)]


@promise("or `unacknowledged` where no advisory came.")
@promise("A message that was given up without an advisory")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
@pytest.mark.one_driver
async def test_what_was_given_up_without_an_advisory_is_found(cemetery: Any, retention: str) -> None:
    """Nobody kept the first advisories. The second ones are purged, as if the servers had lost them."""
    here = await cemetery(retention=retention)
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C", max_deliver=1)

    async def give_up(*payloads: bytes) -> None:
        for payload in payloads:
            await here.js.publish(f"{here.name}.a", payload)
        one, two = await sub.fetch(2)
        await one.ack_sync()
        await two.nak()
        assert await sub.fetch(1, timeout=0.2) == []

    await give_up(b"billed", b"early")
    letters = await here.js.dead_letters(here.name, "C", to=here.dead, sweep_every=None)
    await letters.stop()
    await give_up(b"billed", b"lost")
    await here.js.purge_stream(f"{here.name}-GIVEN-UP")
    async with await here.js.dead_letters(here.name, "C", to=here.dead, sweep_every=0.1):
        found = await here.letters(2)
    assert [letter.data for letter in found] == [b"early", b"lost"]
    assert {letter.headers["Dead-Letter-Reason"] for letter in found} == {"unacknowledged"}


@promise("A look that fails is the event `SweepFailed`, and repeated.")
async def test_a_look_that_fails_is_told(cemetery: Any) -> None:
    events: list[Event] = []
    here = await cemetery(events.append)
    async with await here.js.dead_letters(here.name, "C", to=here.dead, sweep_every=0.01):
        await here.js.delete_stream(here.name)
        await until(lambda: any(isinstance(event, SweepFailed) for event in events))


@promise("Each dead letter is stored once")
async def test_an_advisory_that_comes_again_is_stored_once(cemetery: Any) -> None:
    """The stream of the dead letters forgets ids after 0.1 seconds. The consumer of the advisories begins again."""
    here = await cemetery()
    await here.js.create_stream(
        f"{here.name}-KEPT", subjects=[f"$JS.EVENT.ADVISORY.CONSUMER.*.{here.name}.*"], storage="memory"
    )
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C")
    await here.js.publish(f"{here.name}.a", b"term")
    async with await here.js.dead_letters(here.name, "C", to=here.dead), sub.consume(fail, term_on=ValueError):
        await here.letters(1)
    name = f"dead-letters-{here.name}-C-to-{here.dead}"
    await here.js.delete_consumer(f"{here.name}-KEPT", name)
    await anyio.sleep(0.2)  # what is measured: longer than the window
    async with await here.js.dead_letters(here.name, "C", to=here.dead) as letters:
        await until(lambda: letters.finished == 1)
    assert (await here.js.stream_info(here.dead)).state.last_seq == 1


async def test_a_message_that_is_gone_is_a_letter_that_says_so(cemetery: Any) -> None:
    here = await cemetery(retention="workqueue")
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C")
    async with await here.js.dead_letters(here.name, "C", to=here.dead):
        await here.js.publish(f"{here.name}.a", b"term")
        async with sub.consume(fail, term_on=ValueError):
            (letter,) = await here.letters(1)
    assert (letter.data, letter.headers["Dead-Letter-Missing"]) == (b"", "gone")


@promise("What it refuses later, for example because it is full, is tried again")
async def test_a_full_stream_of_dead_letters_is_tried_again(cemetery: Any) -> None:
    events: list[Event] = []
    here = await cemetery(events.append, dead={"max_msgs": 1, "discard": "new"})
    sub = here.sub = await here.js.pull_subscribe(f"{here.name}.a", durable="C")
    await here.js.publish(f"{here.dead}.x.full")
    async with await here.js.dead_letters(here.name, "C", to=here.dead, retry_delay=0.05) as letters:
        await here.js.publish(f"{here.name}.a", b"term")
        async with sub.consume(fail, term_on=ValueError):
            await until(lambda: letters.failed)
        await here.js.update_stream(here.dead, max_msgs=2)
        _, letter = await here.letters(2)
    assert letter.data == b"term"
    assert len([event for event in events if isinstance(event, CallbackFailed)]) >= 2


@promise("A stream that does not take the subject is a `DeadLetterError` at the start.")
async def test_what_does_not_fit_is_an_error_at_the_start(cemetery: Any) -> None:
    here = await cemetery()
    with pytest.raises(DeadLetterError, match=rf"it takes {here.dead}\.x\.>, not lost\.\*"):
        await here.js.dead_letters(here.name, to=here.dead, subject="lost.{seq}")
    with pytest.raises(StreamNotFoundError):
        await here.js.dead_letters(here.name, to="NOWHERE")
    with pytest.raises(LocalProtocolError, match="itself"):
        await here.js.dead_letters(here.name, to=here.name)
    with pytest.raises(LocalProtocolError, match="sweep_every"):
        await here.js.dead_letters(here.name, to=here.dead, sweep_every=-1)
    with pytest.raises(LocalProtocolError, match="retry_delay"):
        await here.js.dead_letters(here.name, to=here.dead, retry_delay=-1)
