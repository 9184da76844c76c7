"""An order service: an HTTP front, workers, a schedule, dead letters, counters, and an end without loss.

Rules
 * It is written for asyncio. ``test_order_service`` runs this text on trio and on threads as well.
 * It takes public names alone, as an application does.
 * Each step may come twice, after a crash or a lost link, and then changes nothing.
 * The state of an order is the last message of its subject. Of two changes at the same time one is refused, by its
   expected sequence.

The way of an order: it is placed, paid by a worker, and shipped when its time of grace is over. Until then it may be
cancelled. An order that cannot be paid is a dead letter, which may be placed again.

Not here: a server for HTTP, and the bank, which the caller gives.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from jsproto import StoredMsg
from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.errors import LocalProtocolError, MessageNotFoundError, TimeoutError
from jsproto_io.asyncio import JetStream, JSMsg, connect

DAY = 86_400  # seconds


class DeclinedError(Exception):
    """The bank says no. The same order is not asked for again."""


class Orders:
    """The business: what the front and the workers do.

    ``charge`` is called with the number of an order and the order. It takes the money once for each number, however
    often it is called.
    """

    def __init__(self, js: JetStream, charge: Callable[[int, dict[str, Any]], Any]) -> None:
        self.js = js
        self.charge = charge
        self.counts = js.counter("COUNTS")
        self.routes = [
            Route("/orders", self.place, methods=["POST"]),
            Route("/orders/{number:int}", self.show),
            Route("/orders/{number:int}/until/{state}", self.wait_for),
            Route("/orders/{number:int}/cancel", self.cancel, methods=["POST"]),
            Route("/counts/{item}", self.count),
            Route("/dead", self.list_dead),
            Route("/dead/{seq:int}/retry", self.retry, methods=["POST"]),
        ]

    async def create_streams(self) -> None:
        """Create what is not there yet."""
        create, day = self.js.create_stream, timedelta(days=1)
        await create("ORDERS", subjects=["orders.>"], allow_msg_schedules=True, duplicate_window=day)
        await create("STATES", subjects=["states.*"], max_msgs_per_subject=5)
        await create("COUNTS", subjects=["counts.>"], allow_msg_counter=True, allow_direct=True, duplicate_window=day)
        await create("DEAD", subjects=["dead.>"], allow_direct=True)

    # -- the front -----------------------------------------------------------------------------------------------------

    async def place(self, request: Request) -> JSONResponse:
        """Take an order. With the same ``Idempotency-Key`` it is the same order."""
        query = request.query_params
        try:
            customer, item, pieces = query["customer"], query["item"], int(query.get("pieces", "1"))
            grace = float(query.get("grace", DAY))
        except (KeyError, ValueError):
            return refused(400, "an order needs a customer and an item, and numbers where numbers are")
        if not customer.isalnum() or not item.isalnum() or pieces < 1 or not 0 <= grace <= 30 * DAY:
            return refused(400, "names have letters and digits, and an order has pieces")
        order = {"customer": customer, "item": item, "pieces": pieces, "grace": grace}
        key = request.headers.get("Idempotency-Key")
        try:
            ack = await self.js.publish(f"orders.placed.{customer}", json.dumps(order).encode(), msg_id=key)
        except LocalProtocolError as error:
            return refused(400, str(error))
        return JSONResponse({"number": ack.seq}, 200 if ack.duplicate else 201)

    async def show(self, request: Request) -> JSONResponse:
        """The order and its state."""
        number = request.path_params["number"]
        order, state = await self.order(number), await self.state(number)
        if order is None:
            return refused(404, f"there is no order {number}")
        return JSONResponse({"order": order, "state": "placed" if state is None else state.json()})

    async def wait_for(self, request: Request) -> JSONResponse:
        """Answer when the order has that state, or has had it."""
        number, state = request.path_params["number"], request.path_params["state"]
        async with await self.js.subscribe(f"states.{number}", ordered=True) as changes:
            try:
                while (await changes.next_msg(timeout=30)).json() != state:
                    pass
            except TimeoutError:
                return refused(408, f"order {number} is not {state}")
        return JSONResponse({"state": state})

    async def cancel(self, request: Request) -> JSONResponse:
        """Cancel an order that is paid and not shipped."""
        number = request.path_params["number"]
        order, state = await self.order(number), await self.state(number)
        if order is None:
            return refused(404, f"there is no order {number}")
        if state is None or not await self.change(state, "paid", "cancelled"):
            return refused(409, f"order {number} cannot be cancelled")
        await self.js.purge_stream("ORDERS", subject=f"orders.later.{number}")
        await self.counts.add(f"counts.sold.{order['item']}", -order["pieces"], msg_id=f"cancelled-{number}")
        return JSONResponse({"state": "cancelled"})

    async def count(self, request: Request) -> JSONResponse:
        """How many pieces of an item were sold, and how many orders shipped."""
        sold = await self.counts.value(f"counts.sold.{request.path_params['item']}")
        return JSONResponse({"sold": sold, "shipped": await self.counts.value("counts.shipped")})

    async def list_dead(self, request: Request) -> JSONResponse:
        """What could not be worked off, and why."""
        return JSONResponse([described(letter) async for letter in self.js.get_batch("DEAD")])

    async def retry(self, request: Request) -> JSONResponse:
        """Place a dead letter again."""
        seq = request.path_params["seq"]
        try:
            letter = await self.js.get_msg("DEAD", seq, level="leader")
        except MessageNotFoundError:
            return refused(404, f"there is no dead letter {seq}")
        ack = await self.js.publish(letter.headers["Dead-Letter-Subject"], letter.data, msg_id=f"retry-{seq}")
        await self.js.delete_msg("DEAD", seq)
        return JSONResponse({"number": ack.seq}, 201)

    # -- the workers ---------------------------------------------------------------------------------------------------

    async def bill(self, job: JSMsg) -> None:
        """Take the money, and have the order shipped later."""
        number, order = job.metadata.sequence.stream, job.json()
        await self.charge(number, order)
        await self.enter(f"states.{number}", "paid")
        await self.js.publish(
            f"orders.later.{number}", job.data, delay=timedelta(seconds=order["grace"]), target=f"orders.due.{number}",
            msg_id=f"later-{number}",
        )  # fmt: skip
        await self.counts.add(f"counts.sold.{order['item']}", order["pieces"], msg_id=f"sold-{number}")

    async def note(self, job: JSMsg, error: BaseException) -> None:
        """The bank, or something else, did not work."""
        if isinstance(error, DeclinedError):
            await self.enter(f"states.{job.metadata.sequence.stream}", "declined")

    async def ship(self, job: JSMsg) -> None:
        """The time of grace is over."""
        number = int(job.subject.rpartition(".")[2])
        state = await self.state(number)
        if state is not None and await self.change(state, "paid", "shipped"):
            await self.counts.add("counts.shipped", msg_id=f"shipped-{number}")

    # -- orders and their states ---------------------------------------------------------------------------------------

    async def order(self, number: int) -> dict[str, Any] | None:
        """The order with that number, None if there is none."""
        try:
            message = await self.js.get_msg("ORDERS", number, level="leader")
        except MessageNotFoundError:
            return None
        return message.json() if message.subject.startswith("orders.placed.") else None

    async def state(self, number: int) -> StoredMsg | None:
        """The message with the state of an order, None if nothing was done yet."""
        try:
            return await self.js.get_last_msg("STATES", f"states.{number}", level="leader")
        except MessageNotFoundError:
            return None

    async def change(self, state: StoredMsg, before: str, after: str) -> bool:
        """Change a state from ``before`` to ``after``. Returns whether it is that now, perhaps by an earlier call."""
        if state.json() != before:
            return bool(state.json() == after)
        return await self.enter(state.subject, after, state.seq)

    async def enter(self, subject: str, state: str, seq: int = 0) -> bool:
        """Write a state, unless there is one after the sequence ``seq``."""
        try:
            await self.js.publish(subject, json.dumps(state).encode(), expected_last_subject_seq=seq)
        except StreamWrongLastSequenceError:
            return False
        return True


def refused(status: int, why: str) -> JSONResponse:
    """An answer that says no."""
    return JSONResponse({"error": why}, status)


def described(letter: StoredMsg) -> dict[str, Any]:
    """A dead letter as the front shows it."""
    headers = letter.headers
    return {
        "seq": letter.seq, "order": letter.json(), "number": int(headers["Dead-Letter-Sequence"]),
        "reason": headers["Dead-Letter-Reason"], "note": headers.get("Dead-Letter-Note"),
    }  # fmt: skip


@asynccontextmanager
async def order_service(url: str, charge: Callable[[int, dict[str, Any]], Any]) -> AsyncIterator[Starlette]:
    """The front, with workers while its block lasts. The end of the block waits for what is under way."""
    async with connect(url, name="orders") as nc:
        js = nc.jetstream()
        orders = Orders(js, charge)
        await orders.create_streams()
        async with (
            await js.pull_subscribe("orders.placed.*", "billing", max_deliver=3) as placed,
            await js.pull_subscribe("orders.due.*", "shipping") as due,
            await js.dead_letters("ORDERS", "billing", to="DEAD"),
            placed.consume(
                orders.bill, concurrency=4, key=lambda job: job.subject, retry_delay=0.05, term_on=DeclinedError,
                on_error=orders.note,
            ),
            due.consume(orders.ship),
        ):  # fmt: skip
            yield Starlette(routes=orders.routes)
