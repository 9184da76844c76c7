"""Any header block parses or raises RemoteProtocolError; what parses is written again and means the same.

Besides: the short cut for one value finds what the full parse finds.
"""

from __future__ import annotations

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.headers import Headers, encode_headers, last_value, status_line


def run(data: bytes) -> None:
    """One input."""
    last_value(data, data[10:13])
    try:
        status = status_line(data)
    except RemoteProtocolError:
        status = None
    try:
        headers = Headers.parse(data)
    except RemoteProtocolError:
        return
    if status is not None and status[0] < 100:
        status = None  # read, but never written
    block = encode_headers(headers, status)
    assert Headers.parse(block) == headers
    assert status_line(block) == status
    for name in headers:
        found = last_value(data, name.encode())
        assert found is not None
        assert found.decode("utf-8", "surrogateescape") == headers.get_last(name)
