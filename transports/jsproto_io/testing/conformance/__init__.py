"""A body of tests by which a driver, or an outbox inside another client, proves itself.

    from jsproto_io.testing import conformance

    @pytest.mark.parametrize("case", conformance.DRIVER_CASES, ids=str)
    async def test_my_driver(case):
        await conformance.run_async(case, MyAdapter())

An adapter has two methods, ``connect`` and ``cancel`` (``bench.Adapter``). What ``connect`` returns has four members
(``bench.Client``). Each may be blocking, or return an awaitable: then ``run_async`` awaits it.

Rules

* A case is a generator. It yields what the methods of the adapter return, and is sent their results. So one body of
  tests fits each kind of driver, and this package needs no library for event loops.
* Each case has a server in memory of its own, on a socket, which it may cut off, stop and start again.
* A case waits for events. Where it lets time pass, a long pause of the machine changes nothing.
* ``OUTBOX_CASES`` are for each ``jsproto.Outbox``. ``DRIVER_CASES`` are those, and more for what drives a
  ``jsproto.Session``.

Not here: TLS, several addresses, what a driver offers beyond the verbs of the core.
"""

from __future__ import annotations

from inspect import isawaitable, iscoroutine
from typing import Any, Final

from jsproto_io.testing.conformance import driver_cases, outbox_cases
from jsproto_io.testing.conformance.bench import Adapter, Bench, Case, Client

__all__ = ["DRIVER_CASES", "OUTBOX_CASES", "Adapter", "Case", "Client", "run", "run_async"]

OUTBOX_CASES: Final[tuple[Case, ...]] = outbox_cases.CASES
DRIVER_CASES: Final[tuple[Case, ...]] = outbox_cases.CASES + driver_cases.CASES


def run(case: Case, adapter: Adapter) -> None:
    """Run one case with a blocking adapter.

    Raises:
        AssertionError: the driver does something else than the contract says.
        Exception: the driver failed.
    """
    with Bench(adapter, case.options) as bench:
        steps = case.body(bench)
        step: Any = None
        try:
            while True:
                step = steps.send(step)
                if iscoroutine(step):
                    step.close()
                    raise AssertionError("an adapter that returns awaitables needs run_async()")
        except StopIteration:
            return
        finally:
            steps.close()


async def run_async(case: Case, adapter: Adapter) -> None:
    """Run one case with an adapter whose methods return awaitables. Raises the same."""
    with Bench(adapter, case.options) as bench:
        steps = case.body(bench)
        step: Any = None
        try:
            step = next(steps)
            while True:
                try:
                    result = await step if isawaitable(step) else step
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration:
            return
        finally:
            steps.close()
