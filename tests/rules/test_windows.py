"""The acknowledgement window: whatever arrives, it never runs backwards and never lets more out than agreed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jsproto.rules.windows import AckWindow

numbers = st.integers(-3, 60)


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
