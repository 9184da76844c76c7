"""How a client that pulls takes part in a priority group (nats-server 2.11, and 2.12 for "prioritized").

Rules:

* A consumer with priority groups is pulled from in one of them.
* ``min_pending`` and ``min_ack_pending`` are for the policy "overflow", ``priority`` is for "prioritized".
* A pinned client leaves them out. It learns its id from its messages (``pull_requests``).
* What the consumer lacks is refused before anything is sent, because a server would refuse each request.

Not here: how requests that are refused are made again (``pull``), the server's side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jsproto.client.consume.consume_options import PriorityOptions
from jsproto.errors import ConfigMismatchError, LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.options import checked


@dataclass(slots=True, frozen=True)
class Priority:
    """A client's place among the clients that pull from one consumer.

    ``group``: one of the consumer's. ``min_pending``: this client gets messages when at least so many wait to be
    delivered. ``min_ack_pending``: the same for messages that wait to be acknowledged. One of both suffices.
    ``priority``: 0 (the highest) to 9.

    Raises:
        LocalProtocolError: a value is out of range, or lacks its group.
    """

    group: str | None = None
    min_pending: int | None = None
    min_ack_pending: int | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        if self.group is None:
            if self.to_json():
                raise LocalProtocolError("min_pending, min_ack_pending and priority need the group that they are about")
            return
        place: Any = self.to_json()
        checked(PriorityOptions, place)

    def to_json(self) -> dict[str, Any]:
        """The fields of its pull requests."""
        said = {
            "group": self.group, "min_pending": self.min_pending, "min_ack_pending": self.min_ack_pending,
            "priority": self.priority,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}

    @property
    def policy(self) -> str:
        """The policy of a consumer that it fits: under one that pins clients it sets the group alone."""
        if self.min_pending or self.min_ack_pending:
            return "overflow"
        return "pinned_client" if self.priority is None else "prioritized"

    def check(self, stream: str, name: str, config: ConsumerConfig) -> None:
        """Compare with the configuration of consumer ``name`` of ``stream``.

        Raises:
            ConfigMismatchError: the consumer has no such group, or another policy.
        """
        groups, policy = config.priority_groups or [], config.priority_policy

        def refuse(field: str, note: str) -> ConfigMismatchError:
            return ConfigMismatchError(stream, name, [field], note)

        if groups and self.group is None:
            raise refuse("priority_groups", f"it is pulled from in a priority group: {', '.join(groups)}")
        if self.group is not None and self.group not in groups:
            raise refuse("priority_groups", f"it has no priority group {self.group}")
        if (self.min_pending or self.min_ack_pending) and policy != "overflow":
            raise refuse("priority_policy", f"min_pending and min_ack_pending are for overflow, not {policy}")
        if self.priority is not None and policy != "prioritized":
            raise refuse("priority_policy", f"priority is for prioritized, not {policy}")


def most_seconds(config: ConsumerConfig) -> float:
    """Seconds that a request may wait at most. 0 is unlimited.

    An idle pinned client asks again before the server gives its place away.
    """
    limits = [config.max_expires or 0.0]
    if config.priority_policy == "pinned_client":
        limits.append((config.priority_timeout or 0.0) / 2)
    return min((limit for limit in limits if limit > 0), default=0.0)
