"""Acknowledgements, from both ends: no window runs backwards or lets more out than agreed, and no end waits in vain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jsproto.rules.window import AckPace, AckWindow
from tests.marks import known_fault, promise, requirement

numbers = st.integers(-3, 60)


@requirement(76)
def test_the_window_of_the_draft_example() -> None:
    window = AckWindow(10, 2)
    assert window.limit == 1
    assert window.adopt(0, 10, sent=1)
    assert (window.limit, window.every) == (20, 10)
    assert window.adopt(40, 10, sent=45)  # the ack for 30 was lost: 40 covers it
    assert (window.acked, window.limit) == (40, 60)


def test_what_cannot_be_true_is_refused() -> None:
    window = AckWindow(10, 1)
    assert window.adopt(5, 5, sent=6)
    assert not window.adopt(4, 5, sent=6)
    assert not window.adopt(7, 5, sent=6)
    assert not window.adopt(6, 0, sent=6)
    assert (window.acked, window.every, window.limit) == (5, 5, 10)


@requirement(57)
@promise("Messages run ahead of the server's acknowledgements by a bounded window.")
@known_fault("acknowledgements move backwards")
@given(st.lists(st.tuples(numbers, numbers)), st.integers(1, 20), st.integers(1, 3))
def test_monotone_and_bounded(answers: list[tuple[int, int]], maximum: int, outstanding: int) -> None:
    window = AckWindow(maximum, outstanding)
    sent = 1
    for sequence, every in answers:
        acked = window.acked
        adopted = window.adopt(sequence, every, sent)
        assert adopted == (acked <= sequence <= sent and every >= 1)
        assert acked <= window.acked <= sent
        assert 1 <= window.every <= maximum
        assert window.limit <= window.acked + maximum * outstanding
        sent = max(sent, window.limit)  # a sender in a hurry


ranges = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted)


@given(st.lists(st.one_of(ranges.map(tuple), st.integers(0, 60))), st.integers(1, 5), st.integers(1, 3))
def test_what_is_settled_makes_room_once_whatever_the_order(
    answers: list[tuple[int, int] | int], every: int, outstanding: int
) -> None:
    window = AckWindow(every, outstanding)
    assert window.adopt(0, every, sent=60)
    acked = reached = 0
    settled: set[int] = set()
    for answer in answers:
        if isinstance(answer, tuple):
            window.settle(*answer)
            settled.update(range(answer[0], answer[1] + 1))
        elif answer % 2:
            window.reach(answer)
            reached = max(reached, answer)
        elif window.adopt(answer, every, sent=60):
            acked = answer
        floor = max(acked, reached)
        settled = {sequence for sequence in settled if sequence > floor}
        assert window.acked == acked
        assert window.limit == floor + len(settled) + every * outstanding
        assert {sequence for sequence in range(1, 61) if window.is_settled(sequence)} == settled


def test_refusals_are_remembered_as_ranges() -> None:
    window = AckWindow(2, 1)
    assert window.adopt(0, 2, sent=1)
    for sequence in range(2, 100_000):
        window.settle(sequence, sequence)
    assert window.limit == 100_000
    assert len(window._spans) == 1


# -- the receiver's end ------------------------------------------------------------------------------------------------


def test_a_lone_batch_gets_what_it_asks_for() -> None:
    assert [AckPace(asked, 1).every for asked in (1, 10, 500, 501, 65_535)] == [1, 10, 500, 500, 500]
    pace = AckPace(10, 1)
    assert [sequence for sequence in range(1, 36) if pace.due(sequence, 1)] == [10, 20, 30]


@requirement(61)
def test_beside_others_the_pace_doubles_up_to_its_share() -> None:
    pace = AckPace(100, 2)
    due = [(sequence, pace.every) for sequence in range(1, 260) if pace.due(sequence, 2)]
    assert due == [(1, 2), (3, 4), (7, 8), (15, 16), (31, 32), (63, 64), (127, 100), (227, 100)]


@requirement(61)
def test_the_pace_halves_down_to_its_share() -> None:
    pace = AckPace(500, 1)
    assert (pace.due(500, 10), pace.every) == (True, 250)
    assert (pace.due(750, 10), pace.every) == (True, 125)
    assert (pace.due(875, 10), pace.every) == (True, 62)
    assert (pace.due(937, 10), pace.every) == (True, 50)


def test_of_several_that_are_due_only_the_last_is_sent() -> None:
    pace = AckPace(10, 1, acked=5)
    assert not pace.due(14, 1)
    assert pace.due(39, 1)
    assert pace.acked == 35


@requirement(76)
@promise("Messages run ahead of the server's acknowledgements by a bounded window.")
@given(st.integers(1, 65_535), st.lists(st.tuples(st.integers(1, 900), st.integers(1, 2000))))
def test_sender_and_receiver_never_wait_for_each_other(asked: int, runs: list[tuple[int, int]]) -> None:
    pace = AckPace(asked, 1)
    window = AckWindow(asked, 1)
    sent = 1
    assert window.adopt(pace.acked, pace.every, sent)
    for messages, batches in runs:
        for _ in range(messages):
            if pace.due(sent, batches):
                assert 1 <= pace.every <= min(asked, 500)
                assert window.adopt(pace.acked, pace.every, sent)
            assert sent < window.limit, "the sender waits for an acknowledgement that is not due"
            sent += 1
