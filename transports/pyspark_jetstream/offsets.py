"""Offsets of a streaming read, as Spark keeps them in its checkpoints.

Rules:
* An offset has a position in each stream, which proves itself (``grammar.position``): the sequence to read next, when
  the stream was created, and the witness of the message before. Those of older releases have no witness.
* Spark compares offsets as JSON text: keys are in a fixed order, and values are integers and strings alone.
* Spark does not keep where a query began, and asks again after a restart. So the offset that a query begins with says
  that it is one (``initial``), and the end of the first micro-batch says where that begins (``from``). It also does so
  of streams that are new in the query.
* A stream that came back shorter, or was made anew, begins elsewhere than the micro-batch before ended. The end of the
  micro-batch says where (``moved``), because the stream may not tell it again.
* The end of a micro-batch holds how that is split into tasks. A micro-batch that is planned again, on another machine
  or with other options, is split as it was: sinks know a row by its task and its number there.
* With ``readMode=sourcing`` it holds the tasks themselves, and the name of the consumer. Such a checkpoint is of no use
  to another consumer, or to another ``readMode``.

Not here: which sequences there are (``planning``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jsproto.grammar.position import StreamPosition
from pyspark_jetstream.option_fields import OptionError

VERSION: Final = 1


class SplitPlan(NamedTuple):
    """How a micro-batch is split: into how many tasks at least, of how many sequences at most.

    ``in_all``: the tasks of all streams count together. Before, those of each stream did. In a checkpoint the three are
    ``parts``, ``most`` and ``all``.
    """

    min_partitions: int
    max_records_per_partition: int
    in_all: bool = False

    def among(self, span: int, matches: int) -> SplitPlan:
        """For ``span`` sequences, of which so many match. No match is one task."""
        if not matches:
            return SplitPlan(1, max(span, 1), self.in_all)
        most = max(self.max_records_per_partition * span // matches, 1)
        return self._replace(max_records_per_partition=most)


class Task(NamedTuple):
    """A task of a micro-batch: so many messages, with sequences from ``lo`` to ``hi - 1``."""

    lo: int
    hi: int
    messages: int


def encode_offset(
    positions: Mapping[str, StreamPosition],
    plan: SplitPlan | None = None,
    *,
    begins: Mapping[str, StreamPosition] | None = None,
    moved: Mapping[str, StreamPosition] | None = None,
    is_initial: bool = False,
) -> dict[str, Any]:
    """As Spark is to keep it.

    ``begins``: where the micro-batch begins, of streams for which its start does not say. ``moved``: of those for which
    its start says what holds no more.
    """
    initial = {"initial": 1} if is_initial else {}
    split = {} if plan is None else {"parts": plan.min_partitions, "most": plan.max_records_per_partition}
    if plan is not None and plan.in_all:
        split["all"] = 1
    begun = {"from": _encoded(begins)} if begins else {}
    elsewhere = {"moved": _encoded(moved)} if moved else {}
    return {"v": VERSION, **initial, **split, **begun, **elsewhere, "streams": _encoded(positions)}


def _encoded(positions: Mapping[str, StreamPosition]) -> dict[str, Any]:
    found = {}
    for name in sorted(positions):
        place = positions[name]
        witness = {} if place.witness is None else {"witness": str(place.witness)}
        found[name] = {"created": place.identity or "0", "seq": place.seq + 1, **witness}
    return found


def decode_split_plan(offset: Mapping[str, Any]) -> SplitPlan | None:
    """How a micro-batch that ends there is split. None: the offset does not say."""
    try:
        plan = SplitPlan(int(offset["parts"]), int(offset["most"]), "all" in offset)
    except (KeyError, TypeError, ValueError):
        return None
    return plan if min(plan[:2]) > 0 else None


def encode_sourced_offset(position: StreamPosition, consumer: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """The end of a micro-batch with these tasks, of messages that a consumer delivered."""
    return {**encode_offset({position.stream: position}), "consumer": consumer, "tasks": [list(task) for task in tasks]}


def decode_tasks(offset: Mapping[str, Any]) -> list[Task]:
    """The tasks of a micro-batch that ends there. OptionError when it is not one of ours."""
    try:
        return [Task(*map(int, task)) for task in offset["tasks"]]
    except (KeyError, TypeError, ValueError):
        raise _foreign(offset) from None


def decode_offset(offset: Mapping[str, Any], consumer: str | None = None) -> dict[str, StreamPosition]:
    """The positions of an offset. OptionError when it is not one of ours, or not one of ``consumer``."""
    try:
        if offset["v"] != VERSION:
            raise OptionError(f"the checkpoint has offsets of version {offset['v']}, which this release cannot read")
        if offset.get("consumer") != consumer:
            was, now = (
                f"consumer {name}" if name else "readMode=direct" for name in (offset.get("consumer"), consumer)
            )
            raise OptionError(f"the checkpoint is of {was}, and the query of {now}: take another checkpointLocation")
        return _decoded(offset["streams"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, OptionError):
            raise
        raise _foreign(offset) from None


def decode_begins(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, StreamPosition]:
    """Where the micro-batch from ``start`` to ``end`` begins. OptionError when these are not offsets of ours.

    Where a query began its first micro-batch says, if a release that knows this has planned it. Before 4.2 Spark keeps
    the start to itself, and ``from`` may be a guess: a start other than the initial one goes before it. ``moved`` is
    certain.
    """
    since = decode_offset(start)
    try:
        begun, moved = _decoded(end.get("from", {})), _decoded(end.get("moved", {}))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _foreign(end) from None
    if is_initial(end):  # it was empty
        begun = decode_offset(end)
    return {**since, **begun} if is_initial(start) else {**begun, **since, **moved}


def is_initial(offset: Mapping[str, Any]) -> bool:
    """Whether a query began with this offset, and no micro-batch ended there."""
    return "initial" in offset


def is_same(before: Mapping[str, StreamPosition], after: Mapping[str, StreamPosition]) -> bool:
    """Whether two offsets mean the same. A witness that one of them lacks makes no difference."""
    return before.keys() == after.keys() and all(is_at(place, after[name]) for name, place in before.items())


def is_at(place: StreamPosition, other: StreamPosition) -> bool:
    """Whether two positions are the same, as far as they say."""
    witnesses = {place.witness, other.witness} - {None}
    return (place.identity, place.seq) == (other.identity, other.seq) and len(witnesses) < 2


def _decoded(streams: Mapping[str, Any]) -> dict[str, StreamPosition]:
    """Raises: KeyError, TypeError, ValueError, AttributeError: it is of another form."""
    found = {}
    for name, position in streams.items():
        seq, witness = int(position["seq"]) - 1, position.get("witness")
        created = str(int(position["created"]))
        if seq < 0:
            raise ValueError
        found[str(name)] = StreamPosition(str(name), seq, created, None if witness is None else int(witness))
    return found


def _foreign(offset: Mapping[str, Any]) -> OptionError:
    return OptionError(f"the checkpoint has offsets of another source: {offset!r}")


def check_streams(positions: Mapping[str, StreamPosition], streams: Collection[str]) -> None:
    """OptionError when the checkpoint has streams that are not read. Streams that it lacks are new ones."""
    gone = sorted(positions.keys() - set(streams))
    if gone:
        text = f"the checkpoint is of {', '.join(sorted(positions))}, but the query does not read {', '.join(gone)}"
        raise OptionError(f"{text}: take another checkpointLocation")
