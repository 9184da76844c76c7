"""An ordered reading proves its position: streams that come back shorter, that drop messages, that forget them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsproto.client.consume.ordered import MAX_HOLES, takes_all
from jsproto.errors import (
    LocalProtocolError,
    MessagesDroppedError,
    RetentionError,
    StreamRecreatedError,
    StreamRolledBackError,
)
from jsproto.events import (
    MessagesMissed,
    StreamRolledBack,
)
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto.grammar.times import format_timestamp
from jsproto.rules.ordered import OrderedPhase
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Msg
from tests.client.ordering import NOBODY, Reading, known, silence, told
from tests.client.pushing import CREATED, ack_subject, heartbeat, refusal
from tests.marks import promise

# -- a stream that came back shorter -----------------------------------------------------------------------------------


@promise("is read on from the first message that is newer than the last one read (event `StreamRolledBack`)")
@promise("Nothing is read meanwhile.")
def test_a_stream_that_is_shorter_is_read_on_from_what_is_newer() -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=2)
    reading.doubt()
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=2)
    assert told(reading, StreamRolledBack) == [StreamRolledBack("S", 3)]
    _, body, reading.request = reading.h.asked()[-1]
    reading.config, reading.last_seq, reading.count = body["config"], 2, 0
    assert (reading.config["deliver_policy"], reading.config.get("opt_start_seq")) == ("by_start_time", None)
    assert reading.config["opt_start_time"] == format_timestamp(CREATED + 1)
    reading.created(at=2)
    reading.push(3, time=CREATED + 9)
    assert reading.take() == [1, 2, 3, 3]
    assert reading.ordered.last_seq == 3


@promise("is read on from the first message that is newer than the last one read (event `StreamRolledBack`)")
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_stream_that_is_shorter_and_has_grown_again(is_gone: bool) -> None:
    reading = known()
    for _ in range(2):
        if reading.ordered.phase is OrderedPhase.FOLLOWING:
            silence(reading)
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), 1, last_seq=20)
        look = reading.look()
        assert look is not None
        assert json.loads(look.payload) == {"seq": 3}
        if is_gone:  # by itself: the first message that is later decides
            reading.h.reply_to(look, refusal(404, 10037))
            look = reading.look()
            assert look is not None
            assert json.loads(look.payload) == {"start_time": format_timestamp(CREATED + 1), "next_by_subj": ">"}
        reading.found(look, 2 if is_gone else 3, CREATED + 5)
        if reading.ordered.phase is OrderedPhase.PAUSED:
            reading.doubt()
    assert told(reading, StreamRolledBack) == [StreamRolledBack("S", 3)]


@promise("Nothing is read meanwhile.")
def test_one_old_answer_changes_nothing() -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=1)
    reading.doubt()
    assert reading.config["opt_start_seq"] == 4
    reading.created()
    reading.push(4)
    assert reading.take() == [1, 2, 3, 4]
    assert not told(reading, StreamRolledBack)


def test_each_position_is_proved_by_its_own_message() -> None:
    reading = known()
    silence(reading)
    reading.created()
    reading.push(4, time=CREATED + 1)
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_ts=format_timestamp(CREATED))
    assert reading.ordered.phase is OrderedPhase.PAUSED


def test_a_position_without_a_message_is_the_end_that_was_seen() -> None:
    """Nothing has come yet: the time of the stream's end proves where the reading began."""
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="new"), answer=False)
    reading.created(at=41)
    for _ in range(2):
        if reading.ordered.phase is OrderedPhase.FOLLOWING:
            silence(reading)
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), 1, last_ts=format_timestamp(CREATED + 7))
        if reading.ordered.phase is OrderedPhase.PAUSED:
            reading.doubt()
    assert told(reading, StreamRolledBack) == [StreamRolledBack("S", 41)]
    _, body, _ = reading.h.asked()[-1]
    assert body["config"]["opt_start_time"] == format_timestamp(CREATED + 1)


def test_a_start_that_nothing_proves_goes_back_to_the_end() -> None:
    reading = Reading(ConsumerConfig(filter_subject="s.a", deliver_policy="new"), answer=False)
    reading.created(at=41, second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=50)
    for _ in range(2):
        if reading.ordered.phase is OrderedPhase.FOLLOWING:
            silence(reading)
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), 1, last_seq=30)
        if reading.ordered.phase is OrderedPhase.PAUSED:
            reading.doubt()
    _, body, _ = reading.h.asked()[-1]
    assert (body["config"]["deliver_policy"], body["config"]["opt_start_seq"]) == ("by_start_sequence", 31)


@pytest.mark.parametrize("answer", ["no responders", "not permitted", "already not permitted"])
def test_a_message_that_nobody_tells_proves_nothing(answer: str) -> None:
    reading = known()
    denial = b"-ERR 'Permissions Violation for Publish to \"$JS.API.STREAM.MSG.GET.S\"'\r\n"
    if answer == "already not permitted":
        reading.h.feed(denial)
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=20)
    look = reading.look()
    assert (look is None) is (answer == "already not permitted")
    if answer == "not permitted":
        reading.h.feed(denial)
    elif look is not None:
        reading.h.reply_to(look, None, NOBODY)
    reading.push(4)
    assert reading.take() == [1, 2, 3, 4]


def test_a_message_that_cannot_be_told_now_is_asked_for_later() -> None:
    reading = known()
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=20)
    look = reading.look()
    assert look is not None
    reading.h.reply_to(look, refusal(503, 10008))
    assert reading.ordered.phase is OrderedPhase.PAUSED


# -- what was dropped before its turn ----------------------------------------------------------------------------------


def drop(reading: Reading, first_seq: int, **keywords: Any) -> None:
    """The next consumer finds a stream that begins there."""
    silence(reading)
    reading.last_seq = 20
    reading.created(at=first_seq - 1, second=None)
    reading.identify(reading.asked_for_identity(), 1, first_seq=first_seq, **keywords)


@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
def test_what_was_dropped_between_two_consumers_is_told_once() -> None:
    reading = known()
    drop(reading, 8)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 7)]
    reading.status(heartbeat(0))
    drop(reading, 8)
    assert told(reading, MessagesMissed) == []
    reading.push(8)
    assert reading.take() == [1, 2, 3, 8]


@pytest.mark.parametrize(
    ("first_seq", "config"), [(4, {}), (8, {"retention": "limits", "max_msgs_per_subject": 1})], ids=["next", "values"]
)
def test_what_is_missing_in_front_is_no_loss(first_seq: int, config: dict[str, Any]) -> None:
    """All that came was dropped. Or each message goes by itself, when its subject has another one."""
    reading = known()
    drop(reading, first_seq, config=config)
    assert told(reading, MessagesMissed) == []


def test_a_start_that_is_not_there_any_more_is_told() -> None:
    config = ConsumerConfig(filter_subject="s.a", deliver_policy="by_start_sequence", opt_start_seq=4)
    reading = Reading(config, answer=False)
    assert reading.config["opt_start_seq"] == 4
    reading.created(at=7, second=None)
    reading.identify(reading.asked_for_identity(), 1, first_seq=8)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 7)]


def test_a_start_beyond_the_end_waits_for_it() -> None:
    config = ConsumerConfig(filter_subject="s.a", deliver_policy="by_start_sequence", opt_start_seq=100)
    reading = Reading(config, answer=False)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_seq=5)
    assert reading.ordered.ready().done
    assert reading.ordered.phase is OrderedPhase.FOLLOWING


def test_a_reading_that_must_miss_nothing_ends() -> None:
    dropped = known(if_missed="error")
    drop(dropped, 8)
    error = dropped.ordered.error
    assert isinstance(error, MessagesDroppedError)
    assert (error.wanted, error.first_seq) == (4, 8)
    assert dropped.take() == [1, 2, 3]
    for kind, answer in ((StreamRolledBackError, (1, 1)), (StreamRecreatedError, (2, 20))):
        reading = known(if_missed="error")
        second, last_seq = answer
        silence(reading)
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), second, last_seq=last_seq)
        reading.doubt()
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), second, last_seq=last_seq)
        assert type(reading.ordered.error) is kind


def test_what_to_do_about_a_loss_is_one_of_two_words() -> None:
    with pytest.raises(LocalProtocolError, match="if_missed"):
        Reading(if_missed="ignore")


# -- retention ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_forgets_what_it_has_sent_is_not_read() -> None:
    reading = Reading(answer=None)
    ready = reading.ordered.ready()
    reading.identify(reading.asked_for_identity(), 1, config={"retention": "interest"})
    assert isinstance(ready.error, RetentionError)
    assert reading.h.asked() == []
    changed = known()
    silence(changed)
    changed.created(second=None)
    changed.identify(changed.asked_for_identity(), 1, config={"retention": "interest"})
    assert isinstance(changed.ordered.error, RetentionError)


# -- holes inside a consumer -------------------------------------------------------------------------------------------

ALL: Any = {"subjects": ["s.a"]}


def reading_all(config: dict[str, Any] | None = None, **options: Any) -> Reading:
    """A reading of all subjects of a stream, which has given three messages."""
    reading = Reading(answer=None, **options)
    reading.identify(reading.asked_for_identity(), 1, config=ALL if config is None else config)
    reading.expect_creation()
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, config=ALL if config is None else config)
    for seq in (1, 2, 3):
        reading.push(seq)
    return reading


def burst(reading: Reading, *seqs: int) -> None:
    """Deliveries that come in one piece."""
    deliver = reading.config["deliver_subject"]
    text = b""
    for seq in seqs:
        reading.count += 1
        reply = ack_subject(reading.config["name"], reading.count, seq)
        text += encode_msg(b"s.a", reading.h.sid(deliver), reply, None, b"%d" % seq)
    reading.h.feed(text)


@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
@pytest.mark.parametrize("is_burst", [False, True])
def test_a_hole_that_limits_have_made_is_told(is_burst: bool) -> None:
    reading = reading_all()
    if is_burst:
        burst(reading, *range(4, 40), 60, *range(61, 90), 95)
    else:
        for seq in (4, 60, 95):
            reading.push(seq)
    holes = [(4 if not is_burst else 39, 60), (60 if not is_burst else 89, 95)]
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=90)
    missed = [MessagesMissed("S", last + 1, min(after, 90) - 1) for last, after in holes if last < 89]
    assert told(reading, MessagesMissed) == missed
    assert reading.ordered.phase is OrderedPhase.FOLLOWING
    assert reading.take()[-1] == 95


def test_holes_that_nobody_has_made_by_limits_are_no_loss() -> None:
    reading = reading_all()
    reading.push(9)
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=2)
    assert told(reading, MessagesMissed) == []
    for config in ({"subjects": ["s.*"]}, ALL | {"max_msgs_per_subject": 1}):  # a filter; each message goes by itself
        passing = reading_all(config)
        passing.push(9)
        assert passing.h.asked() == []


@pytest.mark.parametrize("answer", ["none", "refusal", "nobody", "no room"])
def test_a_hole_that_cannot_be_explained_now_is_explained_later(answer: str) -> None:
    reading = reading_all(session={"pending_size": 2_000})
    if answer == "no room":
        reading.h.session.publish("other", bytes(3_000))
        name = reading.config["name"]
        reading.ordered.receive(Msg(b"s.a", b"1", ack_subject(name, 4, 9), None, b"9"), reading.h.now)
        reading.h.sent()
        reading.count += 1
    else:
        reading.push(9)
        asked = reading.asked_for_identity()
        if answer == "refusal":
            reading.h.reply_to(asked, refusal(404, 10059))
        elif answer == "nobody":
            reading.h.reply_to(asked, None, NOBODY)
        else:
            for _ in range(4):
                reading.h.advance(2.0)
                reading.ordered.receive(Msg(b"s.a", b"1", None, heartbeat(4, 9), b""), reading.h.now)
    assert reading.ordered.phase is OrderedPhase.FOLLOWING
    if answer != "none":
        reading.status(heartbeat(4, 9))
    reading.identify(reading.h.asked()[-1][2], 1, config=ALL, first_seq=9)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 8)]


def test_many_holes_count_as_one() -> None:
    reading = reading_all()
    count = MAX_HOLES + 2
    burst(reading, *range(5, 5 + 2 * count, 2))
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=10_000)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 4 + 2 * count - 2)]


@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
def test_a_hole_before_what_had_no_room_is_told_once() -> None:
    reading = reading_all(pending_msgs_limit=4)
    reading.push(4)
    reading.push(9)
    reading.h.asked()  # for the state of the stream
    assert reading.ordered.phase is OrderedPhase.FULL
    assert reading.take(3) == [1, 2, 3]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 5
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=12)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 5, 11)]


@promise("What limits or a purge took before its turn is the event `MessagesMissed`")
def test_a_hole_that_is_told_stays_told_when_the_next_message_finds_no_room() -> None:
    reading = reading_all(pending_msgs_limit=4)
    reading.push(4, pending=6)
    reading.status(heartbeat(4, 4))
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=11)
    reading.push(11)
    assert reading.take(3) == [1, 2, 3]
    reading.expect_creation()
    assert reading.config["opt_start_seq"] == 11
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=11)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 5, 10)]


def test_a_hole_ends_a_reading_that_must_miss_nothing() -> None:
    reading = reading_all(if_missed="error")
    reading.push(9)
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=9)
    assert isinstance(reading.ordered.error, MessagesDroppedError)


def test_a_hole_is_explained_although_the_consumer_was_left() -> None:
    reading = reading_all()
    reading.push(9)
    reading.asked_for_identity()
    reading.push(11, skip=1)
    reading.expect_creation()
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=9)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 8)]


@pytest.mark.parametrize(
    ("wanted", "stream", "takes"),
    [
        ({}, {"subjects": ["s.>", "t"]}, True),
        ({"filter_subject": "s.>"}, {"subjects": ["s.a", "s.*"]}, True),
        ({"filter_subject": "s.a"}, {"subjects": ["s.*"]}, False),
        ({"filter_subjects": ["s.>", "t.>"]}, {"subjects": ["s.a", "t.a"]}, True),
        ({"filter_subjects": ["s.>", "t.>"]}, {"subjects": ["s.a", "u.a"]}, False),
        ({"filter_subject": "S"}, {}, True),
        ({"filter_subject": "s.>"}, {"subjects": ["s.a"], "sources": [{"name": "T"}]}, False),
        ({"filter_subject": ">"}, {"mirror": {"name": "T"}}, True),
    ],
)
def test_who_takes_all(wanted: dict[str, Any], stream: dict[str, Any], takes: bool) -> None:
    assert takes_all(ConsumerConfig(**wanted), StreamConfig("S", **stream)) is takes


def test_what_was_dropped_after_a_consumer_was_created_is_told_once() -> None:
    reading = known()
    silence(reading)
    reading.last_seq = 20
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, first_seq=8)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 4, 7)]
    reading.status(heartbeat(0))
    silence(reading)
    assert reading.config["opt_start_seq"] == 8


def test_a_message_that_was_taken_proves_the_position_too() -> None:
    reading = known()
    assert reading.take() == [1, 2, 3]
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 1, last_ts=format_timestamp(CREATED + 1))
    assert reading.ordered.phase is OrderedPhase.PAUSED


def test_a_message_of_the_stream_before_proves_nothing() -> None:
    """The new stream is to be read after a sequence that the last message of the old one had."""
    policy = ConsumerConfig(filter_subject="s.a", deliver_policy="by_start_time", opt_start_time=CREATED)
    reading = known(policy)
    for _ in range(2):
        if reading.ordered.phase is OrderedPhase.FOLLOWING:
            silence(reading)
        reading.created(second=2)
        if reading.ordered.phase is OrderedPhase.PAUSED:
            reading.doubt()
    _, body, reading.request = reading.h.asked()[-1]
    reading.config, newer = body["config"], format_timestamp(CREATED + 9)
    reading.created(at=3, second=None)
    reading.identify(reading.asked_for_identity(), 2, last_ts=newer)
    reading.status(heartbeat(0))
    silence(reading)
    reading.created(second=None)
    reading.identify(reading.asked_for_identity(), 2, last_ts=newer)
    assert reading.ordered.phase is OrderedPhase.FOLLOWING


def test_a_start_that_the_stream_has_not_reached_is_no_position() -> None:
    """Nothing was read. So a stream that ends before the start is not one that came back shorter."""
    config = ConsumerConfig(filter_subject="s.a", deliver_policy="by_start_sequence", opt_start_seq=100)
    reading = Reading(config, answer=False)
    for _ in range(2):
        reading.created(second=None)
        reading.identify(reading.asked_for_identity(), 1, first_seq=3, last_seq=5)
        assert reading.ordered.phase is OrderedPhase.FOLLOWING
        reading.status(heartbeat(0))
        silence(reading)
        assert reading.config["opt_start_seq"] == 100
    assert told(reading, MessagesMissed) == []


def test_a_purge_beside_an_idle_consumer_is_told_once() -> None:
    """More waited behind the last message, and the consumer says that it has no more."""
    reading = reading_all()
    reading.push(4, pending=6)
    reading.status(heartbeat(4, 4, "$JS.FC.S.o_1.x"))  # it waits for an answer
    assert reading.h.asked() == []
    reading.status(heartbeat(4, 4))
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=11, last_seq=10)
    assert told(reading, MessagesMissed) == [MessagesMissed("S", 5, 10)]
    reading.status(heartbeat(4, 4))
    assert reading.h.asked() == []
    reading.push(11)
    assert [*reading.take(), *reading.take()] == [1, 2, 3, 4, 11]  # up to the request that waits, and then the rest
    assert reading.h.asked() == []


def test_messages_that_are_gone_one_by_one_beside_an_idle_consumer_are_no_loss() -> None:
    reading = reading_all()
    reading.push(4, pending=1)
    reading.status(heartbeat(4, 4))
    reading.identify(reading.asked_for_identity(), 1, config=ALL, first_seq=1, last_seq=5)
    assert told(reading, MessagesMissed) == []
