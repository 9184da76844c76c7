"""Stored messages as columns: the same as ``StoredMsg`` says of each, whatever was stored."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar.columns import Fields, MessageColumns, StoredColumns, joined, next_columns, stored_columns
from jsproto.grammar.headers import Headers, last_value
from jsproto.grammar.stored import ENDING, StoredMsg, next_sequences, paging
from jsproto.grammar.times import parse_timestamp
from tests.grammar.generated import block, pages
from tests.marks import promise

TIME = "2026-11-20T20:36:46.910548879Z"


def server_part(seq: int, subject: str = "foo.A", time: str = TIME) -> bytes:
    """What the server appends to the header block of message ``seq`` of a page."""
    return (
        f"Nats-Stream: DG\r\nNats-Subject: {subject}\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: {time}\r\n"
        f"Nats-Num-Pending: 3\r\nNats-Last-Sequence: {seq - 1}\r\n\r\n"
    ).encode()


def part(seq: int, user: bytes = b"NATS/1.0\r\n", **fields: str) -> tuple[bytes, bytes, int]:
    return user + server_part(seq, **fields), b"%d" % seq, seq


def columns_of(parts: list[tuple[bytes, bytes, int]]) -> StoredColumns:
    """One by one."""
    messages = [StoredMsg(*each) for each in parts]
    return StoredColumns(
        [message.subject.encode("utf-8", "surrogateescape") for message in messages],
        [message.seq for message in messages],
        [b"%d" % message.timestamp for message in messages],
        [message.data for message in messages],
        [message.raw_headers for message in messages],
    )


def check(parts: list[tuple[bytes, bytes, int]]) -> None:
    columns = stored_columns(parts)
    comparable = columns._replace(timestamps=[b"%d" % parse_timestamp(time) for time in columns.timestamps])
    assert [list(column) for column in comparable] == [list(column) for column in columns_of(parts)]


def test_no_messages() -> None:
    assert [list(column) for column in stored_columns([])] == [[], [], [], [], []]


def test_plain_messages() -> None:
    columns = stored_columns([part(7), part(9, subject="foo.B")])
    assert [*map(list, columns[:4])] == [[b"foo.A", b"foo.B"], [7, 9], [TIME.encode()] * 2, [b"7", b"9"]]
    check([part(7), part(9, subject="foo.é")])


def test_headers_are_the_users_alone() -> None:
    columns = stored_columns([part(1), part(2, b"NATS/1.0\r\nA: 1\r\nA: 2\r\n"), part(3, b"NATS/1.0\r\n")])
    assert columns.headers() == [None, Headers([("A", "1"), ("A", "2")]), None]


def test_lines_of_headers_without_an_object_for_each_message() -> None:
    columns = stored_columns([part(1), part(2, b"NATS/1.0\r\nA: 1\r\nA: \xff 2\r\n"), part(3, b"NATS/1.0\r\nB: 3\r\n")])
    assert columns.header_lines() == ([0, 2, 1], [b"A", b"A", b"B"], [b"1", b"\xff 2", b"3"])
    assert stored_columns([]).header_lines() == ([], [], [])


@pytest.mark.parametrize(
    "user", [b"A:1\r\n", b"A: 1 \r\n", b"A: \r\n", b"A: \t1\r\n", b"A: \0\r\n", b"\r\n", b"A: 1\nB: 2\r\n"]
)
def test_lines_that_are_not_plain_are_looked_at_one_by_one(user: bytes) -> None:
    assert stored_columns([part(1), part(2, b"NATS/1.0\r\n" + user)]).header_lines() is None


def test_blocks_that_are_no_replies_have_no_lines() -> None:
    blocks = [b"NATS/1.0 100\r\n" + server_part(1), b"NATS/1.0\r\nA: 1\r\n\r\n"]
    for each in blocks:
        assert StoredColumns([b"a"], [1], [b""], [b""], [each]).header_lines() is None


def test_some_of_them() -> None:
    columns = stored_columns([part(seq) for seq in range(1, 6)])
    assert columns.first(2) == stored_columns([part(1), part(2)])
    some = columns.where([False, True, False, False, True])
    assert [list(column) for column in some] == [list(column) for column in stored_columns([part(2), part(5)])]


def test_one_behind_the_other() -> None:
    parts = [part(seq) for seq in range(1, 6)]
    assert joined([stored_columns(parts)]) == stored_columns(parts)
    both = joined([stored_columns(parts[:2]), stored_columns(parts[2:])])
    assert [*map(list, both)] == [*map(list, stored_columns(parts))]
    assert [*map(list, both.between(1, 3))] == [*map(list, stored_columns(parts[1:3]))]


@pytest.mark.parametrize(
    "odd",
    [
        part(2, b"NATS/1.0\r\n" + server_part(99)[:-2]),  # a whole part of a server, as headers
        part(2, b"NATS/1.0\r\n" + server_part(99)),  # with the end of a block
        part(2, b"NATS/1.0\r\nA: "),  # cut off: the server's first line is the end of the user's
        part(2, b"NATS/1.0\r\nNats-Stream: X\r\n"),
        (b"NATS/1.0\r\nNats-Subject: a\r\nNats-Time-Stamp: x\r\nNats-Stream: DG\r\n\r\n", b"", 2),
        (server_part(2)[:-4].join([b"NATS/1.0\r\n", b"\r\n"]), b"", 2),  # without the end of a block
    ],
)  # fmt: skip
def test_what_is_not_written_as_servers_do(odd: tuple[bytes, bytes, int]) -> None:
    subjects = [b"foo.A", StoredMsg(*odd).subject.encode(), b"foo.A"]
    assert list(stored_columns([part(1), odd, part(3)]).subjects) == subjects


def test_one_message_cannot_stand_in_for_another() -> None:
    """Two parts in one block and none in the next are as many as there are messages."""
    forged = server_part(1, "forged") + b"NATS/1.0\r\n" + server_part(2, "forged")
    broken = (b"NATS/1.0\r\nX:" + server_part(2), b"", 2)
    check([part(1, b"NATS/1.0\r\n" + forged), broken])
    check([(b"NATS/1.0\r\n" + forged, b"", 1), (broken[0][:-2], b"", 2)])


@pytest.mark.parametrize("missing", [b"Nats-Subject", b"Nats-Time-Stamp"])
def test_a_message_without_what_each_has(missing: bytes) -> None:
    block, data, seq = part(2)
    with pytest.raises(RemoteProtocolError, match=missing.decode()):
        stored_columns([part(1), (block.replace(missing, b"X"), data, seq)])


names = st.sampled_from(
    [b"Nats-Stream", b"Nats-Subject", b"Nats-Sequence", b"Nats-Time-Stamp", b"Nats-Num-Pending", b"X"]
)
values = st.one_of(st.sampled_from([b"1", b"foo.B", TIME.encode(), b""]), st.binary(max_size=5))
lines = st.lists(st.builds(lambda name, value: name + b": " + value + b"\r\n", names, values), max_size=8)
imitations = st.lists(st.sampled_from([server_part(1), server_part(2)[:-2], b"\r\n", b"NATS/1.0\r\n", b"A: "]))
users = st.one_of(lines, imitations).map(lambda found: b"NATS/1.0\r\n" + b"".join(found))


@given(st.lists(users, max_size=6))
@example([b"NATS/1.0\r\n" + server_part(1), b"NATS/1.0\r\nX: "])
def test_columns_are_the_fields_of_each_message(stored: list[bytes]) -> None:
    parts = [part(seq, user) for seq, user in enumerate(stored, 1)]
    columns = stored_columns(parts)
    for number, each in enumerate(parts):
        message = StoredMsg(*each)
        assert columns.seqs[number] == paging(each[0])[0] == message.seq
        assert columns.data[number] == message.data
        assert columns.raw_headers[number] == message.raw_headers
        assert columns.subjects[number].decode("utf-8", "surrogateescape") == message.subject
        assert parse_timestamp(columns.timestamps[number]) == message.timestamp


plain = st.lists(
    st.builds(b"%b: %b\r\n".__mod__, st.tuples(names, st.sampled_from([b"1", b"foo.B", b"a  b", b"\xff"])))
)


@given(st.lists(st.one_of(users, plain.map(lambda found: b"NATS/1.0\r\n" + b"".join(found))), max_size=6))
def test_lines_are_the_headers_of_each_message(stored: list[bytes]) -> None:
    columns = stored_columns([part(seq, user) for seq, user in enumerate(stored, 1)])
    found = columns.header_lines()
    if found is not None:
        pairs = iter([*zip(found.names, found.values, strict=True)])
        each = [[*islice(pairs, count)] for count in found.counts]
        expected = [() if headers is None else headers.items() for headers in columns.headers()]
        assert each == [
            [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in items] for items in expected
        ]
        assert [*pairs] == []


# -- a page ------------------------------------------------------------------------------------------------------------


def page(*blocks: bytes, previous: int = 0) -> StoredColumns | None:
    return next_columns(blocks, [b"%d" % number for number in range(len(blocks))], previous)


def test_messages_that_follow_each_other() -> None:
    columns = page(*(part(seq)[0] for seq in range(4, 8)), previous=3)
    assert columns is not None
    assert [*map(list, columns[:2])] == [[b"foo.A"] * 4, [4, 5, 6, 7]]
    assert [*columns.data] == [b"0", b"1", b"2", b"3"]


def test_fields_that_are_known_are_not_looked_for() -> None:
    times = [TIME.encode(), TIME.encode()]
    known = [b"foo.A", b"foo.B"], [b"4", b"5"], times
    columns = next_columns([b"x", b"y"], [b"0", b"1"], 3, known)
    assert columns == StoredColumns(known[0], range(4, 6), times, [b"0", b"1"], [b"x", b"y"])
    for blank in (b" ", b"\t"):
        assert next_columns([b"x"], [b"0"], 3, ([b"foo.A"], [b"4"], [blank + TIME.encode()])) is None
        assert next_columns([b"x"], [b"0"], 3, ([b"foo.A" + blank], [b"4"], times[:1])) is None


@pytest.mark.parametrize("known", [None, ([b"foo.A", b"foo.B"], [b"4", b"6"], [TIME.encode(), TIME.encode()])])
def test_only_where_one_is_left_out_it_matters_which_one_was_before(known: Fields | None) -> None:
    blocks = [part(4)[0], part(6, subject="foo.B")[0]]
    followed = blocks[1].replace(ENDING % 5, ENDING % 4)
    columns = next_columns([blocks[0], followed], [b"0", b"1"], 3, known)
    assert columns is not None
    assert ([*columns.subjects], [*columns.seqs]) == ([b"foo.A", b"foo.B"], [4, 6])
    assert next_columns(blocks, [b"0", b"1"], 3, known) is None  # 5 is missing
    for other in (14, 41):
        assert next_columns([blocks[0], blocks[1].replace(ENDING % 5, ENDING % other)], [b"0", b"1"], 3, known) is None
    assert next_columns([blocks[0], followed], [b"0", b"1"], 2, known) is None
    assert page(part(4)[0].replace(ENDING % 3, ENDING % 1), part(5)[0], previous=3) is not None


@pytest.mark.parametrize("known", [None, ([b"foo.A", b"foo.A"], [b"04", b"6"], [TIME.encode(), TIME.encode()])])
def test_the_one_before_is_a_number_without_a_zero_in_front(known: Fields | None) -> None:
    """Though that one has such a zero, too: the two readings of a page agree."""
    first = part(4)[0].replace(b"Sequence: 4", b"Sequence: 04")
    blocks = [first, part(6)[0].replace(ENDING % 5, b"\r\nNats-Last-Sequence: 04\r\n\r\n")]
    assert next_columns(blocks, [b"0", b"1"], 3, known) is None
    assert next_sequences(blocks, 3) == [4]
    columns = next_columns([first, part(6)[0].replace(ENDING % 5, ENDING % 4)], [b"0", b"1"], 3, known)
    assert columns is not None
    assert columns.seqs == [4, 6]


ODD = [
    part(3)[0],  # it follows another
    part(2)[0].replace(b"Nats-Sequence: 2", b"Nats-Sequence: 1"),  # not higher than the one before
    part(2)[0].replace(b"Nats-Sequence: 2", b"Nats-Sequence: +2"),
    part(2)[0].replace(b"Nats-Sequence: 2", b"Nats-Sequence: " + b"0" * 20 + b"2"),
    part(2, time=f" {TIME}")[0],
    part(2, time=f"{TIME}\t")[0],
    part(2)[0].replace(b"Nats-Sequence", b"Sequence"),
    part(2)[0][:-2],
    part(2)[0] + b"\r\n",
    part(2, b"NATS/1.0\r\nA: 1\r\n\r\n")[0],
]


@pytest.mark.parametrize("odd", ODD)
def test_one_is_enough_to_look_at_all_of_them(odd: bytes) -> None:
    assert page(part(1)[0], odd) is None
    assert page(part(1)[0], part(2)[0], part(3)[0]) is not None


def test_a_block_that_goes_on_behind_its_end() -> None:
    assert page(part(1)[0] + b"\r\n", part(2)[0]) is None
    assert page(part(1, b"\r\nNATS/1.0\r\n")[0] + b"\r\n", part(2)[0]) is None


def test_a_block_that_ends_before_the_part_of_the_server() -> None:
    """All parts are whole and begin alike, but one is the next block's."""
    whole = part(1, b"NATS/1.0\r\nA: 1\r\n\r\n")[0].replace(b"Nats-Stream: DG\r\n", b"")
    at = whole.index(b"Nats-Subject")
    assert page(whole[:at], whole[at:] + whole.replace(b"Sequence: 1", b"Sequence: 2")) is None


@promise("The messages as columns instead, up to ``most`` at a time")
@given(st.lists(st.tuples(users, st.sampled_from([1, 1, 1, 1, 3, 0])), min_size=1, max_size=5), st.integers(0, 2))
def test_a_page_in_columns_is_what_it_is_message_by_message(stored: list[tuple[bytes, int]], previous: int) -> None:
    blocks, seq = [], 0
    for user, step in stored:
        seq += step
        blocks.append(user + server_part(seq))
    columns = page(*blocks, previous=previous)
    one_by_one = next_sequences(blocks, previous)
    if columns is not None:
        assert [*columns.seqs] == one_by_one
        each = [StoredMsg(block, data, seq) for block, data, seq in zip(blocks, columns.data, one_by_one, strict=True)]
        assert [subject.decode() for subject in columns.subjects] == [message.subject for message in each]
        assert [parse_timestamp(time) for time in columns.timestamps] == [message.timestamp for message in each]
        assert [*columns.raw_headers] == blocks
    elif len(one_by_one) == len(blocks):
        assert any(user != b"NATS/1.0\r\n" for user, _ in stored)  # only a stored header is a reason


@pytest.mark.parametrize("first", [1, 999, 1_001, 9_960, 20_000])
def test_a_run_of_messages(first: int) -> None:
    blocks = [block(seq, seq - 1) for seq in range(first, first + 50)]
    columns = page(*blocks, previous=first - 1)
    assert columns is not None
    assert [*columns.seqs] == [*range(first, first + 50)]
    assert page(*blocks[:-2], blocks[-1], previous=first - 1) is None
    blocks[20] = blocks[20].replace(b"Nats-Sequence: ", b"Nats-Sequence: +")
    assert page(*blocks, previous=first - 1) is None


@given(pages())
def test_columns_of_a_damaged_page_are_what_its_messages_are(found: tuple[list[bytes], int]) -> None:
    blocks, previous = found
    columns = page(*blocks, previous=previous)
    if columns is not None:
        assert [*columns.seqs] == [*next_sequences(blocks, previous)]
    else:
        parts = [(each, b"", seq) for seq, each in enumerate(blocks)]
        try:
            columns = stored_columns(parts)
        except RemoteProtocolError:
            return
    each = [StoredMsg(header, b"", 0) for header in blocks]
    assert [subject.decode() for subject in columns.subjects] == [message.subject for message in each]
    assert [*columns.timestamps] == [last_value(header, b"Nats-Time-Stamp") for header in blocks]


# -- to publish --------------------------------------------------------------------------------------------------------


def test_messages_to_publish() -> None:
    messages = MessageColumns(["a", "b", "c"], [b"1", b"2", b"3"])
    assert len(messages) == 3
    assert list(messages) == [("a", b"1"), ("b", b"2"), ("c", b"3")]
    assert messages[-1] == ("c", b"3")
    assert isinstance(messages[1:], MessageColumns)
    assert [*messages[1:]] == [*messages][1:]
    assert not messages[3:]
    assert messages.encoded((b"r.", b""), 1, 100, 1_000) == (0, b"")
    with pytest.raises(LocalProtocolError, match="1 subjects for 2 payloads"):
        MessageColumns(["a"], [b"1", b"2"])


def test_messages_to_publish_with_headers() -> None:
    columns = {"Trace": ["t1", "t2", "t3"], "Kind": "order"}
    each = [{"Trace": trace, "Kind": "order"} for trace in columns["Trace"]]
    for headers in (columns, each):
        messages = MessageColumns(["a", "b", "c"], [b"1", b"2", b"3"], headers)
        assert [*messages] == [("a", b"1", each[0]), ("b", b"2", each[1]), ("c", b"3", each[2])]
        assert messages[-1] == ("c", b"3", each[2])
        assert [*messages[1:]] == [*messages][1:]
        assert not messages[3:]
        assert messages.headers == headers
    assert MessageColumns(["a"], [b"1"], {}).headers is None
    assert [*MessageColumns(["a"], [b"1"], [None])] == [("a", b"1", None)]
    for wrong in ({"Kind": "order", "Trace": ["t1"]}, {"Trace": 1}, {"Trace": {"t1", "t2"}}, [None], Headers(), "ab"):
        with pytest.raises(LocalProtocolError, match="one for each of 2 messages"):
            MessageColumns(["a", "b"], [b"1", b"2"], wrong)  # type: ignore[arg-type]
