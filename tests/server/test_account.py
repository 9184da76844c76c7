"""Limits of the account: the role refuses what a real server with the same limits refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from jsproto.server import AccountLimits
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.server.sides import OnARealServer, OnTheRole, Side, without_times

STRICT: Final = AccountLimits(2000, 2000, 3, 3, 20, 1500, 2500, max_bytes_required=True)
SMALL: Final = AccountLimits(1200, 1400)
NAMES: Final = {"max_storage": "max_store", "storage_max_stream_bytes": "store_max_stream_bytes"}


def asked(side: Side, name: str = "S", verb: str = "CREATE", **options: Any) -> Any:
    body = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": "memory", **options}
    return without_times(side.api(f"STREAM.{verb}.{name}", body))


def account(side: Side) -> Any:
    return {name: value for name, value in side.api("INFO").items() if name != "api"}


def consumer(side: Side, name: str, **options: Any) -> Any:
    config = {"name": name, "ack_policy": "explicit", **options}
    answer = without_times(side.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config}))
    return answer.get("config", answer)


def publish(side: Side, subject: str, times: int, size: int = 100) -> list[Any]:
    return [side.ask(subject, b"x" * size) for _ in range(times)]


def streams(side: Side) -> Iterator[Any]:
    yield account(side)
    for size, most in ((-1, -1), (100, -1), (100_000, -1), (1000, 10)):
        yield size, asked(side, max_bytes=size, max_consumers=most)
        side.api("STREAM.DELETE.S")
    yield asked(side, max_bytes=1000)
    yield [asked(side, name, max_bytes=size) for name, size in (("A", 600), ("B", 400), ("C", 1))]
    yield [asked(side, "F", storage="file", max_bytes=size) for size in (1000, 3000, 1500)]
    yield account(side)
    for size, most in ((1200, -1), (2000, -1), (500, -1), (-1, -1), (500, 9)):
        yield asked(side, verb="UPDATE", max_bytes=size, max_consumers=most)


def consumers(side: Side) -> Iterator[Any]:
    yield asked(side, max_bytes=500)
    for name, options in (
        ("c1", {}), ("c2", {"max_ack_pending": 50}), ("c3", {"max_ack_pending": 5}), ("c3", {}), ("c4", {}),
        ("c5", {"ack_policy": "none"}),
    ):  # fmt: skip
        yield consumer(side, name, **options)
    yield account(side)


def messages(side: Side) -> Iterator[Any]:
    """The first message is stored, however large it is."""
    yield asked(side, "M"), side.ask("m.a", b"x" * 3000), side.ask("m.a", b"x")
    side.api("STREAM.PURGE.M")
    yield publish(side, "m.a", 12), account(side)
    for name, value in (("Nats-TTL", "x"), ("Nats-Expected-Last-Sequence", "99"), ("Nats-Rollup", "all")):
        yield side.ask("m.a", b"x" * 100, {name: value})
    yield asked(side, "F", storage="file"), publish(side, "f.a", 12), account(side)
    for name in ("F", "M"):
        side.api(f"STREAM.PURGE.{name}")
        yield side.ask(f"{name.lower()}.a", b"x" * 3000), side.ask(f"{name.lower()}.a", b"x" * 100)
    asked(side, "B", allow_atomic=True)
    for size in (100, 3000):
        yield side.ask("b.a", b"x" * size, {f"Nats-Batch-{name}": "1" for name in ("Id", "Sequence", "Commit")})
    yield account(side)


STEPS: Final[tuple[tuple[AccountLimits, Callable[[Side], Iterator[Any]]], ...]] = (
    (STRICT, streams), (STRICT, consumers), (SMALL, messages),
)  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize(("limits", "steps"), STEPS)
def test_both_refuse_the_same(limits: AccountLimits, steps: Callable[[Side], Iterator[Any]]) -> None:
    words = account(OnTheRole(account_limits=limits))["limits"].items()
    block = ", ".join(f"{NAMES.get(name, name)}: {str(value).lower()}" for name, value in words if value != -1)
    config = f"accounts {{ A {{ jetstream {{ {block} }}, users [ {{user: u, password: p}} ] }} }}"
    with NatsServer(config=config) as running, connect(running.url, user="u", password="p") as nc:
        for here, there in zip(steps(OnTheRole(account_limits=limits)), steps(OnARealServer(nc)), strict=True):
            assert here == there


def codes(said: Any) -> list[int]:
    """The codes of all errors in what was said, in their order."""
    if isinstance(said, list | tuple):
        return [code for each in said for code in codes(each)]
    return [said["error"]["err_code"]] if isinstance(said, dict) and "error" in said else []


def test_limits_of_streams() -> None:
    assert codes(list(streams(OnTheRole(account_limits=STRICT)))) == [
        10113, 10028, 10026, 10027, 10027, 10027, 10027, 10028, 10122, 10113, 10026,
    ]  # fmt: skip


def test_limits_of_consumers() -> None:
    said = list(consumers(OnTheRole(account_limits=STRICT)))
    assert codes(said) == [10121, 10026]
    assert (said[1]["max_ack_pending"], said[3]["max_ack_pending"]) == (20, 5)


def test_limits_of_messages() -> None:
    said = list(messages(OnTheRole(account_limits=SMALL)))
    assert codes(said[0]) == [10002]
    assert codes(said[1]) == [10002] * 2
    assert codes(said[-2:]) == [10002]


def test_a_batch_is_refused_as_a_whole() -> None:
    side = OnTheRole(account_limits=SMALL)
    asked(side, "B", allow_atomic=True)
    side.ask("b.a", b"x")
    for number in range(1, 12):
        side.send("b.a", b"x" * 100, {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)})
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "12", "Nats-Batch-Commit": "1"}
    assert side.ask("b.a", b"x" * 100, last)["error"]["err_code"] == 10002
    assert account(side)["memory"] == len("b.a") + 1 + 16
