"""How the JetStream API is asked: one question, one answer or error.

Rules: the ticket fails with JetStreamNotAvailableError where no API answers, and with APIError where the server says
"no".

Not here: what is asked (``jetstream``, ``consume.consumers``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from jsproto.client.connection.requests import retry_policy
from jsproto.client.connection.session import Session
from jsproto.errors import Error, JetStreamNotAvailableError, LocalProtocolError, UnsupportedByServerError
from jsproto.grammar.api import ApiSubjects, decode_response
from jsproto.grammar.batch import api_level
from jsproto.grammar.bodies import MAX_JSON
from jsproto.grammar.headers import HeadersLike
from jsproto.grammar.publish_headers import REQUIRED_API_LEVEL
from jsproto.ticket import Ticket

T = TypeVar("T")

PEDANTIC_SINCE: Final = "2.11"
"""The first release that refuses what it would replace in a configuration, if it is asked to."""
LEVEL_SINCE: Final = "2.12"
"""The first release that refuses a request that demands a higher API level (FACTS.md F0.3)."""


class Api:
    """A JetStream API on a session. ``domain`` or ``prefix`` choose another API subject than ``$JS.API``."""

    def __init__(
        self,
        session: Session,
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float | None = None,
        retry_attempts: int | None = None,
        retry_wait: float | None = None,
    ) -> None:
        """``timeout``: seconds for each request, the session's default when None.

        * ``retry_attempts``: how often a publish that finds no stream is sent again (ADR-22). None: 2. -1: no limit.
        * ``retry_wait``: seconds before each of them. None: 0.25.

        Raises:
            LocalProtocolError: both ``domain`` and ``prefix`` were given, or a value is not one of these.
        """
        if domain is not None and prefix is not None:
            raise LocalProtocolError("give a domain or a prefix, not both")
        self.session = session
        self.api = ApiSubjects(domain=domain) if prefix is None else ApiSubjects(prefix)
        self.timeout = session.options.timeout if timeout is None else timeout
        self.retry = retry_policy(retry_attempts, retry_wait)

    def _ask(
        self,
        subject: str,
        payload: bytes,
        build: Callable[[dict[str, Any]], T],
        now: float,
        timeout: float | None,
        *,
        about: str = "",
        headers: HeadersLike | None = None,
        limit: int = MAX_JSON,
        wildcards: bool = False,
    ) -> Ticket[T]:
        """Ask the API. ``build`` makes the value of an answer of up to ``limit`` bytes.

        ``about``: what is asked about, for the text of an error. ``wildcards``: the subject may have some.
        """
        return self.session.requests.request(
            subject, payload, timeout=self.timeout if timeout is None else timeout, now=now,
            decode=lambda message: build(decode_response(message.payload, limit, about)), headers=headers,
            no_responders=not_available, wildcards=wildcards,
        )  # fmt: skip

    def _level_header(self, level: int | None, *, pedantic: bool) -> HeadersLike | None:
        """The header of a request that demands the API level ``level``, None for no demand.

        Raises, with nothing sent:
            LocalProtocolError: ``level`` is no level.
            UnsupportedByServerError: the server is so old that it passes over the level, or over ``pedantic``.
        """
        server = self.session.server
        if pedantic and server is not None and server.is_before(PEDANTIC_SINCE):
            raise UnsupportedByServerError("pedantic", PEDANTIC_SINCE, server.version)
        if level is None:
            return None
        text = api_level(level)
        if server is not None and server.is_before(LEVEL_SINCE):
            raise UnsupportedByServerError("required_api_level", LEVEL_SINCE, server.version)
        return {REQUIRED_API_LEVEL: text}


def succeeded(body: dict[str, Any]) -> bool:
    """Whether an answer says that it was done."""
    return body.get("success") is True


def not_available(subject: str) -> Error:
    """The error where no API answers."""
    return JetStreamNotAvailableError(subject)
