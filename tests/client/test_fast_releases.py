"""The fast-ingest publisher against what the first releases with fast ingest, from 2.14.0 on, did otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.errors import BatchGapError, BatchMessageError, BatchStalledError
from jsproto.events import GapReported
from tests.client.test_fast import WRONG_SEQUENCE, Batch, operations
from tests.harness import Harness

OLD: dict[str, Any] = {"version": "2.14.0", "api_lvl": 4}


@pytest.mark.parametrize("lead", [0, 1])
def test_2_14_0_says_nothing_more_after_a_refused_commit_so_nothing_is_waited_for(lead: int) -> None:
    batch = Batch(Harness(info=OLD), gap="ok")
    if lead:
        batch.start(10)
    ticket = batch.fast.commit(batch.h.now, "e.a", b"last")
    batch.h.sent()
    batch.say({"type": "err", "seq": lead + 1, "error": WRONG_SEQUENCE}, lead + 1, 2)
    error = ticket.error
    assert isinstance(error, BatchMessageError)
    assert (error.message_sequence, error.acked, error.ack) == (lead + 1, 0, None)
    assert batch.h.published() == []
    assert batch.fast.unacknowledged == [("e.a", b"1", None)] * lead + [("e.a", b"last", None)]


@pytest.mark.parametrize(("gap", "named"), [("ok", True), ("fail", False)])
def test_2_14_0_answers_no_commit_of_a_duplicate_and_the_error_says_so(gap: str, named: bool) -> None:
    batch = Batch(Harness(info=OLD), gap=gap).start(10)
    ticket = batch.fast.commit(batch.h.now, "e.a", b"last")
    batch.h.sent()
    batch.h.advance(1.0)
    assert operations(batch.h.published()) == [(2, 4)]
    batch.say({"type": "ack", "seq": 1, "msgs": 10}, 2, 4)
    batch.h.advance(10.1)
    assert isinstance(ticket.error, BatchStalledError)
    assert "within 10 s: what is stored after message 1 is not known" in str(ticket.error)
    assert ("2.14.3" in str(ticket.error)) is named


def test_before_2_15_1_the_ping_starts_a_batch_whose_first_message_is_missing() -> None:
    for gap in ("ok", "fail"):
        batch = Batch(gap=gap)
        batch.fast.publish("e.a", b"1", now=batch.h.now)
        batch.h.sent()
        batch.h.advance(5.0)
        batch.say({"type": "gap", "last_seq": 1, "seq": 2}, 1, 4)
        assert batch.h.events() == [GapReported("b1", 1, 1)]
        if gap == "ok":
            batch.ack(1, 10)
            assert batch.fast.publish("e.a", now=batch.h.now) == 2
        else:
            batch.pub_ack(0, 1, 4)
            assert isinstance(batch.fast.error, BatchGapError)
