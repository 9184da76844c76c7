"""Any header block of a Direct Get, or a consumer, is a message or a status, or raises RemoteProtocolError.

Besides: the short cuts for one block and for many find what is found one by one, a copy's origin is written and read
as the same, and what a copy keeps is a header block again.
"""

from __future__ import annotations

from fuzz.parsing import expecting
from jsproto.client.read.single import direct_data, direct_message
from jsproto.errors import Error, RemoteProtocolError, StatusError
from jsproto.grammar.columns import next_columns, stored_columns
from jsproto.grammar.copies import kept_lines, kept_lines_of_all, origin_of, parse_origin
from jsproto.grammar.counters import parse_counter
from jsproto.grammar.headers import FIRST_LINE, LINE_END, Headers
from jsproto.grammar.position import UNKNOWN
from jsproto.grammar.stored import (
    StoredMsg,
    answerer,
    next_sequences,
    number,
    paging,
    stored_at,
    stored_header,
    stored_messages,
)
from jsproto.rules.status import read_status
from jsproto.server.consume.acks import read_flow_answer
from jsproto.wire.frames import Msg

MANY = 40  # blocks, of which the sequences are compared at once

attempt = expecting(RemoteProtocolError, StatusError)


def run(data: bytes) -> None:
    """One input: a block."""
    status = attempt(read_status, data)
    assert status is None or isinstance(status.error, Error)
    assert all(number >= -1 for number in read_flow_answer(data))
    attempt(paging, data)
    is_usual = data.rfind(b"\r\nNats-Sequence:") == data.rfind(b"\r\nNats-Sequence: ")  # as servers write it
    seq = attempt(number, data, b"Nats-Sequence") if is_usual else None
    message = StoredMsg(data, b"", 0)
    assert attempt(getattr, message, "stream") == attempt(answerer, data)
    assert attempt(getattr, message, "timestamp") == attempt(stored_at, data)
    attempt(getattr, message, "headers")
    attempt(parse_counter, message)
    answer = Msg(b"_INBOX.x", b"1", None, data, b"{}")
    for read in (direct_message, direct_data):
        attempt(read, "S", {"seq": 1}, answer)
    together(data, seq)
    copies(data)


def together(block: bytes, seq: int | None) -> None:
    """What is read of many blocks at once is what is read of each."""
    for blocks in ([block], [block] * 2, [block] * MANY):
        for previous in (0, 4, 1 << 63):
            for sequence in next_sequences(blocks, previous):
                assert seq is None or sequence == seq > previous, "a sequence of another reply"
                previous = sequence
        columns = attempt(next_columns, blocks, [b""] * len(blocks), 0)
        if columns is not None:
            assert seq is None or [*columns.seqs] == [seq] * len(blocks)
    columns = attempt(stored_columns, [(block, b"", 7)])
    if columns is not None:
        (read,) = stored_messages([block], [b""], [7], columns.subjects, columns.timestamps)
        single = StoredMsg(block, b"", 7)
        assert read.subject == attempt(getattr, single, "subject")
        assert attempt(getattr, read, "timestamp") == attempt(getattr, single, "timestamp")
        attempt(columns.headers)


def copies(block: bytes) -> None:
    """What a copy says of its original, and keeps of it."""
    origin = origin_of(block)
    if origin is not None and origin.position.identity != UNKNOWN.decode():  # which no server calls a stream
        assert parse_origin(bytes(origin)) == origin
    for keep_ttl in (True, False):
        kept = kept_lines(block, keep_ttl=keep_ttl)
        assert kept_lines_of_all([block, None], keep_ttl=keep_ttl) == [kept, b""]
        Headers.parse(FIRST_LINE + kept + LINE_END)
        again = kept_lines(FIRST_LINE + kept + LINE_END, keep_ttl=keep_ttl)
        assert again == kept, "a copy of a copy keeps something else"
    attempt(stored_header, block, "S", "s.a", 7, "2026-01-01T00:00:00Z")
