"""A stream in a few lines, and replicas of it that answer Direct Gets: behind, dying in the middle, or twice.

The model against which reads are checked; what it answers is what released servers answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from jsproto.client.direct import DirectBatch
from jsproto.grammar.subjects import matches
from jsproto.wire.frames import Pub
from tests.harness import Harness

NOT_FOUND = b"NATS/1.0 404 Message Not Found\r\n\r\n"
TIME = "2026-11-20T20:36:46.910548879Z"
DIRECT = b"$JS.API.DIRECT.GET.DG"
EVENTS: Final = ("fine", "fine", "fine", "lost", "twice", "dies")


class Stream:
    """Messages by sequence, in order; only their subjects matter."""

    def __init__(self, subjects: list[str]) -> None:
        self.messages = dict(enumerate(subjects, 1))
        self.last_seq = len(subjects)
        self.while_listing: Callable[[], None] = lambda: None

    def add(self, subject: str) -> None:
        self.last_seq += 1
        self.messages[self.last_seq] = subject

    def last_of_each(self, patterns: list[str], up_to: int, applied: int | None = None) -> list[int]:
        """Sequences, as a replica sees them that has ``applied`` all up to there."""
        until = up_to if applied is None else min(up_to, applied)
        last = {subject: seq for seq, subject in self.messages.items() if seq <= until}
        exact, wild = set(patterns), [pattern for pattern in patterns if "*" in pattern or ">" in pattern]
        return sorted(
            seq for subject, seq in last.items() if subject in exact or any(matches(p, subject) for p in wild)
        )

    def select(self, request: dict[str, Any], applied: int) -> list[int]:
        """What matches a request, from its lower bound on."""
        first = request.get("seq", 1)
        if "multi_last" in request:
            found = self.last_of_each(request["multi_last"], request.get("up_to_seq", applied), applied)
        else:
            pattern = request.get("next_by_subj", ">")
            found = [seq for seq, subject in self.messages.items() if seq <= applied and matches(pattern, subject)]
        return [seq for seq in found if seq >= first]

    def page(self, request: dict[str, Any], applied: int, most: int, old: bool) -> list[bytes]:
        """The header blocks of an answer; ``most`` messages fit into max_bytes; ``old``: as 2.11 counts."""
        found = self.select(request, applied)
        if not found:
            return [NOT_FOUND]
        multi = "multi_last" in request
        sent = found[: min(most if "max_bytes" in request else len(found), request.get("batch", len(found)))]
        blocks, last = [], 0
        for n, seq in enumerate(sent, 1):
            pending = len(found) - n + (old and not multi)
            blocks.append(
                f"NATS/1.0\r\nNats-Stream: DG\r\nNats-Subject: {self.messages[seq]}\r\nNats-Sequence: {seq}\r\n"
                f"Nats-Time-Stamp: {TIME}\r\nNats-Num-Pending: {pending}\r\nNats-Last-Sequence: {last}\r\n\r\n".encode()
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
        if pub.subject == b"$JS.API.STREAM.INFO.DG":
            state: dict[str, Any] = {"first_seq": min(self.messages, default=self.last_seq + 1),
                                     "last_seq": self.last_seq, "messages": len(self.messages)}  # fmt: skip
            body: dict[str, Any] = {"config": {"name": "DG"}, "created": TIME, "state": state}
            if (pattern := request.get("subjects_filter")) is not None:
                self.while_listing()  # the state is from before
                found = {subject for subject in self.messages.values() if matches(pattern, subject)}
                state["subjects"] = dict.fromkeys(sorted(found)[request["offset"] :][:LISTED], 1)
                body["total"] = len(found)
            return body
        assert pub.subject == b"$JS.API.STREAM.MSG.GET.DG"
        assert request["next_by_subj"] == ">"
        seq = min((seq for seq in self.messages if seq >= request["seq"]), default=None)
        if seq is None:
            return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
        return {"message": {"subject": self.messages[seq], "seq": seq, "time": TIME}}


LISTED = 7
"""Subjects that the leader lists at once."""


def read_through(
    h: Harness,
    stream: Stream,
    read: DirectBatch,
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
    for _ in range(400):
        asked = h.published()
        for pub in asked:
            reply = pub.reply or b""
            if pub.subject != DIRECT:
                h.deliver(reply, json.dumps(stream.leader(pub)).encode())
                continue
            blocks = stream.page(json.loads(pub.payload), applied(), draw(st.integers(1, 4)), old)
            arriving = [(reply, block) for block in blocks]
            between()
            at = draw(st.integers(0, len(arriving) - 1))
            event = draw(st.sampled_from(events))
            if event == "lost":
                late.append(arriving.pop(at))
            elif event == "twice":
                arriving.insert(at, arriving[at])
            elif event == "dies":
                late += arriving[at:]
                del arriving[at:]
            if late and draw(st.booleans()):
                arriving.insert(at, late.pop())
            for where, block in arriving:
                if not read.finished and read.error is None and where:
                    h.deliver(where, b"x", block) if b"204 EOB" not in block else h.deliver(where, b"", block)
        got += [message.seq for message in read.pop_many(draw(st.integers(1, 5)), h.now)]
        if (read.finished or read.error is not None) and not read._ready:
            return got
        h.advance(draw(st.sampled_from(pauses)) if asked else max(pauses))
    raise AssertionError("the read does not end")
