"""Paging: one page of a Direct Get in batches (ADR-31), from the request to its end.

How it works. The server sends a page without flow control, so the request bounds it by messages and bytes. A page after
the first begins with its anchor: the last message received before it. The anchor has to come back with the same time,
which shows that the stream is still the same. A large last message is no anchor, since it would be sent twice.

Not here: which messages continue a page (``direct``), and when a page is asked for again (``retry``).
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.fields import check_count

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


class Page:
    """One page under way.

    Attributes:

    * ``asked``: messages that the page may have, without its anchor.
    * ``room``: bytes of payload that may still come. The last message may overrun it.
    * ``count``: messages received.
    * ``seq_before`` and ``before``: the last sequence received before the page, and the columns that end with it.
    * ``is_open``: the first message was checked, so the stream itself sends the page.
    * ``is_anchored``: it is to begin with its anchor.
    * ``lost_anchor``: the page begins with another message than its anchor.
    * ``is_of_another``: its anchor has another time, so it is of another stream, or of one that came back shorter.
    * ``end``: the header block of the end of a page that waits for the leader.
    """

    __slots__ = (
        "asked", "before", "count", "end", "is_anchored", "is_of_another", "is_open", "lost_anchor", "room",
        "seq_before",
    )  # fmt: skip

    def __init__(self, asked: int, room: int, seq_before: int, before: StoredColumns | None) -> None:
        """``asked``: messages. ``room``: bytes. The others are the attributes of their names."""
        self.asked = asked
        self.room = room
        self.count = 0
        self.seq_before = seq_before
        self.before = before
        self.is_open = False
        self.is_anchored = self.lost_anchor = self.is_of_another = False
        self.end: bytes | None = None

    @property
    def is_full(self) -> bool:
        """Whether all messages that were asked for have come."""
        return self.count == self.asked

    def set_anchor(self, max_bytes: int) -> None:
        """Begin with the last message received, unless it is large. ``max_bytes``: of a whole page."""
        if self.before is None:
            return
        size = len(self.before.raw_headers[-1]) + len(self.before.data[-1])
        if size <= max(max_bytes // ANCHOR_SHARE, ANCHOR_SIZE):
            self.is_anchored = True
            self.room += size

    def close(self, last_seq: int, tail: StoredColumns | None) -> None:
        """Nothing more is to come, and what came is in order: it ends with ``last_seq``, the end of ``tail``."""
        self.is_open = False
        self.seq_before, self.before = last_seq, tail
