"""Many messages at once: when the quick reader takes them, what it costs, and that the messages are the same."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from jsproto.wire.bulk_decoder import _CONSUMER_RUN, _PLAIN_RUN
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode
from jsproto.wire.frames import DeliveryRun, Msg, PlainRun, RawMsg
from tests.wire.generated import decode, decode_runs, decoder_of_runs, delivered, messages, plain


def test_the_control_lines_of_a_row_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.bulk_decoder.MAX_LINES", 2)
    sizes = [1, 2, 3, 2, 2, 10, 3, 100, 1]
    decoder = Decoder("client")
    for page in (b"a", b"a", b"b"):
        row = b"".join(b"HMSG %b 1 r 1 %d\r\nh%b\r\n" % (page, size + 1, b"x" * size) for size in sizes)
        frames = decoder.feed(row)
        assert [len(frame.payload) for frame in frames if isinstance(frame, Msg)] == sizes
        assert decoder._bulk is not None
        assert len(decoder._bulk._lines) <= 5  # those of one row
        assert all(line.startswith(b"\r\nHMSG %b 1 r 1 " % page) for line in decoder._bulk._lines)


def test_what_is_remembered_of_a_row_does_not_outlive_a_limit() -> None:
    row = b"HMSG a 1 r 1 2\r\nhx\r\n" + 2 * b"HMSG a 1 r 1 5\r\nhwxyz\r\n"
    decoder = Decoder("client")
    assert len(decoder.feed(row)) == 3
    decoder.set_max_payload(4)
    assert len(decoder.feed(row)) == 1
    assert "5 bytes, at most 4" in str(decoder.error)


def test_a_row_that_is_cut_in_a_message_goes_on_with_the_rest_of_it() -> None:
    message = b"HMSG a 1 r 1 3\r\nhok\r\n"
    decoder = Decoder("client")
    assert decoder.feed(3 * message + message[:-4]) == 3 * [Msg(b"a", b"1", b"r", b"h", b"ok")]
    assert decoder.feed(message[-4:]) == [Msg(b"a", b"1", b"r", b"h", b"ok")]


def test_a_message_of_a_row_that_is_too_large_is_refused() -> None:
    decoder = Decoder("client")
    decoder.set_max_payload(4)
    frames = decoder.feed(b"HMSG a 1 r 1 2\r\nhx\r\nHMSG a 1 r 1 4\r\nhxyz\r\nHMSG a 1 r 1 5\r\nhwxyz\r\n")
    assert len(frames) == 2
    assert "5 bytes, at most 4" in str(decoder.error)


def test_whole_plain_messages_take_the_short_way(general: list[int]) -> None:
    plain = b"MSG a 1 2\r\nok\r\nMSG a 1 r 2\r\nok\r\nMSG a 1  0\r\n\r\n"
    plain += b"HMSG a 1 2 4\r\nhhok\r\nHMSG a 1 r 2 4\r\nhhok\r\n"
    assert len(Decoder("client").feed(plain * 20)) == 100
    assert general == []
    assert len(Decoder("client").feed(plain + b"PING\r\n" + plain)) == 11
    assert general == [len(plain)]


def test_what_a_consumer_delivers_comes_at_once(general: list[int]) -> None:
    frames = decoder_of_runs().feed(b"".join(delivered(number) for number in range(20)))
    raws: list[RawMsg] = [(b"s.%d" % n, b"$JS.ACK.S.C.1.%d.%d.1.0" % (n, n), None, b"ok") for n in range(20)]
    assert frames == [DeliveryRun(b"1", raws, 40)]
    assert general == []
    (run,) = frames
    assert isinstance(run, DeliveryRun)
    assert encode(run) == b"".join(delivered(number) for number in range(20))
    assert run.messages()[7] == run.message(7) == Msg(b"s.7", b"1", raws[7][1], None, b"ok")


def test_a_few_come_one_by_one_as_the_same_messages(monkeypatch: pytest.MonkeyPatch, general: list[int]) -> None:
    data = b"".join(delivered(number) for number in range(4))
    (run,) = decoder_of_runs().feed(data)
    assert isinstance(run, DeliveryRun)
    monkeypatch.setattr("jsproto.wire.bulk_decoder._SHORT", len(data) + 1)
    assert decoder_of_runs().feed(data) == run.messages()
    assert general == []


def test_two_messages_decide_whether_more_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            searched.append(len(data))
            return _CONSUMER_RUN.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._CONSUMER_RUN", Pattern())
    monkeypatch.setattr("jsproto.wire.bulk_decoder._PLACES", 0)  # equal lengths are nothing special
    small, large, other = delivered(1), delivered(2, b"x" * 1025), delivered(3, sid=b"2")
    rest = small * 9
    for first in (small + large, large + small, small + other, other + small, small + b"PING\r\n"):
        assert messages(decoder_of_runs().feed(first + rest)) == Decoder("client").feed(first + rest)
        assert len(searched) == (b"PING" in first)  # after it
    frames = decoder_of_runs().feed(other + other + rest)
    assert [len(frame.raws) for frame in frames if isinstance(frame, DeliveryRun)] == [2, 9]


def test_messages_without_reply_and_header_come_at_once(general: list[int]) -> None:
    sent = b"".join(plain(number) for number in range(20))
    (run,) = decoder_of_runs().feed(sent)
    assert run == PlainRun([b"1"] * 20, [b"s.%d" % number for number in range(20)], [b"ok"] * 20)
    assert isinstance(run, PlainRun)
    assert encode(run) == sent
    assert run.messages()[7] == run.message(7) == Msg(b"s.7", b"1", None, None, b"ok")
    assert general == []
    assert decoder_of_runs().feed(sent[:-3]) == [PlainRun(run.sids[:-1], run.subjects[:-1], run.payloads[:-1])]


def test_two_messages_decide_whether_plain_ones_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            searched.append(len(data))
            return _PLAIN_RUN.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._PLAIN_RUN", Pattern())
    small, large = plain(1), plain(2, b"x" * 1025)
    with_header, empty, other = b"HMSG a 1 1 2\r\nhx\r\n", b"MSG a 1  0\r\n\r\n", b"MSG a 1 r 0\r\n\r\n"
    for first in (small + large, large, small + with_header, with_header, small + empty, empty, small + other, other):
        assert messages(decoder_of_runs().feed(first + small * 9)) == Decoder("client").feed(first + small * 9)
        assert searched == []
    assert len(decoder_of_runs().feed(small + plain(2, sid=b"2") + small * 9)) == 1
    assert len(searched) == 1


def test_plain_messages_of_several_subscriptions_come_at_once(general: list[int]) -> None:
    sids = [b"1"] * 5 + [b"2", b"1"] * 3 + [b"3"] * 2 + [b"1"]
    sent = b"".join(plain(number, sid=sid) for number, sid in enumerate(sids))
    (run,) = decoder_of_runs().feed(sent)
    assert isinstance(run, PlainRun)
    assert run.messages() == Decoder("client").feed(sent)
    assert general == []
    in_order = run.by_sid(())
    assert [(run.sids[0], len(run.sids)) for run in in_order] == [(sid, len([*row])) for sid, row in groupby(sids)]
    assert [message for run in in_order for message in run.messages()] == run.messages()
    # Only those that may overtake each other do.
    assert [(run.sids[0], len(run.sids)) for run in run.by_sid((b"1", b"2"))] == [
        (b"1", 8),
        (b"2", 3),
        (b"3", 2),
        (b"1", 1),
    ]
    assert [(run.sids[0], len(run.sids)) for run in run.by_sid((b"1", b"2", b"3"))] == [(b"1", 9), (b"2", 3), (b"3", 2)]
    assert [len(run.sids) for run in run.by_sid((b"1",))] == [len(run.sids) for run in in_order]


def test_a_message_that_is_different_interrupts_plain_ones(general: list[int]) -> None:
    run = b"".join(plain(number) for number in range(9))
    for frame in (plain(9, b"\r\n"), plain(9, b"x" * 1025), b"PING\r\n", delivered(1), b"HMSG a 1 1 1\r\nh\r\n"):
        frames = decoder_of_runs().feed(run + frame + run)
        assert [type(frame) for frame in frames] == [PlainRun, type(frames[1]), PlainRun]
        assert messages(frames) == Decoder("client").feed(run + frame + run)
    few = b"".join(plain(number) for number in range(4))  # what follows is read message by message
    frames = decoder_of_runs().feed(few + plain(5, b"\r\n") + run)
    assert [type(frame) for frame in frames] == [PlainRun, *[Msg] * 10]


def test_runs_of_each_kind_follow_each_other() -> None:
    sent = b"".join(make(number) for make in (delivered, plain, delivered, plain) for number in range(20))
    frames = decoder_of_runs().feed(sent)
    assert messages(frames) == Decoder("client").feed(sent)
    # The message that ends a run is read by itself.
    assert [type(frame) for frame in frames] == [DeliveryRun, Msg, PlainRun, Msg, DeliveryRun, Msg, PlainRun]


def test_headers_come_along(general: list[int]) -> None:
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    line = b"HMSG s.a 1 $JS.ACK.x %d %d\r\n"
    good = line % (len(header), len(header) + 2) + header + b"ok\r\n"
    raw = (b"s.a", b"$JS.ACK.x", header, b"ok")
    assert decoder_of_runs().feed(good * 9) == [DeliveryRun(b"1", [raw] * 9, 9 * (len(header) + 2))]
    for odd in (line % (0, 2) + b"ok\r\n", line % (len(header), len(header) + 4) + header + b"\r\nok\r\n"):
        run, message, rest = decoder_of_runs().feed(good * 9 + odd + good * 9)
        assert type(run) is type(rest) is DeliveryRun
        assert [message] == Decoder("client").feed(odd)
    elsewhere = line % (2, len(header) + 2) + header + b"ok\r\n"  # the header block ends before its last line
    run, message = decoder_of_runs().feed(good * 9 + elsewhere)
    assert [message] == Decoder("client").feed(elsewhere)
    assert general == [9 * len(good)] * 3
    spoiled = good.replace(b"s.a", b"s\ta")
    decoder = decoder_of_runs()
    assert encode(decoder.feed(good * 9 + spoiled)[0]) == good * 9
    assert str(decoder.error) == "a wrong number of arguments"


def test_each_subscription_gets_its_own() -> None:
    sids = [b"1"] * 9 + [b"2"] + [b"3"] * 2 + [b"1"] * 2
    frames = decoder_of_runs().feed(b"".join(delivered(number, sid=sid) for number, sid in enumerate(sids)))
    assert [type(frame) for frame in frames] == [DeliveryRun, Msg, DeliveryRun, DeliveryRun]
    assert [frame.size for frame in frames if isinstance(frame, DeliveryRun)] == [18, 4, 4]
    found = [frame.messages() if isinstance(frame, DeliveryRun) else [frame] for frame in frames]
    assert [message.sid for run in found for message in run if isinstance(message, Msg)] == sids


def test_a_message_that_is_different_interrupts_what_comes_at_once(general: list[int]) -> None:
    run = b"".join(delivered(number) for number in range(9))
    different = [delivered(9, b"\r\n"), delivered(9, b"x" * 1025), b"PING\r\n", b"MSG a 1 0\r\n\r\n"]
    for frame in different:
        frames = decoder_of_runs().feed(run + frame + run)
        assert [type(frame) for frame in frames] == [DeliveryRun, type(frames[1]), DeliveryRun]
    assert general == [len(run)] * 4
    general.clear()
    few = b"".join(delivered(number) for number in range(4))  # what follows is read message by message
    assert [type(frame) for frame in decoder_of_runs().feed(few + delivered(5, b"\r\n") + run)] == [
        DeliveryRun,
        *[Msg] * 10,
    ]
    assert general == []


def all_equal(count: int, header: bytes = b"", payload: bytes = b"ok") -> list[bytes]:
    """Messages that a consumer delivers, of one subject and equally long in everything."""
    replies = [b"$JS.ACK.S.C.1.%d.%d.1.0" % (number, number) for number in range(1000, 1000 + count)]
    sizes = b"%d %d" % (len(header), len(header) + len(payload)) if header else b"%d" % len(payload)
    verb = b"HMSG" if header else b"MSG"
    return [b"%b s.a 12 %b %b\r\n%b%b\r\n" % (verb, reply, sizes, header, payload) for reply in replies]


@pytest.mark.parametrize("number", [0, 1, 15, 28, 29])
@pytest.mark.parametrize("byte", [b" ", b"\t", b"\r", b"\n", b"0", b"9", b"X"])
def test_wherever_one_byte_of_a_plain_message_differs_it_is_read_as_it_is(number: int, byte: bytes) -> None:
    sent = [plain(number) for number in range(1_000, 1_030)]
    for place in range(len(sent[number])):
        changed = sent[number][:place] + byte + sent[number][place + 1 :]
        data = b"".join([*sent[:number], changed, *sent[number + 1 :]])
        assert decode_runs([data]) == decode("client", [data])


HEADER_BLOCKS = pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\nA: b\r\n\r\n"], ids=["plain", "headers"])


@HEADER_BLOCKS
@pytest.mark.parametrize("number", [0, 1, 21, 22, 25, 29])
@pytest.mark.parametrize("byte", [b" ", b"\t", b"\r", b"\n", b"0", b"9", b"X"])
def test_wherever_one_byte_differs_it_is_read_as_it_is_byte_by_byte(header: bytes, number: int, byte: bytes) -> None:
    sent = all_equal(30, header)
    for place in range(len(sent[number])):
        changed = sent[number][:place] + byte + sent[number][place + 1 :]
        data = b"".join([*sent[:number], changed, *sent[number + 1 :]])
        assert decode_runs([data]) == decode("client", [data])


@pytest.mark.parametrize("size", [0, 500, 1000, 2000])
def test_header_blocks_may_be_large(size: int) -> None:
    header = b"NATS/1.0\r\nA: %b\r\n\r\n" % (b"b" * size)
    data = b"".join(all_equal(1, header, b"x" * length)[0] for length in range(90))
    assert decode_runs([data]) == decode("client", [data])


def test_payloads_that_look_like_messages_are_not_searched_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            nonlocal searched
            searched += len(data)
            return _CONSUMER_RUN.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._CONSUMER_RUN", Pattern())
    lure = delivered(9, b"\r\n" + delivered(9, b"")[:-2])
    data = (b"".join(delivered(number) for number in range(9)) + lure) * 50
    frames = decoder_of_runs().feed(data)
    assert len(frames) == 500
    assert searched == len(data)


def test_plain_payloads_that_look_like_messages_are_not_searched_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            nonlocal searched
            searched += len(data)
            return _PLAIN_RUN.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._PLAIN_RUN", Pattern())
    lure = plain(9, b"\r\n" + plain(9, b"")[:-2])
    data = (b"".join(plain(number) for number in range(9)) + lure) * 50
    assert len(decoder_of_runs().feed(data)) == 500
    assert searched == len(data)


@pytest.mark.parametrize(
    "frame",
    [
        b"MSG s\t 1 $JS.ACK.S.C.1.1.1.1.0 2\r\nok\r\n",
        b"HMSG s 1 $JS.ACK.S.C.1.1.1.1.0 10 12\r\nNATS/1.0\r\nok\r\nPING\r\n",
    ],
    ids=["tabs", "endless header blocks"],
)
def test_what_is_not_what_it_looks_like_is_not_searched_for_each_frame(
    frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = 0

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            nonlocal searched
            searched += len(data)
            return _CONSUMER_RUN.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._CONSUMER_RUN", Pattern())
    data = frame * 200
    frames = decoder_of_runs().feed(data)
    assert frames == Decoder("client").feed(data)
    assert len(frames) >= 200
    assert searched < 20 * len(data)


def test_a_row_that_ends_costs_no_copy_of_what_follows() -> None:
    class Sliced(bytes):
        copied = 0

        def __getitem__(self, key: Any) -> Any:
            piece = super().__getitem__(key)
            Sliced.copied += len(piece) if isinstance(piece, bytes) else 0
            return piece

    # Each line begins as the one before it and goes on differently.
    pair = b"HMSG a 1 0 0\r\n\r\nHMSG a 1 %b 0 0\r\n\r\n" % (b"r" * 25)
    data = Sliced(pair * 200)
    assert len(Decoder("client").feed(data)) == 400
    assert Sliced.copied <= len(data)
