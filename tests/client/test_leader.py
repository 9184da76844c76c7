"""What an answer of a stream's leader is: the same for batched reads and for single reads of sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.client.read.leader import Said, heard
from jsproto.wire.frames import Msg

FOUND = {"message": {"subject": "a", "seq": 7, "time": "2026-11-20T20:36:46.910548879Z"}}
INFO = {"config": {"name": "S"}, "state": {"last_seq": 9}}


def error(code: int, err_code: int) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": "no"}}


@pytest.mark.parametrize(
    ("body", "asked", "said"),
    [
        (INFO, None, Said.STATE),
        (FOUND, {"seq": 7}, Said.MESSAGE),
        (FOUND, None, Said.REFUSED),
        (INFO, {"seq": 7}, Said.REFUSED),
        (error(404, 10037), {"seq": 7}, Said.NOTHING),
        (error(404, 10037), None, Said.REFUSED),
        (error(404, 10059), None, Said.GONE),
        (error(404, 10059), {"seq": 7}, Said.GONE),
        (error(503, 10008), None, Said.NO_LEADER),
        (error(500, 10118), {"seq": 7}, Said.NO_LEADER),
        (error(400, 10025), None, Said.REFUSED),
        ([], None, Said.REFUSED),
    ],
)
def test_what_the_leader_says(body: Any, asked: dict[str, Any] | None, said: Said) -> None:
    answer = heard(Msg(b"x", b"1", None, None, json.dumps(body).encode()), "S", asked)
    assert answer.said is said
    assert (answer.info is not None) == (said is Said.STATE)
    assert (answer.message is not None) == (said is Said.MESSAGE)
    assert (answer.error is None) == (said in (Said.STATE, Said.MESSAGE))


def test_no_api_answers() -> None:
    assert heard(Msg(b"x", b"1", None, b"NATS/1.0 503\r\n\r\n", b""), "S").said is Said.NO_API
