"""What a consumer delivered, until the application takes it.

Rules: bytes are those of payloads and header blocks. Whoever adds sees to it that there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Annotated, Final, TypedDict

from jsproto.grammar.options import Option, of_count
from jsproto.wire.frames import RawMsg

DEFAULT_PENDING_MSGS: Final = 512 * 1024
DEFAULT_PENDING_BYTES: Final = 128 * 1024 * 1024


class BufferOptions(TypedDict, total=False):
    """How much of what was received may wait to be taken. Bytes are those of payloads and header blocks.

    Attributes:
        pending_msgs_limit: messages that may wait to be taken.
        pending_bytes_limit: bytes that may wait to be taken.
    """

    pending_msgs_limit: Annotated[int, Option(DEFAULT_PENDING_MSGS, of_count)]
    pending_bytes_limit: Annotated[int, Option(DEFAULT_PENDING_BYTES, of_count)]


class MessageBuffer:
    """Messages in order. Attributes: ``raws`` (to look at), ``size`` (their bytes)."""

    __slots__ = ("_max_bytes", "_max_msgs", "raws", "size")

    def __init__(self, max_msgs: int, max_bytes: int) -> None:
        """The limits are 1 or more, in messages and bytes."""
        self._max_msgs = max_msgs
        self._max_bytes = max_bytes
        self.raws: deque[RawMsg] = deque()
        self.size = 0

    def __len__(self) -> int:
        return len(self.raws)

    def has_room(self, count: int, size: int) -> bool:
        """Whether ``count`` more messages of together ``size`` bytes may stay. One message always fits."""
        raws = self.raws
        if len(raws) + count <= self._max_msgs and self.size + size <= self._max_bytes:
            return True
        return count == 1 and not raws

    def half_full(self, awaited: int) -> bool:
        """Whether more than half of it is used, or a message of ``awaited`` bytes would overflow it."""
        if self.raws and self.size + awaited > self._max_bytes:
            return True
        return 2 * len(self.raws) > self._max_msgs or 2 * self.size > self._max_bytes

    def add(self, raws: Collection[RawMsg], size: int) -> None:
        """These are the last ones. ``size`` is the bytes of them all."""
        self.raws.extend(raws)
        self.size += size

    def put_back(self, raws: Sequence[RawMsg]) -> None:
        """These are the first ones."""
        self.raws.extendleft(reversed(raws))
        self.size += size_of(raws)

    def take(self, most: int) -> list[RawMsg]:
        """Up to ``most`` of them, the first ones."""
        raws = self.raws
        if most == 1 and raws:  # what callbacks take, for each message
            raw = raws.popleft()
            self.size -= len(raw[3]) if raw[2] is None else len(raw[3]) + len(raw[2])
            return [raw]
        if len(raws) <= most:
            taken = list(raws)
            self.clear()
        else:
            taken = [raws.popleft() for _ in range(most)]
            self.size -= size_of(taken)
        return taken

    def clear(self) -> None:
        """Drop them all."""
        self.raws.clear()
        self.size = 0


def size_of(raws: Collection[RawMsg]) -> int:
    """Bytes of the payloads and header blocks."""
    return sum([len(raw[3]) for raw in raws]) + sum([len(raw[2]) for raw in raws if raw[2] is not None])
