"""Any bytes from a server come to frames and at most one final RemoteProtocolError, however they are cut.

Besides: never more is kept than was fed, and the frames written again are read again as the same frames.
"""

from __future__ import annotations

from fuzz.wire import check


def run(data: bytes) -> None:
    """One input."""
    check("client", data)
