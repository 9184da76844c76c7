"""The soak's judge can find every violation, and the soak itself runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration import soak_publish
from tests.integration.soak_publish import History, main
from tests.marks import promise


def history(**known: Any) -> History:
    return History(**{"attempted": 6, **known})


@promise("nothing acknowledged may be missing, nothing may be there twice")
@pytest.mark.parametrize(
    ("known", "stored", "words"),
    [
        ({"acked": {0, 1, 2, 3, 4, 5}}, [0, 1, 2, 3, 4], "1 acknowledged but not stored, such as 5"),
        ({"unknown": {3}}, [0, 1, 2, 4, 5, 7], "1 stored but never published, such as 7"),
        ({}, [0, 1, 2, 3, 4, 5, 4], "1 stored twice, such as 4"),
        ({}, [0, 2, 1, 3, 4, 5], "1 stored before one that was published before it, such as 1"),
        ({"unknown": {1}}, [0, 2, 4, 5], "1 missing without a report, such as 3"),
        ({"absent": {2}}, [0, 1, 2, 3, 4, 5], "1 stored though refused, such as 2"),
        ({"size": 3, "unknown": {5}}, [0, 1, 2, 3, 4], "2 stored without the rest of its batch, such as 3"),
    ],
)
def test_a_violation_is_found(known: dict[str, Any], stored: list[int], words: str) -> None:
    assert words in history(**known).violations(stored)


@pytest.mark.parametrize(
    ("known", "stored"),
    [
        ({"acked": {0, 1, 2, 3, 4, 5}}, [0, 1, 2, 3, 4, 5]),
        ({"acked": {0, 1, 2, 3, 4, 5}, "lost": {2, 3}}, [0, 1, 4, 5]),
        ({"acked": {0, 1}, "unknown": {2, 3, 4, 5}}, [0, 1, 2, 5]),
        ({"size": 3, "absent": {0, 1, 2}, "unknown": {3, 4, 5}}, [3, 4, 5]),
        ({"size": 3, "absent": {0, 1, 2}, "unknown": {3, 4, 5}}, []),
    ],
)
def test_what_is_no_violation(known: dict[str, Any], stored: list[int]) -> None:
    assert history(**known).violations(stored) == []


@promise("nothing acknowledged may be missing, nothing may be there twice")
@pytest.mark.slow
def test_a_short_soak(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults", "2", "--kinds", "step-down", "pause", "--rate", "5000", "--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert told.count("no violation") == 4
    assert told.endswith("passed\n")


def test_a_violation_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_publish, "run", lambda options: ["ids: it is gone"])
    assert main(["--seed", "1"]) == 1
    assert capsys.readouterr().out == "seed 1\nVIOLATION ids: it is gone\nFAILED\n"
