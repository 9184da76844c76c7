"""The sweep on the server role: what a consumer gave up without an advisory is buried, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsproto.api_errors import ConsumerAlreadyExistsError
from jsproto.client.consume.dead_letters import DeadLetterPlan
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.pull import PullConsumer
from jsproto.client.consume.sweep import Sweep
from jsproto.client.manage.pages import Pages
from jsproto.events import SweepFailed
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.rules.position import ELECTION
from tests.effort import examples
from tests.marks import promise
from tests.pair.test_dead_letters import Burying

EVERY: Final = 60.0
WORK: Final = {"retention": "workqueue"}


class Sweeping(Burying):
    """A stream whose consumers give up, without anybody who keeps advisories before ``sweep``."""

    def __init__(self, *, orders: dict[str, Any] | None = None, dead: dict[str, Any] | None = None) -> None:
        super().__init__(orders=WORK if orders is None else orders, dead=dead)
        self.sweeps: list[Sweep] = []

    def worker(self, name: str = "C", **options: Any) -> PullConsumer[JSMsg]:
        return self.consumer(name, **{"max_deliver": 1, "ack_wait": 1.0} | options)

    def give_up_all(self, worker: PullConsumer[JSMsg]) -> None:
        """What is outstanding, and not acknowledged, is given up."""
        self.pair.advance(1.5)
        assert self.take(worker) == []

    def sweep(self, plan: DeadLetterPlan | None = None, every: float | None = EVERY, **options: Any) -> Sweep:
        plan = self.open(**options) if plan is None else plan
        self.sweeps.append(self.pair.js.sweep(plan, every=every, now=self.pair.now))
        return self.sweeps[-1]

    def found(self) -> list[bytes]:
        return [letter.data for letter in self.letters()]

    def failures(self) -> list[str]:
        return [str(event.error) for event in self.pair.events if isinstance(event, SweepFailed)]


def given_up(sweeping: Sweeping, *payloads: bytes, subject: str = "orders.1", **options: Any) -> PullConsumer[JSMsg]:
    worker = sweeping.worker(**options)
    for payload in payloads:
        sweeping.publish(subject, payload)
    sweeping.take(worker, len(payloads))
    sweeping.give_up_all(worker)
    return worker


# -- what is found -----------------------------------------------------------------------------------------------------


@promise("A message that was given up without an advisory")
@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_was_given_up_before_anybody_kept_advisories_is_buried(retention: str) -> None:
    sweeping = Sweeping(orders={"retention": retention})
    given_up(sweeping, b"tea", b"milk")
    sweeping.sweep()
    sweeping.pair.advance(ELECTION + 1)
    first, second = sweeping.letters()
    assert (first.subject, first.data, second.data) == ("dead.ORDERS.C.1", b"tea", b"milk")
    assert {name: value for name, value in first.headers.items() if name.startswith("Dead-Letter-")} == {
        "Dead-Letter-Stream": "ORDERS", "Dead-Letter-Consumer": "C", "Dead-Letter-Sequence": "1",
        "Dead-Letter-Subject": "orders.1", "Dead-Letter-Reason": "unacknowledged",
    }  # fmt: skip


@promise("A message that was given up without an advisory")
def test_an_advisory_that_its_stream_loses_is_made_up_for() -> None:
    sweeping = Sweeping()
    plan = sweeping.open()
    sweeping.sweep(plan)
    given_up(sweeping, b"tea")
    sweeping.pair.run_until(sweeping.pair.js.purge_stream(plan.info.stream_name, now=sweeping.pair.now))
    sweeping.pair.advance(EVERY + 2 * ELECTION)
    assert sweeping.found() == [b"tea"]


def test_a_stream_that_keeps_what_is_acknowledged_is_not_swept() -> None:
    sweeping = Sweeping(orders={"retention": "limits"})
    given_up(sweeping, b"tea")
    sweeping.sweep()
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []


@promise("once nothing is outstanding, or once the ack floor has passed the message.")
@promise("A sweep buries no message that is outstanding.")
def test_what_is_outstanding_is_left_until_it_is_settled() -> None:
    sweeping = Sweeping()
    worker = sweeping.worker(max_deliver=2, ack_wait=1000.0)
    for payload in (b"1", b"2", b"3"):
        sweeping.publish("orders.1", payload)
    one, two, three = sweeping.take(worker, 3)
    three.ack()
    one.nak()
    (one,) = sweeping.take(worker)
    one.nak()
    assert sweeping.take(worker) == []  # 1 is given up, 2 outstanding
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == []
    two.ack()
    sweeping.pair.advance(EVERY + 2 * ELECTION)
    assert sweeping.found() == [b"1"]


@promise("once nothing is outstanding, or once the ack floor has passed the message.")
def test_what_the_ack_floor_has_passed_is_buried_beside_outstanding_ones() -> None:
    sweeping = Sweeping()
    worker = given_up(sweeping, b"1")
    for payload in (b"2", b"3"):
        sweeping.publish("orders.1", payload)
    (two,) = sweeping.take(worker)
    two.ack()
    sweeping.pair.run_until(sweeping.pair.client.ping(sweeping.pair.now))
    (three,) = sweeping.take(worker)
    sweeping.sweep()
    for _ in range(12):
        sweeping.pair.advance(0.5)
        three.in_progress()
    assert sweeping.found() == [b"1"]


@promise("A sweep buries no message that is outstanding.")
def test_both_looks_must_find_a_message_settled() -> None:
    sweeping = Sweeping()
    worker = given_up(sweeping, b"1")
    sweeping.sweep()
    sweeping.pair.advance(0.5)
    sweeping.publish("orders.1", b"2")
    sweeping.take(worker)
    sweeping.give_up_all(worker)
    sweeping.pair.run_until(sweeping.pair.js.purge_stream("ORDERS-GIVEN-UP", now=sweeping.pair.now))
    sweeping.pair.advance(ELECTION)
    assert sweeping.found() == [b"1"]
    sweeping.pair.advance(EVERY + ELECTION)
    assert sweeping.found() == [b"1", b"2"]


def test_consumers_that_share_a_work_queue_are_swept_each_by_its_filters() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"a", subject="orders.a", name="A", filter_subject="orders.a")
    given_up(sweeping, b"b", subject="orders.b", name="B", filter_subjects=["orders.b", "orders.c"])
    sweeping.publish("orders.z", b"nobody's")
    given_up(sweeping, b"c", subject="orders.c", name="B", filter_subjects=["orders.b", "orders.c"])
    sweeping.sweep(consumer=None)
    sweeping.pair.advance(ELECTION + 1)
    subjects = ["dead.ORDERS.A.1", "dead.ORDERS.B.2", "dead.ORDERS.B.4"]
    assert sorted(letter.subject for letter in sweeping.letters()) == subjects


def test_a_sweep_of_one_consumer_leaves_the_others() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"a", subject="orders.a", name="A", filter_subject="orders.a")
    given_up(sweeping, b"c", subject="orders.c", filter_subject="orders.c")
    sweeping.sweep()
    sweeping.pair.advance(ELECTION + 1)
    assert sweeping.found() == [b"c"]


# -- what is no proof --------------------------------------------------------------------------------------------------


@promise("whose messages no other consumer may want.")
def test_what_another_consumer_may_want_is_not_buried() -> None:
    sweeping = Sweeping(orders={"retention": "interest"})
    sweeping.consumer("OTHER", filter_subject="orders.*")
    sweeping.consumer("FAR", filter_subject="orders.far.1")
    given_up(sweeping, b"tea")
    sweeping.sweep()
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []
    sweeping.pair.run_until(sweeping.pair.js.delete_consumer("ORDERS", "OTHER", now=sweeping.pair.now))
    sweeping.pair.run_until(sweeping.pair.js.delete_consumer("ORDERS", "FAR", now=sweeping.pair.now))
    sweeping.pair.advance(EVERY + 2 * ELECTION)
    assert sweeping.found() == [b"tea"]


@promise("whose messages no other consumer may want.")
@pytest.mark.parametrize("options", [{"max_deliver": None}, {"deliver_policy": "new"}, {"ack_policy": "all"}])
def test_consumers_that_prove_nothing_are_not_swept(options: dict[str, Any]) -> None:
    sweeping = Sweeping(orders={"retention": "interest"})
    worker = sweeping.worker(**options)
    sweeping.publish("orders.1", b"tea")
    sweeping.take(worker)
    sweeping.pair.advance(1.5)
    sweeping.sweep()
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []


@promise("whose messages no other consumer may want.")
def test_a_list_that_lacks_a_consumer_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"tea")
    plan, whole = sweeping.open(), Pages.whole

    def without_one(pages: Any, now: float) -> Any:
        pages.missing.append("OTHER")
        return whole(pages, now)

    monkeypatch.setattr(Pages, "whole", without_one)
    sweeping.sweep(plan)
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []


@promise("Elsewhere there is no sweep, because a letter that is not there may have been stored.")
@pytest.mark.parametrize(
    ("dead", "subject"),
    [
        ({"subjects": ["dead"]}, None),
        ({}, "dead.{stream}"),
        ({}, "dead.{seq}"),
        ({"retention": "workqueue"}, None),
    ],
)
def test_letters_whose_absence_says_nothing_are_not_swept_for(dead: dict[str, Any], subject: str | None) -> None:
    """Others share their subjects, or the stream deletes letters that were worked on."""
    sweeping = Sweeping(dead=dead)
    given_up(sweeping, b"tea")
    sweeping.sweep(subject=subject)
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []


def test_without_a_pause_there_is_no_sweep() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"tea")
    assert sweeping.sweep(every=None).deadline() is None


# -- once --------------------------------------------------------------------------------------------------------------


@promise("or `unacknowledged` where no advisory came.")
def test_while_advisories_wait_nothing_is_swept() -> None:
    """An advisory says more: how often it was delivered, and when."""
    sweeping = Sweeping()
    plan = sweeping.open()
    given_up(sweeping, b"tea")
    sweeping.sweep(plan)
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == []
    (advisory,) = sweeping.advisories(plan)
    assert sweeping.bury(plan, advisory) is not None
    sweeping.pair.advance(2 * EVERY)
    (letter,) = sweeping.letters()
    assert letter.headers["Dead-Letter-Reason"] == "max_deliver"


@promise("Each dead letter is stored once")
def test_an_advisory_that_comes_late_is_not_buried_again() -> None:
    sweeping = Sweeping(dead={"duplicate_window": 0.1})
    plan = sweeping.open()
    given_up(sweeping, b"tea")
    (advisory,) = sweeping.advisories(plan)
    sweeping.pair.run_until(sweeping.pair.js.purge_stream("ORDERS-GIVEN-UP", now=sweeping.pair.now))
    sweeping.sweep(plan)
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == [b"tea"]
    assert sweeping.bury(plan, advisory) is None


@promise("Several programs may keep the same dead letters.")
def test_two_programs_that_sweep_at_once_bury_once() -> None:
    sweeping = Sweeping(dead={"duplicate_window": 0.1})
    given_up(sweeping, b"1", b"2", b"3")
    plan = sweeping.open()
    sweeping.sweep(plan)
    sweeping.sweep(plan)
    sweeping.pair.advance(2 * EVERY)
    assert sweeping.found() == [b"1", b"2", b"3"]


def read(pair: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sequences from which messages of ORDERS are asked for, from now on."""
    asked: list[int] = []
    original: Callable[..., Any] = type(pair.js).get_msg

    def counted(js: Any, stream: str, seq: int | None = None, **options: Any) -> Any:
        if stream == "ORDERS" and seq is not None:
            asked.append(seq)
        return original(js, stream, seq, **options)

    monkeypatch.setattr(type(pair.js), "get_msg", counted)
    return asked


@promise("A letter that is deleted after a sweep does not come back.")
def test_a_message_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping()
    worker = given_up(sweeping, b"1", b"2")
    asked = read(sweeping.pair, monkeypatch)
    sweeping.sweep().close(sweeping.pair.now)
    assert asked == []
    sweeping.sweep()
    sweeping.pair.advance(3 * EVERY)
    assert asked == [1, 2]
    sweeping.publish("orders.1", b"3")
    sweeping.take(worker)[0].ack()
    sweeping.pair.advance(2 * EVERY)
    assert asked == [1, 2, 3]


@promise("A letter that is deleted after a sweep does not come back.")
def test_a_letter_that_is_deleted_does_not_come_back_with_the_next_program() -> None:
    sweeping = Sweeping(dead={"duplicate_window": 0.1})
    worker = given_up(sweeping, b"1")
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == [b"1"]
    sweeping.sweeps.pop().close(sweeping.pair.now)
    sweeping.pair.run_until(sweeping.pair.js.purge_stream("DEAD", now=sweeping.pair.now))
    sweeping.publish("orders.1", b"2")
    sweeping.take(worker)
    sweeping.give_up_all(worker)
    sweeping.pair.run_until(sweeping.pair.js.purge_stream("ORDERS-GIVEN-UP", now=sweeping.pair.now))
    plan = sweeping.open()
    assert plan.info.config.metadata is not None
    assert plan.info.config.metadata["swept.C"].startswith("ORDERS 1 ")
    sweeping.sweep(plan)
    sweeping.pair.advance(EVERY)
    js, now = sweeping.pair.js, sweeping.pair.now
    state = sweeping.pair.run_until(js.stream_info("DEAD", now=now)).state
    assert (state.first_seq, state.last_seq) == (2, 2)
    assert sweeping.pair.run_until(js.get_msg("DEAD", 2, level="leader", now=now)).data == b"2"


def test_a_name_that_another_consumer_has_is_an_error() -> None:
    """ORDERS and C-to-X, or ORDERS-C and X."""
    sweeping = Sweeping()
    plan = sweeping.open()
    options = ConsumerConfig(
        durable_name="dead-letters-ORDERS-OTHER-to-DEAD", filter_subject=plan.info.config.filters[0]
    )
    js, now = sweeping.pair.js, sweeping.pair.now
    sweeping.pair.run_until(js.create_consumer(plan.info.stream_name, options, now=now))
    with pytest.raises(ConsumerAlreadyExistsError):
        sweeping.open("OTHER")


def test_metadata_of_others_is_no_position() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"1")
    plan = sweeping.open()
    changes = {"metadata": {"swept.C": "ORDERS", "owner": "me"}}
    sweeping.pair.run_until(
        sweeping.pair.js.change_consumer(plan.info.stream_name, plan.info.name, changes, now=sweeping.pair.now)
    )
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == [b"1"]


def test_a_stream_that_was_made_again_is_swept_from_its_beginning() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"1", b"2")
    sweeping.sweep()
    sweeping.pair.advance(EVERY / 2)
    js = sweeping.pair.js
    sweeping.pair.run_until(js.delete_stream("ORDERS", now=sweeping.pair.now))
    sweeping.stream("ORDERS", subjects=["orders.>"], **WORK)
    given_up(sweeping, b"new 1", b"new 2", b"new 3")
    sweeping.pair.run_until(js.purge_stream("ORDERS-GIVEN-UP", now=sweeping.pair.now))
    sweeping.pair.advance(EVERY + ELECTION)
    assert sweeping.found() == [b"1", b"2", b"new 1", b"new 2", b"new 3"]


def test_a_message_that_is_too_large_with_the_headers_says_so() -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"x" * (sweeping.pair.client.max_payload - 20))
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    (letter,) = sweeping.letters()
    assert (letter.data, letter.headers["Dead-Letter-Missing"]) == (b"", "too large")


# -- ends and failures -------------------------------------------------------------------------------------------------


@promise("A look that fails is the event `SweepFailed`, and repeated.")
def test_a_refused_letter_is_told_and_tried_again() -> None:
    sweeping = Sweeping(dead={"max_msgs": 1, "discard": "new"})
    given_up(sweeping, b"1", b"2")
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == [b"1"]
    (failure,) = sweeping.failures()
    assert "maximum messages exceeded" in failure
    js, now = sweeping.pair.js, sweeping.pair.now
    sweeping.pair.run_until(js.change_stream("DEAD", {"max_msgs": 9}, now=now))
    sweeping.pair.advance(EVERY + 2 * ELECTION)
    assert sweeping.found() == [b"1", b"2"]


def test_a_stream_that_is_gone_is_told_at_each_look() -> None:
    sweeping = Sweeping()
    sweeping.sweep()
    sweeping.pair.run_until(sweeping.pair.js.delete_stream("ORDERS", now=sweeping.pair.now))
    sweeping.pair.advance(2 * EVERY + 1)
    assert len(sweeping.failures()) == 3  # at the start, and after each minute


@pytest.mark.parametrize("letters", [0, 1, 2])
def test_what_is_closed_leaves_the_rest_to_the_next_program(letters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = Sweeping()
    given_up(sweeping, b"1", b"2", b"3")
    sweep = sweeping.sweep()
    stored: list[Any] = []
    original = type(sweeping.pair.js).publish

    def publish(js: Any, *arguments: Any, **options: Any) -> Any:
        stored.append(arguments)
        if len(stored) == letters:
            sweep.close(sweeping.pair.now)
        return original(js, *arguments, **options)

    if letters:
        monkeypatch.setattr(type(sweeping.pair.js), "publish", publish)
    else:
        sweep.close(sweeping.pair.now)
    sweeping.pair.advance(2 * EVERY)
    assert len(sweeping.found()) == letters
    assert sweep.deadline() is None
    monkeypatch.undo()
    sweeping.sweep()
    sweeping.pair.advance(EVERY)
    assert sweeping.found() == [b"1", b"2", b"3"]


def test_a_sweep_that_ends_with_the_connection_is_silent() -> None:
    sweeping = Sweeping()
    sweep = sweeping.sweep()
    sweep.handle_timeout(sweeping.pair.now)
    sweep.handle_timeout(sweeping.pair.now)  # one look at a time
    sweeping.pair.client.close(sweeping.pair.now)
    assert sweeping.failures() == []


# -- any history -------------------------------------------------------------------------------------------------------

FATES: Final = ("ack", "give up", "lost", "keep")


@promise("A message that was given up without an advisory")
@promise("A sweep buries no message that is outstanding.")
@settings(max_examples=examples(40), deadline=None)
@given(
    retention=st.sampled_from(["workqueue", "interest"]),
    days=st.lists(st.lists(st.sampled_from(FATES), max_size=6), min_size=1, max_size=4),
    restarts=st.booleans(),
)
def test_exactly_what_was_given_up_is_buried(retention: str, days: list[list[str]], restarts: bool) -> None:
    """Each day a worker acknowledges, gives up with an advisory or without one, or keeps a message until evening."""
    sweeping = Sweeping(orders={"retention": retention}, dead={"duplicate_window": 0.1})
    plan = sweeping.open()
    sweeping.sweep(plan)
    worker = sweeping.worker(ack_wait=5.0)
    wanted: list[bytes] = []
    for day, fates in enumerate(days):
        kept: list[JSMsg] = []
        for number, fate in enumerate(fates):
            payload = b"%d.%d" % (day, number)
            sweeping.publish("orders.1", payload)
            (message,) = sweeping.take(worker)
            if fate == "ack":
                message.ack()
            elif fate == "keep":
                kept.append(message)
            else:
                wanted.append(payload)
                message.nak()
                assert sweeping.take(worker) == []
                for advisory in sweeping.advisories(plan) if fate == "give up" else []:
                    sweeping.bury(plan, advisory)
                js, now = sweeping.pair.js, sweeping.pair.now
                sweeping.pair.run_until(js.purge_stream(plan.info.stream_name, now=now))
            for each in kept:
                each.in_progress()
            sweeping.pair.advance(0.7)
        for message in kept:
            message.ack()
        if restarts:
            sweeping.sweeps.pop().close(sweeping.pair.now)
            plan = sweeping.open()
            sweeping.sweep(plan)
        sweeping.pair.advance(2 * EVERY)
        assert sorted(sweeping.found()) == sorted(wanted)
    assert sweeping.failures() == []
