"""What holds for all frames, all bytes and all ways to cut them, in both roles."""

from __future__ import annotations

from unittest.mock import patch

import hypothesis.strategies as st
from hypothesis import example, given

from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, Pub
from tests.marks import promise
from tests.wire.generated import (
    cut,
    damaged,
    decode,
    decode_generally,
    decode_runs,
    fragments,
    frames_for,
    one_by_one,
    roles,
)
from tests.wire.test_pages import pages


@given(roles, st.data())
def test_frames_come_back_as_they_were_sent_however_they_are_cut(role: Role, data: st.DataObject) -> None:
    frames = data.draw(st.lists(frames_for[role], max_size=6))
    sent = b"".join(map(encode, frames))
    assert decode(role, [sent]) == (frames, None, 0)
    assert decode(role, one_by_one(sent)) == (frames, None, 0)
    assert decode(role, data.draw(cut(sent))) == (frames, None, 0)


@given(st.data())
def test_rows_of_messages_with_one_beginning_are_read_as_they_are_byte_by_byte(data: st.DataObject) -> None:
    head = b"HMSG a 1 " + data.draw(st.sampled_from([b"", b" ", b"r ", b"5 "]))
    sizes = st.sampled_from([b"01", b"000000002", b"0000000002", b"3", b"", b" ", b"-", b"+1", b"9" * 9])
    changes = (
        sizes,
        st.sampled_from([b"  ", b"\t", b""]),
        sizes,
        st.sampled_from([b"\n", b"\r"]),
        st.sampled_from([b"o\r\n", b"okay\r\n", b"ok\n\n"]),
    )
    frames = [[b"1", b" ", b"2", b"\r\n", b"ok\r\n"] for _ in range(4)]
    for _ in range(data.draw(st.integers(0, 2))):
        part = data.draw(st.integers(0, 4))
        data.draw(st.sampled_from(frames))[part] = data.draw(changes[part])
    sent = b"".join(head + b"".join(frame) for frame in frames)
    whole = decode("client", [sent])
    assert decode("client", one_by_one(sent)) == whole
    assert decode("client", data.draw(cut(sent))) == whole
    assert decode_runs([sent]) == whole
    assert decode_runs(data.draw(cut(sent))) == whole


rows = st.builds(
    lambda head, messages: [Msg(b"a", b"1", head, header, payload) for header, payload in messages],
    st.sampled_from([None, b"", b"r"]),
    st.lists(st.tuples(st.sampled_from([b"", b"h", b"\r\n"]), st.sampled_from([b"", b"p", b"\r\n"])), max_size=5),
)


@given(st.lists(rows | frames_for["client"].map(lambda frame: [frame]), max_size=6), st.data())
def test_rows_stand_where_their_messages_stood(rows: list[list[Frame]], data: st.DataObject) -> None:
    frames = [frame for row in rows for frame in row]
    sent = b"".join(map(encode, frames))
    assert decode_runs([sent]) == (frames, None, 0)
    assert decode_runs(data.draw(cut(sent))) == (frames, None, 0)


@st.composite
def deliveries(draw: st.DrawFn) -> bytes:
    """Messages as consumers deliver them, and what is nearly one."""
    strange = (
        st.sampled_from([b"HMSG", b"msg", b"MSG ", b"PING\r\nMSG", b"MSG a\r\nMSG", b"+OK\nMSG"]),
        st.sampled_from([b"a b", b"a\tb", b"a\nb", b"a\rb", b"\t", b"", b"x" * 513, b"\xff"]),
        st.sampled_from([b"2", b"1 ", b"1\t", b"", b"\r\n"]),
        st.sampled_from(
            [b"$JS.ACK.", b"$JS.ACK", b"r", b"", b"$JS.ACK.\n", b"$JS.ACK.\tx", b"$JS.ACK.x 2", b"$JS.ACK.\r"]
        ),
        st.sampled_from([b"02", b"+2", b"2 ", b"", b"1", b"3", b"1 2", b"0 2", b"9999999999"]),
        st.sampled_from([b"\n", b"\r", b"\r\n\r\n"]),
        st.sampled_from([b"\n\n", b"\r\n", b"okay", b"o", b"", b"x" * 1025]),
        st.sampled_from([b"\n", b"", b"\r", b"x\r\n", b"\r\nPING\r\n", b"\r\nMSG a 1  0\r\n\r\n"]),
    )
    messages = []
    for number in range(draw(st.integers(1, 14))):
        header = draw(
            st.sampled_from(
                [None, None, b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: \n\r\nB:b\r\n\r\n", b"NATS/1.0\r\n", b""]
            )
        )
        payload = draw(
            st.sampled_from(
                [
                    b"ok",
                    b"",
                    b"\n",
                    b"MSG a 1 $JS.ACK.e 0\r\n",
                    b"\r\nMSG a 1 $JS.ACK.e 0\r\n",
                    b"NATS/1.0\r\n\r\n",
                    b"x" * 1024,
                ]
            )
        )
        sizes = b"%d" % len(payload) if header is None else b"%d %d" % (len(header), len(header) + len(payload))
        verb = b"MSG" if header is None else b"HMSG"
        messages.append([verb, b"a", b"1", b"$JS.ACK.%d" % number, sizes, b"\r\n", (header or b"") + payload, b"\r\n"])
    for _ in range(draw(st.integers(0, 2))):
        part = draw(st.integers(0, 7))
        draw(st.sampled_from(messages))[part] = draw(strange[part])
    return b"".join(b" ".join(message[:5]) + b"".join(message[5:]) for message in messages)


@given(deliveries(), st.data())
def test_what_consumers_deliver_is_read_as_it_is_byte_by_byte(sent: bytes, data: st.DataObject) -> None:
    whole = decode("client", [sent])
    assert decode("client", one_by_one(sent)) == whole
    assert decode_runs([sent]) == whole
    assert decode_runs(data.draw(cut(sent))) == whole


@st.composite
def acknowledgements(draw: st.DrawFn) -> bytes:
    """Messages without reply and header, for some subscriptions, and what is nearly one."""
    strange = (
        st.sampled_from([b"HMSG", b"msg", b"MSG ", b"PING\r\nMSG", b"MSG a\r\nMSG", b"+OK\nMSG", b"MSG a 1"]),
        st.sampled_from([b"a b", b"a\tb", b"a\nb", b"a\rb", b"\t", b"", b"x" * 513, b"\xff", b"a 1 2\r\nok\r\nMSG a"]),
        st.sampled_from([b"1 ", b"1\t", b"", b"\r\n", b"1 r", b"1 $JS.ACK.x", b"x" * 513]),
        st.sampled_from([b"02", b"+2", b"2 ", b"", b"1", b"3", b"1 2", b"0 2", b"9999999999"]),
        st.sampled_from([b"\n", b"\r", b"\r\n\r\n"]),
        st.sampled_from([b"\n\n", b"\r\n", b"okay", b"o", b"", b"x" * 1025]),
        st.sampled_from([b"\n", b"", b"\r", b"x\r\n", b"\r\nPING\r\n", b"\r\nMSG a 1  0\r\n\r\n"]),
    )
    payloads = st.sampled_from([b"ok", b"", b"\n", b"MSG a 1 0\r\n", b"\r\nMSG a 1 0\r\n", b"\r\n", b"x" * 1024])
    messages = []
    for number in range(draw(st.integers(1, 14))):
        payload = draw(payloads)
        sid = draw(st.sampled_from([b"1", b"1", b"1", b"2"]))
        messages.append([b"MSG", b"a.%d" % number, sid, b"%d" % len(payload), b"\r\n", payload, b"\r\n"])
    for _ in range(draw(st.integers(0, 2))):
        part = draw(st.integers(0, 6))
        draw(st.sampled_from(messages))[part] = draw(strange[part])
    return b"".join(b" ".join(message[:4]) + b"".join(message[4:]) for message in messages)


@given(acknowledgements(), st.data())
def test_messages_without_reply_and_header_are_read_as_they_are_byte_by_byte(sent: bytes, data: st.DataObject) -> None:
    whole = decode("client", [sent])
    assert decode("client", one_by_one(sent)) == whole
    assert decode_runs([sent]) == whole
    assert decode_runs(data.draw(cut(sent))) == whole


some_rows = st.lists(rows, max_size=4).map(lambda found: b"".join(encode(frame) for row in found for frame in row))


@given(roles, st.data())
def test_it_makes_no_difference_how_a_frame_that_was_begun_is_finished(role: Role, data: st.DataObject) -> None:
    sent = data.draw(st.one_of(deliveries(), acknowledgements(), fragments, damaged(role), some_rows))
    whole = decode(role, [sent])
    with patch.multiple("jsproto.wire.decoder", _PIECE=data.draw(st.sampled_from([3, 20])), _MUCH=30):
        assert decode(role, data.draw(cut(sent))) == whole
        if role == "client":
            assert decode_runs(data.draw(cut(sent))) == whole


in_any_order = st.lists(st.one_of(deliveries(), acknowledgements(), some_rows), max_size=4).map(b"".join)


@given(st.one_of(st.binary(max_size=60), fragments, damaged("client"), in_any_order, pages()), st.data())
def test_in_bulk_the_messages_are_those_of_the_general_reader(sent: bytes, data: st.DataObject) -> None:
    """For any bytes and any cut, with runs and without."""
    whole = decode_generally([sent])
    assert decode("client", data.draw(cut(sent))) == whole
    assert decode_runs([sent]) == whole
    assert decode_runs(data.draw(cut(sent))) == whole


@given(roles, st.data())
def test_what_was_decoded_encodes_to_the_same_bytes(role: Role, data: st.DataObject) -> None:
    sent = b"".join(map(encode, data.draw(st.lists(frames_for[role], max_size=6))))
    assert b"".join(map(encode, decode(role, [sent])[0])) == sent


@promise("Receiving never raises.")
@given(roles, st.data())
def test_bad_bytes_never_raise_and_come_to_the_same_however_they_are_cut(role: Role, data: st.DataObject) -> None:
    sent = data.draw(st.one_of(st.binary(max_size=60), fragments, damaged(role)))
    whole = decode(role, [sent])
    assert decode(role, one_by_one(sent)) == whole
    assert decode(role, data.draw(cut(sent))) == whole


@given(roles, st.data())
def test_the_error_quotes_the_same_beginning_however_the_bytes_are_cut(role: Role, data: st.DataObject) -> None:
    sent = data.draw(fragments | damaged(role))
    quoted = [b"", b""]
    for number, pieces in enumerate(([sent], one_by_one(sent))):
        decoder = Decoder(role)
        for piece in pieces:
            decoder.feed(piece)
        quoted[number] = b"" if decoder.error is None else decoder.error.data
    assert quoted[0].startswith(quoted[1])
    assert sent.find(quoted[0]) >= 0
    assert bool(quoted[0]) == bool(quoted[1])


@given(st.data())
def test_blanks_letter_case_leading_zeros_and_bare_line_feeds_change_nothing(data: st.DataObject) -> None:
    role = data.draw(roles)
    frames = data.draw(st.lists(frames_for[role], max_size=4))
    sent = b"".join(data.draw(loosely(frame)) for frame in frames)
    expected = [with_reply_or_none(frame) for frame in frames]
    assert decode(role, [sent]) == (expected, None, 0)
    assert decode(role, data.draw(cut(sent))) == (expected, None, 0)


def with_reply_or_none(frame: Frame) -> Frame:
    """More than two blanks, or tabs, where the reply would be: no reply."""
    if isinstance(frame, Msg) and not frame.reply:
        return Msg(frame.subject, frame.sid, None, frame.header, frame.payload)
    return frame


margins = st.sampled_from([b"", b" ", b"\t", b" \t"])
separators = st.sampled_from([b"\t", b" \t ", b"   ", b"\t\t"])  # not two blanks: they are an empty reply


@st.composite
def loosely(draw: st.DrawFn, frame: Frame) -> bytes:
    """The frame as no peer writes it, though it may."""
    line, _, rest = encode(frame).partition(b"\r\n")
    verb, blank, arguments = line.partition(b" ")
    verb = b"".join(draw(st.sampled_from([letter, letter.lower()])) for letter in one_by_one(verb))
    end = draw(st.sampled_from([b"\r\n", b"\n"]))
    if isinstance(frame, Info | Connect | Err):
        if isinstance(frame, Err):
            arguments = draw(margins) + arguments + draw(margins)
        return verb + blank + arguments + end
    words = [word for word in arguments.split(b" ") if word]
    if isinstance(frame, Msg | Pub):
        sizes = 1 if frame.header is None else 2
        words[-sizes:] = [word.rjust(draw(st.integers(0, 9)), b"0") for word in words[-sizes:]]
    return verb + b"".join(draw(separators) + word for word in words) + draw(margins) + end + rest


@promise("Memory is bounded whatever the peer sends.")
@given(st.binary(max_size=200), st.sampled_from([1, 7, 64]))
@example(b"MSG a 1 5\r\nhel", 64)
def test_never_more_is_kept_than_was_fed(data: bytes, step: int) -> None:
    decoder = Decoder("client")
    for place in range(0, len(data), step):
        before = decoder.pending
        piece = data[place : place + step]
        decoder.feed(piece)
        assert decoder.pending <= before + len(piece)
