"""What markers say: each line of the table, and what is no marker. No server, no JVM."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.grammar.config import StreamConfig
from pyspark_jetstream.markers import (
    Found,
    Marker,
    MarkerError,
    Run,
    TaskId,
    Verdict,
    check_keeps_markers,
    decode_marker,
    judge,
    refusal,
)
from pyspark_jetstream.option_fields import OptionError
from tests.marks import promise
from tests.spark.memory import OPTIONS

pytestmark = pytest.mark.spark
TASK = TaskId("q", 5, 2)
JOB = TaskId("job", 5, 2, in_turn=False)


@promise("With `atomic` a checkpoint that is older than the target fails before a row is stored.")
@pytest.mark.parametrize(
    ("own", "whole", "older", "verdict", "of_job"),
    [
        (3, None, False, Verdict.BEGIN, Verdict.BEGIN),
        (4, 4, False, Verdict.BEGIN, Verdict.BEGIN),
        (None, 4, False, Verdict.BEGIN, Verdict.BEGIN),
        (None, None, True, Verdict.BEGIN, Verdict.BEGIN),
        (None, None, False, Verdict.UNPROVED, Verdict.BEGIN),
        (None, 3, False, Verdict.GAP, Verdict.BEGIN),
        (3, 3, False, Verdict.GAP, Verdict.BEGIN),
        (5, 4, False, Verdict.GO_ON, Verdict.GO_ON),
        (5, None, False, Verdict.GO_ON, Verdict.GO_ON),
        (5, 5, False, Verdict.COMPARE, Verdict.COMPARE),
        (4, 5, False, Verdict.COMPARE, Verdict.COMPARE),
        (None, 5, False, Verdict.COMPARE, Verdict.COMPARE),
        (6, None, False, Verdict.AHEAD, Verdict.AHEAD),
        (None, 6, False, Verdict.AHEAD, Verdict.AHEAD),
        (5, 7, False, Verdict.AHEAD, Verdict.AHEAD),
        (6, 5, False, Verdict.AHEAD, Verdict.AHEAD),
    ],
)
def test_each_line_of_the_table(
    own: int | None, whole: int | None, older: bool, verdict: Verdict, of_job: Verdict
) -> None:
    found = Found(own, whole, older)
    assert judge(TASK, found) is verdict
    assert judge(JOB, found) is of_job


@promise("repeated after the target has dropped their markers")
def test_the_first_micro_batch_has_nothing_to_be_proved_by() -> None:
    """Its markers may have been dropped, and then it looks new. The README says so."""
    assert judge(TaskId("q", 0, 0), Found(None, None, False)) is Verdict.BEGIN


@pytest.mark.parametrize("task", [TASK, JOB])
def test_an_error_says_what_to_do(task: TaskId) -> None:
    assert 'publish {"v": 2, "batch": 4} to t.$spark.q.all' in refusal(
        Verdict.UNPROVED, TASK, Found(None, None, False), OPTIONS
    )
    assert "the last micro-batch that the stream has as a whole is 2, and not 4" in refusal(
        Verdict.GAP, TASK, Found(None, 2, False), OPTIONS
    )
    text = refusal(Verdict.AHEAD, task, Found(8, 7, False), OPTIONS)
    assert ("give a higher txnVersion" if task is JOB else "a new checkpointLocation") in text
    assert " 8 " in text


@pytest.mark.parametrize(
    "marker",
    [
        Marker(3),
        Marker(3, 17, "ab"),
        Marker(3, 17, "ab", {-5: Run(9, 1), 2**62: Run(1, 3)}),
        Marker(3, 17, None, {0: Run(9, 1)}),
    ],
)
def test_a_marker_is_read_as_it_was_written(marker: Marker) -> None:
    found = decode_marker(bytes(marker))
    assert found == marker
    assert [*(found.runs or ())] == [*(marker.runs or ())]  # the one under way is the last


def test_a_marker_of_an_older_release() -> None:
    assert decode_marker(b'{"batch": 3, "rows": 17}') == Marker(3, 17, is_old=True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is no marker"),
        (b"[]", "is no marker"),
        (b"[" * 100_000, "is no marker"),
        (b'{"v": 2, "batch": 1, "rows": 2, "runs": [[Infinity, 1, 1]]}', "is no marker"),
        (
            b"\xff",
            "is no marker: .* Delete it, and the marker before it counts again. Or take a new checkpointLocation",
        ),
        (b"{}", "is no marker"),
        (b'{"batch": "1", "rows": 2}', "is no marker"),
        (b'{"batch": -1, "rows": 2}', "is no marker"),
        (b'{"batch": true, "rows": 2}', "is no marker"),
        (b'{"v": 2, "batch": 1, "rows": 2}', "is no marker"),
        (b'{"v": 2, "batch": 1, "rows": 2, "digest": 3}', "is no marker"),
        (b'{"v": 2, "batch": 1, "rows": 2, "digest": "a", "runs": [[1]]}', "is no marker"),
        (b'{"v": 3, "batch": 1, "rows": 2}', "of version 3: this release knows versions 1 and 2"),
    ],
)
def test_what_is_no_marker(data: bytes, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        decode_marker(data)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"retention": "workqueue"}, "write into a stream with retention limits, and let this one take it"),
        ({"retention": "interest"}, "write into a stream with retention limits, and let this one take it"),
        ({"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1}, "would refuse the markers"),
        ({"subject_transform": {"src": "t.>", "dest": "u.>"}}, r"subject_transform of t\.>"),
        ({"subject_transform": {"dest": "u.>"}}, "subject_transform of >"),
    ],
)
def test_streams_that_keep_no_markers(config: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_keeps_markers(StreamConfig(name="T", subjects=["t.>"], **config), OPTIONS)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"max_msgs_per_subject": 1},
        {"discard": "new", "max_msgs": 7},
        {"max_age": 60},
        {"subject_transform": {"src": "u.>", "dest": "v.>"}},
    ],
)
def test_streams_that_keep_markers_or_drop_the_oldest(config: dict[str, Any]) -> None:
    check_keeps_markers(StreamConfig(name="T", subjects=["t.>"], **config), OPTIONS)
