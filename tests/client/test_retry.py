"""Retries of a read: how long each pause is, and when it gives up."""

from __future__ import annotations

from jsproto.client.read.retry import Retries, consistent_backoff


def test_mirrors_are_asked_again_at_once_and_then_after_pauses_that_double() -> None:
    retries = Retries(5.0, 0.0)
    pauses = [retries.mirror_answered(1.0) for _ in range(10)]
    assert pauses == [0.0, 0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05]
    assert retries.mirrors == 10
    retries.stream_answered()
    assert [retries.mirror_answered(1.0) for _ in range(3)] == [0.0, 0.0, 0.001]


def test_replicas_that_lag_are_asked_again_at_once_and_then_after_pauses_that_double() -> None:
    retries = Retries(5.0, 0.0)
    pauses = [retries.replica_lagged(1.0) for _ in range(8)]
    assert pauses == [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    assert retries.lags == 8
    retries.page_arrived()
    assert [retries.replica_lagged(1.0) for _ in range(2)] == [0.0, 0.02]


def test_the_time_starts_anew_with_a_page_that_follows_no_failure() -> None:
    retries = Retries(5.0, 0.0)
    retries.asked(3.0)
    assert retries.mirror_answered(7.9) == 0.0
    retries.asked(7.9)
    assert retries.replica_lagged(7.9) == 0.0
    assert retries.mirror_answered(8.0) is None
    assert retries.replica_lagged(8.0) is None
    retries.extend(8.0)
    assert retries.replica_lagged(8.0) is not None


def test_a_consistent_read_asks_again_after_pauses_that_double() -> None:
    backoff = consistent_backoff()
    assert [backoff.failed(1.0) for _ in range(8)] == [0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.25, 0.25]
