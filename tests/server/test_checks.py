"""What is checked before a message is stored: alone, and as the member of a batch under a running state."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from jsproto.errors import APIError
from jsproto.grammar.headers import encode_headers
from jsproto.server.publish.checks import Staged, check, check_level
from jsproto.server.store.context import ServerContext
from jsproto.server.store.stream import Publication
from tests.marks import requirement
from tests.server.harness import Inlet

SEQUENCE = "Nats-Expected-Last-Sequence"
SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"


def message(headers: dict[str, str] | None = None, subject: str = "s.a", payload: bytes = b"x") -> Publication:
    return Publication(subject.encode(), encode_headers(headers) if headers else None, payload)


def filled(**options: Any) -> Inlet:
    """Messages 1 on s.a and 2 on s.b, the latter with id B."""
    inlet = Inlet(**options)
    inlet.publish("s.a")
    inlet.publish("s.b", headers={"Nats-Msg-Id": "B"})
    return inlet


def refusal_of(inlet: Inlet, message: Publication, staged: Staged | None = None) -> tuple[int, str]:
    judge = partial(check, inlet.stream) if staged is None else staged.check
    with pytest.raises(APIError) as caught:
        judge(message, inlet.now)
    return caught.value.err_code, caught.value.description


GOOD = [
    {},
    {"Nats-Expected-Stream": "S"},
    {SEQUENCE: "2"},
    {SEQUENCE: ""},
    {SEQUENCE: "2".zfill(20)},
    {"X": "x" * 65_518},
    {SUBJECT_SEQUENCE: "1"},
    {SUBJECT_SEQUENCE: "2", SUBJECT: "s.b"},
    {SUBJECT_SEQUENCE: "0", SUBJECT: "s.never"},
    {"Nats-Msg-Id": "new"},
    {"Nats-TTL": "00"},
]
BAD: list[tuple[dict[str, str], int, str]] = [
    ({"Nats-Expected-Stream": "T"}, 10060, "expected stream does not match"),
    ({SEQUENCE: "1"}, 10071, "wrong last sequence: 2"),
    ({SEQUENCE: "x"}, 10071, "wrong last sequence: 2"),
    ({SEQUENCE: "9" * 30}, 10071, "wrong last sequence: 2"),
    ({SUBJECT_SEQUENCE: "2"}, 10071, "wrong last sequence: 1"),
    ({SUBJECT_SEQUENCE: "0"}, 10071, "wrong last sequence: 1"),
    ({SUBJECT_SEQUENCE: "1", SUBJECT: "s.never"}, 10071, "wrong last sequence: 0"),
    ({SUBJECT: "s.a"}, 10193, "missing sequence for expected last sequence per subject"),
    ({"Nats-TTL": "1h"}, 10166, "per-message TTL is disabled"),
    ({"Nats-Rollup": "sub"}, 10111, "rollup not permitted"),
    ({"X": "x" * 65_519}, 10097, "header size exceeds maximum allowed of 64k"),
]


@pytest.mark.parametrize("headers", GOOD)
def test_what_passes(headers: dict[str, str]) -> None:
    inlet = filled()
    assert check(inlet.stream, message(headers), inlet.now).original is None
    assert Staged(inlet.stream).check(message(headers), inlet.now).original is None


@requirement(75)
@pytest.mark.parametrize(("headers", "err_code", "description"), BAD)
def test_what_does_not(headers: dict[str, str], err_code: int, description: str) -> None:
    inlet = filled()
    assert refusal_of(inlet, message(headers)) == (err_code, description)
    assert refusal_of(inlet, message(headers), Staged(inlet.stream)) == (err_code, description)


def test_rollups_that_are_none() -> None:
    inlet = filled(allow_rollup_hdrs=True)
    for staged in (None, Staged(inlet.stream)):
        found = refusal_of(inlet, message({"Nats-Rollup": "Some"}), staged)
        assert found == (10111, 'rollup value invalid: "some"')
    assert check(inlet.stream, message({"Nats-Rollup": "ALL"}), inlet.now).original is None
    denied = filled(allow_rollup_hdrs=False)
    assert refusal_of(denied, message({"Nats-Rollup": "all"})) == (10111, "rollup not permitted")


def test_a_ttl_where_it_is_allowed() -> None:
    inlet = filled(allow_msg_ttl=True)
    assert check(inlet.stream, message({"Nats-TTL": "1h"}), inlet.now).original is None


def test_the_last_id() -> None:
    inlet = filled()
    assert check(inlet.stream, message({"Nats-Expected-Last-Msg-Id": "B"}), inlet.now).original is None
    assert refusal_of(inlet, message({"Nats-Expected-Last-Msg-Id": "A"})) == (10070, "wrong last msg ID: B")


def test_sizes_and_seals() -> None:
    inlet = filled(max_msg_size=20)
    assert check(inlet.stream, message(payload=b"x" * 20), inlet.now).original is None
    assert refusal_of(inlet, message(payload=b"x" * 21))[0] == 10054
    assert refusal_of(inlet, message({"A": "1"}, payload=b"xxx"))[0] == 10054
    assert refusal_of(Inlet(sealed=True), message()) == (10109, "invalid operation on sealed stream")


def test_duplicates_are_found_behind_the_expectations_alone_and_before_them_in_a_batch() -> None:
    inlet = filled()
    assert check(inlet.stream, message({"Nats-Msg-Id": "B"}), inlet.now).original == 2
    both = message({"Nats-Msg-Id": "B", SEQUENCE: "9"})
    assert refusal_of(inlet, both)[0] == 10071
    assert Staged(inlet.stream).check(both, inlet.now).original == 2


@requirement(23)
def test_the_running_state_of_a_batch() -> None:
    inlet = filled()
    staged = Staged(inlet.stream)
    assert staged.check(message({SEQUENCE: "2", "Nats-Msg-Id": "C"}, "s.c"), inlet.now).original is None
    assert refusal_of(inlet, message({SEQUENCE: "2"}), staged) == (10071, "wrong last sequence: 3")
    assert refusal_of(inlet, message({SEQUENCE: "3"}), staged) == (10164, "wrong last sequence")
    assert staged.check(message({"Nats-Msg-Id": "C"}), inlet.now).original == 0
    assert refusal_of(inlet, message({SUBJECT_SEQUENCE: "0"}, "s.c"), staged) == (10164, "wrong last sequence")
    assert refusal_of(inlet, message({SUBJECT_SEQUENCE: "3", SUBJECT: "s.c"}), staged) == (10164, "wrong last sequence")
    assert staged.check(message({SUBJECT_SEQUENCE: "1"}), inlet.now).original is None
    assert len(inlet.stream) == 2


def test_a_rollup_in_a_batch_must_come_first() -> None:
    inlet = filled(allow_rollup_hdrs=True)
    staged = Staged(inlet.stream)
    assert staged.check(message({"Nats-Rollup": "sub"}), inlet.now).original is None
    assert refusal_of(inlet, message({"Nats-Rollup": "sub"}), staged) == (10111, "batch rollup sub invalid")
    assert refusal_of(inlet, message({"Nats-Rollup": "all"}), staged) == (10111, "batch rollup all invalid")
    assert Staged(inlet.stream).check(message({"Nats-Rollup": "all"}), inlet.now).original is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_msgs": 4}, "maximum messages exceeded"),
        ({"max_bytes": 120}, "maximum bytes exceeded"),
        ({"max_msgs_per_subject": 3, "discard_new_per_subject": True}, "maximum messages per subject exceeded"),
    ],
)
def test_there_must_be_room_for_the_whole_batch(options: dict[str, Any], words: str) -> None:
    inlet = filled(discard="new", **options)
    staged = Staged(inlet.stream)
    assert staged.check(message(), inlet.now).original is None
    assert staged.check(message(), inlet.now).original is None
    assert refusal_of(inlet, message(), staged) == (10077, words)


@requirement(11)
def test_the_required_level() -> None:
    for value in ("5", "0", "-1", "+3"):
        found = check_level(message({"Nats-Required-Api-Level": value, "A": "1"}), 5)
        assert found == message({"A": "1"})
    assert check_level(message({"Nats-Required-Api-Level": "5"}), 5) == message()
    for kept in (message(), message({"A": "1"}), message({"Nats-Required-Api-Level": ""})):
        assert check_level(kept, 5) == kept
    for value in ("6", "x", "1.0", "9" * 5000):
        with pytest.raises(APIError) as caught:
            check_level(message({"Nats-Required-Api-Level": value}), 5)
        assert (caught.value.code, caught.value.err_code) == (412, 10185)


SOURCE = "Nats-Stream-Source"


def test_only_streams_say_where_a_message_is_from() -> None:
    inlet = filled()
    words = (10227, "message stream source header is not allowed")
    assert refusal_of(inlet, message({SOURCE: "X 1 > > s.a"})) == words
    assert refusal_of(inlet, message({SOURCE: "X", "Nats-Msg-Id": "B"})) == words
    assert refusal_of(inlet, message({SOURCE: "X", SEQUENCE: "1"}))[0] == 10071
    assert refusal_of(inlet, message({SOURCE: "X"}), Staged(inlet.stream)) == words
    assert check(inlet.stream, message({SOURCE: ""}), inlet.now).original is None


def test_older_releases_store_what_says_where_it_is_from() -> None:
    inlet = filled(context=ServerContext(b"token", release=(2, 14, 6)))
    assert check(inlet.stream, message({SOURCE: "X 1 > > s.a"}), inlet.now).original is None
