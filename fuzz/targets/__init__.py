"""The targets by name. A target takes any bytes and raises only when its first line does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fuzz.targets import (
    ack_subject,
    advisory,
    api_body,
    atomic_batch,
    batch_member,
    client_bytes,
    control_json,
    direct_read,
    fast_batch,
    handshake,
    header_block,
    ordered_consumer,
    position,
    pull_consumer,
    server_bytes,
    server_machines,
    server_requests,
    sourcing_consumer,
    stored_reply,
)

TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "client_bytes": client_bytes.run,
    "server_bytes": server_bytes.run,
    "header_block": header_block.run,
    "control_json": control_json.run,
    "ack_subject": ack_subject.run,
    "batch_member": batch_member.run,
    "stored_reply": stored_reply.run,
    "api_body": api_body.run,
    "advisory": advisory.run,
    "position": position.run,
    "handshake": handshake.run,
    "server_requests": server_requests.run,
    "fast_batch": fast_batch.run,
    "atomic_batch": atomic_batch.run,
    "pull_consumer": pull_consumer.run,
    "ordered_consumer": ordered_consumer.run,
    "sourcing_consumer": sourcing_consumer.run,
    "direct_read": direct_read.run,
    "server_machines": server_machines.run,
}
