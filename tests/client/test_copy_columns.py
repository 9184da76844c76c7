"""Copies by the thousand are the copies one by one, however they are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.copy.columns import CopyColumns, CopyForm, sequences_of
from jsproto.errors import CopyTargetError, MaxPayloadError, OutboundBufferLimitError
from jsproto.grammar.copies import COPY_SOURCE, CopyOrigin, origin_of
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.grammar.position import StreamPosition
from jsproto.wire.frames import RawMsg
from tests.client.test_fast import Batch
from tests.harness import Harness
from tests.marks import promise

TIME = 1_700_000_000_000_000_000
HEADERS: list[dict[str, str]] = [
    {"A": "b"}, {"Nats-Msg-Id": "1", "A": "b"}, {"Nats-TTL": "5s"}, {"Nats-Stream-Source": "X 1 > >"}, {},
]  # fmt: skip
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"s.a", b"s.%d", b"s.\xff", b"s.a.b"]),
        st.none() | st.sampled_from(HEADERS),
        st.binary(max_size=9) | st.sampled_from([b"x" * 1_100, b"y" * 70, b"\r\n"]),
        st.sampled_from([1, 1, 1, 1, 3, 1_000]),
    ),
    min_size=1,
    max_size=40,
)


def anything(subject: str) -> None:
    """A target that takes it."""


def raws_of(messages: Sequence[tuple[bytes, dict[str, str] | None, bytes, int]], first: int) -> list[RawMsg]:
    raws: list[RawMsg] = []
    seq = first - 1
    for number, (subject, headers, payload, step) in enumerate(messages, 1):
        seq += step
        reply = b"$JS.ACK.S.C.1.%d.%d.%d.0" % (seq, number, TIME)
        raws.append((subject, reply, None if headers is None else encode_headers(headers), payload))
    return raws


def columns_of(
    raws: list[RawMsg], expected: int = 0, identity: str | None = "id", prefix: str = "", *, keeps_ttl: bool = False
) -> CopyColumns:
    form = CopyForm(prefix, anything, keeps_ttl=keeps_ttl)
    return CopyColumns(form, ("S", ">", identity), raws, sequences_of(raws), expected)


@promise("Headers that begin with `Nats-` are not, except `Nats-TTL`")
@given(
    MESSAGES, st.sampled_from([1, 95, 998]), st.sampled_from([0, 8, 997]), st.sampled_from(["", "copies.", "a%d."]),
    st.sampled_from([1, 4, 50]), st.sampled_from([400, 2_097_152]), st.booleans(), st.sampled_from([None, "id"]),
)  # fmt: skip
def test_copies_are_published_as_a_list_of_them(
    messages: list[tuple[bytes, dict[str, str] | None, bytes, int]], first: int, expected: int, prefix: str, rate: int,
    pending_size: int, keeps_ttl: bool, identity: str | None,
) -> None:  # fmt: skip
    raws = raws_of(messages, first)
    columns = columns_of(raws, expected, identity, prefix, keeps_ttl=keeps_ttl)
    outcomes = []
    for rows in ([*columns], columns):
        batch = Batch(Harness(pending_size=pending_size)).start(rate)
        done = 0
        sent: list[Any] = []
        while done < len(rows):
            try:
                count = batch.fast.publish_many(rows[done:], batch.h.now)
            except OutboundBufferLimitError:
                count = 0
            done += count
            sent += batch.h.published()
            if not count and not batch.fast.room:
                batch.ack(batch.fast.sequence, rate)
        outcomes.append((sent, batch.fast.sequence))
    assert outcomes[0] == outcomes[1]
    published, _ = outcomes[1]
    assert [origin_of(pub.header or b"") for pub in published] == [
        CopyOrigin(StreamPosition("S", seq, identity, TIME), ">") for seq in sequences_of(raws)
    ]
    assert [pub.subject for pub in published] == [prefix.encode() + raw[0] for raw in raws]
    assert [pub.payload for pub in published] == [raw[3] for raw in raws]
    fences = [Headers.parse(pub.header or b"")["Nats-Expected-Last-Sequence"] for pub in published]
    assert fences == [str(expected + place) for place in range(len(raws))]
    for pub, (_, headers, _, _) in zip(published, messages, strict=True):
        kept = dict(Headers.parse(pub.header or b"").items())
        assert (kept.get("A") == "b") == ("A" in (headers or {}))
        assert ("Nats-TTL" in kept) == (keeps_ttl and "Nats-TTL" in (headers or {}))
        assert not {"Nats-Msg-Id", "Nats-Stream-Source"}.intersection(kept)
        assert COPY_SOURCE in kept


def test_as_a_sequence() -> None:
    raws = raws_of([(b"s.a", None, b"%d" % n, 1) for n in range(5)], 7)
    columns = columns_of(raws, 3, prefix="p.")
    assert (len(columns), columns.subjects, columns.payloads) == (5, ["p.s.a"] * 5, [raw[3] for raw in raws])
    assert list(columns[2:4]) == list(columns)[2:4]
    assert columns[2:4].seqs == range(9, 11)
    assert columns[:0].encoded((b"r.", b""), 1, 1_000, 1_000) == (0, b"")


def test_a_copy_that_is_too_large_is_refused_and_those_before_it_are_sent() -> None:
    batch = Batch(Harness(info={"max_payload": 300})).start(50)
    columns = columns_of(raws_of([(b"s.a", None, b"", 1), (b"s.a", None, b"x" * 250, 1)], 1))
    with pytest.raises(MaxPayloadError):
        batch.fast.publish_many(columns, batch.h.now)
    assert len(batch.h.published()) == 1


def test_a_copy_that_is_just_small_enough() -> None:
    raws = raws_of([(b"s.a", None, b"x" * 100, 1)], 1)
    copy: Any = columns_of(raws)[0]
    _, _, headers = copy
    exact = len(encode_headers(headers)) + 100
    for limit in (exact, exact - 1):
        batch = Batch(Harness(info={"max_payload": limit})).start(50)
        if limit == exact:
            assert batch.fast.publish_many(columns_of(raws), batch.h.now) == 1
        else:
            with pytest.raises(MaxPayloadError):
                batch.fast.publish_many(columns_of(raws), batch.h.now)


def test_each_subject_is_checked_once_and_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.client.copy.columns._MAX_SUBJECTS", 20)
    checked: list[str] = []

    def check(subject: str) -> None:
        checked.append(subject)
        if subject == "p.bad":
            raise CopyTargetError("T", "no")

    form = CopyForm("p.", check, keeps_ttl=False)
    for _ in range(3):
        assert form.lines([b"a", b"b", b"a"]) == [b"PUB p.a ", b"PUB p.b ", b"PUB p.a "]
    assert form.lines([b"a", b"a"]) == b"PUB p.a "
    assert sorted(checked) == ["p.a", "p.b"]
    for lot in range(10):
        form.lines([b"%d.%d" % (lot, number) for number in range(10)])
        assert len(form._lines) <= 20
    with pytest.raises(CopyTargetError):
        form.lines([b"a", b"bad"])


def test_sequences() -> None:
    assert sequences_of(raws_of([(b"s", None, b"", 1)] * 3, 5)) == range(5, 8)
    assert sequences_of(raws_of([(b"s", None, b"", step) for step in (1, 3, 1)], 5)) == [5, 8, 9]
