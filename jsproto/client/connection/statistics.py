"""What a session counts.

Not here: counting (``session``, ``write_buffer``).
"""

from __future__ import annotations

from typing import TypedDict


class Statistics(TypedDict):
    """What a session has carried since its beginning, over all its links.

    ``in_bytes`` and ``out_bytes`` are bytes inside TLS, with the protocol around messages. ``out_msgs`` were
    published, and ``pending_bytes`` of them wait to be written. ``errors_received`` counts ``-ERR``.
    """

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    reconnects: int
    errors_received: int
    pending_bytes: int
