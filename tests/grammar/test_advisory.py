"""Advisories about abandoned batches: both spellings, from real servers and from nobody."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import BadSubjectError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.advisory import (
    DRAFT_TYPE,
    RELEASED_TYPE,
    AbandonReason,
    BatchAbandoned,
    MessageGivenUp,
    batch_abandoned_subject,
    encode_batch_abandoned,
    given_up_subjects,
    parse_batch_abandoned,
    parse_given_up,
)
from jsproto.grammar.bodies import dumps
from tests.grammar.recorded import frames
from tests.marks import known_fault, requirement

ABANDONED = BatchAbandoned("AB", "b1", "timeout", "vJ2Q6Tlc1SOmePyWdZsmT4", 1795208596820535427)
RELEASED = (
    b'{"type":"io.nats.jetstream.advisory.v1.stream_batch_abandoned","id":"vJ2Q6Tlc1SOmePyWdZsmT4",'
    b'"timestamp":"2026-11-20T21:03:16.820535427Z","stream":"AB","batch":"b1","reason":"timeout"}'
)
DRAFT = RELEASED.replace(b"stream_batch_abandoned", b"batch_abandoned")

texts = st.text(st.characters(exclude_categories=["Cs"]))
advisories = st.builds(
    BatchAbandoned,
    stream=texts,
    batch_id=texts,
    reason=st.sampled_from(get_args(AbandonReason)) | texts,
    id=texts,
    timestamp=st.integers(-(10**18), 10**19),
    domain=st.none() | texts,
)


def test_subject() -> None:
    assert batch_abandoned_subject("AB") == "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.AB"
    with pytest.raises(BadSubjectError, match="stream name"):
        batch_abandoned_subject("A.B")


@requirement(95)
def test_released_spelling() -> None:
    assert parse_batch_abandoned(RELEASED) == ABANDONED
    assert encode_batch_abandoned(ABANDONED) == RELEASED


@requirement(95)
def test_draft_spelling_is_the_same_advisory() -> None:
    assert parse_batch_abandoned(DRAFT) == ABANDONED
    assert encode_batch_abandoned(ABANDONED, "draft") == DRAFT


@requirement(95)
def test_every_recorded_one_is_read_and_written_again() -> None:
    reasons = set()
    for frame in frames():
        found = re.fullmatch(rb"MSG (\$JS\.EVENT\.ADVISORY\.STREAM\.BATCH_ABANDONED\.\S+) .*?\r\n(.*)\r\n", frame.raw)
        if found is not None:
            advisory = parse_batch_abandoned(found[2])
            assert encode_batch_abandoned(advisory) == found[2]
            assert batch_abandoned_subject(advisory.stream).encode() == found[1]
            reasons.add(advisory.reason)
    assert reasons == {"timeout", "incomplete"}


@requirement(96)
@known_fault("new fields of the server need a release")
@pytest.mark.parametrize("reason", [*get_args(AbandonReason), "tired"])
def test_reasons_known_and_unknown_are_kept(reason: str) -> None:
    read = parse_batch_abandoned(RELEASED.replace(b"timeout", reason.encode()))
    assert read == BatchAbandoned("AB", "b1", reason, ABANDONED.id, ABANDONED.timestamp)


def test_domain_comes_behind_the_stream() -> None:
    advisory = BatchAbandoned("AB", "b1", "large", "x", 0, "hub")
    data = encode_batch_abandoned(advisory)
    assert b'"stream":"AB","domain":"hub","batch":"b1"' in data
    assert parse_batch_abandoned(data) == advisory


@given(advisories, st.sampled_from(["released", "draft"]))
@example(BatchAbandoned("<&>\u2028", '"\\\n', "日", "", 0, ""), "released")
def test_what_is_written_reads_back(advisory: BatchAbandoned, dialect: Any) -> None:
    data = encode_batch_abandoned(advisory, dialect)
    assert parse_batch_abandoned(data) == advisory
    assert json.loads(data)["type"] == (RELEASED_TYPE if dialect == "released" else DRAFT_TYPE)
    assert not set(b"<>&") & set(data)


def test_text_that_utf_8_cannot_encode_becomes_question_marks() -> None:
    echo = BatchAbandoned("AB", "\udcff", "timeout", "x", 0)  # a batch id that was no UTF-8
    assert b'"batch":"?"' in encode_batch_abandoned(echo)


def test_a_time_beyond_the_calendar_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="years 0 to 9999"):
        encode_batch_abandoned(BatchAbandoned("AB", "b1", "timeout", "x", 10**21))


@pytest.mark.parametrize(
    "field",
    [
        {"type": None},
        {"type": "io.nats.jetstream.advisory.v1.stream_action"},
        {"type": [RELEASED_TYPE]},
        {"stream": None},
        {"stream": 5},
        {"batch": None},
        {"batch": ["b1"]},
        {"reason": None},
        {"reason": 1},
        {"id": None},
        {"timestamp": None},
        {"timestamp": 1795208596},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-02-30T00:00:00Z"},
        {"domain": 7},
    ],
)
def test_malformed(field: dict[str, Any]) -> None:
    body = json.loads(RELEASED) | field
    with pytest.raises(RemoteProtocolError):
        parse_batch_abandoned(json.dumps(body).encode())


@given(
    st.binary(max_size=64) | st.dictionaries(texts, texts | st.integers()).map(lambda body: json.dumps(body).encode())
)
@example(b"")
@example(RELEASED[:-1])
@example(RELEASED.replace(b"2026", b"\xff\xff\xff\xff"))
def test_junk_is_an_error_of_the_peer(junk: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_batch_abandoned(junk)


# -- messages that a consumer gave up ----------------------------------------------------------------------------------

TERMINATED = {
    "type": "io.nats.jetstream.advisory.v1.terminated", "id": "I", "timestamp": "2026-11-20T20:36:46.5Z", "stream": "S",
    "consumer": "C", "consumer_seq": 8, "stream_seq": 7, "deliveries": 2, "reason": "no",
}  # fmt: skip


def test_a_message_that_was_given_up() -> None:
    told = parse_given_up(dumps(TERMINATED))
    assert told == MessageGivenUp("S", "C", 7, 2, "terminated", "no", "I", 1_795_207_006_500_000_000)
    kind = {"type": "io.nats.jetstream.advisory.v1.max_deliver", "reason": None}
    told = parse_given_up(dumps({name: value for name, value in (TERMINATED | kind).items() if value is not None}))
    assert (told.reason, told.note) == ("max_deliver", None)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "io.nats.jetstream.advisory.v1.nak"},
        {"type": 7},
        {"timestamp": "today"},
        {"stream_seq": -1},
        {"stream": 1},
    ],
)
def test_what_is_no_such_advisory(change: dict[str, object]) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_given_up(dumps(TERMINATED | change))


def test_the_subjects_of_such_advisories() -> None:
    assert given_up_subjects("S") == [
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.*", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.*",
    ]  # fmt: skip
    assert given_up_subjects("S", "C")[1] == "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C"
    for names in (("S.x",), ("S", "C.x")):
        with pytest.raises(BadSubjectError):
            given_up_subjects(*names)
