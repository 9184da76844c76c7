"""What a client has written to and read of each stream, as a value that travels: the token of a session.

Rules: a token never changes. What adds to it gives a new one. Numbers only rise, so merging tokens is safe in any order
and any number of times. As bytes it is one JSON object, ``{"v":1,"streams":{"ORDERS":[12,15]}}``: for each stream the
highest sequence written and the highest read. Reading takes any bytes and raises BadTokenError for all that are none.

Not here: what a token is good for (``client.read.consistent_session``). It holds no secret and no
proof: whoever can change it can make reads wait, or give up the guarantees of who uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from jsproto.errors import BadTokenError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_UINT64, dumps, loads, uint64
from jsproto.grammar.subjects import check_name

VERSION: Final = 1
MAX_TOKEN: Final = 1024 * 1024
"""Bytes of a token that are read: some ten thousand streams."""


class Position(NamedTuple):
    """How far a client has got with one stream."""

    written: int = 0
    read: int = 0

    @property
    def floor(self) -> int:
        """The sequence that an answer must reach."""
        return max(self)


_NOWHERE: Final = Position()


class SessionToken:
    """The highest sequences written and read, by stream. They are equal when they say the same, and usable as keys."""

    __slots__ = ("_streams",)

    def __init__(self, streams: Mapping[str, tuple[int, int]] | None = None) -> None:
        """``streams``: pairs of the highest sequence written and read. LocalProtocolError when they cannot be."""
        self._streams: dict[str, Position] = {}
        for name, (written, read) in (streams or {}).items():
            check_name(name)
            if not (_is_sequence(written) and _is_sequence(read)):
                raise LocalProtocolError(f"stream {name}: {written!r:.50} and {read!r:.50} are no sequences")
            if written or read:
                self._streams[name] = Position(written, read)

    def __repr__(self) -> str:
        return f"<SessionToken {' '.join(f'{name}:{p.written}/{p.read}' for name, p in self.items())}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionToken) and self._streams == other._streams

    def __hash__(self) -> int:
        return hash(frozenset(self._streams.items()))

    def __getitem__(self, stream: str) -> Position:
        """How far it is with ``stream``. Zeros when it knows nothing of it."""
        return self._streams.get(stream, _NOWHERE)

    def items(self) -> Iterable[tuple[str, Position]]:
        """The streams it knows of, by name."""
        return sorted(self._streams.items())

    def after_write(self, stream: str, seq: int) -> Self:
        """This token once ``seq`` of ``stream`` is acknowledged."""
        return self._raised({stream: Position(written=seq)})

    def after_read(self, stream: str, seq: int) -> Self:
        """This token once ``seq`` of ``stream`` was read."""
        return self._raised({stream: Position(read=seq)})

    def merge(self, other: SessionToken) -> Self:
        """What both know."""
        return self._raised(other._streams)

    def without(self, stream: str) -> Self:
        """This token as if nothing were known of ``stream``: it was deleted and made anew, say."""
        return self._of({name: position for name, position in self._streams.items() if name != stream})

    def to_bytes(self) -> bytes:
        """As JSON, ASCII, the same for equal tokens."""
        return dumps({"v": VERSION, "streams": dict(self.items())})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The token that ``to_bytes`` wrote. BadTokenError when it did not."""
        try:
            body = loads(data, MAX_TOKEN)
            version = uint64(body, "v")
        except RemoteProtocolError as error:
            raise BadTokenError(str(error)) from None
        if version != VERSION:
            raise BadTokenError(f"version {version} is not known")
        streams = body.get("streams")
        pairs = list(streams.values()) if isinstance(streams, dict) else [None]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise BadTokenError("streams must be an object of pairs")
        try:
            return cls(streams)
        except LocalProtocolError as error:
            raise BadTokenError(str(error)) from None

    def _raised(self, streams: Mapping[str, Position]) -> Self:
        raised = dict(self._streams)
        for name, new in streams.items():
            old = self[name]
            raised[name] = Position(max(old.written, new.written), max(old.read, new.read))
        return self if raised == self._streams else self._of(raised)

    @classmethod
    def _of(cls, streams: dict[str, Position]) -> Self:
        token = cls()
        token._streams = streams
        return token


def _is_sequence(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_UINT64
