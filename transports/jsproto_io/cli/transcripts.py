"""Recordings of links: the frames of both directions as JSON. ``jsproto tap --save`` writes, ``--replay`` reads them.

    {"scenario": "tap", "about": "...", "setup": [],
     "transcript": [{"dir": "c2s", "raw": "PING\\r\\n", "link": 1, "time": 0.25}, ...], "server_version": "2.15.1"}

Rules

* A frame is one entry. ``raw`` has one character for each byte. ``c2s`` is from the client to the server.
* ``link`` and ``time`` (seconds) may be missing: link 1, at 0.
* It is written as it comes, so a long recording takes no memory. It is whole when it was closed.

Not here: what is left out of it (``tapping``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.wire.frames import Info
from jsproto_io.cli.records import BadInput
from jsproto_io.cli.tapping import ROLES, Direction, Seen


class Recorded(NamedTuple):
    """Bytes that went by on a link, at ``when`` (seconds)."""

    when: float
    link: int
    direction: Direction
    raw: bytes


class Recording:
    """A recording that is written, as a block. OSError where the file cannot be."""

    def __init__(self, path: Path, about: str) -> None:
        self._file = path.open("w", encoding="ascii")
        self._file.write(f'{{"scenario": "tap", "about": {json.dumps(about)}, "setup": [], "transcript": [')
        self._between = "\n"
        self._version: Any = None

    def add(self, seen: Iterable[Seen]) -> None:
        """Write what went by."""
        for each in seen:
            raw = each.recorded()
            if not raw:
                continue
            if isinstance(each.frame, Info) and self._version is None:
                self._version = _version(each.frame.raw)
            line = {"dir": each.direction, "raw": raw.decode("latin-1"), "link": each.link, "time": round(each.when, 6)}
            self._file.write(self._between + json.dumps(line))
            self._between = ",\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            self._file.write(f'\n], "server_version": {json.dumps(self._version)}}}\n')


def recorded(path: Path) -> Iterator[Recorded]:
    """What a recording has, in its order. Entries of frames that were left out (``elided``) are passed over.

    Raises:
        BadInput: the file is no recording.
        OSError: it cannot be read.
    """
    text = path.read_bytes()
    try:
        for line in json.loads(text)["transcript"]:
            if line["dir"] in ROLES:
                raw = line["raw"].encode("latin-1")
                yield Recorded(float(line.get("time", 0.0)), int(line.get("link", 1)), line["dir"], raw)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path} is no recording of frames ({type(error).__name__}: {error})") from None


def _version(info: bytes) -> Any:
    try:
        return loads(info).get("version")
    except RemoteProtocolError:
        return None
