"""Writes the tables of options in the README of Spark's source: ``python -m tests.tools.generate_options``.

Rules: a row for each field of the options classes, those that are required first, and else in the order of the classes.
The table of writing has one row for the connection, which is described with reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark_jetstream.option_fields import CONTENT, Option, options_of
from pyspark_jetstream.options import ConnectionOptions, ReadOptions, WriteOptions

README: Final = Path(__file__).parents[2] / "transports" / "pyspark_jetstream" / "README.md"
WRITES_CONNECTION: Final = "| `servers`, `nats.*`, `requestTimeout` | | as above |"


def row(option: Option) -> str:
    """The row of one option."""
    names = f"`{option.name}`, `{option.name}{CONTENT}`" if option.file else f"`{option.name}`"
    shown = f" {option.shown} " if option.shown else " "
    others = f". Not with {', '.join(f'`{name}`' for name in option.excludes)}" if option.excludes else ""
    needs = f". Needs `{option.needs}`" if option.needs else ""
    return f"| {names} |{shown}| {option.text}{needs}{others} |"


def rows(*kinds: type) -> Iterator[str]:
    """The rows of the options of classes."""
    options = [option for kind in kinds for _, option in options_of(kind)]
    for option in sorted(options, key=lambda each: not each.required):
        yield row(option)


def table(direction: str, lines: Iterator[str]) -> str:
    """A table with its markers."""
    head = [f"<!-- {direction} options -->", f"| option of a {direction} | default | |", "|---|---|---|"]
    return "\n".join([*head, *lines, f"<!-- end of {direction} options -->"])


def render(readme: str) -> str:
    """The README with fresh tables."""
    lines = {
        "read": rows(ConnectionOptions, ReadOptions),
        "write": iter([WRITES_CONNECTION, *rows(WriteOptions)]),
    }
    for direction, those in lines.items():
        pattern = f"<!-- {direction} options -->.*<!-- end of {direction} options -->"
        fresh = table(direction, those)
        readme, found = re.subn(pattern, lambda _, fresh=fresh: fresh, readme, flags=re.DOTALL)  # type: ignore[misc]
        assert found == 1
    return readme


if __name__ == "__main__":
    README.write_text(render(README.read_text(encoding="utf-8")), encoding="utf-8")
