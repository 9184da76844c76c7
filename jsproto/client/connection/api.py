"""How the JetStream API is asked: one question, one answer or error.

Rules: the ticket fails with JetStreamNotAvailableError where no API answers, and with APIError where the server says
"no".

Not here: what is asked (``jetstream``, ``consume.api``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jsproto.client.connection.session import Session
from jsproto.errors import Error, JetStreamNotAvailableError, LocalProtocolError
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.ticket import Ticket

T = TypeVar("T")


class Api:
    """A JetStream API on a session. ``domain`` or ``prefix`` choose another API subject than ``$JS.API``."""

    def __init__(
        self,
        session: Session,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """``timeout``: seconds for each request, the session's default when None.

        Raises:
            LocalProtocolError: both ``domain`` and ``prefix`` were given.
        """
        if domain is not None and prefix is not None:
            raise LocalProtocolError("give a domain or a prefix, not both")
        self.session = session
        self.api = ApiSubjects(domain=domain) if prefix is None else ApiSubjects(prefix)
        self.timeout = session.options.timeout if timeout is None else timeout

    def _ask(
        self,
        subject: str,
        payload: bytes,
        build: Callable[[dict[str, Any]], T],
        now: float,
        timeout: float | None,
        *,
        wildcards: bool = False,
    ) -> Ticket[T]:
        return self.session.requests.request(
            subject, payload, timeout=self.timeout if timeout is None else timeout, now=now,
            decode=lambda message: build(decode_response(message.payload)), no_responders=not_available,
            wildcards=wildcards,
        )  # fmt: skip


def succeeded(body: dict[str, Any]) -> bool:
    """Whether an answer says that it was done."""
    return body.get("success") is True


def not_available(subject: str) -> Error:
    """The error where no API answers."""
    return JetStreamNotAvailableError(subject)
