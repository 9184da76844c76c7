"""When a deadline that is due counts, as the drivers ask."""

from __future__ import annotations

from jsproto_io._state.last_look import CATCH_UP, MOST, LastLook


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
