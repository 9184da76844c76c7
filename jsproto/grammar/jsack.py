"""The ack reply subject of a delivered message, "JSAck" (ADR-15, section JSAck).

Version 1 has nine tokens, version 2 eleven or more::

    $JS.ACK.<stream>.<consumer>.<num delivered>.<stream seq>.<consumer seq>.<timestamp>.<num pending>
    $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<num delivered>. ... .<num pending>[.<more>]

Rules: the number of tokens decides the version. Tokens after the eleventh are ignored. Numbers are ASCII digits, at
most 2**64 - 1, and a timestamp, which is signed, at most 2**63 - 1. Anything else comes from outside JetStream, and
raises NotJSMessageError. Which version a server sends is its configuration (up to 2.15 version 1 unless a feature flag
says otherwise), so both are read everywhere.

Not here: the acknowledgements that are sent to this subject, flow-control subjects (``$JS.FC``).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NoReturn

from jsproto._event import event
from jsproto.errors import NotJSMessageError
from jsproto.grammar.bodies import MAX_UINT64
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.times import Moment, as_datetime

ACK_PREFIX: Final = b"$JS.ACK."
"""How they all start."""

# What version 2 writes where there is no domain; no domain can have this name.
_NO_DOMAIN: Final = "_"
_MAX_TIMESTAMP: Final = 2**63 - 1
_TIME: Final = 19  # digits of the latest time


@event
class Sequences:
    """A message's place: its sequence in the ``stream``, and the number of this delivery at the ``consumer``."""

    stream: int
    consumer: int


@event
class JSAck:
    """What a delivered message's reply subject says about the delivery.

    ``domain`` and ``account_hash`` are None in version 1. ``domain`` is None too where version 2 says ``_``.
    ``num_delivered`` counts the deliveries of this message, this one included. ``timestamp`` is when the message was
    stored, in nanoseconds since the epoch. ``num_pending`` is how many messages wait for the consumer after this one.
    """

    domain: str | None
    account_hash: str | None
    stream: str
    consumer: str
    num_delivered: int
    sequence: Sequences
    timestamp: int
    num_pending: int

    @property
    def time(self) -> Moment:
        """The same moment as a datetime, in UTC and to the microsecond."""
        return as_datetime(self.timestamp)


def parse_jsack(reply: bytes) -> JSAck:
    """Read a reply subject of either version. NotJSMessageError for anything else."""
    tokens = reply.split(b".")
    count = len(tokens)
    if tokens[0] != b"$JS" or count < 9 or count == 10 or tokens[1] != b"ACK":
        _refuse(reply)
    names, numbers = (tokens[2:4], tokens[4:9]) if count == 9 else (tokens[2:6], tokens[6:11])
    delivered, stream_seq, consumer_seq, timestamp, pending = numbers
    digits = b"".join(numbers)
    if not (all(names) and all(numbers) and digits.isdigit() and len(digits) <= 5 * MAX_DIGITS):
        _refuse(reply)
    values = int(delivered), int(stream_seq), int(consumer_seq), int(timestamp), int(pending)
    if max(values) > MAX_UINT64 or values[3] > _MAX_TIMESTAMP:
        _refuse(reply)
    counts = values[0], Sequences(values[1], values[2]), values[3], values[4]
    try:
        stream, consumer = names[-2].decode(), names[-1].decode()
        if count == 9:
            return JSAck(None, None, stream, consumer, *counts)
        domain = names[0].decode()
        return JSAck(None if domain == _NO_DOMAIN else domain, names[1].decode(), stream, consumer, *counts)
    except UnicodeDecodeError:
        _refuse(reply)


def jsack_sequences(reply: bytes) -> tuple[int, int]:
    """Only the stream sequence and the consumer sequence: what gap detection needs of each message.

    A third of the price of ``parse_jsack``, because it looks at this alone: the other tokens may be junk.
    NotJSMessageError when the prefix, the number of tokens or one of the two is wrong.
    """
    tokens = reply.split(b".")
    count = len(tokens)
    if count == 9:
        stream, consumer = tokens[5], tokens[6]
    elif count > 10:
        stream, consumer = tokens[7], tokens[8]
    else:
        _refuse(reply)
    digits = stream + consumer
    if not (
        tokens[1] == b"ACK"
        and tokens[0] == b"$JS"
        and stream
        and consumer
        and digits.isdigit()
        and len(digits) <= 2 * MAX_DIGITS
    ):
        _refuse(reply)
    stream_seq, consumer_seq = int(stream), int(consumer)
    if stream_seq > MAX_UINT64 or consumer_seq > MAX_UINT64:
        _refuse(reply)
    return stream_seq, consumer_seq


def jsack_times(replies: Sequence[bytes]) -> list[bytes]:
    """When each of a consumer's messages was stored, in nanoseconds since the epoch, as 19 digits.

    NotJSMessageError as in ``parse_jsack``.

    How it works: until the year 2286 a time has so many digits. They stand where those of the first message do, until
    one of the sequences gets another digit. Pays: ``copy``.
    """
    times: list[bytes] = []
    while len(times) < len(replies):
        first = replies[len(times)]
        numbers = jsack_sequences(first)
        run = replies[len(times) : len(times) + min(10 ** len(str(number)) - number for number in numbers)]
        tokens = first.split(b".")
        start = len(b".".join(tokens[: 7 if len(tokens) == 9 else 9])) + 1
        found = [*map(itemgetter(slice(start, start + _TIME)), run)]
        digits = b"".join(found)
        if len(digits) != _TIME * len(run) or not digits.isdigit():
            found = [b"%0*d" % (_TIME, parse_jsack(reply).timestamp) for reply in run]
        times += found
    return times


def build_jsack(ack: JSAck) -> bytes:
    """The subject that says ``ack``: version 2 when there is an account hash, else version 1 (which lacks the domain).

    The names must be legal tokens. That is checked where streams and consumers are created.
    """
    numbers = (ack.num_delivered, ack.sequence.stream, ack.sequence.consumer, ack.timestamp, ack.num_pending)
    names = b"%b.%b" % (ack.stream.encode(), ack.consumer.encode())
    if ack.account_hash is not None:
        domain = _NO_DOMAIN if ack.domain is None else ack.domain
        names = b"%b.%b.%b" % (domain.encode(), ack.account_hash.encode(), names)
    return b"$JS.ACK.%b.%d.%d.%d.%d.%d" % (names, *numbers)


def _refuse(reply: bytes) -> NoReturn:
    raise NotJSMessageError(f"not an ack reply subject of JetStream: {reply[:256]!r}")
