"""A ticket is completed exactly once."""

from __future__ import annotations

import threading

import pytest

from jsproto.errors import LocalProtocolError, NoRespondersError
from jsproto.ticket import Ticket


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
