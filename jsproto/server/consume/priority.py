"""Priority groups of a pull consumer: who of those who ask may have the next message.

Rules: three policies. ``overflow``: a request may wait for a queue of so many messages, or of so many that are not
acknowledged. ``pinned_client``: one client gets everything; it is the first one whose request is served while nobody
is pinned, it says the id that its messages carry, and it stays pinned until it has not asked for ``priority_timeout``,
or somebody unpins it. Another id is refused: at once while somebody is pinned, else with the next message.
``prioritized``: a lower number goes before, equal ones take turns. A request that is no JSON object has no group, and
is served all the same; so nats-server does it.

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
_NONE: Final = LEAST + 1  # behind all that have one


class Turn(Enum):
    """What becomes of a request whose turn it is."""

    TAKES = "it gets the message"
    WAITS = "it waits for a longer queue, or until nobody else is pinned"
    STRANGER = "it ends: it says the id of a client that is pinned no more"


class Priorities:
    """The priority groups of one consumer. ``pin`` is the id of the client that is pinned."""

    __slots__ = ("_advisories", "_context", "_group", "_pinned_at", "_until", "config", "pin")

    def __init__(self, config: ConsumerConfig, advisories: Advisories, context: ServerContext) -> None:
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
        """Why a request makes no sense to this consumer, as the server says it; None when it does."""
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
        """Whether a new request says another id than that of the client that is pinned, who stays so by asking."""
        if self.pin is None or not request.id:
            return False
        if request.id != self.pin:
            return True
        self._keep(now)
        return False

    def rank(self, request: PullRequest) -> int:
        """Requests of a lower rank are served before."""
        if self.config.priority_policy != "prioritized":
            return 0
        return _NONE if request.group is None else request.priority

    def turn(self, request: PullRequest, pending: int, unacked: int) -> Turn:
        """Whether it may have the next message: ``pending`` wait for the consumer, ``unacked`` for acknowledgement."""
        if request.id:
            return Turn.TAKES if request.id == self.pin else Turn.STRANGER
        if self.pin is not None:
            return Turn.WAITS
        if not (request.min_pending or request.min_ack_pending):
            return Turn.TAKES
        is_long = 0 < request.min_pending <= pending or 0 < request.min_ack_pending <= unacked
        return Turn.TAKES if is_long else Turn.WAITS

    def takes(self, request: PullRequest, now: float) -> None:
        """It gets the next message, and is pinned if somebody is to be."""
        if not self._pins or self.pin is not None or not request.group:
            return
        request.id = self.pin = self._context.next_id()
        self._group = request.group
        self._pinned_at = now
        self._keep(now)
        self._advisories.pinned(request.group, self.pin, now)

    def marked(self, header: bytes | None) -> bytes | None:
        """The header block of a message, which says who is pinned."""
        return appended(header, b"Nats-Pin-Id", (self.pin or "").encode()) if self._pins else header

    # -- the pin -------------------------------------------------------------------------------------------------------

    def unpin(self, group: str, now: float) -> None:
        """Somebody wants another client to be pinned."""
        self.forget()
        self._advisories.unpinned(group, "admin", now)

    def forget(self) -> None:
        """Nobody is pinned any more."""
        self.pin = self._pinned_at = self._until = None

    def expire(self, now: float) -> None:
        """A client that has not asked for long enough loses its place."""
        if self._until is not None and self._until <= now:
            self.forget()
            self._advisories.unpinned(self._group, "timeout", now)

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
