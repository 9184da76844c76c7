"""Rows of a DataFrame as messages.

Rules: what all rows of a lot have in common is looked at once, and a lot is several of Spark's Arrow batches, because
each costs a batch of its own in the stream. A row that cannot be stored fails the task with its number, before anything
of its lot is sent.

Not here: sending (``delivery``), the types of columns (``schema``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers
from jsproto.grammar.subjects import matches
from pyspark_jetstream.delivery import EXPECTED, MSG_ID, Row

TTL: Final = "Nats-TTL"
MAX_KNOWN_SUBJECTS: Final = 100_000
LOT: Final = 5  # Arrow batches, unless they have so many bytes before
LOT_BYTES: Final = 8 * 1024 * 1024
_IN_HEADERS: Final = {"msg_id": MSG_ID, "expected_last_subject_seq": EXPECTED, "ttl": TTL}
_HEADERS: Final = frozenset({"headers", *_IN_HEADERS})


@dataclass(frozen=True)
class Target:
    """What the stream takes: subjects (wildcards), and bytes in a message (as the server has it, with headers)."""

    stream: str
    subjects: tuple[str, ...]
    max_size: int


class RowError(RuntimeError):
    """A row cannot be stored, ever; the message says which one of its task and why."""


def lots_of(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], subject: str | None, target: Target
) -> Iterator[Sequence[Row]]:
    """The rows, lot by lot: (subject, payload), with headers where there are any. RowError."""
    before = 0
    taken = _Taken(target)
    for lot in _together(batches):
        yield _rows(lot, names, subject, taken, before)
        before += lot.num_rows


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, several batches at once."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            found.append(batch)
        if len(found) == LOT or sum(each.nbytes for each in found) >= LOT_BYTES:
            yield pa.Table.from_batches(found)
            found = []
    if found:
        yield pa.Table.from_batches(found)


class _Taken:
    """Subjects that the stream takes, each looked at once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._known: set[str] = set()

    def first_other(self, subjects: Sequence[str]) -> str | None:
        """The first one that it does not take."""
        if len(self._known) > MAX_KNOWN_SUBJECTS:
            self._known.clear()
        for subject in subjects:
            if subject not in self._known:
                if not any(matches(pattern, subject) for pattern in self.target.subjects):
                    return subject
                self._known.add(subject)
        return None


class _Column(Sequence[Any]):
    """A column of Arrow's: its objects are made when a slice of it is taken, so that few of them live at a time.

    That is quicker, too, because the processor has them at hand until they are sent. ``values``: what is in the column
    are places of these.
    """

    def __init__(self, column: pa.ChunkedArray, values: Sequence[Any] | None = None) -> None:
        self._column = column
        self._values = values

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, int):
            found = self._column[place].as_py()
            return found if self._values is None else self._values[found]
        several = self._column[place].to_pylist()
        return several if self._values is None else [*map(self._values.__getitem__, several)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])


def _rows(lot: pa.Table, names: Sequence[str], subject: str | None, taken: _Taken, before: int) -> Sequence[Row]:
    target = taken.target
    data = lot.column("data").cast(pa.binary())
    lengths = pc.binary_length(data)
    longest = pc.max(lengths).as_py() or 0
    if longest > target.max_size:
        at = pc.index(lengths, longest).as_py()
        raise RowError(f"row {before + at} has {longest} bytes of data; stream {target.stream} takes {target.max_size}")
    payloads = _Column(data.fill_null(b"") if data.null_count else data)
    subjects = _subjects(lot, names, subject, taken, before)
    headers = _headers(lot, names)
    return MessageColumns(subjects, payloads) if headers is None else [*zip(subjects, payloads, headers, strict=True)]


def _subjects(lot: pa.Table, names: Sequence[str], subject: str | None, taken: _Taken, before: int) -> Sequence[str]:
    if "subject" not in names:
        return [str(subject)] * lot.num_rows
    subjects = lot.column("subject")
    if subjects.null_count:
        if subject is None:
            at = pc.index(subjects.is_null(), True).as_py()
            raise RowError(f"row {before + at} has no subject, and the option subject is not set")
        subjects = subjects.fill_null(subject)
    encoded = subjects.dictionary_encode().unify_dictionaries()  # there are fewer subjects than rows
    different: list[str] = encoded.chunk(0).dictionary.to_pylist()
    other = taken.first_other(different)
    if other is not None:
        at = pc.index(subjects, pa.scalar(other, subjects.type)).as_py()
        raise RowError(f"row {before + at}: stream {taken.target.stream} does not take subject {other!r}")
    return _Column(pa.chunked_array([chunk.indices for chunk in encoded.chunks]), different)


def _headers(lot: pa.Table, names: Sequence[str]) -> list[Headers | None] | None:
    """The headers of each row; None when there are none."""
    if _HEADERS.isdisjoint(names):
        return None
    found: list[list[tuple[str, str]]] = [[] for _ in range(lot.num_rows)]
    if "headers" in names:
        for row, value in zip(found, lot.column("headers").to_pylist(), strict=True):
            row += _pairs(value)
    for column, header in _IN_HEADERS.items():
        if column in names:
            for row, value in zip(found, lot.column(column).to_pylist(), strict=True):
                if value is not None:
                    row.append((header, str(value)))
    return [Headers(row) if row else None for row in found] if any(found) else None


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """Of what Arrow makes of either form of headers."""
    for item in value or ():
        name, content = (item["key"], item["value"]) if isinstance(item, dict) else item
        for each in content if isinstance(content, list) else [content]:
            yield name, each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else str(each or "")
