"""Any answer of the API is a value, an APIError or a RemoteProtocolError; a value is written and read as the same.

Besides: each value has a text, and what a stream says gives a position whose line is read as the same.
"""

from __future__ import annotations

from typing import Any, Final

from fuzz.parsing import expecting
from jsproto.client.manage.pages import name_of, page_of
from jsproto.client.read.single import leader_message
from jsproto.errors import APIError, BadSubjectError, NotJSONError, RemoteProtocolError, StatusError
from jsproto.grammar.account import AccountInfo
from jsproto.grammar.api import decode_response
from jsproto.grammar.bodies import decode_json, dumps
from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo, ConsumerPause, ConsumerReset
from jsproto.grammar.counters import parse_value
from jsproto.grammar.position import StreamPosition, parse_position
from jsproto.grammar.sources import StreamSourceInfo
from jsproto.grammar.subjects import check_name
from jsproto.rules.position import PositionCheck, StreamFacts
from jsproto.wire.frames import Msg

MODELS: Final = (
    AccountInfo,
    ConsumerConfig,
    ConsumerInfo,
    ConsumerPause,
    ServerInfo,
    StreamConfig,
    StreamInfo,
    StreamSourceInfo,
)
PAGES: Final = (
    page_of("streams", name_of),
    page_of("streams", StreamInfo.from_json),
    page_of("consumers", ConsumerInfo.from_json),
)

attempt = expecting(APIError, NotJSONError, RemoteProtocolError, StatusError)


def run(data: bytes) -> None:
    """One input: a body."""
    attempt(decode_json, data, "s.a")
    attempt(parse_value, data)
    attempt(leader_message, "S", {"seq": 1}, Msg(b"_INBOX.x", b"1", None, None, data))
    attempt(look, data)
    body = attempt(decode_response, data)
    if body is None:
        return
    for page in PAGES:
        attempt(page, body)
    attempt(ConsumerReset.from_json, body)
    for model in MODELS:
        value = attempt(model.from_json, data)
        if value is not None:
            check(model, value)


def check(model: Any, value: Any) -> None:
    """A value of ``model``."""
    assert repr(value)
    written = dumps(value.to_json())
    assert model.from_json(written) == value
    if isinstance(value, StreamInfo):
        place(value)


def place(info: StreamInfo) -> None:
    """The position at the end of a stream."""
    try:
        position = StreamFacts.of(info).position(check_name(info.config.name))
    except BadSubjectError:
        return
    if 0 <= (position.witness or 0) < 1 << 63:  # servers have no others: from 1970 on, in 64 bits
        assert parse_position(bytes(position)) == position


def look(data: bytes) -> None:
    """The answer to the question about a position."""
    asked = PositionCheck(StreamPosition("S", 5, "1", 1))
    asked.state(StreamFacts("1", 1, 9, 9), 0.0)
    asked.answer(data, 0.0)
