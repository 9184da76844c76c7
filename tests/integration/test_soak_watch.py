"""The soak of watchers runs, and its judge sees what a watcher has too much."""

from __future__ import annotations

import pytest

from jsproto_io.sync import Bucket
from tests.integration import soak_watch
from tests.integration.soak_watch import main


def test_a_short_soak(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kills", "2", "--keys", "20", "--writes", "40", "--seed", "7"]) == 0
    assert "each watcher has the keys of the bucket: passed" in capsys.readouterr().out


def test_a_watcher_that_does_not_track_keys_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Bucket.watch
    monkeypatch.setattr(soak_watch, "PATIENCE", 2.0)
    monkeypatch.setattr(Bucket, "watch", lambda self, track_keys, **options: watch(self, **options))
    assert main(["--kills", "1", "--keys", "20", "--writes", "40", "--seed", "7"]) == 1
    assert "VIOLATION plain: it lacks [], has ['k." in capsys.readouterr().out
