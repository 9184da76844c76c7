"""What a program has done, for people and for programs.

Rules: it has what was measured, in the order in which it was said.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from rich import box
from rich.filesize import decimal
from rich.table import Table


class Summary:
    """Pairs of what and how much, and under ``data`` the same for a program. The clock starts with ``begin``."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.data: dict[str, Any] = {}
        self.lines: list[tuple[str, str]] = []
        self.note = ""  # what to add to the line of a failure
        self._began = 0.0

    def add(self, name: str, value: Any, text: str | None = None, *, label: str | None = None) -> None:
        """``value`` for a program, ``text`` for people: its own with thousands set apart, unless it is given."""
        self.data[name] = value
        shown = text if text is not None else f"{value:,}" if isinstance(value, int) else str(value)
        self.lines.append((label or name.replace("_", " "), shown))

    def add_bytes(self, name: str, size: int) -> None:
        """A size."""
        self.add(name, size, decimal(size))

    def begin(self) -> None:
        """Now."""
        self._began = monotonic()

    def add_rate(self, rows: int) -> None:
        """How long it took since ``begin``, and how many rows a second that makes."""
        seconds = monotonic() - self._began
        self.add("seconds", round(seconds, 3), f"{seconds:.1f} s", label="time")
        self.add("rows_per_s", round(rows / seconds) if seconds > 0 else 0, label="rows/s")

    def table(self) -> Table:
        """For people."""
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for label, text in self.lines:
            table.add_row(label, text)
        return table
