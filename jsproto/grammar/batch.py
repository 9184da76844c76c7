"""The headers by which a message belongs to an atomic batch (ADR-50).

A member names its batch (``Nats-Batch-Id``) and its place (``Nats-Batch-Sequence``, 1, 2, 3 and so on). The last one
ends the batch (``Nats-Batch-Commit``): ``1`` stores this message too, ``eob`` does not.

Rules

* Building is strict, and quick: all but the sequence of a header block is made once for a batch.
* Reading never raises. It follows nats-server 2.15.1.
* Names count with their case. The first line of a name wins, and blanks before a value are skipped.
* Numbers are ASCII digits, leading zeros allowed.
* An id has at most 64 bytes. A message with an empty id is a plain one.

Not here: the other headers of a publish (``publish_headers``), which headers may go together, and what a batch does
with them (``client``, ``server``).
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from jsproto._event import event
from jsproto.errors import LocalProtocolError
from jsproto.grammar.decimals import NO_NUMBER, saturated
from jsproto.grammar.fast import MAX_BATCH_ID, check_batch_id
from jsproto.grammar.headers import FIRST_LINE, Headers, HeadersLike, encode_headers, first_value
from jsproto.grammar.publish_headers import REQUIRED_API_LEVEL

BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
BATCH_COMMIT: Final = "Nats-Batch-Commit"
BATCH_HEADERS: Final = frozenset({BATCH_ID, BATCH_SEQUENCE, BATCH_COMMIT})
"""What makes a message a member of an atomic batch. Servers store them with it, so whoever reads it gets them."""

COMMIT_STORE: Final = b"\r\nNats-Batch-Commit: 1\r\n"
COMMIT_EOB: Final = b"\r\nNats-Batch-Commit: eob\r\n"
"""What follows the sequence in the block of a message that commits. ``\\r\\n`` or more headers follow it."""

BATCH_PREFIX: Final = "Nats-Batch-"
"""How their names begin."""

_ANY_OF_BATCH: Final = b"\r\n" + BATCH_PREFIX.encode()


class BatchCommit(Enum):
    """What a member does to its batch."""

    NONE = "the batch goes on"
    STORE = "it ends, with this message stored"
    EOB = "it ends, without this message"
    INVALID = "it is refused: the header has another value"


class BatchProblem(IntEnum):
    """Why a server refuses a member before it looks for its batch. The value is the server's error code."""

    MISSING_SEQUENCE = 10175
    INVALID_ID = 10179


@event
class BatchHeaders:
    """What the headers of a member say. ``sequence`` is -1 where it is missing or malformed (see ``problem``)."""

    batch_id: str
    sequence: int
    commit: BatchCommit
    problem: BatchProblem | None


class CheckedLines(bytes):
    """Lines of headers, each with its end, and the empty line: what follows a member's own headers.

    Whoever makes it has checked that the member may have them.
    """

    __slots__ = ()


def api_level(level: int) -> str:
    """The value of ``Nats-Required-Api-Level``. LocalProtocolError for a malformed or negative level."""
    if type(level) is not int or level < 0:
        raise LocalProtocolError(f"an API level is a number, 0 or more, not {level!r}")
    return str(level)


def batch_head(batch_id: str, required_api_level: int | None = None) -> bytes:
    """What the header blocks of all members begin with. The sequence in digits comes next.

    The block of message n is this and ``b"%d\\r\\n\\r\\n" % n``, or ``b"%d"``, COMMIT_STORE or COMMIT_EOB, and
    ``\\r\\n``. With ``required_api_level`` the server refuses the batch unless it is of that level. BadSubjectError for
    an id that ``check_batch_id`` refuses, LocalProtocolError for an unknown level.
    """
    level = b""
    if required_api_level is not None:
        level = f"{REQUIRED_API_LEVEL}: {api_level(required_api_level)}\r\n".encode()
    return b"%b%bNats-Batch-Id: %b\r\nNats-Batch-Sequence: " % (FIRST_LINE, level, check_batch_id(batch_id))


def strip_batch_headers(headers: HeadersLike | None) -> Headers:
    """``headers`` freed of those of an atomic batch, to publish a message again that was read.

    BadHeaderError for unsendable ones.
    """
    return Headers([pair for pair in Headers.of(headers).items() if pair[0] not in BATCH_HEADERS])


def check_unbatched(headers: HeadersLike) -> Headers:
    """``headers`` of a plain message, checked.

    LocalProtocolError for those of an atomic batch: the server would wait for the rest of it instead of storing the
    message. BadHeaderError for unsendable ones.
    """
    checked = Headers.of(headers)
    for name in checked:
        if name in BATCH_HEADERS:
            text = f"{name} makes a message part of an atomic batch, and this one belongs to none"
            raise LocalProtocolError(f"{text}: leave it out (strip_batch_headers)")
    return checked


def encode_unbatched(headers: HeadersLike) -> bytes:
    """The block of ``headers`` for a plain message. Errors as of ``check_unbatched``."""
    block = encode_headers(headers)
    if block.find(_ANY_OF_BATCH) > 0:  # cheaper than to look at each name, and three times cheaper than ``in``
        check_unbatched(headers)
    return block


def behind(block: bytes) -> bytes:
    """The lines of an encoded header block without its first, to follow those of the batch."""
    return block[len(FIRST_LINE) :]


def parse_batch_headers(block: bytes | None) -> BatchHeaders | None:
    """What a message says of its batch, read from its header block. None: it is no member of any."""
    raw_id = None if block is None else first_value(block, b"Nats-Batch-Id")
    if block is None or not raw_id:
        return None
    sequence = saturated(first_value(block, b"Nats-Batch-Sequence"))
    problem = None
    if len(raw_id) > MAX_BATCH_ID:
        problem = BatchProblem.INVALID_ID
    elif sequence == NO_NUMBER:
        problem = BatchProblem.MISSING_SEQUENCE
    commit = _COMMITS.get(first_value(block, b"Nats-Batch-Commit"), BatchCommit.INVALID)
    return BatchHeaders(raw_id.decode("utf-8", "surrogateescape"), sequence, commit, problem)


_COMMITS: Final = {None: BatchCommit.NONE, b"1": BatchCommit.STORE, b"eob": BatchCommit.EOB}
