"""Messages of a consumer with one subject and equal lengths: cut by their places, and the same as read one by one."""

from __future__ import annotations

import pytest

from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import DeliveryRun, Msg
from jsproto.wire.limits import Limits
from tests.wire.generated import decode, decode_runs, decoder_of_runs, delivered, messages

BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"
HEADER_BLOCKS = pytest.mark.parametrize("header", [b"", BLOCK], ids=["plain", "headers"])


def equal(count: int, header: bytes = b"", payload: bytes = b"ok") -> list[bytes]:
    """Messages that differ in the numbers of their ack subjects alone."""
    total = len(header) + len(payload)
    verb, sizes = (b"HMSG", b"%d %d" % (len(header), total)) if header else (b"MSG", b"%d" % total)
    reply = b"$JS.ACK.S.C.1.%d.%d.1.0"
    return [
        b"%b s.a 12 %b %b\r\n%b%b\r\n" % (verb, reply % (number, number), sizes, header, payload)
        for number in range(1_000, 1_000 + count)
    ]


class Unsearched:
    """In the place of the expression, where nothing may be left to it."""

    def split(self, data: bytes) -> list[bytes | None]:
        raise AssertionError(data)


@HEADER_BLOCKS
@pytest.mark.parametrize("payload", [b"ok", b"", b"\r\n", b"MSG a 1 2\r\nok\r\n", b"x" * 2000])
def test_equal_messages_are_cut_by_their_places(header: bytes, payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.bulk_decoder._CONSUMER_RUN", Unsearched())
    sent = equal(64, header, payload)
    begun = equal(1)[0][:-5]
    decoder = decoder_of_runs()
    (run,) = decoder.feed(b"".join(sent) + begun)
    assert decoder.pending == len(begun)
    assert isinstance(run, DeliveryRun)
    assert run.size == 64 * len(header + payload)
    assert b"".join(map(encode, run.messages())) == b"".join(sent)
    assert run.raws[63] == (b"s.a", b"$JS.ACK.S.C.1.1063.1063.1.0", header or None, payload)


def test_long_control_lines_are_not_compared_for_a_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message.replace(b"s.a", b"s" * 400) for message in equal(64)]
    monkeypatch.setattr("jsproto.wire.bulk_decoder.iter_unpack", None)
    assert [type(frame) for frame in decoder_of_runs().feed(b"".join(sent))] == [DeliveryRun]


def test_a_few_equal_messages_before_others_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.bulk_decoder.iter_unpack", None)
    sent = equal(3) + equal(90, b"", b"other")
    assert messages(decoder_of_runs().feed(b"".join(sent))) == Decoder("client").feed(b"".join(sent))


@HEADER_BLOCKS
def test_equal_messages_end_where_one_is_not(header: bytes) -> None:
    for odd in (b"PING\r\n", delivered(9), equal(1, header, b"longer")[0]):
        some, others = equal(70, header), equal(90, header)
        frames = decoder_of_runs().feed(b"".join(some) + odd + b"".join(others))
        assert [type(frame) for frame in frames] == [DeliveryRun, type(Decoder("client").feed(odd)[0]), DeliveryRun]
        assert encode(frames[0]) + encode(frames[2]) == b"".join(some + others)


def test_replies_that_are_no_consumer_s_end_equal_messages() -> None:
    sent = equal(64)
    others = [message.replace(b"$JS.ACK.", b"$JS.ACQ.") for message in sent]
    run, *rest = decoder_of_runs().feed(b"".join(sent + others))
    assert isinstance(run, DeliveryRun)
    assert len(run.raws) == 64
    assert {type(frame) for frame in rest} == {Msg}


@HEADER_BLOCKS
@pytest.mark.parametrize("number", [0, 1, 21, 22, 25, 29])
@pytest.mark.parametrize("byte", [b" ", b"\t", b"\r", b"\n", b"0", b"9", b"X"])
def test_one_byte_that_differs_is_read_as_it_is_byte_by_byte(header: bytes, number: int, byte: bytes) -> None:
    sent = equal(30, header)
    for place in range(len(sent[number])):
        changed = sent[number][:place] + byte + sent[number][place + 1 :]
        data = b"".join([*sent[:number], changed, *sent[number + 1 :]])
        assert decode_runs([data]) == decode("client", [data])


@pytest.mark.parametrize(
    "message",
    [
        b"MSG s 1 2\r\nok\r\n",
        b"MSG s 1  2\r\nok\r\n",
        b"MSG s 1 r 2\r\nok\r\n",
        b"HMSG s 1 $JS.ACK.x 3 2\r\nok\r\n",
        b"MSG s 1 $JS.ACK.x 2\r\nok\r\r",
        b"MSG %b 1 $JS.ACK.x 2\r\nok\r\n" % (b"s" * 3000),
        b"MSG s 1 $JS.ACK.x 2001\r\n%b\r\n" % bytes(2001),
        b"MSG s 1 $JS.ACK.x 2600\r\n%b\r\n" % bytes(2600),
    ],
    ids=["no reply", "empty reply", "another reply", "large header", "no end", "long line", "large", "too large"],
)
def test_what_is_equal_must_be_good_as_well(message: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.bulk_decoder._PLACES", 100)
    limits = Limits(2500, 2500, 2000)
    general, decoder = Decoder("client", limits), Decoder("client", limits)
    decoder.allow_runs(())
    assert messages(decoder.feed(message * 64)) == general.feed(message * 64)
    assert str(decoder.error) == str(general.error)
