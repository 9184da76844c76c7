"""How the server role reads the bodies of requests."""

from __future__ import annotations

import pytest

from jsproto.errors import APIError
from jsproto.grammar.fields import Reader, as_count, as_text
from jsproto.server.api.requests import as_offset, decoded, is_empty, optional, record, without_prefix

FIELDS: dict[str, Reader] = {"a": as_text, "seq": as_count, "offset": as_offset, "in": record({"a": as_text})}


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (b"", {}), (b" \n", {}), (b"null", {}), (b"{}", {}), (b"{} {}", {}), (b'{"a":null}', {}),
        (b'{"A":"x"}', {"a": "x"}),
        (b'{"a":"x"}{"a":"y","seq":1}', {"a": "y", "seq": 1}), (b'{"in":{"A":"x"}}', {"in": {"a": "x"}}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}), (b'{"offset":-5}', {"offset": 0}), (b'{"offset":7}', {"offset": 7}),
        (rb'{"a":"\ud800"}', {"a": "\ufffd"}), (rb'{"a":"\uDC80-\ud83d\ude00"}', {"a": "\ufffd-\U0001f600"}),
        (rb'{"a":"\ud83d\ude00"}', {"a": "\U0001f600"}), (rb'{"a":"\\ud800"}', {"a": "\\ud800"}),
    ],
)  # fmt: skip
def test_what_is_read_as_go_reads_it(payload: bytes, body: dict[str, object]) -> None:
    assert decoded(payload, FIELDS) == body


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"{", "Expecting"), (b"{}x", "Expecting"), (b"[]", "cannot unmarshal"), (b"[" * 100_000, "recursion"),
        (b'{"b":1}', 'unknown field "b"'), (b'{"in":{"b":1}}', 'unknown field "b"'),
        (b'{"in":1}', "cannot unmarshal 1 into in"),
        (b'{"a":1}', "a must be a string"), (b'{"seq":-1}', "unsigned"), (b'{"seq":1.0}', "unsigned"),
        (b'{"a":NaN}', "invalid character"), (b'{"offset":9223372036854775808}', "64 bits"),
        (b'{"offset":true}', "64 bits"),
    ],
)  # fmt: skip
def test_what_is_refused(payload: bytes, words: str) -> None:
    with pytest.raises(APIError, match=words) as caught:
        decoded(payload, FIELDS)
    assert caught.value.err_code == 10025


def test_where_other_fields_are_passed_over_there_is_one_object() -> None:
    assert decoded(b'{"a":"x","b":{"c":["\\ud800"]}}', FIELDS, is_strict=False) == {"a": "x"}
    for payload in (b"", b"{} {}"):
        with pytest.raises(APIError):
            decoded(payload, FIELDS, is_strict=False)


def test_texts_within_a_field_are_cleaned() -> None:
    anything: dict[str, Reader] = {"a": lambda value, path: value}
    assert decoded(rb'{"a":[{"\ud800":"\udc00"}]}', anything) == {"a": [{"\ufffd": "\ufffd"}]}


def test_requests_that_may_have_no_body() -> None:
    assert [optional(payload, FIELDS) for payload in (b"", b"x", b"1", b' {"a":"x"}')] == [{}, {}, {}, {"a": "x"}]
    empty = {
        payload: is_empty(payload)
        for payload in (b"", b"{}", b" { } ", b"null", b"[]", b"x", b'{"a":1}', b"[" * 100_000)
    }
    assert [payload for payload, is_it in empty.items() if is_it] == [b"", b"{}", b" { } "]


def test_what_is_asked_for_below_a_prefix() -> None:
    assert without_prefix("$JS.API.STREAM.NAMES", ["$JS.API.", "$JS.hub.API."]) == "STREAM.NAMES"
    assert without_prefix("$JS.hub.API.INFO", ["$JS.API.", "$JS.hub.API."]) == "INFO"
    assert without_prefix("s.a", ["$JS.API."]) == ""
