"""The reply subject of a fast-ingest message (ADR-50)::

    <prefix>.<batch id>.<flow>.<ok|fail>.<sequence>.<operation>.$FI

The prefix is an inbox of one or more tokens. Flow and gap mode are those of the first message, on every message.

Rules

* Building is strict: LocalProtocolError before anything is written.
* Reading never raises. It follows nats-server 2.15.1: numbers are ASCII digits, leading zeros allowed.
* Flow: 10 if it is zero or malformed, 65535 if it is above 65535.
* Refused: sequence 0 and 2**64 - 1, an unknown operation, an id of more than 64 bytes.
* Refused: a start with a sequence other than 1, and an append or a bare commit with sequence 1.
* Refused though that server takes them: an empty prefix or id, an id outside UTF-8, an operation of 2**64 and more. A
  flow of 2**64 and more is 65535. That server takes both modulo 2**64.

Not here: what the messages say (``acks``), when to send which (``rules``, ``client``).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal, TypeAlias, get_args

from jsproto._event import event
from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.decimals import saturated
from jsproto.grammar.fields import checked_word
from jsproto.grammar.subjects import check_subject

GapMode: TypeAlias = Literal["ok", "fail"]
GAP_MODES: Final = get_args(GapMode)
"""What a lost message does to the batch: ``ok`` reports it, ``fail`` ends the batch."""

MAX_BATCH_ID: Final = 64
"""Bytes in a batch id (ADR-50, server error 10207 above)."""

MAX_FLOW: Final = 65535
"""Messages per acknowledgement that can be asked for (a uint16 in the server)."""

MAX_BATCH_SEQUENCE: Final = 2**64 - 2
"""The last sequence of a batch: servers refuse 2**64 - 1."""

_SUFFIX: Final = b".$FI"
_FLOW_WHEN_UNREADABLE: Final = 10


class FastOp(IntEnum):
    """What a message does to its batch."""

    START = 0
    APPEND = 1
    COMMIT = 2
    """Store this message and end the batch."""
    COMMIT_EOB = 3
    """End the batch without storing this message."""
    PING = 4
    """Keep the batch alive and ask for the latest flow acknowledgement. It carries the highest sequence sent."""


_OPERATIONS: Final = frozenset(FastOp)


class FastProblem(IntEnum):
    """Why a server refuses a fast-ingest reply subject. The value is the server's error code."""

    PATTERN = 10206
    BATCH_ID = 10207


@event
class FastReply:
    """A fast-ingest reply subject, taken apart."""

    prefix: str
    batch_id: str
    flow: int
    gap: GapMode
    sequence: int
    operation: FastOp


def check_batch_id(batch_id: str) -> bytes:
    """The id as a token of a subject. BadSubjectError unless it is 1 to 64 bytes of visible text without ``. * >``.

    Visible, because servers write the id into JSON with escapes outside of JSON (seen: ``\\x01``).
    """
    if not isinstance(batch_id, str):
        raise BadSubjectError(f"a batch id (batch_id) is a str, not {batch_id!r:.100}")
    if not batch_id or not batch_id.isprintable() or not set(" .*>").isdisjoint(batch_id):
        raise BadSubjectError(f"a batch id is visible characters, none of them a blank, '.', '*' or '>': {batch_id!r}")
    encoded = batch_id.encode()
    if len(encoded) > MAX_BATCH_ID:
        raise BadSubjectError(f"a batch id has at most {MAX_BATCH_ID} bytes, this one {len(encoded)}: {batch_id!r}")
    return encoded


def fast_reply_prefix(prefix: str, batch_id: str, flow: int, gap: GapMode) -> bytes:
    """What all reply subjects of a batch begin with: ``<prefix>.<batch id>.<flow>.<gap>.``, the last dot included.

    The reply subject of message n is this and ``b"%d.%d.$FI" % (n, operation)``. LocalProtocolError (for the prefix and
    the id BadSubjectError) when a part is other than a server takes.
    """
    if type(flow) is not int or not 1 <= flow <= MAX_FLOW:
        raise LocalProtocolError(f"flow is 1 to {MAX_FLOW} messages per acknowledgement, not {flow!r}")
    checked_word("gap", gap, GAP_MODES)
    return b"%b.%b.%d.%b." % (check_subject(prefix), check_batch_id(batch_id), flow, gap.encode())


def parse_fast_reply(reply: bytes) -> FastReply | FastProblem | None:
    """Read a reply subject as servers do. None: not fast ingest, an ordinary reply. FastProblem: to be refused."""
    if not reply.endswith(_SUFFIX) or reply == _SUFFIX:
        return None
    parts = reply.rsplit(b".", 6)
    if len(parts) != 7 or not parts[0]:
        return FastProblem.PATTERN
    raw_prefix, raw_id, raw_flow, gap, raw_sequence, raw_operation, _ = parts
    sequence, operation = saturated(raw_sequence), saturated(raw_operation)
    if gap not in (b"ok", b"fail") or operation not in _OPERATIONS or not _fits(sequence, operation):
        return FastProblem.PATTERN
    try:
        batch_id = raw_id.decode()
    except UnicodeDecodeError:
        return FastProblem.BATCH_ID
    if not 1 <= len(raw_id) <= MAX_BATCH_ID:
        return FastProblem.BATCH_ID
    flow = saturated(raw_flow)
    flow = min(flow, MAX_FLOW) if flow > 0 else _FLOW_WHEN_UNREADABLE
    prefix = raw_prefix.decode("utf-8", "surrogateescape")
    return FastReply(prefix, batch_id, flow, "ok" if gap == b"ok" else "fail", sequence, FastOp(operation))


def _fits(sequence: int, operation: int) -> bool:
    """Whether a message with this sequence may be this operation."""
    if operation == FastOp.START:
        return sequence == 1
    lowest = 2 if operation in (FastOp.APPEND, FastOp.COMMIT_EOB) else 1
    return lowest <= sequence <= MAX_BATCH_SEQUENCE
