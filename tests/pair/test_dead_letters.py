"""Dead letters on the server role: what a consumer gave up is stored once, with what it was and why."""

from __future__ import annotations

from typing import Any

import pytest

from jsproto.api_errors import StreamNotFoundError
from jsproto.client.consume.dead_letters import DeadLetterPlan, DeadLetterSpec
from jsproto.client.consume.message import JSMsg
from jsproto.client.consume.pull import PullConsumer
from jsproto.errors import APIError, BadSubjectError, DeadLetterError, LocalProtocolError
from jsproto.events import UnexpectedMessage
from jsproto.grammar.acks import PubAck
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.stored import StoredMsg
from jsproto.testing.pair import Pair
from tests.marks import promise


class Burying:
    """A stream whose consumer C gives up everything, and a stream for dead letters."""

    def __init__(self, *, dead: dict[str, Any] | None = None, orders: dict[str, Any] | None = None) -> None:
        self.pair = Pair()
        self.pair.connect()
        self.stream("ORDERS", **{"subjects": ["orders.>"]} | (orders or {}))
        self.stream("DEAD", **{"subjects": ["dead.>"]} | (dead or {}))

    def stream(self, name: str, **options: Any) -> None:
        config = StreamConfig.from_options(name, **options)
        self.pair.run_until(self.pair.js.create_stream(config, now=self.pair.now))

    def open(
        self, consumer: str | None = "C", to: str = "DEAD", subject: str | None = None, advisories: str | None = None
    ) -> DeadLetterPlan:
        spec = DeadLetterSpec("ORDERS", consumer, to, subject, advisories)
        return self.pair.run_until(self.pair.js.dead_letters(spec, now=self.pair.now))

    def publish(self, subject: str, payload: bytes = b"x", headers: dict[str, str] | None = None) -> PubAck:
        return self.pair.run_until(self.pair.js.publish(subject, payload, headers=headers, now=self.pair.now))

    def consumer(self, name: str = "C", stream: str = "ORDERS", **options: Any) -> PullConsumer[JSMsg]:
        config = ConsumerConfig.from_options(durable_name=name, **options)
        info = self.pair.run_until(self.pair.js.create_consumer(stream, config, now=self.pair.now))
        return self.pair.js.pull_consumer(info, JSMsg)

    def take(self, consumer: PullConsumer[JSMsg], count: int = 1) -> list[JSMsg]:
        fetch = consumer.fetch(count, now=self.pair.now, expires=1.0)
        self.pair.run_until(fetch.done)
        return consumer.take(fetch)

    def give_up(self, subject: str = "orders.1", payload: bytes = b"x", **headers: str) -> None:
        """A message is terminated."""
        self.publish(subject, payload, {name.replace("_", "-"): value for name, value in headers.items()})
        (message,) = self.take(self.consumer())
        message.term("no  such\nthing")
        self.pair.run_until(self.pair.client.ping(self.pair.now))

    def advisories(self, plan: DeadLetterPlan) -> list[bytes]:
        pull = self.pair.js.pull_consumer(plan.info, JSMsg)
        messages = self.take(pull, 9)
        for message in messages:
            message.nak()
        pull.unsubscribe(self.pair.now)
        return [message.data for message in messages]

    def bury(self, plan: DeadLetterPlan, advisory: bytes) -> PubAck | None:
        return self.pair.run_until(self.pair.js.bury(plan, advisory, now=self.pair.now))

    def letters(self, name: str = "DEAD") -> list[StoredMsg]:
        last = self.pair.server.stream(name).last_seq
        js, now = self.pair.js, self.pair.now
        return [self.pair.run_until(js.get_msg(name, seq, level="leader", now=now)) for seq in range(1, last + 1)]


@promise("A dead letter has the payload and the headers of its message.")
def test_a_terminated_message_keeps_what_it_was_and_why() -> None:
    burying = Burying()
    plan = burying.open()
    burying.give_up(payload=b"tea", Shop="Berlin", Nats_Msg_Id="7", Dead_Letter_Reason="before")
    (advisory,) = burying.advisories(plan)
    ack = burying.bury(plan, advisory)
    assert ack is not None
    (letter,) = burying.letters()
    assert (letter.subject, letter.data) == ("dead.ORDERS.C.1", b"tea")
    headers = dict(letter.headers.items())
    assert headers.pop("Dead-Letter-Time").endswith("Z")
    assert headers.pop("Dead-Letter-Advisory")
    assert headers.pop("Nats-Msg-Id").startswith("dead-letter:ORDERS:C:1:")
    assert headers.pop("Nats-Expected-Stream") == "DEAD"
    assert headers.pop("Nats-Expected-Last-Subject-Sequence") == "0"
    assert headers == {
        "Shop": "Berlin", "Original-Nats-Msg-Id": "7", "Original-Dead-Letter-Reason": "before",
        "Dead-Letter-Stream": "ORDERS", "Dead-Letter-Consumer": "C", "Dead-Letter-Sequence": "1",
        "Dead-Letter-Subject": "orders.1", "Dead-Letter-Deliveries": "1", "Dead-Letter-Reason": "terminated",
        "Dead-Letter-Note": "no such thing",
    }  # fmt: skip


def test_a_message_whose_deliveries_are_used_up() -> None:
    burying = Burying()
    plan = burying.open(consumer=None)
    burying.publish("orders.1", b"tea")
    pull = burying.consumer(max_deliver=2, ack_wait=1.0)
    for _ in range(2):
        (message,) = burying.take(pull)
        message.nak()
    assert burying.take(pull) == []
    (advisory,) = burying.advisories(plan)
    assert burying.bury(plan, advisory) is not None
    (letter,) = burying.letters()
    assert letter.headers["Dead-Letter-Reason"] == "max_deliver"
    assert letter.headers["Dead-Letter-Deliveries"] == "2"
    assert "Dead-Letter-Note" not in letter.headers


@promise("It has a letter of its own, beside the old one.")
def test_a_sequence_that_was_given_out_again_has_a_letter_of_its_own() -> None:
    """The stream came back shorter, and another message has the sequence. Each letter is stored once."""
    burying = Burying(orders={"subjects": ["orders.>"], "persist_mode": "async"})
    pair, plan = burying.pair, burying.open()
    worker: list[PullConsumer[JSMsg]] = []

    def give_up(payload: bytes) -> bytes:
        pair.advance(1.0)
        assert burying.publish("orders.1", payload).seq == 1
        pull = burying.consumer(max_deliver=1, ack_wait=1.0)
        (message,) = burying.take(pull)
        message.nak()
        assert burying.take(pull) == []
        worker.append(pull)
        return burying.advisories(plan)[-1]

    stored_at = pair.now
    first = give_up(b"old")
    assert burying.bury(plan, first) is not None
    worker.pop().unsubscribe(pair.now)
    pair.server.restart(pair.now, unsynced_since=stored_at)
    pair.advance(3.0)
    second = give_up(b"new")
    assert burying.bury(plan, second) is not None
    assert burying.bury(plan, second) is None
    assert [(letter.subject, letter.data) for letter in burying.letters()] == [
        ("dead.ORDERS.C.1", b"old"), ("dead.ORDERS.C.1", b"new"),
    ]  # fmt: skip


@promise("Each dead letter is stored once")
def test_an_advisory_that_comes_again_is_stored_once() -> None:
    """Also when the server has forgotten the message id."""
    burying = Burying(dead={"duplicate_window": 0.1})
    plan = burying.open()
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    assert burying.bury(plan, advisory) is not None
    burying.pair.advance(1.0)
    assert burying.bury(plan, advisory) is None
    assert burying.bury(burying.open(), advisory) is None  # another program
    assert len(burying.letters()) == 1


@promise("Several programs may keep the same dead letters.")
def test_two_programs_at_once_store_it_once() -> None:
    burying = Burying(dead={"duplicate_window": 0.1})
    plan = burying.open()
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    js, now = burying.pair.js, burying.pair.now
    tickets = [js.bury(plan, advisory, now=now) for _ in range(2)]
    stored = [burying.pair.run_until(ticket) for ticket in tickets]
    assert sorted(ack is None for ack in stored) == [False, True]
    assert len(burying.letters()) == 1


@promise("With a `subject=` of your own that leaves `{seq}` out")
def test_a_subject_that_letters_share_has_them_once_in_their_order() -> None:
    burying = Burying(dead={"subjects": ["dead"], "duplicate_window": 0.1})
    plan = burying.open()
    burying.give_up()
    (first,) = burying.advisories(plan)
    assert burying.bury(plan, first) is not None
    burying.pair.advance(1.0)
    assert burying.bury(plan, first) is None
    burying.give_up()
    second = burying.advisories(plan)[-1]
    assert burying.bury(plan, second) is not None
    assert [letter.subject for letter in burying.letters()] == ["dead", "dead"]


def test_others_who_write_to_the_subject_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    burying = Burying()
    plan = burying.open()
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    js = burying.pair.js
    found = iter(js.get_msg("DEAD", 1, level="leader", now=burying.pair.now) for _ in range(99))
    burying.publish("dead.ORDERS.C.1", b"theirs")
    burying.publish("dead.ORDERS.C.1", b"theirs too")
    monkeypatch.setattr(type(js), "get_last_msg", lambda *_, **__: next(found))  # what was the last one is not any more
    with pytest.raises(DeadLetterError, match="others write to dead.ORDERS.C.1"):
        burying.bury(plan, advisory)


def test_a_message_that_is_gone_is_a_letter_that_says_so() -> None:
    burying = Burying(orders={"retention": "workqueue"})
    plan = burying.open()
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    burying.bury(plan, advisory)
    (letter,) = burying.letters()
    assert (letter.data, letter.headers["Dead-Letter-Missing"]) == (b"", "gone")
    assert "Dead-Letter-Subject" not in letter.headers


def test_a_stream_that_was_made_again_has_other_messages() -> None:
    burying = Burying()
    plan = burying.open(subject="dead.{subject}")
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    js = burying.pair.js
    burying.pair.advance(1.0)
    burying.pair.run_until(js.delete_stream("ORDERS", now=burying.pair.now))
    assert burying.bury(plan, advisory) is not None
    burying.stream("ORDERS", subjects=["orders.>"])
    burying.publish("orders.1", b"another")
    assert burying.bury(plan, advisory) is None  # the same advisory
    (letter,) = burying.letters()
    assert (letter.subject, letter.data, letter.headers["Dead-Letter-Missing"]) == ("dead.gone", b"", "gone")


def test_a_message_that_came_after_the_advisory_is_another_one() -> None:
    """A sequence may be given out again after a crash of the server."""
    burying = Burying()
    plan = burying.open()
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    inlet = burying.pair.server.api.streams["ORDERS"]
    inlet.stream.truncate(0.0, burying.pair.now)
    burying.pair.advance(1.0)
    burying.publish("orders.1", b"another")
    burying.bury(plan, advisory)
    (letter,) = burying.letters()
    assert (letter.data, letter.headers["Dead-Letter-Missing"]) == (b"", "gone")


def test_a_message_that_is_too_large_with_the_headers_is_a_letter_that_says_so() -> None:
    burying = Burying()
    plan = burying.open()
    burying.give_up(payload=b"x" * (burying.pair.client.max_payload - 20))
    (advisory,) = burying.advisories(plan)
    assert burying.bury(plan, advisory) is not None
    (letter,) = burying.letters()
    assert (letter.data, letter.headers["Dead-Letter-Missing"]) == (b"", "too large")
    assert letter.headers["Dead-Letter-Subject"] == "orders.1"


def test_a_stream_that_refuses_a_letter_is_an_error() -> None:
    burying = Burying(dead={"max_msgs": 1, "discard": "new"})
    plan = burying.open()
    burying.publish("dead.full")
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    with pytest.raises(APIError, match="maximum messages exceeded"):
        burying.bury(plan, advisory)


@pytest.mark.parametrize("advisory", [b"", b"{}", b'{"type":"io.nats.jetstream.advisory.v1.nak"}'])
def test_what_is_no_such_advisory_is_passed_over(advisory: bytes) -> None:
    burying = Burying()
    assert burying.bury(burying.open(), advisory) is None
    assert [type(event) for event in burying.pair.events][-1] is UnexpectedMessage
    assert burying.letters() == []


# -- what it takes -----------------------------------------------------------------------------------------------------


@promise("the one that takes them, or `ORDERS-GIVEN-UP`, which is created.")
def test_the_stream_of_the_advisories_is_created_once() -> None:
    burying = Burying()
    assert burying.open().info.stream_name == "ORDERS-GIVEN-UP"
    info = burying.open().info
    assert (info.stream_name, info.name) == ("ORDERS-GIVEN-UP", "dead-letters-ORDERS-C-to-DEAD")
    assert burying.open(consumer=None).info.name == "dead-letters-ORDERS-to-DEAD"


@promise("the one that takes them, or `ORDERS-GIVEN-UP`, which is created.")
def test_a_stream_that_takes_the_advisories_is_taken() -> None:
    burying = Burying()
    burying.stream("EVENTS", subjects=["$JS.EVENT.ADVISORY.>"])
    plan = burying.open()
    assert plan.info.stream_name == "EVENTS"
    assert burying.open(advisories="EVENTS").info.stream_name == "EVENTS"
    burying.give_up()
    (advisory,) = burying.advisories(plan)
    assert burying.bury(plan, advisory) is not None


def test_the_stream_of_the_advisories_can_be_named() -> None:
    burying = Burying()
    assert burying.open(advisories="OWN").info.stream_name == "OWN"


def test_a_stream_that_takes_half_of_the_advisories_does_not_do() -> None:
    burying = Burying()
    burying.stream("HALF", subjects=["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"])
    with pytest.raises(DeadLetterError, match="HALF does not do .*MSG_TERMINATED.ORDERS.C"):
        burying.open()
    with pytest.raises(DeadLetterError, match="DEAD does not do .*Streams that take such advisories: HALF"):
        burying.open(advisories="DEAD")


@promise("A stream that does not take the subject is a `DeadLetterError` at the start.")
@pytest.mark.parametrize(
    ("dead", "subject", "text"),
    [
        ({}, "lost.{seq}", r"it takes dead\.>, not lost\.\*"),
        ({"subjects": ["dead.*"]}, None, r"it takes dead\.\* first: give subject="),
        ({"subjects": ["dead.*"]}, "dead.{subject}", r"it takes dead\.\*, not dead\.orders\.>"),
        ({"subjects": ["dead.>"]}, "dead.{subject}.{seq}", "is no subject"),
        ({"subjects": None, "mirror": {"name": "ORDERS"}}, None, "it is a mirror"),
    ],
)
def test_a_stream_that_does_not_take_the_subject_is_an_error_at_the_start(
    dead: dict[str, Any], subject: str | None, text: str
) -> None:
    burying = Burying(dead=dead)
    with pytest.raises(DeadLetterError, match=text) as caught:
        burying.open(subject=subject)
    assert caught.value.stream == "DEAD"


def test_a_stream_with_its_name_for_a_subject_takes_letters() -> None:
    burying = Burying(dead={"subjects": None})
    assert burying.open().subject == "DEAD"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (("S", None, "S", None, None), "would go to S itself"),
        (("S", None, "D", "dead.{nothing}", None), "may have {stream}, {consumer}, {seq}, {subject} in braces"),
        (("S", None, "D", "dead.{", None), "may have"),
        (("S", None, "D", 7, None), "may have"),
    ],
)
def test_what_cannot_be_is_refused(spec: Any, text: str) -> None:
    pair = Pair()
    pair.connect()
    with pytest.raises(LocalProtocolError, match=text):
        pair.js.dead_letters(DeadLetterSpec(*spec), now=pair.now)


@pytest.mark.parametrize(
    "spec", [("S.x", None, "D", None, None), ("S", "c.d", "D", None, None), ("S", None, ">", None, None),
             ("S", None, "D", "a..b", None), ("S", None, "D", None, "a b")],
)  # fmt: skip
def test_names_are_checked(spec: Any) -> None:
    pair = Pair()
    pair.connect()
    with pytest.raises(BadSubjectError):
        pair.js.dead_letters(DeadLetterSpec(*spec), now=pair.now)


def test_streams_that_do_not_exist_are_an_error() -> None:
    burying = Burying()
    with pytest.raises(StreamNotFoundError):
        burying.open(to="NOWHERE")
    with pytest.raises(APIError):
        burying.pair.run_until(
            burying.pair.js.dead_letters(DeadLetterSpec("NONE", None, "DEAD", None, None), now=burying.pair.now)
        )
