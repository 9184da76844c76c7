"""How messages are printed: as text for people, as JSON, or the payload alone.

Rules
 * Text: a line with the sequence, the time and the subject, the headers, then the payload.
 * A binary payload is shown as its first bytes in hexadecimal digits. What the terminal would obey is escaped.
 * JSON: one object a line. A payload that is UTF-8 is ``data``, another one is ``data_base64``.
 * Raw: the bytes of the payload, and after them the end that was asked for.

Not here: where messages come from (``commands``).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from rich.text import Text

from jsproto.grammar.times import format_timestamp
from jsproto_io.cli.terminal import Screen, one_line
from jsproto_io.cli.values import stamp

SHOWN: Final = 32  # bytes of a payload that is no text


class Output(StrEnum):
    """How messages are printed."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


class HasHeaders(Protocol):
    """Headers of a message."""

    def items(self) -> Any:
        """The fields."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message to print. ``time`` is nanoseconds since the epoch. ``more`` is for JSON alone."""

    subject: str
    data: bytes
    headers: HasHeaders
    seq: int | None = None
    time: int | None = None
    reply: str | None = None
    more: Mapping[str, Any] | None = None


class Printer:
    """Prints messages in one way."""

    def __init__(self, screen: Screen, raw: bool = False, end: bytes = b"\n", *, headers_only: bool = False) -> None:
        """``raw``: payloads alone, each with ``end`` after it. ``headers_only``: everything but payloads."""
        self._screen = screen
        self._end = end
        self._headers_only = headers_only
        self.output = Output.JSON if screen.as_json else Output.RAW if raw else Output.TEXT

    def show(self, message: Shown) -> None:
        """Print a message. It may wait in a buffer until ``flush``."""
        match self.output:
            case Output.JSON:
                self._screen.dump(as_json(message, not self._headers_only))
            case Output.RAW:
                self._screen.write(message.data + self._end)
            case Output.TEXT:
                self._show_text(message)

    def flush(self) -> None:
        """Wait until all is printed."""
        self._screen.flush()

    def _show_text(self, message: Shown) -> None:
        parts = [message.subject]
        if message.time is not None:
            parts.insert(0, stamp(message.time))
        if message.seq is not None:
            parts.insert(0, f"#{message.seq}")
        if message.reply:
            parts.append(f"(reply to {message.reply})")
        out = self._screen.out
        out.print(Text(one_line(" ".join(parts)), style="bold"), soft_wrap=True)
        for name, value in message.headers.items():
            out.print(Text(one_line(f"{name}: {value}"), style="cyan"), soft_wrap=True)
        if not self._headers_only:
            out.print(Text(payload_text(message.data)), soft_wrap=True)


def payload_text(data: bytes) -> str:
    """A payload for people."""
    if not data:
        return "(empty)"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(char.isprintable() or char in "\n\t" for char in text):
        return text.rstrip("\n")
    more = "…" if len(data) > SHOWN else ""
    return f"({len(data):,} bytes, no text) {data[:SHOWN].hex(' ')}{more}"


def as_json(message: Shown, with_payload: bool = True) -> dict[str, Any]:
    """A message for a program."""
    found: dict[str, Any] = {}
    if message.seq is not None:
        found["seq"] = message.seq
    if message.time is not None:
        found["time"] = format_timestamp(message.time)
    found["subject"] = message.subject
    if message.reply:
        found["reply"] = message.reply
    fields: dict[str, list[str]] = {}
    for name, value in message.headers.items():
        fields.setdefault(name, []).append(value)
    if fields:
        found["headers"] = fields
    payload = payload_json(message.data) if with_payload else {}
    return found | payload | dict(message.more or {})


def payload_json(data: bytes) -> dict[str, str]:
    """A payload for a program."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}


def raw_end(null: bool) -> bytes:
    """What comes after each payload: a line end, or a null byte."""
    return b"\0" if null else b"\n"
