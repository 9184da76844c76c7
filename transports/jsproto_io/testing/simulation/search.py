"""Many simulations: the first seed that fails, with as few and as short faults as make it fail.

How it works
 * A first, undisturbed run shows what faults may hit: how long it is busy, how many links and bytes there are, and
   which streams. ``random_faults`` of each seed are spread over that.
 * The faults of a run that fails are data. They are left out one by one, and those left are shortened, as long as the
   same error stays. Then the network is calmed.
 * What is left is run twice more. Unequal digests mean that the program is not deterministic, which is an error itself.

Not here: one simulation (``run``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from jsproto.errors import Error, LocalProtocolError
from jsproto.testing.faults import Fault, random_faults
from jsproto.testing.network import NetworkConditions
from jsproto_io.testing.simulation.engine import Program
from jsproto_io.testing.simulation.run import Report, passed, simulate

SEEDS: Final = range(100)
MORE_LINKS: Final = 2  # that are dialed because others broke
LEAST_SECONDS: Final = 0.5
BUSY: Final = 0.8  # the share of what arrives in a calm run, in whose time faults begin
MOST_ATTEMPTS: Final = 200  # runs to shrink one failure
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e-?\d+)?")


class NotDeterministicError(Error):
    """The same seed and the same faults gave other bytes, or another error."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to disturb, as the arguments of ``random_faults``. It may be called with a seed."""

    seconds: float
    links: int
    size: int
    streams: tuple[str, ...]
    replicated: tuple[str, ...]
    hosts: tuple[str, ...]
    crashes: bool

    def __call__(self, seed: int) -> list[Fault]:
        """The faults of a seed."""
        return random_faults(
            seed, seconds=self.seconds, links=self.links, size=self.size, streams=self.streams,
            replicated=self.replicated, hosts=self.hosts, crashes=self.crashes,
        )  # fmt: skip


def plan(main: Program, **options: Any) -> Plan:
    """Run ``main`` once without faults, and see what there is to disturb. ``options``: of ``simulate``.

    Raises:
        AssertionError: it fails without any fault, and the text says how.
    """
    calm = simulate(main, **(options | {"faults": (), "must_pass": False}))
    if calm.error is not None:
        raise AssertionError(f"the program fails without any fault.\n{calm}") from calm.error
    for host, failure in calm.failures:
        if not isinstance(failure, Error | OSError):  # those come of what is not there yet
            raise AssertionError(f"the host {host} fails without any fault: {failure!r}.\n{calm}") from failure
    times = [entry.when for entry in calm.log if entry.data]
    sizes: dict[tuple[int, str], int] = {}
    for entry in calm.log:
        sizes[entry.link, entry.what] = sizes.get((entry.link, entry.what), 0) + len(entry.data)
    configs = [inlet.stream.config for inlet in calm.server.api.streams.values()]
    return Plan(
        seconds=max(times[round(BUSY * (len(times) - 1))] if times else 0.0, LEAST_SECONDS),
        links=max((link for link, _ in sizes), default=0) + MORE_LINKS,
        size=max(sizes.values(), default=1) + 1,
        streams=tuple(config.name for config in configs),
        replicated=tuple(config.name for config in configs if (config.num_replicas or 1) > 1),
        hosts=tuple(options.get("hosts") or ()),
        crashes=any(config.persist_mode == "async" for config in configs),
    )


def search(
    main: Program,
    *,
    seeds: Iterable[int] = SEEDS,
    on_report: Callable[[Report], object] | None = None,
    must_pass: bool = True,
    **options: Any,
) -> Report | None:
    """Simulate ``main`` with one seed after the other, up to the first that fails.

    Args:
        main: see ``simulate``.
        seeds: which ones.
        on_report: called with each report, before it is shrunk.
        must_pass: False returns the first report that fails, shrunk, or None.
        options: of ``simulate``. With ``faults=None`` they fit the program: see ``plan``.

    Raises:
        SimulationFailedError: a seed fails. It has the report, shrunk.
        LocalProtocolError: there is no seed, or as of ``simulate``.
        AssertionError: the program fails without any fault.
        NotDeterministicError: what was found does not repeat itself.
    """
    given: object = seeds
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise LocalProtocolError(f"seeds are whole numbers, such as range(100), not {seeds!r:.100}")
    if options.get("faults") is None:
        options["faults"] = plan(main, **options)
    report = None
    for seed in seeds:
        report = simulate(main, seed=seed, must_pass=False, **options)
        if on_report is not None:
            on_report(report)
        if report.error is not None:
            shrunk = shrink(report, partial(simulate, main, seed=seed, must_pass=False, **options))
            return passed(shrunk) if must_pass else shrunk
    if report is None:
        raise LocalProtocolError("there are no seeds to try")
    return None


def shrink(report: Report, again: Callable[..., Report]) -> Report:
    """The same failure with less. ``again``: runs it with other ``faults`` and ``conditions``.

    Raises:
        NotDeterministicError: it does not repeat itself.
    """
    if report.clients == "threads":
        return report  # in real time nothing repeats itself
    attempts = 0

    def attempt(best: Report, **changed: Any) -> Report | None:
        nonlocal attempts
        attempts += 1
        if attempts > MOST_ATTEMPTS:
            return None
        tried = again(**({"faults": best.faults, "conditions": best.conditions} | changed))
        return tried if same_error(tried, report) else None

    best = report
    changes = True
    while changes:  # leaving out one may let another be left out
        changes = False
        for index in reversed(range(len(best.faults))):
            tried = attempt(best, faults=best.faults[:index] + best.faults[index + 1 :])
            if tried is not None:
                best, changes = tried, True
    for index, fault in enumerate(best.faults):
        for lasts in _shorter(fault.lasts):
            faults = (*best.faults[:index], replace(fault, lasts=lasts), *best.faults[index + 1 :])
            tried = attempt(best, faults=faults)
            if tried is not None:
                best = tried
                break
    for calmer in _calmer(best.conditions):
        tried = attempt(best, conditions=calmer)
        if tried is not None:
            best = tried
            break
    for _ in range(2):
        repeated = again(faults=best.faults, conditions=best.conditions)
        if repeated.digest != best.digest or not same_error(repeated, best):
            raise NotDeterministicError(
                f"the same simulation gives other bytes the second time, so the program is not deterministic.\n{best}"
            ) from best.error
    return best


def same_error(one: Report, another: Report) -> bool:
    """Whether both fail with the same type of error and, but for numbers, the same first line.

    The lines after it are pytest's, which show objects with their addresses.
    """
    return _kind(one.error) == _kind(another.error)


def _kind(error: BaseException | None) -> tuple[type | None, str]:
    return (None, "") if error is None else (type(error), _NUMBERS.sub("#", str(error).partition("\n")[0]))


def _shorter(lasts: float) -> list[float]:
    return [] if not lasts else [0.0, round(lasts / 8, 3), round(lasts / 2, 3)]


def _calmer(conditions: NetworkConditions) -> list[NetworkConditions]:
    latency = conditions.latency
    wanted = [
        NetworkConditions(), NetworkConditions(latency=latency), replace(conditions, jitter=0.0, piece=0),
    ]  # fmt: skip
    return [calmer for calmer in wanted if calmer != conditions]
