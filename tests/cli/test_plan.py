"""The plan of an ingest: which stream it looks at, and what it refuses."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from jsproto_io.cli.plan import IngestPlan
from jsproto_io.cli.records import BadUsage, Template


def plan(subject: str = "flights.{carrier}", **options: Any) -> IngestPlan:
    return IngestPlan(template=Template(subject), **{"stream": None, **options})


@pytest.mark.parametrize(
    ("options", "stream"),
    [
        ({}, None),
        ({"create": True}, "FLIGHTS"),
        ({"allow_batched": True}, "FLIGHTS"),
        ({"stream": "OTHER", "create": True}, "OTHER"),
    ],
)
def test_the_stream_is_named_when_it_may_be_changed(options: dict[str, Any], stream: str | None) -> None:
    assert plan(**options).stream == stream


def test_a_subject_that_begins_with_a_column_names_no_stream() -> None:
    assert plan("{carrier}.x").stream is None
    with pytest.raises(BadUsage, match="--stream NAME"):
        plan("{carrier}.x", create=True)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\r"])
def test_what_cannot_separate_values_is_refused(delimiter: str) -> None:
    with pytest.raises(BadUsage, match="one character"):
        plan(delimiter=delimiter)


@pytest.mark.parametrize("delimiter", [None, ";", "\t", "é"])
def test_what_can_separate_values(delimiter: str | None) -> None:
    assert plan(delimiter=delimiter).delimiter == delimiter


def test_a_plan_does_not_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        plan().flow = 1  # type: ignore[misc]
