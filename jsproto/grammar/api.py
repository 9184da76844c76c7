"""The JetStream API: its subjects, and how it says no.

Rules: the prefix is ``$JS.API``, ``$JS.<domain>.API`` for a domain, or any other (imported APIs). Names are checked
before they become part of a subject: BadSubjectError. An answer is a JSON object. One with an ``error`` is an APIError.

Not here: the bodies of requests and answers (``config``, ``acks``).
"""

from __future__ import annotations

from typing import Any, Final

from jsproto.errors import APIError, BadSubjectError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_JSON, loads, text, uint64
from jsproto.grammar.subjects import MAX_SUBJECT, check_name, check_subject

DEFAULT_PREFIX: Final = "$JS.API"


class ApiSubjects:
    """The subjects of one JetStream API. BadSubjectError for a prefix, domain or name that is unfit for a subject."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: str = DEFAULT_PREFIX, *, domain: str | None = None) -> None:
        """``domain`` goes before ``prefix``."""
        self.prefix = prefix if domain is None else f"$JS.{check_name(domain, 'domain')}.API"
        check_subject(self.prefix)

    def info(self) -> str:
        """Limits and use of the account."""
        return f"{self.prefix}.INFO"

    # -- streams -------------------------------------------------------------------------------------------------------

    def stream_create(self, stream: str) -> str:
        """Create a stream."""
        return self._stream("STREAM.CREATE", stream)

    def stream_update(self, stream: str) -> str:
        """Replace a stream's configuration."""
        return self._stream("STREAM.UPDATE", stream)

    def stream_info(self, stream: str) -> str:
        """Configuration and state of a stream."""
        return self._stream("STREAM.INFO", stream)

    def stream_delete(self, stream: str) -> str:
        """Delete a stream."""
        return self._stream("STREAM.DELETE", stream)

    def stream_purge(self, stream: str) -> str:
        """Delete messages of a stream."""
        return self._stream("STREAM.PURGE", stream)

    def stream_names(self) -> str:
        """Names of streams, by subject if asked."""
        return f"{self.prefix}.STREAM.NAMES"

    def stream_list(self) -> str:
        """Configuration and state of all streams."""
        return f"{self.prefix}.STREAM.LIST"

    def stream_msg_get(self, stream: str) -> str:
        """Read one message through the stream's leader."""
        return self._stream("STREAM.MSG.GET", stream)

    def stream_msg_delete(self, stream: str) -> str:
        """Delete one message."""
        return self._stream("STREAM.MSG.DELETE", stream)

    def direct_get(self, stream: str, subject: str | None = None) -> str:
        """Direct Get. With ``subject`` the form that asks for its last message (ADR-31)."""
        asked = self._stream("DIRECT.GET", stream)
        if subject is None:
            return asked
        check_subject(subject)
        return f"{asked}.{subject}"

    # -- consumers -----------------------------------------------------------------------------------------------------

    def consumer_create(self, stream: str, consumer: str | None = None, filter_subject: str | None = None) -> str:
        """Create a consumer or change it.

        With its name when it has one, and then with its filter when that is a single one: permissions go by both. The
        filter may have wildcards. One that would make the subject too long for a server is left out.
        """
        asked = self._stream("CONSUMER.CREATE", stream)
        if consumer is None:
            if filter_subject is not None:
                raise BadSubjectError("a filter in the API subject needs the consumer's name before it")
            return asked
        asked = f"{asked}.{check_name(consumer, 'consumer')}"
        if filter_subject is None:
            return asked
        size = len(asked.encode("utf-8", "surrogateescape")) + 1 + len(check_subject(filter_subject, wildcards=True))
        return asked if size > MAX_SUBJECT else f"{asked}.{filter_subject}"

    def consumer_info(self, stream: str, consumer: str) -> str:
        """Configuration and state of a consumer."""
        return self._consumer("CONSUMER.INFO", stream, consumer)

    def consumer_delete(self, stream: str, consumer: str) -> str:
        """Delete a consumer."""
        return self._consumer("CONSUMER.DELETE", stream, consumer)

    def consumer_names(self, stream: str) -> str:
        """Names of a stream's consumers."""
        return self._stream("CONSUMER.NAMES", stream)

    def consumer_list(self, stream: str) -> str:
        """Configuration and state of a stream's consumers."""
        return self._stream("CONSUMER.LIST", stream)

    def consumer_next(self, stream: str, consumer: str) -> str:
        """Pull messages."""
        return self._consumer("CONSUMER.MSG.NEXT", stream, consumer)

    def consumer_pause(self, stream: str, consumer: str) -> str:
        """Pause a consumer, or resume it."""
        return self._consumer("CONSUMER.PAUSE", stream, consumer)

    def consumer_unpin(self, stream: str, consumer: str) -> str:
        """Let another client of a priority group be pinned."""
        return self._consumer("CONSUMER.UNPIN", stream, consumer)

    def consumer_reset(self, stream: str, consumer: str) -> str:
        """Set a consumer back. Servers before 2.14, and those that lack the consumer, stay silent."""
        return self._consumer("CONSUMER.RESET", stream, consumer)

    def _stream(self, verb: str, stream: str) -> str:
        return f"{self.prefix}.{verb}.{check_name(stream)}"

    def _consumer(self, verb: str, stream: str, consumer: str) -> str:
        return f"{self._stream(verb, stream)}.{check_name(consumer, 'consumer')}"


def api_error(error: object, about: str = "") -> APIError:
    """The error that an answer's ``error`` field says. RemoteProtocolError for anything else.

    ``about``: what was asked about.
    """
    if not isinstance(error, dict):
        raise RemoteProtocolError(f"an API error must be an object, not {error!r:.100}")
    description = text(error, "description", "")
    return APIError.from_fields(uint64(error, "code", 0), uint64(error, "err_code", 0), description, about)


def decode_response(payload: bytes, limit: int = MAX_JSON, about: str = "") -> dict[str, Any]:
    """The body of an answer of up to ``limit`` bytes. Raises its APIError, or RemoteProtocolError for anything else.

    ``about``: what was asked about, for the text of the error.
    """
    body = loads(payload, limit)
    if body.get("error") is not None:
        raise api_error(body["error"], about)
    return body
