"""Draining: the end of subscriptions after everything that the server had sent.

Rules: interest ends first, then a PING shows that all of it has come, and then each subscription gives out what it has.

Not here: what a subscription does when it is drained (``subscription``, ``client.consume``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from jsproto.errors import Error
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.connection.session import Session
    from jsproto.client.connection.subscription import Drainable


def drain(
    session: Session, subscriptions: Iterable[Drainable], now: float, *, closing: bool = False
) -> Generator[Ticket[Any], Any, None]:
    """End the subscriptions so that everything the server had sent, or was sending, is delivered first.

    ``closing``: the connection is closed next.
    """
    draining = [subscription for subscription in subscriptions if subscription.error is None]
    for subscription in draining:
        subscription.end_interest()
    try:
        yield session.ping(now)
    except Error:  # with the link, what was under way is lost: nothing is left to wait for
        for subscription in draining:
            subscription.end_drain(now, closing)
        raise
    yield from end(draining, now, closing=closing)


def end(drained: Iterable[Drainable], now: float, *, closing: bool = True) -> Generator[Ticket[Any], Any, None]:
    """The second half of a drain, after a PONG. ``closing``: for good, which includes consumers to delete."""
    tickets = [subscription.end_drain(now, closing) for subscription in drained]
    for ticket in tickets:
        if ticket is not None:
            yield ticket
