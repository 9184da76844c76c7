"""Pull requests that wait at one consumer: how they are read, served in turn, and ended.

Rules: requests are served round robin, one message each. A request ends

* with its last message,
* when it expires (408),
* when the next message has more bytes than it has left (409),
* when it has ``no_wait`` and got what there was (404),
* without a status, when its reply subject has no subscriber any more.

Which requests may be over is known without a look at each: by their deadlines, by their ``no_wait``, and by patterns
that lost a subscription.

A request for less than one message, or without JSON, asks for one message. JSON of the wrong types is refused with the
text of Go's decoder.

Not here: the messages (``consumer``), requests that have to let others go first (``priority``).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.durations import format_duration
from jsproto.grammar.times import nanoseconds
from jsproto.rules.status import MAX_BATCH, MAX_BYTES, MAX_EXPIRES
from jsproto.server.consume.priority import Priorities, Turn
from jsproto.server.consume.statuses import (
    NO_MESSAGES,
    exceeded,
    message_too_large,
    request_timeout,
    server_shutdown,
    wrong_pin,
)
from jsproto.server.routing import Removals
from jsproto.timers import Deadlines, earliest

_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,18}")
_FIELDS: Final = {
    "expires": "time.Duration", "batch": "int", "max_bytes": "int", "no_wait": "bool",
    "idle_heartbeat": "time.Duration", "group": "string", "min_pending": "int64", "min_ack_pending": "int64",
    "id": "string", "priority": "int",
}  # fmt: skip
_SECOND: Final = 1_000_000_000

SHORTEST_HEARTBEAT: Final = 1_000_000
"""Nanoseconds between two heartbeats, even if a request asks for less, so that time passes."""

SendStatus: TypeAlias = Callable[[str, bytes], None]
"""Sends a status (a header block) to a subject."""


class BadRequestError(ValueError):
    """A pull request that cannot be read. Its text is the server's."""


@dataclass(slots=True, eq=False)
class PullRequest:
    """One request.

    ``batch`` and ``max_bytes`` are what is left of it. One for less than one message gets one.
    ``expires`` and ``heartbeat_at`` are moments, ``heartbeat`` is
    an interval, all in seconds. ``group`` is None when the request was no JSON object. ``id`` is a pinned client's.
    """

    reply: str
    batch: int = 1
    max_bytes: int = 0
    no_wait: bool = False
    expires: float | None = None
    heartbeat: float = 0.0
    heartbeat_at: float | None = None
    group: str | None = None
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0
    delivered: int = 0

    def deadline(self) -> float | None:
        """When it expires, or a heartbeat is due, in seconds. None: neither."""
        return earliest((self.expires, self.heartbeat_at))

    def ends_at_end(self) -> bool:
        """Whether it is over once there is nothing more to deliver."""
        return self.no_wait and (self.delivered > 0 or self.expires is None)


def read_request(reply: str, payload: bytes, now: float) -> PullRequest:
    """The request in ``payload``, whose messages go to ``reply``. ``now``: seconds.

    Raises:
        BadRequestError: the JSON has wrong types, or a heartbeat of more than half of ``expires``.
    """
    text = payload.strip()
    if not text.startswith(b"{"):
        return PullRequest(reply, int(text) if _NUMBER.fullmatch(text) else 1)
    try:
        body = {name.lower(): value for name, value in loads(text).items()}
    except RemoteProtocolError as error:
        raise BadRequestError(str(error)) from None
    values = {name: _value(name, body[name]) for name in _FIELDS if body.get(name) is not None}
    expires, heartbeat = values.get("expires", 0), values.get("idle_heartbeat", 0)
    if heartbeat > 0 and 2 * heartbeat > expires:
        raise BadRequestError("heartbeat value too large")
    pause = max(heartbeat, SHORTEST_HEARTBEAT) / _SECOND if heartbeat > 0 else 0.0
    return PullRequest(
        reply,
        values.get("batch", 0),
        max(0, values.get("max_bytes", 0)),
        values.get("no_wait", False),
        now + expires / _SECOND if expires else None,
        pause,
        now + pause if pause else None,
        values.get("group", ""),
        values.get("min_pending", 0),
        values.get("min_ack_pending", 0),
        values.get("id", ""),
        values.get("priority", 0),
    )


def over_limit(request: PullRequest, config: ConsumerConfig, now: float) -> bytes | None:
    """The status that refuses a new request for more than ``config`` allows. None: it does not."""
    if config.max_batch and request.batch > config.max_batch:
        return exceeded(MAX_BATCH, str(config.max_batch))
    if config.max_expires and request.expires is not None and request.expires > now + config.max_expires:
        return exceeded(MAX_EXPIRES, format_duration(nanoseconds(config.max_expires)))
    if config.max_bytes and request.max_bytes > config.max_bytes:
        return exceeded(MAX_BYTES, str(config.max_bytes))
    return None


def _value(name: str, value: Any) -> Any:
    kind = _FIELDS[name]
    wanted = {"bool": bool, "string": str}.get(kind, int)
    is_wrong = type(value) is not wanted
    if is_wrong or (wanted is int and not -(2**63) <= value < 2**63):
        of_a_number = f" {value}" if wanted is int else ""
        found = {str: "string", bool: "bool", list: "array", dict: "object"}.get(type(value), f"number{of_a_number}")
        raise BadRequestError(f"json: cannot unmarshal {found} into Go struct field .{name} of type {kind}")
    return value


class PullRequests:
    """The requests that wait, the next one first. ``limit``: how many may wait."""

    __slots__ = (
        "_deadlines",
        "_has_interest",
        "_has_lost",
        "_hurried",
        "_priorities",
        "_removals",
        "_replies",
        "_seen",
        "_send",
        "_waiting",
        "limit",
    )  # fmt: skip

    def __init__(
        self,
        limit: int,
        send: SendStatus,
        has_interest: Callable[[str], bool],
        removals: Removals,
        priorities: Priorities,
    ) -> None:
        """``send`` sends a status to a subject. ``has_interest`` says whether a subject has a subscriber.

        ``removals``: which patterns lost one.
        """
        self.limit = limit
        self._priorities = priorities
        self._send = send
        self._has_interest = has_interest
        self._waiting: deque[PullRequest] = deque()
        self._deadlines: Deadlines[PullRequest] = Deadlines()
        self._replies: Counter[str] = Counter()
        self._hurried: set[PullRequest] = set()  # those of which ``ends_at_end`` is true
        self._removals = removals
        self._seen = removals.count
        self._has_lost = False  # whether one may have lost its subscriber among the removals that were seen

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= self.limit

    @property
    def messages(self) -> int:
        """How many messages all of them still ask for."""
        return sum(request.batch for request in self._waiting)

    def add(self, request: PullRequest) -> None:
        """Let one more wait. The caller has looked at ``is_full``."""
        self._replies[request.reply] += 1
        self._has_lost = self._has_lost or not self._has_interest(request.reply)
        self._deadlines.set(request, request.deadline())
        if request.ends_at_end():
            self._hurried.add(request)
        self._insert(request)

    def _insert(self, request: PullRequest) -> None:
        rank, waiting = self._priorities.rank(request), self._waiting
        place = len(waiting)
        while place and self._priorities.rank(waiting[place - 1]) > rank:
            place -= 1
        waiting.insert(place, request)

    def take(self, size: int, pending: int, unacked: int, now: float) -> PullRequest | None:
        """Choose the request that gets the next message, of ``size`` bytes, and count it there. None: there is none.

        ``pending`` messages, this one included, wait for their delivery, ``unacked`` ones for their acknowledgement.
        Requests that end on the way get their status.
        """
        for _ in range(len(self._waiting)):
            request = self._waiting.popleft()
            if request.expires is not None and request.expires <= now:
                self._expired(request)
            elif (turn := self._priorities.turn(request, pending, unacked)) is Turn.STRANGER:
                self._send(request.reply, wrong_pin(request.batch, request.max_bytes))
            elif turn is Turn.WAITS:
                self._waiting.append(request)
                continue
            elif 0 < request.max_bytes < size:
                self._send(request.reply, message_too_large(request.batch, request.max_bytes))
            elif self._has_interest(request.reply):
                self._priorities.takes(request, now)
                if size == request.max_bytes:
                    request.batch = 1  # exactly used up: the last message, without a status
                request.max_bytes -= min(size, request.max_bytes)
                request.batch -= 1
                request.delivered += 1
                if request.batch <= 0:
                    self._forget(request)
                    return request
                if request.heartbeat_at is not None:
                    self._put_off_heartbeat(request, now)
                if request.no_wait:
                    self._hurried.add(request)
                self._insert(request)
                return request
            self._forget(request)
        return None

    def tidy(self, now: float, heartbeat: Callable[[], bytes], *, at_end: bool) -> int:
        """End the requests that are over, and send the heartbeats that are due. Returns how many ended.

        ``heartbeat`` makes the status. ``at_end``: there is nothing more to deliver. That ends requests with
        ``no_wait``, except those that have ``expires`` and wait for their first message.
        """
        due = self.deadline()
        is_due = due is not None and due <= now
        has_lost = self._has_lost or self._removals.may_reach(self._replies, self._seen)
        self._seen, self._has_lost = self._removals.count, False
        if not (is_due or has_lost or (at_end and self._hurried)):
            return 0
        kept: deque[PullRequest] = deque()
        for request in self._waiting:
            if request.expires is not None and request.expires <= now:
                self._expired(request)
            elif at_end and request.ends_at_end():
                self._send(request.reply, NO_MESSAGES)
            elif not has_lost or self._has_interest(request.reply):
                if request.heartbeat_at is not None and request.heartbeat_at <= now:
                    self._send(request.reply, heartbeat())
                    self._put_off_heartbeat(request, now)
                kept.append(request)
                continue
            self._forget(request)
        ended = len(self._waiting) - len(kept)
        self._waiting = kept
        return ended

    def end(self, status: bytes) -> None:
        """End all requests with ``status``."""
        self._end_all(lambda request: status)

    def shut_down(self) -> None:
        """End all requests, because the server ends."""
        self._end_all(lambda request: server_shutdown(request.batch, request.max_bytes))

    def deadline(self) -> float | None:
        """When the next request expires, or its heartbeat is due, in seconds. None: never."""
        return self._deadlines.next()

    def _end_all(self, status: Callable[[PullRequest], bytes]) -> None:
        for request in self._waiting:
            self._send(request.reply, status(request))
            self._forget(request)
        self._waiting.clear()

    def _forget(self, request: PullRequest) -> None:
        """It waits no more."""
        self._deadlines.set(request, None)
        self._hurried.discard(request)
        self._replies[request.reply] -= 1
        if not self._replies[request.reply]:
            del self._replies[request.reply]

    def _put_off_heartbeat(self, request: PullRequest, now: float) -> None:
        request.heartbeat_at = now + request.heartbeat
        self._deadlines.set(request, request.deadline())

    def _expired(self, request: PullRequest) -> None:
        self._send(request.reply, request_timeout(request.batch, request.max_bytes))
