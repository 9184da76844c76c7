"""Priority groups of a pull consumer: which waiting request may have the next message.

Rules, by policy:

* ``overflow``: a request may wait until a number of messages is pending, or unacknowledged.
* ``pinned_client``: one client gets all messages. It is the first whose request is served while none is pinned.
  Its messages carry an id, which its further requests repeat. It stays pinned until an API request unpins it, or until
  it has made no request for ``priority_timeout``. A request with another id is refused: at once while a client is
  pinned, otherwise with the next message.
* ``prioritized``: a lower number goes first. Requests of equal numbers take turns.

A request that is no JSON object has no group, and is served all the same, as by nats-server.

Not here: the requests themselves (``pull_requests``), which configurations are allowed (``settings``). Like
nats-server this pins one client of a consumer, not one of each of its groups.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from jsproto.grammar.consumer import ConsumerConfig, PriorityGroup
from jsproto.grammar.headers import appended
from jsproto.server.consume.advisories import Advisories
from jsproto.server.store.context import ServerContext

if TYPE_CHECKING:
    from jsproto.server.consume.pull_requests import PullRequest

LEAST: Final = 9  # the last of the priorities
_NONE: Final = LEAST + 1  # after all that have one


class Turn(Enum):
    """What becomes of the request that is first in the queue."""

    TAKES = "it gets the message"
    WAITS = "it waits for more pending messages, or until no other client is pinned"
    STRANGER = "it ends, because it says the id of a client that is no longer pinned"


class Priorities:
    """The priority groups of one consumer. ``pin`` is the id of the pinned client, else None."""

    __slots__ = ("_advisories", "_context", "_group", "_pinned_at", "_until", "config", "pin")

    def __init__(self, config: ConsumerConfig, advisories: Advisories, context: ServerContext) -> None:
        """No client is pinned. ``context`` makes the ids of pins."""
        self.config = config
        self.pin: str | None = None
        self._advisories = advisories
        self._context = context
        self._group = ""
        self._pinned_at: float | None = None
        self._until: float | None = None

    @property
    def _pins(self) -> bool:
        return self.config.priority_policy == "pinned_client"

    # -- a request -----------------------------------------------------------------------------------------------------

    def refusal(self, request: PullRequest) -> str | None:
        """Why the consumer cannot serve the request, in nats-server's words. None: it can."""
        policy, groups = self.config.priority_policy, self.config.priority_groups or ()
        if request.group is None:
            return None
        if (request.min_pending or request.min_ack_pending) and policy != "overflow":
            return "Not a Overflow Priority consumer"
        if request.id and policy != "pinned_client":
            return "Not a Pinned Client Priority consumer"
        if not 0 <= request.priority <= LEAST:
            return f"Priority must be between 0 and {LEAST}"
        if policy is None:
            return None
        if not request.group:
            return "Priority Group missing"
        return None if request.group in groups else "Invalid Priority Group"

    def is_stranger(self, request: PullRequest, now: float) -> bool:
        """Whether a new request says another id than the pinned client's. The pinned client's renews its pin."""
        if self.pin is None or not request.id:
            return False
        if request.id != self.pin:
            return True
        self._keep(now)
        return False

    def rank(self, request: PullRequest) -> int:
        """The request's place: lower ranks are served first."""
        if self.config.priority_policy != "prioritized":
            return 0
        return _NONE if request.group is None else request.priority

    def turn(self, request: PullRequest, pending: int, unacked: int) -> Turn:
        """Whether the request may have the next message.

        ``pending`` messages wait for their delivery, ``unacked`` ones for their acknowledgement.
        """
        if request.id:
            return Turn.TAKES if request.id == self.pin else Turn.STRANGER
        if self.pin is not None:
            return Turn.WAITS
        if not (request.min_pending or request.min_ack_pending):
            return Turn.TAKES
        is_long = 0 < request.min_pending <= pending or 0 < request.min_ack_pending <= unacked
        return Turn.TAKES if is_long else Turn.WAITS

    def takes(self, request: PullRequest, now: float) -> None:
        """The request gets the next message. Its client is pinned if the policy says so and none is pinned."""
        if not self._pins or self.pin is not None or not request.group:
            return
        request.id = self.pin = self._context.next_id()
        self._group = request.group
        self._pinned_at = now
        self._keep(now)
        self._advisories.pinned(request.group, self.pin, now)

    def marked(self, header: bytes | None) -> bytes | None:
        """The header block of a message, with the id of the pinned client added under that policy."""
        return appended(header, b"Nats-Pin-Id", (self.pin or "").encode()) if self._pins else header

    # -- the pin -------------------------------------------------------------------------------------------------------

    def unpin(self, group: str, now: float) -> None:
        """Unpin the client of ``group``, because an API request says so."""
        self.forget()
        self._advisories.unpinned(group, "admin", now)

    def forget(self) -> None:
        """Unpin the client without an advisory."""
        self.pin = self._pinned_at = self._until = None

    def expire(self, now: float) -> bool:
        """Unpin the client if it made no request for ``priority_timeout``. Returns whether it did not."""
        if self._until is None or self._until > now:
            return False
        self.forget()
        self._advisories.unpinned(self._group, "timeout", now)
        return True

    def deadline(self) -> float | None:
        """When the client that is pinned must have asked."""
        return self._until

    def states(self) -> list[PriorityGroup] | None:
        """What a consumer's information says of its groups: the first one, and who is pinned."""
        if not self.config.priority_groups:
            return None
        at = None if self._pinned_at is None else self._context.timestamp(self._pinned_at)
        return [PriorityGroup(self.config.priority_groups[0], self.pin, at)]

    def _keep(self, now: float) -> None:
        self._until = now + (self.config.priority_timeout or 0)
