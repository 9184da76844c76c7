"""What a read of pages has received: how far it is, and the page under way, from the request to its end.

How it works. The server sends a page without flow control, so the request bounds it by messages and bytes. A page after
the first begins with its anchor: the last message received before it. The anchor has to come back with the same time,
which shows that the stream is still the same. A large last message is no anchor, since it would be sent twice.

Rules:

* Sequences rise, and each message names the one before it. Messages that do so are taken many at once.
* Messages of a page that waits for the leader's word are *held*. They are released together, or dropped together.
* A page whose end is kept takes nothing more.

Not here: what becomes of a message that does not continue the page (``facts``), and when a page is asked for again
(``retry``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jsproto.client.read.read_buffer import NONE, ReadBuffer
from jsproto.errors import LocalProtocolError
from jsproto.grammar.columns import Fields, StoredColumns, next_columns
from jsproto.grammar.fields import check_count
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.stored import next_sequences, stored_at

PAGE_MESSAGES: Final = 32_768
PAGE_BYTES: Final = 8 * 1024 * 1024  # default of max_bytes: servers do not count about 230 bytes a message
ANCHOR_SHARE: Final = 32  # an anchor has at most this part of max_bytes,
ANCHOR_SIZE: Final = 8192  # or this many bytes, whichever is more


def check_bounds(batch: int | None, max_bytes: int | None, timeout: float) -> None:
    """Check how many messages a read wants, the bytes of a page, and its seconds: LocalProtocolError."""
    if batch is not None:
        check_count("batch", batch)
    if max_bytes is not None:
        check_count("max_bytes", max_bytes)
    if not timeout > 0:
        raise LocalProtocolError("timeout must be greater than 0")


class Feed:
    """The position of one read, and its page under way.

    Attributes, of the read:

    * ``seq`` and ``tail``: the last sequence received, and the columns that end with it. What comes has a higher one.
    * ``left``: how many messages are wanted still. None: all.
    * ``ready`` (what the reader may take) and ``into`` (where the page goes: the same, unless it is held).

    Of the page:

    * ``asked``: messages that it may have, without its anchor.
    * ``room``: bytes of payload that may still come. The last message may overrun it.
    * ``count``: messages received.
    * ``start``: ``seq`` and ``tail`` as they were before it.
    * ``is_open``: the first message was checked, so the stream itself sends the page.
    * ``is_anchored``: it is to begin with its anchor. ``lost_anchor``: it begins with another message.
    * ``end``: the header block of the end of a page that waits for the leader.
    """

    __slots__ = (
        "_first", "asked", "count", "end", "into", "is_anchored", "is_open", "left", "lost_anchor", "ready", "room",
        "seq", "start", "tail",
    )  # fmt: skip

    def __init__(self, seq: int, left: int | None, ready: ReadBuffer) -> None:
        """Begin after ``seq``."""
        self._first = self.seq = seq
        self.tail: StoredColumns | None = None
        self.left = left
        self.ready = self.into = ready
        self.asked = self.room = self.count = 0
        self.start: tuple[int, StoredColumns | None] = (seq, None)
        self.is_open = self.is_anchored = self.lost_anchor = False
        self.end: bytes | None = None

    @property
    def last_seq(self) -> int:
        """The sequence of the last message received. 0 before the first."""
        return self.seq if self.seq > self._first else 0

    @property
    def has_begun(self) -> bool:
        """Whether anything came before the page under way."""
        return self.start[0] != self._first

    @property
    def is_full(self) -> bool:
        """Whether all messages of the page that were asked for have come."""
        return self.count == self.asked

    @property
    def is_overfull(self) -> bool:
        """Whether another message is more than was asked for."""
        return self.is_full or self.room < 0

    @property
    def is_held(self) -> bool:
        """Whether what comes is not given out yet."""
        return self.into is not self.ready

    @property
    def has_hole(self) -> bool:
        """Whether sequences are missing in the page, or before it."""
        return self.count != self.seq - self.start[0]

    @property
    def has_room(self) -> bool:
        """Whether the reader has taken so much that another page may come."""
        return len(self.ready) <= self.count // 2

    def given_out(self, stream: str, identity: str | None = None) -> StreamPosition:
        """The position of the last message before the page, or of none yet."""
        seq, before = self.start
        if before is None:
            return StreamPosition(stream, 0, identity)
        return StreamPosition(stream, seq, identity, stored_at(before.raw_headers[-1]))

    # -- one page ------------------------------------------------------------------------------------------------------

    def begin(self, asked: int, room: int) -> None:
        """A page of ``asked`` messages and ``room`` bytes is asked for."""
        self.asked = asked
        self.room = room
        self.count = 0
        self.start = self.seq, self.tail
        self.is_open = self.is_anchored = self.lost_anchor = False
        self.end = None

    def restart(self) -> None:
        """The page shows all from the beginning."""
        self.seq, self.tail = 0, None
        self.start = 0, None

    def set_anchor(self, max_bytes: int) -> None:
        """Begin with the last message received, unless it is large. ``max_bytes``: of a whole page."""
        if self.tail is None:
            return
        size = len(self.tail.raw_headers[-1]) + len(self.tail.data[-1])
        if size <= max(max_bytes // ANCHOR_SHARE, ANCHOR_SIZE):
            self.is_anchored = True
            self.room += size

    def hold(self) -> None:
        """Messages from now on are not given out before ``release``."""
        self.into = ReadBuffer()

    def take(
        self, headers: list[bytes], payloads: list[bytes], fields: Fields | None, in_columns: bool
    ) -> StoredColumns | None:
        """Keep the messages that continue the page. None is kept if not all of them may come.

        ``fields``: the fields of the headers, if they are known. ``in_columns``: parse the fields of many at once.
        """
        if not self.is_open or self.end is not None:
            return None
        columns: StoredColumns | None = None
        if in_columns and len(headers) > 1:
            columns = next_columns(headers, payloads, self.seq, fields)
        sequences: Sequence[int] = next_sequences(headers, self.seq) if columns is None else columns.seqs
        count = len(sequences)
        if not count or self.count + count > self.asked:
            return None
        if count < len(headers):
            headers, payloads = headers[:count], payloads[:count]
        size = sum(map(len, payloads))
        if self.room < size - len(payloads[-1]):
            return None
        if columns is None:
            columns = StoredColumns(NONE, sequences, NONE, payloads, headers)
        self.keep(columns, size)
        return columns

    def keep(self, columns: StoredColumns, size: int) -> None:
        """These are the next messages of the page, with ``size`` bytes of payload."""
        self.room -= size
        self.count += len(columns.seqs)
        self.into.add(columns)
        self.seq = columns.seqs[-1]
        self.tail = columns

    def release(self) -> None:
        """What was held may be taken."""
        if self.into is not self.ready:
            self.ready.add_all(self.into)
            self.into = self.ready

    def drop(self) -> None:
        """What was held is dropped: it has not come."""
        if self.into is not self.ready:
            self.into = self.ready
            self.seq, self.tail = self.start

    def close(self) -> None:
        """Nothing more is to come of the page, and what came is in order."""
        self.is_open = False
        self.end = None
        self.start = self.seq, self.tail
