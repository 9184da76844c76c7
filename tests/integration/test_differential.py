"""Random programs: the role and a real server answer the same."""

from __future__ import annotations

import pytest

from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.integration.differential import program, search
from tests.server.sides import OnARealServer

SEEDS = range(30)


@pytest.mark.slow
def test_no_program_shows_a_difference() -> None:
    with NatsServer() as running, connect(running.url) as nc:
        assert search(OnARealServer(nc), SEEDS, 30) == []


def test_a_seed_is_a_program() -> None:
    assert program(7, 30) == program(7, 30) != program(8, 30)
