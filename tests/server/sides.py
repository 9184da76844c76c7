"""The same steps on the server role and on a real server: what each says is compared.

A step waits for what it brings about: on the role simulated time passes, on a real server the time of the machine.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final, Protocol

from jsproto.grammar.bodies import dumps, loads
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.wire.encoder import encode_pub, encode_sub
from jsproto_io.sync import Connection
from tests.server.harness import Reader

PATIENCE: Final = 60.0  # seconds
_TIMES: Final = frozenset({"created", "ts", "last_active", "first_ts", "last_ts", "deliver_subject", "id"})


class Side(Protocol):
    """A server to ask."""

    def api(self, verb: str, body: Any = b"") -> Any:
        """The answer to a request."""

    def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message to a stream."""

    def ask(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        """The answer to a message to any subject."""

    def send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, reply: str | None = None
    ) -> None:
        """Publish a message, and read no answer."""

    def wait(self, seconds: float) -> None:
        """So much time passes."""

    def listen(self, subject: str, queue: str | None = None) -> None:
        """Subscribe, and read nothing."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until ``condition`` holds."""


class OnTheRole:
    """The server role, in simulated time."""

    def __init__(self, **options: Any) -> None:
        self.reader = Reader(**options)
        self._sids = 0

    def api(self, verb: str, body: Any = b"") -> Any:
        return self.reader.api(verb, body)

    def publish(self, subject: str, payload: bytes) -> None:
        self.reader.store(subject, payload)

    def ask(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        block = None if headers is None else encode_headers(headers)
        ((answer),) = self.reader.say(encode_pub(subject.encode(), b"i", block, payload))
        return loads(answer.payload)

    def send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, reply: str | None = None
    ) -> None:
        block = None if headers is None else encode_headers(headers)
        self.reader.say(encode_pub(subject.encode(), None if reply is None else reply.encode(), block, payload))

    def listen(self, subject: str, queue: str | None = None) -> None:
        self._sids += 1
        group = None if queue is None else queue.encode()
        self.reader.say(encode_sub(subject.encode(), group, b"s%d" % self._sids))

    def until(self, condition: Callable[[], bool]) -> None:
        server, end = self.reader.server, self.reader.now + PATIENCE
        while not condition():
            when = server.deadline()
            assert when is not None, "nothing is ever due"
            assert when < end, "it never happens"
            self.pass_time(when)

    def pass_time(self, when: float) -> None:
        self.reader.now = max(self.reader.now, when)
        self.reader.server.handle_timeout(self.reader.now)

    def wait(self, seconds: float) -> None:
        """So much time passes, deadline by deadline."""
        end = self.reader.now + seconds
        while (when := self.reader.server.deadline()) is not None and when <= end:
            self.pass_time(when)
        self.pass_time(end)


class OnARealServer:
    """A real server behind a connection."""

    def __init__(self, nc: Connection) -> None:
        self.nc = nc
        self._subscriptions: list[Any] = []  # they end when nobody holds them

    def api(self, verb: str, body: Any = b"") -> Any:
        answer = loads(self.nc.request(f"$JS.API.{verb}", body if isinstance(body, bytes) else dumps(body)).data)
        return {name: value for name, value in answer.items() if name != "type"}

    def publish(self, subject: str, payload: bytes) -> None:
        self.nc.request(subject, payload)

    def ask(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> Any:
        return loads(self.nc.request(subject, payload, headers=headers).data)

    def send(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, reply: str | None = None
    ) -> None:
        self.nc.publish(subject, payload, headers=headers, reply=reply)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def listen(self, subject: str, queue: str | None = None) -> None:
        self._subscriptions.append(self.nc.subscribe(subject, queue=queue))
        self.nc.flush()

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it never happens"
            time.sleep(0.01)


def messages(side: Side, name: str) -> int:
    """How many messages a stream has."""
    count: int = side.api(f"STREAM.INFO.{name}")["state"]["messages"]
    return count


def copies(side: Side, name: str = "T") -> list[tuple[int, str, bytes, str]]:
    """Sequence, subject, payload and origin of each message, without the identity of the origin."""
    found: list[tuple[int, str, bytes, str]] = []
    for seq in range(1, side.api(f"STREAM.INFO.{name}")["state"]["last_seq"] + 1):
        answer = side.api(f"STREAM.MSG.GET.{name}", {"seq": seq})
        if "message" in answer:
            one = answer["message"]
            headers = Headers.parse(b64decode(one.get("hdrs", "")) or b"NATS/1.0\r\n\r\n")
            origin = " ".join((headers.get("Nats-Stream-Source") or "").split(" ")[:5])
            found.append((seq, one["subject"], b64decode(one.get("data", "")), origin))
    return found


def consumers(side: Side, name: str) -> list[dict[str, Any]]:
    """What is said of the consumers of a stream, without times and without what is random.

    The last sequence is left out where there is a filter: servers pass messages over later.
    """
    found: list[dict[str, Any]] = side.api(f"CONSUMER.LIST.{name}")["consumers"]
    for one in found:
        if "filter_subject" in one["config"] or "filter_subjects" in one["config"]:
            del one["delivered"]["stream_seq"]
    return [without_times(one) for one in found]


def without_times(body: Any) -> Any:
    if isinstance(body, list):
        return [without_times(one) for one in body]
    if not isinstance(body, dict):
        return body
    return {name: without_times(value) for name, value in body.items() if name not in _TIMES}


def sources(side: Side, name: str = "T") -> list[dict[str, Any]]:
    """What is said of the sources, or of the mirror, without the time."""
    info = side.api(f"STREAM.INFO.{name}")
    found = info.get("sources") or [info["mirror"]]
    said = [{**source, "active": source["active"] >= 0} for source in found]
    return sorted(said, key=lambda source: (source["name"], str(source.get("filter_subject"))))
