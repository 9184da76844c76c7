"""What each control line means, what is refused, and where the limits are. Example by example, both roles."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest

from jsproto.errors import MAX_QUOTED
from jsproto.wire.decoder import Decoder, Role
from jsproto.wire.frames import Connect, Err, Frame, Info, Msg, Ok, Ping, Pong, Pub, Sub, Unsub
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
from tests.marks import promise
from tests.wire.generated import decode, delivered, one_by_one

VERB = "an unknown verb"
LONG = "a control line that is too long"
ARGUMENTS = "a wrong number of arguments"
NUMBER = "a number that is not 1 to 9 digits"
CR = "a CR that does not end the line"
TRAILER = "a message that does not end with CRLF"
HEADER = "a header block that is larger than its message"


def check(role: Role, data: bytes, frames: list[Frame], error: str | None = None) -> None:
    """These frames, then this error, whole and byte by byte. Nothing is kept."""
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


@promise("Every limit of the wire has a name (`jsproto/wire/limits.py`)")
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


@pytest.mark.parametrize(
    "begun", [b"MSG a 1 2\r\nok\r\n", b"MSG a 1 4096\r\n%b\r\n" % bytes(4096), b"MSG a 1 2\r\nokay\r\n"]
)
def test_a_frame_that_was_begun_is_finished_though_much_follows(begun: bytes) -> None:
    sent = begun + b"".join(delivered(number, bytes(100)) for number in range(200))
    assert len(sent) > 20_000
    whole = decode("client", [sent])
    for place in (1, 8, 12):
        assert decode("client", [sent[:place], sent[place:]]) == whole


@promise("Memory is bounded whatever the peer sends.")
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


@pytest.mark.parametrize("header", [b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
def test_a_large_message_is_the_same_however_it_is_cut(header: bytes) -> None:
    payload = bytes(range(256)) * 200
    verb, sizes = (b"HMSG", b"%d " % len(header)) if header else (b"MSG", b"")
    head = b"%b a 1 %b%d\r\n%b" % (verb, sizes, len(header) + len(payload), header)
    sent = head + payload + b"\r\nPING\r\n"
    whole = decode("client", [sent])
    assert len(whole[0]) == 2
    assert whole[0][0] == Msg(b"a", b"1", None, header or None, payload)
    end = len(head) + len(payload)
    for places in [
        (7,),
        (len(head) - 3,),
        (len(head),),
        (end + 1,),
        (end,),
        (end + 2,),
        (9, 20_000, 40_000, 40_010, end),
    ]:
        pieces = [sent[start:stop] for start, stop in pairwise((0, *places, len(sent)))]
        assert decode("client", pieces) == whole, places
    for place in range(end - 3, end + 4):
        decoder = Decoder("client")
        decoder.feed(sent[:20_000])
        decoder.feed(sent[20_000:place])
        assert decoder.pending == (place if place < end + 2 else place - end - 2)


def test_a_large_message_that_does_not_end_is_told_by_its_beginning() -> None:
    sent = b"MSG a 1 40000\r\n" + bytes(40_000) + b"xyPING\r\n"
    decoder = Decoder("client")
    assert decoder.feed(sent[:20_000]) == decoder.feed(sent[20_000:]) == decoder.feed(b"PING\r\n") == []
    assert str(decoder.error) == TRAILER
    assert decoder.error is not None
    assert decoder.error.data == sent[:MAX_QUOTED]
    assert decoder.pending == 0


def test_the_payload_of_a_large_message_is_copied_once() -> None:
    size = 1_000_000
    pieces = [b"HMSG a 1 12 %d\r\nNATS/1.0\r\n\r\n" % (size + 12), *[bytes(size // 4)] * 4, b"\r\n"]
    decoder = Decoder("client")
    tracemalloc.start()
    try:
        (message,) = [frame for piece in pieces for frame in decoder.feed(piece)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(message, Msg)
    assert len(message.payload) == size
    assert peak < 1.1 * size


def test_a_server_takes_no_runs() -> None:
    decoder = Decoder("server")
    decoder.allow_runs()
    assert decoder.feed(b"PUB a 2\r\nok\r\n" * 20) == [Pub(b"a", None, None, b"ok")] * 20
