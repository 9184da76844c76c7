"""Any advisory about a message that was given up, and any event of a trace, parses or raises RemoteProtocolError.

What parses has a text. Advisories about batches: see ``control_json``.
"""

from __future__ import annotations

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.advisory import parse_given_up
from jsproto.grammar.trace import parse_trace, trace_of


def run(data: bytes) -> None:
    """One input."""
    try:
        given_up = parse_given_up(data)
    except RemoteProtocolError:
        pass
    else:
        assert given_up.seq >= 0
        assert repr(given_up)
    try:
        event = parse_trace(data)
    except RemoteProtocolError:
        return
    assert str(trace_of({event.path: event}))
