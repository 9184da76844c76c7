"""What each control line means, what is refused, and where the limits are; example by example, both roles."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from jsproto.errors import MAX_QUOTED
from jsproto.wire.decoder import _DELIVERED, Decoder, Role
from jsproto.wire.encoder import encode
from jsproto.wire.frames import Connect, DeliveryRun, Err, Frame, Info, Msg, Ok, Ping, Pong, Pub, RawMsg, Sub, Unsub
from jsproto.wire.limits import (
    CLIENT_LIMITS,
    DEFAULT_MAX_PAYLOAD,
    HARD_MAX_PAYLOAD,
    MAX_CONNECT_LINE,
    MAX_CONTROL_LINE,
    MAX_DELIVERY_LINE,
    MAX_INFO_LINE,
    SERVER_LIMITS,
    Limits,
)
from tests.wire.generated import decode, decode_rows, one_by_one

VERB = "an unknown verb"
LONG = "a control line that is too long"
ARGUMENTS = "a wrong number of arguments"
NUMBER = "a number that is not 1 to 9 digits"
CR = "a CR that does not end the line"
TRAILER = "a message that does not end with CRLF"
HEADER = "a header block that is larger than its message"


def check(role: Role, data: bytes, frames: list[Frame], error: str | None = None) -> None:
    """These frames, then this error, whole and byte by byte; nothing is kept."""
    assert decode(role, [data]) == (frames, error, 0)
    assert decode(role, one_by_one(data)) == (frames, error, 0)


# -- what servers send -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (b"INFO {}\r\n", Info(b"{}")),
        (b'info  {"a": 1}\t\r\n', Info(b' {"a": 1}\t')),
        (b"INFO\r\n", Info(b"")),
        (b"PING\r\n", Ping()),
        (b"pInG \t\r\n", Ping()),
        (b"PONG\n", Pong()),
        (b"+OK\r\n", Ok()),
        (b"+ok\r\n", Ok()),
        (b"-ERR 'Stale Connection'\r\n", Err(b"Stale Connection")),
        (b"-err\t 'a 'b' c' \r\n", Err(b"a 'b' c")),
        (b"-ERR ''\r\n", Err(b"")),
        (b"-ERR '\r\n", Err(b"'")),
        (b"-ERR no quotes\r\n", Err(b"no quotes")),
        (b"-ERR 'one\r\n", Err(b"'one")),
        (b"-ERR\r\n", Err(b"")),
        (b"MSG a 1 2\r\nok\r\n", Msg(b"a", b"1", None, None, b"ok")),
        (b"MSG a 1 r 2\r\nok\r\n", Msg(b"a", b"1", b"r", None, b"ok")),
        (b"MSG a 1 5 2\r\nok\r\n", Msg(b"a", b"1", b"5", None, b"ok")),
        (b"MSG a 1 0\r\n\r\n", Msg(b"a", b"1", None, None, b"")),
        (b"MSG a 1 000000002\r\nok\r\n", Msg(b"a", b"1", None, None, b"ok")),
        (b"msg a 1 2\r\nok\r\n", Msg(b"a", b"1", None, None, b"ok")),
        (b"MSG a 1 2\nok\r\n", Msg(b"a", b"1", None, None, b"ok")),
        (b"MSG \ta\t1  r   2\t\r\nok\r\n", Msg(b"a", b"1", b"r", None, b"ok")),
        (b"MSG a\v1\0\xff 1\f r\v 2\r\nok\r\n", Msg(b"a\v1\0\xff", b"1\f", b"r\v", None, b"ok")),
        (b"MSG a 1 2\r\n\r\n\r\n", Msg(b"a", b"1", None, None, b"\r\n")),
        (b"HMSG a 1 2 4\r\nhhok\r\n", Msg(b"a", b"1", None, b"hh", b"ok")),
        (b"HMSG a 1 r 2 4\r\nhhok\r\n", Msg(b"a", b"1", b"r", b"hh", b"ok")),
        (b"HMSG a 1 9 2 4\r\nhhok\r\n", Msg(b"a", b"1", b"9", b"hh", b"ok")),
        (b"HMSG a 1 0 0\r\n\r\n", Msg(b"a", b"1", None, b"", b"")),
        (b"HMSG a 1 2 2\r\nhh\r\n", Msg(b"a", b"1", None, b"hh", b"")),
        (b"hmsg a 1 r\t2 4\nhhok\r\n", Msg(b"a", b"1", b"r", b"hh", b"ok")),
    ],
)
def test_what_servers_send(data: bytes, frame: Frame) -> None:
    check("client", data, [frame])


def test_a_row_of_messages_is_read_as_each_of_them_alone() -> None:
    first = b"HMSG a 1 r 1 3\r\nhok\r\n"
    good = Msg(b"a", b"1", b"r", b"h", b"ok")
    following = {
        b"HMSG a 1 r 000000001 000000003\r\nhok\r\n": None,
        b"HMSG a 1 r 0000000001 3\r\nhok\r\n": NUMBER,
        b"HMSG a 1 r 1 0000000003\r\nhok\r\n": NUMBER,
        b"HMSG a 1 r 1 x\r\nhok\r\n": NUMBER,
        b"HMSG a 1 r 3\r\nhok\r\n": NUMBER,
        b"HMSG a 1 r \r\n": ARGUMENTS,
        b"HMSG a 1 r 4 3\r\nhok\r\n": HEADER,
        b"HMSG a 1 r 1 3\r\nhok \r\n": TRAILER,
        b"HMSG a 1 r 1 3\r\nhok\r \n": TRAILER,
    }
    for data, error in following.items():
        check("client", first + data, [good] if error else [good, good], error)
        check("client", first + first + data, [good, good] if error else [good, good, good], error)
    check("client", first + first + b"HMSG b 1 r 1 3\r\nhok\r\n", [good, good, Msg(b"b", b"1", b"r", b"h", b"ok")])
    other = b"HMSG a 1 r " + b"2" * 20 + b" 3\r\n"  # no line end where two sizes would end
    check("client", first + other, [good], NUMBER)


def test_the_control_lines_of_a_row_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.decoder.MAX_LINES", 2)
    sizes = [1, 2, 3, 2, 2, 10, 3, 100, 1]
    decoder = Decoder("client")
    for page in (b"a", b"a", b"b"):
        row = b"".join(b"HMSG %b 1 r 1 %d\r\nh%b\r\n" % (page, size + 1, b"x" * size) for size in sizes)
        frames = decoder.feed(row)
        assert [len(frame.payload) for frame in frames if isinstance(frame, Msg)] == sizes
        assert len(decoder._lines) <= 5  # those of one row
        assert all(line.startswith(b"\r\nHMSG %b 1 r 1 " % page) for line in decoder._lines)


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


@pytest.mark.parametrize("verb", [b"MSG", b"msg"])
def test_two_blanks_in_the_place_of_the_reply_are_an_empty_reply(verb: bytes) -> None:
    check("client", verb + b" a 1  2\r\nok\r\n", [Msg(b"a", b"1", b"", None, b"ok")])
    check("client", b"H" + verb + b" a 1  1 2\r\nok\r\n", [Msg(b"a", b"1", b"", b"o", b"k")])
    for line in (b" a 1   2", b" a  1 2", b"  a 1 2", b" a 1 2 ", b" a 1\t\t2", b" a  1  2"):
        check("client", verb + line + b"\r\nok\r\n", [Msg(b"a", b"1", None, None, b"ok")])


# -- what clients send -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (b"CONNECT {}\r\n", Connect(b"{}")),
        (b"PING\r\n", Ping()),
        (b"PONG  \r\n", Pong()),
        (b"PUB a 2\r\nok\r\n", Pub(b"a", None, None, b"ok")),
        (b"PUB a r 2\r\nok\r\n", Pub(b"a", b"r", None, b"ok")),
        (b"PUB a  2\r\nok\r\n", Pub(b"a", None, None, b"ok")),
        (b"pub\ta\t\tr 2 \nok\r\n", Pub(b"a", b"r", None, b"ok")),
        (b"HPUB a 1 2\r\nok\r\n", Pub(b"a", None, b"o", b"k")),
        (b"HPUB a r 2 2\r\nok\r\n", Pub(b"a", b"r", b"ok", b"")),
        (b"SUB a 1\r\n", Sub(b"a", None, b"1")),
        (b"sub a  q\t1\n", Sub(b"a", b"q", b"1")),
        (b"UNSUB 1\r\n", Unsub(b"1", None)),
        (b"UNSUB 1 05\r\n", Unsub(b"1", 5)),
    ],
)
def test_what_clients_send(data: bytes, frame: Frame) -> None:
    check("server", data, [frame])


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        # Lines of the other side, and lines of nobody.
        (b"PUB a 2\r\nok\r\n", VERB),
        (b"CONNECT {}\r\n", VERB),
        (b"HTTP/1.1 400 Bad Request\r\n", VERB),
        (b"\r\n", VERB),
        (b"\n", VERB),
        (b" PING\r\n", VERB),
        (b"\tPING\r\n", VERB),
        (b"PING\rPING\r\n", VERB),
        (b"PING\r\r\n", VERB),
        (b"PING\v\r\n", VERB),
        (b"INFO\r{}\r\n", VERB),
        (b"INF {}\r\n", VERB),
        (b"INFO{}\r\n", VERB),
        # Arguments.
        (b"PING 1\r\n", ARGUMENTS),
        (b"+OK \r \r\n", ARGUMENTS),
        (b"MSG\r\n", ARGUMENTS),
        (b"MSG a 1\r\n", ARGUMENTS),
        (b"MSG 1  2\r\nok\r\n", ARGUMENTS),
        (b"MSG a 1 r s 2\r\nok\r\n", ARGUMENTS),
        (b"MSG a\n1 2\r\nok\r\n", ARGUMENTS),
        (b"HMSG a 1 2\r\nok\r\n", ARGUMENTS),
        (b"HMSG a 1 r s 2 2\r\nok\r\n", ARGUMENTS),
        (b"MSG a\rb 1 2\r\nok\r\n", CR),
        (b"MSG a 1 2\r \r\nok\r\n", CR),
        # Sizes.
        (b"MSG a 1 x\r\n", NUMBER),
        (b"MSG a 1 +2\r\nok\r\n", NUMBER),
        (b"MSG a 1 -2\r\nok\r\n", NUMBER),
        (b"MSG a 1 1_0\r\n0123456789\r\n", NUMBER),
        (b"MSG a 1 2\v\r\nok\r\n", NUMBER),
        ("MSG a 1 ²\r\nok\r\n".encode(), NUMBER),
        ("MSG a 1 ٣\r\nok \r\n".encode(), NUMBER),
        (b"MSG a 1 0000000002\r\nok\r\n", NUMBER),
        (b"MSG a 1 " + b"9" * 5000 + b"\r\n", NUMBER),
        (b"HMSG a 1 x 2\r\nok\r\n", NUMBER),
        (b"HMSG a 1 2 x\r\nok\r\n", NUMBER),
        (b"HMSG a 1 3 2\r\nok\r\n", HEADER),
        (b"MSG a 1 67108865\r\n", "a message of 67108865 bytes, at most 67108864 are taken"),
        (b"HMSG a 1 1 999999999\r\n", "a message of 999999999 bytes, at most 67108864 are taken"),
        # What is behind a body.
        (b"MSG a 1 2\r\nok \r\n", TRAILER),
        (b"MSG a 1 2\r\nok\r \n", TRAILER),
        (b"MSG a 1 2\r\nok\n\n", TRAILER),
        (b"MSG a 1 2\r\nokay\r\n", TRAILER),
        (b"msg a 1 2\r\nok\n\r\n", TRAILER),
        (b"HMSG a 1 1 2\r\nokay\r\n", TRAILER),
    ],
)
def test_what_a_client_refuses(data: bytes, error: str) -> None:
    check("client", data, [], error)
    check("client", b"PING\r\n" + data + b"PONG\r\n", [Ping()], error)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"MSG a 1 2\r\nok\r\n", VERB),
        (b"INFO {}\r\n", VERB),
        (b"+OK\r\n", VERB),
        (b"-ERR 'x'\r\n", VERB),
        (b"PUB a\r\n", ARGUMENTS),
        (b"PUB  \r\n", ARGUMENTS),
        (b"PUB a b       \r\n", NUMBER),
        (b"PUB a b c 2\r\nok\r\n", ARGUMENTS),
        (b"PUB a 2\r\nok \r\n", TRAILER),
        (b"PUB a 2\r\nok\r \n", TRAILER),
        (b"PUB a 1048577\r\n", "a message of 1048577 bytes, at most 1048576 are taken"),
        (b"HPUB a 2\r\nok\r\n", ARGUMENTS),
        (b"HPUB a 3 2\r\nok\r\n", HEADER),
        (b"HPUB a 1 1048577\r\n", "a message of 1048577 bytes, at most 1048576 are taken"),
        (b"SUB\r\n", ARGUMENTS),
        (b"SUB  \r\n", ARGUMENTS),
        (b"SUB a\r\n", ARGUMENTS),
        (b"SUB a b c 22\r\n", ARGUMENTS),
        (b"SUB a\rb 1\r\n", CR),
        (b"UNSUB\r\n", ARGUMENTS),
        (b"UNSUB 1 2 3\r\n", ARGUMENTS),
        (b"UNSUB 1 x\r\n", NUMBER),
    ],
)
def test_what_a_server_refuses(data: bytes, error: str) -> None:
    check("server", data, [], error)
    check("server", b"PING\r\n" + data + b"PONG\r\n", [Ping()], error)


VERBS: list[tuple[Role, bytes]] = [
    *(("client", verb) for verb in (b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"MSG", b"HMSG")),
    *(("server", verb) for verb in (b"PING", b"PONG", b"CONNECT", b"PUB", b"HPUB", b"SUB", b"UNSUB")),
]


@pytest.mark.parametrize(("role", "verb"), VERBS)
def test_a_wrong_letter_in_a_verb_is_refused_at_once(role: Role, verb: bytes) -> None:
    for length in range(len(verb) + 1):
        for data in (verb[:length] + b"x", verb[:length] + b"\rx", verb[:length].lower() + b"\0"):
            check(role, data, [], VERB)


@pytest.mark.parametrize(("role", "verb"), VERBS)
def test_half_a_verb_is_waited_for_but_must_not_end_there(role: Role, verb: bytes) -> None:
    for length in range(1, len(verb)):
        assert decode(role, [verb[:length]]) == ([], None, length)
        for end in (b" ", b"\t", b"\r", b"\n"):
            check(role, verb[:length] + end, [], VERB)
    for end in (b" ", b"\t", b"\r"):
        assert decode(role, [verb + end]) == ([], None, len(verb) + 1)


def test_a_wrong_letter_is_refused_at_once_behind_any_line() -> None:
    for line in (b"INFO {}\r\n", b"-ERR 'x'\r\n", b"MSG a 1 0\r\n\r\n", b"PING\r\n"):
        frames, error, pending = decode("client", one_by_one(line + b"PIX"))
        assert (len(frames), error, pending) == (1, VERB, 0)


def test_a_peer_that_talks_tls_is_refused_at_its_first_byte() -> None:
    decoder = Decoder("client")
    decoder.feed(b"\x15\x03\x01\x00\x02\x02\x46")
    assert decoder.error is not None
    assert decoder.error.data == b"\x15\x03\x01\x00\x02\x02\x46"


def test_the_error_is_final_and_quotes_where_it_is() -> None:
    decoder = Decoder("client")
    assert decoder.feed(b"PING\r\nMSG a 1 x\r\nPING\r\n" + b"y" * 999) == [Ping()]
    error = decoder.error
    assert error is not None
    assert error.data.startswith(b"MSG a 1 x\r\nPING")
    assert len(error.data) == MAX_QUOTED
    for data in (b"PING\r\n", b"", b"PING", b"x" * 9):
        assert decoder.feed(data) == []
        assert decoder.error is error
        assert decoder.pending == 0


# -- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "verb", "limit"),
    [
        ("server", b"SUB", MAX_CONTROL_LINE),
        ("server", b"unsub", MAX_CONTROL_LINE),
        ("server", b"CONNECT", MAX_CONNECT_LINE),
        ("client", b"-ERR", MAX_DELIVERY_LINE),
    ],
)
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_control_line_has_at_most_so_many_bytes_of_arguments(role: Role, verb: bytes, limit: int, end: bytes) -> None:
    arguments = (b"a 1" if verb == b"SUB" else b"1").ljust(limit)
    good = verb + b" " + arguments + end
    frames, error, pending = decode(role, [good])
    assert (len(frames), error, pending) == (1, None, 0)
    assert decode(role, one_by_one(good)) == (frames, None, 0)
    check(role, verb + b" " + arguments + b" " + end, [], LONG)


def test_info_may_be_long_but_not_endless() -> None:
    info = b"INFO " + b"x" * MAX_INFO_LINE
    assert decode("client", [info, b"\r", b"\n"]) == ([Info(b"x" * MAX_INFO_LINE)], None, 0)
    assert decode("client", [info + b"x\r\n"]) == ([], LONG, 0)
    assert decode("client", [info, b"x"]) == ([], LONG, 0)


@pytest.mark.parametrize("line", [b"MSG a ", b"msg ", b"MSG" + b" " * 99, b"-ERR '"])
def test_a_line_without_an_end_is_refused_when_it_is_too_long(line: bytes) -> None:
    decoder = Decoder("client", Limits(control_line=200, json_line=10, max_payload=10))
    line = line.ljust(line.index(b" " if b" " in line else b"'") + 201, b"x")
    assert decoder.feed(line) == []
    assert (decoder.error, decoder.pending) == (None, len(line))
    assert decoder.feed(b"\r") == []
    assert (decoder.error, decoder.pending) == (None, len(line) + 1)
    decoder.feed(b"x")
    assert str(decoder.error) == LONG
    assert decoder.pending == 0


def test_a_long_line_of_a_message_is_read_the_general_way() -> None:
    limits = Limits(control_line=20, json_line=10, max_payload=10)
    decoder = Decoder("client", limits)
    subject = b"a" * (20 - len(b" 1 2"))
    assert decoder.feed(b"MSG %b 1 2\r\nok\r\n" % subject) == [Msg(subject, b"1", None, None, b"ok")]
    decoder.feed(b"MSG %ba 1 2\r\nok\r\n" % subject)
    assert str(decoder.error) == LONG


@pytest.mark.parametrize(("role", "verb"), [("client", b"INFO "), ("server", b"CONNECT ")])
def test_json_has_its_own_limit(role: Role, verb: bytes) -> None:
    for limits, fits in ((Limits(5, 9, 9), True), (Limits(9, 5, 9), False)):
        for pieces in ([verb + b"x" * 9 + b"\r\n"], one_by_one(verb + b"x" * 9 + b"\r\n")):
            decoder = Decoder(role, limits)
            assert sum(len(decoder.feed(piece)) for piece in pieces) == fits
            assert (decoder.error is None) == fits


def test_the_limits_of_the_roles() -> None:
    assert Limits(MAX_DELIVERY_LINE, MAX_INFO_LINE, HARD_MAX_PAYLOAD) == CLIENT_LIMITS
    assert Limits(4096, 4096, DEFAULT_MAX_PAYLOAD) == SERVER_LIMITS


@pytest.mark.parametrize("role", ["client", "server"])
def test_a_message_that_is_too_large_is_refused_before_its_body_comes(role: Role) -> None:
    line = b"MSG a 1 %d\r\n" if role == "client" else b"PUB a %d\r\n"
    decoder = Decoder(role, Limits(control_line=99, json_line=99, max_payload=10))
    assert len(decoder.feed(line % 10 + b"x" * 10 + b"\r\n")) == 1
    decoder.set_max_payload(9)
    assert len(decoder.feed(line % 9 + b"x" * 9 + b"\r\n")) == 1
    decoder.feed(line % 10)
    assert str(decoder.error) == "a message of 10 bytes, at most 9 are taken"
    assert decoder.pending == 0


# -- cost ------------------------------------------------------------------------------------------------


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the general way of reading was taken, while the test runs."""
    places: list[int] = []
    take = Decoder._take

    def noted(decoder: Decoder, data: bytes, position: int, frames: list[Frame]) -> int:
        if position < len(data):
            places.append(position)
        return take(decoder, data, position, frames)

    monkeypatch.setattr(Decoder, "_take", noted)
    return places


class Watched(bytes):
    """Bytes that count how many of them were searched."""

    searched = 0

    def __contains__(self, key: object) -> bool:
        Watched.searched += len(self)
        return super().__contains__(key)  # type: ignore[operator]

    def find(self, *arguments: object) -> int:
        Watched.searched += len(self)
        return super().find(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("role", "data"),
    [
        ("client", b"INFO " + b"x" * 20_000),
        ("client", b"MSG a 1 20000\r\n" + b"\n" * 20_000),
        ("server", b"CONNECT " + b"x" * 4000),
    ],
)
def test_an_unfinished_frame_is_searched_once_and_looked_at_twice(role: Role, data: bytes, general: list[int]) -> None:
    Watched.searched = 0
    decoder = Decoder(role)
    for piece in one_by_one(data):
        assert decoder.feed(Watched(piece)) == []
    assert (decoder.error, decoder.pending) == (None, len(data))
    assert Watched.searched <= len(data)
    # At its first byte, and when the control line of a message is whole.
    assert len(general) == (2 if data.startswith(b"MSG") else 1)
    assert len(decoder.feed(b"\r\n")) == 1


def test_whole_plain_messages_take_the_short_way(general: list[int]) -> None:
    plain = b"MSG a 1 2\r\nok\r\nMSG a 1 r 2\r\nok\r\nMSG a 1  0\r\n\r\n"
    plain += b"HMSG a 1 2 4\r\nhhok\r\nHMSG a 1 r 2 4\r\nhhok\r\n"
    assert len(Decoder("client").feed(plain * 20)) == 100
    assert general == []
    assert len(Decoder("client").feed(plain + b"PING\r\n" + plain)) == 11
    assert general == [len(plain)]


def delivered(number: int, payload: bytes = b"ok", sid: bytes = b"1") -> bytes:
    """A message as a consumer delivers it."""
    return b"MSG s.%d %b $JS.ACK.S.C.1.%d.%d.1.0 %d\r\n%b\r\n" % (number, sid, number, number, len(payload), payload)


def decoder_of_rows() -> Decoder:
    decoder = Decoder("client")
    decoder.rows = True
    return decoder


def test_what_a_consumer_delivers_comes_at_once(general: list[int]) -> None:
    frames = decoder_of_rows().feed(b"".join(delivered(number) for number in range(20)))
    raws: list[RawMsg] = [(b"s.%d" % n, b"$JS.ACK.S.C.1.%d.%d.1.0" % (n, n), None, b"ok") for n in range(20)]
    assert frames == [DeliveryRun(b"1", raws, 40)]
    assert general == []
    (run,) = frames
    assert isinstance(run, DeliveryRun)
    assert encode(run) == b"".join(delivered(number) for number in range(20))
    assert run.messages()[7] == run.message(7) == Msg(b"s.7", b"1", raws[7][1], None, b"ok")


def test_a_few_come_one_by_one_as_the_same_messages(monkeypatch: pytest.MonkeyPatch, general: list[int]) -> None:
    data = b"".join(delivered(number) for number in range(4))
    (run,) = decoder_of_rows().feed(data)
    assert isinstance(run, DeliveryRun)
    monkeypatch.setattr("jsproto.wire.decoder._SHORT", len(data) + 1)
    assert decoder_of_rows().feed(data) == run.messages()
    assert general == []


def test_headers_come_along(general: list[int]) -> None:
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    line = b"HMSG s.a 1 $JS.ACK.x %d %d\r\n"
    good = line % (len(header), len(header) + 2) + header + b"ok\r\n"
    raw = (b"s.a", b"$JS.ACK.x", header, b"ok")
    assert decoder_of_rows().feed(good * 9) == [DeliveryRun(b"1", [raw] * 9, 9 * (len(header) + 2))]
    for odd in (line % (0, 2) + b"ok\r\n", line % (len(header), len(header) + 4) + header + b"\r\nok\r\n"):
        run, message, rest = decoder_of_rows().feed(good * 9 + odd + good * 9)
        assert type(run) is type(rest) is DeliveryRun
        assert [message] == Decoder("client").feed(odd)
    elsewhere = line % (2, len(header) + 2) + header + b"ok\r\n"  # the header block ends before its last line
    run, message = decoder_of_rows().feed(good * 9 + elsewhere)
    assert [message] == Decoder("client").feed(elsewhere)
    assert general == [9 * len(good)] * 3
    spoiled = good.replace(b"s.a", b"s\ta")
    decoder = decoder_of_rows()
    assert encode(decoder.feed(good * 9 + spoiled)[0]) == good * 9
    assert str(decoder.error) == "a wrong number of arguments"


def test_each_subscription_gets_its_own() -> None:
    sids = [b"1"] * 9 + [b"2"] + [b"3"] * 2 + [b"1"] * 2
    frames = decoder_of_rows().feed(b"".join(delivered(number, sid=sid) for number, sid in enumerate(sids)))
    assert [type(frame) for frame in frames] == [DeliveryRun, Msg, DeliveryRun, DeliveryRun]
    assert [frame.size for frame in frames if isinstance(frame, DeliveryRun)] == [18, 4, 4]
    found = [frame.messages() if isinstance(frame, DeliveryRun) else [frame] for frame in frames]
    assert [message.sid for run in found for message in run if isinstance(message, Msg)] == sids


def test_a_message_that_is_different_interrupts_what_comes_at_once(general: list[int]) -> None:
    run = b"".join(delivered(number) for number in range(9))
    different = [delivered(9, b"\r\n"), delivered(9, b"x" * 1025), b"PING\r\n", b"MSG a 1 0\r\n\r\n"]
    for frame in different:
        frames = decoder_of_rows().feed(run + frame + run)
        assert [type(frame) for frame in frames] == [DeliveryRun, type(frames[1]), DeliveryRun]
    assert general == [len(run)] * 4
    general.clear()
    few = b"".join(delivered(number) for number in range(4))  # what follows is read message by message
    assert [type(frame) for frame in decoder_of_rows().feed(few + delivered(5, b"\r\n") + run)] == [
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


class Unsplit:
    """The pattern of what is delivered, where nothing may be left to it."""

    def split(self, data: bytes) -> list[bytes | None]:
        raise AssertionError(data)


HEADER_BLOCKS = pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\nA: b\r\n\r\n"], ids=["plain", "headers"])


@HEADER_BLOCKS
@pytest.mark.parametrize("payload", [b"ok", b"", b"\r\n", b"MSG a 1 2\r\nok\r\n", b"x" * 2000])
def test_messages_that_are_alike_are_cut_by_their_places(
    header: bytes, payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsproto.wire.decoder._DELIVERED", Unsplit())
    sent = all_equal(64, header, payload)
    begun = all_equal(1)[0][:-5]
    decoder = decoder_of_rows()
    (run,) = decoder.feed(b"".join(sent) + begun)
    assert decoder.pending == len(begun)
    assert isinstance(run, DeliveryRun)
    assert run.size == 64 * len(header + payload)
    assert b"".join(map(encode, run.messages())) == b"".join(sent)
    assert run.raws[63] == (b"s.a", b"$JS.ACK.S.C.1.1063.1063.1.0", header or None, payload)


def test_long_control_lines_are_not_compared_for_a_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message.replace(b"s.a", b"s" * 400) for message in all_equal(64)]
    monkeypatch.setattr("jsproto.wire.decoder.iter_unpack", None)
    assert [type(frame) for frame in decoder_of_rows().feed(b"".join(sent))] == [DeliveryRun]


@HEADER_BLOCKS
def test_a_run_of_messages_that_are_alike_ends_where_one_is_not(header: bytes) -> None:
    for odd in (b"PING\r\n", delivered(9), all_equal(1, header, b"longer")[0]):
        some, others = all_equal(70, header), all_equal(90, header)
        frames = decoder_of_rows().feed(b"".join(some) + odd + b"".join(others))
        assert [type(frame) for frame in frames] == [DeliveryRun, type(Decoder("client").feed(odd)[0]), DeliveryRun]
        assert encode(frames[0]) + encode(frames[2]) == b"".join(some + others)


def test_replies_that_are_no_consumer_s_end_a_run_of_messages_that_are_alike() -> None:
    sent = all_equal(64)
    others = [message.replace(b"$JS.ACK.", b"$JS.ACQ.") for message in sent]
    run, *rest = decoder_of_rows().feed(b"".join(sent + others))
    assert isinstance(run, DeliveryRun)
    assert len(run.raws) == 64
    assert {type(frame) for frame in rest} == {Msg}


@HEADER_BLOCKS
@pytest.mark.parametrize("number", [0, 1, 21, 22, 25, 29])
@pytest.mark.parametrize("byte", [b" ", b"\t", b"\r", b"\n", b"0", b"9", b"X"])
def test_wherever_one_byte_differs_it_is_read_as_it_is_byte_by_byte(header: bytes, number: int, byte: bytes) -> None:
    sent = all_equal(30, header)
    for place in range(len(sent[number])):
        changed = sent[number][:place] + byte + sent[number][place + 1 :]
        data = b"".join([*sent[:number], changed, *sent[number + 1 :]])
        assert decode_rows([data]) == decode("client", [data])


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
    ],
    ids=["no reply", "empty reply", "another reply", "large header", "no end", "long line", "large"],
)
def test_what_is_alike_must_be_good_as_well(message: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto.wire.decoder._PLACES", 100)
    limits = Limits(2500, 2500, 2000)
    general, decoder = Decoder("client", limits), Decoder("client", limits)
    decoder.rows = True
    assert decoder.feed(message * 64) == general.feed(message * 64)
    assert str(decoder.error) == str(general.error)


@pytest.mark.parametrize("size", [0, 500, 1000, 2000])
def test_header_blocks_may_be_large(size: int) -> None:
    header = b"NATS/1.0\r\nA: %b\r\n\r\n" % (b"b" * size)
    data = b"".join(all_equal(1, header, b"x" * length)[0] for length in range(90))
    assert decode_rows([data]) == decode("client", [data])


def test_payloads_that_look_like_messages_are_not_searched_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = 0

    class Pattern:
        def split(self, data: bytes) -> list[bytes | None]:
            nonlocal searched
            searched += len(data)
            return _DELIVERED.split(data)

    monkeypatch.setattr("jsproto.wire.decoder._DELIVERED", Pattern())
    lure = delivered(9, b"\r\n" + delivered(9, b"")[:-2])
    data = (b"".join(delivered(number) for number in range(9)) + lure) * 50
    frames = decoder_of_rows().feed(data)
    assert len(frames) == 500
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
            return _DELIVERED.split(data)

    monkeypatch.setattr("jsproto.wire.decoder._DELIVERED", Pattern())
    data = frame * 200
    frames = decoder_of_rows().feed(data)
    assert frames == Decoder("client").feed(data)
    assert len(frames) >= 200
    assert searched < 20 * len(data)


@pytest.mark.parametrize(
    "begun", [b"MSG a 1 2\r\nok\r\n", b"MSG a 1 4096\r\n%b\r\n" % bytes(4096), b"MSG a 1 2\r\nokay\r\n"]
)
def test_a_frame_that_was_begun_is_finished_though_much_follows(begun: bytes) -> None:
    sent = begun + b"".join(delivered(number, bytes(100)) for number in range(200))
    assert len(sent) > 20_000
    whole = decode("client", [sent])
    for place in (1, 8, 12):
        assert decode("client", [sent[:place], sent[place:]]) == whole


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


def test_memory_follows_the_bytes_however_small_the_pieces() -> None:
    size = 200_000
    line = b"MSG a 1 %d\r\n" % size
    decoder = Decoder("client")
    tracemalloc.start()
    try:
        decoder.feed(line)
        frames: list[Frame] = []
        for number in range(size // 2):
            frames += decoder.feed(bytes((number % 256, number // 256 % 256)))
        assert decoder.pending == len(line) + size
        frames += decoder.feed(b"\r\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (message,) = frames
    assert isinstance(message, Msg)
    assert len(message.payload) == size
    assert peak < 4 * size
