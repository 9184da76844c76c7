"""A stream in a few lines, and who answers for it: its leader, replicas that are behind, a mirror with a part of it.

The model against which reads are checked; what it answers is what released servers answer. Answers get lost, come
twice and late, and whoever gives them dies in the middle.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from hypothesis import strategies as st

from jsproto.errors import Error
from jsproto.grammar.stored import StoredMsg
from jsproto.grammar.subjects import matches
from jsproto.wire.frames import Pub
from tests.harness import Harness

NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
NO_RESULTS = b"NATS/1.0 404 No Results\r\n\r\n"
TIME = "2026-11-20T20:36:46.910548879Z"
DIRECT = b"$JS.API.DIRECT.GET.DG"
STATE = b"$JS.API.STREAM.INFO.DG"
LEADER = b"$JS.API.STREAM.MSG.GET.DG"
EVENTS: Final = ("fine", "fine", "fine", "lost", "twice", "dies")
LISTED = 7
"""Subjects that the leader lists at once."""


class Stream:
    """Messages by sequence, in order; only their subjects matter.

    ``kept``: sequences of which a mirror's answers are made, None without a mirror. ``rollups``: sequences of messages
    that took the place of others; ``rollups_of_all``: of all. ``is_gone``: who asks the leader for a subject by its
    name finds nothing.
    """

    def __init__(self, subjects: Iterable[str]) -> None:
        self.messages = dict(enumerate(subjects, 1))
        self.last_seq = len(self.messages)
        self.kept: set[int] | None = None
        self.created = self.first_ts = TIME
        self.config: dict[str, Any] = {}
        self.rollups: set[int] = set()
        self.rollups_of_all: set[int] = set()
        self.is_gone = False
        self.while_listing: Callable[[], None] = lambda: None

    def add(self, subject: str) -> None:
        self.last_seq += 1
        self.messages[self.last_seq] = subject

    def rollup(self, seq: int) -> bytes:
        """The header line of a message that took the place of others."""
        if seq in self.rollups_of_all:
            return b"Nats-Rollup: all\r\n"
        return b"Nats-Rollup: sub\r\n" if seq in self.rollups else b""

    def roll_up_all(self, subject: str) -> None:
        """A message takes the place of all."""
        self.messages.clear()
        self.add(subject)
        self.rollups_of_all.add(self.last_seq)

    def last_of_each(self, patterns: list[str], up_to: int, held: dict[int, str] | None = None) -> list[int]:
        """Sequences, as somebody sees them who has the messages ``held``."""
        messages = self.messages if held is None else held
        last = {subject: seq for seq, subject in messages.items() if seq <= up_to}
        exact, wild = set(patterns), [pattern for pattern in patterns if "*" in pattern or ">" in pattern]
        return sorted(
            seq for subject, seq in last.items() if subject in exact or any(matches(p, subject) for p in wild)
        )

    def select(self, request: dict[str, Any], held: dict[int, str]) -> list[int]:
        """What matches a request, from its lower bound on."""
        first = request.get("seq", 1)
        if "multi_last" in request:
            found = self.last_of_each(request["multi_last"], request.get("up_to_seq", self.last_seq), held)
        else:
            pattern = request.get("next_by_subj", ">")
            found = [seq for seq, subject in held.items() if matches(pattern, subject)]
        return [seq for seq in found if seq >= first]

    def page(
        self, request: dict[str, Any], applied: int, most: int = 9999, old: bool = False, *, mirrored: bool = False
    ) -> list[bytes]:
        """The header blocks of an answer of a replica that has come to ``applied``, or of the mirror.

        ``most`` messages fit into max_bytes; ``old``: as 2.11 counts.
        """
        held = {seq: subject for seq, subject in self.messages.items() if seq <= applied}
        if mirrored and self.kept is not None:
            held = {seq: subject for seq, subject in held.items() if seq in self.kept}
        found, multi = self.select(request, held), "multi_last" in request
        if not found:
            return [NO_RESULTS if multi else NOT_FOUND]
        sent = found[: min(most if "max_bytes" in request else len(found), request.get("batch", len(found)))]
        blocks, last = [], 0
        for n, seq in enumerate(sent, 1):
            pending = len(found) - n + (old and not multi)
            blocks.append(
                f"NATS/1.0\r\n{self.rollup(seq).decode() if seq in self.rollups_of_all else ''}"
                f"Nats-Stream: {'DG2' if mirrored else 'DG'}\r\nNats-Subject: {held[seq]}\r\n"
                f"Nats-Sequence: {seq}\r\nNats-Time-Stamp: {TIME}\r\nNats-Num-Pending: {pending}\r\n"
                f"Nats-Last-Sequence: {last}\r\n\r\n".encode()
            )
            last = seq
        left = len(found) - len(sent)
        up_to = f"Nats-UpTo-Sequence: {request.get('up_to_seq', applied)}\r\n" if multi else ""
        blocks.append(
            f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {max(left - (old and multi), 0)}\r\nNats-Last-Sequence: {last}\r\n"
            f"{up_to}\r\n".encode()
        )
        return blocks

    def leader(self, pub: Pub) -> dict[str, Any]:
        """The answer of the leader's API."""
        request = json.loads(pub.payload) if pub.payload else {}
        return self.info(request) if pub.subject == STATE else self.message(pub.subject, request)

    def info(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its state, and the subjects that it lists."""
        state: dict[str, Any] = {"first_seq": min(self.messages, default=self.last_seq + 1), "last_seq": self.last_seq,
                                 "messages": len(self.messages), "first_ts": self.first_ts}  # fmt: skip
        body: dict[str, Any] = {"config": {"name": "DG", **self.config}, "created": self.created, "state": state}
        if (pattern := request.get("subjects_filter")) is not None:
            self.while_listing()  # the state is from before
            found: dict[str, int] = {}
            for subject in self.messages.values():
                if matches(pattern, subject):
                    found[subject] = found.get(subject, 0) + 1
            page = sorted(found)[request["offset"] :][:LISTED]
            state["subjects"] = {name: found[name] for name in page}
            body["total"] = len(found)
        return body

    def message(self, asked: bytes, request: dict[str, Any]) -> dict[str, Any]:
        """The message that is asked for."""
        assert asked == LEADER
        if "last_by_subj" in request:
            assert request == {"last_by_subj": ">"}
            seq = max(self.messages, default=None)
        elif "next_by_subj" not in request:
            seq = request["seq"] if request["seq"] in self.messages else None
        else:
            pattern = request["next_by_subj"]
            gone = self.is_gone and ">" not in pattern
            later = [seq for seq, subject in self.messages.items() if matches(pattern, subject) and not gone]
            seq = min((seq for seq in later if seq >= request.get("seq", 1)), default=None)
        if seq is None:
            return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        headers = b64encode(b"NATS/1.0\r\n%b\r\n" % rollup if (rollup := self.rollup(seq)) else b"").decode()
        return {"message": {"subject": self.messages[seq], "seq": seq, "time": TIME, "hdrs": headers}}


class Reader(Protocol):
    """What can be read through: a page after the other, or a snapshot."""

    @property
    def error(self) -> Error | None: ...

    @property
    def finished(self) -> bool: ...

    def pop_many(self, most: int, now: float) -> list[StoredMsg]: ...


def read_through(
    h: Harness,
    stream: Stream,
    read: Reader,
    draw: Callable[[st.SearchStrategy[Any]], Any],
    *,
    applied: Callable[[], int],
    old: bool = False,
    between: Callable[[], None] = lambda: None,
    events: Sequence[str] = EVENTS,
    pauses: Sequence[float] = (0.0, 0.03, 1.0),
) -> list[int]:
    """Answer the read until it ends, with faults; returns the sequences taken."""
    got: list[int] = []
    late: list[tuple[bytes, bytes]] = []

    def deliver(where: bytes, payload: bytes, block: bytes | None = None) -> None:
        h.session.flush()
        h.drain()
        if any(where.startswith(subject[:-1]) for subject in h.subs.values()):  # it has not ended
            h.deliver(where, payload, block)

    def answer(pub: Pub) -> None:
        reply = pub.reply or b""
        event = draw(st.sampled_from(events))
        if pub.subject != DIRECT:
            for _ in range({"lost": 0, "dies": 0, "twice": 2}.get(event, 1)):
                deliver(reply, json.dumps(stream.leader(pub)).encode())
            return
        mirrored = stream.kept is not None and draw(st.booleans())
        at_least = 1 if b"multi_last" in pub.payload else 2  # the anchor has room of its own
        most = draw(st.integers(at_least, at_least + 3))
        blocks = stream.page(json.loads(pub.payload), applied(), most, old, mirrored=mirrored)
        arriving = [(reply, block) for block in blocks]
        between()
        at = draw(st.integers(0, len(arriving) - 1))
        if event == "lost":
            late.append(arriving.pop(at))
        elif event == "twice":
            arriving.insert(at, arriving[at])
        elif event == "dies":
            late.extend(arriving[at:])
            del arriving[at:]
        if late and draw(st.booleans()):
            arriving.insert(at, late.pop())
        for where, block in arriving:
            deliver(where, b"x" if b"\r\nNats-Sequence" in block else b"", block)

    for _ in range(400):
        asked = h.published()
        for pub in asked:
            answer(pub)
        while more := read.pop_many(draw(st.integers(1, 5)), h.now):
            got += [message.seq for message in more]
            if not (read.finished or read.error is not None):
                break
        if read.finished or read.error is not None:
            return got
        h.advance(draw(st.sampled_from(pauses)) if asked else max(pauses))
    raise AssertionError("the read does not end")
