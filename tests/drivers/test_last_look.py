"""When a deadline that is due counts, as the drivers ask."""

from __future__ import annotations

from jsproto_io._state.last_look import CATCH_UP, MOST, LastLook, LateWait


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


def test_a_late_wait_is_over_after_two_looks_that_found_nothing() -> None:
    late = LateWait(received=7, looks=3, now=0.0)
    assert not late.is_over(7, 3, 0.0)
    assert not late.is_over(7, 4, 0.0)
    assert not late.is_over(8, 5, 0.0)  # a look has found something
    assert not late.is_over(8, 6, 0.0)
    assert late.is_over(8, 7, 0.0)


def test_a_late_wait_that_looks_itself_is_over_after_one_look() -> None:
    late = LateWait(received=7, looks=3, now=0.0)
    assert not late.is_over(7, 3, 0.0, enough=1)
    assert late.is_over(7, 4, 0.0, enough=1)


def test_a_late_wait_without_looks_has_an_end() -> None:
    late, asked, now = LateWait(received=0, looks=0, now=0.0), 1, 0.0
    while not late.is_over(0, 0, now):
        asked += 1
        now += CATCH_UP / 10
    assert asked == MOST
    assert now > CATCH_UP


def test_a_late_wait_that_stands_still_once_more_still_looks() -> None:
    late = LateWait(received=0, looks=0, now=0.0)
    assert not late.is_over(0, 0, 100 * CATCH_UP)


def test_a_trickle_delays_a_late_wait_for_a_moment() -> None:
    late, received, now = LateWait(received=0, looks=0, now=0.0), 0, 0.0
    while not late.is_over(received, received, now):
        received += 1
        now += 0.01
    assert CATCH_UP <= now < CATCH_UP + 0.15
