"""What a counter holds, read from its last message."""

from __future__ import annotations

import pytest

from jsproto.errors import RemoteProtocolError
from jsproto.grammar.counters import CounterEntry, counter_value, parse_counter, parse_value
from jsproto.grammar.headers import encode_headers
from jsproto.grammar.stored import StoredMsg, stored_header

SOURCES = '{"A":{"c.a":"7","c.b":"-1"},"B":{}}'


def stored(payload: bytes, **headers: str) -> StoredMsg:
    named = {f"Nats-{name.replace('_', '-')}": value for name, value in headers.items()}
    return StoredMsg(stored_header(encode_headers(named), "S", "c.a", 3, "2026-11-20T20:36:46Z"), payload, 3)


def test_a_counter_with_sources() -> None:
    found = parse_counter(stored(b'{"val":"12"}', Incr="+5", Counter_Sources=SOURCES))
    assert found == CounterEntry("c.a", 12, 5, {"A": {"c.a": 7, "c.b": -1}, "B": {}}, 3)
    assert parse_counter(stored(b'{"val":"-12"}', Incr="0")).sources == {}


def test_numbers_of_any_size() -> None:
    assert parse_value(b'{"val":"%d"}' % 10**99) == 10**99
    assert counter_value("-" + "9" * 1_000) == -(10**1_000) + 1


@pytest.mark.parametrize("payload", [b"", b"{}", b"7", b'{"val":7}', b'{"val":"x"}', b'{"val":"1.5"}', b'{"val":""}'])
def test_what_holds_no_value(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_counter(stored(payload, Incr="1"))


@pytest.mark.parametrize("sources", ["x", "[]", '{"A":1}', '{"A":{"c":1}}'])
def test_sources_that_are_none(sources: str) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_counter(stored(b'{"val":"1"}', Incr="1", Counter_Sources=sources))


def test_a_message_without_an_increment() -> None:
    with pytest.raises(RemoteProtocolError, match="not NoneType"):
        parse_counter(stored(b'{"val":"1"}'))
