"""Transactions against a scripted server: what is sent, and what each answer, or its loss, comes to."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Final

import pytest

from jsproto.api_errors import StreamWrongLastSequenceError
from jsproto.client.bucket.bucket import Bucket
from jsproto.client.bucket.commit import PATIENCE
from jsproto.client.bucket.manage import space_of
from jsproto.client.bucket.transaction import Transaction
from jsproto.client.connection.pause import Pause
from jsproto.client.jetstream import JetStream
from jsproto.errors import (
    APIError,
    BatchLostError,
    ConnectionClosedError,
    Error,
    NoStreamResponseError,
    PermissionsViolationError,
    TransactionConflictError,
    TransactionsDisabledError,
    TransactionTooLargeError,
    TransactionUnknownError,
    UnsupportedByServerError,
)
from jsproto.grammar.bucket_config import BucketConfig
from jsproto.grammar.headers import Headers, encode_headers
from jsproto.rules.transaction import TransactionPhase
from jsproto.ticket import Ticket
from jsproto.wire.frames import Pub
from tests.harness import Harness

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
OTHER: Final = f"{EXPECTED}-Subject"
NO_RESPONDERS: Final = b"NATS/1.0 503\r\n\r\n"


def refused(err_code: int, text: str = "no", code: int = 400) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": err_code, "description": text}, "stream": "KV_B", "seq": 0}


WRONG: Final = refused(10071, "wrong last sequence: 9")
KNOWN: Final = refused(10201)
ABSENT: Final = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}


class Side:
    """A client with a bucket, and what it publishes to it."""

    def __init__(self, *, info: dict[str, Any] | None = None, timeout: float = 5.0, **options: Any) -> None:
        self.h = Harness(info=info, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
        config = BucketConfig.of("B", **options)
        self.bucket = Bucket(self.h.js, space_of(config, "$JS.API"), config)
        self.timeout = timeout
        self.sent: list[list[Pub]] = []

    def begin(self, isolation: Any = "snapshot") -> Transaction:
        return self.bucket.transaction(isolation, timeout=self.timeout)

    def written(self) -> list[Pub]:
        """The messages of one try."""
        pubs = [pub for pub in self.h.published() if pub.subject.startswith(b"$KV.B.")]
        self.sent.append(pubs)
        return pubs

    def answer(self, answer: dict[str, Any] | bytes | None) -> list[Pub]:
        """Answer the next try. None: by an acknowledgement of what it has, up to sequence 20."""
        pubs = self.written()
        reply, block = pubs[-1].reply, pubs[-1].header
        assert reply is not None
        assert block is not None
        if answer is None:
            batch = Headers.parse(block).get("Nats-Batch-Id")
            of_batch = {} if batch is None else {"batch": batch, "count": len(pubs)}
            answer = {"stream": "KV_B", "seq": 20, **of_batch}
        if isinstance(answer, bytes):
            self.h.deliver(reply, b"", answer)
        else:
            self.h.deliver(reply, json.dumps(answer).encode())
        return pubs

    def found(self, *answers: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer the leader's questions about messages, one after the other. Returns what they asked."""
        asked = []
        for answer in answers:
            (pub,) = self.h.answer(lambda pub, answer=answer: answer)  # type: ignore[misc]
            assert pub.subject == b"$JS.API.STREAM.MSG.GET.KV_B"
            asked.append(json.loads(pub.payload))
        return asked

    def guarded(self, *guards: str) -> tuple[Transaction, Ticket[dict[str, int]]]:
        """A transaction that writes ``a`` without a look, and is committed with these guards of revision 7."""
        tx = self.begin()
        for key in guards:
            tx.guard(key, 7, now=self.h.now).result()
        tx.put("a", b"new")
        return tx, tx.commit(now=self.h.now)

    def keep_silent(self) -> None:
        """Nobody answers the look for the keys of a conflict."""
        (pub,) = [pub for pub in self.h.published() if pub.subject == b"$JS.API.DIRECT.GET.KV_B"]
        assert pub.reply is not None
        self.h.deliver(pub.reply, b"", b"NATS/1.0 408 Bad Request\r\n\r\n")

    def wait(self) -> None:
        """Let time pass until the messages are sent again."""
        assert self.written() == []
        while not (pubs := self.written()):
            self.h.advance(0.05)
        self.h.frames += pubs

    def lose(self) -> None:
        """The link breaks, and another one is there at once."""
        self.h.lose()
        self.h.advance(0.2)
        self.h.connect()

    def committing(self, *keys: str) -> tuple[Transaction, Ticket[dict[str, int]]]:
        """A transaction that knows ``keys`` at revision 5 each, and is committing them."""
        tx = self.begin()
        for key in keys:
            tx.guard(key, 5, now=self.h.now).result()
            tx.put(key, b"new")
        return tx, tx.commit(now=self.h.now)


def stored(seq: int, **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = {"subject": "$KV.B.a", "seq": seq, "time": "2026-11-20T20:36:46Z", "data": ""}
    return {"message": message | ({"hdrs": b64encode(encode_headers(named)).decode()} if named else {})}


def headers_of(pub: Pub) -> dict[str, str]:
    assert pub.header is not None
    return dict(Headers.parse(pub.header).items())


def failure(ticket: Ticket[Any], kind: type[Error]) -> Any:
    with pytest.raises(kind) as raised:
        ticket.result()
    return raised.value


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_several_messages_are_one_batch_without_a_wait() -> None:
    side = Side()
    tx, ticket = side.committing("a", "b")
    first, second = side.answer(None)
    assert [pub.reply is None for pub in (first, second)] == [True, False]
    one, two = headers_of(first), headers_of(second)
    batch, msg_id = one.pop("Nats-Batch-Id"), one.pop("Nats-Msg-Id")
    assert batch == f"{msg_id}-1"
    assert one == {"Nats-Batch-Sequence": "1", EXPECTED: "5"}
    assert two == {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1", EXPECTED: "5"}
    assert ticket.result() == tx.revisions == {"a": 19, "b": 20}
    assert tx.phase is TransactionPhase.COMMITTED


def test_one_message_is_a_plain_publish() -> None:
    side = Side()
    _, ticket = side.committing("a")
    (pub,) = side.answer(None)
    assert sorted(headers_of(pub)) == [EXPECTED, "Nats-Msg-Id"]
    assert ticket.result() == {"a": 20}


def test_one_message_may_check_another_key() -> None:
    side = Side()
    _, ticket = side.guarded("lock")
    (pub,) = side.answer(None)
    headers = headers_of(pub)
    assert (headers[EXPECTED], headers[OTHER]) == ("7", "$KV.B.lock")
    assert ticket.result() == {"a": 20}


@pytest.mark.parametrize("keys", [("a",), ("a", "b")])
def test_the_time_of_an_answer_counts_from_the_commit(keys: tuple[str, ...]) -> None:
    """Not from what was received last, which may be long ago."""
    side = Side()
    side.h.now += 60.0
    tx, _ = side.committing(*keys)
    phases = []
    for seconds in (side.timeout - 0.1, 0.2):
        side.h.advance(seconds)
        phases.append(tx.phase)
    assert phases == [TransactionPhase.COMMITTING, TransactionPhase.DECIDING]


def test_what_is_only_checked_has_markers_of_a_reserved_key() -> None:
    side = Side()
    tx = side.begin()
    for key in ("a", "x", "y"):
        tx.guard(key, 5, now=side.h.now)
    tx.purge("a", ttl=60)
    tx.commit(now=side.h.now)
    purge, *markers = side.answer(None)
    headers = headers_of(purge)
    assert (headers["KV-Operation"], headers["Nats-Rollup"], headers["Nats-TTL"]) == ("PURGE", "sub", "60")
    assert [(pub.subject, pub.payload) for pub in markers] == [(b"$KV.B._kv.guard", b"")] * 2
    assert sorted((headers_of(pub)[EXPECTED], headers_of(pub)[OTHER]) for pub in markers) == [
        ("5", "$KV.B.x"), ("5", "$KV.B.y"),
    ]  # fmt: skip
    assert tx.revisions == {"a": 18}


def test_another_domain_has_its_prefix_before_targets_alone() -> None:
    side = Side()
    js = JetStream(side.h.session, domain="hub")
    bucket = Bucket(js, space_of(side.bucket.config, js.api.prefix), side.bucket.config)
    tx = bucket.transaction()
    for key in ("a", "x"):
        tx.guard(key, 5, now=side.h.now)
    tx.put("a", b"")
    tx.commit(now=side.h.now)
    write, marker = [pub for pub in side.h.published() if b"$KV" in pub.subject]
    assert (write.subject, marker.subject) == (b"$JS.hub.API.$KV.B.a", b"$JS.hub.API.$KV.B._kv.guard")
    assert headers_of(marker)[OTHER] == "$KV.B.x"


def test_a_full_buffer_is_waited_for() -> None:
    side = Side()
    tx = side.begin()
    for number in range(6):
        tx.guard(f"k.{number}", 5, now=side.h.now)
        tx.put(f"k.{number}", b"x" * 400_000)
    ticket = tx.commit(now=side.h.now)
    assert side.h.session.congested
    first, rest = side.written(), side.answer(None)
    assert len(first) + len(rest) == 6
    assert not ticket.done  # the acknowledgement is of too few: it is asked for again


@pytest.mark.parametrize(
    ("version", "guards", "needed"),
    [
        ("2.11.9", 1, "2.12.1"),
        ("2.12.0", 1, "2.12.1"),
        ("2.14.3", 2, "2.14.4"),
        ("2.14.3", 1, None),
        ("2.14.4", 2, None),
    ],
)
def test_what_old_servers_do_wrongly_is_not_sent(version: str, guards: int, needed: str | None) -> None:
    side = Side(info={"version": version})
    tx = side.begin()
    for key in ("a", "x", "y")[: 1 + guards]:
        tx.guard(key, 5, now=side.h.now)
    tx.put("a", b"")
    ticket = tx.commit(now=side.h.now)
    if needed is None:
        assert len(side.written()) == 1 + guards
    else:
        assert failure(ticket, UnsupportedByServerError).needed == needed
        assert side.written() == []
        assert tx.phase is TransactionPhase.FAILED
        failure_again = failure(ticket, UnsupportedByServerError)
        with pytest.raises(UnsupportedByServerError):
            tx.commit(now=side.h.now)
        assert tx.error is failure_again


def test_an_older_server_has_no_reads_for_it() -> None:
    side = Side(info={"version": "2.10.29"})
    with pytest.raises(UnsupportedByServerError):
        side.begin()


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refused(10174), TransactionsDisabledError),
        (refused(10199, "atomic publish batch is too large: 10"), TransactionTooLargeError),
        (refused(10054, "message size exceeds maximum allowed"), TransactionTooLargeError),
        (refused(10177, "atomic publish unsupported header used: Nats-Msg-Id"), UnsupportedByServerError),
        (refused(10077, "maximum bytes exceeded", 503), APIError),
    ],
)
def test_refusals(answer: dict[str, Any], kind: type[Error]) -> None:
    side = Side()
    tx, ticket = side.committing("a", "b")
    side.answer(answer)
    error = failure(ticket, kind)
    assert tx.error is error
    assert tx.phase is TransactionPhase.FAILED
    side.h.advance(PATIENCE)
    assert side.written() == []


@pytest.mark.parametrize("keys", [("a",), ("a", "b")])
@pytest.mark.parametrize(
    "answer",
    [refused(10158, code=409), refused(10210, code=429), refused(10176), refused(10008, code=503), NO_RESPONDERS],
)
def test_what_passes_is_tried_again_after_a_pause(answer: dict[str, Any] | bytes, keys: tuple[str, ...]) -> None:
    side = Side()
    _, ticket = side.committing(*keys)
    for _ in range(3):
        side.answer(answer)
        side.wait()
    side.answer(None)
    assert len(ticket.result()) == len(keys)


def test_where_nobody_leads_it_ends_in_time() -> None:
    side = Side(timeout=2.0)
    tx, ticket = side.committing("a", "b")
    began, tries = side.h.now, 0
    while tx.phase is not TransactionPhase.FAILED:
        pubs = side.written()
        if pubs:
            tries += 1
            side.h.frames += pubs
            side.answer(NO_RESPONDERS)
        else:
            side.h.advance(0.01)
    assert side.h.now - began <= 2.0
    assert 4 <= tries <= 7
    side.h.advance(2.0)  # nobody tells whether there is a bucket
    failure(ticket, NoStreamResponseError)


def test_a_conflict_whose_keys_nobody_names() -> None:
    side = Side()
    tx, ticket = side.committing("a", "b")
    side.answer(WRONG)
    side.keep_silent()
    error = failure(ticket, TransactionConflictError)
    assert (error.keys, error.revision, tx.phase) == ((), 9, TransactionPhase.CONFLICT)
    assert isinstance(error.__cause__, StreamWrongLastSequenceError)


def test_a_conflict_whose_lock_nobody_looks_up() -> None:
    side = Side()
    lock = side.bucket.lock("job", ttl=10)
    lock.acquire(now=side.h.now)
    side.answer({"stream": "KV_B", "seq": 5})
    tx = side.begin()
    tx.guard_lock(lock)
    tx.put("a", b"")
    ticket = tx.commit(now=side.h.now)
    (pub,) = side.answer(WRONG)
    assert (headers_of(pub)[EXPECTED], headers_of(pub)[OTHER]) == ("5", "$KV.B.job")
    side.found(refused(10008, code=503))
    side.keep_silent()
    failure(ticket, TransactionConflictError)
    assert lock.is_held(side.h.now)


def test_a_forbidden_message_is_no_doubt() -> None:
    side = Side()
    tx, ticket = side.committing("a", "b")
    side.written()
    side.h.feed(b"-ERR 'Permissions Violation for Publish to \"$KV.B.a\"'\r\n")
    failure(ticket, PermissionsViolationError)
    assert tx.phase is TransactionPhase.FAILED


def test_a_forbidden_inbox_is_doubt() -> None:
    side = Side()
    tx, _ = side.committing("a", "b")
    side.written()
    (pattern,) = [pattern.decode() for pattern in side.h.subs.values()]
    side.h.feed(b"-ERR 'Permissions Violation for Subscription to \"%b\"'\r\n" % pattern.encode())
    assert tx.phase is TransactionPhase.DECIDING


def test_an_answer_that_is_none_is_doubt() -> None:
    side = Side()
    tx, ticket = side.committing("a")
    side.answer({"seq": "x"})
    assert tx.phase is TransactionPhase.DECIDING
    side.h.advance(1.0)
    side.answer(None)
    assert ticket.result() == {"a": 20}


# -- lost answers ------------------------------------------------------------------------------------------------------


def lost(keys: tuple[str, ...] = ("a", "b"), **options: Any) -> tuple[Side, Transaction, Ticket[dict[str, int]]]:
    """A transaction whose answer is lost with the link, and that was sent again."""
    side = Side(**options)
    tx, ticket = side.committing(*keys)
    side.written()
    side.lose()
    assert tx.phase is TransactionPhase.DECIDING
    side.h.advance(1.0)
    return side, tx, ticket


def test_the_same_messages_are_sent_again_as_a_new_batch() -> None:
    side, _, ticket = lost()
    side.answer(None)
    (before, after) = ([headers_of(pub) for pub in pubs] for pubs in side.sent)
    msg_id = before[0]["Nats-Msg-Id"]
    assert {each.pop("Nats-Batch-Id") for each in before} == {f"{msg_id}-1"}
    (again,) = {each.pop("Nats-Batch-Id") for each in after}
    assert again.startswith(f"{msg_id}-")
    assert again != f"{msg_id}-1"
    assert before == after
    assert ticket.result() == {"a": 19, "b": 20}


def test_silence_is_a_lost_answer_too() -> None:
    side = Side(timeout=1.0)
    _, ticket = side.committing("a", "b")
    side.written()
    side.h.advance(1.2)
    side.answer(None)
    assert ticket.result() == {"a": 19, "b": 20}


def test_one_message_is_sent_again_as_a_batch_which_looks_for_its_id_first() -> None:
    side, _, ticket = lost(("a",))
    (pub,) = side.answer(None)
    assert headers_of(pub)["Nats-Batch-Commit"] == "1"
    assert ticket.result() == {"a": 20}


def test_where_batches_are_off_it_is_sent_as_it_was() -> None:
    side, tx, ticket = lost(("a",), atomic=False)
    (pub,) = side.answer(WRONG)
    assert sorted(headers_of(pub)) == [EXPECTED, "Nats-Msg-Id"]
    side.found(stored(9))
    assert failure(ticket, TransactionUnknownError).applied is None
    assert tx.phase is TransactionPhase.UNKNOWN


def test_a_known_id_was_stored_and_its_messages_tell_the_revisions() -> None:
    side, _, ticket = lost()
    msg_id = headers_of(side.sent[0][0])["Nats-Msg-Id"]
    side.answer(KNOWN)
    asked = side.found(stored(9), stored(7, Nats_Batch_Id=f"{msg_id}-1", Nats_Batch_Sequence="2"))
    assert asked == [
        {"seq": 6, "next_by_subj": "$KV.B.a"}, {"seq": 6, "next_by_subj": "$KV.B.b"},
    ]  # fmt: skip
    assert ticket.result() == {"a": 6, "b": 7}


def test_one_message_is_known_by_its_id() -> None:
    side, _, ticket = lost(("a",))
    side.answer(WRONG)
    side.found(stored(9, Nats_Msg_Id=headers_of(side.sent[0][0])["Nats-Msg-Id"]))
    assert ticket.result() == {"a": 9}


def test_a_known_id_of_which_nothing_is_left() -> None:
    side, tx, ticket = lost()
    side.answer(KNOWN)
    side.found(stored(9), stored(8, Nats_Batch_Id="another-1", Nats_Batch_Sequence="2"))
    error = failure(ticket, TransactionUnknownError)
    assert error.applied is True
    assert isinstance(error.__cause__, BatchLostError)
    assert tx.phase is TransactionPhase.UNKNOWN


def test_a_conflict_where_a_key_has_nothing_new_was_not_stored() -> None:
    side, tx, ticket = lost(info={"cluster": "c"})
    side.answer(WRONG)
    side.found(stored(9), ABSENT)
    side.keep_silent()
    failure(ticket, TransactionConflictError)
    assert tx.phase is TransactionPhase.CONFLICT


def test_the_only_server_remembers_the_ids_that_it_has_stored() -> None:
    side, _, ticket = lost()
    side.answer(WRONG)
    side.found(stored(9), stored(10))
    side.keep_silent()
    failure(ticket, TransactionConflictError)


@pytest.mark.parametrize("forgets", ["a cluster", "another server", "the window is over"])
def test_a_conflict_that_tells_nothing(forgets: str) -> None:
    options: dict[str, Any] = {"info": {"cluster": "c"}} if forgets == "a cluster" else {}
    side = Side(**options, ttl=1 if forgets == "the window is over" else None)
    _, ticket = side.committing("a", "b")
    side.written()
    if forgets == "another server":
        side.h.info["server_id"] = "OTHER"
    side.lose()
    side.h.advance(1.0)
    side.answer(WRONG)
    side.found(stored(9), stored(10))
    assert failure(ticket, TransactionUnknownError).applied is None


def test_a_conflict_with_what_is_in_flight_is_no_answer() -> None:
    """It may be the transaction itself."""
    side, tx, ticket = lost()
    side.answer(refused(10164, "wrong last sequence"))
    assert tx.phase is TransactionPhase.DECIDING
    side.h.advance(1.0)
    side.answer(None)
    assert ticket.result() == {"a": 19, "b": 20}


def test_what_passes_is_no_answer_either() -> None:
    side, _, ticket = lost()
    side.answer(refused(10158, code=409))
    side.h.advance(1.0)
    side.answer(None)
    assert ticket.result() == {"a": 19, "b": 20}


def test_a_look_that_fails_is_repeated() -> None:
    side, _, ticket = lost(timeout=1.0)
    msg_id = headers_of(side.sent[0][0])["Nats-Msg-Id"]
    side.answer(KNOWN)
    side.wait()  # the leader does not answer
    side.answer(KNOWN)
    side.found(stored(6, Nats_Batch_Id=f"{msg_id}-1", Nats_Batch_Sequence="1"))
    assert ticket.result() == {"a": 6, "b": 7}


def test_another_refusal_leaves_it_open() -> None:
    side, _, ticket = lost()
    side.answer(refused(10109))
    side.found(stored(9), ABSENT)
    failure(ticket, TransactionUnknownError)


def test_a_blind_write_is_looked_for_and_never_sent_again() -> None:
    side = Side()
    tx, ticket = side.guarded("lock")
    (pub,) = side.written()
    side.lose()
    side.h.advance(1.0)
    assert side.found(stored(9, Nats_Msg_Id=headers_of(pub)["Nats-Msg-Id"])) == [{"last_by_subj": "$KV.B.a"}]
    assert ticket.result() == {"a": 9}
    tx, ticket = side.guarded("lock")
    side.written()
    side.lose()
    side.h.advance(1.0)
    side.found(stored(9))
    failure(ticket, TransactionUnknownError)
    assert side.written() == []
    assert tx.phase is TransactionPhase.UNKNOWN


def test_deciding_ends() -> None:
    side = Side()
    tx, ticket = side.committing("a", "b")
    side.written()
    side.h.lose()
    side.h.advance(PATIENCE - 1)
    assert tx.phase is TransactionPhase.DECIDING
    side.h.advance(2)
    failure(ticket, TransactionUnknownError)


def test_a_connection_that_is_closed_leaves_it_unknown() -> None:
    for keys in (("a",), ("a", "b")):
        side = Side()
        _, ticket = side.committing(*keys)
        side.written()
        side.h.session.close(side.h.now)
        failure(ticket, TransactionUnknownError)
        tx = side.begin()
        tx.guard("a", 1, now=side.h.now)
        tx.put("a", b"")
        failure(tx.commit(now=side.h.now), ConnectionClosedError)
        side, _, ticket = lost(keys)
        side.answer(refused(10158, code=409))  # it pauses
        side.h.session.close(side.h.now)
        failure(ticket, TransactionUnknownError)
        failure(Pause(side.h.session, side.h.now + 1.0).over, ConnectionClosedError)
