"""Rows of a DataFrame as messages.

Rules:
* A chunk is several of Spark's Arrow batches, because each chunk costs a batch in the stream. What all its rows have in
  common is checked once.
* A row that cannot be stored fails the task with its number, counted from 0 in its partition, or becomes a dead letter.
* It fails before anything of its chunk is sent.
* Its size counts all headers, with those that the delivery adds, as long as they get: whether a row can be stored is
  the same in each try, wherever in a batch it is.

Not here: sending (``delivery``), the types of columns (``schema``), messages without headers (``messages``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.batch import check_unbatched
from jsproto.grammar.columns import MessageColumns
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.grammar.publish_headers import MSG_ID, TTL, PublishOptions, publish_headers
from jsproto.grammar.subjects import check_subject, matches
from pyspark_jetstream.buried import Grave
from pyspark_jetstream.messages import Chunk, RowMessages
from pyspark_jetstream.origins import segments_of
from pyspark_jetstream.schema import ORIGIN, Target

MAX_KNOWN_SUBJECTS: Final = 100_000
CHUNK: Final = 5  # Arrow batches, unless they have so many bytes before
CHUNK_BYTES: Final = 8 * 1024 * 1024
MAX_CHARACTER: Final = 4  # bytes of UTF-8
FRAME: Final = 16  # bytes that a header has around it, or a block of them, and more
_IN_HEADERS: Final = {"msg_id": MSG_ID, "ttl": TTL}
_KEYWORDS: Final = (
    "expected_last_subject_seq", "expected_last_subject_seq_subject", "rollup", "at", "every", "cron", "target",
    "source", "time_zone", "schedule_ttl", "schedule_rollup", "incr", "trace",
)  # fmt: skip
_HEADERS: Final = frozenset({"headers", *_IN_HEADERS, *_KEYWORDS})


class RowError(RuntimeError):
    """A row cannot be stored. The message says which one of its partition and why."""


class _Refused(Exception):
    """The row at a place of a chunk cannot be stored."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why


def chunks_of(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    subject: str | None,
    target: Target,
    partition: int,
    attempt: int | None = None,
    grave: Grave | None = None,
) -> Iterator[RowMessages]:
    """The rows, chunk by chunk: (subject, payload), with headers where there are any. RowError.

    ``attempt``: the number of the task that writes them. None: it is not known. ``grave``: takes rows that cannot be
    stored. None: they fail the task.
    """
    before = 0
    taken = _Taken(target)
    for whole in together(batches):
        todo = [(whole, before)]
        while todo:
            chunk, start = todo.pop()
            try:
                rows = _rows(chunk, names, subject, taken, attempt)
            except _Refused as refused:
                at = refused.at
                if grave is None:
                    raise RowError(f"row {start + at} of partition {partition} {refused.why}") from None
                grave.bury(start + at, refused.why, *_content(chunk, names, subject, at))
                half = (at + 1 + chunk.num_rows) // 2  # so it is not all looked at again for each row like this one
                edges = [(half, chunk.num_rows), (at + 1, half), (0, at)]
                todo += [(chunk.slice(lo, hi - lo), start + lo) for lo, hi in edges if lo < hi]
            else:
                yield rows
        before += whole.num_rows


def _content(chunk: pa.Table, names: Sequence[str], subject: str | None, at: int) -> tuple[str | None, bytes]:
    """Subject and data of a row."""
    row = chunk.slice(at, 1)
    own = row.column("subject").to_pylist()[0] if "subject" in names else None
    return own or subject, row.column("data").cast(pa.binary()).to_pylist()[0] or b""


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, several batches at once."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            found.append(batch)
        if len(found) == CHUNK or sum(each.nbytes for each in found) >= CHUNK_BYTES:
            yield pa.Table.from_batches(found)
            found = []
    if found:
        yield pa.Table.from_batches(found)


class _Taken:
    """Subjects that the stream takes, each looked at once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._known: set[str] = set()

    def first_other(self, subjects: Sequence[str]) -> tuple[str, str] | None:
        """The first one that it does not take, and why."""
        if len(self._known) > MAX_KNOWN_SUBJECTS:
            self._known.clear()
        for subject in subjects:
            if subject not in self._known:
                try:
                    check_subject(subject)
                except BadSubjectError as error:
                    return subject, str(error)
                if not any(matches(pattern, subject) for pattern in self.target.subjects):
                    return subject, f"stream {self.target.stream} does not take subject {subject!r}"
                self._known.add(subject)
        return None


def _rows(
    chunk: pa.Table, names: Sequence[str], subject: str | None, taken: _Taken, attempt: int | None
) -> RowMessages:
    target = taken.target
    data = chunk.column("data").cast(pa.binary())
    sizes = pc.binary_length(data)
    longest = pc.max(sizes).as_py() or 0
    if longest > target.max_size:  # which takes no look at other columns
        raise _too_large(pc.index(sizes, longest).as_py(), longest, 0, target)
    payloads = data.fill_null(b"") if data.null_count else data
    segments = segments_of(chunk.column(ORIGIN), attempt) if ORIGIN in names else None
    found = Chunk(_subjects(chunk, names, subject, taken), payloads, longest, segments)
    found.headers = _headers(chunk, names, found.messages)
    _check_sizes(sizes, longest, found.headers, target)
    if found.headers is not None:
        found.objects = MessageColumns(found.messages.subjects, found.messages.payloads, found.headers)
    return found.messages


def _check_sizes(
    sizes: pa.ChunkedArray, longest: int, headers: Sequence[Headers | None] | None, target: Target
) -> None:
    """Refuse a row whose message is too large. ``sizes``: bytes of data, of which ``longest`` are the most."""
    least = _block_size(None, target)
    if headers is None:
        if longest + least > target.max_size:
            raise _too_large(pc.index(sizes, longest).as_py(), longest, least, target)
        return
    for at, (size, own) in enumerate(zip(pc.fill_null(sizes, 0).to_pylist(), headers, strict=True)):
        most = size + least + FRAME
        for name, value in own.items() if own else ():
            most += len(name) + MAX_CHARACTER * len(value) + FRAME
        if most > target.max_size:  # which few rows are near
            block = _block_size(own, target)
            if size + block > target.max_size:
                raise _too_large(at, size, block, target)


def _block_size(own: Headers | None, target: Target) -> int:
    """Bytes of the header block of a row with these headers."""
    pairs = [pair for pair in own.items() if pair[0] not in target.added] if own else []
    pairs += target.added.items()
    return len(encode_headers(Headers(pairs))) if pairs else 0


def _too_large(at: int, size: int, block: int, target: Target) -> _Refused:
    whole = f", {size + block} with its headers" if block else ""
    limit = f"stream {target.stream} takes {target.max_size} (its max_msg_size, or the server's max_payload)"
    return _Refused(at, f"has {size} bytes of data{whole}; {limit}")


def _subjects(chunk: pa.Table, names: Sequence[str], subject: str | None, taken: _Taken) -> pa.ChunkedArray | str:
    if "subject" not in names:
        return str(subject)
    subjects = chunk.column("subject").cast(pa.string())
    if subjects.null_count:
        if subject is None:
            at = pc.index(subjects.is_null(), True).as_py()
            raise _Refused(at, "has no subject, and the option subject is not set")
        subjects = subjects.fill_null(subject)
    other = taken.first_other(subjects.unique().to_pylist())  # there are fewer subjects than rows
    if other is not None:
        refused, why = other
        raise _Refused(pc.index(subjects, refused).as_py(), f"cannot be stored: {why}")
    return subjects


def _headers(chunk: pa.Table, names: Sequence[str], messages: MessageColumns) -> list[Headers | None] | None:
    """The headers of each row. None: no row has any."""
    if _HEADERS.isdisjoint(names):
        return None
    found: list[list[tuple[str, str]]] = [[] for _ in range(chunk.num_rows)]
    if "headers" in names:
        for at, value in enumerate(chunk.column("headers").to_pylist()):
            found[at] += _pairs(at, value)
    for column, header in _IN_HEADERS.items():
        if column in names:
            for row, value in zip(found, chunk.column(column).to_pylist(), strict=True):
                if value is not None:
                    row.append((header, str(value)))
    keywords = [name for name in _KEYWORDS if name in names]
    if not keywords:
        return [_checked(at, row) for at, row in enumerate(found)] if any(found) else None
    columns = [chunk.column(name).to_pylist() for name in keywords]
    options = [dict(zip(keywords, values, strict=True)) for values in zip(*columns, strict=True)]
    asked = zip(found, options, messages.subjects, messages.payloads, strict=True)
    return [_checked(at, pairs, values, subject, payload) for at, (pairs, values, subject, payload) in enumerate(asked)]


def _checked(
    at: int,
    pairs: list[tuple[str, str]],
    options: dict[str, Any] | None = None,
    subject: str = "",
    payload: bytes = b"",
) -> Headers | None:
    try:
        headers = Headers(pairs) if pairs else None
        if options is not None:
            merged = publish_headers(subject, payload, headers=headers, **cast("PublishOptions", options))
            headers = None if merged is None else Headers.of(merged)
        return None if headers is None else check_unbatched(headers)
    except LocalProtocolError as error:
        raise _Refused(at, f"cannot be stored: {error}") from None


def _pairs(at: int, value: Any) -> Iterator[tuple[str, str]]:
    """Of what Arrow makes of either form of headers."""
    for item in value or ():
        if item is None or (isinstance(item, dict) and item["key"] is None):
            raise _Refused(at, "has a header that is null, or whose key is")
        name, content = (item["key"], item["value"]) if isinstance(item, dict) else item
        for each in content if isinstance(content, list) else [content]:
            yield name, each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else str(each or "")
