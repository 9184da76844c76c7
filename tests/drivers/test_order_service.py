"""An application by public names: the order service on each driver, over its HTTP front, on a real nats-server.

Rules: the text for asyncio is the one that is written. Threads have it without ``await``, as the drivers themselves do.
A test waits for what the business does, and never for a time.
"""

from __future__ import annotations

import ast
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import anyio
import httpx
import pytest

import jsproto_io.sync
from jsproto import ConsumerInfo
from jsproto_io.nats_server import NatsServer
from tests import servers
from tests.drivers.conftest import PATIENCE
from tests.tools.generate_blocking import for_threads

pytestmark = [pytest.mark.anyio, pytest.mark.server]

SOURCE: Final = Path(__file__).with_name("order_service.py")
PUBLIC: Final = frozenset({"jsproto", "jsproto.api_errors", "jsproto.errors", "jsproto_io.asyncio"})


def written_for(name: str) -> ModuleType:
    """The service as it is written for a driver."""
    text = SOURCE.read_text(encoding="utf-8").replace("jsproto_io.asyncio", f"jsproto_io.{name}")
    if name == "sync":
        text = for_threads(text).replace("asynccontextmanager", "contextmanager")
    module = ModuleType(f"order_service_{name}")
    exec(compile(text, f"<order_service for {name}>", "exec"), module.__dict__)
    return module


SERVICES: Final = {name: written_for(name) for name in ("sync", "asyncio", "trio")}


class Bank:
    """Takes money, or says no, or is down. While it is ``held`` it does not answer."""

    def __init__(self, driver: str, service: ModuleType) -> None:
        self.is_threaded = driver == "sync"
        self.charged: dict[str, list[int]] = defaultdict(list)  # numbers of orders, by customer
        self.asked: dict[int, int] = defaultdict(int)
        self.down_for: dict[str, int] = {}  # item -> how many attempts fail
        self.declined: type[Exception] = service.DeclinedError
        self.gate: Any = threading.Event() if self.is_threaded else anyio.Event()
        self.gate.set()
        self.charge: Any = self.in_thread if self.is_threaded else self.in_task

    def hold(self) -> None:
        self.gate = threading.Event() if self.is_threaded else anyio.Event()

    def in_thread(self, number: int, order: Any) -> None:
        self.asked[number] += 1
        self.gate.wait(PATIENCE)
        self.answer(number, order)

    async def in_task(self, number: int, order: Any) -> None:
        self.asked[number] += 1
        await self.gate.wait()
        self.answer(number, order)

    def answer(self, number: int, order: Any) -> None:
        if order["item"] == "gold":
            raise self.declined("no credit")
        if self.asked[number] <= self.down_for.get(order["item"], 0):
            raise ConnectionError("the bank is down")
        if number not in self.charged[order["customer"]]:
            self.charged[order["customer"]].append(number)


class Shop:
    """The service as its customers see it, one after the other on the same server."""

    def __init__(self, driver: str, url: str) -> None:
        self.driver, self.url = driver, url
        self.service = SERVICES[driver]
        self.bank = Bank(driver, self.service)
        self.ending = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the service, which is at work during the block."""
        entered: Any = self.service.order_service(self.url, self.bank.charge)
        with anyio.fail_after(PATIENCE):
            async with InThread(entered) if self.bank.is_threaded else entered as app:
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
                    yield client
                self.ending.set()


class InThread:
    """A context manager that waits, entered and left in another thread."""

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    async def __aenter__(self) -> Any:
        return await anyio.to_thread.run_sync(self.blocking.__enter__)

    async def __aexit__(self, *raised: Any) -> None:
        await anyio.to_thread.run_sync(self.blocking.__exit__, *raised)


@pytest.fixture(params=list(SERVICES))
def driver(request: pytest.FixtureRequest) -> str:
    """The driver under test, without the second way to run the one for threads."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def order_server() -> Iterator[NatsServer]:
    with NatsServer(config=servers.config()) as running:
        yield running


@pytest.fixture
def shop(driver: str, order_server: NatsServer) -> Shop:
    with jsproto_io.sync.connect(order_server.url) as nc:
        js = nc.jetstream()
        for name in js.stream_names():
            js.delete_stream(name)
    return Shop(driver, order_server.url)


async def place(client: httpx.AsyncClient, customer: str, item: str, key: str | None = None, **query: Any) -> int:
    """Place an order. Returns its number."""
    answer = await client.post(
        "/orders", params={"customer": customer, "item": item, **query}, headers={"Idempotency-Key": key} if key else {}
    )
    assert answer.is_success, answer.text
    number: int = answer.json()["number"]
    return number


async def until(client: httpx.AsyncClient, number: int, state: str) -> None:
    """Wait for the state of an order."""
    assert (await client.get(f"/orders/{number}/until/{state}")).json() == {"state": state}


async def until_counted(client: httpx.AsyncClient, item: str, sold: int, shipped: int) -> None:
    """Wait until so many pieces of the item were sold, and so many orders shipped."""
    while (await client.get(f"/counts/{item}")).json() != {"sold": sold, "shipped": shipped}:
        await anyio.sleep(0.005)


async def dead(client: httpx.AsyncClient, count: int) -> list[Any]:
    """So many dead letters, as soon as they are there."""
    while len(letters := (await client.get("/dead")).json()) < count:
        await anyio.sleep(0.005)
    return sorted(letters, key=lambda letter: int(letter["number"]))


async def test_an_order_is_paid_and_shipped_once(shop: Shop) -> None:
    async with shop.opened() as client:
        number = await place(client, "anna", "tea", key="1", pieces=3, grace=0.01)
        await until(client, number, "shipped")
        assert await place(client, "anna", "tea", key="1", pieces=3, grace=0.01) == number
        await until_counted(client, "tea", sold=3, shipped=1)
        assert (await client.get(f"/orders/{number}")).json() == {
            "order": {"customer": "anna", "item": "tea", "pieces": 3, "grace": 0.01}, "state": "shipped",
        }  # fmt: skip
        assert (await client.post(f"/orders/{number}/cancel")).status_code == 409
    assert shop.bank.charged == {"anna": [number]}


async def test_steps_that_come_twice_change_nothing(shop: Shop) -> None:
    async with shop.opened() as client:
        number = await place(client, "anna", "tea", pieces=3, grace=0.01)
        await until(client, number, "shipped")
        await until_counted(client, "tea", sold=3, shipped=1)
        with jsproto_io.sync.connect(shop.url) as nc:
            js = nc.jetstream()
            for consumer in ("shipping", "billing"):
                js.reset_consumer("ORDERS", consumer, 1)
                while not is_worked_off(js.consumer_info("ORDERS", consumer)):
                    await anyio.sleep(0.005)
            assert js.stream_subjects("ORDERS") == {"orders.placed.anna": 1, f"orders.due.{number}": 1}
        assert shop.bank.asked == {number: 2}
        assert (await client.get(f"/orders/{number}")).json()["state"] == "shipped"
        await until_counted(client, "tea", sold=3, shipped=1)


def is_worked_off(info: ConsumerInfo) -> bool:
    """Whether the consumer has delivered something, and all of it is acknowledged."""
    return info.delivered.consumer_seq > 0 and not info.num_pending and not info.num_ack_pending


async def test_the_orders_of_a_customer_are_paid_in_their_order(shop: Shop) -> None:
    shop.bank.down_for["milk"] = 2
    async with shop.opened() as client:
        numbers: dict[str, list[int]] = {"anna": [], "ben": [], "carl": []}
        for item in ("tea", "milk", "salt"):
            for customer, placed in numbers.items():
                placed.append(await place(client, customer, item))
        for placed in numbers.values():
            await until(client, placed[-1], "paid")
    assert shop.bank.charged == numbers
    assert [shop.bank.asked[placed[1]] for placed in numbers.values()] == [3, 3, 3]


async def test_a_cancelled_order_is_not_shipped(shop: Shop) -> None:
    async with shop.opened() as client:
        kept, number = await place(client, "anna", "tea", pieces=5), await place(client, "anna", "tea", pieces=2)
        await until(client, number, "paid")
        await until_counted(client, "tea", sold=7, shipped=0)
        for _ in range(2):  # the second time it is cancelled already
            assert (await client.post(f"/orders/{number}/cancel")).json() == {"state": "cancelled"}
        await until_counted(client, "tea", sold=5, shipped=0)
        assert (await client.get(f"/orders/{number}")).json()["state"] == "cancelled"
    with jsproto_io.sync.connect(shop.url) as nc:
        assert nc.jetstream().stream_subjects("ORDERS", "orders.later.>") == {f"orders.later.{kept}": 1}


async def test_what_cannot_be_paid_is_kept_and_placed_again(shop: Shop) -> None:
    shop.bank.down_for["milk"] = 3
    async with shop.opened() as client:
        declined, failed = await place(client, "anna", "gold"), await place(client, "ben", "milk")
        letters = await dead(client, 2)
        assert [(letter["number"], letter["reason"], letter["note"]) for letter in letters] == [
            (declined, "terminated", "DeclinedError: no credit"), (failed, "max_deliver", None),
        ]  # fmt: skip
        await until(client, declined, "declined")
        assert (await client.get(f"/orders/{failed}")).json()["state"] == "placed"
        shop.bank.down_for.clear()
        number = (await client.post(f"/dead/{letters[1]['seq']}/retry")).json()["number"]
        await until(client, number, "paid")
        assert [letter["number"] for letter in await dead(client, 1)] == [declined]
    assert shop.bank.charged == {"ben": [number]}


async def test_the_end_waits_for_what_is_under_way_and_the_next_goes_on(shop: Shop) -> None:
    customers = ["anna", "ben", "carl", "dora", "eva", "fred"]
    shop.bank.hold()

    async def release_at_the_end() -> None:
        await shop.ending.wait()
        shop.bank.gate.set()

    async with anyio.create_task_group() as others, shop.opened() as client:
        numbers = [await place(client, customer, "tea") for customer in customers]
        while len(shop.bank.asked) < 4:
            await anyio.sleep(0.005)
        others.start_soon(release_at_the_end)
    assert sorted(number for paid in shop.bank.charged.values() for number in paid) == sorted(shop.bank.asked)
    async with shop.opened() as client:
        for number in numbers:
            await until(client, number, "paid")
        await until_counted(client, "tea", sold=6, shipped=0)
    assert shop.bank.charged == {customer: [number] for customer, number in zip(customers, numbers, strict=True)}
    assert set(shop.bank.asked.values()) == {1}


async def test_bad_requests_are_refused(shop: Shop) -> None:
    async with shop.opened() as client:
        for query in ({}, {"customer": "anna"}, {"customer": "a b", "item": "tea"}, {"customer": "a.b", "item": "tea"}):
            assert (await client.post("/orders", params=query)).status_code == 400
        for pieces, grace in (("0", "1"), ("x", "1"), ("1", "-1"), ("1", "nan"), ("1", "x")):
            query = {"customer": "anna", "item": "tea", "pieces": pieces, "grace": grace}
            assert (await client.post("/orders", params=query)).status_code == 400
        for path in ("/orders/7/cancel", "/dead/7/retry"):
            assert (await client.post(path)).status_code == 404
        assert (await client.get("/orders/7")).status_code == 404
        assert (await client.get("/dead")).json() == []
    assert not shop.bank.asked


def test_it_takes_public_names_alone() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("jsproto"):
            assert node.module in PUBLIC
            public = getattr(import_module(str(node.module)), "__all__", None)
            assert public is None or {alias.name for alias in node.names} <= set(public)
        assert not (isinstance(node, ast.Attribute) and node.attr.startswith("_")), ast.unparse(node)
