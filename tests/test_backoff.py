"""Back-off: how long each pause is, when a series of failures begins anew, and when it is given up."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from jsproto.backoff import Backoff


def test_pauses_double_up_to_the_most() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.failed(0.0) for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next_pause == 0.1
    assert backoff.failed(0.0) == 0.1


def test_a_series_is_given_up() -> None:
    backoff = Backoff(1.0, 1.0, give_up=2.0)
    assert [backoff.failed(now) for now in (5.0, 6.0, 7.0, 8.0)] == [1.0, 1.0, None, None]
    backoff.reset()
    assert backoff.failed(9.0) == 1.0


def test_failures_far_apart_are_no_series() -> None:
    backoff = Backoff(1.0, 8.0, give_up=10.0, lapse=4.0)
    assert [backoff.failed(now) for now in (0.0, 4.0, 8.0)] == [1.0, 2.0, 4.0]
    assert backoff.failed(12.5) == 1.0


@given(
    first=st.floats(0.001, 10), ratio=st.floats(1, 100), factor=st.floats(1, 10), give_up=st.floats(0.1, 1_000),
    steps=st.lists(st.floats(0, 100), max_size=30),
)  # fmt: skip
def test_pauses_rise_within_their_bounds(
    first: float, ratio: float, factor: float, give_up: float, steps: list[float]
) -> None:
    most = first * ratio
    backoff = Backoff(first, most, factor=factor, give_up=give_up)
    now, began, last = 0.0, None, first
    for step in steps:
        now += step
        began = now if began is None else began
        pause = backoff.failed(now)
        assert (pause is None) == (now - began >= give_up)
        if pause is not None:
            assert last <= pause <= most
            last = pause


def test_without_limits_it_goes_on_for_ever() -> None:
    backoff = Backoff(1.0, 4.0, give_up=inf)
    assert [backoff.failed(10.0**n) for n in range(5)] == [1.0, 2.0, 4.0, 4.0, 4.0]
