"""Which failures pass by themselves, so that the same may be tried again.

Rules:

* An answer that is missing says nothing: it may come the next time.
* Of the refusals those pass by which a server says that it cannot now. One that says "full" stays.

Not here: after which pause, and how often (``backoff``). What a consumer says (``status``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import (
    APIError,
    BatchClosedError,
    BatchError,
    BatchMessageError,
    ConnectionLostError,
    Error,
    NoRespondersError,
    SourceBusyError,
    TimeoutError,
)

_SERVER_ERRORS: Final = range(500, 600)  # codes that may pass by themselves, unlike all others
_FULL: Final = frozenset({10047, 10077})


def passes(error: Error) -> bool:
    """Whether the next attempt may succeed: an answer is missing, or what is stored is unknown."""
    if isinstance(error, SourceBusyError | BatchMessageError | BatchClosedError):
        return False
    if isinstance(error, APIError):
        return error.code in _SERVER_ERRORS and error.err_code not in _FULL
    return isinstance(error, BatchError | ConnectionLostError | NoRespondersError | TimeoutError)
