"""Every situation of a fast-ingest batch meets everything that can happen to it: nothing raises, and every wait ends.

The situations are the phases and what makes them differ inside: an inbox that is open before anything was sent, a
closed window, a lost link. What happens comes from servers, from anybody who knows the inbox, from the carrier and from
time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import ConnectionLostError, Error, MaxPayloadError, PermissionsViolationError
from jsproto.events import UnexpectedMessage
from jsproto.rules.fast_batch import ENDED, FastPhase
from jsproto.wire.encoder import encode_err
from jsproto.wire.frames import Msg
from tests.client.test_fast import DISABLED, TOO_BIG, UNKNOWN, WRONG_SEQUENCE, Batch
from tests.effort import share
from tests.harness import Harness
from tests.marks import promise

Input: TypeAlias = Callable[[Batch], None]

TOO_LARGE = b"x" * 1_048_577
ACK_TIMEOUT = 3.0


def fresh(gap: str, **options: Any) -> Batch:
    return Batch(Harness(max_reconnect_attempts=-1), gap=gap, ack_timeout=ACK_TIMEOUT, **options)


def opened(gap: str, **options: Any) -> Batch:
    return fresh(gap, **options).start(10)


def idle_after_a_refusal(gap: str) -> Batch:
    batch = fresh(gap)
    with pytest.raises(MaxPayloadError):
        batch.fast.publish("e.a", TOO_LARGE, now=batch.h.now)
    return batch


def idle_after_a_refused_commit(gap: str) -> Batch:
    batch = fresh(gap)
    with pytest.raises(MaxPayloadError):
        batch.fast.commit(batch.h.now, "e.a", TOO_LARGE)
    return batch


def starting(gap: str) -> Batch:
    batch = fresh(gap)
    batch.fast.publish("e.a", b"1", now=batch.h.now)
    batch.fast.ready()
    return batch


def open_with_room(gap: str) -> Batch:
    batch = opened(gap)
    batch.fill(3)
    return batch


def open_without_room(gap: str) -> Batch:
    batch = opened(gap)
    batch.fill(19)
    batch.fast.ready()
    return batch


def unlinked(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.h.lose()
    return batch


def broken(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.say({"type": "gap", "last_seq": 2, "seq": 3}, 3)  # breaks it in one of the modes
    return batch


def committing(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.fast.commit(batch.h.now)
    return batch


def committing_a_message(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.fast.commit(batch.h.now, "e.z", b"last")
    return batch


def committing_alone(gap: str) -> Batch:
    batch = fresh(gap)
    batch.fast.commit(batch.h.now, "e.a", b"only")
    return batch


def committing_without_a_link(gap: str) -> Batch:
    batch = committing(gap)
    batch.h.lose()
    return batch


def committed(gap: str) -> Batch:
    batch = committing(gap)
    batch.h.sent()
    batch.pub_ack(4, 5, 3)
    return batch


def failed(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.error(DISABLED, 4)
    return batch


def abandoned(gap: str) -> Batch:
    batch = open_with_room(gap)
    batch.fast.abandon(batch.h.now)
    return batch


SITUATIONS = (
    fresh, idle_after_a_refusal, idle_after_a_refused_commit, starting, open_with_room, open_without_room, unlinked,
    broken, committing, committing_a_message, committing_alone, committing_without_a_link, committed, failed, abandoned,
)  # fmt: skip
ENTERED = {
    FastPhase.IDLE: idle_after_a_refusal, FastPhase.STARTING: starting, FastPhase.OPEN: open_with_room,
    FastPhase.BROKEN: broken, FastPhase.COMMITTING: committing, FastPhase.COMMITTED: committed,
    FastPhase.FAILED: failed, FastPhase.ABANDONED: abandoned,
}  # fmt: skip


def answer(payload: bytes, sequence: int, operation: int, header: bytes | None = None) -> Input:
    def happens(batch: Batch) -> None:
        inbox = batch.fast._reply  # a conversation may be embedded: what is routed to it is for its carrier to know
        batch.fast.receive(Msg(b"%b%d.%d.$FI" % (inbox, sequence, operation), b"1", None, header, payload), batch.h.now)

    return happens


def bodies(sequence: int) -> Iterator[dict[str, Any]]:
    yield {"type": "ack", "seq": sequence, "msgs": 1}
    yield {"type": "ack", "seq": sequence, "msgs": 10}
    yield {"type": "gap", "last_seq": max(sequence - 1, 1), "seq": sequence + 1}
    yield {"type": "err", "seq": max(sequence, 1), "error": WRONG_SEQUENCE}
    for error in (WRONG_SEQUENCE, UNKNOWN, TOO_BIG, DISABLED):
        yield {"error": error, "stream": "S", "seq": 0}
    yield {"stream": "S", "seq": sequence, "batch": "b1", "count": sequence}
    yield {"stream": "S", "seq": sequence, "batch": "b1"}
    yield {"stream": "S", "seq": sequence, "batch": "b1", "count": sequence, "error": WRONG_SEQUENCE}
    yield {"stream": "S", "seq": sequence, "batch": "other", "count": sequence}
    yield {"stream": "S", "seq": sequence}
    yield {}


def denial(operation: Any, subject: str) -> Input:
    return lambda batch: batch.fast.denied(PermissionsViolationError("no", operation, subject), batch.h.now)


def verb(call: Callable[[Batch], object]) -> Input:
    def happens(batch: Batch) -> None:
        with suppress(Error):
            call(batch)

    return happens


def inputs() -> Iterator[tuple[str, Input]]:
    for sequence, operation in product((0, 1, 2, 4, 5, 20, 21), (0, 1, 2, 3, 4)):
        for body in bodies(sequence):
            yield f"{sequence}.{operation} {body}", answer(json.dumps(body).encode(), sequence, operation)
        no_responders = answer(b"", sequence, operation, b"NATS/1.0 503\r\n\r\n")
        yield f"{sequence}.{operation} 503", no_responders
        yield f"{sequence}.{operation} junk", answer(b"\xff{", sequence, operation)
    for denied, subject in product(("publish", "subscribe"), ("e.a", "e.z", "elsewhere")):
        yield f"denied {denied} {subject}", denial(denied, subject)
    yield "link lost", lambda batch: batch.fast.link_lost(ConnectionLostError("lost"), batch.h.now)
    yield "link restored", lambda batch: batch.fast.link_restored(batch.h.now)
    for seconds in (0.0, 0.4, 3.1, 5.1, 10.1, 1e6):
        yield f"{seconds} s", lambda batch, seconds=seconds: pass_time(batch, seconds)  # type: ignore[misc]
    yield "publish", verb(lambda batch: batch.fast.publish("e.a", now=batch.h.now))
    yield "publish too much", verb(lambda batch: batch.fast.publish("e.a", TOO_LARGE, now=batch.h.now))
    yield "publish many", verb(lambda batch: batch.fast.publish_many([("e.a", b"")] * 50, batch.h.now))
    yield "commit", verb(lambda batch: batch.fast.commit(batch.h.now))
    yield "commit a message", verb(lambda batch: batch.fast.commit(batch.h.now, "e.a"))
    yield "commit too much", verb(lambda batch: batch.fast.commit(batch.h.now, "e.a", TOO_LARGE))
    yield "ping", verb(lambda batch: batch.fast.ping(batch.h.now))
    yield "ready", verb(lambda batch: batch.fast.ready())
    yield "abandon", lambda batch: batch.fast.abandon(batch.h.now)


def pass_time(batch: Batch, seconds: float) -> None:
    batch.h.now += seconds  # late, all at once: the driver slept
    batch.fast.handle_timeout(batch.h.now)


INPUTS = dict(inputs())


def let_end(batch: Batch) -> None:
    """What is waited for must come to an end without any further word from the server."""
    fast = batch.fast
    ready, commit = fast.ready(), fast._commit
    for _ in range(200):
        deadline = fast.deadline()
        if deadline is None or (ready.done and (commit is None or commit.done)):
            break
        batch.h.now = max(batch.h.now, deadline)
        fast.handle_timeout(batch.h.now)
    assert ready.done, "waits for room without end"
    assert commit is None or commit.done, "waits for the commit without end"
    if fast.phase in ENDED:
        assert fast.deadline() is None
        assert fast.room == 0
        assert fast.ready().error is not None


def test_every_phase_is_met() -> None:
    for phase, situation in ENTERED.items():
        assert situation("fail").fast.phase is phase
    assert set(ENTERED) == set(FastPhase)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_whatever_happens_in_whatever_phase(situation: Callable[[str], Batch], gap: str) -> None:
    for name, happens in share([*INPUTS.items()], len(situation.__name__) + len(gap)):
        batch = situation(gap)
        ended = batch.fast.phase if batch.fast.phase in ENDED else None
        try:
            happens(batch)
            assert ended in (None, batch.fast.phase)
            let_end(batch)
        except Exception as error:
            error.add_note(f"the input was: {name}")
            raise


@promise("Receiving never raises.")
@promise("Never raises, whatever the message holds.")
@promise("Nothing was written and no state has changed.")
@given(st.sampled_from(SITUATIONS), st.sampled_from(["ok", "fail"]), st.lists(st.sampled_from([*INPUTS]), max_size=8))
def test_whatever_happens_in_whatever_order(situation: Callable[[str], Batch], gap: str, names: list[str]) -> None:
    batch = situation(gap)
    for name in names:
        INPUTS[name](batch)
    let_end(batch)


@pytest.mark.parametrize("gap", ["ok", "fail"])
@pytest.mark.parametrize("situation", [idle_after_a_refusal, idle_after_a_refused_commit])
def test_a_denied_inbox_of_a_batch_whose_first_message_was_refused(situation: Callable[[str], Batch], gap: str) -> None:
    batch = situation(gap)
    batch.h.sent()
    (inbox,) = batch.h.subs.values()
    batch.h.feed(encode_err(b"'Permissions Violation for Subscription to \"%b\"'" % inbox))
    assert batch.h.session.is_connected
    assert isinstance(batch.fast.error, PermissionsViolationError)
    with pytest.raises(PermissionsViolationError):
        batch.fast.publish("e.a", b"small", now=batch.h.now)
    batch.h.sent()
    assert batch.h.subs == {}


@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_a_forged_end_of_a_batch_whose_first_message_was_refused(gap: str) -> None:
    batch = idle_after_a_refusal(gap)
    batch.h.sent()
    batch.pub_ack(0, 1)
    assert batch.fast.phase is FastPhase.IDLE
    assert batch.fast.publish("e.a", b"small", now=batch.h.now) == 1


@pytest.mark.parametrize("commits", [False, True])
def test_an_acknowledgement_without_a_count_is_none(commits: bool) -> None:
    batch = Batch().start()
    batch.fill(3)
    ticket = batch.fast.commit(batch.h.now) if commits else batch.fast.ready()
    batch.h.sent()
    batch.say({"stream": "S", "seq": 9, "batch": "b1"}, 4)
    (event,) = batch.h.events()
    assert isinstance(event, UnexpectedMessage)
    assert "does not say how much" in event.reason
    assert batch.fast.error is None
    assert ticket.done is not commits
    if commits:
        batch.pub_ack(4, 5, 3)
        assert ticket.result() is batch.fast.ack
