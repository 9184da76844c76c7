"""The reply subject of fast ingest: strict to build, read exactly as nats-server 2.15.1 reads it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.fast import (
    MAX_BATCH_SEQUENCE,
    FastOp,
    FastProblem,
    FastReply,
    GapMode,
    check_batch_id,
    fast_reply_prefix,
    parse_fast_reply,
)
from tests.grammar.recorded import frames
from tests.marks import known_fault, requirement

START = FastReply("_INBOX.fi", "u1", 10, "ok", 1, FastOp.START)
PATTERN, BATCH_ID = FastProblem.PATTERN, FastProblem.BATCH_ID


def built(reply: FastReply) -> bytes:
    """The reply subject, made as a publisher makes it."""
    head = fast_reply_prefix(reply.prefix, reply.batch_id, reply.flow, reply.gap)
    return head + b"%d.%d.$FI" % (reply.sequence, reply.operation)


def reply(flow: str = "10", gap: str = "ok", sequence: str = "2", operation: str = "1", batch_id: str = "u1") -> bytes:
    return f"_INBOX.fi.{batch_id}.{flow}.{gap}.{sequence}.{operation}.$FI".encode()


@requirement(45)
def test_the_examples_of_the_specification() -> None:
    assert built(START) == b"_INBOX.fi.u1.10.ok.1.0.$FI"
    head = fast_reply_prefix("_INBOX.fi", "u1", 10, "ok")
    assert head == b"_INBOX.fi.u1.10.ok."
    expected = [(1, FastOp.APPEND, 5), (2, FastOp.COMMIT, 5), (3, FastOp.COMMIT_EOB, 5), (4, FastOp.PING, 5)]
    for number, operation, sequence in expected:
        subject = built(FastReply("_INBOX.fi", "u1", 10, "ok", sequence, operation))
        assert subject == head + b"%d.%d.$FI" % (sequence, number)
        assert parse_fast_reply(subject) == FastReply("_INBOX.fi", "u1", 10, "ok", sequence, operation)


def test_every_recorded_one_is_sorted_as_the_server_did() -> None:
    """Of the recordings with a stream that takes fast ingest: what it refused, and what it did not."""
    refused: dict[bytes, FastProblem] = {}
    sent = set()
    for frame in frames():
        if not frame.scenario.startswith("fast-") or frame.version != "2.15.1":
            continue
        if not frame.from_server:
            sent.update(re.findall(rb"^H?PUB \S+ (\S*\$FI) ", frame.raw))
        answered = re.match(rb'MSG (\S+) \d+ \d+\r\n{"error":{"code":400,"err_code":(10206|10207),', frame.raw)
        if answered is not None:
            refused[answered[1]] = FastProblem(int(answered[2]))
    assert set(refused.values()) == {PATTERN, BATCH_ID}
    assert len(sent) > 100
    for subject in sent - {b"_INBOX.fi.f11..ok.1.0.$FI", b"_INBOX.fi.f11..ok.2.3.$FI"}:
        parsed = parse_fast_reply(subject)
        if subject in refused:
            assert parsed is refused[subject]
        else:
            assert isinstance(parsed, FastReply), subject


@pytest.mark.parametrize(
    ("flow", "read"),
    [
        ("1", 1), ("500", 500), ("007", 7), ("65535", 65535), ("65536", 65535), ("9" * 30, 65535),
        ("0", 10), ("-1", 10), ("+7", 10), ("abc", 10), ("", 10), ("1_0", 10), ("\u0663", 10),
    ],
)  # fmt: skip
def test_the_flow(flow: str, read: int) -> None:
    parsed = parse_fast_reply(reply(flow=flow))
    assert isinstance(parsed, FastReply)
    assert parsed.flow == read


@pytest.mark.parametrize(
    "sequence", ["", "x", "-1", "+2", "2_0", "\u0663", "0", "00", str(2**64 - 1), str(2**64), "9" * 5000]
)
def test_sequences_that_are_refused(sequence: str) -> None:
    for operation in "1234":
        assert parse_fast_reply(reply(sequence=sequence, operation=operation)) is PATTERN


@requirement(52)
@pytest.mark.parametrize("operation", ["", "5", "9", "10", "x", "-1", "+1", "\u0661", str(2**64), "9" * 5000])
def test_operations_that_are_refused(operation: str) -> None:
    for sequence in "12":
        assert parse_fast_reply(reply(sequence=sequence, operation=operation)) is PATTERN


@pytest.mark.parametrize("number", ["2", "02", "0" * 40 + "2"])
def test_leading_zeros_are_read(number: str) -> None:
    """Seen: ``02`` commits a batch, ``01`` appends to it (and so is refused at sequence 1, as ``1`` is)."""
    parsed = parse_fast_reply(reply(sequence=number, operation=number))
    assert parsed == FastReply("_INBOX.fi", "u1", 10, "ok", 2, FastOp.COMMIT)
    assert parse_fast_reply(reply(sequence="1", operation="01")) is PATTERN


FITS = {
    FastOp.START: (True, False, False),
    FastOp.APPEND: (False, True, True),
    FastOp.COMMIT: (True, True, True),
    FastOp.COMMIT_EOB: (False, True, True),
    FastOp.PING: (True, True, True),
}


@requirement(47, 48)
@pytest.mark.parametrize("operation", FastOp)
@pytest.mark.parametrize(("index", "sequence"), list(enumerate([1, 2, MAX_BATCH_SEQUENCE])))
def test_which_operation_fits_which_sequence(operation: FastOp, index: int, sequence: int) -> None:
    wanted = FastReply("_INBOX.fi", "u1", 10, "ok", sequence, operation)
    subject = reply(sequence=str(sequence), operation=str(int(operation)))
    if FITS[operation][index]:
        assert parse_fast_reply(subject) == wanted
        assert built(wanted) == subject
    else:
        assert parse_fast_reply(subject) is PATTERN


@requirement(64)
@pytest.mark.parametrize("gap", ["", "OK", "okay", "maybe", "Fail", "ok "])
def test_gap_modes_that_are_refused(gap: GapMode) -> None:
    assert parse_fast_reply(reply(gap=gap)) is PATTERN
    with pytest.raises(LocalProtocolError, match="gap is 'ok' or 'fail'"):
        fast_reply_prefix("_INBOX.fi", "u1", 10, gap)


@requirement(62)
@pytest.mark.parametrize("flow", [0, -1, 65536, 1.5, True, "10", None])
def test_flows_that_are_refused(flow: int) -> None:
    with pytest.raises(LocalProtocolError, match="flow is 1 to 65535"):
        fast_reply_prefix("_INBOX.fi", "u1", flow, "ok")


@pytest.mark.parametrize("prefix", ["", ".", "a..b", "a b", "a\r\nb", "_INBOX.*", ">"])
def test_prefixes_that_are_refused(prefix: str) -> None:
    with pytest.raises(BadSubjectError):
        fast_reply_prefix(prefix, "u1", 10, "ok")


@requirement(46)
@pytest.mark.parametrize(
    "batch_id",
    ["", "a.b", "a b", "*", "a*", ">", "a>", "\t", "a\r\n", "\0", "\x01", "\x7f", "\xa0", "\ud800", "x" * 65, "é" * 33],
)
def test_batch_ids_that_are_refused(batch_id: str) -> None:
    with pytest.raises(BadSubjectError, match="a batch id"):
        check_batch_id(batch_id)


@pytest.mark.parametrize("batch_id", [5, b"b", None])
def test_a_batch_id_of_a_wrong_type_is_named(batch_id: Any) -> None:
    with pytest.raises(BadSubjectError, match="batch_id"):
        check_batch_id(batch_id)


@pytest.mark.parametrize("batch_id", ["u", "x" * 64, "é" * 32, 'a"\\<&'])
def test_batch_ids(batch_id: str) -> None:
    assert check_batch_id(batch_id) == batch_id.encode()
    parsed = parse_fast_reply(reply(batch_id=batch_id))
    assert isinstance(parsed, FastReply)
    assert parsed.batch_id == batch_id


@requirement(46)
@pytest.mark.parametrize("batch_id", [b"", b"x" * 65, "é".encode() * 33, b"\xff"])
def test_batch_ids_that_a_server_refuses(batch_id: bytes) -> None:
    assert parse_fast_reply(b"p." + batch_id + b".10.ok.1.0.$FI") is BATCH_ID
    assert parse_fast_reply(b"p." + batch_id + b".10.ok.0.0.$FI") is PATTERN  # the pattern is looked at first


@pytest.mark.parametrize(
    "subject", [b"", b"$FI", b".$FI", b"_INBOX.a", b"a.b.10.ok.1.0.$fi", b"a.b.10.ok.1.0.$FI.", b"a.b.10.ok.1.0.x$FI"]
)
def test_ordinary_replies(subject: bytes) -> None:
    assert parse_fast_reply(subject) is None


@pytest.mark.parametrize("subject", [b"_R.$FI", b"..$FI", b"_R.a.b.0.$FI", b"u1.10.ok.1.0.$FI", b".u1.10.ok.1.0.$FI"])
def test_too_few_tokens(subject: bytes) -> None:
    assert parse_fast_reply(subject) is PATTERN


def test_a_prefix_may_be_any_bytes() -> None:
    """The server answers to the subject as it came: what is in the prefix does not matter to it."""
    parsed = parse_fast_reply(b"\xff.a.b.10.ok.1.0.$FI")
    assert parsed == FastReply("\udcff.a", "b", 10, "ok", 1, FastOp.START)
    assert built(parsed) == b"\xff.a.b.10.ok.1.0.$FI"


tokens = st.text(
    st.characters(exclude_characters=".*> \0\t\n\v\f\r", exclude_categories=["Cs"]), min_size=1, max_size=9
)
batch_ids = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "S"], exclude_characters=".*>"), min_size=1, max_size=64
)


@requirement(45)
@given(
    st.lists(tokens, min_size=1, max_size=4),
    batch_ids,
    st.integers(1, 65535),
    st.sampled_from(["ok", "fail"]),
    st.integers(1, MAX_BATCH_SEQUENCE),
    st.sampled_from(FastOp),
)
def test_what_is_built_is_parsed(
    prefix: list[str], batch_id: str, flow: int, gap: GapMode, sequence: int, operation: FastOp
) -> None:
    if operation is FastOp.START:
        sequence = 1
    elif not FITS[operation][0]:
        sequence = max(sequence, 2)
    wanted = FastReply(".".join(prefix), batch_id, flow, gap, sequence, operation)
    assert parse_fast_reply(built(wanted)) == wanted


junk = st.lists(
    st.sampled_from([b"", b"a", b"0", b"1", b"2", b"4", b"5", b"10", b"ok", b"fail", b"\xff", b"-1", b"9" * 25]),
    max_size=8,
)


@given(st.binary() | junk.map(lambda parts: b".".join([*parts, b"$FI"])))
def test_whatever_arrives_is_sorted(subject: bytes) -> None:
    parsed = parse_fast_reply(subject)
    if isinstance(parsed, FastReply):
        assert 1 <= parsed.flow <= 65535
        assert 1 <= parsed.sequence <= MAX_BATCH_SEQUENCE
        assert FITS[parsed.operation][min(parsed.sequence, 2) - 1]
    else:
        assert (parsed is None) == (not subject.endswith(b".$FI") or subject == b".$FI")


@requirement(83)
@known_fault("error codes of fast ingest that mean something else by now")
def test_a_problem_is_the_servers_error_code() -> None:
    assert (int(PATTERN), int(BATCH_ID)) == (10206, 10207)
