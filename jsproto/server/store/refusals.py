"""The errors with which the server refuses publishes, reads and configurations, in the words of nats-server 2.15.1.

Rules: ``api_errors`` has them by their code. The draft of ADR-50 has other numbers and words for four errors of fast
ingest (``draft_of``).

Not here: when each error occurs (the machines), how it is encoded (``grammar.acks``).
"""

from __future__ import annotations

from jsproto.errors import BY_ERR_CODE, APIError
from jsproto.grammar.acks import DRAFT_ERRORS


def refusal(err_code: int, filling: str | int = "") -> APIError:
    """The error with the code ``err_code``. ``filling`` takes the place of what its description has in braces."""
    kind = BY_ERR_CODE[err_code]
    before, brace, after = kind.description.partition("{")
    description = f"{before}{filling}{after.partition('}')[2]}" if brace else before
    return kind(kind.code, err_code, description)


def draft_of(error: APIError) -> APIError:
    """``error`` with the number and the words of ADR-50's draft. Most errors are the same there."""
    if error.err_code not in DRAFT_ERRORS:
        return error
    err_code, description = DRAFT_ERRORS[error.err_code]
    return APIError.from_fields(error.code, err_code, description)
