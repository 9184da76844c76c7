"""A stream in memory that several servers have, each up to its own sequence; it answers as recorded servers did.

Rules: a replica has the beginning of the stream. Whoever reads direct is answered by the replica that ``turns`` names
next; the leader is a position of its own, so that an old leader can be played. ``mirrors`` makes a mirror of a replica,
with the messages that it keeps; asked by its own name it answers alone. Nothing here knows a session.

Not here: publishing with acknowledgements, consumers.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any, Final, NamedTuple

from jsproto.grammar.subjects import matches
from jsproto.grammar.times import parse_timestamp
from jsproto.wire.frames import Pub
from tests.harness import Harness

CREATED: Final = "2026-11-20T20:36:40Z"
TIME: Final = "2026-11-20T20:36:46.910548879Z"
LATER: Final = "2026-11-20T20:36:47Z"
NO_RESPONDERS: Final = b"NATS/1.0 503\r\n\r\n"
NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"
NO_RESULTS: Final = b"NATS/1.0 404 No Results\r\n\r\n"


class Stored(NamedTuple):
    seq: int
    subject: str
    time: str = TIME


class Replicas:
    """The stream S. Attributes to move: ``log``, ``positions``, ``leader``, ``turns``, ``silent``, ``allow_direct``."""

    def __init__(self, *subjects: str, positions: tuple[int, ...] | None = None) -> None:
        self.log = [Stored(seq, subject) for seq, subject in enumerate(subjects, 1)]
        self.positions = list(positions or (len(subjects),))
        self.leader = len(subjects)
        self.turns: Iterator[int] = cycle(range(len(self.positions)))
        self.gone: dict[int, str] = {}  # when messages that were deleted were stored
        self.silent: set[int] = set()  # replicas that do not answer
        self.mirrors: dict[int, Callable[[Stored], bool]] = {}  # by turn: they answer as "M", with what they keep
        self.allow_direct = True
        self.created = CREATED
        self.time = TIME  # of what is written
        self.asked: list[str] = []  # "direct", "state", "leader"

    def write(self, subject: str) -> int:
        """Store one more; only the leader has it yet."""
        self.leader = (self.log[-1].seq if self.log else 0) + 1
        self.log.append(Stored(self.leader, subject, self.time))
        return self.leader

    def roll_back(self, seq: int, *subjects: str, time: str = LATER) -> None:
        """The stream comes back as it was at ``seq``, everywhere. Then these are stored: their time is another one."""
        self.log = [message for message in self.log if message.seq <= seq]
        self.time, self.leader = time, seq
        for subject in subjects:
            self.leader += 1
            self.log.append(Stored(self.leader, subject, time))
        self.catch_up()

    def delete(self, seq: int) -> None:
        """No replica has it any more."""
        self.gone |= {message.seq: message.time for message in self.log if message.seq == seq}
        self.log = [message for message in self.log if message.seq != seq]

    def catch_up(self) -> None:
        """All replicas have everything."""
        self.positions = [self.leader] * len(self.positions)

    def serve(self, h: Harness) -> None:
        """Answer all that is asked now, and what is asked because of that."""
        while pubs := h.published():
            for pub in pubs:
                for payload, header in self.answers(pub):
                    assert pub.reply is not None
                    h.session.flush()
                    h.drain()
                    if any(pub.reply.startswith(subject[:-1]) for subject in h.subs.values()):  # it has not given up
                        h.deliver(pub.reply, payload, header)

    def answers(self, pub: Pub) -> list[tuple[bytes, bytes | None]]:
        """What comes back: payloads and header blocks."""
        subject = pub.subject.decode()
        if subject == "$JS.API.STREAM.INFO.S":
            self.asked.append("state")
            state: dict[str, Any] = {"bytes": 1, "first_seq": 1, "consumer_count": 0, "last_seq": self.leader}
            state["messages"] = len(self._seen(self.leader))
            times = self.gone | {message.seq: message.time for message in self.log}
            if self.leader in times:  # of a message that was deleted, too
                state["last_ts"] = times[self.leader]
            if pub.payload:
                wanted = json.loads(pub.payload)["subjects_filter"]
                seen = [message.subject for message in self._seen(self.leader)]
                state["subjects"] = {each: seen.count(each) for each in seen if matches(wanted, each)}
            info = {"config": {"name": "S"}, "created": self.created, "state": state}
            return [(json.dumps(info).encode(), None)]
        if subject == "$JS.API.STREAM.MSG.GET.S":
            self.asked.append("leader")
            return [(json.dumps(self._leader(json.loads(pub.payload))).encode(), None)]
        self.asked.append("direct")
        if not self.allow_direct:
            return [(b"", NO_RESPONDERS)]
        turn = next(self.turns) if subject.startswith("$JS.API.DIRECT.GET.S") else next(iter(self.mirrors))
        if turn in self.silent:
            return []
        answers = self._direct(json.loads(pub.payload), turn)
        if turn not in self.mirrors:
            return answers
        name = b"Nats-Stream: M\r\n"
        return [(payload, header and header.replace(b"Nats-Stream: S\r\n", name)) for payload, header in answers]

    def _leader(self, body: dict[str, Any]) -> dict[str, Any]:
        found = self._one(body, self._seen(self.leader))
        if found is None:
            return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        data = b64encode(b"%d" % found.seq).decode()
        return {"message": {"subject": found.subject, "seq": found.seq, "data": data, "time": found.time}}

    def _direct(self, body: dict[str, Any], turn: int) -> list[tuple[bytes, bytes | None]]:
        position = self.positions[turn]
        seen = [*filter(self.mirrors.get(turn), self._seen(position))]
        if "multi_last" in body:
            last: dict[str, Stored] = {}
            for message in seen:
                if any(matches(pattern, message.subject) for pattern in body["multi_last"]):
                    last[message.subject] = message
            found = sorted(message for message in last.values() if message.seq >= body.get("seq", 1))
            return self._page(found, body, NO_RESULTS, b"Nats-UpTo-Sequence: %d\r\n" % position)
        if "batch" in body:
            pattern = body.get("next_by_subj", ">")
            found = [m for m in seen if m.seq >= body["seq"] and matches(pattern, m.subject)]
            return self._page(found, body, NOT_FOUND, b"")
        one = self._one(body, seen)
        return [(b"", NOT_FOUND)] if one is None else [(b"%d" % one.seq, _header(one))]

    def _page(
        self, found: list[Stored], body: dict[str, Any], nothing: bytes, ending: bytes
    ) -> list[tuple[bytes, bytes | None]]:
        if not found:
            return [(b"", nothing)]
        limit = min(body.get("batch", len(found)), body["max_bytes"] if body.get("max_bytes", 99) < 99 else len(found))
        answers: list[tuple[bytes, bytes | None]] = []
        last, left = 0, len(found)
        for message in found[:limit]:
            left -= 1
            paging = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n" % (left, last)
            answers.append((b"%d" % message.seq, _header(message)[:-2] + paging))
            last = message.seq
        end = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (left, last)
        return [*answers, (b"", end + ending + b"\r\n")]

    def _seen(self, position: int) -> list[Stored]:
        return [message for message in self.log if message.seq <= position]

    def _one(self, body: dict[str, Any], seen: list[Stored]) -> Stored | None:
        if "last_by_subj" in body:
            seen = [message for message in seen if matches(body["last_by_subj"], message.subject)]
            return seen[-1] if seen else None
        following, seq = body.get("next_by_subj"), body.get("seq", 1)
        if "start_time" in body:
            since = parse_timestamp(body["start_time"].encode())
            seen = [message for message in seen if parse_timestamp(message.time.encode()) >= since]
        for message in seen:
            if message.seq == seq if following is None else message.seq >= seq and matches(following, message.subject):
                return message
        return None


def _header(message: Stored) -> bytes:
    return (
        f"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: {message.subject}\r\nNats-Sequence: {message.seq}\r\n"
        f"Nats-Time-Stamp: {message.time}\r\n\r\n"
    ).encode()
