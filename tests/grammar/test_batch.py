"""The headers of atomic batches: built strictly, read as nats-server reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.grammar.batch import (
    COMMIT_EOB,
    COMMIT_STORE,
    BatchCommit,
    BatchHeaders,
    BatchProblem,
    batch_head,
    behind,
    parse_batch_headers,
)
from jsproto.grammar.headers import Headers, encode_headers
from tests.marks import known_fault, requirement

IDS = st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z")


def read(*lines: str) -> BatchHeaders | None:
    return parse_batch_headers("\r\n".join(["NATS/1.0", *lines, "", ""]).encode())


# -- building ----------------------------------------------------------------------------------------------------------


def test_the_block_of_a_member() -> None:
    head = batch_head("b1")
    assert b"%b%d\r\n\r\n" % (head, 7) == b"NATS/1.0\r\nNats-Batch-Id: b1\r\nNats-Batch-Sequence: 7\r\n\r\n"
    assert b"%b%d%b\r\n" % (head, 7, COMMIT_STORE) == encode_headers(
        {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "7", "Nats-Batch-Commit": "1"}
    )
    assert b"%b%d%b\r\n" % (head, 7, COMMIT_EOB) == encode_headers(
        {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "7", "Nats-Batch-Commit": "eob"}
    )
    assert b"%b%d\r\n%b" % (head, 7, behind(encode_headers({"K": "v"}))) == encode_headers(
        {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "7", "K": "v"}
    )


def test_the_required_level_is_on_every_member() -> None:
    assert batch_head("b1", 4).startswith(b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\nNats-Batch-Id: b1\r\n")
    assert batch_head("b1", 0).startswith(b"NATS/1.0\r\nNats-Required-Api-Level: 0\r\n")
    for level in (-1, True, "4"):
        with pytest.raises(LocalProtocolError, match="API level"):
            batch_head("b1", level)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_id", ["", "x" * 65, "ä" * 33, "a.b", "a b", "a\r\nNats-Batch-Commit: 1", "*"])
def test_an_impossible_id_is_refused(batch_id: str) -> None:
    with pytest.raises(BadSubjectError):
        batch_head(batch_id)


@requirement(2)
@known_fault("ids of the caller, and what they may be")
def test_the_longest_id_is_64_bytes() -> None:
    assert batch_head("x" * 64).count(b"x") == 64


@given(IDS, st.integers(1, 2**63), st.sampled_from([None, 0, 5]), st.sampled_from([b"\r\n", COMMIT_STORE, COMMIT_EOB]))
def test_what_is_built_is_read(batch_id: str, sequence: int, level: int | None, commit: bytes) -> None:
    block = b"%b%d%b%b" % (batch_head(batch_id, level), sequence, commit, behind(encode_headers({"K": "v"})))
    meant = {b"\r\n": BatchCommit.NONE, COMMIT_STORE: BatchCommit.STORE, COMMIT_EOB: BatchCommit.EOB}[commit]
    assert parse_batch_headers(block) == BatchHeaders(batch_id, sequence, meant, None)
    assert Headers.parse(block)["K"] == "v"


# -- reading -----------------------------------------------------------------------------------------------------------


def test_what_is_no_member() -> None:
    assert parse_batch_headers(None) is None
    assert parse_batch_headers(b"") is None
    assert read("K: v") is None
    assert read("nats-batch-id: b1", "Nats-Batch-Sequence: 1") is None
    assert read("Nats-Batch-Id:", "Nats-Batch-Sequence: 1") is None
    assert read("Nats-Batch-Id: ", "Nats-Batch-Sequence: 1") is None
    assert read("K: Nats-Batch-Id: b1") is None
    assert parse_batch_headers(b"NATS/1.0\r\nNats-Batch-Id: b1") is None


def test_blanks_before_a_value_are_skipped_and_the_first_line_wins() -> None:
    block = ("Nats-Batch-Id:   b1", "Nats-Batch-Sequence:2", "Nats-Batch-Id: b2", "Nats-Batch-Sequence: 3")
    assert read(*block) == BatchHeaders("b1", 2, BatchCommit.NONE, None)


@pytest.mark.parametrize(
    ("value", "sequence"),
    [("1", 1), ("01", 1), ("0", 0), ("00", 0), ("1000", 1000), (str(2**64 - 1), 2**64 - 1), ("9" * 30, 2**64)],
)
def test_sequences_are_digits(value: str, sequence: int) -> None:
    assert read("Nats-Batch-Id: b", f"Nats-Batch-Sequence: {value}") == BatchHeaders(
        "b", sequence, BatchCommit.NONE, None
    )


@pytest.mark.parametrize("value", ["", "abc", "-1", "+1", "1 ", "1.0", "\u0661"])
def test_anything_else_is_a_missing_sequence(value: str) -> None:
    found = read("Nats-Batch-Id: b", f"Nats-Batch-Sequence: {value}")
    assert found == BatchHeaders("b", -1, BatchCommit.NONE, BatchProblem.MISSING_SEQUENCE)
    assert read("Nats-Batch-Id: b") == found


@pytest.mark.parametrize(
    ("value", "commit"),
    [
        ("1", BatchCommit.STORE),
        ("eob", BatchCommit.EOB),
        *((bad, BatchCommit.INVALID) for bad in ("", "0", "EOB", "true", "11")),
    ],
)
def test_commit_values(value: str, commit: BatchCommit) -> None:
    found = read("Nats-Batch-Id: b", "Nats-Batch-Sequence: 2", f"Nats-Batch-Commit: {value}")
    assert found == BatchHeaders("b", 2, commit, None)


def test_ids_are_counted_in_bytes() -> None:
    def problem(batch_id: str) -> BatchProblem | None:
        found = read(f"Nats-Batch-Id: {batch_id}", "Nats-Batch-Sequence: 1")
        assert found is not None
        assert found.batch_id == batch_id
        return found.problem

    assert problem("x" * 64) is None
    assert problem("a.b c") is None
    assert problem("x" * 65) is BatchProblem.INVALID_ID
    assert problem("ä" * 33) is BatchProblem.INVALID_ID


@given(st.binary(max_size=200))
def test_reading_never_raises(noise: bytes) -> None:
    parse_batch_headers(noise)
    parse_batch_headers(b"NATS/1.0\r\nNats-Batch-Id: " + noise)
    parse_batch_headers(b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: " + noise)
