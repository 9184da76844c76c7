"""What publishers take as one message: a subject, a payload, and perhaps headers.

Not here: what is checked of them (``grammar.subjects``, ``grammar.headers``, the outbox).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from jsproto.errors import LocalProtocolError
from jsproto.grammar.headers import HeadersLike

Message: TypeAlias = tuple[str, bytes] | tuple[str, bytes, HeadersLike | None]


def parts(message: object) -> tuple[Any, Any, Any]:
    """Subject, payload and headers of one element of a list of messages. Headers are None for a plain message.

    Raises: LocalProtocolError: it is something other than a tuple or list of two or three.
    """
    if not isinstance(message, tuple | list) or not 2 <= len(message) <= 3:
        raise LocalProtocolError(
            f"a message is (subject, payload) or (subject, payload, headers), not {message!r:.100}"
        )
    subject, payload, *rest = message
    return subject, payload, rest[0] if rest else None
