"""Offsets of a streaming read, as Spark keeps them in its checkpoints.

Rules: an offset is, for each stream, the sequence to read next, and when the stream was created, so that a stream that
was deleted and made again is told apart from the one the checkpoint knows. Spark compares offsets as JSON text: keys
are in a fixed order, and values are integers and strings alone. With the end of a micro-batch goes how it is cut into
tasks: sinks know a row by its task and its number there, so a micro-batch that is planned again, on another machine or
with other options, has to be cut as it was.

Not here: which sequences there are (``planning``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from pyspark_jetstream.options import OptionError

VERSION: Final = 1


class Position(NamedTuple):
    """In one stream: the sequence to read next; when the stream was created, nanoseconds since the epoch."""

    created: int
    seq: int


class SplitPlan(NamedTuple):
    """Into how many tasks a stream's part of a micro-batch is cut, at least, and how many sequences one has at most."""

    parts: int
    most: int


def encode_offset(positions: Mapping[str, Position], cut: SplitPlan | None = None) -> dict[str, Any]:
    """As Spark is to keep it."""
    streams = {
        name: {"created": str(positions[name].created), "seq": positions[name].seq} for name in sorted(positions)
    }
    return {"v": VERSION, **({} if cut is None else cut._asdict()), "streams": streams}


def decode_cut(offset: Mapping[str, Any]) -> SplitPlan | None:
    """How a micro-batch that ends there is cut; None when the offset does not say."""
    try:
        cut = SplitPlan(int(offset["parts"]), int(offset["most"]))
    except (KeyError, TypeError, ValueError):
        return None
    return cut if min(cut) > 0 else None


def decode_offset(offset: Mapping[str, Any]) -> dict[str, Position]:
    """The positions of an offset. OptionError when it is not one of ours."""
    try:
        if offset["v"] != VERSION:
            raise OptionError(f"the checkpoint has offsets of version {offset['v']}, which this release cannot read")
        return {
            str(name): Position(int(position["created"]), int(position["seq"]))
            for name, position in offset["streams"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"the checkpoint has offsets of another source: {offset!r}") from None


def check_streams(positions: Mapping[str, Position], streams: Collection[str]) -> None:
    """OptionError when the checkpoint has others; more streams than it has are new ones."""
    gone = sorted(positions.keys() - set(streams))
    if gone:
        text = f"the checkpoint is of {', '.join(sorted(positions))}, but the query does not read {', '.join(gone)}"
        raise OptionError(f"{text}: take another checkpointLocation")
