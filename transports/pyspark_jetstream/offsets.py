"""Offsets of a streaming read, as Spark keeps them in its checkpoints.

Rules:
* An offset has two values for each stream: the sequence to read next, and when the stream was created. The second tells
  a stream that was deleted and made again.
* Spark compares offsets as JSON text: keys are in a fixed order, and values are integers and strings alone.
* The end of a micro-batch holds how that is split into tasks. Sinks know a row by its task and its number there, so a
  micro-batch that is planned again, on another machine or with other options, is split as it was.
* With ``readMode=sourcing`` it holds the tasks themselves, and the name of the consumer. Such a checkpoint is of no use
  to another consumer, or to another ``readMode``.

Not here: which sequences there are (``planning``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark_jetstream.option_fields import OptionError

VERSION: Final = 1


class Position(NamedTuple):
    """In one stream: the sequence to read next, and when the stream was created (nanoseconds since the epoch)."""

    created: int
    seq: int


class SplitPlan(NamedTuple):
    """How a stream's part of a micro-batch is split: into how many tasks at least, of how many sequences at most.

    In a checkpoint the two are ``parts`` and ``most``.
    """

    min_partitions: int
    max_records_per_partition: int


class Task(NamedTuple):
    """A task of a micro-batch: so many messages, with sequences from ``lo`` to ``hi - 1``."""

    lo: int
    hi: int
    messages: int


def encode_offset(positions: Mapping[str, Position], plan: SplitPlan | None = None) -> dict[str, Any]:
    """As Spark is to keep it."""
    streams = {
        name: {"created": str(positions[name].created), "seq": positions[name].seq} for name in sorted(positions)
    }
    split = {} if plan is None else {"parts": plan.min_partitions, "most": plan.max_records_per_partition}
    return {"v": VERSION, **split, "streams": streams}


def decode_split_plan(offset: Mapping[str, Any]) -> SplitPlan | None:
    """How a micro-batch that ends there is split. None: the offset does not say."""
    try:
        plan = SplitPlan(int(offset["parts"]), int(offset["most"]))
    except (KeyError, TypeError, ValueError):
        return None
    return plan if min(plan) > 0 else None


def encode_sourced_offset(stream: str, position: Position, consumer: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """The end of a micro-batch with these tasks, of messages that a consumer delivered."""
    return {**encode_offset({stream: position}), "consumer": consumer, "tasks": [list(task) for task in tasks]}


def decode_tasks(offset: Mapping[str, Any]) -> list[Task]:
    """The tasks of a micro-batch that ends there. OptionError when it is not one of ours."""
    try:
        return [Task(*map(int, task)) for task in offset["tasks"]]
    except (KeyError, TypeError, ValueError):
        raise OptionError(f"the checkpoint has offsets of another source: {offset!r}") from None


def decode_offset(offset: Mapping[str, Any], consumer: str | None = None) -> dict[str, Position]:
    """The positions of an offset. OptionError when it is not one of ours, or not one of ``consumer``."""
    try:
        if offset["v"] != VERSION:
            raise OptionError(f"the checkpoint has offsets of version {offset['v']}, which this release cannot read")
        if offset.get("consumer") != consumer:
            was, now = (
                f"consumer {name}" if name else "readMode=direct" for name in (offset.get("consumer"), consumer)
            )
            raise OptionError(f"the checkpoint is of {was}, and the query of {now}: take another checkpointLocation")
        return {
            str(name): Position(int(position["created"]), int(position["seq"]))
            for name, position in offset["streams"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"the checkpoint has offsets of another source: {offset!r}") from None


def check_streams(positions: Mapping[str, Position], streams: Collection[str]) -> None:
    """OptionError when the checkpoint has streams that are not read. Streams that it lacks are new ones."""
    gone = sorted(positions.keys() - set(streams))
    if gone:
        text = f"the checkpoint is of {', '.join(sorted(positions))}, but the query does not read {', '.join(gone)}"
        raise OptionError(f"{text}: take another checkpointLocation")
