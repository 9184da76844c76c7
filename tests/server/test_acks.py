"""What is read from acknowledgements and from answers to flow control."""

from __future__ import annotations

import pytest

from jsproto.server.consume.acks import AckKind, nak_delay, read_acknowledgement, read_flow_answer
from tests.marks import requirement

VERSION_1 = "$JS.ACK.S.C.2.7.9.1000.0"
VERSION_2 = "$JS.ACK._.szMpdrwD.S.C.2.7.9.1000.0"


@pytest.mark.parametrize("subject", [VERSION_1, VERSION_2, f"{VERSION_2}.more", f"{VERSION_2}.more.tokens"])
def test_both_versions_say_the_same(subject: str) -> None:
    ack = read_acknowledgement(subject, b"+ACK")
    assert (ack.deliveries, ack.stream_seq, ack.consumer_seq) == (2, 7, 9)


@pytest.mark.parametrize(
    ("payload", "kind", "argument"),
    [
        (b"", AckKind.ACK, b""), (b"+ACK", AckKind.ACK, b""), (b"+OK", AckKind.ACK, b""),
        (b"+NXT", AckKind.NEXT, b""), (b'+NXT {"batch":2}', AckKind.NEXT, b' {"batch":2}'),
        (b"-NAK", AckKind.NAK, b""), (b"-NAK 600ms ", AckKind.NAK, b"600ms"), (b"+WPI", AckKind.PROGRESS, b""),
        (b"+TERM", AckKind.TERM, b""), (b"+TERM no use", AckKind.TERM, b"no use"),
        (b"+ACK ", AckKind.UNKNOWN, b""), (b"+ack", AckKind.UNKNOWN, b""), (b"+WPI ", AckKind.UNKNOWN, b""),
    ],
)  # fmt: skip
def test_words(payload: bytes, kind: AckKind, argument: bytes) -> None:
    ack = read_acknowledgement(VERSION_1, payload)
    assert (ack.kind, ack.argument) == (kind, argument)


@pytest.mark.parametrize("token", ["", "x", "-1", "+1", "1.5", "\u0661", str(2**63), "1" * 21])
def test_a_number_that_is_none_fits_no_message(token: str) -> None:
    assert read_acknowledgement(f"$JS.ACK._.H.S.C.2.{token.replace('.', '_')}.9.1000.0", b"").stream_seq == -1


@pytest.mark.parametrize("subject", ["$JS.ACK.S.C", "$JS.ACK._.H.S.C", "$JS.ACK._.H.S.C.2", "$JS.ACK.S.C.2.7.9.1"])
def test_a_subject_without_numbers_is_read(subject: str) -> None:
    ack = read_acknowledgement(subject, b"")
    assert -1 in (ack.deliveries, ack.stream_seq, ack.consumer_seq)


@pytest.mark.parametrize(
    ("argument", "delay"),
    [
        (b"", None), (b'{"delay":5}', 5), (b"{}", 0), (b'{"delay":"1s"}', None), (b"{", None), (b"600ms", 600_000_000),
        (b"7", None), (b"\xff", None),
    ],
)  # fmt: skip
def test_delays(argument: bytes, delay: int | None) -> None:
    assert nak_delay(argument) == delay


@requirement(152)
@pytest.mark.parametrize(
    ("header", "numbers"),
    [
        (None, (-1, -1)),
        (b"NATS/1.0\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 5\r\n\r\n", (3, 5)),
        (b"NATS/1.0\r\nNats-Last-Stream: 5\r\n\r\n", (-1, 5)),
        (b"NATS/1.0\r\nNats-Last-Consumer: \xff\r\n\r\n", (-1, -1)),
    ],
)
def test_answers_to_flow_control(header: bytes | None, numbers: tuple[int, int]) -> None:
    assert read_flow_answer(header) == numbers
