"""Recorded conversations about flow-control consumers and sources, answered again by the server role.

They are replayed as those about consumers are. What is random is left out: the last token of ``$JS.FC``, ``$JS.S``,
``$JS.M`` and ``$JSC.R``. The names ``JS_SRC_*`` and ``JS_MIRROR_*`` are not random. ``DIFFERS`` says where the role
answers otherwise, and why.

Not here: resets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from jsproto.grammar.consumer import ConsumerConfig
from jsproto.outbox import Conversation
from jsproto.server.store.stream import Stored
from jsproto.wire.frames import Msg
from tests.marks import requirement
from tests.transcripts.test_server_role_consuming import Replay
from tests.transcripts.test_transcripts import INDEX

SCENARIO: Final = re.compile(r"source-(\w+@\S+)\.json")
RECORDED: Final = {match[1]: entry["file"] for entry in INDEX if (match := SCENARIO.fullmatch(entry["file"]))}
RANDOM: Final = re.compile(r"(\$JS\.(?:[SM]|FC\.\w+\.\w+)|\$JSC\.R)\.\w+")
TIMES: Final = frozenset({"first_ts", "last_ts", "active"})
IN_2099: Final = 4_070_908_800_000_000_000

STRICTER: Final = "an answer beyond what was delivered deletes messages, which the role does not do"
DIFFERS: Final = {
    "fc_reply_variants@2.15.1": STRICTER,
}

ANSWERED: Final = [name for name in RECORDED if name not in DIFFERS and not name.startswith("reset_")]


class Unordered(Replay):
    """A replay that compares JSON objects whatever the order of their fields, and leaves out what is random."""

    def __init__(self, scenario: str, file: str) -> None:
        super().__init__(scenario, file)
        what = scenario.partition("@")[0]
        if what.startswith("durable_"):
            config = ConsumerConfig(durable_name="D", deliver_subject="dlv.d", ack_policy="flow_control")
            self.server.api.consumers.create("S", config, self.now)
        self.publish_to(*BEFORE.get(what, ()))

    def publish_to(self, *subjects: str) -> None:
        """Somebody else publishes a message to each of ``subjects``."""
        for subject in subjects:
            number = self.server.stream(subject[: subject.index(".")].upper()).last_seq + 1
            self.server.publish(subject, b"m%d" % number)
            self.server.handle_timeout(self.now)

    def known(self, message: Msg, said: dict[bytes, bytes]) -> tuple[object, ...]:
        subject, numbers, reply, header, payload = super().known(message, said)
        body = stable(json.loads(payload)) if isinstance(payload, str) else payload
        return plain(subject), plain(numbers), reply, header, body


def plain(said: object) -> object:
    """A subject or a text without what is random."""
    text = said.decode() if isinstance(said, bytes) else said
    return RANDOM.sub(r"\1.?", text) if isinstance(text, str) else text


def stable(body: Any) -> Any:
    """A body without what is random, and without the server's name."""
    if not isinstance(body, dict):
        return [stable(one) for one in body] if isinstance(body, list) else plain(body)
    hidden = {name: "?" for name in body if name in TIMES and body[name] != -1}
    times = {name: "?" for name in ("last_active", "created", "ts", "leader") if name in body}
    return {name: stable(value) for name, value in body.items()} | hidden | times


def stored(replay: Replay, name: str) -> list[Stored]:
    return [*replay.server.stream(name)]


def publish(*subjects: str) -> Callable[[Unordered], None]:
    return lambda replay: replay.publish_to(*subjects)


def delete_the_copy(replay: Replay) -> None:
    assert len(stored(replay, "AGG")) == 4
    replay.server.api.delete("AGG", replay.now)
    replay.server.handle_timeout(replay.now)


def pause_and_publish(replay: Unordered) -> None:
    replay.advance(2.0)
    assert len(stored(replay, "AGG")) == 3
    replay.server.api.consumers.find("S", "D").pause(IN_2099, replay.now)
    replay.publish_to(*5 * ["s.a"])


def resume(replay: Replay) -> None:
    replay.server.api.consumers.find("S", "D").pause(None, replay.now)


def passed_over(replay: Replay) -> None:
    replay.advance(5.0)
    assert [message.payload for message in stored(replay, "AGG")] == [b"m1", b"m2", b"m3", b"m8"]


def all_is_copied(replay: Replay) -> None:
    (copies,) = [name for name in ("AGG", "MIR") if name in replay.server.api.streams]
    assert len(stored(replay, copies)) == replay.server.stream("S").last_seq
    assert stored(replay, "S") == []


class Race(Conversation):
    """Of two resets of the source, the second one: the source subscribes before the consumer delivers."""

    def __init__(self, replay: Replay) -> None:
        self.consumers = replay.server.api.consumers
        self.epoch = replay.server.context.epoch
        self.resets = 0
        replay.server.subscribe("$JS.API.CONSUMER.RESET.>", self)

    def receive(self, message: Msg, now: float) -> None:
        self.resets += 1
        if self.resets == 2:
            self.consumers.find("S", "D").pause(self.epoch + round((now + 0.01) * 10**9), now)


def win_the_second_race(replay: Replay) -> None:
    Race(replay)


# What was there already, as the subjects that were published to. There was a consumer D for each ``durable_*``.
BEFORE: Final[dict[str, tuple[str, ...]]] = {
    "auto_durable": ("sw.a", "sw.a", "si.a", "si.a", "sl.a", "sl.a"),
    "auto_mirror": ("sw.a", "sw.a"),
    "durable_mirror_works": ("s.a", "s.a", "s.a"),
    "durable_source_works": ("s.a", "s.a", "s.a"),
    "durable_source_with_spy": ("s.a", "s.a", "s.a"),
    "durable_source_user_reset": ("s.a", "s.a", "s.a"),
}
# What others did, by the number of the published message before which they did it. With a minus, after which.
ELSEWHERE: Final[dict[str, dict[int, Callable[[Any], None]]]] = {
    "auto_durable": {-1: lambda replay: replay.advance(0.9), 5: delete_the_copy},
    "auto_mirror": {-1: lambda replay: replay.advance(1.5)},
    "durable_mirror_works": {0: all_is_copied},
    "durable_source_works": {-2: publish("s.a", "s.a"), 0: all_is_copied},
    "durable_source_with_spy": {1: win_the_second_race, 0: all_is_copied},
    "durable_source_user_reset": {
        2: lambda replay: replay.advance(1.5), 3: pause_and_publish, -3: resume, 0: passed_over,
    },
}  # fmt: skip


@requirement(162, case="source-auto_durable@2.15.1")
@requirement(162, case="source-auto_mirror@2.15.1")
@pytest.mark.parametrize("name", ANSWERED, ids=lambda name: f"source-{name}")
def test_the_server_role_answers_as_the_release(name: str) -> None:
    Unordered(name, RECORDED[name]).run(ELSEWHERE.get(name.partition("@")[0], {}))


@pytest.mark.parametrize("name", DIFFERS)
def test_what_differs_is_recorded_and_differs_still(name: str) -> None:
    with pytest.raises(AssertionError):
        Unordered(name, RECORDED[name]).run({})
