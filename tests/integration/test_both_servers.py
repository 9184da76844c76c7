"""What the specifications ask of servers, asked of a real server and of the role by one client, over sockets.

Not here: recorded conversations (``tests/transcripts``), random programs on both (``differential``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jsproto.api_errors import (
    BatchPublishDisabledError,
    ConsumerInvalidPolicyError,
    ConsumerPushMaxWaitingError,
    ConsumerWQConsumerNotUniqueError,
    StreamMirrorNotUpdatableError,
)
from jsproto.errors import APIError
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.sourcing_consumer import sourcing_consumer
from jsproto_io.sync import JetStream, connect
from jsproto_io.testing import serve
from tests.drivers.test_facade import unique
from tests.marks import promise, requirement

IN_2099 = 4_070_908_800_000_000_000
PATIENCE = 60.0
SOON = 7.0  # seconds: a source that subscribes anew takes four or five


@pytest.fixture(params=[pytest.param("nats-server", marks=pytest.mark.server), "role"])
def js(request: pytest.FixtureRequest) -> Iterator[JetStream]:
    if request.param == "role":
        with serve(port=0) as server, connect(server.url) as nc:
            yield nc.jetstream()
    else:
        with connect(request.getfixturevalue("server").url) as nc:
            yield nc.jetstream()


def wait(condition: Callable[[], object], again: Callable[[], object] | None = None) -> None:
    """Until that holds. ``again``: what is done again where it does not hold soon."""
    now = time.monotonic()
    until, repeat_at = now + PATIENCE, now + SOON
    while not condition():
        now = time.monotonic()
        assert now < until
        if again is not None and now > repeat_at:
            again()
            repeat_at = now + SOON
        time.sleep(0.02)


def made(js: JetStream, **options: Any) -> str:
    """A new stream in memory. One that does not copy takes messages of its own name."""
    name = unique("S")
    js.create_stream(name, storage="memory", **options)
    return name


def publish(js: JetStream, name: str, *numbers: int) -> None:
    for number in numbers:
        js.publish(name, b"%d" % number)


def held(js: JetStream, name: str) -> list[int]:
    state = js.stream_info(name).state
    return [int(js.get_msg(name, seq).data) for seq in range(state.first_seq, state.last_seq + 1)]


# -- batches -----------------------------------------------------------------------------------------------------------


def takes(js: JetStream, name: str) -> tuple[bool, bool]:
    """Whether the stream takes an atomic batch, and a fast one."""
    return _stores(lambda: js.publish_batch([(name, b"x")])), _stores(lambda: _fast(js, name))


def _fast(js: JetStream, name: str) -> None:
    with js.fast_publisher() as batch:
        batch.commit(name, b"x")


def _stores(call: Callable[[], object]) -> bool:
    try:
        call()
    except APIError:
        return False
    return True


@requirement(100)
def test_both_kinds_of_batches_are_switched_by_updates_alone_and_together(js: JetStream) -> None:
    name = made(js)
    assert takes(js, name) == (False, False)
    for atomic, batched in [
        (True, False), (True, True), (False, True), (False, False), (True, True), (False, False), (False, True),
        (True, False),
    ]:  # fmt: skip
        config = js.update_stream(name, allow_atomic=atomic, allow_batched=batched).config
        assert (bool(config.allow_atomic), bool(config.allow_batched)) == (atomic, batched)
        assert takes(js, name) == (atomic, batched)
    js.update_stream(name, allow_atomic=False)
    js.update_stream(name, allow_batched=True)  # one at a time: the other stays
    assert takes(js, name) == (False, True)


@requirement(100)
def test_a_batch_that_is_open_when_its_kind_is_switched_off_ends(js: JetStream) -> None:
    name = made(js, allow_batched=True)
    batch = js.fast_publisher()
    batch.publish(name, b"1")
    js.update_stream(name, allow_batched=False)
    with pytest.raises(BatchPublishDisabledError):
        batch.commit(name, b"2")


@requirement(265)
def test_one_message_is_stored_alike_by_each_way_to_publish(js: JetStream) -> None:
    name = made(js, allow_batched=True, allow_msg_ttl=True)
    headers = {"Kind": "test", "Two": ["a", "b"]}
    options: dict[str, Any] = {"ttl": 3_600}
    js.publish(name, b"same", headers=headers, msg_id="A", **options)
    js.publish_async(name, b"same", headers=headers, msg_id="B", **options).result(timeout=PATIENCE)
    with js.fast_publisher() as batch:
        batch.publish(name, b"same", headers=headers, msg_id="C", **options)
        batch.commit()
    found = [js.get_msg(name, seq) for seq in (1, 2, 3)]
    told = [(message.subject, message.data, [*message.headers.items()]) for message in found]
    ids = [[value for key, value in pairs if key == "Nats-Msg-Id"] for _, _, pairs in told]
    assert ids == [["A"], ["B"], ["C"]]
    plain = [(subject, data, [pair for pair in pairs if pair[0] != "Nats-Msg-Id"]) for subject, data, pairs in told]
    assert plain[0] == plain[1] == plain[2]
    assert ("Kind", "test") in plain[0][2]


# -- consumers ---------------------------------------------------------------------------------------------------------


@requirement(261)
def test_a_work_queue_takes_no_consumers_that_overlap(js: JetStream) -> None:
    root = f"{unique('q')}."
    name = made(js, subjects=[f"{root}>"], retention="workqueue")
    js.create_consumer(name, durable_name="A", filter_subject=f"{root}a")
    js.create_consumer(name, durable_name="B", filter_subject=f"{root}b")
    for overlapping in (f"{root}a", f"{root}*"):
        with pytest.raises(ConsumerWQConsumerNotUniqueError):
            js.create_consumer(name, durable_name="C", filter_subject=overlapping)
    assert sorted(js.consumer_names(name)) == ["A", "B"]


@requirement(262)
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"deliver_subject": "to", "max_waiting": 5}, ConsumerPushMaxWaitingError),
        ({"opt_start_seq": 4}, ConsumerInvalidPolicyError),
        ({"opt_start_time": 0}, ConsumerInvalidPolicyError),
        ({"deliver_policy": "new", "opt_start_seq": 4}, ConsumerInvalidPolicyError),
        ({"deliver_policy": "by_start_sequence"}, ConsumerInvalidPolicyError),
        ({"deliver_policy": "by_start_time"}, ConsumerInvalidPolicyError),
    ],
)
def test_configurations_of_a_consumer_that_are_refused(
    js: JetStream, options: dict[str, Any], error: type[Exception]
) -> None:
    name = made(js)
    with pytest.raises(error):
        js.create_consumer(name, ConsumerConfig(durable_name="C", **options))
    assert js.consumer_names(name) == []


# -- sources -----------------------------------------------------------------------------------------------------------


def durable(name: str, to: str) -> dict[str, Any]:
    return {"name": name, "consumer": {"name": "D", "deliver_subject": to}}


@requirement(263)
@pytest.mark.parametrize("kind", ["sources", "mirror"])
def test_an_origin_may_come_after_its_copy(js: JetStream, kind: str) -> None:
    origin = unique("LATER")
    source: Any = {"name": origin}
    copy = made(js, **{kind: [source] if kind == "sources" else source})
    js.create_stream(origin, storage="memory")
    publish(js, origin, 1, 2)
    wait(lambda: js.stream_info(copy).state.messages == 2)
    assert held(js, copy) == [1, 2]


@requirement(263)
def test_an_origin_need_not_be_connected(js: JetStream) -> None:
    source: Any = {"name": "FAR", "external": {"api": "$JS.nowhere.API", "deliver": ""}}
    copy = made(js, sources=[source])
    assert js.stream_info(copy).state.messages == 0
    assert [found.name for found in js.stream_info(copy).sources or ()] == ["FAR"]


@requirement(259)
def test_a_reset_of_the_consumer_of_a_source_skips_ahead_and_repeats_nothing(
    js: JetStream, request: pytest.FixtureRequest
) -> None:
    """On a real server the source may be at work meanwhile, and then see other messages (FACTS.md F4.36)."""
    origin, to = made(js), unique("to")
    js.create_consumer(origin, sourcing_consumer("D", to))
    publish(js, origin, *range(5))
    copy = made(js, sources=[durable(origin, to)])
    wait(lambda: js.stream_info(copy).state.messages == 5)
    js.pause_consumer(origin, "D", IN_2099)
    js.reset_consumer(origin, "D", 2)
    publish(js, origin, 5, 6)
    js.resume_consumer(origin, "D")
    wait(lambda: held(js, copy)[-1] == 6)
    js.pause_consumer(origin, "D", IN_2099)
    publish(js, origin, *range(7, 12))
    js.reset_consumer(origin, "D", 11)
    js.resume_consumer(origin, "D")
    wait(lambda: held(js, copy)[-1] == 11, again=lambda: js.reset_consumer(origin, "D", 11))
    numbers = held(js, copy)
    assert numbers == sorted({*numbers})
    if request.node.callspec.params["js"] == "role":
        assert numbers == [*range(7), 10, 11]


@requirement(260)
@promise("A stream whose server copies (`sources`) becomes durable")
@promise("So an update alone **copies again** all that the consumer delivers")
@promise("In three steps nothing comes twice, and nothing is left out")
def test_an_update_to_a_durable_source_copies_again_and_three_steps_do_not(js: JetStream) -> None:
    origin = made(js)
    publish(js, origin, *range(5))
    ephemeral: Any = [{"name": origin}]
    again, once = (made(js, sources=ephemeral) for _ in range(2))
    for copy in (again, once):
        wait(lambda copy=copy: js.stream_info(copy).state.messages == 5)  # type: ignore[misc]
    js.create_consumer(origin, sourcing_consumer("D", to := unique("to")))
    js.update_stream(again, sources=[durable(origin, to)])  # type: ignore[list-item]
    wait(lambda: js.stream_info(again).state.messages == 10)
    assert held(js, again) == [*range(5)] * 2
    js.update_stream(once, sources=[])
    publish(js, origin, 5, 6)
    last = js.get_msg(once, js.stream_info(once).state.last_seq)
    copied = int(last.headers["Nats-Stream-Source"].split()[1])
    js.create_consumer(origin, sourcing_consumer("E", to := unique("to"), opt_start_seq=copied + 1))
    js.update_stream(once, sources=[{"name": origin, "consumer": {"name": "E", "deliver_subject": to}}])
    publish(js, origin, 7)
    wait(lambda: js.stream_info(once).state.messages == 8)
    assert held(js, once) == [*range(8)]


@requirement(260)
@promise("A mirror cannot be changed.")
@promise('`update_stream("ARCHIVE", mirror=None)` promotes it, and then it gets the durable source.')
@promise("Until then its last sequence is `copied`.")
def test_a_mirror_becomes_durable_by_its_promotion(js: JetStream) -> None:
    origin, to = made(js), unique("to")
    publish(js, origin, *range(5))
    copy = made(js, mirror={"name": origin})
    wait(lambda: js.stream_info(copy).state.messages == 5)
    with pytest.raises(StreamMirrorNotUpdatableError):
        js.update_stream(copy, mirror=durable(origin, to))  # type: ignore[arg-type]
    js.update_stream(copy, mirror=None)
    publish(js, origin, 5, 6)
    copied = js.stream_info(copy).state.last_seq
    js.create_consumer(origin, sourcing_consumer("D", to, opt_start_seq=copied + 1))
    js.update_stream(copy, sources=[durable(origin, to)])  # type: ignore[list-item]
    wait(lambda: js.stream_info(copy).state.messages == 7)
    assert held(js, copy) == [*range(7)]
