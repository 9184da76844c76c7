"""Facts that contradict a specification (*Differs* in FACTS.md), one by one: what the server role does with each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import jsproto.server
from jsproto.errors import APIError
from jsproto.grammar.acks import Dialect
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.headers import encode_headers
from jsproto.wire.frames import Msg
from tests.server.harness import ADVISORY, Inlet, Reader
from tests.server.test_atomic import member
from tests.server.test_fast import APPEND, COMMIT, WRONG, Publisher

FACTS: Final = Path(jsproto.server.__file__).with_name("FACTS.md")
ANY: Final = {"subjects": ["s.>"], "storage": "memory"}


def error_of(call: Callable[[], Any]) -> int | None:
    """The code of the error that it raises, None if it raises none."""
    try:
        call()
    except APIError as error:
        return error.err_code
    return None


# -- what is asked of either dialect -----------------------------------------------------------------------------------


def level(dialect: Dialect) -> Any:
    stream = Reader(dialect=dialect).make(allow_batched=True)
    return (stream.config.metadata or {})["_nats.req.level"]


def advisories(dialect: Dialect) -> Any:
    """Types and reasons of advisories: after silence, a gap, a level that is too high, and too many messages."""
    inlet = Inlet(dialect=dialect)
    told = []

    def say(sequence: int, batch: str, **more: str) -> None:
        inlet.inlet.receive(
            Msg(b"s.a", b"", None, encode_headers(member(sequence, batch=batch, **more)), b"x"), inlet.now
        )

    for batch in ("silent", "gap", "level", "long"):
        say(1, batch)
        if batch == "silent":
            inlet.now += 10.0
            inlet.inlet.handle_timeout(inlet.now)
        elif batch == "gap":
            say(3, batch)
        elif batch == "level":
            say(2, batch, Nats_Required_Api_Level="99")
        else:
            for sequence in range(2, 1002):
                say(sequence, batch)
        bodies = [json.loads(payload) for subject, payload in inlet.outbox.answers if subject == ADVISORY]
        told += [(body["type"].rpartition(".")[2], body["reason"]) for body in bodies]
        inlet.outbox.answers.clear()
    return told


def flow_messages(dialect: Dialect) -> Any:
    """An acknowledgement and an error, as they are."""
    batch = Publisher(dialect=dialect)
    raw = []
    for sequence, headers in ((1, None), (2, WRONG)):
        batch.inlet.inlet.receive(_published(batch, sequence, headers), batch.inlet.now)
        raw += [sorted(json.loads(payload)) for _, payload in batch.inlet.outbox.answers]
        batch.inlet.outbox.answers.clear()
    return raw


def _published(batch: Publisher, sequence: int, headers: dict[str, str] | None) -> Any:
    reply = f"{batch.head}.{sequence}.{APPEND if sequence > 1 else 0}.$FI".encode()
    return Msg(b"s.a", b"", reply, encode_headers(headers) if headers else None, b"x")


def gap(dialect: Dialect) -> Any:
    """Message 4 after message 1: the ``last_seq`` of the gap."""
    batch = Publisher(dialect=dialect)
    batch.send(1)
    batch.inlet.inlet.receive(_published(batch, 4, None), batch.inlet.now)
    return json.loads(batch.inlet.outbox.answers[0][1])["last_seq"]


def codes(dialect: Dialect) -> Any:
    """Not allowed, a bad pattern, an id that is too long, an unknown batch."""
    return [
        *Publisher(dialect=dialect, allow_batched=False).send(1),
        *Publisher(dialect=dialect).send(1, 9),
        *Publisher(dialect=dialect, batch="b" * 65).send(1),
        *Publisher(dialect=dialect).send(2),
    ]


def silence(dialect: Dialect) -> Any:
    batch = Publisher(dialect=dialect)
    batch.send(1)
    return batch.inlet.advance(10.0)


def failed_check(dialect: Dialect) -> Any:
    """In gap mode fail: the names of the answers' fields. Then those to a first message."""
    found = []
    for sequence, operation in ((2, APPEND), (1, COMMIT)):
        batch = Publisher(dialect=dialect, gap="fail")
        if sequence == 2:
            batch.send(1)
        answers = batch.send(sequence, operation, WRONG)
        found.append([sorted(each) if isinstance(each, dict) else each for each in answers])
    return found


def direct_by_limit(dialect: Dialect) -> Any:
    """What becomes of ``allow_direct``: with a limit for each subject and without it, asked for and not."""
    return [
        Reader(dialect=dialect).make(max_msgs_per_subject=limit, allow_direct=asked).config.allow_direct
        for limit in (None, 1)
        for asked in (None, True, False)
    ]


def not_direct(dialect: Dialect) -> Any:
    reader = Reader(dialect=dialect)
    reader.make(allow_direct=False)
    return reader.read({"seq": 1})


def time_stamp(dialect: Dialect) -> Any:
    reader = Reader(dialect=dialect)
    reader.make(max_msgs_per_subject=1)
    reader.now = 2.58
    reader.store("s.a")
    ((header, _),) = reader.ask("DIRECT.GET.S", {"seq": 1})
    (found,) = re.findall(rb"Nats-Time-Stamp: ([^\r]*)", header or b"")
    return found


def up_to_time(dialect: Dialect) -> Any:
    reader = Reader(dialect=dialect)
    reader.make(max_msgs_per_subject=5)
    for second in (1.0, 2.0):
        reader.now = second
        reader.store("s.a")
    moment = "1970-01-01T00:00:02Z"
    return reader.read({"multi_last": ["s.a"], "up_to_time": moment}), reader.read({"start_time": moment})


def flow_control_consumer(dialect: Dialect) -> Any:
    """Its flow control and heartbeat, or the code of the refusal: nothing said, no heartbeat, one of 5 s."""
    reader = Reader(dialect=dialect)
    reader.make()
    said = []
    wanted: list[dict[str, Any]] = [{}, {"flow_control": True}, {"flow_control": True, "idle_heartbeat": 5.0}]
    for name, options in enumerate(wanted):
        config = ConsumerConfig(
            durable_name=f"C{name}",
            deliver_subject="to",
            ack_policy="flow_control",
            **options,
        )
        body = {"stream_name": "S", "config": config.to_json()}
        answer = reader.api(f"CONSUMER.DURABLE.CREATE.S.C{name}", body)
        if "error" in answer:
            said.append(answer["error"]["err_code"])
        else:
            said.append((answer["config"]["flow_control"], answer["config"]["idle_heartbeat"] / 1e9))
    return said


def reset_to_0(dialect: Dialect) -> Any:
    reader = Reader(dialect=dialect)
    reader.make()
    config = ConsumerConfig(durable_name="C").to_json()
    reader.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    answers = [reader.api("CONSUMER.RESET.S.C", body) for body in (b"", {"seq": 0}, {"seq": 1})]
    return [answer.get("reset_seq") or answer["error"]["err_code"] for answer in answers]


def server_managed(dialect: Dialect) -> Any:
    reader = Reader(dialect=dialect)
    reader.make()
    managed: Any = [{"name": "S", "consumer": {"name": "D", "server_managed": True}}]
    return error_of(lambda: reader.make("T", sources=managed))


def scaling_up(dialect: Dialect) -> Any:
    """An update from one replica to three, of the default mode and of an asynchronous stream. Then the way back."""
    found = []
    for mode in (None, "async"):
        reader = Reader(dialect=dialect)
        reader.make(storage="file", persist_mode=mode)
        config = {"name": "S", "subjects": ["s.>"], "storage": "file"} | ({"persist_mode": mode} if mode else {})
        answers = [reader.api("STREAM.UPDATE.S", config | {"num_replicas": replicas}) for replicas in (3, 1)]
        found.append([answer.get("error", {}).get("err_code") for answer in answers])
    asked = StreamConfig("N", subjects=["n"], storage="file", persist_mode="async", num_replicas=3)
    return [*found, error_of(lambda: Reader(dialect=dialect).server.add_stream(asked, 0.0))]


class Difference(NamedTuple):
    does: Callable[[Dialect], Any]
    released: Any
    draft: Any


ERROR_IN_ACK: Final = ["batch", "count", "error", "seq"]
DIFFERS: Final[dict[str, Difference]] = {
    "F0.9": Difference(level, "4", "3"),
    "F1.21": Difference(
        advisories,
        [("stream_batch_abandoned", reason) for reason in ("timeout", "incomplete", "unsupported", "large")],
        [("batch_abandoned", reason) for reason in ("timeout", "incomplete", "unsupported", "incomplete")],
    ),
    "F2.2": Difference(
        flow_messages, [["msgs", "seq", "type"], ["error", "seq", "type"]], [["ack_msgs"], ["error", "seq"]]
    ),
    "F2.3": Difference(gap, 2, 1),
    "F2.4": Difference(codes, [10205, 10206, 10207, 10208], [10203, 10204, 10205, 10206]),
    "F2.10": Difference(silence, [], ["timeout b"]),
    "F2.16": Difference(
        failed_check,
        [[("err", 2, 10071), ["batch", "count", "seq"]], [10071]],
        [[ERROR_IN_ACK], [ERROR_IN_ACK]],
    ),
    "F3.1": Difference(direct_by_limit, [False, True, False] * 2, [False] * 3 + [True] * 3),
    "F3.2": Difference(not_direct, ["503 "], []),
    "F3.6": Difference(time_stamp, b"1970-01-01T00:00:02.58Z", b"1970-01-01 00:00:02.58 +0000 UTC"),
    "F3.14": Difference(up_to_time, ([1, "204 EOB"], [2]), ([2, "204 EOB"], [2])),
    "F4.2": Difference(flow_control_consumer, [(True, 1.0)] * 3, [10219, 10108, (True, 5.0)]),
    "F4.8": Difference(reset_to_0, [1, 1, 1], [1, 10204, 1]),
    "F4.11": Difference(server_managed, 10025, None),
    "F6.4": Difference(scaling_up, [[None, None], [10052, None], 10052], [[10052, None], [None, None], 10052]),
}
"""By the fact: what is asked, what released servers do, and what the specification says."""


@pytest.mark.parametrize("fact", DIFFERS)
def test_the_role_does_what_servers_do_and_in_the_draft_what_the_specification_says(fact: str) -> None:
    does, released, draft = DIFFERS[fact]
    assert does("released") == released
    assert does("draft") == draft


def test_no_difference_is_left_out() -> None:
    found = re.findall(r"^- (F\d+\.\d+)(?: .*)? \*Differs\*", FACTS.read_text(), re.MULTILINE)
    assert found == list(DIFFERS)
