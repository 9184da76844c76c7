"""What the streams of a server share: ids, time of day, limits, and the words of errors."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from jsproto.errors import BY_ERR_CODE, APIError
from jsproto.grammar.times import parse_timestamp
from jsproto.server.store.context import BatchLimits, ServerContext
from jsproto.server.store.refusals import draft_of, refusal
from tests.marks import requirement

TABLE = Path(__file__).parent.parent / "data" / "error_codes.csv"


def test_ids_are_new_every_time_and_the_same_for_the_same_token() -> None:
    one, same, other = ServerContext(b"one"), ServerContext(b"one"), ServerContext(b"other")
    ids = [one.next_id() for _ in range(100)]
    assert ids == [same.next_id() for _ in range(100)]
    assert not set(ids) & {other.next_id() for _ in range(100)}
    assert len(set(ids)) == 100
    assert all(re.fullmatch("[0-9A-Za-z]{22}", each) for each in ids)


def test_the_time_of_day_is_an_offset() -> None:
    epoch = parse_timestamp("2026-11-20T20:36:46Z")
    assert ServerContext(b"t", epoch=epoch).timestamp(1.5) == parse_timestamp("2026-11-20T20:36:47.5Z")


@requirement(34)
def test_the_defaults_are_those_of_the_reference() -> None:
    context = ServerContext(b"t")
    assert context.version == "2.15.1"
    assert context.limits == BatchLimits(50, 1000, 1000, 1000, 50_000, 10.0)


def test_the_errors_are_those_of_the_table() -> None:
    rows = {int(row["err_code"]): row for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())}
    assert set(BY_ERR_CODE) == set(rows)
    for err_code, row in rows.items():
        error = refusal(err_code, 7)
        assert type(error) is not APIError
        assert (error.code, error.err_code) == (int(row["code"]), err_code)
        if row["description"].count("{") < 2:  # nothing that the server role says has two
            assert error.description == re.sub(r"\{\w+\}", "7", row["description"])


@requirement(83)
@pytest.mark.parametrize(("released", "draft"), [(10205, 10203), (10206, 10204), (10207, 10205), (10208, 10206)])
def test_the_draft_numbers_errors_differently(released: int, draft: int) -> None:
    error = draft_of(refusal(released))
    assert (error.code, error.err_code) == (400, draft)
    assert error.description.startswith("Batch publish ")


def test_most_errors_are_the_same_in_the_draft() -> None:
    error = refusal(10071, 3)
    assert draft_of(error) is error
