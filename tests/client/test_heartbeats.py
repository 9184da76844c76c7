"""The alarm of missed heartbeats by itself: when it is due, and that one silence is one alarm."""

from __future__ import annotations

from jsproto.client.consume.heartbeats import SilenceWatch
from jsproto.timers import Timer, Timers


def watching(patience: float = 3.0) -> tuple[Timers, SilenceWatch]:
    timers = Timers()
    watch = SilenceWatch(timers)
    watch.start(10.0, patience)
    return timers, watch


def test_silence_is_counted_from_the_start() -> None:
    timers, watch = watching()
    assert timers.next() == 13.0
    assert timers.expired(13.0) == [Timer.HEARTBEAT]
    assert watch.is_silent(13.0, 3.0)
    assert timers.next() == 16.0


def test_a_sign_of_life_moves_the_alarm() -> None:
    timers, watch = watching()
    watch.heard_at = 12.5
    assert timers.expired(13.0) == [Timer.HEARTBEAT]
    assert not watch.is_silent(13.0, 3.0)
    assert timers.next() == 15.5


def test_one_silence_is_one_alarm() -> None:
    _, watch = watching()
    assert watch.is_new_silence()
    assert not watch.is_new_silence()
    watch.heard_at = 20.0
    assert watch.is_new_silence()
    watch.start(20.0, 3.0)
    assert watch.is_new_silence()


def test_what_is_expected_later_is_no_sign_of_life() -> None:
    timers, watch = watching()
    watch.extend(12.0, 3.0)
    assert (timers.next(), watch.heard_at) == (15.0, 10.0)
    watch.stop()
    assert not watch.is_running
    watch.extend(14.0, 3.0)
    assert (timers.next(), watch.heard_at) == (17.0, 14.0)
