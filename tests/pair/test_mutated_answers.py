"""A part of what ``python -m tests.tools.mutate_answers`` tries, and whether it finds what it is for."""

from __future__ import annotations

from itertools import islice

import pytest

from jsproto.client.read.direct import DirectBatch
from tests.effort import examples
from tests.pair.verbs import VERBS
from tests.tools.mutate_answers import findings, main

EVERY = 400 // examples(10)  # one of so many edited answers is tried


@pytest.mark.parametrize("verb", VERBS)
def test_no_answer_does_more_than_end_its_verb(verb: str) -> None:
    tried = list(islice(findings(verb, 4, 0, max(EVERY, 1)), 100))
    assert tried
    assert [each for each in tried if each[1] is not None] == []


def test_a_machine_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = DirectBatch.receive

    def fail(self: DirectBatch, message: object, now: float) -> None:
        assert b"x" * 9 not in repr(message).encode()
        real(self, message, now)  # type: ignore[arg-type]

    monkeypatch.setattr(DirectBatch, "receive", fail)
    monkeypatch.setattr("tests.tools.mutate_answers.HEADER_VALUES", (b"x" * 9,))
    found = [why for _, why in findings("get_batch", 16) if why is not None]
    assert found
    assert all("DirectBatch has failed" in why for why in found)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verb", "delete_msg"]) == 0
    assert capsys.readouterr().out.endswith("answers, 0 findings\n")
