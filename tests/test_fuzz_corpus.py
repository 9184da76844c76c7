"""Every input of the fuzzing corpus keeps its target's promise; the runner finds a fault if there is one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import __main__ as runner
from fuzz import engine
from fuzz.targets import TARGETS
from jsproto.client.connection.session import Session
from jsproto.rules.sequence_gaps import DeliverySequence
from jsproto.ticket import Ticket
from tests.effort import examples
from tests.marks import promise

INPUTS = [(name, path.name) for name in TARGETS for path in sorted((engine.CORPUS / name).iterdir())]

EDITS = st.tuples(st.integers(0, 255), st.integers(0, 9), st.sampled_from(engine.DICTIONARY) | st.binary(max_size=6))


@promise("Receiving never raises.")
@promise("Never raises, whatever the message holds.")
@pytest.mark.parametrize(("target", "file"), INPUTS)
def test_every_input_of_the_corpus_holds(target: str, file: str) -> None:
    TARGETS[target]((engine.CORPUS / target / file).read_bytes())


def test_every_target_has_seeds_and_the_runner_knows_it() -> None:
    assert tuple(TARGETS) == runner.NAMES
    assert {path.name for path in engine.CORPUS.iterdir()} == set(TARGETS)
    assert min(len(engine.seeds(name)) for name in TARGETS) >= 8


@st.composite
def inputs(draw: st.DrawFn, corpus: list[bytes]) -> bytes:
    """Any bytes, or an input of the corpus with some parts replaced."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=engine.LARGEST))
    data = draw(st.sampled_from(corpus))
    for start, length, word in draw(st.lists(EDITS, min_size=1, max_size=4)):
        place = start % (len(data) + 1)
        data = data[:place] + word + data[place + length :]
    return data


@promise("A peer that breaks the protocol becomes state and a typed error in every open ticket.")
@pytest.mark.parametrize("target", TARGETS)
def test_a_short_search_finds_nothing(target: str) -> None:
    @settings(max_examples=examples(400), deadline=None)
    @given(inputs(engine.seeds(target)))
    def search(data: bytes) -> None:
        TARGETS[target](data)

    search()


def test_the_corpus_finds_a_reader_that_counts_no_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeliverySequence, "_compare", lambda self, next_one: None)
    found = [engine.attempt(TARGETS["ordered_consumer"], data) for data in engine.seeds("ordered_consumer")]
    assert any(finding is not None and "was handed out after" in str(finding) for finding in found)


@pytest.mark.parametrize("target", ["atomic_batch", "direct_read", "fast_batch", "pull_consumer"])
def test_the_corpus_finds_a_ticket_that_is_handed_out_twice(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    completed = Session.completed

    def twice(session: Session, ticket: Ticket[Any]) -> None:
        completed(session, ticket)
        completed(session, ticket)

    monkeypatch.setattr(Session, "completed", twice)
    found = (engine.attempt(TARGETS[target], data) for data in engine.seeds(target))
    assert any(finding is not None and "handed out twice" in str(finding) for finding in found)


def test_the_same_seed_gives_the_same_inputs() -> None:
    corpus = engine.seeds("client_bytes")
    assert list(islice(engine.mutations(corpus, 3), 50)) == list(islice(engine.mutations(corpus, 3), 50))
    assert list(islice(engine.mutations(corpus, 3), 50)) != list(islice(engine.mutations(corpus, 4), 50))


def test_an_exception_is_a_finding_and_so_is_a_slow_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        assert b"\0" not in data, "a NUL"

    assert engine.attempt(broken, b"x") is None
    finding = engine.attempt(broken, b"\0")
    assert finding is not None
    assert str(finding).startswith("AssertionError: a NUL")
    monkeypatch.setattr(engine, "SLOW", -1.0)
    finding = engine.attempt(broken, b"x")
    assert finding is not None
    assert finding.error is None


def test_the_runner_saves_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(data: bytes) -> None:
        assert data.startswith(b"seed")

    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "seed").write_bytes(b"seed of a target")
    monkeypatch.setattr(engine, "CORPUS", tmp_path)
    monkeypatch.setattr(runner, "CORPUS", tmp_path)
    assert runner.search("target", broken, seconds=60.0, seed=0) == 1
    (found,) = (tmp_path / "target").glob("found-*")
    assert not found.read_bytes().startswith(b"seed")
    assert str(found) in capsys.readouterr().err
    assert runner.search("target", broken, seconds=60.0, seed=0) == 1
    assert len(list((tmp_path / "target").iterdir())) == 2
    assert "AssertionError" in capsys.readouterr().err


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main(["header_block", "--seconds", "0", "--seed", "5"]) == 0
    assert "nothing found (seed 5)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        runner.main(["unknown"])
    with pytest.raises(SystemExit):
        runner.main(["--atheris"])
