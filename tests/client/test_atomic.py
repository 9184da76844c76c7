"""The atomic batch against a scripted server, which says the bytes of released ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto import api_errors
from jsproto.client.publish.atomic import AtomicBatch
from jsproto.errors import (
    APIError,
    BadHeaderError,
    BadSubjectError,
    BatchClosedError,
    BatchExpiredError,
    BatchFullError,
    BatchMessageError,
    BatchTruncatedError,
    Error,
    JetStreamNotAvailableError,
    LocalProtocolError,
    MaxPayloadError,
    NoStreamResponseError,
    OutboundBufferLimitError,
    RemoteProtocolError,
    StatusError,
    UnsupportedByServerError,
)
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.grammar.headers import Headers
from jsproto.rules.atomic_batch import AtomicPhase
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub, Sub
from tests.harness import Harness
from tests.marks import known_fault, promise, requirement

EXPECTED = "Nats-Expected-Last-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence"
TOO_LARGE = (400, 10054, "message size exceeds maximum allowed")
INCOMPLETE = (400, 10176, "atomic publish batch is incomplete")
NOBODY = b"NATS/1.0 503\r\n\r\n"


class Batch:
    """An atomic batch and the server's side of its conversation."""

    def __init__(self, harness: Harness | None = None, **options: Any) -> None:
        self.h = harness or Harness()
        self.atomic: AtomicBatch = self.h.js.atomic_batch(**{"batch_id": "b1", **options})
        self.reply: bytes | None = None

    def sent(self) -> list[Pub]:
        """What was published since the last call; the reply subject of the last that has one is kept."""
        pubs = self.h.published()
        for pub in pubs:
            self.reply = pub.reply or self.reply
        return pubs

    def add(self, count: int = 1, headers: Any = None, subject: str = "e.a") -> list[Pub]:
        for _ in range(count):
            self.atomic.add(subject, b"x", headers, now=self.h.now)
        return self.sent()

    def say(self, body: dict[str, Any] | bytes = b"", header: bytes | None = None) -> None:
        """An answer to the last message that asked for one."""
        self.sent()
        assert self.reply is not None
        self.h.deliver(self.reply, body if isinstance(body, bytes) else json.dumps(body).encode(), header)

    def error(self, code: int, err_code: int, description: str) -> None:
        error = {"code": code, "err_code": err_code, "description": description}
        self.say({"error": error, "stream": "S", "seq": 0})

    def pub_ack(self, count: int, seq: int, batch: str = "b1") -> None:
        self.say({"stream": "S", "seq": seq, "batch": batch, "count": count})

    def commit(self, headers: Any = None) -> Ticket[PubAck]:
        ticket = self.atomic.commit(self.h.now, "e.a", b"last", headers)
        self.sent()
        return ticket

    def commit_eob(self) -> Ticket[PubAck]:
        ticket = self.atomic.commit_eob(self.h.now)
        self.sent()
        return ticket

    @property
    def subscribed(self) -> bool:
        self.sent()
        return any(sub.endswith(b".*") for sub in self.h.subs.values())

    def ended(self, error: Error | None, phase: AtomicPhase = AtomicPhase.FAILED) -> bool:
        """It has, for good: every verb says why, the inbox is dropped, no timer runs."""
        assert self.atomic.error is error
        sequence, many = self.atomic.sequence, [("e.a", b"x")] * (2 * self.atomic.sequence + 2)
        verbs: list[Any] = [
            self.add, lambda: self.atomic.add_many(many, self.h.now), self.commit, lambda: self.atomic.ready().result(),
        ]  # fmt: skip
        if phase is not AtomicPhase.COMMITTED:  # else it answers as before
            verbs.append(self.commit_eob)
        for verb in verbs:
            with pytest.raises(BatchClosedError if error is None else type(error)) as caught:
                verb()
            assert error is None or caught.value is error
        assert self.atomic.sequence == sequence
        self.atomic.discard(self.h.now)
        assert self.h.published() == []
        return self.atomic.phase is phase and not self.subscribed and self.atomic.deadline() is None


def opened(messages: int = 1, **options: Any) -> Batch:
    """A batch whose first message is accepted."""
    batch = Batch(**options)
    batch.add()
    batch.say()
    batch.add(messages - 1)
    batch.h.events()
    return batch


def headers_of(pub: Pub) -> dict[str, str]:
    assert pub.header is not None
    return dict(Headers.parse(pub.header).items())


# -- starting: rows 1, 2, 3, 10 ----------------------------------------------------------------------------------------


@requirement(1)
def test_the_first_message_is_a_request_with_id_and_sequence_1() -> None:
    batch = Batch()
    assert not batch.atomic.waiting
    assert batch.atomic.ready().result() is None
    assert batch.atomic.add("e.a", b"one", {"K": "v"}, now=batch.h.now) == 1
    sub, pub = batch.h.sent()
    assert isinstance(sub, Sub)
    assert isinstance(pub, Pub)
    assert sub.subject.startswith(b"_INBOX.")
    block = b"NATS/1.0\r\nNats-Batch-Id: b1\r\nNats-Batch-Sequence: 1\r\nK: v\r\n\r\n"
    assert pub.reply
    assert pub == Pub(b"e.a", pub.reply, block, b"one")


def test_an_id_is_made_up_where_none_is_given() -> None:
    first, second = (Harness().js.atomic_batch() for _ in range(2))
    assert first.batch_id == second.batch_id  # of equal sessions
    h = Harness()
    ids = {h.js.atomic_batch().batch_id for _ in range(3)}
    assert len(ids) == 3
    assert all(len(batch_id) <= 64 for batch_id in ids)


@requirement(2)
@known_fault("ids of the caller, and what they may be")
@pytest.mark.parametrize("batch_id", ["x" * 65, "a.b", "a b", ""])
def test_an_impossible_id_is_refused_before_anything_is_sent(batch_id: str) -> None:
    h = Harness()
    with pytest.raises(BadSubjectError):
        h.js.atomic_batch(batch_id=batch_id)
    assert h.sent() == []
    assert h.js.atomic_batch(batch_id="x" * 64).batch_id == "x" * 64


@pytest.mark.parametrize(
    "options",
    [
        {"max_messages": 0},
        {"max_messages": 2**64},
        {"ack_every": -1},
        {"ack_timeout": 0.0},
        {"ack_timeout": -1},
        {"required_api_level": -1},
    ],
)
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Batch(**options)


@requirement(3)
@known_fault("ack_first, ack_every and the timeout: shape and defaults")
def test_nothing_follows_the_first_message_before_it_is_answered() -> None:
    batch = Batch()
    batch.add()
    assert batch.atomic.waiting
    assert batch.atomic.phase is AtomicPhase.STARTING
    for verb in (batch.add, batch.commit, batch.commit_eob):
        with pytest.raises(LocalProtocolError, match="wait for ready"):
            verb()
    ready = batch.atomic.ready()
    assert batch.atomic.ready() is ready
    batch.say()
    assert ready.result() is None
    assert ready in batch.h.completed
    assert not batch.atomic.waiting
    assert (batch.atomic.phase, batch.atomic.sequence, batch.atomic.acked) == (AtomicPhase.OPEN, 1, 1)


def test_an_accepted_first_message_without_anybody_who_waits() -> None:
    batch = Batch()
    batch.add()
    batch.say()
    assert batch.atomic.add("e.a", now=batch.h.now) == 2


@requirement(4)
@known_fault("publishing is slow: a write, or a round trip, for each message")
def test_later_messages_repeat_the_id_and_count_up_without_asking() -> None:
    batch = opened()
    pubs = batch.add(3)
    assert [pub.header for pub in pubs] == [
        b"NATS/1.0\r\nNats-Batch-Id: b1\r\nNats-Batch-Sequence: %d\r\n\r\n" % n for n in (2, 3, 4)
    ]
    assert [pub.reply for pub in pubs] == [None] * 3
    assert headers_of(*batch.add(1, {"K": "v"})) == {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "5", "K": "v"}


@known_fault("ack_first, ack_every and the timeout: shape and defaults")
def test_without_ack_first_messages_flow_at_once() -> None:
    batch = Batch(ack_first=False)
    pubs = batch.add(3)
    assert [pub.reply for pub in pubs] == [None] * 3
    assert [headers_of(pub)["Nats-Batch-Sequence"] for pub in pubs] == ["1", "2", "3"]
    assert batch.atomic.phase is AtomicPhase.OPEN
    commit = batch.commit()
    batch.pub_ack(4, 14)
    assert commit.result().seq == 14


@requirement(5)
@known_fault("ack_first, ack_every and the timeout: shape and defaults")
def test_ack_every_asks_and_waits() -> None:
    batch = Batch(ack_every=3)
    batch.add()
    batch.say()
    assert [pub.reply is None for pub in batch.add(2)] == [True, False]
    assert batch.atomic.waiting
    with pytest.raises(LocalProtocolError, match="wait for ready"):
        batch.add()
    ready = batch.atomic.ready()
    batch.say()
    assert ready.done
    assert batch.atomic.acked == 3
    assert [pub.reply is None for pub in batch.add(3)] == [True, True, False]
    assert batch.atomic.acked == 3
    batch.say()
    assert batch.atomic.acked == 6
    assert batch.atomic.deadline() == batch.h.now + 10.0


@pytest.mark.parametrize("ack_first", [True, False])
def test_ack_every_message(ack_first: bool) -> None:
    batch = Batch(ack_every=1, ack_first=ack_first)
    for _ in range(3):
        (pub,) = batch.add()
        assert pub.reply is not None
        batch.say()
    assert batch.atomic.acked == 3


@requirement(12)
def test_the_required_level_is_on_every_message() -> None:
    for marker in (False, True):
        batch = Batch(required_api_level=4)
        pubs = batch.add()
        batch.say()
        pubs += batch.add(2)
        assert batch.atomic.add_many([("e.a", b"x")] * 3, batch.h.now) == 3
        if marker:
            batch.atomic.commit_eob(batch.h.now)
        else:
            batch.atomic.commit(batch.h.now, "e.a")
        pubs += batch.sent()
        assert [headers_of(pub)["Nats-Required-Api-Level"] for pub in pubs] == ["4"] * 7
    own = opened()
    assert headers_of(*own.add(1, {"Nats-Required-Api-Level": "3"}))["Nats-Required-Api-Level"] == "3"


def test_add_many_takes_what_is_possible() -> None:
    batch = Batch(ack_every=4)
    messages = [("e.a", b"%d" % n) for n in range(10)]
    assert batch.atomic.add_many([], batch.h.now) == 0
    assert batch.atomic.add_many(messages, batch.h.now) == 1
    assert batch.atomic.add_many(messages[1:], batch.h.now) == 0
    batch.say()
    assert batch.atomic.add_many(messages[1:], batch.h.now) == 3
    batch.say()
    assert batch.atomic.add_many([("e.b", b"4", {"K": "v"}), ("e.b", b"5", None)], batch.h.now) == 2
    assert [headers_of(pub).get("K") for pub in batch.sent()] == ["v", None]
    with pytest.raises(BadSubjectError):
        batch.atomic.add_many([("e.b", b"6"), ("e b", b"7"), ("e.b", b"8")], batch.h.now)
    assert batch.atomic.sequence == 7


def test_add_many_goes_on_behind_what_no_run_can_take() -> None:
    batch = opened()
    messages: list[Any] = [
        ("e.a", b"2"), ("e.a", b"3", {"K": "v"}), ("e.b", b"4"), ("e.b", b"5"), ("e.a", bytearray(b"6")),
        ("e.b", bytes(2_000)), ("e.a", b"8"),
    ]  # fmt: skip
    assert batch.atomic.add_many(messages, batch.h.now, 1, 6) == 5
    assert batch.atomic.add_many(messages, batch.h.now, 6) == 1
    pubs = batch.sent()
    assert [pub.payload for pub in pubs] == [b"3", b"4", b"5", b"6", bytes(2_000), b"8"]
    assert [headers_of(pub)["Nats-Batch-Sequence"] for pub in pubs] == ["2", "3", "4", "5", "6", "7"]
    for subject in ("e.a", "e.b"):
        refused(batch, {EXPECTED_SUBJECT: "1"}, f"has written {subject} already", subject)
    for bad in (None, ("e.a",), ("e.a", b"", None, 1), "ab"):
        with pytest.raises(LocalProtocolError, match="a message is"):
            batch.atomic.add_many([("e.a", b""), bad], batch.h.now)  # type: ignore[list-item]
    assert batch.atomic.sequence == 11


def test_add_many_without_a_quicker_way() -> None:
    h = Harness()

    class Plain:
        """An outbox of the least there must be."""

        def __getattr__(self, name: str) -> Any:
            return getattr(h.session, name)

    batch = Batch(h)
    batch.atomic = AtomicBatch(Plain(), inbox="_INBOX.x", batch_id="b%1", ack_first=False)
    assert batch.atomic.add_many([("e.a", b"1")] * 3, h.now) == 3
    plain = batch.sent()
    quick = Batch(Harness(), batch_id="b%1", ack_first=False)
    assert quick.atomic.add_many([("e.a", b"1")] * 3, h.now) == 3
    assert quick.sent() == plain
    batch.atomic.discard(h.now)
    assert not batch.subscribed


def test_a_silent_batch_takes_no_run() -> None:
    batch = opened()
    batch.h.now += 10.0
    with pytest.raises(BatchExpiredError):
        batch.atomic.add_many([("e.a", b"1")] * 3, batch.h.now)
    assert batch.sent() == []


# -- committing: rows 6, 7, 29, 30, 31 ---------------------------------------------------------------------------------


@requirement(6, 31)
@known_fault("revisions of several keys stored at once")
def test_a_commit_stores_its_message() -> None:
    batch = opened(3)
    commit = batch.atomic.commit(batch.h.now, "e.z", b"last", {"K": "v"})
    (pub,) = batch.sent()
    assert pub.reply is not None
    assert headers_of(pub) == {
        "Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "4", "Nats-Batch-Commit": "1", "K": "v"
    }  # fmt: skip
    assert (pub.subject, pub.payload) == (b"e.z", b"last")
    assert batch.atomic.phase is AtomicPhase.COMMITTING
    assert not batch.atomic.waiting
    assert batch.atomic.sequences == range(0)
    batch.pub_ack(4, 104)
    ack = commit.result()
    assert commit in batch.h.completed
    assert (ack.stream, ack.seq, ack.batch, ack.count) == ("S", 104, "b1", 4)
    assert list(ack.sequences) == list(batch.atomic.sequences) == [101, 102, 103, 104]
    assert (batch.atomic.acked, batch.atomic.sequence) == (4, 4)
    assert batch.ended(None, AtomicPhase.COMMITTED)


@requirement(6)
def test_one_message_commits_itself() -> None:
    batch = Batch()
    commit = batch.commit()
    batch.pub_ack(1, 9)
    assert commit.result().sequences == range(9, 10)


@requirement(7)
def test_a_commit_without_a_message() -> None:
    batch = opened(2)
    commit = batch.atomic.commit_eob(batch.h.now)
    (pub,) = batch.sent()
    assert headers_of(pub) == {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "eob"}
    assert (pub.subject, pub.payload) == (b"e.a", b"")
    assert batch.atomic.sequence == 2
    batch.pub_ack(2, 12)
    assert commit.result().count == 2
    assert list(batch.atomic.sequences) == [11, 12]
    assert batch.ended(None, AtomicPhase.COMMITTED)


def test_an_empty_batch_has_nothing_to_commit() -> None:
    batch = Batch()
    with pytest.raises(LocalProtocolError, match="nothing was added"):
        batch.commit_eob()
    assert batch.atomic.phase is AtomicPhase.IDLE
    assert batch.h.sent() == []


@requirement(30)
@known_fault("the id of an acknowledgement is not looked at")
def test_the_acknowledgement_of_another_batch_is_no_answer() -> None:
    batch = opened(3)
    commit = batch.commit()
    batch.pub_ack(4, 9, "other")
    assert not commit.done
    assert isinstance(batch.h.events()[0], UnexpectedMessage)
    batch.pub_ack(4, 10)
    assert commit.result().seq == 10


@requirement(30)
@pytest.mark.parametrize(
    ("count", "seq", "kind"),
    [
        (3, 9, BatchTruncatedError),
        (0, 0, BatchTruncatedError),
        (5, 9, RemoteProtocolError),
        (4, 3, RemoteProtocolError),
    ],
)
def test_the_count_is_verified(count: int, seq: int, kind: type[Error]) -> None:
    batch = opened(3)
    commit = batch.commit()
    batch.pub_ack(count, seq)
    assert isinstance(commit.error, kind)
    if isinstance(commit.error, BatchTruncatedError):
        assert commit.error.ack is not None
        assert (commit.error.batch_id, commit.error.sequence, commit.error.ack.count) == ("b1", 4, count)
    assert batch.atomic.sequences == range(0)
    assert batch.ended(commit.error)


def test_an_acknowledgement_without_a_count() -> None:
    batch = opened(3)
    commit = batch.commit_eob()
    batch.say({"stream": "S", "seq": 9, "batch": "b1"})
    assert not commit.done
    batch.pub_ack(3, 9)
    assert commit.result().count == 3


@requirement(39)
@promise("asking again (after a wait that was given up) gives the same answer")
@promise("After either commit it sends nothing")
@known_fault("a batch stays open after a commit, or a message, that failed")
def test_nothing_is_done_behind_a_commit() -> None:
    batch = opened(3)
    commit = batch.commit()
    many = [("e.a", b"x")] * 10
    verbs: list[Any] = [
        batch.add, lambda: batch.atomic.add_many(many, batch.h.now), batch.commit,
        lambda: batch.atomic.ready().result(),
    ]  # fmt: skip
    for verb in verbs:
        with pytest.raises(BatchClosedError, match="committing"):
            verb()
    assert (batch.sent(), batch.atomic.sequence) == ([], 4)
    batch.pub_ack(4, 4)
    assert commit.result().count == 4


@promise("asking again (after a wait that was given up) gives the same answer")
@promise("After either commit it sends nothing")
@pytest.mark.parametrize("how", ["commit", "commit_eob"])
def test_a_commit_can_be_asked_for_again(how: str) -> None:
    """Who gave up waiting still gets the acknowledgement, and nothing is sent twice."""
    batch = opened(3)
    commit: Ticket[PubAck] = getattr(batch, how)()
    assert batch.atomic.ack is None
    assert batch.atomic.commit_eob(batch.h.now) is commit
    count = batch.atomic.sequence
    batch.pub_ack(count, 10)
    again = batch.atomic.commit_eob(batch.h.now)
    assert again.result() is commit.result() is batch.atomic.ack
    assert batch.h.published() == []


def test_a_refused_commit_is_not_asked_for_again_but_made_again() -> None:
    batch = opened(2)
    refused = batch.commit()
    batch.error(*TOO_LARGE)
    assert isinstance(refused.error, BatchMessageError)
    commit = batch.atomic.commit_eob(batch.h.now)
    (pub,) = batch.sent()
    assert headers_of(pub)["Nats-Batch-Commit"] == "eob"
    batch.pub_ack(2, 2)
    assert commit.result().count == 2


# -- errors of the server: rows 13 to 20 -------------------------------------------------------------------------------


@requirement(13, 14, 15, 16, 17, 18, 19, 20)
@promise("APIError: the server refuses the batch, and nothing is stored.")
@known_fault("a batch stays open after a commit, or a message, that failed")
@known_fault("a server's error at the commit shows as a wrong count")
@known_fault('the server\'s text is lost in "invalid ack"')
@pytest.mark.parametrize(
    ("code", "err_code", "text", "kind"),
    [
        (400, 10174, "atomic publish is disabled", api_errors.AtomicPublishDisabledError),
        (400, 10175, "atomic publish sequence is missing", api_errors.AtomicPublishMissingSeqError),
        (400, 10176, "atomic publish batch is incomplete", api_errors.AtomicPublishIncompleteBatchError),
        (400, 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id",
         api_errors.AtomicPublishUnsupportedHeaderBatchError),
        (400, 10179, "atomic publish batch ID is invalid", api_errors.AtomicPublishInvalidBatchIDError),
        (400, 10198, "stream mirrors can not also use atomic publishing", api_errors.MirrorWithAtomicPublishError),
        (400, 10199, "atomic publish batch is too large: 1000", api_errors.AtomicPublishTooLargeBatchError),
        (400, 10200, "atomic publish batch commit is invalid", api_errors.AtomicPublishInvalidBatchCommitError),
        (400, 10201, "atomic publish batch contains duplicate message id",
         api_errors.AtomicPublishContainsDuplicateMessageError),
        (429, 10210, "atomic publish too many inflight", api_errors.AtomicPublishTooManyInflightError),
        (400, 10071, "wrong last sequence: 3", api_errors.StreamWrongLastSequenceError),
        (400, 10164, "wrong last sequence", api_errors.StreamWrongLastSequenceConstantError),
        (412, 10185, "JetStream minimum api level required", api_errors.APIRequiredApiLevelError),
        (400, 19999, "something new", APIError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["first", "later", "commit"])
def test_every_code_is_a_typed_error(code: int, err_code: int, text: str, kind: type[APIError], where: str) -> None:
    batch = Batch(ack_every=2) if where == "first" else opened(ack_every=2)
    ticket: Ticket[Any]
    if where == "commit":
        ticket = batch.commit()
    else:
        batch.add()
        ticket = batch.atomic.ready()
    batch.error(code, err_code, text)
    error = ticket.error
    assert type(error) is kind
    assert (error.code, error.err_code, error.description) == (code, err_code, text)
    assert batch.ended(error)


@requirement(17, 18)
@known_fault('the server\'s text is lost in "invalid ack"')
@known_fault("the guard of 1000 messages, and how the true limit becomes known")
def test_what_a_text_holds_is_kept() -> None:
    batch = opened(3)
    commit = batch.commit()
    batch.error(400, 10199, "atomic publish batch is too large: 250")
    assert isinstance(commit.error, APIError)
    assert commit.error.details == {"size": "250"}
    header = APIError.from_fields(400, 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id")
    assert header.details == {"header": "Nats-Expected-Last-Msg-Id"}


def test_an_error_without_anybody_who_waits_is_told_by_the_next_verb() -> None:
    batch = Batch()
    batch.add()
    batch.error(400, 10174, "atomic publish is disabled")
    with pytest.raises(api_errors.AtomicPublishDisabledError):
        batch.add()
    with pytest.raises(api_errors.AtomicPublishDisabledError):
        batch.atomic.add_many([("e.a", b"")], batch.h.now)


def test_a_status_without_a_text_is_no_success() -> None:
    batch = Batch()
    batch.add()
    ready = batch.atomic.ready()
    batch.say(b"", b"NATS/1.0 429 Too Many Requests\r\n\r\n")
    assert isinstance(ready.error, StatusError)
    assert ready.error.code == 429


def test_headers_without_a_status_change_nothing() -> None:
    batch = Batch()
    batch.add()
    batch.say(b"", b"NATS/1.0\r\nK: v\r\n\r\n")
    assert batch.atomic.phase is AtomicPhase.OPEN


@known_fault("503 on the inbox of a batch is dropped")
@pytest.mark.parametrize(("jetstream", "kind"), [(True, NoStreamResponseError), (False, JetStreamNotAvailableError)])
def test_nobody_takes_the_first_message(jetstream: bool, kind: type[Error]) -> None:
    batch = Batch(Harness(info={"jetstream": jetstream}))
    batch.add()
    ready = batch.atomic.ready()
    batch.say(b"", NOBODY)
    assert type(ready.error) is kind
    assert batch.ended(ready.error)


# -- a message that did not reach the batch ----------------------------------------------------------------------------


def refusal(batch: Batch, how: str) -> type[Error]:
    if how == "nobody":
        batch.say(b"", NOBODY)
        return NoStreamResponseError
    batch.error(*TOO_LARGE)
    return api_errors.StreamMessageExceedsMaximumError


@known_fault("a message that was not sent spends no sequence")
@pytest.mark.parametrize("how", ["nobody", "too large"])
def test_a_later_message_that_is_not_taken_gives_its_sequence_back(how: str) -> None:
    batch = opened(ack_every=2)
    batch.h.advance(3.0)
    headers = {EXPECTED_SUBJECT: "4", "Nats-Msg-Id": "m"}
    batch.add(1, headers, "e.b")
    ready = batch.atomic.ready()
    cause = refusal(batch, how)
    assert isinstance(ready.error, BatchMessageError)
    assert isinstance(ready.error.__cause__, cause)
    assert (ready.error.message_sequence, ready.error.sequence, ready.error.acked) == (2, 1, 1)
    assert "is open" in str(ready.error)
    assert (batch.atomic.error, batch.atomic.phase, batch.atomic.sequence) == (None, AtomicPhase.OPEN, 1)
    assert batch.atomic.deadline() == batch.h.now + 7.0  # the server's clock runs since the first message
    (pub,) = batch.add(1, headers, "e.b")  # as if it had never been tried
    assert headers_of(pub)["Nats-Batch-Sequence"] == "2"
    batch.say()
    with pytest.raises(LocalProtocolError, match="already"):
        batch.add(1, {"Nats-Msg-Id": "m"})


def test_a_late_second_answer_to_a_refused_message_means_nothing() -> None:
    batch = opened(ack_every=2)
    batch.add()
    refused = batch.reply
    refusal(batch, "too large")
    batch.add()
    assert refused is not None
    assert batch.reply != refused
    batch.h.deliver(refused, b"")
    assert batch.atomic.waiting
    assert isinstance(batch.h.events()[-1], UnexpectedMessage)


@pytest.mark.parametrize("how", ["nobody", "too large"])
def test_a_commit_that_is_not_taken_leaves_the_batch_open(how: str) -> None:
    batch = opened(2)
    commit = batch.commit({"Nats-Msg-Id": "m"})
    cause = refusal(batch, how)
    assert isinstance(commit.error, BatchMessageError)
    assert isinstance(commit.error.__cause__, cause)
    assert commit.error.message_sequence == 3
    assert (batch.atomic.error, batch.atomic.phase, batch.atomic.sequence) == (None, AtomicPhase.OPEN, 2)
    assert batch.atomic.deadline() == batch.h.now + 10.0
    batch.add(1, {"Nats-Msg-Id": "m"})
    again = batch.commit_eob()
    refusal(batch, how)
    assert isinstance(again.error, BatchMessageError)
    assert (again.error.message_sequence, batch.atomic.sequence) == (4, 3)
    last = batch.commit()
    batch.pub_ack(4, 4)
    assert last.result().count == 4


@requirement(3, 10)
@known_fault("a failed first message leaves the batch open")
def test_a_refused_first_message_ends_the_batch() -> None:
    batch = Batch()
    batch.add()
    batch.error(*TOO_LARGE)
    assert isinstance(batch.atomic.error, api_errors.StreamMessageExceedsMaximumError)
    assert batch.ended(batch.atomic.error)
    alone = Batch()
    commit = alone.commit()
    alone.error(*TOO_LARGE)
    assert alone.ended(commit.error)


# -- what is refused before the server sees it: rows 25, 26, 36, 37, 38 ------------------------------------------------


def refused(batch: Batch, headers: dict[str, str], match: str, subject: str = "e.a") -> None:
    before = batch.atomic.sequence
    for verb in (
        lambda: batch.atomic.add(subject, b"", headers, now=batch.h.now),
        lambda: batch.atomic.commit(batch.h.now, subject, b"", headers),
    ):
        with pytest.raises(LocalProtocolError, match=match):
            verb()
    assert batch.atomic.sequence == before
    assert batch.sent() == []


@pytest.mark.parametrize("name", ["Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"])
def test_the_headers_of_the_batch_are_its_own(name: str) -> None:
    refused(Batch(), {name: "1"}, name)
    refused(opened(), {name: "1"}, name)


@requirement(37)
def test_expected_last_msg_id_is_refused() -> None:
    refused(Batch(), {"Nats-Expected-Last-Msg-Id": "m"}, "Nats-Expected-Last-Msg-Id is not supported")
    refused(opened(), {"Nats-Expected-Last-Msg-Id": "m"}, "Nats-Expected-Last-Msg-Id is not supported")


@requirement(25)
@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:AtomicBatch")
@promise("Raises, with nothing sent and no sequence spent:")
def test_expected_last_sequence_is_only_for_the_first_message() -> None:
    batch = Batch()
    assert headers_of(*batch.add(1, {EXPECTED: "0"}))[EXPECTED] == "0"
    batch.say()
    refused(batch, {EXPECTED: "1"}, "only the first message")
    alone = Batch()
    alone.commit({EXPECTED: "0"})


@requirement(26)
def test_expected_last_subject_sequence_is_not_for_a_subject_that_the_batch_has_written() -> None:
    batch = Batch()
    batch.add(1, {EXPECTED_SUBJECT: "0"})
    batch.say()
    refused(batch, {EXPECTED_SUBJECT: "1"}, "has written e.a already")
    batch.add(1, {EXPECTED_SUBJECT: "7"}, "e.b")
    refused(batch, {EXPECTED_SUBJECT: "7"}, "has written e.b already", "e.b")
    batch.add(1, {EXPECTED_SUBJECT: "7", f"{EXPECTED_SUBJECT}-Subject": "e.d"}, "e.a")
    refused(batch, {EXPECTED_SUBJECT: "7", f"{EXPECTED_SUBJECT}-Subject": "e.b"}, "has written e.b", "e.d")
    batch.add(1, {EXPECTED_SUBJECT: "0"}, "e.d")
    assert batch.atomic.sequence == 4


@requirement(38)
@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:AtomicBatch")
@promise("Raises, with nothing sent and no sequence spent:")
def test_a_message_id_occurs_once() -> None:
    batch = Batch()
    batch.add(1, {"Nats-Msg-Id": "1"})
    batch.say()
    refused(batch, {"Nats-Msg-Id": "1"}, "'1' is in the batch already")
    batch.add(1, {"Nats-Msg-Id": "2"})
    refused(batch, {"Nats-Msg-Id": "2"}, "'2' is in the batch already")
    batch.commit({"Nats-Msg-Id": "3"})


@requirement(36)
@promise("Atomic batches have at most 1,000 messages (`BatchFullError`)")
def test_the_batch_has_a_size_and_the_marker_is_not_counted() -> None:
    batch = opened(3, max_messages=3)
    with pytest.raises(BatchFullError, match="at most 3") as caught:
        batch.add()
    assert caught.value.limit == 3
    with pytest.raises(BatchFullError):
        batch.commit()
    assert batch.atomic.error is None
    commit = batch.commit_eob()
    batch.pub_ack(3, 3)
    assert commit.result().count == 3


def test_the_last_message_may_commit() -> None:
    batch = opened(2, max_messages=3)
    commit = batch.commit()
    batch.pub_ack(3, 3)
    assert commit.result().count == 3
    alone = Batch(max_messages=1)
    alone.commit()


@requirement(36)
@pytest.mark.parametrize("version", ["2.12.8", "2.14.0", "2.14.2"])
def test_where_the_marker_is_counted_or_unknown_the_last_message_must_commit(version: str) -> None:
    batch = Batch(Harness(info={"version": version}), max_messages=3)
    batch.add()
    batch.say()
    batch.add()
    with pytest.raises(BatchFullError, match="let the last message commit"):
        batch.add()
    commit = batch.commit()
    batch.pub_ack(3, 3)
    assert commit.result().count == 3


@known_fault("the guard of 1000 messages, and how the true limit becomes known")
def test_the_default_size_is_that_of_servers() -> None:
    batch = opened(1_000)
    with pytest.raises(BatchFullError, match="1000"):
        batch.add()


@requirement(36)
@known_fault("1000 messages are written in stone")
@known_fault("the guard of 1000 messages, and how the true limit becomes known")
def test_the_size_guard_can_be_raised_or_switched_off() -> None:
    assert opened(1_001, max_messages=1_001).atomic.sequence == 1_001
    batch = opened(1_500, max_messages=None)
    batch.commit()
    assert batch.atomic.sequence == 1_501


@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:AtomicBatch")
@promise("Raises, with nothing sent and no sequence spent:")
@known_fault("a message that was not sent spends no sequence")
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("subject", "payload", "headers", "kind"),
    [
        ("e a", b"", None, BadSubjectError),
        ("e.*", b"", None, BadSubjectError),
        ("e.a", b"", {"K": "a\r\nb"}, BadHeaderError),
        ("e.a", bytes(1048576), None, MaxPayloadError),
    ],
)
def test_what_cannot_be_sent_spends_no_sequence(
    started: bool, subject: str, payload: bytes, headers: Any, kind: type[Error]
) -> None:
    batch = opened() if started else Batch()
    before = batch.atomic.sequence
    with pytest.raises(kind):
        batch.atomic.add(subject, payload, headers, now=batch.h.now)
    with pytest.raises(kind):
        batch.atomic.commit(batch.h.now, subject, payload, headers)
    assert batch.sent() == []
    assert batch.atomic.sequence == before
    batch.add()
    assert batch.atomic.sequence == before + 1


@promise("nothing sent and no sequence spent:", of="jsproto_io.sync:AtomicBatch")
@promise("Raises, with nothing sent and no sequence spent:")
def test_a_full_outbox_spends_no_sequence() -> None:
    batch = opened(harness=Harness(pending_size=4_000))
    taken = batch.atomic.add_many([("e.a", bytes(500))] * 100, batch.h.now)
    assert 1 < taken < 20
    with pytest.raises(OutboundBufferLimitError):
        batch.atomic.add_many([("e.a", bytes(500))], batch.h.now)
    assert batch.atomic.sequence == 1 + taken
    assert len(batch.sent()) == taken
    assert batch.atomic.add_many([("e.a", bytes(500))], batch.h.now) == 1


# -- old servers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.10.0", "2.11.11"])
def test_a_server_before_atomic_batches_is_told_by_name_and_nothing_is_sent(version: str) -> None:
    batch = Batch(Harness(info={"version": version}))
    for verb in (batch.add, batch.commit, batch.commit_eob):
        with pytest.raises(UnsupportedByServerError, match=r"2\.12") as caught:
            verb()
        assert (caught.value.needed, caught.value.found) == ("2.12", version)
    assert batch.sent() == []
    assert batch.atomic.phase is AtomicPhase.IDLE


@requirement(10)
@pytest.mark.parametrize("version", ["", "weird"])
def test_a_plain_acknowledgement_of_the_first_message_says_that_it_was_stored(version: str) -> None:
    """2.11 stores every member as a plain message; behind another server's INFO only the answer tells."""
    batch = Batch(Harness(info={"version": version}))
    batch.add()
    ready = batch.atomic.ready()
    batch.say(b'{"stream":"AB", "seq":1}')
    assert isinstance(ready.error, UnsupportedByServerError)
    assert "stored as plain ones, up to sequence 1 of stream AB" in str(ready.error)
    assert batch.ended(ready.error)


def test_a_plain_acknowledgement_of_a_commit_is_no_success() -> None:
    batch = Batch(Harness(info={"version": ""}), ack_first=False)
    batch.add(3)
    commit = batch.commit()
    batch.say(b'{"stream":"AB", "seq":4}')
    assert isinstance(commit.error, UnsupportedByServerError)
    assert batch.ended(commit.error)


@pytest.mark.parametrize("version", ["2.12.0", "2.12.8"])
def test_a_server_that_cannot_commit_without_a_message_leaves_the_batch_as_it_was(version: str) -> None:
    batch = Batch(Harness(info={"version": version}))
    batch.add()
    batch.say()
    with pytest.raises(UnsupportedByServerError, match=r"2\.14") as caught:
        batch.commit_eob()
    assert caught.value.needed == "2.14"
    commit = batch.commit()
    batch.pub_ack(2, 2)
    assert commit.result().count == 2


def test_a_marker_that_is_refused_names_the_version() -> None:
    batch = opened(2)
    commit = batch.commit_eob()
    batch.error(400, 10200, "atomic publish batch commit is invalid")
    assert isinstance(commit.error, UnsupportedByServerError)
    assert isinstance(commit.error.__cause__, api_errors.AtomicPublishInvalidBatchCommitError)
    assert commit.error.needed == "2.14"
    assert batch.ended(commit.error)


def test_a_marker_that_is_stored_names_the_version() -> None:
    """2.12.0 takes any commit value and stores the marker."""
    batch = opened(2)
    commit = batch.commit_eob()
    batch.pub_ack(3, 9)
    assert isinstance(commit.error, UnsupportedByServerError)
    assert "stored as a message, 9" in str(commit.error)
    assert batch.ended(commit.error)


@requirement(38)
def test_message_ids_need_2_12_1() -> None:
    batch = Batch(Harness(info={"version": "2.12.0"}))
    with pytest.raises(UnsupportedByServerError, match=r"2\.12\.1"):
        batch.add(1, {"Nats-Msg-Id": "m"})
    batch.add()
    assert Batch(Harness(info={"version": "2.12.1"})).add(1, {"Nats-Msg-Id": "m"})
