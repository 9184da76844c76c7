"""Replies to Direct Gets, split at once: the same messages as one by one, whatever imitates them."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from jsproto.wire.bulk_decoder import _NEXT_REPLY, BulkDecoder
from jsproto.wire.decoder import Decoder
from jsproto.wire.encoder import encode_msg
from jsproto.wire.frames import Frame, MsgRun
from jsproto.wire.limits import Limits
from tests.wire.generated import cut, decode, decode_runs, decoder_of_runs, messages

INBOX = b"_INBOX.x.1"


def block(seq: int, user: bytes = b"") -> bytes:
    return (
        b"NATS/1.0\r\n%bNats-Stream: S\r\nNats-Subject: s.%d\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: 2026-11-20T20:36:46.9105%dZ\r\nNats-Num-Pending: 9\r\nNats-Last-Sequence: %d\r\n\r\n"
    ) % (user, seq, seq, seq, seq - 1)


def reply(seq: int, payload: bytes = b"ok", user: bytes = b"", sid: bytes = b"7") -> bytes:
    return encode_msg(INBOX, sid, None, block(seq, user), payload)


def shape(frames: list[Frame]) -> list[int]:
    """How many messages each run with fields has. 0: it is another frame, or has no fields."""
    return [len(frame.headers) if isinstance(frame, MsgRun) and frame.fields is not None else 0 for frame in frames]


def take_page(run: MsgRun, head: bytes, text: bytes, longest: int, most: int) -> tuple[MsgRun, int]:
    return BulkDecoder(Limits(longest, longest, most))._take_page(run, head, memoryview(text))


def test_they_come_with_their_fields() -> None:
    sent = b"".join(reply(seq, b"%d" % seq) for seq in range(8, 12))
    (row,) = decoder_of_runs().feed(sent)
    assert isinstance(row, MsgRun)
    assert row.messages() == Decoder("client").feed(sent)
    assert row.fields == (
        [b"s.8", b"s.9", b"s.10", b"s.11"],
        [b"8", b"9", b"10", b"11"],
        [b"2026-11-20T20:36:46.9105%dZ" % seq for seq in range(8, 12)],
    )


def test_only_for_the_subscriptions_that_want_them() -> None:
    wanted: set[bytes] = set()
    decoder = decoder_of_runs(wanted)
    assert shape(decoder.feed(reply(1) * 5)) == [0]
    wanted.add(b"8")
    assert shape(decoder.feed(reply(1) * 5 + reply(2, sid=b"8") * 5)) == [0, 5]


@pytest.mark.parametrize("place", [*range(1, len(reply(4, b"\r\nHMSG")), 7), -2, -1])
def test_one_that_is_not_whole_waits(place: int) -> None:
    sent = b"".join(reply(seq, b"\r\nHMSG") for seq in range(1, 4))
    rest = reply(4, b"\r\nHMSG")
    decoder = decoder_of_runs()
    frames = decoder.feed(sent + rest[:place])
    assert shape(frames)[0] == 3
    assert messages(frames + decoder.feed(rest[place:])) == Decoder("client").feed(sent + rest)


@pytest.mark.parametrize("missing", [1, 2, 4])
def test_one_alone_follows_that_is_not_whole(missing: int) -> None:
    sent = reply(1) + reply(2, b"\r\n")
    decoder = decoder_of_runs()
    frames = decoder.feed(sent[:-missing])
    assert shape(frames) == [0]
    assert messages(frames + decoder.feed(sent[-missing:])) == Decoder("client").feed(sent)


BLOCK = block(4)
LINE = b"HMSG %b 7 " % INBOX


@pytest.mark.parametrize(
    ("odd", "known"),
    [
        (reply(4, b"\r\n" + reply(5)), [3, 4]),  # a payload with a whole reply in it
        (reply(4, b"\r\n" + reply(5)[:-2]), [3, 4]),
        (reply(4, user=b"A: b\r\n"), [2, 0]),  # what is between two of them is taken for a payload
        (reply(4, user=block(5)[10:]), [3, 0]),  # what ends as a block of the server's goes on
        (reply(4, sid=b"8"), [3, 0, 3]),
        (encode_msg(INBOX, b"7", None, b"NATS/1.0 204 EOB\r\n\r\n", b""), [2, 0]),
        (b"PING\r\n", [2, 0, 0, 3]),
        (LINE + b"%d %d\r\n%bok\r\n" % (len(BLOCK) - 2, len(BLOCK) + 2, BLOCK), [3, 0]),  # the block ends before
        (LINE + b"0%d %d\r\n%bok\r\n" % (len(BLOCK), len(BLOCK) + 2, BLOCK), [3, 4]),  # not as servers write it
        (reply(4, b"x" * 2_000), [7]),
    ],
)
def test_what_is_odd_ends_the_row(odd: bytes, known: list[int]) -> None:
    before, behind = (b"".join(reply(seq) for seq in seqs) for seqs in (range(1, 4), range(6, 9)))
    frames = decoder_of_runs().feed(before + odd + behind)
    assert messages(frames) == Decoder("client").feed(before + odd + behind)
    assert shape(frames) == known


@pytest.mark.parametrize(
    ("first", "known"),
    [(reply(1, user=b"A: b\r\n"), [0]), (reply(1, b"x" * 1_000), [0]), (reply(1, b"x" * 600), [4])],
)
def test_the_first_one_says_whether_it_is_worth_a_look(first: bytes, known: list[int]) -> None:
    sent = first + reply(2) + reply(3) + reply(4)
    frames = decoder_of_runs().feed(sent)
    assert shape(frames) == known
    assert messages(frames) == Decoder("client").feed(sent)


@pytest.mark.parametrize("digits", [b"1234567890", b"1" * 5_000, b"x", b""])  # int() takes no more than 4300
def test_sizes_that_cannot_be(digits: bytes) -> None:
    odd = LINE + b"%d %b\r\n%bok\r\n" % (len(BLOCK), digits, BLOCK)
    sent = reply(1) + reply(2) + odd
    decoder, plain = decoder_of_runs(), Decoder("client")
    assert messages(decoder.feed(sent)) == plain.feed(sent)
    assert str(decoder.error) == str(plain.error)


def test_the_last_one_ends_as_it_must() -> None:
    sent = reply(1) + reply(2) + reply(3)[:-2] + b"ok"
    decoder, plain = decoder_of_runs(), Decoder("client")
    assert messages(decoder.feed(sent)) == plain.feed(sent)
    assert str(decoder.error) == str(plain.error) == "a message that does not end with CRLF"


def test_limits_hold() -> None:
    sent = reply(1, b"x") + reply(2, b"x" * 1_024) + reply(3, b"x")
    decoder = decoder_of_runs()
    decoder.set_max_payload(1_024)
    assert len(messages(decoder.feed(sent))) == 1
    assert str(decoder.error).startswith("a message of ")
    row, text = MsgRun(INBOX, b"7", None, [block(1)], [b"x"]), b"\r\n" + reply(2)
    longest, most = len(LINE + b"100 100"), len(block(2)) + 2
    assert len(take_page(row, LINE, text, longest, most)[0].headers) == 2
    assert take_page(row, LINE, text, longest - 1, most) == (row, 0)
    assert take_page(row, LINE, text, longest, most - 1) == (row, 0)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2)])
@pytest.mark.parametrize("large", [0, 1, 2])
def test_a_long_header_block_counts_wherever_it_stands(large: int, sizes: tuple[int, int]) -> None:
    """Its message is too large by one byte, though all payloads are small."""
    user = [b"", b"", b""]
    payloads = [b"x" * sizes[at == large] for at in range(3)]
    short = [block(seq) for seq in (2, 3, 4)]
    user[large] = b"y" * (1_025 - len(short[large]) - len(payloads[large]))
    blocks = [each.replace(b"Subject: ", b"Subject: " + more) for each, more in zip(short, user, strict=True)]
    messages_sent = (encode_msg(INBOX, b"7", None, *each) for each in zip(blocks, payloads, strict=True))
    sent = reply(1, b"x") + b"".join(messages_sent)
    decoder, plain = decoder_of_runs(), Decoder("client")
    for each in (decoder, plain):
        each.set_max_payload(1_024)
    found = messages(decoder.feed(sent))
    assert found == plain.feed(sent)
    assert len(found) == 1 + large
    assert str(decoder.error) == str(plain.error)


def test_one_that_is_as_large_as_may_be_is_taken() -> None:
    row, larger = MsgRun(INBOX, b"7", None, [block(1)], [b"x"]), b"x" * 900
    text = b"\r\n" + reply(2, larger) + reply(3, larger + b"x")
    longest, most = len(LINE + b"%d %d" % (len(block(2)), len(block(2)) + 900)), len(block(2)) + 900
    taken, size = take_page(row, LINE, text, longest, most)
    assert (len(taken.headers), size) == (2, len(b"\r\n" + reply(2, larger)) - 2)
    taken, size = take_page(row, LINE, text, longest, most + 1)
    assert (len(taken.headers), size) == (3, len(text) - 2)


@pytest.mark.parametrize("inbox", [b"_INBOX.%.1", b"_INBOX.%d.1", b"%%b"])
def test_a_subject_is_not_a_format(inbox: bytes) -> None:
    for payloads in ([b"x"] * 3, [b"x", b"xx", b"xxx"]):
        sent = b"".join(encode_msg(inbox, b"%7", None, block(seq), payload) for seq, payload in enumerate(payloads))
        frames = decoder_of_runs().feed(sent)
        assert shape(frames) == [3]
        assert messages(frames) == Decoder("client").feed(sent)


def test_what_imitates_them_is_not_searched_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Pattern:
        def split(self, data: memoryview) -> list[bytes]:
            nonlocal searched
            searched += len(data)
            return _NEXT_REPLY.split(data)

    monkeypatch.setattr("jsproto.wire.bulk_decoder._NEXT_REPLY", Pattern())
    pair = reply(1) * 2 + reply(2, sid=b"8") * 2
    data = pair * 100
    assert messages(decoder_of_runs().feed(data)) == Decoder("client").feed(data)
    assert 0 < searched < 17 * len(data)


@st.composite
def pages(draw: st.DrawFn) -> bytes:
    """Replies, some of which are damaged, or imitate others."""
    payloads = st.sampled_from([b"", b"ok", b"\r\n", b"\r\nHMSG ", b"\r\n" + reply(2), b"\r\n" + reply(2)[:-2], BLOCK])
    users = st.sampled_from([b"", b"", b"", b"A: b\r\n", block(3)[10:], b"\r\n"])
    sent = [reply(seq, draw(payloads), draw(users)) for seq in range(1, draw(st.integers(2, 9)))]
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(sent) - 1))
        found = re.search(
            draw(st.sampled_from([b"\r\n\r\n", b" 7 ", b"1", b"HMSG", b"Nats-S", b": ", b"\r\n"])), sent[place]
        )
        if found is not None:
            odd = draw(st.sampled_from([b"", b" ", b"\r\n", b"\t", b"2", b"\n", b"x"]))
            sent[place] = sent[place][: found.start()] + odd + sent[place][found.end() :]
    return b"".join(sent)


@given(pages(), st.data())
def test_a_page_is_read_as_it_is_byte_by_byte(sent: bytes, data: st.DataObject) -> None:
    whole = decode("client", [sent])
    assert decode_runs([sent]) == whole
    assert decode_runs(data.draw(cut(sent))) == whole
