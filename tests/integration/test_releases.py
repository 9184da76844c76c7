"""The same program against every release: what works where, and what is said where it does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from jsproto import Session, errors
from jsproto.api_errors import BatchPublishDisabledError, StreamNotFoundError, StreamWrongLastSequenceError
from jsproto.events import Event, FlowRateChanged, MessageRefused
from jsproto.grammar.config import ServerInfo
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import JetStream, connect
from tests import servers
from tests.marks import known_fault, requirement

ServerFor = Callable[..., NatsServer]
COUNT = 3_000

pytestmark = pytest.mark.versions


def ingest(js: JetStream, subject: str, count: int = COUNT) -> int | None:
    with js.fast_publisher(flow=100) as batch:
        batch.publish_many((subject, b"%d" % n) for n in range(count))
        return batch.commit().count


@requirement(85)
@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version >= "2.14"])
def test_fast_ingest_in_and_direct_get_out(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, allow_direct=True, storage="memory")
        assert ingest(js, "s.a") == COUNT
        got = [(msg.seq, msg.subject, msg.data) for msg in js.get_batch("S")]
        assert got == [(n + 1, "s.a", b"%d" % n) for n in range(COUNT)]


@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version < "2.14"])
def test_releases_before_fast_ingest_are_told_by_name_and_store_nothing(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_direct=True, storage="memory")
        with pytest.raises(errors.UnsupportedByServerError, match=r"2\.14") as caught:
            ingest(js, "s.a")
        assert caught.value.found == version
        assert js.stream_info("S").state.messages == 0
        for n in range(5):
            assert js.publish("s.a", b"%d" % n).seq == n + 1
        assert [msg.data for msg in js.get_batch("S", seq=2, subject="s.*", batch=3)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version < "2.14"])
def test_an_old_leader_behind_a_newer_server_stores_one_message_and_the_error_says_so(
    version: str, server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a mixed cluster the version in INFO is that of another server: then only the first answer tells."""
    monkeypatch.setattr(Session, "server", property(lambda session: ServerInfo(headers=True, jetstream=True)))
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        with pytest.raises(errors.UnsupportedByServerError, match=r"2\.14.*stored as a plain one, 1"):
            ingest(js, "s.a")
        assert js.stream_info("S").state.messages == 1


REFUSED = {"Nats-Expected-Last-Sequence": "99"}
SILENT = "2.14.0"  # until 2.14.3


def refusals(seen: list[Event]) -> list[MessageRefused]:
    return [event for event in seen if isinstance(event, MessageRefused)]


@pytest.mark.parametrize("lead", [0, 3])
def test_a_refused_commit_that_2_14_0_says_no_more_about(lead: int, server_for: ServerFor) -> None:
    """The refusal is told, the end of the batch is not: it is not waited for."""
    with connect(server_for(SILENT).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, storage="memory")
        with js.fast_publisher(gap="ok", ack_timeout=60) as batch:
            assert batch.publish_many(("s.a", b"%d" % n) for n in range(lead)) == lead
            with pytest.raises(errors.BatchMessageError) as caught:
                batch.commit("s.a", b"last", headers=REFUSED)
        assert isinstance(caught.value.__cause__, StreamWrongLastSequenceError)
        assert (caught.value.message_sequence, caught.value.ack) == (lead + 1, None)
        assert batch.unacknowledged[-1] == ("s.a", b"last", REFUSED)
        assert js.stream_info("S").state.messages == lead


@pytest.mark.parametrize("lead", [0, 3])
def test_a_duplicate_commit_that_2_14_0_does_not_answer(lead: int, server_for: ServerFor) -> None:
    """It ends in time, and the error says that such a server says nothing."""
    with connect(server_for(SILENT).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, storage="memory")
        js.publish("s.a", b"first", msg_id="known")
        with js.fast_publisher(gap="ok", ack_timeout=2) as batch:
            batch.publish_many(("s.a", b"%d" % n) for n in range(lead))
            with pytest.raises(errors.BatchStalledError, match=r"is not known; before 2\.14\.3 nats-server answers no"):
                batch.commit("s.a", b"last", headers={"Nats-Msg-Id": "known"})
        assert js.stream_info("S").state.messages == 1 + lead


@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version >= SILENT])
@pytest.mark.parametrize("lead", [0, 3])
def test_a_refused_commit_with_gap_fail_is_answered_by_every_release(
    lead: int, version: str, server_for: ServerFor
) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, storage="memory")
        with js.fast_publisher(ack_timeout=60) as batch:
            batch.publish_many(("s.a", b"%d" % n) for n in range(lead))
            with pytest.raises(errors.Error) as caught:
                batch.commit("s.a", b"last", headers=REFUSED)
        error = caught.value.__cause__ if lead else caught.value
        assert isinstance(error, StreamWrongLastSequenceError)
        assert js.stream_info("S").state.messages == lead


@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version >= SILENT])
def test_a_second_publisher_whose_first_messages_are_refused_goes_on(version: str, server_for: ServerFor) -> None:
    """It begins with one message for each acknowledgement, and gets none for what is refused."""
    seen: list[Event] = []
    with connect(server_for(version).url, event_cb=seen.append) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, allow_direct=True, storage="memory")
        with js.fast_publisher() as first, js.fast_publisher(gap="ok", ack_timeout=60) as second:
            first.publish("s.a", b"first")
            first.ping()
            second.publish("s.a", b"refused", headers=REFUSED)
            assert second.publish_many(("s.a", b"refused", REFUSED) for _ in range(40)) == 41
            assert second.flow == 1
            second.publish_many(("s.a", b"%d" % n) for n in range(COUNT))
            assert second.commit().count == 41 + COUNT
            assert first.commit().count == 1
        assert [event.sequence for event in refusals(seen)] == [*range(1, 42)]
        assert [msg.data for msg in js.get_batch("S", seq=2)] == [b"%d" % n for n in range(COUNT)]


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version >= SILENT])
def test_a_full_stream_ends_no_batch(version: str, others: int, server_for: ServerFor) -> None:
    """Full after the third message; there is room again after 2,000 that were refused in a row."""
    seen: list[Event] = []
    with connect(server_for(version).url, event_cb=seen.append) as nc:
        js = nc.jetstream()
        js.create_stream(
            "S", subjects=["s.>"], allow_batched=True, allow_direct=True, storage="memory", discard="new", max_msgs=3
        )
        with ExitStack() as stack:
            for _ in range(others):
                stack.enter_context(js.fast_publisher()).publish("s.a", b"0")
            batch = stack.enter_context(js.fast_publisher(gap="ok", ack_timeout=60))
            batch.publish_many(("s.a", b"%d" % n) for n in range(2_000 + 3 - others))
            while batch.error is None and len(refusals(seen)) < 2_000:
                nc.flush()
            js.update_stream("S", max_msgs=-1)
            batch.publish_many(("s.a", b"later") for _ in range(COUNT))
            assert batch.commit().count == 2_003 - others + COUNT
        assert len(refusals(seen)) == 2_000
        assert {event.error.err_code for event in refusals(seen)} == {10077}
        assert js.stream_info("S").state.messages == 3 + COUNT


@pytest.mark.parametrize("version", [version for version in servers.RELEASES if version > SILENT])
def test_a_commit_that_is_not_stored_is_answered_by_later_releases(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, storage="memory")
        js.publish("s.a", b"first", msg_id="known")
        with js.fast_publisher(gap="ok", ack_timeout=60) as batch:
            batch.publish("s.a", b"1")
            assert batch.commit("s.a", b"last", headers={"Nats-Msg-Id": "known"}).count == 2
        with js.fast_publisher(gap="ok", ack_timeout=60) as batch:
            batch.publish("s.a", b"2")
            with pytest.raises(errors.BatchMessageError) as caught:
                batch.commit("s.a", b"last", headers=REFUSED)
            assert caught.value.ack is not None
            assert caught.value.ack.count == 1
        assert js.stream_info("S").state.messages == 3


def test_what_is_missing_is_named(server_for: ServerFor) -> None:
    with connect(server_for().url) as nc:
        js = nc.jetstream()
        js.create_stream("PLAIN", subjects=["plain.>"], storage="memory")
        with pytest.raises(BatchPublishDisabledError):
            ingest(js, "plain.a")
        with pytest.raises(errors.NoStreamResponseError):
            ingest(js, "nowhere.a")
        with pytest.raises(errors.NoRespondersError, match="allow_direct"):
            list(js.get_batch("PLAIN"))
        with pytest.raises(StreamNotFoundError):
            js.stream_info("NONE")


def test_a_server_without_jetstream(server_for: ServerFor) -> None:
    with connect(server_for(jetstream=False).url) as nc:
        js = nc.jetstream()
        with pytest.raises(errors.JetStreamNotAvailableError):
            js.account_info()
        with pytest.raises(errors.JetStreamNotAvailableError):
            ingest(js, "s.a")


@known_fault("messages lost, or blocked, at a reconnect")
def test_a_server_killed_in_the_middle_loses_nothing_acknowledged(server_for: ServerFor) -> None:
    server = server_for()
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, allow_direct=True)
        with js.fast_publisher(flow=50) as batch:
            batch.publish_many(("s.a", b"%d" % n) for n in range(5_000))
            server.kill()
            with pytest.raises(errors.BatchLostError) as caught:
                batch.publish_many(("s.a", b"%d" % n) for n in range(5_000, 10**9))
            acked = batch.acked
    assert caught.value.acked == acked > 0
    server.start()
    with connect(server.url) as nc:
        stored = [msg.data for msg in nc.jetstream().get_batch("S")]
    assert len(stored) >= acked
    assert stored == [b"%d" % n for n in range(len(stored))]


def test_the_flow_rate_of_two_publishers(server_for: ServerFor) -> None:
    """Alone a publisher starts at what it asks for; a second one at 1 and is doubled (FACTS.md F2.6, F2.7)."""
    seen: list[Event] = []
    with connect(server_for().url, event_cb=seen.append) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_batched=True, storage="memory")
        with js.fast_publisher(flow=100) as first, js.fast_publisher(flow=100) as second:
            for batch in (first, second):
                batch.publish_many(("s.a", b"") for _ in range(500))
            for batch in (first, second):
                assert batch.commit().count == 500
            rates = {b: [e.msgs for e in seen if isinstance(e, FlowRateChanged) and e.batch_id == b] for b in
                     (first.batch_id, second.batch_id)}  # fmt: skip
    assert rates[first.batch_id][0] == 100
    assert rates[second.batch_id] == [1, 2, 4, 8, 16, 32, 64, 100]
