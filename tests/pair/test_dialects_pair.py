"""A client and the server role in either dialect: what a client does with the draft's answers, fact by fact."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import ConsumerInvalidResetError
from jsproto.errors import LocalProtocolError, NoRespondersError, TimeoutError
from jsproto.grammar.acks import Dialect
from jsproto.grammar.api import decode_response
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from jsproto.server.server import Server
from jsproto.testing.pair import Pair

BOTH = pytest.mark.parametrize("dialect", ["released", "draft"])


def made(dialect: Dialect, **options: Any) -> Pair:
    """A stream S with three messages, read directly if ``options`` allow it."""
    pair = Pair(server=Server(token=b"t", dialect=dialect))
    pair.connect()
    defaults: dict[str, Any] = {"subjects": ["s.>"], "storage": "memory"}
    pair.run_until(pair.js.create_stream(StreamConfig("S", **(defaults | options)), now=pair.now))
    for number in range(1, 4):
        pair.advance(1.0)
        pair.run_until(pair.js.publish("s.a", b"%d" % number, now=pair.now))
    return pair


@BOTH
def test_the_level_that_a_stream_needs_is_read(dialect: Dialect) -> None:
    pair = made(dialect, allow_batched=True)
    info = pair.run_until(pair.js.stream_info("S", now=pair.now))
    assert info.required_api_level == (4 if dialect == "released" else 3)


@BOTH
def test_times_are_read_in_both_forms(dialect: Dialect) -> None:
    pair = made(dialect, max_msgs_per_subject=9, allow_direct=True)
    found = [pair.run_until(pair.js.get_msg("S", seq, now=pair.now)).timestamp for seq in (1, 2, 3)]
    assert found == [stored.timestamp for stored in pair.server.stream("S")]


@BOTH
def test_a_stream_that_is_not_read_directly_is_an_error_in_either_way(dialect: Dialect) -> None:
    pair = made(dialect, allow_direct=False)
    with pytest.raises(NoRespondersError if dialect == "released" else TimeoutError):
        pair.run_until(pair.js.get_msg("S", 1, level="direct", now=pair.now))
    assert pair.run_until(pair.js.get_msg("S", 1, level="leader", now=pair.now)).data == b"1"


@BOTH
def test_a_sourcing_consumer_fits_both(dialect: Dialect) -> None:
    pair = made(dialect)
    info = pair.run_until(pair.js.create_consumer("S", sourcing_consumer("C", "to.c"), now=pair.now))
    assert (info.config.flow_control, info.config.idle_heartbeat) == (True, 1.0)


@BOTH
def test_a_reset_to_0_is_not_sent(dialect: Dialect) -> None:
    pair = made(dialect)
    pair.run_until(pair.js.create_consumer("S", ConsumerConfig(durable_name="C"), now=pair.now))
    with pytest.raises(LocalProtocolError):
        pair.js.reset_consumer("S", "C", 0, now=pair.now)
    assert pair.run_until(pair.js.reset_consumer("S", "C", now=pair.now)).reset_seq == 1


def test_a_reset_to_0_by_somebody_else_is_a_typed_error_of_the_draft() -> None:
    pair = made("draft")
    pair.run_until(pair.js.create_consumer("S", ConsumerConfig(durable_name="C"), now=pair.now))
    answer = pair.run_until(pair.client.request("$JS.API.CONSUMER.RESET.S.C", b'{"seq":0}', now=pair.now))
    with pytest.raises(ConsumerInvalidResetError, match="sequence is zero"):
        decode_response(answer.payload)


@BOTH
def test_an_advisory_of_a_batch_that_is_given_up_is_read(dialect: Dialect) -> None:
    pair = made(dialect, allow_atomic=True)
    advisories = pair.js.batch_advisories("S")
    batch = pair.js.atomic_batch()
    batch.add("s.a", b"x", now=pair.now)
    pair.advance(11.0)
    assert [advisory.reason for advisory in advisories.pop_many(9)] == ["timeout"]
