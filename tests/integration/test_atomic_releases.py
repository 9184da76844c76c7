"""Atomic batches against every release: what works where, and what is said where it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from jsproto import Session, errors
from jsproto.api_errors import (
    APIRequiredApiLevelError,
    AtomicPublishContainsDuplicateMessageError,
    AtomicPublishIncompleteBatchError,
    AtomicPublishTooLargeBatchError,
    AtomicPublishTooManyInflightError,
    AtomicPublishUnsupportedHeaderBatchError,
    StreamWrongLastSequenceError,
)
from jsproto.client.publish.message import Message
from jsproto.grammar.config import ServerInfo
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import AtomicBatch, JetStream, connect
from tests.marks import known_fault, promise

ServerFor = Callable[..., NatsServer]

ATOMIC = ("2.12.8", "2.14.6", "2.15.1")
FIRST = ("2.12.0", "2.12.1")
EOB = ("2.14.6", "2.15.1")

pytestmark = pytest.mark.versions


def stream(js: JetStream, name: str = "S") -> None:
    js.create_stream(name, subjects=[f"{name.lower()}.>"], allow_atomic=True, allow_direct=True, storage="memory")


def stored(js: JetStream, name: str = "S") -> list[bytes]:
    return [message.data for message in js.get_batch(name)]


def fill(batch: AtomicBatch, count: int, subject: str = "s.a") -> None:
    for n in range(count):
        batch.add(subject, b"%d" % n)


@pytest.mark.parametrize("version", ATOMIC)
def test_a_batch_is_stored_whole(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        js.publish("s.a", b"before")
        with js.atomic_batch() as batch:
            fill(batch, 999)
            assert js.stream_info("S").state.messages == 1
            ack = batch.commit("s.z", b"999")
        assert (ack.count, ack.batch, ack.sequences) == (1_000, batch.batch_id, range(2, 1_002))
        assert stored(js) == [b"before", *(b"%d" % n for n in range(1_000))]
        assert js.publish_batch((f"s.{n}", b"x") for n in range(1_000)).sequences == range(1_002, 2_002)


@pytest.mark.parametrize("version", ["2.11.11"])
def test_releases_before_atomic_batches_are_told_by_name_and_store_nothing(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        with js.atomic_batch() as batch, pytest.raises(errors.UnsupportedByServerError, match=r"2\.12") as caught:
            batch.add("s.a", b"1")
        assert caught.value.found == version
        with pytest.raises(errors.UnsupportedByServerError):
            js.publish_batch([("s.a", b"1")])
        assert js.stream_info("S").state.messages == 0


def test_an_old_leader_behind_a_newer_server_stores_one_message_and_the_error_says_so(
    server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a mixed cluster the version in INFO is that of another server: then only the first answer tells."""
    monkeypatch.setattr(Session, "server", property(lambda session: ServerInfo(headers=True, jetstream=True)))
    with connect(server_for("2.11.11").url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], storage="memory")
        with js.atomic_batch() as batch, pytest.raises(errors.UnsupportedByServerError, match=r"plain.*sequence 1 of"):
            batch.add("s.a", b"1")
        assert js.stream_info("S").state.messages == 1


@pytest.mark.parametrize("version", EOB)
def test_a_commit_needs_no_message_and_the_marker_is_not_counted(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as batch:
            fill(batch, 1_000)
            ack = batch.commit()
        assert (ack.count, ack.seq) == (1_000, 1_000)
        (last,) = js.get_batch("S", seq=1_000)
        assert last.headers["Nats-Batch-Commit"] == "1"


def test_2_14_0_counts_the_marker(server_for: ServerFor) -> None:
    with connect(server_for("2.14.0").url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as batch:
            fill(batch, 999)
            with pytest.raises(errors.BatchFullError, match="let the last message commit"):
                batch.add("s.a", b"")
            assert batch.commit().count == 999
        with js.atomic_batch() as batch:
            fill(batch, 999)
            assert batch.commit("s.a", b"").count == 1_000
        with js.atomic_batch(max_messages=None) as batch:
            fill(batch, 1_000)
            with pytest.raises(AtomicPublishTooLargeBatchError):
                batch.commit()


def test_before_2_14_the_last_message_commits(server_for: ServerFor) -> None:
    with connect(server_for("2.12.8").url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as batch:
            fill(batch, 3)
            with pytest.raises(errors.UnsupportedByServerError, match=r"2\.14"):
                batch.commit()
            assert batch.commit("s.a", b"3").count == 4


def test_before_2_14_behind_a_newer_server_nothing_is_stored(
    server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "server", property(lambda session: ServerInfo(headers=True, jetstream=True)))
    with connect(server_for("2.12.8").url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as batch:
            fill(batch, 3)
            with pytest.raises(errors.UnsupportedByServerError, match=r"2\.14.*nothing is stored"):
                batch.commit()
        assert js.stream_info("S").state.messages == 0


@pytest.mark.parametrize("version", FIRST)
def test_the_first_releases_would_lose_a_member_in_silence(
    version: str, server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They drop one with Nats-Expected-Last-Msg-Id and acknowledge the batch as complete. So it is never sent."""
    messages: list[Message] = [("s.a", b"1"), ("s.a", b"2", {"Nats-Expected-Last-Msg-Id": "x"}), ("s.b", b"3")]
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        with pytest.raises(errors.LocalProtocolError, match="Nats-Expected-Last-Msg-Id is not supported"):
            js.publish_batch(messages)
        assert js.stream_info("S").state.messages == 0
        monkeypatch.setattr("jsproto.client.publish.atomic.AtomicBatch._check_headers", lambda *_: None)
        with pytest.raises(errors.RemoteProtocolError, match="3 messages was acknowledged as 3, the last one 2"):
            js.publish_batch(messages)
        assert stored(js) == [b"1", b"3"]
        assert js.publish_batch(messages).count == 3  # in a stream that is not empty nothing shows it


@pytest.mark.parametrize("version", FIRST)
def test_what_the_first_releases_can_and_cannot(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        assert js.publish_batch(("s.a", b"%d" % n) for n in range(1_000)).sequences == range(1, 1_001)
        with js.atomic_batch() as batch:
            batch.add("s.a", b"1")
            with pytest.raises(errors.UnsupportedByServerError, match=r"2\.14.*let the last message commit"):
                batch.commit()
            if version == "2.12.0":  # it refuses every batch with ids
                with pytest.raises(errors.UnsupportedByServerError, match=r"2\.12\.1"):
                    batch.add("s.a", b"2", headers={"Nats-Msg-Id": "2"})
            else:
                batch.add("s.a", b"2", headers={"Nats-Msg-Id": "2"})
            assert batch.commit("s.a", b"3").count == batch.sequence
        assert stored(js)[1_000:] == ([b"1", b"3"] if version == "2.12.0" else [b"1", b"2", b"3"])


def test_2_12_0_behind_a_newer_server_stores_the_marker_and_the_error_says_so(
    server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "server", property(lambda session: ServerInfo(headers=True, jetstream=True)))
    with connect(server_for("2.12.0").url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as batch:
            fill(batch, 3)
            with pytest.raises(errors.UnsupportedByServerError, match=r"marker was stored as a message, 4"):
                batch.commit()
        assert js.stream_info("S").state.messages == 4


@pytest.mark.parametrize("version", ATOMIC)
def test_checks_are_made_against_the_stream_before_the_batch(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        js.publish("s.a", b"0")
        js.publish("s.b", b"0", msg_id="known")
        first = {"Nats-Expected-Last-Sequence": "2"}
        per_subject = {"Nats-Expected-Last-Subject-Sequence": "1"}
        ack = js.publish_batch([("s.c", b"1", first), ("s.a", b"2", per_subject), ("s.a", b"3")])
        assert ack.sequences == range(3, 6)
        for headers in (first, per_subject):
            with pytest.raises(StreamWrongLastSequenceError) as caught:
                js.publish_batch([("s.a", b"4", headers), ("s.b", b"5")])
            assert caught.value.details == {"seq": "5"}
        with pytest.raises(AtomicPublishContainsDuplicateMessageError):
            js.publish_batch([("s.a", b"4"), ("s.b", b"5", {"Nats-Msg-Id": "known"})])
        assert js.publish_batch([("s.a", b"4", {"Nats-Msg-Id": "1"}), ("s.b", b"5", {"Nats-Msg-Id": "2"})]).count == 2
        assert js.stream_info("S").state.messages == 7


@pytest.mark.parametrize("version", ATOMIC)
def test_what_the_client_refuses_the_server_would_refuse_at_the_commit(
    version: str, server_for: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nothing is refused that would have worked."""
    monkeypatch.setattr("jsproto.client.publish.atomic.AtomicBatch._check_headers", lambda *_: None)
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        refused: list[tuple[dict[str, str], type[errors.APIError]]] = [
            ({"Nats-Expected-Last-Msg-Id": "x"}, AtomicPublishUnsupportedHeaderBatchError),
            ({"Nats-Expected-Last-Sequence": "0"}, StreamWrongLastSequenceError),
            ({"Nats-Expected-Last-Subject-Sequence": "0"}, errors.APIError),
            ({"Nats-Msg-Id": "1"}, AtomicPublishContainsDuplicateMessageError),
        ]
        for headers, kind in refused:
            with pytest.raises(kind):
                js.publish_batch([("s.a", b"", {"Nats-Msg-Id": "1"}), ("s.a", b"", headers), ("s.b", b"")])
        assert js.stream_info("S").state.messages == 0


@pytest.mark.parametrize(
    ("subjects", "others"), [(["s.a", "nobodys.subject", "s.b"], "nobodys.subject, s.a"), (["s.a", "t.b"], "s.a")]
)
def test_all_subjects_of_a_batch_are_of_one_stream(subjects: list[str], others: str, server_for: ServerFor) -> None:
    with connect(server_for().url) as nc:
        js = nc.jetstream()
        stream(js, "S")
        stream(js, "T")
        with pytest.raises(AtomicPublishIncompleteBatchError) as caught:
            js.publish_batch([(subject, b"") for subject in subjects])
        question = f"does the stream of {subjects[-1]} take all subjects of the batch? The others are {others}"
        assert caught.value.__notes__ == [question]
        assert js.stream_info("S").state.messages == js.stream_info("T").state.messages == 0


@pytest.mark.parametrize("version", ATOMIC)
def test_a_silent_batch_is_forgotten(version: str, server_for: ServerFor) -> None:
    """The server's patience cut short; the client's is not, so the server's answer is what tells."""
    server = server_for(version, jetstream='limits { batch { timeout: "150ms" } }')
    with connect(server.url) as nc:
        js = nc.jetstream()
        stream(js)
        with nc.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S") as gone, js.atomic_batch() as batch:
            fill(batch, 3)
            assert b'"reason":"timeout"' in gone.next_msg(timeout=5).data
            with pytest.raises(AtomicPublishIncompleteBatchError):
                batch.commit("s.a", b"late")
            with pytest.raises(AtomicPublishIncompleteBatchError):
                batch.add("s.a", b"later")
        assert js.stream_info("S").state.messages == 0


@known_fault("a batch that died, by a gap or by silence, takes nothing and says why")
def test_a_batch_that_the_server_has_forgotten_is_refused_by_the_client_first(server_for: ServerFor) -> None:
    server = server_for(jetstream='limits { batch { timeout: "150ms" } }')
    with connect(server.url) as nc:
        js = nc.jetstream()
        stream(js)
        with nc.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S") as gone, js.atomic_batch() as batch:
            batch._core._idle_limit = 0.1
            fill(batch, 1)
            gone.next_msg(timeout=5)
            with pytest.raises(errors.BatchExpiredError, match="nothing of the batch is stored"):
                batch.add("s.a", b"late")


@promise("A server allows 50 for a stream and 1,000 in all.")
@promise("What it refuses beyond that is tried again a few times")
@pytest.mark.parametrize("version", EOB)
def test_too_many_batches_at_once(version: str, server_for: ServerFor) -> None:
    server = server_for(version, jetstream="limits { batch { max_inflight_per_stream: 2, max_msgs: 3 } }")
    with connect(server.url) as nc:
        js = nc.jetstream()
        stream(js)
        with js.atomic_batch() as one, js.atomic_batch() as two, js.atomic_batch() as three:
            one.add("s.a", b"1")
            two.add("s.a", b"2")
            with pytest.raises(AtomicPublishTooManyInflightError):
                three.add("s.a", b"3")
            assert [batch.commit().count for batch in (one, two)] == [1, 1]
        with js.atomic_batch() as batch:
            fill(batch, 4)
            with pytest.raises(AtomicPublishTooLargeBatchError) as caught:
                batch.commit()
        assert caught.value.details == {"size": "3"}


@pytest.mark.parametrize("version", ATOMIC)
def test_a_level_that_the_server_lacks(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        stream(js)
        assert js.publish_batch([("s.a", b"1"), ("s.a", b"2")], required_api_level=2).count == 2
        with js.atomic_batch(required_api_level=99) as batch, pytest.raises(APIRequiredApiLevelError):
            batch.add("s.a", b"3")
        assert all("Nats-Required-Api-Level" not in message.headers for message in js.get_batch("S"))


@pytest.mark.parametrize("version", ATOMIC)
def test_a_message_that_the_stream_does_not_take(version: str, server_for: ServerFor) -> None:
    with connect(server_for(version).url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_atomic=True, allow_direct=True, max_msg_size=500)
        with js.atomic_batch(ack_every=2) as batch:
            batch.add("s.a", b"1")
            for subject, payload in (("s.a", bytes(600)), ("t.a", b"x")):
                with pytest.raises(errors.BatchMessageError):
                    batch.add(subject, payload)
            batch.add("s.a", b"2")
            for subject, payload in (("s.a", bytes(600)), ("t.a", b"x")):
                with pytest.raises(errors.BatchMessageError):
                    batch.commit(subject, payload)
            assert batch.commit("s.a", b"3").sequences == range(1, 4)
        assert stored(js) == [b"1", b"2", b"3"]


@promise("One atomic batch (ADR-50): stored whole, or not at all.")
def test_a_server_that_is_killed_stores_all_or_nothing(server_for: ServerFor) -> None:
    server = server_for()
    with connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream("S", subjects=["s.>"], allow_atomic=True, allow_direct=True)
        with js.atomic_batch() as batch:
            fill(batch, 500)
            nc.flush()
            server.kill()
            with pytest.raises(errors.BatchLostError, match="nothing of the batch is stored|not known"):
                batch.commit("s.a", b"last")
    server.start()
    with connect(server.url) as nc:
        assert nc.jetstream().stream_info("S").state.messages in (0, 501)


@promise("A connection, and everything made from it, may be used by many threads at once")
@known_fault("threads and event loops get in each other's way")
def test_many_threads_commit_batches_of_their_own(server_for: ServerFor) -> None:
    with connect(server_for().url) as nc:
        js = nc.jetstream()
        stream(js)
        runs: list[range] = []

        def publish(who: int) -> None:
            for number in range(5):
                acked = js.publish_batch((f"s.{who}", b"%d %d %d" % (who, number, n)) for n in range(100))
                runs.append(acked.sequences)

        threads = [threading.Thread(target=publish, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seq for run in runs for seq in run) == list(range(1, 2_001))
        messages = stored(js)
    for run in runs:
        who, number, _ = messages[run[0] - 1].split()
        assert [messages[seq - 1] for seq in run] == [b"%b %b %d" % (who, number, n) for n in range(100)]
