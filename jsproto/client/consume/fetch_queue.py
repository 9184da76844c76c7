"""The fetches of one consumer that are under way. What comes is for the first of them.

Rules:

* Every fetch ends: by its last message, by a status, by an error, or at its time.
* A fetch that has got something returns it. The error comes with the next fetch.
* An empty fetch is a success.
* A fetch between requests asks again, as long as it has time.

Not here: one fetch (``fetch``), the ledger of requests (``pull_requests``), the end of its time (``pull``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from jsproto.client.connection.message_buffer import MessageBuffer
from jsproto.client.consume.fetch import Fetch
from jsproto.client.consume.pull_requests import PullRequest, PullRequests
from jsproto.client.consume.retry import PULL_ROOM
from jsproto.errors import Error, LocalProtocolError, OutboundBufferLimitError
from jsproto.outbox import Outbox
from jsproto.rules.status import ConsumerStatus, Meaning
from jsproto.timers import Timer, Timers


class FetchQueue:
    """Fetches, oldest first. Attributes: ``first`` (the fetch that what comes is for, or None)."""

    __slots__ = ("_fetches", "_outbox", "_requests", "_timers", "first")

    def __init__(self, outbox: Outbox, requests: PullRequests, timers: Timers) -> None:
        """The queue arms ``Timer.PULL_AGAIN`` of ``timers``, and disarms all timers when its last fetch ends."""
        self.first: Fetch | None = None
        self._fetches: deque[Fetch] = deque()
        self._outbox = outbox
        self._requests = requests
        self._timers = timers

    def __len__(self) -> int:
        return len(self._fetches)

    def __iter__(self) -> Iterator[Fetch]:
        return iter(self._fetches)

    @property
    def heartbeat(self) -> float:
        """Seconds between the heartbeats that are due now, the least of all fetches. 0 when heartbeats are off."""
        beats = [fetch.heartbeat for fetch in self._fetches if fetch.heartbeat and fetch.reply is not None]
        return min(beats, default=0.0)

    # -- asking --------------------------------------------------------------------------------------------------------

    def append(self, fetch: Fetch, now: float) -> None:
        """Ask for what ``fetch`` misses, and let it wait for that. Between links the request waits.

        Raises:
            OutboundBufferLimitError: the outbox has no room.
            LocalProtocolError: the request cannot be sent at all.
        """
        if self._requests.linked:
            self._request(fetch, now)
        self._fetches.append(fetch)
        self.first = self._fetches[0]

    def request_missing(self, now: float) -> None:
        """Make a request for each fetch between requests."""
        for fetch in [fetch for fetch in self._fetches if fetch.reply is None and fetch.may_ask(now)]:
            try:
                self._request(fetch, now)
            except OutboundBufferLimitError:
                self._timers.set(Timer.PULL_AGAIN, now + PULL_ROOM)
            except LocalProtocolError as error:
                self.end(fetch, error)

    def _request(self, fetch: Fetch, now: float) -> None:
        self._requests.make_room(now)
        body = fetch.request(now)
        heartbeat = fetch.heartbeat if "idle_heartbeat" in body else 0.0
        fetch.reply = self._requests.send(body, fetch.lost_at, now=now, heartbeat=heartbeat, fetch=fetch)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def request_ended(self, fetch: Fetch, request: PullRequest, status: ConsumerStatus, now: float) -> bool:
        """``status`` has ended the request of ``fetch``. Whether it is made again after a pause."""
        fetch.reply = None
        if fetch.done.done:
            return False
        if self._requests.lost_pin(request, status) and fetch.may_ask(now):
            self.request_missing(now)
            return False
        pause = fetch.refused(status, now)
        if pause is not None:
            self._timers.set(Timer.PULL_AGAIN, now + pause)
            return True
        if status.meaning is Meaning.HIDDEN:
            self.finish(fetch)
        else:
            self.end(fetch, status.error)
        return False

    def pinned(self, now: float) -> None:
        """The consumer has pinned this client under another id: repeat the requests that lack it.

        The first request was the one that was served. A server lets those that lack the id wait.
        """
        waiting = [(fetch, fetch.reply) for fetch in self._fetches if fetch.reply in self._requests][1:]
        for fetch, reply in waiting:
            assert reply is not None  # it is in the ledger
            self._requests.withdraw(reply)
            fetch.reply = None
        if waiting:
            self.request_missing(now)

    def link_lost(self) -> None:
        """The requests are lost."""
        for fetch in self._fetches:
            fetch.reply = None

    def silent(self, error: Error) -> None:
        """Heartbeats are overdue: end the fetches that expect some."""
        for fetch in [fetch for fetch in self._fetches if fetch.heartbeat]:
            self.end(fetch, error)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def finish(self, fetch: Fetch) -> None:
        """End ``fetch`` well."""
        self.remove(fetch)
        fetch.done.succeed(None)
        self._outbox.completed(fetch.done)

    def end(self, fetch: Fetch, error: Error) -> None:
        """End ``fetch``: well if it has got something, else with ``error``."""
        if fetch.raws:
            self.finish(fetch)
            return
        self.remove(fetch)
        fetch.done.fail(error)
        self._outbox.completed(fetch.done)

    def end_all(self, error: Error) -> None:
        """End all fetches."""
        for fetch in [*self._fetches]:
            self.end(fetch, error)

    def remove(self, fetch: Fetch) -> None:
        """Take ``fetch`` out. Its ticket is the caller's business."""
        self._fetches.remove(fetch)
        self.first = self._fetches[0] if self._fetches else None
        if not self._fetches:
            self._timers.clear()

    def fill_first(self, buffer: MessageBuffer) -> None:
        """Give what ``buffer`` holds to the fetches, oldest first."""
        while buffer and (first := self.first) is not None:
            if not first.add_from(buffer):
                break
            self.finish(first)
