"""A fast-ingest batch that is given its messages in columns: what it does with a list of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import OutboundBufferLimitError
from jsproto.grammar.columns import MessageColumns
from tests.client.test_fast import Batch
from tests.harness import Harness


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["e.a", "e.b", "e.%d", "e.c"]),
            st.binary(max_size=9) | st.sampled_from([b"x" * 1_100, b"y" * 70]),
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([1, 4, 50]),
    st.sampled_from([400, 2_097_152]),
)
def test_messages_in_columns_are_published_as_a_list_of_them(
    messages: list[tuple[str, bytes]], rate: int, pending_size: int
) -> None:
    outcomes = []
    for rows in (messages, MessageColumns(*zip(*messages, strict=True))):
        batch = Batch(Harness(pending_size=pending_size)).start(rate)
        done = 0
        sent: list[Any] = []
        unknown: list[Any] = []
        while done < len(rows):
            try:
                count = batch.fast.publish_many(rows[done:], batch.h.now)
            except OutboundBufferLimitError:
                count = 0
            done += count
            sent += batch.h.published()
            if not count:
                if pending_size > 400:  # else more or less is queued until there is room again
                    unknown.append(batch.fast.unacknowledged)
                if not batch.fast.room:
                    batch.ack(batch.fast.sequence, rate)
        outcomes.append((sent, unknown, batch.fast.sequence))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("kind", [list, MessageColumns])
def test_what_is_kept_for_each_subject_is_bounded(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.client.connection.bulk_publish.MAX_CACHED_SUBJECTS", 20)
    batch = Batch(Harness()).start(1_000)
    for lot in range(30):
        rows = [(f"e.{lot}.{number}", b"") for number in range(10)]
        for _ in range(2):
            messages = rows if kind is list else MessageColumns(*zip(*rows, strict=True))
            assert batch.fast.publish_many(messages, batch.h.now) == 10
    assert len(batch.h.session._write_buffer._bulk._lines) < 20 + 10
    assert [pub.subject for pub in batch.h.published()][-10:] == [b"e.29.%d" % number for number in range(10)]
