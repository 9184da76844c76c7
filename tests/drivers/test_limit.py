"""How long a call may wait in all, when others take what ends its waits."""

from __future__ import annotations

from functools import partial
from math import inf

import pytest

from jsproto.errors import TimeoutError
from jsproto.ticket import Ticket
from jsproto_io._state.limit import LONGEST, Limit


def test_the_first_wait_of_a_call_is_never_too_late() -> None:
    Limit(seconds=1.0, now=0.0).begin_wait(Ticket[None](), lambda: 99.0)


def test_a_look_is_over_once_somebody_has_read() -> None:
    limit = Limit(seconds=1.0, now=5.0)
    limit.check_look(inf, 6.4, 6.5)  # it begins
    limit.check_look(6.5, 6.4, 6.6)
    for last_read, now in ((6.5, 6.6), (6.4, 6.5 + LONGEST)):
        with pytest.raises(TimeoutError, match="nothing came within 1 s"):
            limit.check_look(6.5, last_read, now)


@pytest.mark.parametrize(("seconds", "last_read"), [(0.0, 0.0), (1.0, inf)])
def test_a_wait_that_cannot_look_ends(seconds: float, last_read: float) -> None:
    with pytest.raises(TimeoutError):
        Limit(seconds, now=5.0).check_look(inf, last_read, 6.0)


def test_a_call_waits_once_more_after_its_limit() -> None:
    limit, waiting = Limit(seconds=1.0, now=5.0), Ticket[None]()
    assert limit.until == 6.0
    for now in (5.0, 5.9, 6.0):
        limit.begin_wait(waiting, partial(float, now))
    with pytest.raises(TimeoutError, match="nothing came within 1 s"):
        limit.begin_wait(waiting, lambda: 6.1)
    waiting.succeed(None)
    limit.begin_wait(waiting, lambda: 6.1)
