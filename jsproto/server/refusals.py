"""The errors that publishers, creators of streams and readers get, with the words of nats-server 2.15.1.

Rules: one table, keyed by the server's error code; ``{}`` is filled in. The draft of ADR-50 numbers four errors of
fast ingest differently, and words them differently: ``draft_of``.

Not here: which error when (the machines), how it travels (``grammar.acks``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import APIError

_REFUSALS: Final[dict[int, tuple[int, str]]] = {
    10003: (400, "bad request"),
    10025: (400, "invalid JSON: {}"),
    10031: (400, "stream mirrors can not also contain other sources"),
    10034: (400, "stream mirrors can not contain subjects"),
    10037: (404, "no message found"),
    10052: (500, "{}"),
    10054: (400, "message size exceeds maximum allowed"),
    10055: (400, "stream mirror configuration can not be updated"),
    10057: (500, "{}"),
    10060: (400, "expected stream does not match"),
    10070: (400, "wrong last msg ID: {}"),
    10071: (400, "wrong last sequence: {}"),
    10077: (503, "{}"),
    10097: (400, "header size exceeds maximum allowed of 64k"),
    10109: (400, "invalid operation on sealed stream"),
    10111: (500, "{}"),
    10142: (400, "mirrored stream name is invalid"),
    10143: (400, "stream mirrors can not have first sequence configured"),
    10164: (400, "wrong last sequence"),
    10166: (400, "per-message TTL is disabled"),
    10174: (400, "atomic publish is disabled"),
    10175: (400, "atomic publish sequence is missing"),
    10176: (400, "atomic publish batch is incomplete"),
    10177: (400, "atomic publish unsupported header used: {}"),
    10179: (400, "atomic publish batch ID is invalid"),
    10185: (412, "JetStream minimum api level required"),
    10193: (400, "missing sequence for expected last sequence per subject"),
    10198: (400, "stream mirrors can not also use atomic publishing"),
    10199: (400, "atomic publish batch is too large: {}"),
    10200: (400, "atomic publish batch commit is invalid"),
    10201: (400, "atomic publish batch contains duplicate message id"),
    10205: (400, "batch publish is disabled"),
    10206: (400, "batch publish pattern is invalid"),
    10207: (400, "batch publish ID is invalid"),
    10208: (400, "batch publish ID unknown"),
    10209: (400, "stream mirrors can not also use batch publishing"),
    10210: (429, "atomic publish too many inflight"),
    10211: (429, "batch publish too many inflight"),
}
_DRAFT: Final[dict[int, tuple[int, str]]] = {
    10205: (10203, "Batch publish not enabled on stream"),
    10206: (10204, "Batch publish invalid pattern used"),
    10207: (10205, "Batch publish ID is invalid (exceeds 64 characters)"),
    10208: (10206, "Batch publish ID is unknown"),
}


def refusal(err_code: int, filling: str | int = "") -> APIError:
    """The error with that code; ``filling`` goes where its description has room."""
    code, description = _REFUSALS[err_code]
    return APIError.from_fields(code, err_code, description.format(filling))


def draft_of(error: APIError) -> APIError:
    """``error`` as the draft of ADR-50 numbers and words it; most are the same."""
    if error.err_code not in _DRAFT:
        return error
    err_code, description = _DRAFT[error.err_code]
    return APIError.from_fields(error.code, err_code, description)
