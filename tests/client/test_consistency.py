"""Sessions: what a lagging replica, an old leader or a silent server can do to a read, and cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle, repeat
from typing import Any

import pytest

from jsproto.client.read.consistent_batch import SessionBatch, SessionLastMsgs
from jsproto.client.read.consistent_session import ConsistentSession
from jsproto.client.read.multi import MAX_SUBJECTS
from jsproto.client.read.retry import DIRECT_TRIES
from jsproto.errors import (
    BadTokenError,
    ConnectionClosedError,
    Error,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MessageNotFoundError,
    MirrorAnswerError,
    NoRespondersError,
    RemoteProtocolError,
    StaleReadError,
    StreamRecreatedError,
    TimeoutError,
    TooManyResultsError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.grammar.session_token import SessionToken
from jsproto.grammar.stored import StoredMsg
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.client.lagging import CREATED, LATER, NO_RESPONDERS, Replicas, Stored
from tests.harness import Harness
from tests.marks import promise, requirement

ASK = ["direct"] * DIRECT_TRIES
LEADER = ["state", "leader"]
END = b"NATS/1.0 204 EOB\r\n"
PART = (
    b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: %d\r\n"
    b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: %d\r\n\r\n"
)


class Reader:
    """A session over replicas."""

    def __init__(self, replicas: Replicas, *, info: dict[str, Any] | None = None, **options: Any) -> None:
        self.replicas = replicas
        self.h = Harness(info=info, max_reconnect_attempts=5)
        self.session: ConsistentSession = self.h.js.consistent_session(**{"timeout": 2.0, **options})

    def knows(self, seq: int) -> Reader:
        self.session.record(PubAck("S", seq))
        return self

    def ask(self, verb: str = "get_last_msg", *args: Any, **options: Any) -> Ticket[Any]:
        ticket: Ticket[Any] = getattr(self.session, verb)("S", *args, now=self.h.now, **options)
        self.replicas.serve(self.h)
        return ticket

    def wait(self, ticket: Ticket[Any], seconds: float = 3.0, step: float = 0.001) -> Any:
        """Answer all that is asked until there is an answer."""
        for _ in range(int(seconds / step)):
            if ticket.done:
                break
            self.h.advance(step)
            self.replicas.serve(self.h)
        return ticket.result()

    def wait_a_little(self) -> None:
        """Half a second, in which all that is asked is answered."""
        for _ in range(10):
            self.h.advance(0.05)
            self.replicas.serve(self.h)

    def read(self, verb: str = "get_last_msg", *args: Any, **options: Any) -> StoredMsg:
        message = self.wait(self.ask(verb, *args, **options))
        assert isinstance(message, StoredMsg)
        return message

    def all(self, verb: str, *args: Any, **options: Any) -> list[int]:
        """Read many, to the end."""
        batch = getattr(self.session, verb)("S", *args, now=self.h.now, **options)
        found: list[int] = []
        for _ in range(1000):
            self.replicas.serve(self.h)
            messages = batch.pop_many(2, self.h.now)
            found += [message.seq for message in messages]
            if not messages:
                if batch.finished:
                    batch.readable().result()
                    break
                ticket = batch.readable()
                if not ticket.done:
                    self.replicas.serve(self.h)
                    self.h.advance(0.001)
                elif ticket.error is not None:
                    assert batch.error is ticket.error or batch.error is None
                    raise ticket.error
        else:
            raise AssertionError("it does not end")
        return found

    @property
    def asked(self) -> list[str]:
        asked, self.replicas.asked = self.replicas.asked, []
        return asked


def known(reader: Reader) -> dict[str, tuple[int, int]]:
    """The sequences of its token."""
    return dict(reader.session.token.items())


def raised(reader: Reader, error: type[Error], *args: Any, seconds: float = 3.0, **options: Any) -> Any:
    with pytest.raises(error) as found:
        reader.wait(reader.ask(*args, **options), seconds, 0.001 if seconds < 9 else 0.05)
    return found.value


# -- the last message of a subject -------------------------------------------------------------------------------------


def test_a_session_that_knows_nothing_takes_what_comes() -> None:
    reader = Reader(Replicas("a", "b", "a", positions=(2,)))
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == ["direct"]
    assert known(reader) == {"S": (0, 1)}
    assert raised(reader.knows(0), MessageNotFoundError, "get_last_msg", "c").code == 404


def test_an_older_message_is_right_where_nothing_newer_was_stored() -> None:
    reader = Reader(Replicas("a", "b")).knows(2)
    assert reader.read("get_last_msg", "a").seq == 1  # one answer, which holds up to 2
    assert reader.asked == ["direct"]
    assert known(reader) == {"S": (2, 1)}


def test_a_lagging_replica_is_asked_again_until_it_has_caught_up() -> None:
    reader = Reader(Replicas("a", "a", positions=(1,))).knows(2)
    ticket = reader.ask("get_last_msg", "a")
    assert not ticket.done
    reader.replicas.catch_up()
    assert reader.wait(ticket).seq == 2
    assert reader.asked == ["direct", "direct"]


@promise("An answer that may be too old is asked for again, then asked of the leader.")
def test_a_replica_that_stays_behind_makes_the_leader_be_asked() -> None:
    reader = Reader(Replicas("a", "a", positions=(1,))).knows(2)
    assert reader.read("get_last_msg", "a").seq == 2
    assert reader.asked == ASK + LEADER
    assert reader.read("get_msg", subject="*").seq == 2
    assert reader.asked == ASK + LEADER


def test_a_wildcard_is_believed_when_its_message_proves_enough() -> None:
    reader = Reader(Replicas("a", "b")).knows(2)
    assert reader.read("get_last_msg", ">").seq == 2
    assert reader.asked == ["direct"]
    assert reader.read("get_last_msg", "a").seq == 1


@requirement(251)
@promise("what was acknowledged, except right after a change of leaders or while the network is split")
@promise("all that was acknowledged, except right after a change of leaders or while the network is split")
@promise("An answer that may be too old is asked for again, then asked of the leader.")
def test_an_old_leader_is_not_believed() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,)))
    reader.replicas.leader = 1
    error = raised(reader.knows(2), StaleReadError, "get_last_msg", "a")
    assert (error.stream, error.wanted, error.found) == ("S", 2, 1)
    assert isinstance(error, TimeoutError)
    assert set(reader.asked) == {"direct", "state"}  # it was never asked for the message
    assert reader.h.session.deadline() == Harness().session.deadline()  # nothing is left behind


def test_the_leader_comes_back_to_its_senses() -> None:
    reader = Reader(Replicas("a", "a", positions=(1,))).knows(2)
    reader.replicas.leader = 1
    ticket = reader.ask("get_last_msg", "a")
    reader.h.advance(0.5)
    reader.replicas.serve(reader.h)
    assert not ticket.done
    reader.replicas.leader = 2
    assert reader.wait(ticket).seq == 2


def test_what_was_written_meanwhile_counts_too() -> None:
    replicas = Replicas("a", "a", positions=(1,))
    reader = Reader(replicas, level="leader").knows(1)
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    (state,) = reader.h.published()
    replicas.leader = 1
    answers = replicas.answers(state)
    reader.h.deliver(state.reply or b"", *answers[0])
    (get,) = reader.h.published()
    old = replicas.answers(get)
    reader.knows(2)
    reader.h.deliver(get.reply or b"", *old[0])
    assert not ticket.done
    replicas.leader = 2
    assert reader.wait(ticket).seq == 2


def test_nothing_of_a_leader_that_fell_behind_meanwhile() -> None:
    replicas = Replicas("a")
    reader = Reader(replicas, level="leader").knows(1)
    ticket = reader.session.get_last_msg("S", "b", now=reader.h.now)
    (state,) = reader.h.published()
    reader.h.deliver(state.reply or b"", *replicas.answers(state)[0])
    (get,) = reader.h.published()
    nothing = replicas.answers(get)[0]
    reader.knows(replicas.write("b"))
    reader.h.deliver(get.reply or b"", *nothing)
    assert not ticket.done
    assert reader.wait(ticket).seq == 2


@promise("Only the leader's word that a message is missing counts.")
@pytest.mark.parametrize(
    "ask", [lambda s, now: s.get_last_msg("S", "b", now=now), lambda s, now: s.get_msg("S", 2, now=now)]
)
def test_what_is_missing_may_just_not_be_there_yet(ask: Callable[..., Ticket[StoredMsg]]) -> None:
    reader = Reader(Replicas("a", "b", positions=(1,))).knows(2)
    ticket = ask(reader.session, reader.h.now)
    reader.replicas.serve(reader.h)
    assert reader.wait(ticket).seq == 2
    assert reader.asked == ASK + LEADER


@promise("Only the leader's word that a message is missing counts.")
def test_the_leader_says_what_is_missing_for_good() -> None:
    reader = Reader(Replicas("a", "b")).knows(2)
    raised(reader, MessageNotFoundError, "get_last_msg", "c")
    assert reader.asked == ASK + LEADER
    reader.replicas.delete(1)
    raised(reader, MessageNotFoundError, "get_msg", 1)
    assert reader.asked == ASK + LEADER


def test_a_message_that_nobody_can_have_seen_may_be_missing() -> None:
    reader = Reader(Replicas("a", "b")).knows(2)
    raised(reader, MessageNotFoundError, "get_msg", 3)
    raised(reader, MessageNotFoundError, "get_msg", 3, subject="a", next=True)
    assert reader.asked == ["direct", *LEADER] * 2  # but only the leader is believed, at once


@promise("A message that is read by its sequence")
def test_a_stored_message_stays_what_it_is() -> None:
    reader = Reader(Replicas("a", "a", "b", positions=(1,))).knows(3)
    assert reader.read("get_msg", 1).seq == 1
    assert reader.asked == ["direct"]


@promise("a last message, a next message", of="Guarantees")
@promise("a last message, a next message", of="Reading what was written")
@pytest.mark.parametrize("choice", [{"subject": "a", "next": True}, {"seq": 1, "next": True}, {"start_time": 0}])
def test_the_next_message_may_have_been_replaced(choice: dict[str, Any]) -> None:
    """Before the token only the leader is believed it: a replica that lags shows what was overwritten."""
    reader = Reader(Replicas("a", "a", "b", positions=(1,))).knows(3)
    assert reader.read("get_msg", **choice).seq == 1
    assert reader.asked == ["direct", *LEADER]
    fresh = Reader(Replicas("a", "a", "b")).knows(1)
    assert fresh.read("get_msg", **choice).seq == 1
    assert fresh.asked == ["direct"]


@requirement(256)
@promise("**consistent sessions** that read their own writes and never read backwards")
@promise("Reads that are never older than what this session has written and read.")
def test_it_never_reads_backwards() -> None:
    replicas = Replicas("a", "a", "a", positions=(3, 2))
    reader = Reader(replicas)
    assert [reader.read("get_last_msg", "a").seq for _ in range(4)] == [3, 3, 3, 3]
    plain = [reader.h.js.get_last_msg("S", "a", now=reader.h.now) for _ in range(2)]
    assert len(reader.h.published()) == len(plain)  # which would be free to


# -- levels ------------------------------------------------------------------------------------------------------------


@requirement(251, 255)
def test_the_leader_can_be_asked_first() -> None:
    reader = Reader(Replicas("a", "b"), level="leader")
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == ["leader"]  # nothing to confirm
    reader.knows(2)
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == LEADER
    assert reader.read("get_last_msg", "a", level="direct").seq == 1
    assert reader.asked == ["direct"]
    reader.replicas.leader = 1
    assert raised(reader, StaleReadError, "get_last_msg", "a").found == 1
    assert set(reader.asked) == {"state"}


def mirrored(*subjects: str, keeps: Callable[[Stored], bool], **options: Any) -> Reader:
    """A stream whose every second answer is that of a mirror, which has come as far and keeps a part."""
    replicas = Replicas(*subjects, positions=(len(subjects),) * 2)
    replicas.mirrors[0] = keeps
    return Reader(replicas, **options)


@promise("**consistent sessions** that read their own writes and never read backwards")
@promise("Only the leader's word that a message is missing counts.")
def test_a_mirror_that_holds_a_part_is_not_taken_for_the_stream() -> None:
    reader = mirrored("a", "b", "a", "c", keeps=lambda message: message.seq == 4)
    for _ in range(3):
        assert reader.read("get_msg", 1, next=True).seq == 1
        assert reader.read("get_msg", subject="a", next=True).seq == 1
        assert reader.read("get_last_msg", "a").seq == 3
        assert reader.read("get_last_msg", "*").seq == 4
        assert reader.read("get_msg", 2).seq == 2
        assert reader.all("get_batch") == [1, 2, 3, 4]
        assert reader.all("get_last_msgs_for", ["a", "b", "c"]) == [2, 3, 4]
        assert reader.all("get_last_msgs_for", ["nowhere"]) == []
        raised(reader, MessageNotFoundError, "get_msg", 5)
        raised(reader, MessageNotFoundError, "get_last_msg", "nowhere")


@promise("Its answers are dropped and asked for again.")
def test_only_mirrors_answer() -> None:
    reader = mirrored("a", "b", keeps=lambda message: message.seq == 2)
    reader.replicas.turns = cycle((0,))
    assert reader.read("get_last_msg", "b").seq == 2  # the leader's
    assert reader.asked == ASK[:1] * 3 + LEADER[-1:]
    for verb, arguments in (("get_batch", ()), ("get_last_msgs_for", (["b"],))):
        with pytest.raises(MirrorAnswerError, match="read M by its own name"):
            reader.all(verb, *arguments, timeout=0.5)


@requirement(253)
def test_a_mirror_is_asked_by_its_own_name() -> None:
    reader = mirrored("a", "b", "c", keeps=lambda message: message.seq != 2, level="mirror", mirrors={"S": "M"})
    assert reader.read("get_last_msg", "c").seq == 3
    assert reader.read("get_msg", 1).seq == 1
    assert reader.read("get_msg", 2, next=True).seq == 2  # the leader's: what a mirror skips may be there
    assert reader.read("get_msg", 3, next=True).seq == 3
    with pytest.raises(LocalProtocolError, match="needs a mirror of stream T"):
        reader.session.get_msg("T", 1, now=reader.h.now)


@promise("what the mirror holds: it may lag by any distance, and hold a part")
def test_the_end_of_a_mirror_proves_nothing() -> None:
    reader = mirrored("a", "b", "a", "c", keeps=lambda message: message.seq in (1, 4), level="mirror",
                      mirrors={"S": "M"}).knows(4)  # fmt: skip
    assert reader.read("get_last_msg", "a").seq == 3
    assert reader.read("get_last_msg", "c").seq == 4
    assert reader.read("get_msg", start_time=0).seq == 1
    assert reader.read("get_last_msg", ">").seq == 4


def test_many_messages_of_a_mirror_are_read_by_its_own_name() -> None:
    reader = mirrored("a", keeps=lambda message: True, level="mirror", mirrors={"S": "M"})
    for verb, arguments in (("get_batch", ()), ("get_last_msgs_for", (["a"],))):
        with pytest.raises(LocalProtocolError, match="may hold a part of its origin"):
            getattr(reader.session, verb)("S", *arguments, now=reader.h.now)
    assert reader.h.published() == []


def test_the_pages_of_last_messages_never_go_back() -> None:
    """A replica that is behind the one before would leave out what was overwritten between the two."""
    replicas = Replicas("a", "b", "c", "b", positions=(4, 3))
    reader = Reader(replicas)
    assert reader.all("get_last_msgs_for", ["a", "b", "c"], max_bytes=1) == [1, 3, 4]


@pytest.mark.parametrize("verb", ["get_batch", "get_last_msgs_for"])
def test_the_leader_gives_no_batches(verb: str) -> None:
    reader = Reader(Replicas("a"))
    arguments: tuple[Any, ...] = () if verb == "get_batch" else (["a"],)
    with pytest.raises(LocalProtocolError, match="one message at a time"):
        getattr(reader.session, verb)("S", *arguments, now=0.0, level="leader")
    assert reader.h.published() == []


def test_old_servers_have_no_form_that_proves_anything() -> None:
    reader = Reader(Replicas("a"), info={"version": "2.10.29"}).knows(1)
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == LEADER


@requirement(255, 257)
@pytest.mark.parametrize("level", ["linearizable", "Direct", "follower", "", 1])
def test_a_level_that_is_none(level: Any) -> None:
    reader = Reader(Replicas("a"))
    session, words = reader.session, f"level is 'direct', 'leader' or 'mirror', not {level!r}"
    for ask in (
        lambda: reader.h.js.consistent_session(level=level),
        lambda: session.get_msg("S", 1, now=0.0, level=level),
        lambda: session.get_last_msg("S", "a", now=0.0, level=level),
        lambda: session.get_batch("S", now=0.0, level=level),
        lambda: session.get_last_msgs_for("S", ["a"], now=0.0, level=level),
    ):
        with pytest.raises(LocalProtocolError, match=words):
            ask()
    assert reader.h.published() == []


# -- who does not answer -----------------------------------------------------------------------------------------------


def test_without_direct_gets_the_leader_answers() -> None:
    replicas = Replicas("a")
    replicas.allow_direct = False
    reader = Reader(replicas).knows(1)
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == ["direct", *LEADER]
    with pytest.raises(NoRespondersError, match="allow_direct=True"):
        reader.all("get_last_msgs_for", ["a"])


@promise("An answer that may be too old is asked for again, then asked of the leader.")
def test_who_is_silent_is_passed_over() -> None:
    replicas = Replicas("a")
    replicas.silent = {0}
    reader = Reader(replicas).knows(1)
    assert reader.read("get_last_msg", "a").seq == 1
    assert reader.asked == ["direct", *LEADER]


@promise("An answer that may be too old is asked for again, then asked of the leader.")
def test_nobody_answers_at_all() -> None:
    reader = Reader(Replicas("a"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.advance(1.9)
    assert not ticket.done
    reader.h.advance(0.2)
    with pytest.raises(TimeoutError, match="no answer from stream S"):
        ticket.result()
    pubs = reader.h.published()
    assert {pub.subject for pub in pubs} > {b"$JS.API.DIRECT.GET.S"}
    reader.h.deliver(pubs[0].reply or b"", b"late")
    assert isinstance(reader.h.events()[-1], UnexpectedMessage)


def test_nothing_at_all_within_no_time() -> None:
    reader = Reader(Replicas("a"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now, timeout=0.0)
    reader.h.advance(0.0)
    with pytest.raises(TimeoutError, match="within 0 s"):
        ticket.result()


def test_no_jetstream() -> None:
    reader = Reader(Replicas("a"), level="leader").knows(1)
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    (pub,) = reader.h.published()
    reader.h.deliver(pub.reply or b"", b"", NO_RESPONDERS)
    with pytest.raises(JetStreamNotAvailableError):
        ticket.result()


def test_errors_of_the_api() -> None:
    reader = Reader(Replicas("a"), level="leader").knows(1)
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    reader.h.answer(lambda pub: {"error": {"code": 503, "err_code": 10008, "description": "system unavailable"}})
    assert not ticket.done  # there will be a leader again
    assert reader.wait(ticket).seq == 1
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    reader.h.answer(lambda pub: {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}})
    with pytest.raises(Error, match="stream not found"):
        ticket.result()


def test_a_stream_that_is_offline_is_asked_again() -> None:
    reader = Reader(Replicas("a"), level="leader").knows(1)
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    reader.h.answer(lambda pub: {"error": {"code": 500, "err_code": 10118, "description": "stream is offline"}})
    assert not ticket.done
    assert reader.wait(ticket).seq == 1


@pytest.mark.parametrize("comes_back", [True, False])
def test_an_api_that_stops_is_asked_again(comes_back: bool) -> None:
    """The server that answered is about to go. Without another one the read says so."""
    reader = Reader(Replicas("a"), level="leader", timeout=1.0).knows(1)
    ticket = reader.session.get_msg("S", 1, now=reader.h.now)
    state = {"config": {"name": "S"}, "created": CREATED, "state": {"last_seq": 1, "messages": 1}}
    reader.h.answer(lambda pub: state)
    for _ in range(1 if comes_back else 40):
        for pub in reader.h.published():
            reader.h.deliver(pub.reply or b"", b"", NO_RESPONDERS)
        assert not (comes_back and ticket.done)
        reader.h.advance(0 if comes_back else 0.05)
    if comes_back:
        assert reader.wait(ticket).seq == 1
    else:
        with pytest.raises(JetStreamNotAvailableError):
            ticket.result()


def test_a_status_is_an_error() -> None:
    reader = Reader(Replicas("a"))
    for verb, arguments in (("get_msg", (1,)), ("get_last_msg", ("a",))):
        ticket = getattr(reader.session, verb)("S", *arguments, now=reader.h.now)
        (pub,) = reader.h.published()
        reader.h.deliver(pub.reply or b"", b"", b"NATS/1.0 413 Too Many Results\r\n\r\n")
        with pytest.raises(TooManyResultsError):
            ticket.result()


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"NATS/1.0\r\nA: b\r\n\r\n",
        END + b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\n\r\n",
        END + b"Nats-UpTo-Sequence: x\r\n\r\n",
    ],
)
def test_answers_that_are_none(header: bytes | None) -> None:
    reader = Reader(Replicas("a"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    (pub,) = reader.h.published()
    reader.h.deliver(pub.reply or b"", b"", header)
    with pytest.raises(RemoteProtocolError):
        ticket.result()


@pytest.mark.parametrize(
    "headers",
    [
        [PART % (2, 1)],
        [PART % (1, 0), PART % (1, 1)],
        [PART % (1, 0), END + b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 2\r\nNats-UpTo-Sequence: 9\r\n\r\n"],
    ],
)
def test_a_part_that_was_lost_is_asked_for_elsewhere(headers: list[bytes]) -> None:
    reader = Reader(Replicas("a")).knows(1)
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    (pub,) = reader.h.published()
    for header in headers:
        reader.h.deliver(pub.reply or b"", b"", header)
    assert not ticket.done
    assert reader.wait(ticket).seq == 1
    assert reader.asked == LEADER


def test_a_message_that_went_while_it_was_looked_for() -> None:
    reader = Reader(Replicas("a")).knows(1)
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    (pub,) = reader.h.published()
    end = END + b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 0\r\nNats-UpTo-Sequence: 9\r\n\r\n"
    reader.h.deliver(pub.reply or b"", b"", end)
    assert not ticket.done
    assert reader.wait(ticket).seq == 1


# -- links and ends ----------------------------------------------------------------------------------------------------


def test_a_read_survives_a_lost_link() -> None:
    reader = Reader(Replicas("a", "a", positions=(1,))).knows(2)
    asking = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.published()
    pausing = reader.ask("get_last_msg", "a")
    reader.h.lose()
    assert (asking.done, pausing.done) == (False, False)
    reader.h.connect()
    assert [pub.subject for pub in reader.h.published()] == [b"$JS.API.DIRECT.GET.S"]  # the other one pauses
    assert reader.wait(pausing).seq == 2
    reader.h.advance(1.0)
    assert reader.wait(asking).seq == 2


def test_the_end_of_the_connection_ends_it() -> None:
    reader = Reader(Replicas("a"))
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    reader.h.session.close(reader.h.now)
    reader.h.drain()
    with pytest.raises(ConnectionClosedError):
        ticket.result()
    with pytest.raises(ConnectionClosedError):
        reader.session.get_last_msg("S", "a", now=0.0)
    with pytest.raises(ConnectionClosedError):
        reader.session.publish("a", now=0.0)


def test_a_closed_session_reads_no_more() -> None:
    reader = Reader(Replicas("a", "a", positions=(1,))).knows(2)
    ticket = reader.ask("get_last_msg", "a")
    assert not reader.session.closed
    reader.session.close()
    reader.session.close()
    assert reader.session.closed
    with pytest.raises(ConnectionClosedError):
        ticket.result()
    assert reader.session.token == SessionToken({"S": (2, 0)})
    with pytest.raises(ConnectionClosedError):
        reader.session.get_batch("S", now=0.0)
    reader.h.sent()
    assert reader.h.subs == {}
    other = Reader(Replicas())
    other.session.close()
    assert other.h.sent() == []


def test_a_full_buffer_delays_a_read() -> None:
    reader = Reader(Replicas("a"))
    reader.h = Harness(pending_size=1)
    reader.session = reader.h.js.consistent_session()
    reader.h.session.publish("x", b"")
    ticket = reader.session.get_last_msg("S", "a", now=reader.h.now)
    assert [pub.subject for pub in reader.h.published()] == [b"x"]
    assert reader.wait(ticket).seq == 1


# -- the token ---------------------------------------------------------------------------------------------------------


def test_what_a_session_learns() -> None:
    reader = Reader(Replicas("a"), token=SessionToken({"S": (4, 0)}).to_bytes())
    session = reader.session
    ticket = session.publish("s.a", b"x", now=reader.h.now)
    reader.h.answer(lambda pub: {"stream": "S", "seq": 7})
    assert ticket.result().seq == 7
    session.record(PubAck("S", 0))  # a batch of which nothing was stored
    session.observe("S", 6)
    session.merge(SessionToken({"T": (1, 1)}))
    session.merge(b'{"v":1,"streams":{"U":[2,2]}}')
    assert session.token == SessionToken({"S": (7, 6), "T": (1, 1), "U": (2, 2)})
    session.forget("S")
    assert session.token["S"].floor == 0
    with pytest.raises(BadTokenError):
        session.merge(b"{}")
    with pytest.raises(LocalProtocolError):
        session.observe("S", -1)
    assert reader.h.js.consistent_session(token=session.token).token is session.token


def test_a_refused_message_teaches_nothing() -> None:
    reader = Reader(Replicas())
    ticket = reader.session.publish("a", now=reader.h.now)
    reader.h.answer(lambda pub: {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 1"}})
    assert ticket.error is not None
    assert reader.session.token == SessionToken()


# -- many messages -----------------------------------------------------------------------------------------------------


@promise("does not end before sequence 1")
def test_a_batch_does_not_end_before_the_token() -> None:
    replicas = Replicas("a", "b", "a", "b", "a", positions=(2,))
    reader = Reader(replicas).knows(5)
    assert reader.all("get_batch") == [1, 2, 3, 4, 5]  # the leader knows
    assert "leader" in reader.asked
    assert reader.all("get_batch", subject="b") == [2, 4]
    assert reader.all("get_batch", seq=3, batch=2) == [3, 4]
    assert reader.all("get_batch", seq=2, batch=2) == [2, 3]
    assert reader.all("get_batch", seq=3, batch=1) == [3]
    assert reader.all("get_batch", subject="c") == []


def test_columns_count_as_read() -> None:
    reader = Reader(Replicas("a", "b", "a")).knows(1)
    batch = reader.session.get_batch("S", now=reader.h.now)
    assert batch.pop_columns(2, reader.h.now).seqs == ()
    assert reader.session.token["S"].floor == 1
    reader.replicas.serve(reader.h)
    assert list(batch.pop_columns(2, reader.h.now).seqs) == [1, 2]
    assert reader.session.token["S"].floor == 2
    assert list(batch.pop_columns(2, reader.h.now).seqs) == [3]
    assert reader.session.token["S"].floor == 3


def test_a_batch_that_reaches_the_token_asks_nobody_else() -> None:
    reader = Reader(Replicas("a", "b", "a")).knows(3)
    assert reader.all("get_batch") == [1, 2, 3]
    assert reader.asked == ["direct"]
    assert known(reader) == {"S": (3, 3)}


@promise("Outside this guarantee are the newest value of any writer")
def test_the_end_was_deleted() -> None:
    reader = Reader(Replicas("a", "b", "a")).knows(3)
    reader.replicas.delete(3)
    assert reader.all("get_batch") == [1, 2]
    assert reader.asked == ["direct", *LEADER]


def test_a_message_of_the_leader_can_be_waited_for_before_it_is_taken() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,))).knows(2)
    batch = reader.session.get_batch("S", now=reader.h.now, seq=2)
    assert (batch.last_seq, batch.num_pending, batch.up_to_seq) == (0, None, None)
    reader.replicas.serve(reader.h)
    assert batch.pop_many(9, reader.h.now) == []
    reader.wait(batch.readable())
    assert batch.readable().done
    assert batch.last_seq == 2
    assert [message.seq for message in batch.pop_many(9, reader.h.now)] == [2]


def test_a_batch_nobody_can_complete() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,))).knows(2)
    reader.replicas.leader = 1
    with pytest.raises(StaleReadError):
        reader.all("get_batch", timeout=0.2)


def test_a_batch_is_left_in_the_middle() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,))).knows(2)
    batch = reader.session.get_batch("S", now=reader.h.now)
    reader.replicas.serve(reader.h)
    assert [message.seq for message in batch.pop_many(9, reader.h.now)] == [1]
    assert batch.pop_many(9, reader.h.now) == []
    assert not batch.readable().done  # the leader is being asked
    batch.close(reader.h.now)
    reader.replicas.serve(reader.h)
    assert (batch.finished, batch.pop_many(9, reader.h.now)) == (True, [])


def test_the_last_messages_of_subjects() -> None:
    replicas = Replicas("a", "b", "a", "c", positions=(3,))
    reader = Reader(replicas).knows(4)
    replicas.turns = repeat(0)
    batch = reader.session.get_last_msgs_for("S", ["a", "c"], now=reader.h.now)
    replicas.serve(reader.h)
    assert not batch.readable().done
    replicas.catch_up()
    reader.h.advance(0.1)
    replicas.serve(reader.h)
    assert [message.seq for message in batch.pop_many(9, reader.h.now)] == [3, 4]
    assert known(reader) == {"S": (4, 4)}
    assert set(reader.asked) == {"direct"}


def test_last_messages_in_several_answers_are_as_of_one_sequence() -> None:
    replicas = Replicas("a", "b", "c", "d")
    reader = Reader(replicas).knows(4)
    batch = reader.session.get_last_msgs_for("S", [">"], now=reader.h.now, max_bytes=2)
    assert (batch.last_seq, batch.num_pending, batch.up_to_seq) == (0, None, None)
    (pub,) = reader.h.published()
    for payload, header in replicas.answers(pub):
        reader.h.deliver(pub.reply or b"", payload, header)
    replicas.write("a")  # which has come
    replicas.write("d")  # which has not
    replicas.catch_up()
    for _ in range(9):
        replicas.serve(reader.h)
        reader.h.advance(0.01)
    assert (batch.last_seq, batch.num_pending, batch.up_to_seq) == (6, 4, 6)
    assert reader.session.token == SessionToken({"S": (4, 0)})
    assert [m.seq for m in batch.pop_many(3, reader.h.now)] == [2, 3, 5]
    assert known(reader) == {"S": (4, 5)}
    assert [m.seq for m in batch.pop_many(3, reader.h.now)] == [6]
    assert batch.finished


@pytest.mark.parametrize("verb", ["get_batch", "get_last_msgs_for"])
def test_a_read_of_several_parts_is_of_one_stream(verb: str) -> None:
    replicas = Replicas("a", "b", "c", positions=(2,))
    reader = Reader(replicas)
    batch: SessionBatch | SessionLastMsgs
    if verb == "get_batch":
        batch = reader.knows(3).session.get_batch("S", now=reader.h.now)
    else:
        batch = reader.session.get_last_msgs_for("S", [">"], now=reader.h.now, max_bytes=1)
    replicas.serve(reader.h)
    if verb == "get_batch":
        assert [m.seq for m in batch.pop_many(1, reader.h.now)] == [1]
    replicas.created = LATER  # and all that is in it now
    for _ in range(100):
        replicas.serve(reader.h)
        batch.pop_many(9, reader.h.now)
        reader.h.advance(0.01)
    with pytest.raises(StreamRecreatedError, match="S was deleted and made anew"):
        batch.readable().result()
    assert isinstance(batch.error, StreamRecreatedError)
    assert not batch.finished


def test_writers_that_never_rest_do_not_make_last_messages_endless() -> None:
    replicas = Replicas("a", "b", "c")
    reader = Reader(replicas)
    batch = reader.session.get_last_msgs_for("S", [">"], now=reader.h.now, max_bytes=1)
    found = set()
    for number in range(1_000):
        replicas.serve(reader.h)
        found |= {message.subject for message in batch.pop_many(9, reader.h.now)}
        if batch.finished:
            break
        replicas.write("abc"[number % 3])
        replicas.catch_up()
    assert batch.finished
    assert found == {"a", "b", "c"}


def test_no_last_messages_is_for_the_leader_to_say() -> None:
    reader = Reader(Replicas("a")).knows(1)
    assert reader.all("get_last_msgs_for", ["b", "c"]) == []
    assert reader.asked == ["direct", "leader", "direct"]  # the second time together with what the leader has
    reader.replicas.write("c")
    reader.knows(2)
    reader.replicas.turns = repeat(0)
    batch = reader.session.get_last_msgs_for("S", ["b", "c"], now=reader.h.now)
    for _ in range(100):
        reader.replicas.serve(reader.h)
        reader.h.advance(0.001)
    assert not batch.readable().done
    reader.replicas.catch_up()
    reader.wait(batch.readable())
    assert [m.seq for m in batch.pop_many(9, reader.h.now)] == [2]


def test_a_stream_that_became_empty_is_as_empty_as_its_leader_says() -> None:
    replicas = Replicas("a")
    reader = Reader(replicas).knows(1)
    replicas.log.clear()
    assert reader.all("get_last_msgs_for", ["a"]) == []
    assert reader.asked == ["direct", "leader", "state"]
    with pytest.raises(StaleReadError) as found:
        reader.knows(2).all("get_last_msgs_for", ["a"], timeout=0.2)  # it was made anew
    assert (found.value.wanted, found.value.found) == (2, 1)


def test_last_messages_nobody_can_give() -> None:
    reader = Reader(Replicas("a", "b", positions=(1,))).knows(2)
    with pytest.raises(StaleReadError) as found:
        reader.all("get_last_msgs_for", [">"], timeout=0.2)
    assert found.value.found == 1
    batch = reader.session.get_last_msgs_for("S", ["a"], now=reader.h.now)
    batch.close(reader.h.now)
    assert (batch.finished, batch.pop_many(1, reader.h.now)) == (True, [])


@pytest.mark.parametrize("subjects", [[], list(map(str, range(MAX_SUBJECTS + 1))), ["a b"]])
def test_subjects_that_cannot_be_asked_for(subjects: Any) -> None:
    reader = Reader(Replicas("a"))
    with pytest.raises(LocalProtocolError):
        reader.session.get_last_msgs_for("S", subjects, now=0.0)
    assert reader.h.sent(Pub) == []


@pytest.mark.parametrize("seq", [0, "1"])
def test_a_batch_begins_at_a_sequence(seq: Any) -> None:
    reader = Reader(Replicas("a"))
    with pytest.raises(LocalProtocolError):
        reader.session.get_batch("S", seq=seq, now=0.0)


@promise("Raises, with nothing sent:", of="jsproto:ConsistentSession")
def test_what_cannot_be_is_refused_before_anything_is_sent() -> None:
    reader = Reader(Replicas("a"))
    choices: list[dict[str, Any]] = [{"seq": 0}, {}, {"seq": 1, "subject": "a"}]
    for choice in choices:
        with pytest.raises(LocalProtocolError):
            reader.session.get_msg("S", now=0.0, **choice)
    with pytest.raises(LocalProtocolError):
        reader.session.get_msg("S.T", 1, now=0.0)
    with pytest.raises(LocalProtocolError):
        reader.h.js.consistent_session(mirrors={"S": "a.b"})
    assert reader.h.sent(Pub) == []


def test_pauses_grow_and_differ_between_sessions() -> None:
    pauses: list[list[float]] = []
    for _ in range(2):
        reader = Reader(Replicas("a", "b", positions=(1,)), timeout=100.0)
        reader.h.session.new_inbox()
        if pauses:
            reader.session = reader.h.js.consistent_session(timeout=100.0)
        reader.knows(2).replicas.leader = 1
        reader.ask("get_last_msg", "a")
        found = []
        for _ in range(12):
            deadline = reader.h.session.deadline()
            assert deadline is not None
            found.append(deadline - reader.h.now)
            reader.h.advance(deadline - reader.h.now)
            reader.replicas.serve(reader.h)
        pauses.append(found)
        assert 0.002 <= found[0] <= 0.006
        assert 0.125 <= found[-1] <= 0.375
    assert pauses[0] != pauses[1]


def test_the_form_that_proves_is_what_is_sent() -> None:
    reader = Reader(Replicas("a"))
    reader.session.get_last_msg("S", "a", now=reader.h.now)
    (pub,) = reader.h.published()
    assert (pub.subject, json.loads(pub.payload)) == (b"$JS.API.DIRECT.GET.S", {"multi_last": ["a"]})
