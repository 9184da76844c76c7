"""The part of buckets of objects that never waits, for threads and for event loops.

Rules: those of ``_state.shared``. Files are read and written where the verb runs, a chunk at a time.

Not here: the verbs that wait (``_blocking.objects`` and ``_aio.objects``).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from errno import EISDIR
from typing import IO, Any, Final, Protocol, TypeAlias

from jsproto.client.objects.get import Get
from jsproto.client.objects.object_store import ObjectStore
from jsproto.errors import WrongTypeError
from jsproto.grammar.object_info import ObjectInfo
from jsproto.grammar.object_store_config import ObjectStoreConfig
from jsproto.ticket import Ticket
from jsproto_io._state.common import warn_unclosed
from jsproto_io._state.shared import ConnectionBase

AT_ONCE: Final = 1024 * 1024
"""Bytes of chunks taken at once. Their digest is computed meanwhile."""
STARTS: Final = 5  # how often a whole object is read that is replaced again and again

Progress: TypeAlias = Callable[[int], object]
"""Called with the number of bytes so far."""
Bytes: TypeAlias = bytes | bytearray | memoryview


class SupportsRead(Protocol):
    """What can be read: a file that was opened for bytes."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes. None are left where it is empty."""


class Cutter:
    """Cuts what a source gives into chunks of one size. The last one is what is left."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._pieces: list[Bytes] = []
        self._held = 0

    def cut(self, piece: Bytes) -> Iterator[bytes]:
        """The chunks that are full with ``piece``."""
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise WrongTypeError(f"an object is put from bytes, not from {type(piece).__name__}")
        if len(piece) == self._size and not self._held and isinstance(piece, bytes):
            yield piece
            return
        view, begin = memoryview(piece).cast("B"), 0
        while self._held + len(view) - begin >= self._size:
            end = begin + self._size - self._held
            yield b"".join([*self._pieces, view[begin:end]])
            self._pieces, self._held, begin = [], 0, end
        if begin < len(view):
            self._pieces.append(bytes(view[begin:]))
            self._held += len(view) - begin

    def rest(self) -> bytes:
        """The last chunk, which may be empty."""
        return b"".join(self._pieces)


def pieces_of(source: object, size: int) -> Iterable[Bytes]:
    """What a source of bytes gives, in pieces. ``size``: what to ask a file for.

    Raises:
        WrongTypeError: it is no such source.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return [source]
    if hasattr(source, "read"):
        read: Callable[[int], bytes] = source.read
        return iter(lambda: read(size), b"")
    if isinstance(source, Iterable) and not isinstance(source, str):
        return source
    raise WrongTypeError(
        f"an object is put from bytes, a file or an iterable of bytes, not from {source!r:.100} (put_file takes a path)"
    )


class MemorySink:
    """Keeps what is read."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def begin(self) -> None:
        """What was kept is of no use."""
        self.pieces.clear()

    def write(self, piece: bytes) -> None:
        """Keep this, too."""
        self.pieces.append(piece)


class FileSink:
    """Writes what is read to a file beside ``path``, which takes the place of ``path`` once it is whole."""

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        """``name``: a part of a file's name that nobody else uses."""
        self._path = os.fspath(path)
        self._beside = f"{self._path}.{name}.part"
        if os.path.isdir(self._path):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), self._path)
        try:
            self._file: IO[bytes] = open(self._beside, "xb")  # noqa: SIM115 (closed by ``keep`` or ``drop``)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None

    def begin(self) -> None:
        """What was written is of no use."""
        self._file.seek(0)
        self._file.truncate()

    def write(self, piece: bytes) -> None:
        """Write this, too."""
        self._file.write(piece)

    def keep(self) -> None:
        """It is whole."""
        self._file.close()
        os.replace(self._beside, self._path)

    def drop(self) -> None:
        """It is of no use. No effect after ``keep``."""
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._beside)


class ObjectStoreBase:
    """The state of a bucket of objects."""

    def __init__(self, core: ObjectStore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<ObjectStore {self.name}>"

    @property
    def name(self) -> str:
        """The name of the bucket."""
        return self._core.space.bucket

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return self._core.space.stream

    @property
    def config(self) -> ObjectStoreConfig:
        """What the bucket was like when it was bound. ``status()`` asks anew."""
        return self._core.config


class ObjectReaderBase:
    """The state of an object that is read."""

    _connection: ConnectionBase
    _closed = False
    _ends_later = False  # a finalizer has begun to end it, while it is dropped

    def __init__(self, core: Get) -> None:
        self._core = core
        self._taken: deque[bytes] = deque()
        self._most = max(AT_ONCE // core.info.max_chunk_size, 1)

    def __repr__(self) -> str:
        return f"<ObjectReader of {self.info.name!r}: {self.received} of {self.info.size} bytes>"

    def __del__(self) -> None:
        # A dropped reader would fill its buffer. See BatchReaderBase.
        if self._ends_later:
            return
        if not (self._core.finished or self._closed):
            warn_unclosed(f"reader of object {self.info.name!r}", self)
        self._connection._pending_closes.append(self._core.close)

    def _take_ready(self, now: float) -> Ticket[Any] | None:
        """Take what was received. Without anything, a ticket to wait for, and None at the end."""
        self._taken.extend(self._core.pop_many(self._most, now))
        return None if self._taken or self._core.finished else self._core.readable()

    @property
    def info(self) -> ObjectInfo:
        """The description of the object, where links lead to."""
        return self._core.info

    @property
    def received(self) -> int:
        """How many bytes were received so far."""
        return self._core.received
