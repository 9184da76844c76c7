"""How often consumers show that they live, and how long their silence may last (ADR-15).

Rules: a consumer that is made here and that nobody shares sends heartbeats, and so does a pull request that waits long.

Not here: what follows from silence (``pull``, ``push``, ``ordered``).
"""

from __future__ import annotations

from typing import Final

DEFAULT_HEARTBEAT: Final = 5.0  # seconds
HEARTBEATS_MISSED: Final = 3.0  # intervals without a sign of life until it is an alarm
