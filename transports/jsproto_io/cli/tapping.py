"""The bytes of links to lines that can be read: what a client and its server say to each other, frame by frame.

Rules

* ``Tap`` takes bytes, and returns one ``Seen`` for each frame. However the bytes are cut, the lines are the same.
* Bytes that are no frames are told once. The rest of their direction stays bytes, and the other direction goes on.
* A link that begins TLS is told once, and stays bytes in both directions.
* Of CONNECT only the names are shown that tell nobody how to get in. A recording has its credentials blotted out.
* Memory is bounded: by unfinished frames, ``MAX_ASKED`` reply subjects, ``MAX_BATCHES`` batches, ``MAX_POINTS`` each.

Not here: sockets (``relaying``), files (``transcripts``), plots (``report``). What the frames are (``jsproto.wire``).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jsproto.errors import APIError, NotJSMessageError, RemoteProtocolError
from jsproto.grammar.acks import FlowAck, FlowError, FlowGap, PubAck, parse_flow, parse_pub_ack
from jsproto.grammar.batch import BatchCommit, parse_batch_headers
from jsproto.grammar.bodies import loads
from jsproto.grammar.fast import FastOp, FastProblem, parse_fast_reply
from jsproto.grammar.headers import first_value, status_line
from jsproto.grammar.jsack import ACK_PREFIX, parse_jsack
from jsproto.grammar.subjects import matches, overlaps
from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, Pub, Sub, Unsub
from jsproto.wire.limits import CLIENT_LIMITS

Direction: TypeAlias = Literal["c2s", "s2c"]
"""From the client to the server, or back."""

ROLES: Final[dict[Direction, Role]] = {"c2s": "server", "s2c": "client"}
"""Who reads a direction."""
ARROWS: Final[dict[Direction, str]] = {"c2s": "->", "s2c": "<-"}
SPEAKERS: Final[dict[Direction, str]] = {"c2s": "client", "s2c": "server"}

MAX_ASKED: Final = 20_000
MAX_BATCHES: Final = 1_000
MAX_POINTS: Final = 1_000
_SHOWN: Final = 70  # bytes of a payload, and of a header block
_SECRET: Final = ("pass", "auth_token", "jwt", "sig", "nkey")  # of CONNECT
_BLOT: Final = "***"
_TLS: Final = b"\x16"  # how the first record of TLS begins, and no frame
_DOES: Final = {
    FastOp.START: "starts", FastOp.APPEND: "goes on", FastOp.COMMIT: "commits",
    FastOp.COMMIT_EOB: "commits without it", FastOp.PING: "asks where it is",
}  # fmt: skip
_COMMITS: Final = {
    BatchCommit.NONE: "", BatchCommit.STORE: ", commits", BatchCommit.EOB: ", commits without it",
    BatchCommit.INVALID: ", commits in an unknown way",
}  # fmt: skip


class Seen(NamedTuple):
    """A frame on a link, or a note about it.

    * ``when``: seconds, of the clock of whoever holds the tap. ``link``: counted from 1.
    * ``frame``: None for a note, and for bytes that are no frame.
    * ``about``: what it means, in words. ``batch``: the id of its batch. ``asked``: the subject that it answers.
    * ``is_told``: ``about`` says what the payload says.
    * ``raw``: bytes that are no frame, as they came.
    """

    when: float
    link: int
    direction: Direction
    frame: Frame | None = None
    about: str = ""
    batch: str | None = None
    asked: bytes = b""
    is_told: bool = False
    raw: bytes = b""

    @property
    def is_line(self) -> bool:
        """Whether there is anything to show: of bytes that are no frame only the first ones are told."""
        return self.frame is not None or self.about != ""

    def concerns(self, subject: str | None, batch: str | None) -> bool:
        """Whether it is about a subject that matches a pattern, and about a batch. Notes and errors always are."""
        frame = self.frame
        if frame is None or isinstance(frame, Err):
            return True
        if batch is not None and self.batch != batch:
            return False
        if subject is None:
            return True
        if isinstance(frame, Sub):
            return overlaps(subject, _text(frame.subject))
        if not isinstance(frame, Pub | Msg):
            return False
        return any(matches(subject, _text(each)) for each in (frame.subject, frame.reply or b"", self.asked))

    def recorded(self) -> bytes:
        """The bytes for a recording: frames in our blanks, and CONNECT without its credentials."""
        if isinstance(self.frame, Connect):
            return encode(Connect(_blotted(self.frame.raw)))
        return self.raw if self.frame is None else encode(self.frame)

    def __str__(self) -> str:
        head = f"{self.when:12.6f}  link {self.link} {ARROWS[self.direction]} "
        frame = self.frame
        if frame is None:
            return head + self.about
        verb, *words = _words(frame)
        if self.asked:
            words.append(f"for {_text(self.asked)}")
        if self.about:
            words.append(f"| {self.about}")
        if isinstance(frame, Pub | Msg):
            if fields := (frame.header or b"").partition(b"\r\n")[2].strip():  # the first line is in ``about``
                words.append(f"{{{_short(fields)}}}")
            if frame.payload and not self.is_told:
                words.append(f'"{_short(frame.payload)}"')
        line = " ".join([head + verb, *words])
        return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)

    def to_json(self) -> dict[str, Any]:
        """It for a program. Payloads and header blocks are left to recordings."""
        found: dict[str, Any] = {"time": round(self.when, 6), "link": self.link, "dir": self.direction}
        frame = self.frame
        found["verb"] = None if frame is None else _words(frame)[0]
        if isinstance(frame, Pub | Msg):
            found |= {
                "subject": _text(frame.subject), "reply": _text(frame.reply or b"") or None,
                "header_bytes": len(frame.header or b""), "payload_bytes": len(frame.payload),
                "answers": _text(self.asked) or None,
            }  # fmt: skip
        about = _text(frame.text) if isinstance(frame, Err) else self.about
        return {**found, "batch": self.batch, "about": about or None}


@dataclass(slots=True)
class Curve:
    """A number that grows, over time: at most ``MAX_POINTS`` points of (seconds, number), further apart when long."""

    points: list[tuple[float, int]] = field(default_factory=list)
    last: tuple[float, int] = (0.0, 0)
    _apart: float = 0.0005  # seconds

    def add(self, when: float, number: int) -> None:
        """The number at a time."""
        self.last = when, number
        if not self.points or when - self.points[-1][0] >= self._apart:
            self.points.append(self.last)
            if len(self.points) > MAX_POINTS:
                del self.points[1::2]
                self._apart *= 2

    def all(self) -> list[tuple[float, int]]:
        """The points, up to the last one."""
        return self.points if self.points[-1:] == [self.last] or not self.points else [*self.points, self.last]


@dataclass(slots=True)
class BatchSeen:
    """What went by of a fast-ingest batch. Sequences are those of the batch.

    * ``asked``: messages for each acknowledgement that the client asks for. ``flow``: those that the server grants.
    * ``sent``, ``acked``: the highest sequence over time. ``waiting``: how far apart they were before each
      acknowledgement. ``refused``: how many messages.
    * ``gaps``: first and last of those that the server missed, at most ``MAX_POINTS``. ``end``: how it ended.
    """

    batch_id: str
    asked: int
    sent: Curve = field(default_factory=Curve)
    acked: Curve = field(default_factory=Curve)
    waiting: Curve = field(default_factory=Curve)
    flow: list[tuple[float, int]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    refused: int = 0
    end: str = ""

    def heard(self, answer: PubAck | APIError | FlowAck | FlowGap | FlowError, now: float) -> str:
        """Take what the server says of it. Returns that in words."""
        if isinstance(answer, FlowAck):
            self._acked(answer.seq, now)
            if not self.flow or self.flow[-1][1] != answer.msgs:
                self.flow = [*self.flow[: MAX_POINTS - 1], (now, answer.msgs)]
            return f"acknowledged up to {answer.seq}, the next after {answer.msgs}"
        if isinstance(answer, FlowGap):
            first, last = answer.first_missing, answer.seq - 1
            if last < first:
                return f"goes back to {answer.seq}, where {first} was due"
            self.gaps = [*self.gaps[: MAX_POINTS - 1], (first, last)]
            return f"a gap: {first} to {last}"
        if isinstance(answer, FlowError):
            self.refused += 1
            return f"message {answer.seq} refused: {answer.error}"
        if isinstance(answer, APIError):
            self.end = f"refused: {answer}"
            return self.end
        if answer.count is not None:
            self._acked(answer.count, now)
        self.end = _stored(answer)
        return self.end

    def _acked(self, sequence: int, now: float) -> None:
        self.waiting.add(now, max(self.sent.last[1] - self.acked.last[1], 0))
        self.acked.add(now, sequence)


class _Link:
    """One link: the reader of each direction, or None where only bytes are left."""

    def __init__(self) -> None:
        self.readers: dict[Direction, Decoder | None] = {
            direction: Decoder(role, CLIENT_LIMITS) for direction, role in ROLES.items()
        }
        self.tails: dict[Direction, bytearray] = {"c2s": bytearray(), "s2c": bytearray()}  # of unfinished frames
        self.has_spoken = False  # the client has sent a frame
        self.open = set(ROLES)


class Tap:
    """Reads along on any number of links.

    Attributes: ``frames`` (how many went each way), ``unknown`` (how often bytes were no frames), ``raw`` (bytes that
    were not read), ``links`` (how many there were), ``batches`` (of fast ingest, by their ids, oldest first).
    """

    def __init__(self) -> None:
        self.frames: dict[Direction, int] = {"c2s": 0, "s2c": 0}
        self.unknown = 0
        self.raw = 0
        self.links = 0
        self.batches: OrderedDict[str, BatchSeen] = OrderedDict()
        self._links: dict[int, _Link] = {}
        self._asked: OrderedDict[bytes, tuple[bytes, str | None, str]] = OrderedDict()  # by reply subject

    def opened(self, link: int, client: str, now: float) -> list[Seen]:
        """A client has dialed. ``client``: its address. Calling it is optional: bytes of a new link open it."""
        self._held(link)
        return [Seen(now, link, "c2s", about=f"the client comes from {client}")]

    def received(self, link: int, direction: Direction, data: bytes, now: float) -> list[Seen]:
        """Bytes went by on a link."""
        held = self._held(link)
        reader = held.readers[direction]
        if reader is None:
            self.raw += len(data)
            return [Seen(now, link, direction, raw=data)]
        tail = held.tails[direction]
        tail += data
        frames = reader.feed(data)
        self.frames[direction] += len(frames)
        read = self._read_up if direction == "c2s" else self._read_down
        seen = [read(frame, link, now) for frame in frames]
        if frames and direction == "c2s":
            held.has_spoken = True
        if reader.error is not None:
            seen.append(self._give_up(held, link, direction, reader.error, now))
        elif frames:
            del tail[: len(tail) - reader.pending]
        return seen

    def ended(self, link: int, direction: Direction, now: float, why: str = "") -> list[Seen]:
        """One direction of a link has ended: its speaker closed it, or ``why``."""
        held = self._links.get(link)
        if held is None or direction not in held.open:
            return []
        held.open.remove(direction)
        if not held.open:
            del self._links[link]
        tail = bytes(held.tails[direction])
        rest = f", {len(tail)} bytes into a frame" if tail else ""
        self.raw += len(tail)
        return [Seen(now, link, direction, about=f"the {SPEAKERS[direction]} {why or 'ends'}{rest}", raw=tail)]

    def summary(self) -> str:
        """How much went by."""
        counts = f"{self.links:,} links, frames: {self.frames['c2s']:,} up, {self.frames['s2c']:,} down"
        return f"{counts}; {self.raw:,} bytes unread" if self.raw else counts

    # -- inside --------------------------------------------------------------------------------------------------------

    def _held(self, link: int) -> _Link:
        if link not in self._links:
            self._links[link] = _Link()
            self.links += 1
        return self._links[link]

    def _give_up(self, held: _Link, link: int, direction: Direction, error: RemoteProtocolError, now: float) -> Seen:
        tail, bad = bytes(held.tails[direction]), error.data
        rest = tail[len(tail) - len(bad) if tail.endswith(bad) else tail.find(bad) :]
        held.tails[direction].clear()
        held.readers[direction] = None
        self.raw += len(rest)
        if direction == "c2s" and not held.has_spoken and bad.startswith(_TLS):
            held.readers["s2c"] = None
            held.tails["s2c"].clear()
            return Seen(now, link, direction, about="TLS begins: what follows is encrypted, and passed on", raw=rest)
        self.unknown += 1
        about = f"no frame of a {SPEAKERS[direction]} ({error.args[0]}): from here on only bytes, passed on"
        return Seen(now, link, direction, about=about, raw=rest)

    def _read_up(self, frame: Frame, link: int, now: float) -> Seen:
        if isinstance(frame, Connect):
            return Seen(now, link, "c2s", frame, _greeting(frame.raw, ("lang", "version", "name", "user"), _SECRET))
        if not isinstance(frame, Pub):
            return Seen(now, link, "c2s", frame)
        about, batch, is_told = self._sent(frame, now)
        if frame.reply:
            if len(self._asked) >= MAX_ASKED and frame.reply not in self._asked:
                self._asked.popitem(last=False)
            self._asked[frame.reply] = frame.subject, batch, about
        return Seen(now, link, "c2s", frame, about, batch, is_told=is_told)

    def _sent(self, frame: Pub, now: float) -> tuple[str, str | None, bool]:
        """What a client's message means, its batch, and whether that is all of its payload."""
        if frame.subject.startswith(ACK_PREFIX):
            told = _delivery(frame.subject)
            return (f"{_short(frame.payload or b'+ACK')} of {told}" if told else ""), None, told != ""
        fast = parse_fast_reply(frame.reply or b"")
        if isinstance(fast, FastProblem):
            return f"fast ingest, malformed ({fast.name.lower()})", None, False
        if fast is not None:
            batch = self._batch(fast.batch_id, fast.flow)
            if fast.operation in (FastOp.START, FastOp.APPEND, FastOp.COMMIT):
                batch.sent.add(now, max(batch.sent.last[1], fast.sequence))
            settings = f", flow {fast.flow}, gaps {fast.gap}" if fast.operation is FastOp.START else ""
            about = f"batch {fast.batch_id} message {fast.sequence} {_DOES[fast.operation]}{settings}"
            return about, fast.batch_id, False
        atomic = parse_batch_headers(frame.header)
        if atomic is None:
            return "", None, False
        about = f"atomic batch {atomic.batch_id} message {atomic.sequence}{_COMMITS[atomic.commit]}"
        return about, atomic.batch_id, False

    def _read_down(self, frame: Frame, link: int, now: float) -> Seen:
        if isinstance(frame, Info):
            names = ("server_name", "version", "cluster", "max_payload", "jetstream", "tls_required", "ldm")
            return Seen(now, link, "s2c", frame, _greeting(frame.raw, names, ()))
        if not isinstance(frame, Msg):
            return Seen(now, link, "s2c", frame)
        asked, batch, _ = self._asked.get(frame.subject, (b"", None, ""))
        about, is_told = "", False
        fast = parse_fast_reply(frame.subject)
        if fast is not None and not isinstance(fast, FastProblem):
            batch = fast.batch_id
            try:
                answer = parse_flow(frame.payload)
            except RemoteProtocolError:
                pass
            else:
                about = f"batch {batch} {self._batch(batch, fast.flow).heard(answer, now)}"
                is_told = True
        elif asked:
            about, is_told, batch = _answer(frame, asked, batch)
        elif frame.reply and frame.reply.startswith(ACK_PREFIX):
            about = _delivery(frame.reply)
        return Seen(now, link, "s2c", frame, about or _status(frame.header), batch, asked, is_told)

    def _batch(self, batch_id: str, asked: int) -> BatchSeen:
        batch = self.batches.get(batch_id)
        if batch is None:
            if len(self.batches) >= MAX_BATCHES:
                self.batches.popitem(last=False)
            batch = self.batches[batch_id] = BatchSeen(batch_id, asked)
        return batch


# -- words -----------------------------------------------------------------------------------------------------------


def _words(frame: Frame) -> list[str]:
    """The verb, and what follows it."""
    if isinstance(frame, Pub | Msg):
        verb = "PUB" if isinstance(frame, Pub) else "MSG"
        size = f"{len(frame.payload)} B"
        if frame.header is not None:
            verb, size = "H" + verb, f"{len(frame.header)}+{size}"
        reply = [f"reply {_text(frame.reply)}"] if frame.reply else []
        return [verb, _text(frame.subject), *reply, size]
    if isinstance(frame, Sub):
        queue = [f"queue {_text(frame.queue)}"] if frame.queue else []
        return ["SUB", _text(frame.subject), *queue, f"sid {_text(frame.sid)}"]
    if isinstance(frame, Unsub):
        return ["UNSUB", f"sid {_text(frame.sid)}", *([] if frame.max_msgs is None else [f"after {frame.max_msgs}"])]
    if isinstance(frame, Err):
        return ["-ERR", _text(frame.text)]
    name = type(frame).__name__.upper()
    return ["+OK" if name == "OK" else name]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _short(raw: bytes) -> str:
    """The beginning of some bytes, on one line."""
    text = _text(raw[:_SHOWN]).replace("\r\n", ", ")
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return text + "..." if len(raw) > _SHOWN else text


def _greeting(raw: bytes, names: tuple[str, ...], secret: tuple[str, ...]) -> str:
    """What INFO or CONNECT says by some names, and whether it has credentials."""
    try:
        body = loads(raw)
    except RemoteProtocolError:
        return "malformed JSON"
    shown = [f"{name} {body[name]}" for name in names if body.get(name) not in (None, "", False)]
    return ", ".join([*shown, *(["with credentials"] if any(body.get(name) for name in secret) else [])])


def _blotted(raw: bytes) -> bytes:
    """The JSON of CONNECT without its credentials."""
    try:
        body = loads(raw)
    except RemoteProtocolError:
        return b"{}"
    if not any(name in body for name in _SECRET):
        return raw
    body = {name: _BLOT if name in _SECRET else value for name, value in body.items()}
    return json.dumps(body, separators=(",", ":")).encode()


def _status(header: bytes | None) -> str:
    try:
        found = None if header is None else status_line(header)
    except RemoteProtocolError:
        return "malformed headers"
    return "" if found is None else " ".join(["status", *map(str, found)]).rstrip()


def _delivery(reply: bytes) -> str:
    """The delivery that an ack subject stands for. Empty: it is malformed."""
    try:
        ack = parse_jsack(reply)
    except NotJSMessageError:
        return ""
    times = "" if ack.num_delivered == 1 else f", delivery {ack.num_delivered}"
    return f"message {ack.sequence.stream} of {ack.stream} to {ack.consumer}{times}, {ack.num_pending} pending"


def _stored(ack: PubAck) -> str:
    count = "" if ack.count is None else f", {ack.count} in the batch"
    return f"stored as {ack.seq} of {ack.stream}{count}{', a duplicate' if ack.duplicate else ''}"


def _answer(frame: Msg, asked: bytes, batch: str | None) -> tuple[str, bool, str | None]:
    """What the answer to a question means, whether that is all of its payload, and its batch."""
    if frame.header is not None:
        seq = first_value(frame.header, b"Nats-Sequence")
        stream = first_value(frame.header, b"Nats-Stream")
        return (f"message {_text(seq)} of {_text(stream)}" if seq and stream else ""), False, batch
    if not frame.payload:
        return ("taken into the batch" if batch is not None else "an empty answer"), True, batch
    if not frame.payload.startswith(b"{") or (asked.startswith(b"$JS.API.") and b'"error":' not in frame.payload):
        return "", False, batch
    try:
        ack = parse_pub_ack(frame.payload)
    except RemoteProtocolError:
        return "", False, batch
    if isinstance(ack, APIError):
        return f"refused: {ack}", True, batch
    return _stored(ack), True, ack.batch or batch
