"""Direct Get in the server role (ADR-31): one copy of a stream answers requests for its messages.

It answers every form of the request:

* one message: by sequence, the last of a subject, the next from a sequence or a time on,
* a batch, bounded by messages and bytes,
* the last message of each of many subjects, up to a sequence or a time,
* the last message of a subject that follows the stream's name, without a body,
* payloads alone (``no_hdr``).

Rules, those of nats-server 2.15.1 (FACTS.md F3): an answer is one status, or messages in ascending sequence and, for a
batch, its end. The server's headers follow the stored ones.

Releases before 2.12 differ (FACTS.md F3.8, F3.11, F3.18, F3.19). The draft dialect writes times as ADR-31 does, and
includes the message at ``up_to_time``. It takes no body after a subject, and needs a subject and a start for a batch.

Not here: which copy is asked (``replicas``), ``STREAM.MSG.GET`` in JSON (``api.streams``), compressed requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from jsproto._event import event
from jsproto.errors import APIError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_UINT64, loads, shown
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto.outbox import Conversation, Outbox
from jsproto.server.publish.checks import check_level
from jsproto.server.publish.replies import PublishReplies
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto.wire.frames import Msg

MAX_SUBJECTS: Final = 1_024
"""How many subjects one request may match (nats-server's ``maxAllowedResponses``)."""

MAX_PENDING: Final = 64 * 1024 * 1024
"""Bytes of a batch whose request has no ``max_bytes``: nats-server's ``max_pending``."""

_VERB: Final = b".DIRECT.GET."
_MAX_INT: Final = 2**63 - 1
_RFC_3339: Final = re.compile(r"[0-9-]+T[^ ]+(?:Z|[+-][0-9]{2}:[0-9]{2})")
_BATCHED: Final = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n"
_EMPTY: Final = 408, b"Empty Request"
_MALFORMED: Final = 408, b"Malformed Request"
_BAD: Final = 408, b"Bad Request"

Status: TypeAlias = tuple[int, bytes]


@event
class GetRequest:
    """A request for messages, with ADR-31's fields.

    Times are nanoseconds since 1970. An absent field is 0, None, empty or False.
    """

    seq: int
    last_by_subj: bytes
    next_by_subj: bytes
    batch: int
    max_bytes: int
    start_time: int | None
    multi_last: list[bytes]
    up_to_seq: int
    up_to_time: int | None
    no_hdr: bool

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> GetRequest:
        """Read a request. The case of names does not matter, and unknown fields are ignored.

        Raises:
            RemoteProtocolError: a field has a wrong type, or a number out of its range.
        """
        fields = {name.lower(): value for name, value in body.items()}
        return cls(**{name: read(name, fields.get(name)) for name, read in _FIELDS.items()})

    @property
    def selects(self) -> bool:
        """Whether the request selects messages."""
        subjects = self.last_by_subj or self.next_by_subj or self.multi_last
        return bool(self.seq or subjects) or self.start_time is not None

    @property
    def conflicts(self) -> bool:
        """Whether it selects them in two ways that exclude each other."""
        last, timed = bool(self.last_by_subj), self.start_time is not None
        return (
            (last and (self.seq > 0 or timed or bool(self.next_by_subj or self.multi_last) or self.batch > 0))
            or (self.seq > 0 and timed)
            or bool(self.next_by_subj and self.multi_last)
            or (self.up_to_seq > 0 and self.up_to_time is not None)
        )


def find(stream: Stream, request: GetRequest) -> Stored | None:
    """The message that a request without ``batch`` and ``multi_last`` asks for. None: there is none."""
    if request.last_by_subj:
        return find_last(stream, request.last_by_subj)
    first = first_sequence(stream, request)
    if request.next_by_subj:
        return next(stream.matching(request.next_by_subj, first), None)
    return stream.get(first)


def find_last(stream: Stream, subject: bytes) -> Stored | None:
    """The last message on a subject, which may have wildcards. None: there is none.

    For ``>`` it is the message with the stream's last sequence, or None if that was deleted.
    """
    return stream.get(stream.last_seq if subject == b">" else stream.last_matching(subject))


def first_sequence(stream: Stream, request: GetRequest) -> int:
    """The stream sequence where a request begins."""
    return request.seq if request.start_time is None else stream.sequence_at(request.start_time)


class DirectGet(Conversation):
    """The answers of one copy of a stream."""

    __slots__ = ("_answers", "_context", "_refresh", "_stream")

    def __init__(
        self, stream: Stream, context: ServerContext, outbox: Outbox, refresh: Callable[[float], None]
    ) -> None:
        """``refresh`` is called with the time before each read, so that a copy that lags can catch up."""
        self._stream = stream
        self._context = context
        self._answers = PublishReplies(stream, context, outbox)
        self._refresh = refresh

    def receive(self, message: Msg, now: float) -> None:
        """Answer a request. One without a reply subject is ignored. ``now``: seconds."""
        if not message.reply:
            return
        self._refresh(now)
        self._stream.expire(now)
        subject = message.subject.partition(_VERB)[2].partition(b".")[2]
        status = self._level(message) or (
            self._get_last(subject, message) if subject else self._get(message.reply, message.payload)
        )
        if status is not None:
            self._answers.send(message.reply, b"", headers=b"NATS/1.0 %d %b\r\n\r\n" % status)

    # -- requests: each method returns the status to answer with, or None when it has answered -------------------------

    def _level(self, message: Msg) -> Status | None:
        try:
            if not self._context.is_before_2_12:
                check_level(Publication(message.subject, message.header, b""), self._context.api_level)
        except APIError:
            return 412, b"Required Api Level"
        return None

    def _get(self, reply: bytes, payload: bytes) -> Status | None:
        if not payload:
            return _EMPTY
        try:
            request = GetRequest.from_json(_body(payload))
        except RemoteProtocolError:
            return _MALFORMED
        if not request.selects:
            return _EMPTY
        if request.conflicts:
            return _BAD
        if request.multi_last:
            return self._send_last_of_each(reply, request)
        if not request.batch:
            return self._send_one(reply, find(self._stream, request), request)
        whole = request.next_by_subj and (request.seq or request.start_time is not None)
        if self._context.dialect == "draft" and not whole:
            return _BAD
        return self._send_batch(reply, request)

    def _get_last(self, subject: bytes, message: Msg) -> Status | None:
        """The form with the subject after the stream's name."""
        if message.payload and (self._context.dialect == "draft" or self._context.is_before_2_12):
            return _BAD
        try:
            request = GetRequest.from_json(_body(message.payload) if message.payload else {})
        except RemoteProtocolError:
            return _MALFORMED
        if request.selects or request.batch or request.up_to_seq or request.up_to_time is not None:
            return _BAD
        return self._send_one(message.reply, find_last(self._stream, subject), request)

    # -- how it is answered --------------------------------------------------------------------------------------------

    def _send_one(self, reply: bytes | None, stored: Stored | None, request: GetRequest) -> Status | None:
        if stored is None:
            return 404, b"Message Not Found"
        self._send(reply, stored, b"", bare=request.no_hdr)
        return None

    def _send_batch(self, reply: bytes, request: GetRequest) -> Status | None:
        first = first_sequence(self._stream, request)
        found = list(self._stream.matching(request.next_by_subj or b">", first))
        if not found and request.batch > 0:
            return 404, b"Message Not Found"
        page = self._page(found[: max(0, request.batch)], request)
        old = self._context.is_before_2_12
        bare = request.no_hdr and not old
        left, last = len(found), 0
        for stored in page:
            left -= not bare  # servers count them as they write the headers
            self._send(reply, stored, _BATCHED % (left + old, last), bare=bare)
            last = stored.seq
        self._end(reply, left, last)
        return None

    def _send_last_of_each(self, reply: bytes, request: GetRequest) -> Status | None:
        up_to = request.up_to_seq
        if request.up_to_time is not None:
            inclusive = self._context.dialect == "draft"
            up_to = self._stream.sequence_at(request.up_to_time + inclusive) - 1
        elif not up_to:
            up_to = self._stream.last_seq
        elif up_to > self._stream.last_seq and self._stream.config.storage == "file":
            return 404, b"No Results"  # where a stream in memory answers with what it has
        seqs = self._stream.last_of_each(request.multi_last, up_to)
        if len(seqs) > MAX_SUBJECTS:
            return 413, b"Too Many Results"
        if not seqs:
            return 404, b"No Results"
        found = [stored for seq in seqs if seq >= request.seq and (stored := self._stream.get(seq)) is not None]
        page = self._page(found[: request.batch] if request.batch > 0 else found, request)
        left, last = len(found), 0
        for stored in page:
            left -= 1
            self._send(reply, stored, _BATCHED % (left, last))
            last = stored.seq
        left = max(0, left - self._context.is_before_2_12)
        self._end(reply, left, last, b"Nats-UpTo-Sequence: %d\r\n" % up_to)
        return None

    def _page(self, found: Iterable[Stored], request: GetRequest) -> list[Stored]:
        """As many messages as the requested bytes allow. The one that fills them is the last."""
        page: list[Stored] = []
        room = request.max_bytes or MAX_PENDING
        for stored in found:
            page.append(stored)
            room -= len(stored.subject) + len(stored.header or b"") + len(stored.payload)
            if room <= 0:
                break
        return page

    def _send(self, reply: bytes | None, stored: Stored, more: bytes, *, bare: bool = False) -> None:
        if bare and not self._context.is_before_2_12:
            self._answers.send(reply, stored.payload)
            return
        stamp = format_timestamp(stored.timestamp)
        if self._context.dialect == "draft":
            stamp = stamp.replace("T", " ").replace("Z", " +0000 UTC")
        headers = b"%bNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n%b\r\n" % (
            (stored.header or b"NATS/1.0\r\n\r\n")[:-2], self._stream.config.name.encode(), stored.subject, stored.seq,
            stamp.encode(), more,
        )  # fmt: skip
        self._answers.send(reply, stored.payload, headers=headers)

    def _end(self, reply: bytes, left: int, last: int, more: bytes = b"") -> None:
        self._answers.send(reply, b"", headers=b"NATS/1.0 204 EOB\r\n%b%b\r\n" % (_BATCHED % (left, last), more))


# -- the fields, as Go's decoder reads them: null is absent ------------------------------------------------------------


def _body(payload: bytes) -> dict[str, Any]:
    return {} if payload.strip() == b"null" else loads(payload)


def _integer(least: int, most: int) -> Callable[[str, object], int]:
    def read(name: str, value: object) -> int:
        if value is None:
            return 0
        if type(value) is not int or not least <= value <= most:
            raise RemoteProtocolError(f"{name} must be an integer of {least} to {most}, not {shown(value)}")
        return value

    return read


def _subject(name: str, value: object) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise RemoteProtocolError(f"{name} must be a string, not {shown(value)}")
    return value.encode()


def _subjects(name: str, value: object) -> list[bytes]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RemoteProtocolError(f"{name} must be a list, not {shown(value)}")
    return [_subject(name, each) for each in value]


def _time(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or _RFC_3339.fullmatch(value) is None:
        raise RemoteProtocolError(f"{name} must be a time stamp of RFC 3339, not {shown(value)}")
    try:
        return parse_timestamp(value)
    except ValueError as error:
        raise RemoteProtocolError(f"{name}: {error}") from None


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool | None):
        raise RemoteProtocolError(f"{name} must be true or false, not {shown(value)}")
    return bool(value)


_FIELDS: Final[dict[str, Callable[[str, object], Any]]] = {
    "seq": _integer(0, MAX_UINT64),
    "last_by_subj": _subject,
    "next_by_subj": _subject,
    "batch": _integer(-_MAX_INT - 1, _MAX_INT),
    "max_bytes": _integer(-_MAX_INT - 1, _MAX_INT),
    "start_time": _time,
    "multi_last": _subjects,
    "up_to_seq": _integer(0, MAX_UINT64),
    "up_to_time": _time,
    "no_hdr": _flag,
}
FIELDS: Final = frozenset(_FIELDS)
"""The names that a request may have."""
