"""What holds threads in search of tests that depend on time: ``STALLS=1 pytest``."""

from __future__ import annotations

import sys
import threading
from random import Random

from tests.tools.stalls import FREE, LONGEST, PART, Stalls

ENOUGH = round(100 / PART)  # calls


class Clock:
    """Time passes while a thread is held, and when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.held: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.held.append(seconds)
        self.now += seconds


def calls(stalls: Stalls, function: object, event: str = "c_return") -> None:
    for _ in range(ENOUGH):
        stalls.hook(sys._getframe(), event, function)


def stalling(clock: Clock) -> Stalls:
    stalls = Stalls(Random(1), sleep=clock.sleep, now=lambda: clock.now)
    stalls.active = True
    return stalls


def test_a_thread_is_held_after_a_call_that_may_wait_and_is_free_then() -> None:
    clock = Clock()
    stalls = stalling(clock)
    lock = threading.Lock()
    for turn in range(1, 4):
        calls(stalls, lock.acquire)
        assert len(clock.held) == turn
        assert 0 <= clock.held[-1] <= LONGEST
        clock.now += FREE


def test_each_thread_is_free_for_itself() -> None:
    clock = Clock()
    stalls = stalling(clock)
    lock = threading.Lock()
    calls(stalls, lock.acquire)
    other = threading.Thread(target=calls, args=(stalls, lock.acquire))
    other.start()
    other.join()
    assert len(clock.held) == 2


def test_what_does_not_wait_is_not_held() -> None:
    clock = Clock()
    stalls = stalling(clock)
    calls(stalls, len)
    calls(stalls, threading.Lock().acquire, "c_call")
    stalls.active = False
    calls(stalls, threading.Lock().acquire)
    assert clock.held == []
