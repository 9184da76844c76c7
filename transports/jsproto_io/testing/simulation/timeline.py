"""The log of a simulation as lines that can be read, frame by frame, and as a page.

Rules

* Bytes become the frames that they hold (``jsproto_io.cli.tapping``), with the beginnings of headers and payloads.
* Each fault is shown, the early ones with ``BESIDE`` lines around them, and ``AROUND`` lines around the last one. Of
  what is left out, the number of lines is told.
* A page has all of it, up to ``MOST`` lines. It is one file, without scripts, and asks for nothing from elsewhere.

Not here: what happened (``jsproto.testing.world``).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from jsproto.testing.world import Entry
from jsproto.wire.frames import Msg, Pub
from jsproto_io.cli.tapping import Direction, Seen, Tap

if TYPE_CHECKING:
    from jsproto_io.testing.simulation.run import Report

AROUND: Final = 50
BESIDE: Final = 2
EARLY: Final = 20  # faults before the last one that are shown
AT_END: Final = 5
MOST: Final = 20_000
_PAYLOAD: Final = 2_000  # bytes of a payload, and of a header block, on a page
_DIRECTIONS: Final[dict[str, Direction]] = {"up": "c2s", "down": "s2c"}
_STYLE: Final = (
    "body{font:13px/1.5 monospace;margin:1em;color-scheme:light dark}pre{white-space:pre-wrap;margin:0}"
    "summary,p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}details>pre{margin-left:6em;opacity:.8}"
    ".fault{color:#c00;font-weight:bold}.note,.gap{opacity:.6}"
)
_HEAD: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)


class Line(NamedTuple):
    """One line: its text, whether it is about a fault, and the frame on it. None: there is none."""

    text: str
    is_fault: bool = False
    seen: Seen | None = None


def lines_of(log: Sequence[Entry]) -> list[Line]:
    """The lines of a log. Pieces whose beginning is no longer in it are shown as bytes."""
    tap, found = Tap(), list[Line]()
    for entry in log:
        direction = _DIRECTIONS.get(entry.what)
        if direction is None or not entry.data:
            found.append(Line(str(entry), entry.is_fault))
            continue
        for seen in tap.received(entry.link, direction, entry.data, entry.when):
            found.append(Line(str(seen), seen=seen) if seen.is_line else Line(str(entry)))
    return found


def shown(lines: Sequence[Line], around: int = AROUND) -> list[Line | int]:
    """What is worth reading of them: lines, and numbers of lines that are left out."""
    faults = [place for place, line in enumerate(lines) if line.is_fault]
    first = max((faults[-1] if faults else len(lines)) - around // 2, 0)
    kept = {*range(first, first + around), *range(len(lines) - AT_END, len(lines))}
    for place in faults[:EARLY]:
        kept.update(range(place - BESIDE, place + BESIDE + 1))
    found: list[Line | int] = []
    missing = 0
    for place, line in enumerate(lines):
        if place not in kept:
            missing += 1
            continue
        if missing:
            found.append(missing)
            missing = 0
        found.append(line)
    return found


def text_of(log: Sequence[Entry]) -> list[str]:
    """What is worth reading of a log, as text."""
    parts = shown(lines_of(log))
    text = [f"{'...':>12}  {part} lines" if isinstance(part, int) else part.text for part in parts]
    is_whole = not any(isinstance(part, int) for part in parts)
    return text if is_whole else [*text, "(report.to_html() has all lines, and report.log all bytes)"]


def page_of(report: Report) -> str:
    """A report as a page of HTML."""
    title = f"seed {report.seed} " + ("passes" if report.error is None else f"fails: {type(report.error).__name__}")
    about = "\n".join(report.summary())
    parts = [_part(part) for part in shown(lines_of(report.log), MOST)]
    head = f"{_HEAD}<title>{escape(title)}</title><style>{_STYLE}</style>"
    return "\n".join([head, f"<h1>{escape(title)}</h1>", f"<pre>{escape(about)}</pre>", "<hr>", *parts, ""])


def _part(part: Line | int) -> str:
    if isinstance(part, int):
        return f'<p class="gap">... {part} lines</p>'
    frame = None if part.seen is None else part.seen.frame
    if not isinstance(frame, Pub | Msg) or not (frame.header or frame.payload):
        kind = "fault" if part.is_fault else "note" if frame is None else "frame"
        return f'<p class="{kind}">{escape(part.text)}</p>'
    whole = "".join(_long(each) for each in (frame.header or b"", frame.payload))
    return f"<details><summary>{escape(part.text)}</summary><pre>{escape(whole)}</pre></details>"


def _long(raw: bytes) -> str:
    text = raw[:_PAYLOAD].decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    text = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
    return f"{text}... {len(raw)} bytes" if len(raw) > _PAYLOAD else text
