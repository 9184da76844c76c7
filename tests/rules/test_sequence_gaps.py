"""Gap detection: by the consumer sequence, on messages and heartbeats, whatever the version of the ack subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.errors import NotJSMessageError
from jsproto.grammar.jsack import JSAck, Sequences, build_jsack
from jsproto.rules.sequence_gaps import UNKNOWN, DeliverySequence, SequenceGap
from tests.marks import promise, requirement


def reply(consumer_seq: int, stream_seq: int | None = None, *, delivered: int = 1, v2: bool = False) -> bytes:
    domain, account = ("hub", "szMpdrwD") if v2 else (None, None)
    sequence = Sequences(consumer_seq if stream_seq is None else stream_seq, consumer_seq)
    return build_jsack(JSAck(domain, account, "S", "C%d", delivered, sequence, 1795207799011748863, 7))


def take(deliveries: DeliverySequence, subject: bytes) -> SequenceGap | None:
    """As whoever receives a message does it."""
    if subject.startswith(deliveries.expected_prefix):
        deliveries.advance()
        return None
    return deliveries.delivered(subject)


@pytest.mark.parametrize("v2", [False, True])
def test_what_follows_is_recognised_by_the_beginning_of_its_subject(v2: bool) -> None:
    deliveries = DeliverySequence()
    assert not reply(1, v2=v2).startswith(deliveries.expected_prefix)
    assert deliveries.delivered(reply(1, 41, v2=v2)) is None
    for number in range(2, 200):
        assert reply(number, 40 + number, v2=v2).startswith(deliveries.expected_prefix)
        assert not reply(number, 40 + number, v2=v2, delivered=2).startswith(deliveries.expected_prefix)
        assert not reply(number, 41 + number, v2=v2).startswith(deliveries.expected_prefix)
        assert not reply(number + 1, 40 + number, v2=v2).startswith(deliveries.expected_prefix)
        deliveries.advance()
        assert (deliveries.stream_seq, deliveries.consumer_seq) == (40 + number, number)


def test_holes_in_the_stream_and_redeliveries_are_no_gaps() -> None:
    deliveries = DeliverySequence()
    for consumer_seq, stream_seq, delivered in [(1, 3, 1), (2, 9, 1), (3, 3, 2), (4, 10, 1), (5, 11, 1)]:
        assert take(deliveries, reply(consumer_seq, stream_seq, delivered=delivered)) is None
    assert deliveries.heartbeat(5) is None


steps = st.tuples(st.sampled_from([1, 1, 1, 1, 0, 2]), st.sampled_from([1, 1, 3, 0, -1]), st.sampled_from([1, 1, 1, 2]))


@given(st.lists(steps, max_size=9), st.booleans(), st.sampled_from([b"junk", b"$JS.ACK.S.C%d.1.x.6.1.1", None]))
def test_many_at_once_come_to_the_same(steps: list[tuple[int, int, int]], v2: bool, junk: bytes | None) -> None:
    consumer_seq, stream_seq = 5, 40
    replies = []
    for consumer, stream, delivered in steps:
        consumer_seq, stream_seq = consumer_seq + consumer, stream_seq + stream
        replies.append(reply(consumer_seq, stream_seq, delivered=delivered, v2=v2))
    if junk is not None:
        replies.insert(len(replies) // 2, junk)
    one_by_one, at_once = DeliverySequence(4), DeliverySequence(4)
    for deliveries in (one_by_one, at_once):
        assert deliveries.count_in_sequence([]) == 0
        assert deliveries.delivered(reply(5, 40, v2=v2)) is None
    count = at_once.count_in_sequence(replies)
    for subject in replies[:count]:
        last = one_by_one.stream_seq
        assert take(one_by_one, subject) is None
        assert one_by_one.stream_seq > last
    for name in ("consumer_seq", "stream_seq", "expected_prefix"):
        assert getattr(at_once, name) == getattr(one_by_one, name)
    if count < len(replies):  # the next one is to be looked at
        assert not replies[count].startswith(one_by_one.expected_prefix)


@pytest.mark.parametrize("start", [(1, 1), (990, 990), (7, 9_990), (123, 98_765)])  # they may get another digit
@pytest.mark.parametrize("odd", [None, 16, 700, 1_199])
@pytest.mark.parametrize("v2", [False, True])
def test_very_many_at_once_come_to_the_same(start: tuple[int, int], odd: int | None, v2: bool) -> None:
    consumer_seq, stream_seq = start
    replies = [reply(consumer_seq + number, stream_seq + number, v2=v2) for number in range(1, 1_200)]
    if odd is not None:
        replies[odd - 1] = reply(consumer_seq + odd + 1, stream_seq + odd, v2=v2)
    deliveries = DeliverySequence(consumer_seq - 1)
    assert deliveries.delivered(reply(consumer_seq, stream_seq, v2=v2)) is None
    count = len(replies) if odd is None else odd - 1
    assert deliveries.count_in_sequence(replies) == count
    assert (deliveries.consumer_seq, deliveries.stream_seq) == (consumer_seq + count, stream_seq + count)
    assert reply(consumer_seq + count + 1, stream_seq + count + 1, v2=v2).startswith(deliveries.expected_prefix)


def test_many_at_once_behind_a_lost_one_are_looked_at_again() -> None:
    deliveries = DeliverySequence()
    assert deliveries.delivered(reply(1)) is None
    assert deliveries.heartbeat(2) == SequenceGap(2, 3)
    assert deliveries.count_in_sequence([reply(number) for number in range(3, 40)]) == 37


def test_many_at_once_are_looked_at_one_by_one_as_long_as_nothing_is_known() -> None:
    deliveries = DeliverySequence()
    assert deliveries.count_in_sequence([reply(1), reply(2)]) == 0
    assert (deliveries.consumer_seq, deliveries.stream_seq) == (0, 0)


@requirement(228)
def test_a_lost_message_shows_at_the_next_one_and_once() -> None:
    deliveries = DeliverySequence()
    assert take(deliveries, reply(1)) is None
    broken = take(deliveries, reply(4))
    assert broken == SequenceGap(2, 4)
    assert (broken.missing, broken.restarted) == (2, False)
    assert take(deliveries, reply(5)) is None


@requirement(228)
def test_a_lost_message_shows_at_the_next_heartbeat_and_once() -> None:
    deliveries = DeliverySequence()
    assert take(deliveries, reply(1)) is None
    assert deliveries.heartbeat(1) is None
    assert deliveries.heartbeat(3) == SequenceGap(2, 4)
    assert deliveries.heartbeat(3) is None
    assert take(deliveries, reply(4)) is None
    assert take(deliveries, reply(5)) is None


def test_the_first_message_may_be_lost_too() -> None:
    assert DeliverySequence().heartbeat(0) is None
    assert DeliverySequence().heartbeat(1) == SequenceGap(1, 2)
    assert DeliverySequence().delivered(reply(2)) == SequenceGap(1, 2)


def test_a_number_that_comes_again_is_a_restart() -> None:
    deliveries = DeliverySequence()
    for number in range(1, 6):
        assert take(deliveries, reply(number)) is None
    broken = take(deliveries, reply(1))
    assert broken == SequenceGap(6, 1)
    assert (broken.missing, broken.restarted) == (0, True)
    assert take(deliveries, reply(2)) is None
    assert deliveries.heartbeat(0) == SequenceGap(3, 1)


def test_a_consumer_that_was_not_followed_from_the_beginning() -> None:
    deliveries = DeliverySequence(UNKNOWN)
    assert deliveries.delivered(reply(70)) is None
    assert take(deliveries, reply(72)) == SequenceGap(71, 72)
    deliveries = DeliverySequence(UNKNOWN)
    assert deliveries.heartbeat(69) is None
    assert take(deliveries, reply(72)) == SequenceGap(70, 72)


@requirement(212)
def test_a_server_may_change_the_version_of_its_subjects() -> None:
    deliveries = DeliverySequence()
    for number, v2 in enumerate((False, False, True, True, False), 1):
        assert take(deliveries, reply(number, v2=v2)) is None
    assert deliveries.consumer_seq == 5


@pytest.mark.parametrize("subject", [b"", b"a.b", b"$JS.ACK.S.C.1.x.3.4.5", b"$JS.ACK.S.C.1.2.3.4.5.6"])
def test_what_is_no_ack_subject_changes_nothing(subject: bytes) -> None:
    deliveries = DeliverySequence()
    assert take(deliveries, reply(1)) is None
    with pytest.raises(NotJSMessageError):
        deliveries.delivered(subject)
    assert take(deliveries, reply(2)) is None


@promise("every message at most once, in order, until a server is killed")
@promise("every message at most once, in order, until a server is killed: messages may then")
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["message", "heartbeat", "both"])), max_size=60),
    st.lists(st.integers(1, 3), min_size=60, max_size=60),
    st.booleans(),
)
def test_every_lost_delivery_is_counted_once_what_follows_it_arrives(
    deliveries: list[tuple[bool, str]], steps: list[int], v2: bool
) -> None:
    """A consumer delivers; each message, and each heartbeat behind it, arrives or does not."""
    seen, lost, counted, stream_seq = DeliverySequence(), 0, 0, 0
    for number, ((arrives, what), step) in enumerate(zip(deliveries, steps, strict=False), 1):
        stream_seq += step
        broken = None
        if arrives and what != "heartbeat":
            broken = take(seen, reply(number, stream_seq, v2=v2))
        else:
            lost += 1
        counted += broken.missing if broken else 0
        if arrives and what != "message":
            broken = seen.heartbeat(number)
            counted += broken.missing if broken else 0
            assert counted == lost
    broken = seen.heartbeat(len(deliveries))
    counted += broken.missing if broken else 0
    assert counted == lost
