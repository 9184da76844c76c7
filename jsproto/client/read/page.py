"""Paging: one page of a Direct Get in batches (ADR-31), from the request to its end.

How it works. The server sends a page without flow control, so the request bounds it by messages and bytes. A page after
the first begins with its anchor: the last message received before it. The anchor has to come back unchanged, which
shows that the stream is still the same. A large last message is no anchor, since it would be sent twice.

Not here: which messages continue a page (``direct``), and when a page is asked for again (``retry``).
"""

from __future__ import annotations

from typing import Final

from jsproto.grammar.columns import StoredColumns
from jsproto.grammar.stored import END

PAGE_MESSAGES: Final = 32_768
PAGE_BYTES: Final = 8 * 1024 * 1024  # default of max_bytes: servers do not count about 230 bytes a message
ANCHOR_SHARE: Final = 32  # an anchor has at most this part of max_bytes,
ANCHOR_SIZE: Final = 8192  # or this many bytes, whichever is more
_PENDING: Final = b"\r\nNats-Num-Pending: "


class Page:
    """One page under way.

    Attributes:

    * ``asked``: messages that the page may have, without its anchor.
    * ``room``: bytes of payload that may still come. The last message may overrun it.
    * ``count``: messages received.
    * ``seq_before`` and ``before``: the last sequence received before the page, and the columns that end with it.
    * ``is_open``: the first message was checked, so the stream itself sends the page.
    * ``anchor``: how the header block of the anchor begins, empty without one.
    * ``lost_anchor``: the page begins with another message than its anchor.
    * ``end``: the header block of the end of a page that waits for the leader.
    """

    __slots__ = ("anchor", "asked", "before", "count", "end", "is_open", "lost_anchor", "room", "seq_before")

    def __init__(self, asked: int, room: int, seq_before: int, before: StoredColumns | None) -> None:
        """``asked``: messages. ``room``: bytes. The others are the attributes of their names."""
        self.asked = asked
        self.room = room
        self.count = 0
        self.seq_before = seq_before
        self.before = before
        self.is_open = False
        self.anchor = b""
        self.lost_anchor = False
        self.end: bytes | None = None

    @property
    def is_full(self) -> bool:
        """Whether all messages that were asked for have come."""
        return self.count == self.asked

    def set_anchor(self, max_bytes: int) -> None:
        """Begin with the last message received, unless it is large. ``max_bytes``: of a whole page."""
        if self.before is None:
            return
        header = self.before.raw_headers[-1]
        size = len(header) + len(self.before.data[-1])
        if size <= max(max_bytes // ANCHOR_SHARE, ANCHOR_SIZE):
            paged = header.rfind(_PENDING)
            self.anchor = header[:paged] if paged >= 0 else header.removesuffix(END)
            self.room += size

    def close(self, last_seq: int, tail: StoredColumns | None) -> None:
        """Nothing more is to come, and what came is in order: it ends with ``last_seq``, the end of ``tail``."""
        self.is_open = False
        self.seq_before, self.before = last_seq, tail
