"""The ack reply subject: both versions, from real servers and from nobody."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import NotJSMessageError
from jsproto.grammar.jsack import JSAck, Sequences, build_jsack, jsack_sequences, jsack_times, parse_jsack
from tests.grammar.recorded import frames
from tests.marks import requirement

V1 = b"$JS.ACK.S.C.2.3.10.1795207976055523928.7"
V2 = b"$JS.ACK.hub.szMpdrwD.S.C.2.3.10.1795207976055523928.7"
BIG = 2**64 - 1
LATEST = 2**63 - 1  # a timestamp is signed

texts = st.text(st.characters(exclude_characters=".", exclude_categories=["Cs"]), min_size=1)
numbers = st.integers(0, BIG)
moments = st.integers(0, LATEST)
optional = st.none() | texts.filter(lambda text: text != "_")


DELIVERIES = st.tuples(st.sampled_from([1, 1, 1, 7, 950]), st.integers(1, 12), moments, st.integers(0, 2_000))


@given(
    st.integers(1, BIG - 50_000), st.integers(1, BIG - 50_000), st.lists(DELIVERIES, max_size=40),
    st.none() | st.just("szMpdrwD"), st.booleans(),
)  # fmt: skip
@example(98, 8, [(1, 1, 1795207976055523928, 3)] * 40, None, False)
def test_the_times_of_many_are_those_of_each(
    stream: int, consumer: int, messages: list[tuple[int, int, int, int]], account: str | None, is_recent: bool
) -> None:
    replies = []
    for step, deliveries, moment, pending in messages:
        stream, consumer = stream + step, consumer + 1
        time = 10**18 + moment % 10**18 if is_recent else moment
        ack = JSAck(None, account, "S", "C", deliveries, Sequences(stream, consumer), time, pending)
        replies.append(build_jsack(ack))
    assert jsack_times(replies) == [b"%019d" % parse_jsack(reply).timestamp for reply in replies]


@pytest.mark.parametrize("bad", [b"x", b"$JS.ACK.S.C.1.1.1.then.0", b"$JS.ACK.S.C.1.1.1.9.0"[:-4]])
def test_times_of_something_else(bad: bytes) -> None:
    with pytest.raises(NotJSMessageError):
        jsack_times([V1, bad])


@requirement(207)
def test_version_1() -> None:
    assert parse_jsack(V1) == JSAck(
        domain=None, account_hash=None, stream="S", consumer="C", num_delivered=2,
        sequence=Sequences(3, 10), timestamp=1795207976055523928, num_pending=7,
    )  # fmt: skip
    assert jsack_sequences(V1) == (3, 10)


@requirement(208)
def test_version_2() -> None:
    assert parse_jsack(V2) == JSAck("hub", "szMpdrwD", "S", "C", 2, Sequences(3, 10), 1795207976055523928, 7)
    assert jsack_sequences(V2) == (3, 10)


@requirement(211)
def test_underscore_is_no_domain() -> None:
    ack = parse_jsack(b"$JS.ACK._.szMpdrwD.S.P.1.1.1.1795208758232318789.0")
    assert (ack.domain, ack.account_hash) == (None, "szMpdrwD")


@requirement(209)
@pytest.mark.parametrize("more", [b".extra", b".a.b.c", b".", b".\xff", b".12\n"])
def test_tokens_after_the_eleventh_are_ignored(more: bytes) -> None:
    assert parse_jsack(V2 + more) == parse_jsack(V2)
    assert jsack_sequences(V2 + more) == (3, 10)


def test_every_recorded_one_is_read_and_written_again() -> None:
    found = {subject for frame in frames() for subject in re.findall(rb"\$JS\.ACK\.[^ \r\n\"]*", frame.raw)}
    assert len(found) > 100
    tokens = set()
    for subject in found:
        ack = parse_jsack(subject)
        assert jsack_sequences(subject) == (ack.sequence.stream, ack.sequence.consumer)
        assert build_jsack(ack) == subject.removesuffix(b".extra")
        assert (ack.account_hash is None) == (subject.count(b".") == 8)
        assert ack.sequence.stream >= 1
        tokens.add(subject.count(b".") + 1)
    assert tokens == {9, 11, 12}


@requirement(205, 210)
@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"$JS",
        b"$JS.ACK",
        b"_INBOX.a.b",
        V1.removesuffix(b".7"),  # 8 tokens
        V1 + b".1",  # 10 tokens
        V2.removesuffix(b".7"),  # 10 tokens
        V1.replace(b"$JS", b"$js"),
        V1.replace(b"ACK", b"FC"),
        b"x" + V2,
        V2.replace(b".ACK.", b".ACKS."),
    ],
)
def test_what_is_not_one(reply: bytes) -> None:
    for parse in (parse_jsack, jsack_sequences):
        with pytest.raises(NotJSMessageError, match=r"not an ack reply subject"):
            parse(reply)


NO_NUMBERS = [
    b"",
    b"x",
    b"-1",
    b"+1",
    b"1_0",
    b" 1",
    b"1.0e1"[:1] + b"e",
    b"\xd9\xa3",
    b"\xc2\xb2",
    b"%d" % 2**64,
    b"1" * 5000,
]


@requirement(210)
@pytest.mark.parametrize("junk", NO_NUMBERS)
@pytest.mark.parametrize("ack", [V1, V2])
@pytest.mark.parametrize("place", [-5, -4, -3, -2, -1])
def test_numbers_are_numbers(ack: bytes, place: int, junk: bytes) -> None:
    tokens = ack.split(b".")
    tokens[place] = junk
    with pytest.raises(NotJSMessageError):
        parse_jsack(b".".join(tokens))
    if place in (-4, -3):
        with pytest.raises(NotJSMessageError):
            jsack_sequences(b".".join(tokens))
    else:
        assert jsack_sequences(b".".join(tokens)) == (3, 10)  # it looks at nothing else


@pytest.mark.parametrize("ack", [V1, V2])
def test_a_time_that_no_server_has_is_none(ack: bytes) -> None:
    tokens = ack.split(b".")
    tokens[-2] = b"%d" % LATEST
    assert parse_jsack(b".".join(tokens)).timestamp == LATEST
    tokens[-2] = b"%d" % (LATEST + 1)
    with pytest.raises(NotJSMessageError):
        parse_jsack(b".".join(tokens))


@pytest.mark.parametrize("junk", [b"", b"\xff"])
@pytest.mark.parametrize(("ack", "places"), [(V1, range(2, 4)), (V2, range(2, 6))])
def test_names_are_text(ack: bytes, places: range, junk: bytes) -> None:
    for place in places:
        tokens = ack.split(b".")
        tokens[place] = junk
        with pytest.raises(NotJSMessageError):
            parse_jsack(b".".join(tokens))


@given(optional, optional, texts, texts, st.tuples(numbers, numbers, numbers, moments, numbers))
@example(None, None, "S", "C", (BIG, BIG, BIG, LATEST, BIG))
@example(None, "hash", "S", "C", (0, 0, 0, 0, 0))
def test_what_is_built_is_parsed(
    domain: str | None, account_hash: str | None, stream: str, consumer: str, counts: tuple[int, int, int, int, int]
) -> None:
    times, *place, timestamp, pending = counts
    domain = domain if account_hash else None
    ack = JSAck(domain, account_hash, stream, consumer, times, Sequences(*place), timestamp, pending)
    assert parse_jsack(build_jsack(ack)) == ack
    assert jsack_sequences(build_jsack(ack)) == (ack.sequence.stream, ack.sequence.consumer)


def test_version_1_has_no_domain() -> None:
    assert build_jsack(JSAck("hub", None, "S", "C", 1, Sequences(2, 3), 4, 5)) == b"$JS.ACK.S.C.1.2.3.4.5"


tokens = st.lists(st.sampled_from([b"S", b"1", b"_", b"", b"x", b"\xff", b"9" * 20, b"9" * 21]), max_size=12)


@given(st.binary() | tokens.map(lambda parts: b".".join([b"$JS", b"ACK", *parts])))
def test_whatever_arrives_is_one_or_is_refused(reply: bytes) -> None:
    try:
        ack = parse_jsack(reply)
    except NotJSMessageError:
        ack = None
    try:
        sequences = jsack_sequences(reply)
    except NotJSMessageError:
        sequences = None
    if ack is not None:
        assert sequences == (ack.sequence.stream, ack.sequence.consumer)
        assert max(ack.num_delivered, *sequences, ack.timestamp, ack.num_pending) <= BIG
