"""How keys and their values are printed: as text for people, as JSON, or the value alone.

Rules
 * Text: a line with the revision, the time and the key, then the value. A marker is one line: ``deleted``, ``purged``.
 * JSON: one object a line. A marker has no value.
 * Raw: values alone, and after each the end that was asked for.

Not here: values that are no text (``messages``), lists of keys (``tables``).
"""

from __future__ import annotations

from typing import Any, Final

from rich.text import Text

from jsproto.grammar.bucket_keys import KeyValueEntry
from jsproto.grammar.times import format_timestamp
from jsproto_io.cli.messages import payload_json, payload_text
from jsproto_io.cli.terminal import Screen, one_line
from jsproto_io.cli.values import stamp

WORDS: Final = {"PUT": "", "DEL": " deleted", "PURGE": " purged"}


class EntryPrinter:
    """Prints entries in one way."""

    def __init__(self, screen: Screen, raw: bool = False, end: bytes = b"\n") -> None:
        """``raw``: values alone, each with ``end`` after it."""
        self._screen = screen
        self._raw = raw
        self._end = end

    def show(self, entry: KeyValueEntry) -> None:
        """Print an entry. It may wait in a buffer."""
        screen = self._screen
        if screen.as_json:
            screen.dump(entry_json(entry))
        elif self._raw:
            if not entry.is_marker:
                screen.write(entry.value + self._end)
        else:
            head = f"#{entry.revision} {stamp(entry.timestamp)} {entry.key}{WORDS[entry.operation]}"
            screen.out.print(Text(one_line(head), style="bold"), soft_wrap=True)
            if not entry.is_marker:
                screen.out.print(Text(payload_text(entry.value)), soft_wrap=True)


def entry_json(entry: KeyValueEntry, with_value: bool = True) -> dict[str, Any]:
    """An entry for a program."""
    found = {
        "bucket": entry.bucket, "key": entry.key, "revision": entry.revision,
        "time": format_timestamp(entry.timestamp), "operation": entry.operation, "size": entry.size,
    }  # fmt: skip
    return found | (payload_json(entry.value) if with_value and not entry.is_marker else {})
