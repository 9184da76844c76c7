"""One simulation: a program, the hosts beside it, a server and what goes wrong, from the beginning to the end.

Rules
 * One seed is one schedule. The same seed, conditions and faults give the same digest in each run.
 * The simulation ends with ``main``. What is left of the program is cancelled then.
 * A host that fails is started again after ``RESTART`` seconds, as a supervisor does it. One that returns is not.
 * A host that is killed is started again when the fault ends.
 * The check sees the server after the end. It asks the server what is stored, and not the clients.

Not here: many seeds (``search``), the loop (``loop``), what surrounds it (``sandbox``).
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, Final, TypeAlias, Unpack

from jsproto._version import __version__
from jsproto.errors import LocalProtocolError
from jsproto.server.server import Server
from jsproto.testing.faults import IN_CLUSTER, Fault, random_faults
from jsproto.testing.network import Network, NetworkConditions
from jsproto.testing.world import Entry, World
from jsproto_io.dialer import use_dialer
from jsproto_io.testing.host import RoleKeywords, check_options
from jsproto_io.testing.simulation.engine import Clients, Engine, Host, NotSimulatedError, Program, noted
from jsproto_io.testing.simulation.sandbox import EPOCH, Entropy, collect_at, refuse_sleep, sandbox
from jsproto_io.testing.simulation.timeline import page_of, text_of

Check: TypeAlias = Callable[["Report"], object]
FaultSource: TypeAlias = Sequence[Fault] | Callable[[int], Sequence[Fault]]

CONDITIONS: Final = NetworkConditions(latency=0.005, jitter=0.005)
"""A network nearby: 5 to 10 ms for one way."""
UNTIL: Final = 3600.0  # seconds
MOST_TURNS: Final = 1_000_000
BYTES_WITHIN: Final = 2.0  # seconds
RESTART: Final = 1.0  # seconds
GRACE: Final = 60.0  # seconds for what is left of the program to end


@dataclass(slots=True, eq=False)
class Report:
    """What became of a simulation.

    * ``clients``, ``seed``, ``conditions``, ``faults``: what it is made from. ``replay``: the call that does it again.
    * ``result``: what ``main`` returned. None if it failed.
    * ``error``: why it failed: of ``main``, of the check, or StuckError. None: it did not.
    * ``now``: its end in simulated seconds. ``turns``: of the loop.
    * ``digest``: of all bytes that arrived, with their times.
    * ``server``: the role as it was at the end. ``world``: where it was.
    * ``log``: what happened until then, oldest first. ``failures``: of hosts, with their names.
    """

    seed: int
    conditions: NetworkConditions
    faults: tuple[Fault, ...]
    world: World = field(repr=False)
    clients: Clients = "asyncio"
    result: Any = None
    error: BaseException | None = None
    now: float = 0.0
    turns: int = 0
    digest: str = ""
    log: Sequence[Entry] = field(default=(), repr=False)
    failures: Sequence[tuple[str, Exception]] = ()
    surroundings: str = field(default_factory=lambda: surroundings())

    @property
    def server(self) -> Server:
        """The role as it was at the end."""
        return self.world.server

    @property
    def replay(self) -> str:
        """The arguments of ``simulate`` that do it again."""
        clients = f"clients={self.clients!r}, " if self.clients in ("trio", "threads") else ""
        return f"{clients}seed={self.seed}, conditions={self.conditions!r}, faults={list(self.faults)!r}"

    def summary(self) -> list[str]:
        """How it ended, and how to do it again, in lines."""
        end = "passes" if self.error is None else f"fails: {type(self.error).__name__}: {self.error}"
        lines = [f"seed {self.seed} {end}", f"after {self.now:g} simulated seconds, digest {self.digest[:16]}"]
        if self.error is not None:
            lines += ["faults:" if self.faults else "without any fault", *(f"  {fault!r}" for fault in self.faults)]
            lines += [f"again: simulate(main, {self.replay})", f"with {self.surroundings}"]
        return lines

    def to_html(self) -> str:
        """The report with its timeline, as a page of HTML that needs nothing from elsewhere."""
        return page_of(self)

    def __str__(self) -> str:
        return "\n".join([*self.summary(), *([] if self.error is None else ["timeline:", *text_of(self.log)])])


class SimulationFailedError(AssertionError):
    """A simulated program, or its ``check``, has failed. Attribute: ``report``. The text is that of the report."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Simulation:
    """The simulation that runs, for a program that knows of it.

    Attributes: ``world``, ``seed``, ``failures`` (of hosts: their names and errors).
    """

    def __init__(self, world: World, seed: int, engine: Engine, *, blocks: bool) -> None:
        """``blocks``: the programs are no asynchronous functions."""
        self.world = world
        self.seed = seed
        self.failures: list[tuple[str, Exception]] = []
        self._engine = engine
        self._blocks = blocks
        self._programs: dict[str, Program] = {}
        self._hosts: dict[str, Host] = {}
        world.on_host = self._changed

    @property
    def server(self) -> Server:
        """The role. It may be looked at, and changed."""
        self._engine.touched()
        return self.world.server

    def start(self, name: str, run: Program) -> None:
        """Start a host: ``run`` and all tasks that it starts. Faults may kill it by its ``name``."""
        self._programs[name] = run
        self._begin(name)

    def healed(self) -> Any:
        """Wait until the faults have ended, and ``BYTES_WITHIN`` seconds for those that wait for a byte. Then end all.

        What comes afterwards has to succeed.

        It is to be awaited, other than in a blocking program.
        """
        waiting = self._engine.sleep(max(self.world.healed_at - self.world.now, BYTES_WITHIN))
        return self._heal() if waiting is None else self._heal_after(waiting)

    async def _heal_after(self, waiting: Awaitable[None]) -> None:
        await waiting
        self._heal()

    def _heal(self) -> None:
        with self._engine.guard:
            self.world.heal()
            self._engine.touched()

    def _begin(self, name: str) -> None:
        if name in self._hosts and self._hosts[name].is_alive:
            self.world.leave(name)
            self._engine.kill(self._hosts[name])
        host = self._hosts[name] = Host(name)
        supervise = self._supervise_thread if self._blocks else self._supervise_task
        self._engine.start_host(host, partial(supervise, name, host))

    async def _supervise_task(self, name: str, host: Host) -> None:
        while True:
            try:
                await self._programs[name]()
            except Exception as error:
                self._failed(name, error)
                await self._engine.sleep(RESTART)
            else:
                return

    def _supervise_thread(self, name: str, host: Host) -> None:
        while host.is_alive:
            try:
                self._programs[name]()
            except Exception as error:
                if host.is_alive:
                    self._failed(name, error)
                    self._engine.sleep(RESTART)
            else:
                return

    def _failed(self, name: str, error: Exception) -> None:
        self.world.note(f"host {name} fails: {type(error).__name__}: {error}")
        self.failures.append((name, error))

    def _changed(self, name: str, is_up: bool) -> None:
        if name not in self._programs:
            return
        if is_up:
            self._begin(name)
        else:
            self._engine.kill(self._hosts[name])


_current: Final[ContextVar[Simulation | None]] = ContextVar("jsproto_simulation", default=None)


def current() -> Simulation:
    """The simulation that runs.

    Raises:
        RuntimeError: none does.
    """
    found = _current.get()
    if found is None:
        raise RuntimeError("no simulation runs here")
    return found


_ENGINES: Final[dict[Clients, tuple[str, str]]] = {
    "asyncio": ("loop", "SimulatedLoop"),
    "trio": ("trio", "SimulatedRun"),
    "blocking": ("blocking", "SimulatedThread"),
    "threads": ("realtime", "RealTime"),
}
"""Where each way to run a program is. They are imported when they are used: trio may not be installed."""


def _engine(clients: Clients) -> Callable[..., Engine]:
    if clients not in _ENGINES:
        raise LocalProtocolError(f"clients is one of {', '.join(_ENGINES)}, not {clients!r}")
    module, name = _ENGINES[clients]
    engine: Callable[..., Engine] = getattr(import_module(f"jsproto_io.testing.simulation.{module}"), name)
    return engine


def _check(main: Any, check: Any, seed: Any, until: Any, hosts: Any, faults: Any) -> None:
    """Check the arguments of ``simulate``."""
    if iscoroutine(main):
        main.close()
        raise LocalProtocolError("main is a function, not what it returns: leave out its parentheses")
    if not callable(main):
        raise LocalProtocolError(f"main is a function without arguments, not {main!r:.100}")
    if iscoroutinefunction(check):
        raise LocalProtocolError("check is called after the end, and cannot be asynchronous")
    if check is not None and not callable(check):
        raise LocalProtocolError(f"check is a function that takes the report, not {check!r:.100}")
    if type(seed) is not int:
        raise LocalProtocolError(f"seed is a whole number, not {seed!r:.100}")
    if isinstance(until, bool) or not isinstance(until, int | float) or not until > 0:
        raise LocalProtocolError(f"until is a number of seconds above 0, not {until!r:.100}")
    if hosts is not None and not (
        isinstance(hosts, Mapping) and all(isinstance(name, str) and callable(run) for name, run in hosts.items())
    ):
        raise LocalProtocolError(f"hosts are functions by their names, as a dictionary, not {hosts!r:.100}")
    if faults is not None and not callable(faults):
        check_faults(faults)


def check_faults(faults: Any) -> None:
    """Check that these are faults.

    Raises:
        LocalProtocolError: they are something else.
    """
    if not isinstance(faults, list | tuple) or not all(isinstance(fault, Fault) for fault in faults):
        raise LocalProtocolError(f"faults are a list of Fault, or a function that makes one, not {faults!r:.100}")


def _made_faults(faults: FaultSource | None, seed: int, hosts: Sequence[str]) -> Sequence[Fault]:
    """The faults of a run. LocalProtocolError: what a function has made is no list of faults."""
    if faults is None:
        return random_faults(seed, hosts=hosts)
    if not callable(faults):
        return faults
    made = faults(seed)
    check_faults(made)
    return made


def simulate(
    main: Program,
    *,
    clients: Clients | None = None,
    seed: int = 0,
    conditions: NetworkConditions = CONDITIONS,
    faults: FaultSource | None = None,
    hosts: Mapping[str, Program] | None = None,
    check: Check | None = None,
    until: float = UNTIL,
    most_turns: int = MOST_TURNS,
    must_pass: bool = True,
    **options: Unpack[RoleKeywords],
) -> Report:
    """Run a program in simulated time.

    Args:
        main: the program: a function without arguments. ``connect()`` to any URL reaches the server.
        clients: how it runs: on ``asyncio`` or ``trio``, ``blocking`` in one thread, or with ``threads``, which is in
            real time and not reproducible. None: ``asyncio`` for an asynchronous function, else ``blocking``.
        seed: makes all random choices.
        conditions: of the network.
        faults: a list, or a function that makes one from the seed. None: ``random_faults``.
        hosts: programs beside ``main``, by their names. A ``blocking`` program can have none.
        check: called with the report after the end. What it raises is the report's error.
        until: seconds after which a program that has not ended is stuck.
        most_turns: turns of the loop after which it is stuck.
        must_pass: False returns the report of a failure, too. Its ``error`` is what the program or ``check`` raised.
        options: of the server, see ``jsproto_io.testing.host.RoleKeywords``.

    Raises:
        SimulationFailedError: the program or ``check`` has failed.
        LocalProtocolError: an argument has a value that it cannot have, such as an asynchronous ``check``.
        TypeError: the server has no option of a name.
    """
    _check(main, check, seed, until, hosts, faults)
    check_options(options)
    hosts = hosts or {}
    if clients is None:
        clients = "asyncio" if iscoroutinefunction(main) else "blocking"
    make, is_real = _engine(clients), clients == "threads"
    faults = _made_faults(faults, seed, list(hosts))
    entropy = Entropy(seed)
    network = Network(seed, conditions)
    calm = not (conditions.loss or conditions.duplication or conditions.reordering)
    bus = None if calm and not any(fault.kind in IN_CLUSTER for fault in faults) else network.cluster
    server = Server(token=entropy(16), epoch=EPOCH * 1_000_000_000, bus=bus, **options)
    world = World(faults=faults, network=network, server=server)
    report = Report(seed, conditions, tuple(faults), world, clients)
    engine = make(world, entropy, until=until, most_turns=most_turns)
    if is_real:
        surrounded: AbstractContextManager[None] = nullcontext()
    else:
        engine.at_turn = collect_at
        surrounded = sandbox(entropy, lambda: world.now, engine.sleep if clients == "blocking" else refuse_sleep)
    with surrounded:
        simulation = Simulation(world, seed, engine, blocks=clients in ("blocking", "threads"))

        def at_end() -> None:
            world.on_host = None
            report.now, report.digest, report.turns = world.now, world.digest, engine.turns
            report.log, report.failures = tuple(world.log), tuple(simulation.failures)

        token, refusals = _current.set(simulation), list[NotSimulatedError]()
        noting = noted.set(refusals)
        try:
            with use_dialer(engine, threads=is_real):
                for name, run in hosts.items():
                    simulation.start(name, run)
                report.result = engine.run(main, at_end, GRACE)
        except (Exception, SystemExit) as error:
            report.error = _as_failure(error)
        finally:
            noted.reset(noting)
            _current.reset(token)
    if report.error is None and refusals:  # the program has caught it, and went on with nothing
        report.error = refusals[0]
    if report.error is None and check is not None:
        try:
            check(report)
        except (Exception, SystemExit) as error:
            report.error = _as_failure(error)
    return passed(report) if must_pass else report


def passed(report: Report) -> Report:
    """The report of a simulation that passes.

    Raises:
        SimulationFailedError: it does not.
    """
    if report.error is not None:
        raise SimulationFailedError(report) from report.error
    return report


def _as_failure(error: Exception | SystemExit) -> Exception:
    return RuntimeError(f"sys.exit({error.code!r}) was called") if isinstance(error, SystemExit) else error


def surroundings() -> str:
    """What a digest depends on besides the seed."""
    hash_seed = os.environ.get("PYTHONHASHSEED", "random")
    trio = getattr(sys.modules.get("trio"), "__version__", None)  # whose releases order tasks in other ways
    ours = f"jsproto {__version__}" if trio is None else f"jsproto {__version__}, trio {trio}"
    return f"Python {platform.python_version()}, {ours}, PYTHONHASHSEED={hash_seed}"
