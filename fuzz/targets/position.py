"""Any line is a position, an origin or none; any token is one or raises BadTokenError; each is written and read again.

A position can always be asked about.
"""

from __future__ import annotations

from jsproto.errors import BadTokenError
from jsproto.grammar.copies import parse_origin
from jsproto.grammar.position import UNKNOWN, parse_position
from jsproto.grammar.session_token import SessionToken
from jsproto.rules.position import LOOKS, PositionCheck, StreamFacts, Verdict


def run(data: bytes) -> None:
    """One input."""
    origin = parse_origin(data)
    if origin is not None and origin.position.identity != UNKNOWN.decode():  # which no server calls a stream
        assert parse_origin(bytes(origin)) == origin
    position = parse_position(data)
    if position is not None:
        assert parse_position(bytes(position)) == position
        check = PositionCheck(position)
        verdict = check.state(StreamFacts(position.identity, 1, position.seq + 1, None), 0.0)
        for _ in range(2):
            if verdict in LOOKS:
                assert check.question()
                verdict = check.message(None, 0.0)
        assert isinstance(verdict, Verdict)
    try:
        token = SessionToken.from_bytes(data)
    except BadTokenError:
        return
    again = SessionToken.from_bytes(token.to_bytes())
    assert again == token
    assert (hash(again), again.to_bytes()) == (hash(token), token.to_bytes())
    assert token.merge(token) == token
    for stream, _ in token.items():
        assert token.without(stream).seen(stream) is None
    assert repr(token)
