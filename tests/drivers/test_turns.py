"""Whose turn it is to move the bytes: those who wait before the reader thread, and nobody is forgotten."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jsproto.ticket import Ticket
from jsproto_io import _turns
from jsproto_io._turns import Turns
from jsproto_io.sync import connect
from tests.drivers.test_sync import unique, until

A, B, READER = 1, 2, 3  # idents of threads


@pytest.fixture
def turns() -> Turns:
    """Those of a driver with a reader thread that nobody runs."""
    made = Turns(threading.Lock())
    made.reader = READER
    return made


def test_who_comes_first_is_the_pump_and_the_others_park(turns: Turns) -> None:
    assert turns.take(A, may=True)
    assert not turns.take(B, may=True)
    assert turns.take(A, may=True)
    assert turns.pump == A


def test_who_leaves_wakes_one_who_is_parked(turns: Turns) -> None:
    turns.take(A, may=True)
    event = turns.park(B, Ticket[None]())
    turns.leave(A)
    assert event.is_set()
    assert turns.take(B, may=True)
    turns.leave(B)
    assert turns.pump is None
    assert not turns.parked


def test_who_was_only_called_sleeps_on_another_event(turns: Turns) -> None:
    ticket = Ticket[None]()
    first = turns.park(A, ticket)
    assert turns.park(A, ticket) is first
    first.set()
    assert turns.park(A, ticket) is not first
    assert ticket.event is turns.parked[A]


def test_without_a_link_it_is_the_reader_s_turn(turns: Turns) -> None:
    assert not turns.take(A, may=False)
    assert turns.stand_by()
    assert turns.pump == READER


def test_a_pump_that_lost_its_link_leaves_it_to_the_reader(turns: Turns) -> None:
    assert turns.take(A, may=True)
    assert not turns.take(A, may=False)
    assert turns.stand_by()
    assert turns.pump == READER


def test_without_a_reader_whoever_waits_dials() -> None:
    turns = Turns(threading.Lock())
    assert turns.take(A, may=False)
    assert turns.take(A, may=False)


def test_the_reader_takes_over_when_nobody_has_waited(turns: Turns) -> None:
    turns.take(A, may=True)
    turns.leave(A)
    assert turns.stand_by()
    assert turns.pump == READER


def test_the_reader_s_turn_does_not_come_while_others_wait(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time it looks somebody has waited since, or waits; then all is over."""
    looks: list[float | None] = []

    class Relief:
        def wait(self, timeout: float | None) -> bool:
            looks.append(timeout)
            if len(looks) == 1:  # somebody came and went
                turns.take(A, may=True)
                turns.leave(A)
            elif len(looks) == 2:  # somebody stays
                turns.take(A, may=True)
            elif len(looks) == 3:  # until now, and calls
                turns.leave(A)
            else:
                turns.end()
            return len(looks) > 2

        def set(self) -> None: ...

        def clear(self) -> None: ...

    monkeypatch.setattr(turns, "_relief", Relief())
    assert not turns.stand_by()
    assert looks == [_turns.GRACE, _turns.GRACE, None, _turns.GRACE]


def test_the_reader_leaves_its_turn_to_who_alone_waited_for_what_came(turns: Turns) -> None:
    ticket, other = Ticket[None](), Ticket[None]()
    turns.reader = turns.pump = threading.get_ident()
    turns.park(A, ticket)
    turns.yield_to([other])
    assert turns.pump == turns.reader
    turns.yield_to([other, ticket])
    assert turns.pump is None


def test_the_reader_stays_while_others_wait_besides(turns: Turns) -> None:
    ticket = Ticket[None]()
    turns.reader = turns.pump = threading.get_ident()
    turns.park(A, ticket)
    turns.park(B, Ticket[None]())
    turns.yield_to([ticket])
    assert turns.pump == turns.reader


def test_at_the_end_everybody_looks_up(turns: Turns) -> None:
    turns.take(A, may=True)
    event = turns.park(B, Ticket[None]())
    turns.end()
    turns.end()
    assert event.is_set()
    assert not turns.stand_by()


def test_a_connection_that_is_used_without_waits_is_served(server: Any) -> None:
    """What is buffered for others, and what they publish, moves though nobody who waits moves it."""
    with connect(server.url) as nc, connect(server.url) as other:
        subject = unique()
        subscription = nc.subscribe(subject)
        nc.flush()
        other.publish(subject, b"x")
        until(lambda: subscription.pending_msgs == 1)


def test_threads_take_turns_and_all_get_what_is_theirs(server: Any) -> None:
    with connect(server.url) as nc, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> list[bytes]:
            subject = unique()
            with nc.subscribe(subject) as subscription:
                got = []
                for n in range(100):
                    nc.publish(subject, b"%d" % n)
                    got.append(subscription.next_msg(timeout=10).data)
                return got

        assert list(pool.map(work, range(4))) == [[b"%d" % n for n in range(100)]] * 4
