"""When a deadline that is due counts, as the drivers ask."""

from __future__ import annotations

from functools import partial

import pytest

from jsproto.errors import TimeoutError
from jsproto_io._state.last_look import CATCH_UP, MOST, LastLook, Limit


def test_a_deadline_counts_once_a_look_has_found_nothing() -> None:
    look = LastLook()
    assert not look.is_over(1.0, 5.0)
    assert look.begun
    assert look.is_over(1.0, 5.0)
    assert not look.begun


def test_what_is_found_asks_for_another_look() -> None:
    look = LastLook()
    assert not look.is_over(1.0, 1.0)
    for _ in range(3):
        look.received += 1
        assert not look.is_over(1.0, 1.0)
    assert look.is_over(1.0, 1.0)


def test_a_flood_does_not_stop_a_deadline() -> None:
    look, looks = LastLook(), 1
    while not look.is_over(1.0, 1.0):
        look.received += 1
        looks += 1
    assert looks == MOST + 1


def test_a_trickle_delays_a_deadline_for_a_moment() -> None:
    look, now = LastLook(), 1.0
    assert not look.is_over(1.0, now)
    for is_over in (False, True):
        look.received += 1
        now += 0.6 * CATCH_UP
        assert look.is_over(1.0, now) == is_over


def test_a_deadline_that_moved_is_not_due() -> None:
    for moved in (None, 9.0):
        look = LastLook()
        assert not look.is_over(1.0, 5.0)
        look.received += 1
        assert look.is_over(moved, 5.0)
        assert not look.begun


def test_each_deadline_has_its_look() -> None:
    """The wait for the first one has ended before its look had."""
    look = LastLook()
    assert not look.is_over(1.0, 5.0)
    assert not look.is_over(6.0, 7.0)
    look.received += 1
    assert not look.is_over(6.0, 7.0)
    assert look.is_over(6.0, 7.0)


def test_deadlines_that_were_due_share_the_time() -> None:
    look, now = LastLook(), 5.0
    assert not look.is_over(1.0, now)
    look.received += 1
    now += 0.6 * CATCH_UP
    assert not look.is_over(2.0, now)
    look.received += 1
    assert not look.is_over(2.0, now)
    look.received += 1
    now += 0.6 * CATCH_UP
    assert look.is_over(2.0, now)


def test_a_limit_is_over_after_two_looks_that_found_nothing() -> None:
    limit = Limit(seconds=1.0, now=0.0)
    assert limit.until == 1.0
    assert not limit.is_over(7, 3, 1.0)
    assert not limit.is_over(7, 4, 1.0)
    assert not limit.is_over(8, 5, 1.0)  # a look has found something
    assert not limit.is_over(8, 6, 1.0)
    assert limit.is_over(8, 7, 1.0)


def test_who_looks_itself_looks_once() -> None:
    limit = Limit(seconds=1.0, now=0.0)
    assert not limit.is_over(7, 3, 1.0, enough=1)
    assert limit.is_over(7, 4, 1.0, enough=1)


def test_a_limit_of_nothing_ends_without_a_look() -> None:
    assert Limit(seconds=0, now=5.0).is_over(7, 3, 5.0)


def test_a_limit_without_looks_has_an_end() -> None:
    limit = Limit(seconds=1.0, now=0.0)
    assert not limit.is_over(0, 0, 1.0)
    assert not limit.is_over(0, 0, 1.0 + 0.9 * CATCH_UP)
    assert limit.is_over(0, 0, 1.0 + CATCH_UP)


def test_a_program_may_stand_still_during_its_last_look() -> None:
    limit = Limit(seconds=1.0, now=0.0)
    assert not limit.is_over(0, 0, 1.0)
    assert not limit.is_over(0, 0, 9.0)
    assert limit.is_over(0, 0, 9.0)


def test_a_trickle_delays_the_end_of_a_wait_for_a_moment() -> None:
    limit, received, now = Limit(seconds=1.0, now=0.0), 0, 1.0
    while not limit.is_over(received, received, now):
        received += 1
        now += 0.01
    assert 1.0 + CATCH_UP <= now < 1.02 + CATCH_UP


@pytest.mark.parametrize(("late", "longer"), [(0.0001, 0.001), (0.01, 0.1), (3.0, CATCH_UP)])
def test_a_call_waits_again_for_ten_times_as_long_as_it_was_late(late: float, longer: float) -> None:
    limit = Limit(seconds=1.0, now=0.0)
    for now in (0.0, 0.5, 1.0 + late, 1.0 + late + 0.9 * longer):
        limit.begin_wait(partial(float, now))
    with pytest.raises(TimeoutError, match="nothing came within 1 s"):
        limit.begin_wait(lambda: 1.0 + late + 1.1 * longer)


def test_the_first_wait_of_a_call_is_never_too_late() -> None:
    Limit(seconds=1.0, now=0.0).begin_wait(lambda: 99.0)
