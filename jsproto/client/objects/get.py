"""Getting an object: its chunks in order, checked against its description. And a part of one.

How it goes: the description is read, links are followed, and the chunks are read by Direct Get in batches.

Rules:

* A whole object is checked by the number of its chunks, its size and its digest. The last chunk is given out before the
  digest is known to be right. So only the end says that it was the object.
* A part has no digest. It begins at the chunk that has its first byte, found by the numbers of chunks behind it.
* That needs chunks of equal size, which the size of the last one proves. Otherwise all is read from the beginning.
* Message ids of chunks, where a put has written them, tell which one is missing or doubled.
* Where anything is wrong, the leader is asked: an object that was replaced meanwhile is no damaged one.

Not here: starting anew after a replacement (the drivers, where nothing was given out).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from jsproto.client.objects.describing import Place, Script, count_chunks, of_store, present
from jsproto.errors import (
    DigestMismatchError,
    Error,
    MessageNotFoundError,
    ObjectChangedError,
    ObjectDamagedError,
)
from jsproto.grammar.object_info import ObjectInfo
from jsproto.ticket import Live, Ticket

if TYPE_CHECKING:
    from jsproto.client.read.direct import DirectBatch
    from jsproto.grammar.stored import StoredMsg

PAGE: Final = 8 * 1024 * 1024
"""Bytes of a page. About two are buffered."""
SMALL_PAGE: Final = 3 * 1024 * 1024
"""The same for large chunks: fresh memory for more of them costs more than pages do."""
_LARGE: Final = 200 * 1024  # bytes
PROBES: Final = 8  # chunks that are looked at to find the one where a part begins
_COUNTS_RIGHT_SINCE: Final = "2.12"  # servers before count one message too many behind a message of a batch
_MSG_ID: Final = re.compile(rb"\r\nNats-Msg-Id: *([^\r\n.]+)\.([0-9]{1,18})\r\n")


class Span(NamedTuple):
    """Bytes of an object: from the first to the one before ``end``."""

    start: int
    end: int


class Get(Live):
    """The content of an object, as it comes. Made by ``ObjectStore.open``.

    Attributes:
     * ``info``: the description of the object, where links lead to.
     * ``received``: bytes that were taken so far.
     * ``finished``: all was taken, and was right.
    """

    __slots__ = (
        "_at", "_batch", "_digest", "_ended", "_index", "_nuid", "_place", "_position", "_span", "_subject", "finished",
        "info", "received",
    )  # fmt: skip

    def __init__(self, place: Place, info: ObjectInfo, span: Span, batch: DirectBatch | None, at: int) -> None:
        """``batch``: reads the chunks from number ``at`` on. None: there is nothing to read."""
        self.info = info
        self.received = 0
        self.finished = False
        self._place = place
        self._span = span
        self._batch = batch
        self._at = at
        self._nuid = info.nuid.encode()
        self._subject = b"\r\nNats-Subject: %b\r\n" % place.space.chunks(info.nuid).encode()
        self._index = at  # of the next chunk
        self._position = at * info.max_chunk_size  # of its first byte
        self._digest = sha256() if span == (0, info.size) and info.sha256() is not None else None
        self._ended: Ticket[None] | None = None  # while the leader is asked what has happened
        if batch is None:
            self._check_end(place.now)

    def pop_many(self, most: int, now: float) -> list[bytes]:
        """Take what up to ``most`` chunks have of it, in order. Empty: wait for ``readable``, unless ``finished``."""
        batch = self._batch
        if batch is None or self._ended is not None:
            return []
        taken: list[bytes] = []
        messages = batch.pop_many(most, now)
        for message in messages:
            wrong = self._look_at(message)
            if wrong:
                self._fail(self._damaged(wrong), now)
                break
            piece = self._piece(message.data)
            if piece:
                taken.append(piece)
            if self._position >= self._span.end and self._is_part:
                self._close(now)
                self.finished = True
                break
        self.received += sum(map(len, taken))
        if not messages and batch.finished:
            self._check_end(now)
        return taken

    def readable(self) -> Ticket[None]:
        """Completed when something can be taken, or it has finished. It fails with why the reading broke off.

        The ticket fails with:
            ObjectChangedError: the object was replaced or deleted meanwhile.
            ObjectDamagedError, DigestMismatchError: what is stored is not what was put.
            Error: as ``DirectBatch`` fails.
        """
        if self._ended is not None:
            return self._ended
        if self._batch is not None and not self.finished:
            return self._batch.readable()
        ticket: Ticket[None] = Ticket()
        ticket.succeed(None)
        return ticket

    def close(self, now: float) -> None:
        """Read no more."""
        self._close(now)

    def abandon(self, now: float) -> None:
        """As in ``Live``."""
        self._close(now)

    # -- checks --------------------------------------------------------------------------------------------------------

    @property
    def _is_part(self) -> bool:
        return self._span != (0, self.info.size)

    def _look_at(self, message: StoredMsg) -> str:
        """What is wrong with the next chunk. Empty: nothing."""
        info, index = self.info, self._index
        found = _MSG_ID.search(message.raw_headers)
        if found is not None and found[1] == self._nuid:
            number = int(found[2])
            if number > index:
                several = f"chunks {index} to {number - 1} are" if number - 1 > index else f"chunk {index} is"
                return f"{several} missing"
            if number < index:
                return f"chunk {number} is there twice, or too late"
        if self._subject not in message.raw_headers:  # parsed nowhere else: subjects of many would be parsed ahead
            return f"chunk {index} is of {message.subject!r:.100}"
        length = len(message.data)
        if index >= info.chunks or self._position + length > info.size:
            return f"it has more than {info.chunks} chunks, or {info.size} bytes"
        if self._at and length != min(info.max_chunk_size, info.size - self._position):
            return f"chunk {index} has {length} bytes"
        self._index += 1
        return ""

    def _piece(self, data: bytes) -> bytes:
        """What a chunk has of the bytes that are wanted."""
        if self._digest is not None:
            self._digest.update(data)
        begin = self._position
        self._position += len(data)
        if self._span.start <= begin and self._position <= self._span.end:
            return data
        return data[max(self._span.start - begin, 0) : max(self._span.end - begin, 0)]

    def _check_end(self, now: float) -> None:
        """There are no more chunks."""
        info, digest = self.info, self._digest
        missing = info.chunks - self._index
        if self._batch is None and (self._is_part or not info.size):
            self.finished = True
        elif missing:
            self._fail(self._damaged(f"{missing} of {info.chunks} chunks are missing"), now)
        elif self._position != info.size:
            self._fail(self._damaged(f"its chunks have {self._position} bytes, and it has {info.size}"), now)
        elif digest is not None and digest.digest() != info.sha256():
            wanted = info.sha256() or b""
            self._fail(DigestMismatchError(info.bucket, info.name, wanted, digest.digest()), now)
        else:
            self.finished = True

    def _damaged(self, text: str) -> ObjectDamagedError:
        return ObjectDamagedError(self.info.bucket, self.info.name, text)

    def _fail(self, error: Error, now: float) -> None:
        """It ends, with ``error`` or because the object was changed."""
        self._close(now)
        session = self._place.js.session
        session.note(now)
        self._ended = session.run(self._explain(error))

    def _explain(self, error: Error) -> Script[None]:
        raise (yield from changed(self._place, self.info, error))

    def _close(self, now: float) -> None:
        if self._batch is not None:
            self._batch.close(now)


def changed(place: Place, info: ObjectInfo, error: Error) -> Script[Error]:
    """Why reading ``info`` has failed: ``error``, or because the object was changed meanwhile."""
    try:
        found = yield from present(place, info.name, place.now)
    except Error:
        return error
    now = None if found is None else found.info
    nuid = "" if now is None or now.deleted else now.nuid
    if nuid == info.nuid:
        return error
    return ObjectChangedError(info.bucket, info.name, info.nuid, nuid, 0 if now is None else now.revision)


def open_get(place: Place, info: ObjectInfo, start: int, end: int | None) -> Script[Get]:
    """The content of the object that ``info`` describes, which is no link.

    Raises:
        ObjectChangedError, ObjectDamagedError: a part was asked for, and the chunks are not there.
    """
    js, space, timeout = place
    stop = info.size if end is None else min(end, info.size)
    span = Span(min(start, stop), stop)
    if span.start == span.end:
        return Get(place, info, span, None, 0)
    seq, at = None, 0
    index = span.start // info.max_chunk_size
    if index:
        seq, at = yield from _find(place, info, index)
    page = PAGE if info.max_chunk_size < _LARGE else SMALL_PAGE
    has_digest = span == (0, info.size) and info.sha256() is not None
    batch = js.get_batch(
        space.stream, subject=space.chunks(info.nuid), seq=seq, max_bytes=page, proves_itself=has_digest,
        now=place.now, timeout=timeout,
    )  # fmt: skip
    return Get(place, info, span, batch, at)


def _find(place: Place, info: ObjectInfo, index: int) -> Script[tuple[int | None, int]]:
    """A sequence and the number of a chunk that is there, or the first one after it. It is at or before ``index``."""
    js, space, timeout = place
    server, size, chunks = js.session.server, info.max_chunk_size, info.chunks
    stored = yield from count_chunks(place, info.nuid)
    if stored != chunks:
        damaged = ObjectDamagedError(info.bucket, info.name, f"{chunks} chunks were put, and {stored} are stored")
        raise (yield from changed(place, info, damaged))
    subject = space.chunks(info.nuid)
    asked = js.get_msg(space.stream, subject=subject, now=place.now, timeout=timeout)
    try:
        last: StoredMsg = yield from of_store(space.bucket, asked)
    except MessageNotFoundError as error:
        gone = ObjectDamagedError(info.bucket, info.name, "its last chunk is missing")
        raise (yield from changed(place, info, gone)) from error
    if len(last.data) != info.size - (chunks - 1) * size or (
        server is not None and server.is_before(_COUNTS_RIGHT_SINCE)
    ):
        return None, 0
    if index == chunks - 1:
        return last.seq, index
    low, high = (1, 0), (last.seq, chunks - 1)  # a sequence, and the number of the first chunk there
    guess = last.seq - (high[1] - index)
    for probe in range(PROBES):
        batch = js.get_batch(space.stream, seq=max(guess, 1), subject=subject, batch=1, now=place.now, timeout=timeout)
        message = yield from _first(place, batch)
        if message is None:
            break
        number = chunks - 1 - (message.num_pending or 0)
        if number == index:
            return message.seq, index
        if number < index:
            low = (message.seq, number)
        else:
            high = (guess, number)
        between = high[0] - low[0]
        ahead = between // 2 if probe % 2 else between * (index - low[1]) // (high[1] - low[1])
        guess = low[0] + max(ahead, 1)
    return low


def _first(place: Place, batch: DirectBatch) -> Script[StoredMsg | None]:
    """The one message of a read. None: there is none."""
    try:
        while not (found := batch.pop_many(1, place.now)) and not batch.finished:
            yield batch.readable()
    finally:
        batch.close(place.now)
    return found[0] if found else None
