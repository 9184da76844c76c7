"""Runs a program on one side: the server role in memory, or a real server over sockets.

Rules:

* Each step has an inbox of its own, so an answer tells which step it is for.
* The role goes first. How many frames it said is what is waited for on the real server, and what more comes is seen
  too, because other steps follow.
* A real server that refused to subscribe to ``>.a`` thinks that everything has a subscriber (FACTS.md F5.33). That is
  mended before each program, and after each step of bytes.
* A step after which nothing is said gets ``grace`` seconds on a real server, every step in a careful run.

Not here: which steps there are (``programs``), comparing (``said``).
"""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from jsproto.grammar.bodies import dumps, loads
from jsproto.server.server import Server
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_pub, encode_sub, encode_unsub
from jsproto.wire.frames import Frame, Info, Msg, Ping, Pong

API: Final = "$JS.API."
EPOCH: Final = 1_767_225_600 * 10**9
"""The time of day of the role, in nanoseconds since 1970. It is in 2026: there are earlier and later times."""

GRACE: Final = 0.002  # seconds
CAREFUL: Final = 0.02
PATIENCE: Final = 0.25
PATIENT: Final = 20.0
"""The patience with a real server, or this program, that stands still for a moment: it settles what differs."""
_CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"echo":true,"protocol":1}\r\n'
)
_HOSTILE_CONNECT: Final = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":1}\r\n'
_SENTINEL: Final = "still.here"
_MEND: Final = encode_sub(b">", None, b"mend") + encode_unsub(b"mend")


class Step(NamedTuple):
    """One step. ``kind``: ``pub``, ``sub``, ``unsub``, or ``bytes`` on a connection of their own.

    ``payload``: bytes, or what JSON is made of. ``reply``: with ``{}`` for the inbox of the step. ``wait``: so many
    seconds pass afterwards.
    """

    kind: str
    subject: str = ""
    payload: Any = b""
    headers: dict[str, str] | None = None
    reply: str = "{}"
    wait: float = 0.0


class Answer(NamedTuple):
    """What one step brought about, or a subscription got."""

    of: str
    frames: list[Frame]
    is_closed: bool = False


Program: TypeAlias = Sequence[Step]


class Link(Protocol):
    """One side."""

    def run(self, program: Program) -> list[Answer]:
        """What the server says to the steps and to the subscriptions of a program."""


def _subscriptions(number: int, length: int) -> bytes:
    """Subscribes to the inboxes of a program of so many steps."""
    subjects = [(f"i{number}.{step}{tail}", f"{step}{tail}") for step in range(length) for tail in ("", ".>")]
    return b"".join(encode_sub(subject.encode(), None, sid.removesuffix(".>").encode() + b"f" * sid.endswith(">"))
                    for subject, sid in subjects)  # fmt: skip


def _bytes_of(step: Step, inbox: str, place: int) -> bytes:
    """A step on the wire. ``place``: where it is in its program."""
    if step.kind == "sub":
        return encode_sub(step.subject.encode(), step.reply.encode() or None, b"u%d" % place)
    if step.kind == "unsub":
        return encode_unsub(step.subject.encode())
    payload = step.payload if isinstance(step.payload, bytes) else dumps(step.payload)
    header = None if step.headers is None else _block(step.headers)
    reply = step.reply.replace("{}", inbox).encode() or None
    return encode_pub(step.subject.encode("utf-8", "surrogateescape"), reply, header, payload)


def _block(headers: dict[str, str]) -> bytes:
    """A header block, whatever the values are."""
    return b"NATS/1.0\r\n%b\r\n" % "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def _hostile(step: Step) -> bytes:
    payload: bytes = step.payload
    sentinel = _SENTINEL.encode()
    head = _HOSTILE_CONNECT + encode_sub(sentinel, None, b"9")
    return head + payload + encode_pub(sentinel, None, None, b"")


def _is_alive(frames: Sequence[Frame]) -> bool:
    return any(isinstance(frame, Msg) and frame.subject == _SENTINEL.encode() for frame in frames)


class _Heard:
    """Sorts what comes by what it is for."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.count = 0
        self.answers: dict[str, Answer] = {}

    def take(self, frame: Frame) -> None:
        if isinstance(frame, Msg):
            self.count += 1
            of = frame.sid.decode().removesuffix("f")
            if of.startswith("u"):
                step = self._program[int(of[1:])]
                of = f"{step.subject} {step.reply}"
        elif isinstance(frame, Ping | Pong | Info):
            return
        else:
            of = "link"
        self.answers.setdefault(of, Answer(of, [])).frames.append(frame)

    def add(self, answer: Answer) -> None:
        self.answers[answer.of] = answer

    def all(self) -> list[Answer]:
        return [self.answers[of] for of in sorted(self.answers)]


class OnTheRole:
    """The server role. ``counts``: how many messages had come after each step of the last program.

    ``expected``: what the steps of bytes said.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.expected: dict[int, Answer] = {}

    def run(self, program: Program) -> list[Answer]:
        self.now = 0.0
        self.server = Server(token=b"token", epoch=EPOCH)
        link, decoder = self.server.connect(0.0), Decoder("client")
        heard = _Heard(program)
        self.counts, self.expected = [], {}
        link.receive_data(_CONNECT + _subscriptions(0, len(program)), self.now)
        for place, step in enumerate(program):
            if step.kind == "bytes":
                self.expected[place] = self._hostile(place, step)
                heard.add(self.expected[place])
            else:
                link.receive_data(_bytes_of(step, f"i0.{place}", place), self.now)
            self._settle(step.wait)
            for frame in decoder.feed(b"".join(link.data_to_send())):
                heard.take(frame)
            assert decoder.error is None
            self.counts.append(heard.count)
        return heard.all()

    def _settle(self, seconds: float) -> None:
        end = self.now + seconds
        while (when := self.server.deadline()) is not None and when <= end:
            self.now = max(self.now, when)
            self.server.handle_timeout(self.now)
        self.now = end

    def _hostile(self, place: int, step: Step) -> Answer:
        link, decoder = self.server.connect(self.now), Decoder("client")
        link.receive_data(_hostile(step), self.now)
        frames = decoder.feed(b"".join(link.data_to_send()))
        is_closed = link.wants_close
        link.receive_eof()
        return Answer(str(place), [frame for frame in frames if not isinstance(frame, Info)], is_closed)


class OnARealServer:
    """A real server. It waits for what ``role`` said of the same program."""

    def __init__(self, port: int, role: OnTheRole) -> None:
        self._port = port
        self._role = role
        self._programs = 0
        self._socket = self._open()
        self._socket.sendall(_CONNECT)
        self._decoder = Decoder("client")
        self._frames: list[Frame] = []
        self.grace = GRACE
        self.patience = PATIENCE
        self.is_careful = False

    def _open(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read(self, until: float) -> bool:
        """Read what comes before that moment. Returns whether anything did."""
        self._socket.settimeout(max(0.0001, until - time.monotonic()))
        with suppress(TimeoutError, BlockingIOError):
            data = self._socket.recv(65536)
            assert data, "the server closed the connection"
            self._frames += self._decoder.feed(data)
            assert self._decoder.error is None
            return True
        return False

    def _ask(self, subject: str, payload: Any = b"") -> Any:
        """The answer to a request beside a program."""
        self._socket.sendall(
            encode_sub(b"beside", None, b"b") + encode_unsub(b"b", 1)
            + encode_pub(subject.encode(), b"beside", None, payload or b"")
        )  # fmt: skip
        end = time.monotonic() + PATIENT
        while time.monotonic() < end:
            self._read(end)
            for frame in self._frames:
                if isinstance(frame, Msg) and frame.sid == b"b":
                    self._frames.clear()
                    return loads(frame.payload)
        raise AssertionError("no answer")

    def run(self, program: Program) -> list[Answer]:
        for name in self._ask(f"{API}STREAM.NAMES").get("streams") or ():
            self._ask(f"{API}STREAM.DELETE.{name}")
        self._programs += 1
        inbox = f"i{self._programs}"
        heard = _Heard(program)
        self._socket.sendall(_MEND + _subscriptions(self._programs, len(program)))
        for place, step in enumerate(program):
            expected = self._role.counts[place]
            before = heard.count
            if step.kind == "bytes":
                heard.add(self._hostile(place, step))
                self._socket.sendall(_MEND)
            else:
                self._socket.sendall(_bytes_of(step, f"{inbox}.{place}", place) + b"PING\r\n")
                self._listen(heard, expected, step.wait)
            if self.is_careful or heard.count == before:
                self._rest(heard, max(self.grace, step.wait))
            if heard.count < expected:
                break  # it differs already, so what follows need not wait in vain
        self._rest(heard, 2 * self.grace)
        ends = [f"{step}{tail}" for step in range(len(program)) for tail in ("", "f")]
        ends += [f"u{step}" for step in range(len(program)) if program[step].kind == "sub"]
        self._socket.sendall(b"".join(encode_unsub(sid.encode()) for sid in ends))
        return heard.all()

    def _listen(self, heard: _Heard, expected: int, wait: float) -> None:
        """Read until the server has seen the step, and has said what is expected."""
        end = time.monotonic() + self.patience + wait
        has_seen = False
        while time.monotonic() < end:
            for frame in self._frames:
                has_seen = has_seen or isinstance(frame, Pong)
                heard.take(frame)
            self._frames.clear()
            if has_seen and heard.count >= expected:
                return
            self._read(end)

    def _rest(self, heard: _Heard, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read(end)
        for frame in self._frames:
            heard.take(frame)
        self._frames.clear()

    def _hostile(self, place: int, step: Step) -> Answer:
        expected = self._role.expected[place]
        decoder = Decoder("client")
        frames: list[Frame] = []
        is_closed = False
        with self._open() as link:
            end = time.monotonic() + self.patience
            with suppress(ConnectionError):
                link.sendall(_hostile(step))
            while (now := time.monotonic()) < end:
                is_known = not expected.is_closed and len(frames) >= len(expected.frames)
                link.settimeout(self.grace if is_known else end - now)
                try:
                    data = link.recv(65536)
                except TimeoutError:
                    break
                except ConnectionError:
                    data = b""
                if not data:
                    is_closed = True
                    break
                frames += [frame for frame in decoder.feed(data) if not isinstance(frame, Info)]
        return Answer(str(place), frames, is_closed)


def shown(payload: bytes) -> str:
    """A payload as text, in Base64 where it is none."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return b64encode(payload).decode()
