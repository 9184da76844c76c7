"""What was published and is not acknowledged: kept in order, dropped run by run, settled messages left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.publish.message import Message
from jsproto.client.publish.sent_log import SentLog


def messages(first: int, last: int) -> list[Message]:
    return [("e.a", b"%d" % sequence) for sequence in range(first, last + 1)]


def sequences(log: SentLog, first: int = 1) -> list[int]:
    found = list(log.since(first))
    assert [message for _, message in found] == [("e.a", b"%d" % sequence) for sequence, _ in found]
    return [sequence for sequence, _ in found]


def kept(log: SentLog) -> int:
    """How many messages are kept, settled ones among them."""
    return sum(len(run) for _, run in log._runs)


def log_of(*lasts: int, settled: frozenset[int] = frozenset()) -> SentLog:
    """A log of runs that end at these sequences."""
    log, before = SentLog(settled.__contains__), 0
    for last in lasts:
        log.add((last, messages(before + 1, last)))
        before = last
    return log


def test_an_empty_log() -> None:
    log = log_of()
    log.forget(9)
    log.compact(9)
    assert (sequences(log), kept(log)) == ([], 0)


def test_messages_come_back_in_order_with_their_sequences() -> None:
    log = log_of(1, 4, 5)
    assert sequences(log) == [1, 2, 3, 4, 5]
    assert sequences(log, 3) == [3, 4, 5]
    assert sequences(log, 6) == []


def test_headers_are_kept() -> None:
    log = SentLog(lambda sequence: False)
    log.add((1, (("e.a", b"", {"K": "v"}),)))
    assert list(log.since(1)) == [(1, ("e.a", b"", {"K": "v"}))]


def test_an_empty_run_is_no_message() -> None:
    log = log_of(2)
    log.add((2, []))
    assert (sequences(log), kept(log)) == ([1, 2], 2)
    log.forget(2)
    assert kept(log) == 0


def test_an_acknowledgement_drops_whole_runs() -> None:
    log = log_of(2, 4, 6)
    log.forget(3)
    assert (sequences(log), kept(log)) == ([3, 4, 5, 6], 4)
    log.forget(4)
    assert (sequences(log), kept(log)) == ([5, 6], 2)


def test_what_is_settled_is_left_out_and_kept_until_the_log_is_compacted() -> None:
    log = log_of(3, 6, settled=frozenset({2, 5}))
    assert (sequences(log), kept(log)) == ([1, 3, 4, 6], 6)
    log.compact(0)
    assert (sequences(log), kept(log)) == ([1, 3, 4, 6], 4)
    log.add((7, messages(7, 7)))
    assert sequences(log) == [1, 3, 4, 6, 7]


def test_a_compacted_log_has_nothing_that_is_acknowledged() -> None:
    log = log_of(3, 6)
    log.compact(2)
    assert (sequences(log), kept(log)) == ([3, 4, 5, 6], 4)
    log.forget(3)
    assert sequences(log) == [4, 5, 6]


@given(
    st.lists(st.integers(1, 5), max_size=6),
    st.frozensets(st.integers(1, 30)),
    st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=5),
)
def test_nothing_is_lost_that_is_neither_acknowledged_nor_settled(
    lengths: list[int], settled: frozenset[int], steps: list[tuple[bool, int]]
) -> None:
    lasts = [sum(lengths[: count + 1]) for count in range(len(lengths))]
    log, acked = log_of(*lasts, settled=settled), 0
    for compacts, sequence in steps:
        acked = max(acked, sequence)
        (log.compact if compacts else log.forget)(acked)
        assert sequences(log, acked + 1) == [
            each for each in range(acked + 1, sum(lengths) + 1) if each not in settled
        ]  # fmt: skip
