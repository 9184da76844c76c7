"""How a client that pulls takes part in a priority group (nats-server 2.11; the policy "prioritized" 2.12).

Rules: a consumer with priority groups is pulled from in one of them. What a client says besides must be what the
consumer's policy is about: ``min_pending`` and ``min_ack_pending`` for overflow, ``priority`` for priorities. A pinned
client says nothing: it learns its id from its messages (``pull``). Who asks for what the consumer does not do is told
before anything is sent, because a server would refuse each request.

Not here: how requests that are refused are made again (``pull``), the server's side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jsproto.errors import ConfigMismatchError, LocalProtocolError
from jsproto.grammar.consumer import ConsumerConfig

LEAST: Final = 9  # the last of the priorities


@dataclass(slots=True, frozen=True)
class Priority:
    """A client's place among those who pull: LocalProtocolError when it cannot be.

    ``group``: one of the consumer's. ``min_pending`` and ``min_ack_pending``: how many messages must wait to be
    delivered, or to be acknowledged, before this client gets any; when both are given, either will do. ``priority``: 0
    (the highest) to 9.
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
        if not self.group:
            raise LocalProtocolError("the name of a priority group cannot be empty")
        for name in ("min_pending", "min_ack_pending"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise LocalProtocolError(f"{name} must be a number greater than 0, not {value!r}")
        if self.priority is not None and (type(self.priority) is not int or not 0 <= self.priority <= LEAST):
            raise LocalProtocolError(f"priority must be a number from 0 to {LEAST}, not {self.priority!r}")

    def to_json(self) -> dict[str, Any]:
        """What its pull requests say."""
        said = {
            "group": self.group, "min_pending": self.min_pending, "min_ack_pending": self.min_ack_pending,
            "priority": self.priority,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}

    def check(self, stream: str, name: str, config: ConsumerConfig) -> None:
        """ConfigMismatchError when a consumer has no such group, or another policy."""
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
    """How long a request may wait at most, so that a pinned client that gets nothing asks before it loses its place.

    0 for as long as it likes.
    """
    limits = [config.max_expires or 0.0]
    if config.priority_policy == "pinned_client":
        limits.append((config.priority_timeout or 0.0) / 2)
    return min((limit for limit in limits if limit > 0), default=0.0)
