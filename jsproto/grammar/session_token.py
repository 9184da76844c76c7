"""What a client has written to and read of each stream, as a value that travels: the token of a session.

Rules: a token never changes. What adds to it gives a new one. Numbers only rise, so merging tokens is safe in any order
and any number of times. As bytes it is one JSON object, ``{"v":1,"streams":{"ORDERS":[12,15]}}``: for each stream the
highest sequence written and the highest read. Reading takes any bytes and raises BadTokenError for all but tokens.

* A token has a witness of what was read: of each stream the latest message whose time is known (``StreamPosition``).
  It travels as a line beside the sequences, ``"seen":["ORDERS 15 - 1795000000000000000"]``.
* Releases before witnesses pass ``seen`` over, and their tokens are read as they are.
* A write gets its witness when it is read: its acknowledgement lacks the time at which the message was stored.
* Of two witnesses at one sequence the earlier one counts: the later one shows that the stream came back shorter.

Not here: what a token is good for (``client.read.consistent_session``), what a witness proves (``rules.position``). It
holds no secret: whoever can change it can make reads wait or fail, or give up the guarantees of who uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from jsproto.errors import BadTokenError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import MAX_UINT64, dumps, loads, uint64
from jsproto.grammar.position import StreamPosition, parse_position
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

    __slots__ = ("_seen", "_streams")

    def __init__(
        self, streams: Mapping[str, tuple[int, int]] | None = None, seen: Iterable[StreamPosition] = ()
    ) -> None:
        """``streams``: pairs of the highest sequence written and read. ``seen``: messages that were read, with witness.

        Raises:
            LocalProtocolError: a sequence cannot be, or a witness is missing, or is of a message that was not read.
        """
        self._streams: dict[str, Position] = {}
        for name, (written, read) in (streams or {}).items():
            check_name(name)
            if not (_is_sequence(written) and _is_sequence(read)):
                raise LocalProtocolError(f"stream {name}: {written!r:.50} and {read!r:.50} are no sequences")
            if written or read:
                self._streams[name] = Position(written, read)
        self._seen: dict[str, StreamPosition] = {}
        for position in seen:
            if not (_is_sequence(position.witness) and 0 < position.seq <= self[position.stream].read):
                raise LocalProtocolError(
                    f"stream {position.stream}: this is no message that was read: {position!r:.200}"
                )
            self._seen[position.stream] = _surer(position, self._seen.get(position.stream))

    def __repr__(self) -> str:
        return f"<SessionToken {' '.join(f'{name}:{p.written}/{p.read}' for name, p in self.items())}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionToken) and (self._streams, self._seen) == (other._streams, other._seen)

    def __hash__(self) -> int:
        return hash(frozenset(self._streams.items()))

    def __getitem__(self, stream: str) -> Position:
        """How far it is with ``stream``. Zeros for an unknown stream."""
        return self._streams.get(stream, _NOWHERE)

    def items(self) -> Iterable[tuple[str, Position]]:
        """The streams it knows of, by name."""
        return sorted(self._streams.items())

    def seen(self, stream: str) -> StreamPosition | None:
        """The latest message read of ``stream`` whose time is known. None: such a message is unknown."""
        return self._seen.get(stream)

    def after_write(self, stream: str, seq: int) -> Self:
        """This token once ``seq`` of ``stream`` is acknowledged."""
        return self._raised({stream: Position(written=seq)}, {})

    def after_read(self, stream: str, seq: int, time: int | None = None, identity: str | None = None) -> Self:
        """This token once ``seq`` of ``stream`` was read.

        ``time``: when it was stored, in nanoseconds since the epoch. ``identity``: of the stream. None: unknown.
        """
        seen = {} if time is None else {stream: StreamPosition(stream, seq, identity, time)}
        return self._raised({stream: Position(read=seq)}, seen)

    def merge(self, other: SessionToken) -> Self:
        """What both know."""
        return self._raised(other._streams, other._seen)

    def without(self, stream: str) -> Self:
        """This token with ``stream`` forgotten: it was deleted and made anew, say."""
        kept = [name for name in self._streams if name != stream]
        return self._of(
            {name: self._streams[name] for name in kept},
            {name: self._seen[name] for name in kept if name in self._seen},
        )

    def to_bytes(self) -> bytes:
        """As JSON, ASCII, the same for equal tokens."""
        body: dict[str, Any] = {"v": VERSION, "streams": dict(self.items())}
        if self._seen:
            body["seen"] = [bytes(position).decode() for _, position in sorted(self._seen.items())]
        return dumps(body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The token that ``to_bytes`` wrote. BadTokenError for other bytes."""
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
        lines = body.get("seen", [])
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise BadTokenError("seen must be a list of lines")
        seen = [parse_position(line.encode(errors="surrogatepass")) for line in lines]
        try:
            return cls(streams, [_known(position) for position in seen])
        except LocalProtocolError as error:
            raise BadTokenError(str(error)) from None

    def _raised(self, streams: Mapping[str, Position], seen: Mapping[str, StreamPosition]) -> Self:
        raised = dict(self._streams)
        for name, new in streams.items():
            old = self[name]
            raised[name] = Position(max(old.written, new.written), max(old.read, new.read))
        surest = self._seen | {name: _surer(position, self._seen.get(name)) for name, position in seen.items()}
        return self if (raised, surest) == (self._streams, self._seen) else self._of(raised, surest)

    @classmethod
    def _of(cls, streams: dict[str, Position], seen: dict[str, StreamPosition]) -> Self:
        token = cls()
        token._streams, token._seen = streams, seen
        return token


def _is_sequence(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_UINT64


def _known(position: StreamPosition | None) -> StreamPosition:
    """BadTokenError for None, which stands for a malformed line."""
    if position is None:
        raise BadTokenError("a line of seen is no position")
    return position


def _surer(one: StreamPosition, other: StreamPosition | None) -> StreamPosition:
    """Which of two is kept. An order of all positions, so that merging has one result."""
    return one if other is None or _rank(one) >= _rank(other) else other


def _rank(position: StreamPosition) -> tuple[int, int, bool, str]:
    return position.seq, -(position.witness or 0), position.identity is not None, position.identity or ""
