"""A ticket is completed exactly once."""

from __future__ import annotations

import threading

import pytest

from jsproto.errors import LocalProtocolError, NoRespondersError
from jsproto.ticket import Readable, Ticket


def test_a_value() -> None:
    ticket: Ticket[int] = Ticket()
    assert "pending" in repr(ticket)
    with pytest.raises(LocalProtocolError, match="no answer yet"):
        ticket.result()
    ticket.succeed(3)
    assert ticket.result() == 3
    assert "done: 3" in repr(ticket)
    ticket.wake()  # nobody waits


def test_an_error() -> None:
    ticket: Ticket[int] = Ticket()
    error = NoRespondersError("a.b")
    ticket.fail(error)
    assert ticket.error is error
    assert "failed" in repr(ticket)
    with pytest.raises(NoRespondersError):
        ticket.result()


def test_only_once() -> None:
    ticket: Ticket[int] = Ticket()
    ticket.succeed(1)
    with pytest.raises(RuntimeError, match="exactly once"):
        ticket.succeed(2)
    with pytest.raises(RuntimeError, match="exactly once"):
        ticket.fail(NoRespondersError("a"))
    assert ticket.result() == 1


def test_waking_the_waiter() -> None:
    ticket: Ticket[int] = Ticket()
    ticket.event = event = threading.Event()
    ticket.succeed(1)
    assert not event.is_set()
    ticket.wake()
    assert event.is_set()


def test_what_is_readable_at_once_needs_no_wake_up() -> None:
    completed: list[Ticket[None]] = []
    readable, error = Readable(completed.append), NoRespondersError("a")
    assert readable.ticket(True).done
    assert readable.ticket(True, error).error is None  # what is there can still be taken
    assert readable.ticket(False, error).error is error
    readable.notify()
    readable.fail(error)
    assert (completed, readable.pending) == ([], None)


def test_all_who_wait_until_something_is_readable_share_a_ticket() -> None:
    completed: list[Ticket[None]] = []
    readable = Readable(completed.append)
    ticket = readable.ticket(False)
    assert readable.ticket(True) is readable.pending is ticket
    assert not ticket.done
    readable.notify()
    assert ticket.result() is None
    assert readable.pending is None
    other = readable.ticket(False)
    assert other is not ticket
    readable.fail(NoRespondersError("a"))
    with pytest.raises(NoRespondersError):
        other.result()
    assert completed == [ticket, other]


def test_who_is_woken_may_wait_again_at_once() -> None:
    again: list[Ticket[None]] = []
    readable = Readable(lambda ticket: again.append(readable.ticket(False)))
    readable.ticket(False)
    readable.notify()
    assert readable.pending is again[0]
    readable.fail(NoRespondersError("a"))
    assert again[0].error is not None
    assert readable.pending is again[1]
