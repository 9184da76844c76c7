"""``python -m jsproto_io.testing.simulate MODULE:main``: find a seed with which a program fails, and what it takes.

``main`` is a function of the module, asynchronous or not. If the module has ``hosts`` (a dictionary of programs beside
it, by their names) and ``check`` (called with the report), they are used too.

| flag | what it does |
|---|---|
| ``--clients KIND`` | how ``main`` runs: ``asyncio``, ``trio``, ``blocking`` or ``threads``. See ``simulate`` |
| ``--seeds A:B`` | the seeds from A up to, but not including, B. 0:100 by default |
| ``--seed N`` | one seed |
| ``--faults LIST`` | these faults, in the form in which a failure prints them. With ``--seed``: nothing is shrunk |
| ``--conditions TEXT`` | of the network, in the form in which a failure prints them |
| ``--until SECONDS`` | of simulated time, after which a program is stuck |
| ``--html FILE`` | the report of a failure with its timeline is written there, as a page |
| ``--processes N`` | how many at once, by default one for each core |

The exit code is 0 when all seeds pass, and 1 when one fails. The processes have PYTHONHASHSEED=0, unless it is set.

Not here: the simulation (``simulation``), how a failure is shown (``simulation.timeline``).
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any, Final, get_args

from jsproto.errors import LocalProtocolError
from jsproto.testing.faults import Fault
from jsproto.testing.network import NetworkConditions
from jsproto_io.testing.simulation.engine import Clients
from jsproto_io.testing.simulation.run import CONDITIONS, UNTIL, simulate
from jsproto_io.testing.simulation.search import NotDeterministicError, plan, shrink

CHUNK: Final = 20  # seeds for a process at once
_MAKES: Final = {"Fault": Fault, "NetworkConditions": NetworkConditions}

_setup: list[Any] = []  # of this process: what ``_load`` is called with


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and print what is found. Returns the exit code."""
    asked = _parser().parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"  # for the processes below
    seeds = range(asked.seed, asked.seed + 1) if asked.seed is not None else asked.seeds
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    began = monotonic()
    setup = (asked.target, asked.clients, asked.conditions, asked.faults, asked.until)
    try:
        found = _first_failure(min(asked.processes, len(chunks)), setup, chunks)
        if found is not None and asked.html is not None:
            asked.html.write_text(found[1], "utf-8")
    except (AssertionError, NotDeterministicError) as error:
        print(error)
        return 1
    except (AttributeError, ImportError, LocalProtocolError, OSError) as error:
        print(f"jsproto_io.testing.simulate: {error}", file=sys.stderr)
        return 2
    except BrokenProcessPool:
        print("jsproto_io.testing.simulate: a process ended in the middle of a simulation", file=sys.stderr)
        return 2
    if found is not None:
        print(found[0])
        return 1
    print(f"{len(seeds)} seeds pass, in {monotonic() - began:.1f} s")
    return 0


def _first_failure(processes: int, setup: Sequence[Any], chunks: Sequence[range]) -> tuple[str, str] | None:
    """What is to be printed of the first seed that fails, and its page. None: all pass."""
    with ProcessPoolExecutor(processes, get_context("spawn"), _set_up, tuple(setup)) as pool:
        runs = [pool.submit(_first_that_fails, chunk) for chunk in chunks]
        try:
            failing = next((seed for seed in (run.result() for run in runs) if seed is not None), None)
        finally:
            for run in runs:
                run.cancel()
        return None if failing is None else pool.submit(_shrunk, failing).result()


# -- in the processes --------------------------------------------------------------------------------------------------


def _set_up(*setup: Any) -> None:
    _setup[:] = setup


@cache
def _options() -> dict[str, Any]:
    """What ``simulate`` is called with."""
    target, clients, conditions, faults, until = _setup
    name, _, attribute = target.partition(":")
    sys.path.insert(0, "")
    module = import_module(name)
    options = {
        "main": getattr(module, attribute or "main"), "conditions": conditions, "until": until, "faults": faults,
        "clients": clients, "hosts": getattr(module, "hosts", None), "check": getattr(module, "check", None),
        "must_pass": False,
    }  # fmt: skip
    return options if faults is not None else options | {"faults": plan(**options)}


def _first_that_fails(seeds: Sequence[int]) -> int | None:
    return next((seed for seed in seeds if simulate(seed=seed, **_options()).error is not None), None)


def _shrunk(seed: int) -> tuple[str, str]:
    again = partial(simulate, **(_options() | {"seed": seed}))
    report = shrink(again(), again)
    flags = f'--seed {seed} --faults "{list(report.faults)!r}" --conditions "{report.conditions!r}"'
    clients = f" --clients {report.clients}" if report.clients in ("trio", "threads") else ""
    text = f"{report}\n\nagain: python -m jsproto_io.testing.simulate {_setup[0]}{clients} {flags}"
    return text, report.to_html()


# -- flags -------------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jsproto_io.testing.simulate", allow_abbrev=False)
    parser.add_argument("target", metavar="MODULE:main")
    parser.add_argument("--clients", choices=get_args(Clients))
    parser.add_argument("--seeds", type=seeds_of, default=range(100))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--faults", type=made)
    parser.add_argument("--conditions", type=made, default=CONDITIONS)
    parser.add_argument("--until", type=float, default=UNTIL)
    parser.add_argument("--html", type=Path)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser


def seeds_of(text: str) -> range:
    """The seeds of ``A:B``.

    Raises:
        argparse.ArgumentTypeError: it is not of this form, or has no seeds.
    """
    first, _, after = text.partition(":")
    try:
        seeds = range(int(first), int(after))
    except ValueError:
        seeds = range(0)
    if not seeds:
        raise argparse.ArgumentTypeError(f"seeds are FIRST:END, such as 0:100, not {text!r}")
    return seeds


def made(text: str) -> Any:
    """What a text makes that consists of ``Fault``, ``NetworkConditions``, lists and numbers.

    Raises:
        argparse.ArgumentTypeError: it has anything else.
    """
    try:
        return _made(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"it is what a failure prints, not {text!r:.100} ({error})") from None


def _made(node: ast.expr) -> Any:
    match node:
        case ast.List(elements):
            return [_made(element) for element in elements]
        case ast.Call(ast.Name(name), arguments, keywords) if name in _MAKES:
            named = {str(keyword.arg): _made(keyword.value) for keyword in keywords}
            return _MAKES[name](*map(_made, arguments), **named)
        case ast.Name("inf"):
            return float("inf")
        case _:
            return ast.literal_eval(node)


if __name__ == "__main__":
    sys.exit(main())
