"""What real servers said, from the transcripts: for the tests of what parses and writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).resolve().parent.parent / "transcripts"


class Recorded(NamedTuple):
    """One frame of a transcript: its scenario, the server's version, who sent it, its bytes."""

    scenario: str
    version: str
    from_server: bool
    raw: bytes


@cache
def frames() -> tuple[Recorded, ...]:
    """Every frame of every transcript."""
    return tuple(_read())


def _read() -> Iterator[Recorded]:
    for path in sorted(FOLDER.glob("*@*.json")):
        transcript: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        scenario, version = path.name.partition("@")[0], transcript["server_version"]
        for frame in transcript["transcript"]:
            yield Recorded(scenario, version, frame["dir"] == "s2c", frame["raw"].encode("latin-1"))


def messages() -> Iterator[tuple[Recorded, bytes, bytes]]:
    """Messages without headers that servers delivered to inboxes, with their subject and payload."""
    for frame in frames():
        head, _, body = frame.raw.partition(b"\r\n")
        if frame.from_server and head.startswith(b"MSG _INBOX."):
            yield frame, head.split(b" ")[1], body.removesuffix(b"\r\n")
