"""Timers and deadlines against the obvious model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jsproto.timers import Deadlines, Timer, Timers, earliest


def test_timers_are_told_once_and_earliest_first() -> None:
    timers = Timers()
    assert timers.next() is None
    timers.set(Timer.PAGE, 5.0)
    timers.set(Timer.KEEP_ALIVE, 3.0)
    timers.set(Timer.PAGE, 4.0)
    assert timers.next() == 3.0
    assert Timer.PAGE in timers
    assert timers.expired(2.9) == []
    assert timers.expired(4.0) == [Timer.KEEP_ALIVE, Timer.PAGE]
    assert timers.expired(4.0) == []
    timers.set(Timer.PAGE, 1.0)
    timers.stop(Timer.PAGE, Timer.HANDSHAKE)
    assert timers.next() is None
    timers.bring_forward(Timer.PAGE, 2.0)
    timers.bring_forward(Timer.PAGE, 1.0)
    timers.bring_forward(Timer.PAGE, 3.0)
    assert timers.next() == 1.0
    timers.clear()
    assert Timer.PAGE not in timers


def test_every_timer_has_its_sentence() -> None:
    assert len({timer.value for timer in Timer}) == len(Timer)


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9)), max_size=300), st.integers(0, 9))
def test_deadlines_are_a_sorted_dict(changes: list[tuple[int, int | None]], now: int) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, float] = {}
    for key, when in changes:
        deadlines.set(key, when)
        if when is None:
            model.pop(key, None)
        else:
            model[key] = when
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
    due = deadlines.due(now)
    assert sorted(due) == sorted(key for key, when in model.items() if when <= now)
    assert [model[key] for key in due] == sorted(model[key] for key in due)
    assert deadlines.due(now) == []


@given(st.lists(st.none() | st.integers(0, 9)))
def test_the_earliest_of_some(times: list[int | None]) -> None:
    assert earliest(times) == min((when for when in times if when is not None), default=None)


def test_a_deadline_that_comes_and_goes_for_ever_does_not_grow_memory() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("first", 0.5)
    for _ in range(10_000):
        deadlines.set("same", 1.0)
        deadlines.set("same", None)
    assert len(deadlines._heap) < 100
    assert deadlines.due(1.0) == ["first"]


def test_moving_a_deadline_for_ever_does_not_grow_memory() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for when in range(10_000):
        deadlines.set("same", float(when))
    assert len(deadlines._heap) < 100
    assert deadlines.next() == 9_999.0
