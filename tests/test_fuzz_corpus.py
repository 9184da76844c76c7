"""Every input of the fuzzing corpus keeps its target's promise; the runner finds a fault if there is one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from fuzz import __main__ as runner
from fuzz import engine
from fuzz.targets import TARGETS

INPUTS = [(name, path.name) for name in TARGETS for path in sorted((engine.CORPUS / name).iterdir())]


@pytest.mark.parametrize(("target", "file"), INPUTS)
def test_every_input_of_the_corpus_holds(target: str, file: str) -> None:
    TARGETS[target]((engine.CORPUS / target / file).read_bytes())


def test_every_target_has_seeds_and_the_runner_knows_it() -> None:
    assert tuple(TARGETS) == runner.NAMES
    assert {path.name for path in engine.CORPUS.iterdir()} == set(TARGETS)
    assert min(len(engine.seeds(name)) for name in TARGETS) >= 8


@pytest.mark.parametrize("target", TARGETS)
def test_some_mutations_hold_too(target: str) -> None:
    for data in islice(engine.mutations(engine.seeds(target), seed=1), 300):
        TARGETS[target](data)


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
