"""CPU and memory of other processes, as Linux has them in ``/proc``.

Rules: a process that ends gives its time to the parent that waits for it. So the time of a family is that of its
processes and of those that have ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")  # in a second


@dataclass(frozen=True)
class Process:
    """One process: CPU seconds of its own, and of its children that have ended."""

    pid: int
    parent: int
    own: float
    ended: float


@dataclass(frozen=True)
class Spent:
    """CPU seconds by kind of process."""

    python: float
    jvm: float
    server: float

    def __sub__(self, before: Spent) -> Spent:
        return Spent(self.python - before.python, self.jvm - before.jvm, self.server - before.server)


def processes(proc: Path = PROC) -> dict[int, Process]:
    """All that live."""
    found = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found[int(entry.name)] = parsed((entry / "stat").read_text())
    return found


def parsed(stat: str) -> Process:
    """Of the text of ``/proc/PID/stat``. The name in it may hold anything, even blanks and parentheses."""
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    user, system, ended_user, ended_system = (int(field) / TICKS for field in fields[11:15])
    return Process(int(head.split(" ", 1)[0]), int(fields[1]), user + system, ended_user + ended_system)


def descendants(of: int, among: Mapping[int, Process]) -> Iterator[Process]:
    """Its children, theirs, and so on."""
    for process in among.values():
        if process.parent == of:
            yield process
            yield from descendants(process.pid, among)


def spent(driver: int, jvm: int, server: int, among: Mapping[int, Process]) -> Spent:
    """So far. The JVM's family is Python, with its ended processes, and so is the driver without its own children."""
    workers = sum(process.own + process.ended for process in descendants(jvm, among))
    return Spent(among[driver].own + among[jvm].ended + workers, among[jvm].own, among[server].own)


def cpu_of(pid: int, proc: Path = PROC) -> float:
    """CPU seconds of one process so far."""
    return parsed((proc / str(pid) / "stat").read_text()).own


def peak(pids: Iterable[int], proc: Path = PROC) -> float:
    """The most memory that one of them had since ``forget_peak``, in MB (10**6 bytes). 0 when none lives."""
    most = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for line in (proc / str(pid) / "status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    most = max(most, int(line.split()[1]))
    return most * 1024 / 1e6


def forget_peak(pids: Iterable[int], proc: Path = PROC) -> None:
    """Begin anew with what they have now."""
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            (proc / str(pid) / "clear_refs").write_text("5")
