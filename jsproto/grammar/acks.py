"""What servers answer to a publish: publish acknowledgements, and the flow messages of fast ingest (ADR-50).

Two dialects of the flow messages are read, told apart by their content, and parse to the same values:

* released (nats-server from 2.14, the default when writing): ``type`` is ``ack``, ``gap`` or ``err``.
* draft (the text of ADR-50): one object of ``last_seq``, ``seq``, ``ack_msgs`` and ``error``, zeros left out.

Rules: every number is checked (a rate is 1 to 65535, the sequence of a message at least 1). Unknown fields are ignored,
an unknown ``type`` is an error. Whatever the bytes, only RemoteProtocolError is raised. An error of the server is
returned, not raised. The first lost message is ``first_missing`` in both dialects: the draft writes the last received
one, the released server the first missing one, both as ``last_seq``. Released encodings are byte for byte those of
nats-server 2.15.1, with the blank in ``"duplicate": true``. 2.11 also puts one before ``"seq"``, which is read and
never written.

Not here: the zero-byte acknowledgements of atomic batches, what an acknowledgement means for a batch
(``client``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from jsproto._event import event
from jsproto._lend import lend
from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.api import api_error
from jsproto.grammar.bodies import MAX_UINT64, escaped, loads, text, uint64
from jsproto.grammar.fast import MAX_FLOW

Dialect: TypeAlias = Literal["released", "draft"]
"""Which form of the flow messages to write."""


@event
class PubAck:
    """A message, or a batch, is stored.

    ``seq`` is the stream sequence (of a batch: of its last message, 0 if it stored none). ``batch`` and ``count`` are
    there only for batches, and then both. The count of a fast-ingest batch is its highest batch sequence, which in gap
    mode ``ok`` is not the number of messages stored (FACTS.md F2.14). ``value`` is what a counter stands at. ``error``
    is set only by the draft of ADR-50: why the batch ended with this count (released servers send a FlowError before it
    instead).
    """

    stream: str
    seq: int
    domain: str | None = None
    duplicate: bool = False
    value: str | None = None
    batch: str | None = None
    count: int | None = None
    error: APIError | None = None

    @property
    def sequences(self) -> range:
        """The stream sequences of what it acknowledges, in order: of a message, or of an atomic batch.

        Meaningless for a fast-ingest batch, whose messages may lie apart.
        """
        return range(self.seq + 1 - (1 if self.count is None else self.count), self.seq + 1)


@event
class FlowAck:
    """Everything up to batch sequence ``seq`` has arrived. The next acknowledgement comes ``msgs`` messages later."""

    seq: int
    msgs: int


@event
class FlowGap:
    """Messages ``first_missing`` to ``seq - 1`` of the batch were lost. Information only: it acknowledges nothing.

    2.15.1 also sends one for a sequence that goes backwards. Then ``seq`` is the lower of the two.
    """

    first_missing: int
    seq: int


@event
class FlowError:
    """The stream refused message ``seq`` of the batch."""

    seq: int
    error: APIError


FlowMessage: TypeAlias = FlowAck | FlowGap | FlowError

DRAFT_ERRORS: Final[dict[int, tuple[int, str]]] = {
    10205: (10203, "Batch publish not enabled on stream"),
    10206: (10204, "Batch publish invalid pattern used"),
    10207: (10205, "Batch publish ID is invalid (exceeds 64 characters)"),
    10208: (10206, "Batch publish ID is unknown"),
}
"""Number and words in ADR-50's draft of what released servers say by this number (FACTS.md F2.4).

Its numbers are those of other errors elsewhere, so the words decide.
"""
_RELEASED: Final = {draft: released for released, draft in DRAFT_ERRORS.items()}

# What nearly every answer to a publish looks like, byte for byte: a tenth of the cost of reading JSON.
_WORDS: Final = rb'\{"stream":"(%b[ !#-\[\]-~]++)", ?"seq":(%b0|[1-9][0-9]{0,18}+)(%b,"duplicate": true)?\}'
_PLAIN: Final = re.compile(_WORDS % (b"", b"", b""))
_FLOW_ACK: Final = re.compile(rb'\{"type":"ack","seq":(0|[1-9][0-9]{0,17}),"msgs":([1-9][0-9]{0,3})\}')
_PLAIN_LINES: Final = re.compile(b"(?:%b\n)*+" % (_WORDS % (b"?:", b"?:", b"?:")))


def is_plain_ack(payload: bytes) -> bool:
    """Whether it says in the usual words that a message is stored. False only means: ``parse_pub_ack`` knows."""
    return _PLAIN.fullmatch(payload) is not None


def plain_runs(payloads: Sequence[bytes]) -> Iterator[tuple[bool, int]]:
    """Where the answers change that say in the usual words that a message is stored, and others.

    Of each run: whether it consists of the former, and the place after its last one. Others come one by one.

    One expression looks at all of them, joined by line feeds. An answer that has a line feed of its own could pass for
    two. Then none is said to be plain. Pays: ``async-publish``.
    """
    text = b"\n".join((*payloads, b""))
    count = len(payloads)
    if text.count(b"\n") != count:
        yield from ((False, place) for place in range(1, count + 1))
        return
    at = place = 0
    while place < count:
        end = _end_of_plain(text, at)
        if end > at:
            place += text.count(b"\n", at, end)
            yield True, place
        if place < count:
            at = text.index(b"\n", end) + 1
            place += 1
            yield False, place


def parse_plain_acks(payloads: Sequence[bytes]) -> list[PubAck]:
    """``parse_pub_ack`` of each of them. They are all plain (``plain_runs``)."""
    found = _PLAIN.findall(b"".join(payloads))
    streams = {stream: stream.decode() for stream in {stream for stream, _, _ in found}}
    return [PubAck(streams[stream], int(seq), None, duplicate != b"") for stream, seq, duplicate in found]


def parse_pub_ack(payload: bytes) -> PubAck | APIError:
    """The answer to a publish. An APIError is the result. RemoteProtocolError for anything else."""
    plain = _PLAIN.fullmatch(payload)
    if plain is not None:
        return PubAck(plain[1].decode(), int(plain[2]), None, plain[3] is not None)
    body = loads(payload)
    if body.get("error") is not None:
        return api_error(body["error"])
    return _pub_ack(body, payload, None)


def _end_of_plain(lines: bytes, at: int) -> int:
    found = _PLAIN_LINES.match(lines, at)
    assert found is not None  # it matches nothing, too
    return found.end()


def parse_flow(payload: bytes) -> PubAck | APIError | FlowMessage:
    """Any message on the control channel of a fast-ingest batch, in either dialect.

    APIError: the batch, or one message of it, was refused in the shape of a publish acknowledgement. A PubAck that
    lacks ``batch`` comes from a server older than fast ingest, which stored a plain message. RemoteProtocolError for
    anything else. Flow acknowledgements take a short cut (``fast-ingest``).
    """
    flow = _FLOW_ACK.fullmatch(payload)
    if flow is not None:
        return FlowAck(int(flow[1]), int(flow[2]))
    body = loads(payload)
    kind = body.get("type")
    if kind == "ack":
        return FlowAck(uint64(body, "seq"), _rate(body, "msgs"))
    if kind == "gap":
        return FlowGap(_message(body, "last_seq"), _message(body, "seq"))
    if kind == "err":
        return FlowError(_message(body, "seq"), _batch_error(body.get("error")))
    if kind is not None:
        raise RemoteProtocolError("a flow message of unknown type", payload)
    error = None if body.get("error") is None else _batch_error(body["error"])
    if error is not None and body.get("batch") is None and ("stream" in body or "seq" not in body):
        return error
    if "stream" in body:
        return _pub_ack(body, payload, error)
    return _draft(body, error, payload)


def _batch_error(error: object) -> APIError:
    """The error of a fast-ingest batch, by the number that released servers give it."""
    found = api_error(error)
    released = _RELEASED.get((found.err_code, found.description))
    return found if released is None else APIError.from_fields(found.code, released, found.description)


def encode_pub_ack(ack: PubAck) -> bytes:
    """A publish acknowledgement as servers write it."""
    pieces = [f'"stream":{_quoted(ack.stream)}']
    if ack.error is not None:
        pieces.insert(0, f'"error":{_error(ack.error)}')
    if ack.domain is not None:
        pieces.append(f'"domain":{_quoted(ack.domain)}')
    pieces.append(f'"seq":{ack.seq:d}')
    if ack.duplicate:
        pieces.append('"duplicate": true')
    if ack.value is not None:
        pieces.append(f'"val":{_quoted(ack.value)}')
    if ack.batch is not None:
        pieces.append(f'"batch":{_quoted(ack.batch)}')
    if ack.count is not None:
        pieces.append(f'"count":{ack.count:d}')
    return _object(pieces)


def encode_error_ack(error: APIError, stream: str) -> bytes:
    """A refused publish, in the shape of a publish acknowledgement."""
    return _object([f'"error":{_error(error)}', f'"stream":{escaped(stream)}', '"seq":0'])


def encode_flow(message: FlowMessage, dialect: Dialect = "released") -> bytes:
    """A flow message in one of the two dialects."""
    if dialect == "draft":
        return _encode_draft(message)
    if isinstance(message, FlowAck):
        return b'{"type":"ack","seq":%d,"msgs":%d}' % (message.seq, message.msgs)
    if isinstance(message, FlowGap):
        return b'{"type":"gap","last_seq":%d,"seq":%d}' % (message.first_missing, message.seq)
    return _object(['"type":"err"', f'"seq":{message.seq:d}', f'"error":{_error(message.error)}'])


def _pub_ack(body: Mapping[str, Any], payload: bytes, error: APIError | None) -> PubAck:
    stream = text(body, "stream")
    duplicate = body.get("duplicate")
    if not stream or (duplicate is not None and type(duplicate) is not bool):
        raise RemoteProtocolError("a publish acknowledgement with a malformed field", payload)
    batch = _optional_text(body, "batch")
    count = uint64(body, "count") if body.get("count") is not None else None
    if batch is not None and count is None:
        raise RemoteProtocolError("an acknowledgement of a batch does not say how much of it is stored", payload)
    domain, value = _optional_text(body, "domain"), _optional_text(body, "val")
    return PubAck(stream, uint64(body, "seq"), domain, duplicate is True, value, batch, count, error)


def _draft(body: Mapping[str, Any], error: APIError | None, payload: bytes) -> FlowMessage:
    """One object for everything, zeros left out. A rate is positive, so what lacks one reports a gap."""
    if error is not None:
        return FlowError(_message(body, "seq"), error)
    if "ack_msgs" in body and "last_seq" not in body:
        return FlowAck(uint64(body, "seq", 0), _rate(body, "ack_msgs"))
    if "seq" not in body:
        raise RemoteProtocolError("neither an acknowledgement nor a flow message", payload)
    received = uint64(body, "last_seq", 0)
    if received == MAX_UINT64:
        raise RemoteProtocolError("a gap behind the last sequence there is", payload)
    return FlowGap(received + 1, _message(body, "seq"))


def _encode_draft(message: FlowMessage) -> bytes:
    numbers: tuple[tuple[str, int], ...]
    if isinstance(message, FlowAck):
        numbers = ("seq", message.seq), ("ack_msgs", message.msgs)
    elif isinstance(message, FlowGap):
        numbers = ("last_seq", message.first_missing - 1), ("seq", message.seq)
    else:
        numbers = (("seq", message.seq),)
    pieces = [f'"{name}":{number:d}' for name, number in numbers if number]
    if isinstance(message, FlowError):
        pieces.append(f'"error":{_error(message.error)}')
    return _object(pieces)


def _message(body: Mapping[str, Any], name: str) -> int:
    """The sequence of a message: counted from 1."""
    number = uint64(body, name)
    if number == 0:
        raise RemoteProtocolError(f"{name} must be a sequence, which is counted from 1")
    return number


def _rate(body: Mapping[str, Any], name: str) -> int:
    number = uint64(body, name)
    if not 1 <= number <= MAX_FLOW:
        raise RemoteProtocolError(f"{name} must be 1 to {MAX_FLOW} messages per acknowledgement, not {number}")
    return number


def _optional_text(body: Mapping[str, Any], name: str) -> str | None:
    return text(body, name) if body.get(name) is not None else None


def _quoted(value: str) -> str:
    # Servers write acknowledgements with Go's formatter, the errors in them with Go's JSON encoder (``escaped``).
    return json.dumps(value, ensure_ascii=False)


def _error(error: APIError) -> str:
    pieces = [f'"code":{error.code:d}']
    if error.err_code:
        pieces.append(f'"err_code":{error.err_code:d}')
    if error.description:
        pieces.append(f'"description":{escaped(error.description)}')
    return "{" + ",".join(pieces) + "}"


def _object(pieces: list[str]) -> bytes:
    # Text that UTF-8 cannot encode can only be an echo of what a peer sent: it becomes question marks.
    return ("{" + ",".join(pieces) + "}").encode("utf-8", "replace")


lend(PubAck, to="jsproto.errors")
