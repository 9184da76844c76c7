"""One fetch: how many messages and bytes it wants, what it has got, when it ends, and whether it asks again.

Rules:

* A fetch ends when it has its batch, when its request ends, or at its time.
* A request that ended for a passing reason is made again after a pause, if the fetch still has time for it.
* Silence may pass: a consumer is leaderless in an election. ``pull`` checks that it exists.
* A fetch that takes what is there makes a second request only after a change of the pinned client.

Not here: several fetches of one consumer (``fetch_queue``), requests and their accounts (``pull_requests``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from jsproto.backoff import Backoff
from jsproto.client.connection.message_buffer import MessageBuffer
from jsproto.client.consume.consume_options import FetchOptions
from jsproto.client.consume.heartbeats import DEFAULT_HEARTBEAT, HEARTBEAT_FROM
from jsproto.client.consume.pull_requests import ANSWER_GRACE, wire_size
from jsproto.client.consume.retry import fetch_backoff
from jsproto.errors import Error, LocalProtocolError, NoRespondersError
from jsproto.grammar.fields import check_count
from jsproto.grammar.options import checked
from jsproto.grammar.times import MAX_SECONDS, nanoseconds, seconds
from jsproto.rules.status import ConsumerStatus, Meaning
from jsproto.ticket import Ticket
from jsproto.wire.frames import RawMsg

MIN_EXPIRES: Final = 0.001  # seconds, in a request that is made again at the end of a fetch
_NO_OPTIONS: Final[FetchOptions] = {}
_DEFAULTS: Final = checked(FetchOptions, _NO_OPTIONS)


class Fetch:
    """One fetch. ``done`` completes when it is time to ``PullConsumer.take`` its messages, or fails.

    Attributes:

    * ``batch``: messages that it wants.
    * ``missing``: how many of them have yet to come.
    * ``raws``: what has come, to look at.
    * ``no_wait``: whether it takes only what is there already.
    * ``heartbeat``: seconds between the server's signs of life. 0 turns them off.
    * ``reply``: the reply subject of its request under way, or None.
    * ``refusal``: why its last request ended, if it was made again.
    * ``lost_at``: monotonic seconds at which an unanswered request was lost.
    """

    __slots__ = (
        "_backoff", "_expires_at", "_max_bytes", "batch", "done", "heartbeat", "lost_at", "missing", "no_wait", "raws",
        "refusal", "reply",
    )  # fmt: skip

    def __init__(
        self, batch: int, max_bytes: int | None, heartbeat: float, no_wait: bool, expires_at: float, lost_at: float
    ) -> None:
        """``max_bytes``: None for any number. ``expires_at`` and ``lost_at``: monotonic seconds.

        Raises:
            LocalProtocolError: ``batch`` or ``max_bytes`` is less than 1.
        """
        if type(batch) is not int or batch < 1:
            check_count("batch", batch)
        if max_bytes is not None:
            check_count("max_bytes", max_bytes)
        self.done: Ticket[None] = Ticket()
        self.batch = batch
        self.missing = batch
        self.raws: list[RawMsg] = []
        self.no_wait = no_wait
        self.heartbeat = heartbeat
        self.reply: bytes | None = None
        self.refusal: Error | None = None
        self.lost_at = lost_at
        self._max_bytes = max_bytes
        self._expires_at = expires_at
        self._backoff: Backoff | None = None  # made with the first refusal: most fetches see none

    @classmethod
    def waiting(cls, batch: int, expires: float, now: float, options: FetchOptions = _NO_OPTIONS) -> Fetch:
        """A fetch for which the server waits ``expires`` seconds (``PullConsumer.fetch``).

        Raises:
            LocalProtocolError: a value is out of range.
        """
        asked = checked(FetchOptions, options) if options else _DEFAULTS
        if not 0 < expires <= MAX_SECONDS:
            raise LocalProtocolError(f"a fetch must expire after some seconds, not {expires!r}")
        heartbeat = asked["heartbeat"]
        beat = seconds(heartbeat, default=DEFAULT_HEARTBEAT if expires >= HEARTBEAT_FROM else 0.0)
        if beat > expires / 2:
            raise LocalProtocolError(f"heartbeats must come twice in {expires:g} s at least, not each {heartbeat!r}")
        ends_at = now + expires
        return cls(batch, asked["max_bytes"], beat, False, ends_at, ends_at + ANSWER_GRACE)

    @classmethod
    def immediate(cls, batch: int, max_bytes: int | None, patience: float, now: float) -> Fetch:
        """A fetch of what is there, over after ``patience`` seconds (``PullConsumer.fetch_no_wait``).

        Raises:
            LocalProtocolError: a value is out of range.
        """
        if not patience > 0:
            raise LocalProtocolError(f"patience must be greater than 0, not {patience!r}")
        return cls(batch, max_bytes, 0.0, True, now + patience, now + patience)

    @property
    def room(self) -> int | None:
        """Bytes that may still come. None when bytes are free."""
        return None if self._max_bytes is None else self._max_bytes - wire_size(self.raws)

    @property
    def ends_at(self) -> float:
        """Monotonic seconds of its end. With a request under way it waits ``ANSWER_GRACE`` longer for the answer."""
        return self._expires_at if self.reply is None else self.lost_at

    # -- messages ------------------------------------------------------------------------------------------------------

    def add(self, raws: Sequence[RawMsg]) -> bool:
        """Keep these messages. Whether the batch is complete."""
        self.raws += raws
        self.missing -= len(raws)
        return not self.missing

    def add_from(self, buffer: MessageBuffer) -> bool:
        """Move what it wants, and has room for, from ``buffer``. Whether the batch is complete."""
        most, room = self.missing, self.room
        if room is not None:
            for count, raw in enumerate(islice(buffer.raws, most)):
                room -= wire_size((raw,))
                if room < 0:
                    most = count
                    break
        return self.add(buffer.take(most))

    def take(self) -> list[RawMsg]:
        """Its messages, to be taken once."""
        raws, self.raws = self.raws, []
        return raws

    # -- requests ------------------------------------------------------------------------------------------------------

    def may_ask(self, now: float) -> bool:
        """Whether it has time for a request."""
        return self.no_wait or now < self._expires_at

    def request(self, now: float) -> dict[str, Any]:
        """The body of a pull request for what is missing."""
        body: dict[str, Any] = {"batch": self.missing}
        if self.no_wait:
            body["no_wait"] = True
        else:
            left = self._expires_at - now
            body["expires"] = nanoseconds(max(left, MIN_EXPIRES))
            if self.heartbeat and 2 * self.heartbeat <= left:
                body["idle_heartbeat"] = nanoseconds(self.heartbeat)
        room = self.room
        if room is not None:
            body["max_bytes"] = max(room, 1)
        return body

    def refused(self, status: ConsumerStatus, now: float) -> float | None:
        """Its request ended with ``status``: seconds until the next one, or None if it was the last."""
        passes = status.meaning is Meaning.RETRY or type(status.error) is NoRespondersError
        if not passes or self.no_wait:
            return None
        backoff = self._backoff = self._backoff or fetch_backoff()
        if now + backoff.next_pause >= self._expires_at:
            return None
        self.refusal = status.error
        return backoff.failed(now)
