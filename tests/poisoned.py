"""The client core at work in an interpreter where everything impure is poisoned: not a test, but what one runs.

    python -I -S tests/poisoned.py CHECKOUT ALLOWED_MODULE...

The clock, entropy, sockets, threads and files raise when they are called, and so does an import by ``jsproto`` of
anything but itself and the modules named. Then a session shakes hands with a scripted server, ingests a batch and reads
it back. The last line printed says how that ended.
"""

from __future__ import annotations

import asyncio
import builtins
import datetime
import importlib
import io
import json
import os
import random
import secrets
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

POISONED: dict[Any, tuple[str, ...]] = {
    time: ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "sleep",
           "localtime", "gmtime", "strftime"),
    os: ("urandom", "getrandom", "getpid", "getenv", "open", "read", "write", "fork", "system"),
    random: ("random", "randint", "randrange", "choice", "getrandbits", "shuffle", "Random", "SystemRandom"),
    secrets: ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits"),
    uuid: ("uuid1", "uuid4"),
    datetime: ("datetime", "date"),
    socket: ("socket", "create_connection", "socketpair", "getaddrinfo"),
    ssl: ("SSLContext", "create_default_context"),
    selectors: ("DefaultSelector", "SelectSelector"),
    asyncio: ("run", "new_event_loop", "get_event_loop", "Event", "Lock", "sleep"),
    threading: ("Thread", "Timer", "Lock", "RLock", "Event", "Condition", "local"),
    subprocess: ("Popen", "run"),
    builtins: ("open", "input"),
    io: ("open",),
}  # fmt: skip


class Poison(BaseException):
    """Something impure was touched. Not an Exception: nobody is to handle it."""


def poison() -> None:
    for module, names in POISONED.items():
        for name in names:
            if hasattr(module, name):
                setattr(module, name, _poisonous(f"{module.__name__}.{name}"))


def _poisonous(name: str) -> Callable[..., NoReturn]:
    def touch(*_: object, **__: object) -> NoReturn:
        raise Poison(f"{name}() was called")

    return touch


def guard_imports(allowed: Sequence[str]) -> None:
    """From here on ``jsproto`` imports only itself and ``allowed``."""
    genuine = builtins.__import__

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        importer = str((globals or {}).get("__name__", ""))
        ours, its = (f"{module}.".startswith("jsproto.") for module in (importer, name))
        if ours and not its and name not in allowed:
            raise Poison(f"{importer} imports {name}")
        return genuine(name, globals, locals, fromlist, level)

    builtins.__import__ = guarded


def expect_poison(action: Callable[[], object]) -> None:
    """The poison works: ``action`` touches it."""
    try:
        action()
    except Poison:
        return
    raise AssertionError("this touched no poison")


def drive() -> int:
    """Handshake, fast ingest, Direct Get; returns how many messages were read back."""
    from jsproto.wire.frames import Pub
    from tests.harness import Harness

    count, stored = 50, list[Pub]()
    h = Harness()
    made = h.js.stream_info("S", now=h.now)
    h.answer(lambda _: {"config": {"name": "S", "subjects": ["e.>"]}, "created": "2026-01-01T00:00:00Z", "state": {}})
    assert made.result().config.name == "S"

    batch = h.js.fast_publisher(flow=10)
    while batch.sequence < count:
        taken = batch.publish_many([("e.a", b"%d" % n) for n in range(batch.sequence, count)], h.now)
        assert taken > 0
        stored += h.published()
        acked = {"type": "ack", "seq": len(stored) if len(stored) > 1 else 0, "msgs": 10}
        h.deliver(stored[-1].reply or b"", json.dumps(acked).encode())
    committed = batch.commit(h.now)
    (last,) = h.published()
    ack = {"stream": "S", "seq": count, "batch": batch.batch_id, "count": count}
    h.deliver(last.reply or b"", json.dumps(ack).encode())
    assert committed.result().count == count

    reader = h.js.get_batch("S", now=h.now)
    (request,) = h.published()
    for seq, pub in enumerate(stored, 1):
        header = (
            f"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: e.a\r\nNats-Sequence: {seq}\r\n"
            f"Nats-Time-Stamp: 2026-11-20T20:36:46.910548879Z\r\nNats-Num-Pending: {count - seq}\r\n"
            f"Nats-Last-Sequence: {seq - 1}\r\n\r\n"
        )
        h.deliver(request.reply or b"", pub.payload, header.encode())
    end = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: {count}\r\n\r\n"
    h.deliver(request.reply or b"", b"", end.encode())
    payloads = [message.data for message in reader.pop_many(1000, h.now)]
    assert payloads == [b"%d" % n for n in range(count)]
    assert reader.finished

    h.advance(1000.0)  # keep-alive: nobody answers its PINGs
    assert h.session.closed
    assert h.session.error is not None
    return len(payloads)


def main(checkout: str, *allowed: str) -> None:
    modules = [
        ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(Path(checkout, "jsproto").rglob("*.py"))
    ]
    sys.path.insert(0, checkout)
    guard_imports(allowed)
    for name in modules:
        importlib.import_module(name)
    importlib.import_module("tests.harness")
    poison()
    expect_poison(time.monotonic)
    expect_poison(lambda: random.Random())
    expect_poison(lambda: exec("from time import monotonic", {"__name__": "jsproto.wire.bad"}))
    count = drive()
    print(f"clean: {len(modules)} modules, {count} messages in and out")


if __name__ == "__main__":
    main(*sys.argv[1:])
