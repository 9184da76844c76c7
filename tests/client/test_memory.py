"""Whatever a peer sends, and however much of it: a client that is driven as it should be keeps no more for it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest

from jsproto.grammar.subjects import matches
from jsproto.wire.frames import Pub
from tests.harness import Harness
from tests.marks import promise

FEW: Final = 200
MANY: Final = 900
ROOM: Final = 18_000  # bytes for 700 frames more: one for each, of whatever kind, takes more
CHUNK: Final = 100


def line(text: str) -> Callable[[int], bytes]:
    return lambda n: text.replace("%n", str(n)).encode() + b"\r\n"


LINES: Final[dict[str, Callable[[int], bytes]]] = {
    "errors": line("-ERR 'what %n'"),
    "publishing is not permitted": line("-ERR 'Permissions Violation for Publish to \"a.%n\"'"),
    "subscribing is not permitted": line("-ERR 'Permissions Violation for Subscription to \"a.%n\"'"),
    "servers": line('INFO {"server_id":"A","version":"2.15.1","max_payload":1048576,"connect_urls":["h%n:4222"]}'),
    "pings": line("PING"),
    "pongs": line("PONG"),
    "messages for nobody": line("MSG a.%n 9999 0\r\n"),
}
ANSWERS: Final[dict[str, str]] = {
    "nothing": "",
    "junk": "junk %n",
    "an acknowledgement": '{"stream":"S","seq":%n}',
    "an error": '{"error":{"code":400,"err_code":10%n,"description":"no %n"}}',
    "flow": '{"type":"ack","seq":%n,"msgs":10}',
    "gaps": '{"type":"gap","last_seq":%n,"seq":1%n}',
    "refusals": '{"type":"err","seq":%n,"error":{"code":400,"err_code":10000,"description":"no"}}',
}
WAITING: Final[dict[str, Callable[[Harness], Any]]] = {
    "request": lambda h: h.session.request("a", now=h.now, timeout=1e6),
    "publisher": lambda h: h.js.async_publisher(timeout=1e6).publish_many([("s", b"")] * 9, h.now),
    "fast batch": lambda h: h.js.fast_publisher(gap="ok").publish_many([("s", b"")] * 9, h.now),
    "atomic batch": lambda h: h.js.atomic_batch().add("s", now=h.now),
    "page": lambda h: h.js.get_batch("S", now=h.now),
    "advisories": lambda h: h.js.batch_advisories("S"),
}


def kept(waiting: str, frames: Callable[[Harness], Callable[[int], bytes]], count: int) -> int:
    """Bytes that a client has more after so many frames."""
    harness = Harness()
    machine = WAITING[waiting](harness)
    harness.session.flush()
    harness.drain()
    frame = frames(harness)
    session = harness.session
    gc.freeze()  # what the process has besides is not looked through
    tracemalloc.start()
    for start in range(0, count, CHUNK):
        session.receive_data(b"".join(frame(n) for n in range(start, start + CHUNK)), harness.now)
        if session.wants_send(harness.now):
            session.data_to_send()
        session.take_completed()
        session.events()
    gc.collect()
    more, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gc.unfreeze()
    del machine
    return more


@promise("Memory is bounded whatever the peer sends.")
@pytest.mark.parametrize("lines", LINES)
def test_lines(lines: str) -> None:
    few, many = (kept("request", lambda harness: LINES[lines], count) for count in (FEW, MANY))
    assert many - few < ROOM


@promise("Memory is bounded whatever the peer sends.")
@pytest.mark.parametrize(("waiting", "answer", "is_forged"), [*product(WAITING, ANSWERS, (False, True))])
def test_answers(waiting: str, answer: str, is_forged: bool) -> None:
    """Again and again to what is awaited, or to what nobody asked."""

    def frames(harness: Harness) -> Callable[[int], bytes]:
        sid, pattern = [*harness.subs.items()][-1]
        asked = [frame.reply for frame in harness.frames if isinstance(frame, Pub) and frame.reply]
        subjects = [reply for reply in asked if matches(pattern.decode(), reply.decode())] or [pattern]

        def frame(n: int) -> bytes:
            subject = b"%s.%d" % (subjects[-1].rpartition(b".")[0], n) if is_forged else subjects[-1]
            payload = ANSWERS[answer].replace("%n", str(n)).encode()
            return b"MSG %s %s %d\r\n%s\r\n" % (subject, sid, len(payload), payload)

        return frame

    few, many = (kept(waiting, frames, count) for count in (FEW, MANY))
    assert many - few < ROOM
