"""The limits of the wire, by name and with their source: what is longer is refused before it is kept.

A header block is bounded as part of its message.
"""

from __future__ import annotations

from typing import Final

from jsproto._event import event

MAX_CONTROL_LINE: Final = 4_096
"""Bytes of arguments of a client's line: nats-server's ``max_control_line`` (4096 pass, 4097 do not)."""

MAX_DELIVERY_LINE: Final = 32_768
"""Bytes of arguments of a server's line. What a publisher wrote in 4096 comes back with a subscription id and
perhaps a longer reply subject, and servers may be configured for more: a stranger's long subject must not cut
our connection."""

MAX_INFO_LINE: Final = 1_048_576
"""Bytes of the JSON of INFO: a large cluster advertises hundreds of addresses."""

MAX_CONNECT_LINE: Final = 4_096
"""Bytes of the JSON of CONNECT: nats-server holds it to ``max_control_line`` as well (measured)."""

MAX_SIZE_DIGITS: Final = 9
"""Digits of a size: nats-server's cap, so that no number overflows. Leading zeros count."""

DEFAULT_MAX_PAYLOAD: Final = 1_048_576
"""Bytes of a message, headers included, that a server takes: nats-server's default ``max_payload``."""

HARD_MAX_PAYLOAD: Final = 67_108_864
"""Bytes of a message that a client takes: nats-server's upper bound for ``max_payload``."""


@event
class Limits:
    """What a decoder accepts. All in bytes."""

    control_line: int
    """Arguments of a control line, blanks included, line end excluded."""

    json_line: int
    """The same for INFO and CONNECT, which carry JSON."""

    max_payload: int
    """A message: its header block and its body."""


CLIENT_LIMITS: Final = Limits(MAX_DELIVERY_LINE, MAX_INFO_LINE, HARD_MAX_PAYLOAD)
"""For the client role, which reads what servers send."""

SERVER_LIMITS: Final = Limits(MAX_CONTROL_LINE, MAX_CONNECT_LINE, DEFAULT_MAX_PAYLOAD)
"""For the server role, which reads what clients send."""
