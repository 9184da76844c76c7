"""A stream in memory, as far as the sink ``atomic`` asks for one, and the Arrow batches that go into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.errors import MessageNotFoundError
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.headers import NO_HEADERS, Headers
from jsproto.grammar.publish_headers import EXPECTED_LAST_SUBJECT_SEQUENCE
from jsproto.grammar.subjects import matches
from pyspark_jetstream.atomic_batches import Stored, mark_whole
from pyspark_jetstream.delivery import store
from pyspark_jetstream.markers import TaskId
from pyspark_jetstream.messages import RowMessages
from pyspark_jetstream.options import WriteOptions, write_options
from pyspark_jetstream.rows import chunks_of
from pyspark_jetstream.schema import ORIGIN, Target

ATTEMPT = 7
OPTIONS = write_options({"servers": "nats://x", "stream": "T", "delivery": "atomic", "markerSubject": "t"})
TARGET = Target("T", ("t.>",), 2**31)
NAMES = ["subject", "data", ORIGIN]
KIND = pa.struct([(name, pa.int64()) for name in ("task", "seq", "attempt")])


class Row(NamedTuple):
    """A row of one message: ``task`` and ``seq`` name it. ``data`` tells it from all others."""

    data: str
    task: int = 0
    seq: int = 0


class DeadError(RuntimeError):
    """A task has died."""


class Message(NamedTuple):
    seq: int
    subject: str
    data: bytes
    headers: Headers = NO_HEADERS


class Memory:
    """A stream. ``history`` counts what was ever stored, markers left out.

    ``before_batch`` is called with each atomic batch that comes, before it is looked at.
    """

    def __init__(self, **config: Any) -> None:
        self.config = StreamConfig(name="T", subjects=["t.>"], **config)
        self.messages: list[Message] = []
        self.last_seq = 0
        self.history = Counter[str]()
        self.before_batch: Callable[[], None] = lambda: None

    # -- what the sink asks for ----------------------------------------------------------------------------------------

    def flush(self, timeout: float) -> None:
        """As a connection."""

    def stream_info(self, _: str) -> Any:
        first = self.messages[0].seq if self.messages else self.last_seq + 1
        return SimpleNamespace(config=self.config, state=SimpleNamespace(first_seq=first))

    def get_last_msg(self, _: str, subject: str, *, level: str) -> Message:
        assert level == "leader"
        return self._one([each for each in reversed(self.messages) if each.subject == subject])

    def get_msg(self, _: str, seq: int, *, subject: str, next: bool, level: str) -> Message:
        assert (next, level) == (True, "leader")
        return self._one([each for each in self.messages if each.seq >= seq and matches(subject, each.subject)])

    def publish(self, subject: str, data: bytes, *, expected_last_subject_seq: int | None = None) -> None:
        if expected_last_subject_seq is not None:
            self._check(subject, expected_last_subject_seq)
        self._add(subject, data)

    def publish_batch(self, messages: Sequence[Any]) -> Any:
        self.before_batch()
        *rows, (subject, marker, condition) = messages
        self._check(subject, int(condition[EXPECTED_LAST_SUBJECT_SEQUENCE]))
        for row in rows:
            self._add(row[0], row[1])
            self.history[row[1].decode()] += 1
        self._add(subject, marker)
        return SimpleNamespace(seq=self.last_seq)

    def _one(self, found: Sequence[Message]) -> Message:
        if not found:
            raise MessageNotFoundError(404, "Message Not Found")
        return found[0]

    def _check(self, subject: str, expected: int) -> None:
        last = next((each.seq for each in reversed(self.messages) if each.subject == subject), 0)
        if last != expected:
            raise StreamWrongLastSequenceError(400, 10071, f"wrong last sequence: {last}")

    def _add(self, subject: str, data: bytes) -> None:
        self.last_seq += 1
        self.messages.append(Message(self.last_seq, subject, data))

    # -- what tests do -------------------------------------------------------------------------------------------------

    def mark_removed(self, subject: str) -> None:
        """As a server does where nothing is left on a subject."""
        self.messages = [each for each in self.messages if each.subject != subject]
        self.last_seq += 1
        self.messages.append(Message(self.last_seq, subject, b"", Headers([("Nats-Marker-Reason", "MaxAge")])))

    def drop(self, count: int) -> None:
        """As a limit does: the oldest messages go."""
        del self.messages[:count]

    def write(
        self,
        rows: Sequence[Row],
        task: TaskId,
        *,
        named: bool = True,
        attempt: int = ATTEMPT,
        cuts: Sequence[int] = (),
        dies_after: int | None = None,
        options: WriteOptions = OPTIONS,
    ) -> Stored:
        """A try of a task. It dies when it is to send another batch after ``dies_after``."""
        left = [10**9 if dies_after is None else dies_after]

        def before() -> None:
            if not left[0]:
                raise DeadError
            left[0] -= 1

        self.before_batch = before
        chunks = chunks_in(rows, named=named, attempt=attempt, cuts=cuts)
        stream: Any = self
        return store(stream, stream, chunks, task, options, is_named=named)

    def commit(self, task: TaskId) -> None:
        """The driver says that all tasks have stored their rows."""
        stream: Any = self
        mark_whole(stream, OPTIONS, task)


def chunks_in(
    rows: Sequence[Row], *, named: bool = True, attempt: int = ATTEMPT, cuts: Sequence[int] = ()
) -> Iterator[RowMessages]:
    """The rows as they come to a sink, chunk by chunk. ``cuts``: where a chunk ends."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(rows)}), len(rows)]
    for start, stop in pairwise(edges):
        if start < stop:
            yield from chunks_of(
                [batch_of(rows[start:stop], named=named)], NAMES[: 2 + named], None, TARGET, 0, attempt
            )


def batch_of(rows: Sequence[Row], *, named: bool = True) -> pa.RecordBatch:
    """One Arrow batch, as a source gives it to the same task."""
    columns = {
        "subject": pa.array([f"t.{row.task}" for row in rows]),
        "data": pa.array([row.data for row in rows]),
        ORIGIN: pa.array([(row.task, row.seq, ATTEMPT) for row in rows], KIND),
    }
    return pa.RecordBatch.from_pydict({name: columns[name] for name in NAMES[: 2 + named]})
