"""The JetStream API's subjects, and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.api_errors import APIBadRequestError, StreamNotFoundError
from jsproto.errors import APIError, BadSubjectError, RemoteProtocolError
from jsproto.grammar.api import ApiSubjects, api_error, decode_response
from jsproto.grammar.subjects import check_subject

API = ApiSubjects()


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (API.info(), "$JS.API.INFO"),
        (API.stream_create("S"), "$JS.API.STREAM.CREATE.S"),
        (API.stream_update("S"), "$JS.API.STREAM.UPDATE.S"),
        (API.stream_info("S"), "$JS.API.STREAM.INFO.S"),
        (API.stream_delete("S"), "$JS.API.STREAM.DELETE.S"),
        (API.stream_purge("S"), "$JS.API.STREAM.PURGE.S"),
        (API.stream_names(), "$JS.API.STREAM.NAMES"),
        (API.stream_list(), "$JS.API.STREAM.LIST"),
        (API.stream_msg_get("S"), "$JS.API.STREAM.MSG.GET.S"),
        (API.stream_msg_delete("S"), "$JS.API.STREAM.MSG.DELETE.S"),
        (API.direct_get("S"), "$JS.API.DIRECT.GET.S"),
        (API.direct_get("S", "a.b"), "$JS.API.DIRECT.GET.S.a.b"),
        (API.consumer_create("S"), "$JS.API.CONSUMER.CREATE.S"),
        (API.consumer_create("S", "C"), "$JS.API.CONSUMER.CREATE.S.C"),
        (API.consumer_create("S", "C", "a.>"), "$JS.API.CONSUMER.CREATE.S.C.a.>"),
        (API.consumer_info("S", "C"), "$JS.API.CONSUMER.INFO.S.C"),
        (API.consumer_delete("S", "C"), "$JS.API.CONSUMER.DELETE.S.C"),
        (API.consumer_names("S"), "$JS.API.CONSUMER.NAMES.S"),
        (API.consumer_list("S"), "$JS.API.CONSUMER.LIST.S"),
        (API.consumer_next("S", "C"), "$JS.API.CONSUMER.MSG.NEXT.S.C"),
        (API.consumer_pause("S", "C"), "$JS.API.CONSUMER.PAUSE.S.C"),
        (API.consumer_unpin("S", "C"), "$JS.API.CONSUMER.UNPIN.S.C"),
        (API.consumer_reset("S", "C"), "$JS.API.CONSUMER.RESET.S.C"),
        (ApiSubjects(domain="hub").info(), "$JS.hub.API.INFO"),
        (ApiSubjects("my.api").stream_info("S"), "my.api.STREAM.INFO.S"),
    ],
)
def test_subjects(subject: str, expected: str) -> None:
    assert subject == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda: ApiSubjects(""),
        lambda: ApiSubjects("my.api."),
        lambda: ApiSubjects("my.*"),
        lambda: ApiSubjects(domain=""),
        lambda: ApiSubjects(domain="a.b"),
        lambda: API.stream_info("a.b"),
        lambda: API.stream_info("a\r\nPUB b 0"),
        lambda: API.consumer_info("S", "a b"),
        lambda: API.direct_get("S", "a.>"),
        lambda: API.direct_get("S", ""),
        lambda: API.consumer_create("S", "C", "a..b"),
        lambda: API.consumer_create("S", None, "a"),
    ],
)
def test_what_cannot_be_part_of_a_subject(build: Callable[[], object]) -> None:
    with pytest.raises(BadSubjectError):
        build()


@given(st.text(max_size=6), st.text(max_size=6))
def test_whatever_is_built_is_a_subject(stream: str, consumer: str) -> None:
    try:
        subject = API.consumer_info(stream, consumer)
    except BadSubjectError:
        return
    assert check_subject(subject) == f"$JS.API.CONSUMER.INFO.{stream}.{consumer}".encode()


def test_an_answer() -> None:
    assert decode_response(b'{"type":"x","streams":1}') == {"type": "x", "streams": 1}
    assert decode_response(b'{"error":null,"streams":1}') == {"error": None, "streams": 1}


@pytest.mark.parametrize(
    ("payload", "kind", "fields"),
    [
        (
            b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}',
            StreamNotFoundError,
            (404, 10059, "stream not found"),
        ),
        (
            b'{"error":{"code":400,"err_code":10003,"description":"bad request"}}',
            APIBadRequestError,
            (400, 10003, "bad request"),
        ),
        (b'{"error":{"code":500,"err_code":99999,"description":"new"}}', APIError, (500, 99999, "new")),
        (b'{"error":{"code":503}}', APIError, (503, 0, "")),
    ],
)
def test_an_answer_that_says_no(payload: bytes, kind: type[APIError], fields: tuple[int, int, str]) -> None:
    with pytest.raises(APIError) as caught:
        decode_response(payload)
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.err_code, error.description) == fields


@pytest.mark.parametrize(
    "error", [None, "no", [], 5, {"code": "404"}, {"code": True}, {"err_code": -1}, {"description": 5}]
)
def test_errors_that_are_none(error: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        api_error(error)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["code", "x"]), inner, max_size=2),
    max_leaves=4,
)
answers = values | st.dictionaries(st.sampled_from(["error", "type", ""]), values)


@given(answers.map(lambda answer: json.dumps(answer).encode()) | st.binary())
def test_whatever_comes_is_an_object_or_a_typed_error(payload: bytes) -> None:
    try:
        body = json.loads(payload.decode(), parse_constant=int)  # NaN is not JSON
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("error") is None:
        assert decode_response(payload) == body
    else:
        with pytest.raises((APIError, RemoteProtocolError)):
            decode_response(payload)
