"""Counts what the library's own code does, in this process.

How it works: from Python 3.12 on ``sys.monitoring`` tells each function begun, each call of C and each instruction. It
is told at once to leave alone what is not the library's code. Before, ``sys.setprofile`` tells calls of both kinds.

Not here: which jobs run (``worker``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import jsproto
import jsproto_io

COUNTED: Final = tuple(str(Path(package.__path__[0])) + "/" for package in (jsproto, jsproto_io))
NOT_COUNTED: Final = tuple(f"{folder}{room}/" for folder in COUNTED for room in ("server", "testing"))
"""The other role, and what plays the network."""
LARGEST_CACHED: Final = 256  # Python keeps these numbers: a larger one is a memory block of its own


class Counter:
    """Counts between ``counting()`` and its end, but for what happens within ``paused()``.

    Attributes:
        counts: by the name of the measure.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._runs = False
        self._ours: dict[str, bool] = {}  # by the name of a file
        self._listen: Callable[[bool], None] = lambda on: None

    def counting(self) -> AbstractContextManager[None]:
        """Count from zero, in a ``with`` block."""
        return self._monitored() if sys.version_info >= (3, 12) else self._profiled()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what the block does."""
        if not self._runs:
            yield
            return
        self._runs = False
        self._listen(False)
        try:
            yield
        finally:
            self._runs = True
            self._listen(True)

    def is_ours(self, code: CodeType) -> bool:
        """Whether it is code of the library that counts."""
        name = code.co_filename
        if (found := self._ours.get(name)) is None:
            found = self._ours[name] = name.startswith(COUNTED) and not name.startswith(NOT_COUNTED)
        return found

    @contextmanager
    def _profiled(self) -> Iterator[None]:
        counts = self.counts = {"calls": 0, "c_calls": 0}
        names = {"call": "calls", "c_call": "c_calls"}

        def profile(frame: FrameType, what: str, argument: object) -> None:
            if self._runs and (name := names.get(what)) is not None and self.is_ours(frame.f_code):
                counts[name] += 1

        sys.setprofile(profile)
        self._runs = True
        try:
            yield
        finally:
            self._runs = False
            sys.setprofile(None)

    @contextmanager
    def _monitored(self) -> Iterator[None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # Python 3.11 has none
        events, tool, leave_alone = monitoring.events, monitoring.PROFILER_ID, monitoring.DISABLE
        counts = self.counts = {"calls": 0, "c_calls": 0, "bytecodes": 0, "blocks": 0}
        is_ours, allocated = self.is_ours, sys.getallocatedblocks
        last: int | None = None

        def began(code: CodeType, offset: int) -> object:
            if not is_ours(code):
                return leave_alone
            counts["calls"] += 1
            return None

        def called(code: CodeType, offset: int, function: object, argument: object) -> object:
            return None if is_ours(code) else leave_alone

        def returned(code: CodeType, offset: int, function: object, argument: object) -> None:
            if is_ours(code):
                counts["c_calls"] += 1

        def executed(code: CodeType, offset: int) -> object:
            if not is_ours(code):
                return leave_alone
            counts["bytecodes"] += 1
            return None

        def reached(code: CodeType, line: int) -> object:
            nonlocal last
            if not is_ours(code):
                return leave_alone
            now = allocated() - (line > LARGEST_CACHED)  # the number of the line is a block, too
            if last is not None and now > last:
                counts["blocks"] += now - last
            last = now
            return None

        def listen(on: bool) -> None:
            nonlocal last
            last = None
            monitoring.set_events(tool, wanted if on else events.NO_EVENTS)

        callbacks = {
            events.PY_START: began, events.PY_RESUME: began, events.CALL: called, events.C_RETURN: returned,
            events.C_RAISE: returned, events.INSTRUCTION: executed, events.LINE: reached,
        }  # fmt: skip
        monitoring.use_tool_id(tool, "counts")
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        wanted = events.PY_START | events.PY_RESUME | events.CALL | events.INSTRUCTION | events.LINE  # CALL brings C_*
        self._listen = listen
        monitoring.restart_events()
        self._runs = True
        listen(True)
        try:
            yield
        finally:
            self._runs = False
            listen(False)
            monitoring.free_tool_id(tool)
