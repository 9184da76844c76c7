"""Arguments of ``simulate`` and ``search`` that cannot be: each complaint names one, and says what it takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

from jsproto.errors import LocalProtocolError
from jsproto_io.testing.simulation import search, simulate
from tests.simulation.both import report_of


async def main() -> str:
    await asyncio.sleep(1)
    return "done"


def plain() -> str:
    return "done"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"hosts": {"a": 5}}, "hosts are functions by their names, as a dictionary, not {'a': 5}"),
        ({"hosts": {5: main}}, "hosts are functions by their names, as a dictionary, not {5: "),
        ({"hosts": [main]}, r"hosts are functions by their names, as a dictionary, not \[<function"),
        ({"faults": "x"}, "faults are a list of Fault, or a function that makes one, not 'x'"),
        ({"faults": [5]}, r"faults are a list of Fault, or a function that makes one, not \[5\]"),
        ({"faults": lambda seed: seed}, "faults are a list of Fault, or a function that makes one, not 0"),
        ({"seed": "x"}, "seed is a whole number, not 'x'"),
        ({"seed": 1.5}, "seed is a whole number, not 1.5"),
        ({"until": -1}, "until is a number of seconds above 0, not -1"),
        ({"until": True}, "until is a number of seconds above 0, not True"),
        ({"until": "x"}, "until is a number of seconds above 0, not 'x'"),
        ({"check": 5}, "check is a function that takes the report, not 5"),
        ({"clients": "x"}, "clients is one of asyncio, trio, blocking, threads, not 'x'"),
    ],
)
def test_a_value_that_cannot_be(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"^{complaint}"):
        simulate(main, **arguments)


def test_a_function_that_was_called_already() -> None:
    for run in (simulate, search):
        with pytest.raises(LocalProtocolError, match="^main is a function, not what it returns"):
            run(main())  # type: ignore[arg-type]


@pytest.mark.parametrize("seeds", [5, "0:100", None])
def test_seeds(seeds: Any) -> None:
    with pytest.raises(LocalProtocolError, match=rf"^seeds are whole numbers, such as range\(100\), not {seeds!r}"):
        search(main, seeds=seeds)


def test_a_program_of_another_kind() -> None:
    for clients, program, complaint in [
        ("asyncio", plain, "main is not asynchronous: say clients='blocking' or 'threads'"),
        ("trio", plain, "main is not asynchronous: say clients='blocking' or 'threads'"),
        ("trio", main, "main is a program for asyncio: say clients='asyncio'"),
        ("blocking", main, "main is asynchronous: say clients='asyncio' or 'trio'"),
    ]:
        error = report_of(program, clients=clients, faults=()).error  # type: ignore[arg-type]
        assert isinstance(error, LocalProtocolError)
        assert str(error) == complaint


def test_other_errors_are_the_programs() -> None:
    async def fails() -> None:
        await trio.sleep(1)
        raise RuntimeError("mine")

    error = report_of(fails, clients="trio", faults=()).error
    assert (type(error), str(error)) == (RuntimeError, "mine")
