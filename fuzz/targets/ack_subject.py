"""Any reply subject is that of a delivery or raises NotJSMessageError; what parses is written and read as the same.

Besides: the two short cuts, for one subject and for many at once, find what the full parse finds.
"""

from __future__ import annotations

from jsproto.errors import NotJSMessageError
from jsproto.grammar.jsack import JSAck, build_jsack, jsack_sequences, jsack_times, parse_jsack
from jsproto.rules.sequence_gaps import DeliverySequence
from jsproto.server.consume.acks import read_acknowledgement

LARGE = 10**12  # sequences; with a jump over more digits than a time has, times of many at once are not looked for


def run(data: bytes) -> None:
    """One input: a subject, or several, one on each line."""
    replies = data.split(b"\n")
    for reply in replies:
        check(reply)
    found = [delivery for delivery in map(parsed, replies) if delivery is not None]
    found = [each for each in found if names(each) == names(found[0]) and place(each) < LARGE]
    times = [b"%019d" % delivery.timestamp for delivery in found]
    assert jsack_times([build_jsack(delivery) for delivery in found]) == times, "another time of many at once"
    together, alone = DeliverySequence(), DeliverySequence()
    taken = together.count_in_sequence(replies)
    for reply in replies[:taken]:
        assert alone.delivered(reply) is None, "a delivery was counted that is not the next one"
    reached = together.consumer_seq, together.stream_seq
    assert reached == (alone.consumer_seq, alone.stream_seq), "another place after many at once"


def check(reply: bytes) -> None:
    """One subject."""
    read_acknowledgement(reply.decode("utf-8", "surrogateescape"), b"-NAK " + reply)
    found = parsed(reply)
    try:
        sequences = jsack_sequences(reply)
    except NotJSMessageError:
        assert found is None, "the short cut refuses what is a delivery"
        return
    if found is None:
        return  # the short cut does not look at the other tokens
    assert sequences == (found.sequence.stream, found.sequence.consumer)
    written = build_jsack(found)
    assert parsed(written) == found
    said = read_acknowledgement(written.decode(), b"")
    for read, meant in ((said.stream_seq, sequences[0]), (said.consumer_seq, sequences[1])):
        assert read in (meant, -1), "the server's side reads another sequence"


def place(delivery: JSAck) -> int:
    """The larger one of its sequences."""
    return max(delivery.sequence.stream, delivery.sequence.consumer)


def names(delivery: JSAck) -> tuple[str | None, ...]:
    """Whose delivery it is."""
    return (delivery.domain, delivery.account_hash, delivery.stream, delivery.consumer)


def parsed(reply: bytes) -> JSAck | None:
    """The delivery, None when it is none."""
    try:
        return parse_jsack(reply)
    except NotJSMessageError:
        return None
