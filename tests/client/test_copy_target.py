"""From where a copy goes on, and which streams cannot be the target."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.copy.target import CopyTarget, check_copy
from jsproto.errors import CopyTargetError, LocalProtocolError
from jsproto.grammar.copies import CopyOrigin
from jsproto.grammar.position import StreamPosition
from jsproto.wire.frames import Pub
from tests.harness import Harness

NO_MESSAGE = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
CONFIG: dict[str, Any] = {"name": "T", "subjects": ["s.>", "pos"], "allow_batched": True, "allow_atomic": True}


def info(messages: int, last_seq: int, **config: Any) -> dict[str, Any]:
    state = {"messages": messages, "bytes": 1, "first_seq": 1, "last_seq": last_seq, "consumer_count": 0}
    return {"config": CONFIG | config, "state": state, "created": "2026-11-20T20:36:46Z"}


def message(seq: int, header: bytes | None = None, data: bytes = b"") -> dict[str, Any]:
    body = {"subject": "s.a", "seq": seq, "time": "2026-11-20T20:36:46Z", "data": b64encode(data).decode()}
    if header is not None:
        body["hdrs"] = b64encode(b"NATS/1.0\r\n%b\r\n" % header).decode()
    return {"message": body}


def found(*answers: dict[str, Any], marker: str | None = None) -> tuple[CopyTarget, list[Any]]:
    """What comes of these answers, and what was asked."""
    harness = Harness()
    ticket = harness.js.copy_target("T", "S", marker=marker, now=harness.now)
    left: Iterator[dict[str, Any]] = iter(answers)
    asked: list[Any] = []

    def respond(pub: Pub) -> dict[str, Any]:
        asked.append((pub.subject, json.loads(pub.payload) if pub.payload else None))
        return next(left)

    while not ticket.done:
        assert harness.answer(respond)
    return ticket.result(), asked


def test_an_empty_target() -> None:
    target, asked = found(info(0, 0))
    assert target == CopyTarget("T", ("s.>", "pos"), 0, None, False)
    assert asked == [(b"$JS.API.STREAM.INFO.T", None)]
    target, _ = found(info(0, 700, allow_msg_ttl=True))  # purged: the next copy is 701
    assert (target.last_seq, target.origin, target.keeps_ttl) == (700, None, True)


def test_a_target_without_subjects_takes_its_name() -> None:
    target, _ = found(info(0, 0, subjects=None))
    target.check("T")
    with pytest.raises(CopyTargetError, match="it does not take the subject s"):
        target.check("s")


def test_the_last_copy_says_where_it_goes_on() -> None:
    copy, older = (message(seq, b"A: b\r\nJsproto-Copy-Source: S %d > id\r\n" % (seq + 33)) for seq in (8, 3))
    for answers in ((copy, NO_MESSAGE), (NO_MESSAGE, copy), (copy, older), (older, copy)):
        target, asked = found(info(5, 9), *answers)
        assert target.origin == CopyOrigin(StreamPosition("S", 41, "id"), ">")
        assert target.last_seq == 9  # the last one was deleted, and the next copy is 10
        assert [body for _, body in asked[1:]] == [{"last_by_subj": "*.>"}, {"last_by_subj": "*"}]


def test_what_is_stored_meanwhile_is_looked_at_again() -> None:
    copy = message(10, b"Jsproto-Copy-Source: S 42 > id\r\n")
    target, asked = found(info(5, 9), copy, NO_MESSAGE, info(6, 10), copy, NO_MESSAGE)
    assert (target.last_seq, target.origin) == (10, CopyOrigin(StreamPosition("S", 42, "id"), ">"))
    assert len(asked) == 6


def test_what_is_deleted_meanwhile_leaves_no_copy() -> None:
    target, _ = found(info(5, 9), NO_MESSAGE, NO_MESSAGE)
    assert (target.last_seq, target.origin) == (9, None)


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (message(9), "the last message, 9, is not from a copy"),
        (message(9, b"Jsproto-Copy-Source: X\r\n"), "the last message, 9, is not from a copy"),
        (message(9, b"Jsproto-Copy-Source: OTHER 1 >\r\n"), "it has copies of the stream OTHER"),
    ],
)
def test_a_target_of_somebody_else(last: dict[str, Any], reason: str) -> None:
    with pytest.raises(CopyTargetError, match=reason) as raised:
        found(info(5, 9), last, NO_MESSAGE)
    assert (raised.value.target, raised.value.reason) == ("T", reason)


def test_the_marker_says_where_it_goes_on() -> None:
    target, asked = found(info(5, 9), message(7, data=b"S 41 > id"), marker="pos")
    assert (target.last_seq, target.origin) == (7, CopyOrigin(StreamPosition("S", 41, "id"), ">"))
    assert asked[1] == (b"$JS.API.STREAM.MSG.GET.T", {"last_by_subj": "pos"})
    target, _ = found(info(5, 9), NO_MESSAGE, marker="pos")
    assert (target.last_seq, target.origin) == (0, None)
    target, _ = found(info(0, 9), marker="pos")
    assert (target.last_seq, target.origin) == (0, None)
    with pytest.raises(CopyTargetError, match="the last message of pos, 7, is not from a copy"):
        found(info(5, 9), message(7, data=b"?"), marker="pos")


@pytest.mark.parametrize(
    ("config", "marker", "reason"),
    [
        ({"mirror": {"name": "X"}, "subjects": None}, None, "it is a mirror"),
        ({"allow_batched": False}, None, "switch allow_batched on"),
        ({"allow_atomic": False}, "pos", "switch allow_atomic on"),
        ({"subjects": ["s.>"]}, "pos", "it does not take the marker's subject pos"),
    ],
)
def test_what_cannot_be_a_target(config: dict[str, Any], marker: str | None, reason: str) -> None:
    with pytest.raises(CopyTargetError, match=reason):
        found(info(0, 0, **config), marker=marker)


def test_a_target_that_is_not_there() -> None:
    with pytest.raises(StreamNotFoundError):
        found({"error": {"code": 404, "err_code": 10059, "description": "stream not found"}})


@pytest.mark.parametrize(
    ("target", "delivery", "marker", "prefix"),
    [
        ("a.b", "fast", None, ""),
        ("T", "slow", None, ""),
        ("T", "atomic", None, ""),
        ("T", "fast", "pos", ""),
        ("T", "atomic", "pos.*", ""),
        ("T", "fast", None, "a b."),
        ("T", "fast", None, ".."),
        ("T", "fast", None, b"x"),
        ("T", "fast", None, None),
    ],
)
def test_impossible_arguments(target: str, delivery: str, marker: str | None, prefix: Any) -> None:
    with pytest.raises(LocalProtocolError):
        check_copy(target, delivery, marker, prefix)


def test_possible_arguments() -> None:
    check_copy("T", "fast", None, "copies.")
    check_copy("T", "atomic", "pos", "")
