"""Where a consumer begins in its stream, and what it passes."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.server.consume.cursor import Cursor
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stream
from tests.server.harness import config

SUBJECTS = ["s.a", "s.b", "s.a", "s.c", "s.b"]


def stream() -> Stream:
    """Five messages, stored at 1 s to 5 s of the year 1970."""
    made = Stream(config(), ServerContext(b"t"), 0.0)
    for number, subject in enumerate(SUBJECTS, 1):
        made.append(Publication(subject.encode(), None, b"x"), float(number))
    return made


def read(cursor: Cursor) -> list[int]:
    """The sequences of everything that is left."""
    seqs = []
    while (message := cursor.next()) is not None:
        assert message in cursor
        cursor.delivered(message)
        assert message not in cursor
        seqs.append(message.seq)
    assert cursor.pending == 0
    return seqs


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"filter_subject": "s.b"}, [2, 5]),
        ({"filter_subjects": ["s.c", "s.b"]}, [2, 4, 5]),
        ({"deliver_policy": "new"}, []),
        ({"deliver_policy": "last"}, [5]),
        ({"deliver_policy": "last", "filter_subject": "s.a"}, [3]),
        ({"deliver_policy": "last", "filter_subject": "s.z"}, []),
        ({"deliver_policy": "last_per_subject", "filter_subject": ">"}, [3, 4, 5]),
        ({"deliver_policy": "last_per_subject", "filter_subject": "s.z"}, []),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, [4, 5]),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 9}, []),
        ({"deliver_policy": "by_start_time", "opt_start_time": 2_500_000_000}, [3, 4, 5]),
        ({"deliver_policy": "by_start_time", "opt_start_time": 9_000_000_000}, []),
    ],
)
def test_what_is_there_to_deliver(options: Any, expected: list[int]) -> None:
    cursor = Cursor(stream(), ConsumerConfig.from_options(**options))
    assert cursor.pending == len(expected)
    assert read(cursor) == expected


def test_what_is_stored_and_removed_later() -> None:
    source = stream()
    cursor = Cursor(source, ConsumerConfig.from_options(deliver_policy="last_per_subject", filter_subject=">"))

    class Tell:
        def stored(self, message: Any, now: float) -> None:
            cursor.stored(message)

        def removed(self, message: Any, now: float) -> None:
            cursor.removed(message)

        floor = 0

        def takes(self, subject: bytes) -> bool:
            return True

        def wants(self, seq: int) -> bool:
            return True

        def purged(self, subject: str | None, gone: Any, counted_by: str | None, now: float) -> None:
            """Not here."""

    source.watchers.append(Tell())
    source.append(Publication(b"s.a", None, b"x"), 6.0)
    assert cursor.pending == 4
    for seq in (1, 3, 5):  # not the newest of its subject, the first that counts, the last that counts
        source.remove(seq)
    assert cursor.pending == 2
    assert read(cursor) == [4, 6]
    source.append(Publication(b"s.b", None, b"x"), 7.0)
    source.remove(2)
    assert read(cursor) == [7]


def test_a_start_behind_the_end_is_kept() -> None:
    source = stream()
    cursor = Cursor(source, ConsumerConfig.from_options(deliver_policy="by_start_sequence", opt_start_seq=7))
    assert cursor.next() is None
    for now in (6.0, 7.0):
        source.append(Publication(b"s.a", None, b"x"), now)
        cursor.stored(source.get(source.last_seq))  # type: ignore[arg-type]
    assert read(cursor) == [7]


def test_a_count_ahead_of_the_stream() -> None:
    """As in nats-server what is stored before the cursor counts, until that is looked at."""
    source = stream()
    cursor = Cursor(source, ConsumerConfig())
    cursor.reset(8, is_new=True)
    assert cursor.pending == 0
    for now in (6.0, 7.0, 8.0):
        source.append(Publication(b"s.a", None, b"x"), now)
        stored = source.get(source.last_seq)
        assert stored is not None
        assert cursor.stored(stored) is (stored.seq == 8)
    assert cursor.pending == 3
    assert cursor.reported() == 1
    cursor.reset(9, is_new=False)
    assert (cursor.pending, cursor.reported()) == (1, 0)
    cursor.pending = -1
    cursor.reset(8, is_new=False)
    assert cursor.reported() == 0


@pytest.mark.parametrize(
    ("gone", "counted_by", "left"),
    [
        ([], None, 3), ([], "s.a", 3), ([1], None, 2), ([1, 2], None, 2), ([3], "s.a", 2), ([3], "s.*", 3),
        ([1], "s.a", 3),
    ],
)  # fmt: skip
def test_a_purge_is_counted(gone: list[int], counted_by: str | None, left: int) -> None:
    cursor = Cursor(stream(), ConsumerConfig.from_options(filter_subjects=["s.a", "s.c"], deliver_policy="all"))
    assert cursor.pending == 3
    first = cursor.next()
    assert first is not None
    cursor.delivered(first)
    cursor.pending = 3  # wrong by 1
    cursor.purged(gone, counted_by)
    assert cursor.pending == left


def test_a_purge_is_counted_without_filters() -> None:
    cursor = Cursor(stream(), ConsumerConfig())
    cursor.purged([2], "x.*")
    assert cursor.pending == 4


def test_subjects_are_counted() -> None:
    cursor = Cursor(stream(), ConsumerConfig.from_options(deliver_policy="last_per_subject", filter_subject="s.*"))
    assert read(cursor) == [3, 4, 5]
    cursor.reset(1, is_new=True)
    assert cursor.pending == 3  # of five messages


def test_other_filters() -> None:
    cursor = Cursor(stream(), ConsumerConfig())
    cursor.filter([])
    cursor.filter(["s.b"])
    assert cursor.pending == 2
    assert read(cursor) == [2, 5]
