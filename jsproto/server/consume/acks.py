"""What clients send to a consumer about its messages: acknowledgements, and answers to flow control.

Rules, those of nats-server (FACTS.md F5.2, F5.4): both versions of ack subjects are read, and tokens after the last
known one are ignored. A malformed number, or one beyond all counts, is read as -1, which matches no message. A payload
that means nothing is ``AckKind.UNKNOWN``, because it is answered too.

Not here: what becomes of the message (``delivery_state``), and whether the client gets an answer (``consumer``).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.durations import parse_duration
from jsproto.grammar.fields import as_integer
from jsproto.grammar.headers import first_value

_ACKS: Final = (b"", b"+ACK", b"+OK")
_TOKENS_OF_VERSION_1: Final = 9
_NUMBERS: Final = 2**63


class AckKind(Enum):
    """What a client says about one message."""

    ACK = "done"
    NEXT = "done, and here is a pull request"
    NAK = "deliver it again"
    PROGRESS = "the work goes on"
    TERM = "never deliver it again"
    UNKNOWN = "nothing that a server knows"


class Acknowledgement(NamedTuple):
    """One acknowledgement. Sequences and deliveries are -1 where the subject has no number.

    ``argument`` is what follows the word: a pull request (NEXT), a delay (NAK), a reason (TERM), else nothing.
    """

    kind: AckKind
    stream_seq: int
    consumer_seq: int
    deliveries: int
    argument: bytes = b""


def read_acknowledgement(subject: str, payload: bytes) -> Acknowledgement:
    """The acknowledgement that was published to the ack subject ``subject``, of either version, with ``payload``."""
    tokens = subject.split(".")
    first = 4 if len(tokens) == _TOKENS_OF_VERSION_1 else 6
    if len(tokens) < first + 3:
        tokens += [""] * 9
    kind, argument = (AckKind.ACK, b"") if payload in _ACKS else _word(payload)
    return Acknowledgement(
        kind, _number(tokens[first + 1]), _number(tokens[first + 2]), _number(tokens[first]), argument
    )  # fmt: skip


def _word(payload: bytes) -> tuple[AckKind, bytes]:
    """What a payload says that is no plain acknowledgement."""
    if payload.startswith(b"+NXT"):
        return AckKind.NEXT, payload[4:]
    if payload.startswith(b"-NAK"):
        return AckKind.NAK, payload[4:].strip()
    if payload == b"+WPI":
        return AckKind.PROGRESS, b""
    if payload.startswith(b"+TERM"):
        return AckKind.TERM, payload[5:].strip()
    return AckKind.UNKNOWN, b""


def nak_delay(argument: bytes) -> int | None:
    """The delay in the argument of a NAK, in nanoseconds. None: it is missing, or in an unknown form."""
    try:
        if argument.startswith(b"{"):
            return as_integer(loads(argument).get("delay", 0), "delay")
        return parse_duration(argument.decode("utf-8", "replace")) if argument else None
    except (RemoteProtocolError, ValueError):
        return None


def read_flow_answer(header: bytes | None) -> tuple[int, int]:
    """The last consumer sequence and the last stream sequence in the header block of an answer to flow control.

    Each is -1 where the block does not say it.
    """
    return _header_number(header, b"Nats-Last-Consumer"), _header_number(header, b"Nats-Last-Stream")


def _header_number(header: bytes | None, name: bytes) -> int:
    value = b"" if header is None else first_value(header, name) or b""
    return _number(value.decode("ascii", "replace"))


def _number(token: str) -> int:
    if not (len(token) <= MAX_DIGITS and token.isdigit() and token.isascii()):
        return -1
    number = int(token)
    return number if number < _NUMBERS else -1
