"""Sessions and streams that come back shorter, or are made anew: whether a token still means what it meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jsproto.errors import (
    ConnectionClosedError,
    Error,
    IncompleteBatchError,
    LocalProtocolError,
    StaleReadError,
    StreamRecreatedError,
    StreamRolledBackError,
    TimeoutError,
)
from jsproto.grammar.acks import PubAck
from jsproto.grammar.position import StreamPosition
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.times import parse_timestamp
from jsproto.rules.position import ELECTION
from jsproto.wire.frames import Pub
from tests.client.lagging import CREATED, LATER, NO_RESPONDERS, TIME, Replicas
from tests.client.test_consistency import Reader, raised
from tests.harness import Harness
from tests.marks import promise

SINCE = parse_timestamp(TIME.encode())
IDENTITY = str(parse_timestamp(CREATED.encode()))
PROOF = ["state"]
LOOK = ["state", "leader"]
LONG = 20.0


def token(seq: int, time: int = SINCE, identity: str | None = None, written: int = 0) -> SessionToken:
    """Of another session, which has read ``seq``."""
    return SessionToken({"S": (written, seq)}, [StreamPosition("S", seq, identity, time)])


def from_outside(replicas: Replicas, seq: int = 2, **options: Any) -> Reader:
    return Reader(replicas, token=token(seq).to_bytes(), timeout=options.pop("timeout", LONG), **options)


READS: dict[str, Callable[[Reader], Any]] = {
    "get_last_msg": lambda reader: reader.read("get_last_msg", "a").seq,
    "get_msg": lambda reader: reader.read("get_msg", 1, next=True).seq,
    "leader": lambda reader: reader.read("get_last_msg", "a", level="leader").seq,
    "get_batch": lambda reader: reader.all("get_batch"),
    "get_last_msgs_for": lambda reader: reader.all("get_last_msgs_for", ["a", "b"]),
}


def failure(reader: Reader, verb: str, seconds: float = LONG) -> Error:
    """What the read fails with, in time that the test moves on by itself."""
    if verb.startswith("get_last_msgs") or verb == "get_batch":
        arguments: tuple[Any, ...] = () if verb == "get_batch" else (["a", "b"],)
        batch = getattr(reader.session, verb)("S", *arguments, now=reader.h.now)
        for _ in range(int(seconds / 0.05)):
            reader.replicas.serve(reader.h)
            assert not batch.finished
            if batch.error is not None:
                error: Error = batch.error
                return error
            assert batch.pop_many(9, reader.h.now) == []
            reader.h.advance(0.05)
        raise AssertionError("it does not end")
    level: Any = "leader" if verb == "leader" else "direct"
    options: dict[str, Any] = {"seq": 1, "next": True} if verb == "get_msg" else {"subject": "a"}
    ticket = reader.session.get_msg("S", now=reader.h.now, level=level, **options)
    with pytest.raises(Error) as found:
        reader.wait(ticket, seconds, 0.05)
    return found.value


# -- a token from outside ----------------------------------------------------------------------------------------------


@promise("A token from outside, or a session over a new link")
@pytest.mark.parametrize("verb", READS)
def test_a_token_from_outside_is_proved_once(verb: str) -> None:
    reader = from_outside(Replicas("a", "b"))
    READS[verb](reader)
    assert reader.asked[:1] == PROOF  # it is the last message, so the state is enough
    READS[verb](reader)
    again = reader.asked
    READS[verb](reader)
    assert reader.asked == again  # and from then on a read costs what it costs


@pytest.mark.parametrize("verb", READS)
def test_a_look_at_the_message(verb: str) -> None:
    reader = from_outside(Replicas("a", "b", "a"))
    READS[verb](reader)
    assert reader.asked[:2] == LOOK


def test_all_reads_wait_for_one_proof() -> None:
    reader = from_outside(Replicas("a", "b"))
    tickets = [reader.session.get_last_msg("S", "a", now=reader.h.now) for _ in range(3)]
    assert len(reader.h.published()) == 1
    reader.session.forget("S")
    reader.replicas.serve(reader.h)
    assert [ticket.result().seq for ticket in tickets] == [1, 1, 1]


def test_a_token_without_a_witness_has_nothing_to_prove() -> None:
    for known in (SessionToken({"S": (2, 0)}), b'{"v":1,"streams":{"S":[2,2]}}'):
        reader = Reader(Replicas("a", "b"), token=known)
        assert reader.read("get_last_msg", "a").seq == 1
        assert reader.asked == ["direct"]


def test_what_is_no_news_is_not_proved() -> None:
    reader = Reader(Replicas("a", "b"))
    reader.read("get_last_msg", "b")
    reader.session.merge(reader.session.token.to_bytes())
    reader.session.merge(SessionToken({"S": (2, 1)}))
    assert reader.read("get_last_msg", "a").seq == 1
    assert "state" not in reader.asked
    reader.session.merge(token(1))
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == ["state", "direct"]


def test_a_proof_adds_the_identity() -> None:
    reader = from_outside(Replicas("a", "b", "a"))
    reader.read("get_last_msg", "b")
    assert reader.session.token.seen("S") == StreamPosition("S", 2, IDENTITY, SINCE)
    reader.read("get_last_msg", "a")
    assert reader.session.token.seen("S") == StreamPosition("S", 3, IDENTITY, SINCE)


@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("after", [[], ["b"], ["a", "a", "a", "b"]], ids=["shorter", "equal", "longer"])
def test_a_stream_that_came_back_shorter(verb: str, after: list[str]) -> None:
    replicas = Replicas("a", "b", "a")
    replicas.roll_back(2, *after)
    reader = from_outside(replicas, 3)
    began = reader.h.now
    error = failure(reader, verb)
    assert isinstance(error, StreamRolledBackError)
    assert (error.stream, error.seq) == ("S", 3)
    assert "forget('S')" in str(error)
    assert reader.h.now - began >= ELECTION
    assert "direct" not in reader.asked
    began = reader.h.now
    assert isinstance(failure(reader, verb), StreamRolledBackError)  # as long as it is not forgotten,
    assert reader.h.now - began < 1.0  # and at once
    reader.session.forget("S")
    assert READS[verb](reader)


@promise("`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again.")
@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("identity", [None, IDENTITY])
def test_a_stream_that_was_made_anew(verb: str, identity: str | None) -> None:
    replicas = Replicas("a", "b")
    replicas.roll_back(0, "a", "b", "a")
    replicas.created = LATER
    reader = Reader(replicas, token=token(2, identity=identity), timeout=LONG)
    error = failure(reader, verb)
    assert isinstance(error, StreamRecreatedError)
    assert "forget('S')" in str(error)
    reader.session.forget("S")
    assert READS[verb](reader)


@promise("The leader has to say so twice, 4 s apart.")
@pytest.mark.parametrize("verb", READS)
def test_one_old_answer_never_decides(verb: str) -> None:
    replicas = Replicas("a", "b", "a")
    reader = from_outside(replicas, 3)
    replicas.leader = 2
    (ticket,) = [reader.session.get_last_msg("S", "a", now=reader.h.now)]
    reader.wait_a_little()
    assert not ticket.done
    replicas.leader = 3
    assert reader.wait(ticket, LONG, 0.05).seq == 3
    assert READS[verb](reader)


@promise("The leader has to say so twice, 4 s apart.")
@pytest.mark.parametrize("verb", READS)
def test_a_read_that_has_no_time_for_two_answers(verb: str) -> None:
    """It is stale. The doubt stays, so the next one that is late enough knows more."""
    replicas = Replicas("a", "b", "a")
    replicas.roll_back(2)
    reader = from_outside(replicas, 3, timeout=2.0)
    error = failure(reader, verb)
    assert isinstance(error, StaleReadError)
    assert (error.stream, error.wanted, error.found) == ("S", 3, 2)
    reader.h.advance(ELECTION)
    assert isinstance(failure(reader, verb), StreamRolledBackError)


def test_a_stale_answer_that_ends_no_earlier_shows_nothing() -> None:
    replicas = Replicas("a", "b", "a")
    replicas.roll_back(2, "a", "a")
    error = failure(from_outside(replicas, 3, timeout=2.0), "get_last_msg")
    assert isinstance(error, StaleReadError)
    assert error.found is None


def test_the_message_at_the_position_was_deleted() -> None:
    replicas = Replicas("a", "b", "a")
    replicas.delete(2)
    reader = from_outside(replicas)
    assert reader.read("get_last_msg", "a").seq == 3
    assert reader.asked == ["state", "leader", "leader", "direct"]


def test_an_earlier_witness_of_another_session() -> None:
    """Both read a message 3, and not the same one."""
    replicas = Replicas("a", "b", "a")
    replicas.roll_back(2, "a")
    reader = Reader(replicas, timeout=LONG)
    assert reader.read("get_last_msg", "a").seq == 3
    reader.session.merge(token(3))
    assert isinstance(failure(reader, "get_last_msg"), StreamRolledBackError)


# -- a lost link -------------------------------------------------------------------------------------------------------


def relinked(reader: Reader) -> Reader:
    reader.h.lose()
    while reader.h.session.connect_to is None:
        reader.h.advance(1.0)
    reader.h.connect()
    return reader


@promise("A token from outside, or a session over a new link")
@pytest.mark.parametrize("verb", READS)
def test_a_new_link_is_a_boundary(verb: str) -> None:
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    reader.all("get_batch")
    relinked(reader)
    reader.replicas.asked.clear()
    READS[verb](reader)
    assert reader.asked[:1] == PROOF
    relinked(reader).replicas.roll_back(1, "b", "b")
    assert isinstance(failure(reader, verb), StreamRolledBackError)


def test_a_read_under_way_is_proved_on_the_new_link() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,)), timeout=LONG)
    reader.read("get_last_msg", "a")
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.published()
    relinked(reader)
    reader.replicas.roll_back(0, "a", "a")
    with pytest.raises(StreamRolledBackError):
        reader.wait(ticket, LONG, 0.05)


def test_a_read_that_began_without_a_link() -> None:
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    reader.read("get_last_msg", "b")
    reader.replicas.roll_back(1, "b", "b")
    reader.h.lose()
    ticket = reader.session.get_last_msg("S", "b", now=reader.h.now)
    reader.h.connect()
    with pytest.raises(StreamRolledBackError):
        reader.wait(ticket, LONG, 0.05)


def test_the_link_is_lost_while_a_position_is_proved() -> None:
    for verb in ("get_last_msg", "get_batch", "get_last_msgs_for"):
        reader = from_outside(Replicas("a", "b"))
        arguments: tuple[Any, ...] = () if verb == "get_batch" else ("a",)
        reading = getattr(reader.session, verb)("S", *arguments, now=reader.h.now)
        assert len(reader.h.published()) == 1
        relinked(reader)
        ticket = reading if verb == "get_last_msg" else reading.readable()
        reader.wait(ticket)
        assert ticket.error is None


# -- what comes anyway -------------------------------------------------------------------------------------------------


def test_the_same_sequence_at_another_time() -> None:
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    assert reader.read("get_last_msg", "b").seq == 2
    reader.replicas.roll_back(1, "b")
    began = reader.h.now
    assert isinstance(raised(reader, StreamRolledBackError, "get_last_msg", "b", seconds=LONG), StreamRolledBackError)
    assert reader.h.now - began >= ELECTION


@pytest.mark.parametrize("level", ["direct", "leader"])
def test_a_replica_with_another_message_is_not_believed(level: Any) -> None:
    """The leader has the message that was read. Then it is the replica that is wrong."""
    reader = Reader(Replicas("a", "b"), timeout=LONG, level=level)
    assert reader.read("get_last_msg", "b").seq == 2
    right = reader.replicas.log
    reader.replicas.roll_back(1, "b")
    ticket = reader.ask("get_last_msg", "b")
    assert not ticket.done
    reader.replicas.log = right
    assert reader.wait(ticket, LONG, 0.05).seq == 2


@promise("A write that was never read has no witness.")
def test_a_leader_before_what_was_written() -> None:
    """Without a witness: the leader has to say so twice, and one read hears it if there is time."""
    reader = Reader(Replicas("a", "b", positions=(1,)), timeout=LONG).knows(2)
    reader.replicas.leader = 1
    error = raised(reader, StreamRolledBackError, "get_last_msg", "a", seconds=LONG)
    assert error.seq == 2
    reader.session.forget("S")
    assert reader.read("get_last_msg", "a").seq == 1
    batch = Reader(Replicas("a", "b", positions=(1,)), timeout=LONG).knows(2)
    batch.replicas.leader = 1
    reading = batch.session.get_batch("S", now=batch.h.now, seq=2)
    with pytest.raises(StreamRolledBackError):
        batch.wait(reading.readable(), LONG, 0.05)


@promise("The leader has to say so twice, 4 s apart.")
def test_the_doubt_goes_over_from_one_read_to_the_next() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,)), timeout=1.0).knows(2)
    reader.replicas.leader = 1
    raised(reader, StaleReadError, "get_last_msg", "a")
    reader.h.advance(ELECTION)
    raised(reader, StreamRolledBackError, "get_last_msg", "a")


@pytest.mark.parametrize("grows", [[], ["b", "b", "b"]])
def test_a_doubt_is_cleared_up_by_a_look(grows: list[str]) -> None:
    """A stream that was shorter and has grown: whatever shows it now, it is not the one that was read."""
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    reader.read("get_last_msg", "b")
    reader.knows(2)
    right = reader.replicas.log
    reader.replicas.roll_back(1)
    ticket = reader.ask("get_last_msg", "b")
    reader.wait_a_little()
    assert not ticket.done
    if grows:
        reader.replicas.roll_back(1, *grows)
        with pytest.raises(StreamRolledBackError):
            reader.wait(ticket, LONG, 0.05)
    else:
        reader.replicas.log, reader.replicas.leader = right, 2
        reader.replicas.catch_up()
        assert reader.wait(ticket, LONG, 0.05).seq == 2


def test_a_witness_by_a_consumer() -> None:
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    reader.session.observe("S", 2, SINCE)
    assert reader.session.token.seen("S") == StreamPosition("S", 2, None, SINCE)
    reader.session.observe("S", 2, SINCE + 1)  # another message: that is looked into
    assert reader.read("get_last_msg", "b").seq == 2
    assert reader.asked == ["state", "direct"]
    for seq, time in ((0, SINCE), (3, -1), (3, 2**64)):
        with pytest.raises(LocalProtocolError):
            reader.session.observe("S", seq, time)


# -- who does not answer -----------------------------------------------------------------------------------------------


def test_the_leader_may_not_be_asked() -> None:
    reader = from_outside(Replicas("a", "b"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.published()
    reader.h.feed(b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.INFO.S\"'\r\n")
    assert reader.wait(ticket).seq == 1


def test_no_api_answers() -> None:
    reader = from_outside(Replicas("a", "b"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    (pub,) = reader.h.published()
    reader.h.deliver(pub.reply or b"", b"", NO_RESPONDERS)
    assert reader.wait(ticket).seq == 1


def test_there_is_no_leader_just_now() -> None:
    reader = from_outside(Replicas("a", "b"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    unavailable = {"error": {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable"}}
    reader.h.answer(lambda pub: unavailable)
    assert not ticket.done
    assert reader.wait(ticket).seq == 1


def test_the_leader_refuses() -> None:
    reader = from_outside(Replicas("a", "b"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.answer(lambda pub: {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}})
    with pytest.raises(Error, match="stream not found"):
        ticket.result()
    assert reader.read("get_last_msg", "a").seq == 1  # it is there again


@pytest.mark.parametrize("is_asked", [True, False])
def test_nobody_answers(is_asked: bool) -> None:
    reader = from_outside(Replicas("a", "b"), timeout=2.0 if is_asked else 0.1)
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    for _ in range(30):
        assert {pub.subject for pub in reader.h.published()} <= {b"$JS.API.STREAM.INFO.S"}
        reader.h.advance(0.1 if is_asked else 0.01)
    with pytest.raises(TimeoutError, match="no answer"):
        ticket.result()
    reader.h.advance(9.0)
    reader.h.sent(Pub)
    assert reader.read("get_last_msg", "a").seq == 1


# -- ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["session", "connection"])
def test_what_waits_for_a_proof_ends_with_its_session(how: str) -> None:
    replicas = Replicas("a", "b", "a")
    replicas.roll_back(2)
    reader = from_outside(replicas, 3)
    single = reader.session.get_last_msg("S", "a", now=reader.h.now)
    batch = reader.session.get_batch("S", now=reader.h.now)
    last = reader.session.get_last_msgs_for("S", ["a"], now=reader.h.now)
    replicas.serve(reader.h)
    reader.h.advance(1.0)
    if how == "session":
        reader.session.close()
    else:
        reader.h.session.close(reader.h.now)
        reader.h.drain()
    for ticket in (single, batch.readable(), last.readable()):
        with pytest.raises((ConnectionClosedError, IncompleteBatchError)):
            ticket.result()
    reader.h.advance(LONG)
    assert reader.h.session.deadline() in (None, Harness().session.deadline(), reader.h.session.deadline())


def test_a_batch_is_closed_while_it_waits_for_a_proof() -> None:
    reader = from_outside(Replicas("a", "b"))
    batch = reader.session.get_batch("S", now=reader.h.now)
    batch.close(reader.h.now)
    reader.replicas.serve(reader.h)
    assert (batch.finished, batch.pop_many(9, reader.h.now)) == (True, [])
    failing = from_outside(Replicas("a", "b"))
    batch = failing.session.get_batch("S", now=failing.h.now)
    batch.close(failing.h.now)
    failing.session.close()
    assert batch.error is None


def test_a_reader_may_take_while_a_position_is_proved() -> None:
    reader = from_outside(Replicas("a", "b"))
    batch = reader.session.get_batch("S", now=reader.h.now)
    for _ in range(3):
        assert batch.pop_many(9, reader.h.now) == []
    assert len(reader.h.published()) == 1
    reader.h.advance(LONG / 4)  # it was lost on the way
    reader.h.advance(0.1)
    reader.replicas.serve(reader.h)
    assert [message.seq for message in batch.pop_many(9, reader.h.now)] == [1, 2]


def test_two_tokens_and_a_stream_that_is_forgotten_meanwhile() -> None:
    """Each is proved, and who waits is told at the end."""
    reader = from_outside(Replicas("a", "b", "a"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.session.merge(token(3))
    assert reader.wait(ticket).seq == 3
    assert reader.asked == ["state", "leader", "state", "direct"]
    other = from_outside(Replicas("a", "b", "a"))
    first = other.session.get_last_msg("S", "a", now=other.h.now)
    other.session.forget("S")
    other.session.merge(token(3))
    second = other.session.get_last_msg("S", "b", now=other.h.now)
    assert other.wait(first).seq == 3
    assert other.wait(second).seq == 2


def test_a_message_without_a_time_has_no_witness() -> None:
    reader = Reader(Replicas("a"))
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    (pub,) = reader.h.published()
    header = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 1\r\n%b\r\n"
    reader.h.deliver(pub.reply or b"", b"", header % b"")
    assert ticket.result().seq == 1
    assert reader.session.token == SessionToken({"S": (0, 1)})
    reader.session.record(PubAck("S", 1))
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    (pub,) = reader.h.published()
    reader.h.deliver(pub.reply or b"", b"", header % b"Nats-Time-Stamp: 1960-01-01T00:00:00Z\r\n")
    assert reader.session.token == SessionToken({"S": (1, 1)})


def test_a_state_that_comes_while_a_position_is_proved() -> None:
    """Of a read that had asked before. It waits for the proof, too."""
    reader = Reader(Replicas("a", "b"), timeout=LONG).knows(1)
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now, level="leader")
    (state,) = reader.h.published()
    reader.session.merge(token(2))
    other = reader.session.get_last_msg("S", "b", now=reader.h.now)
    reader.h.deliver(state.reply or b"", *reader.replicas.answers(state)[0])
    assert (ticket.done, other.done) == (False, False)
    assert (reader.wait(ticket).seq, reader.wait(other).seq) == (1, 2)


def test_a_state_before_anything_is_known() -> None:
    """It says nothing of what is read later: the stream may be another one by then."""
    reader = Reader(Replicas("a", "b"), timeout=LONG)
    assert reader.all("get_batch", subject="c") == []
    assert "state" in reader.asked
    reader.replicas.created = LATER
    assert reader.read("get_last_msg", "b").seq == 2
    seen = reader.session.token.seen("S")
    assert seen is not None
    assert seen.identity is None


def test_an_identity_is_that_of_the_link() -> None:
    reader = Reader(Replicas("a", "b", "b"), timeout=LONG).knows(1)
    assert reader.all("get_batch", subject="c") == []
    relinked(reader).replicas.created = "2026-11-20T20:36:41Z"
    assert reader.read("get_last_msg", "b").seq == 3
    relinked(reader)
    assert reader.read("get_last_msg", "b").seq == 3  # nothing was read of the one before


def test_a_proof_that_is_asked_for_without_a_link() -> None:
    reader = from_outside(Replicas("a", "b", "a"))
    first = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.published()
    reader.h.lose()
    reader.h.advance(0.05)
    while reader.h.session.connect_to is None:
        reader.h.advance(1.0)
    reader.h.connect()
    second = reader.session.get_last_msg("S", "b", now=reader.h.now)
    assert (reader.wait(first).seq, reader.wait(second).seq) == (3, 2)


def test_each_stream_has_its_own_proof() -> None:
    both = token(2).merge(SessionToken({"T": (0, 1)}, [StreamPosition("T", 1, None, SINCE)]))
    reader = Reader(Replicas("a", "b"), token=both, timeout=LONG)
    ours = reader.session.get_last_msg("S", "a", now=reader.h.now)
    theirs = reader.session.get_last_msg("T", "a", now=reader.h.now)
    pubs = {pub.subject: pub.reply or b"" for pub in reader.h.published()}
    refused = b'{"error": {"code": 503, "err_code": 10008, "description": "not now"}}'
    reader.h.deliver(pubs[b"$JS.API.STREAM.INFO.T"], refused)
    assert (ours.done, theirs.done) == (False, False)
    reader.h.advance(LONG)
    with pytest.raises(Error, match="not now|no answer"):
        theirs.result()
    with pytest.raises(TimeoutError, match="no answer"):
        ours.result()


@pytest.mark.parametrize("verb", READS)
def test_what_was_written_is_missing_and_what_was_read_is_there(verb: str) -> None:
    """The proof of the one does not end the doubt about the other."""
    replicas = Replicas("a")
    reader = Reader(replicas, token=token(1, written=2), timeout=LONG)
    error = failure(reader, verb, 2 * LONG)
    assert isinstance(error, StreamRolledBackError)
    assert error.seq == 2
