"""Messages as columns: lists that are as long as there are messages, for whoever reads or publishes by the thousand.

Rules: the result is what ``StoredMsg`` has.

How it works: one regular expression over all header blocks does the work of a dozen calls for each message. It has to
find the server's part at the end of each block, and there alone. Otherwise every message is parsed by itself: a stored
header imitates the server's or breaks its block, or a server writes it in another form. Pays: ``direct-get-fields``.

Not here: numbers and times as Arrow or NumPy have them. Who receives the messages (``client.read.direct``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, islice, repeat
from operator import lt
from typing import Any, Final, NamedTuple, TypeAlias

from jsproto.errors import LocalProtocolError, RemoteProtocolError
from jsproto.grammar import consecutive
from jsproto.grammar.decimals import MAX_DIGITS
from jsproto.grammar.headers import FIRST_LINE, LINE_END, Headers, HeadersLike, last_value
from jsproto.grammar.stored import END, ENDING, FIRST_END, SERVER_BLOCK, StoredMsg

HeaderColumns: TypeAlias = Mapping[str, str | Sequence[str]] | Sequence[HeadersLike | None]
"""The headers of many messages: by name, a value for all or one for each, or else what each message has."""

Fields: TypeAlias = tuple[list[bytes], list[bytes], list[bytes]]
"""Of replies in a page, as servers write them: subjects, sequences, times."""

# All but one character is what the engine is quickest at, and each letter costs; what the values hold besides is looked
# at afterwards. ``Nats-N`` is how many messages are pending.
SERVER_PART: Final = (
    rb"\r\nNats-Subject: ([^\r]++)\r\nNats-Sequence: ([^\r]++)\r\nNats-Time-Stamp: ([^\r]++)"
    rb"\r\nNats-N[^\r]++\r\nNats-Last-Sequence: [^\r]++\r\n\r\n"
)
_SERVER_PART: Final = re.compile(SERVER_PART)
_PLAIN_LINE: Final = re.compile(rb"\r\n([!-9;-~]++): (?! )([^\r\n\t\0]*+)(?<! )")


class HeaderLines(NamedTuple):
    """The user's headers of many messages, in one row: ``counts`` says how many lines each message has.

    ``names`` and ``values`` are bytes, as they were stored.
    """

    counts: Sequence[int]
    names: Sequence[bytes]
    values: Sequence[bytes]


class StoredColumns(NamedTuple):
    """Messages of a stream in their order, column by column.

    ``subjects`` and ``timestamps`` are bytes as the server wrote them (RFC 3339, nanoseconds, trailing zeros cut).
    ``seqs`` are stream sequences, ``data`` the payloads, ``raw_headers`` the header blocks as they came, the server's
    part included.
    """

    subjects: Sequence[bytes]
    seqs: Sequence[int]
    timestamps: Sequence[bytes]
    data: Sequence[bytes]
    raw_headers: Sequence[bytes]

    def first(self, count: int) -> StoredColumns:
        """The first ``count`` messages alone."""
        return self.between(0, count)

    def between(self, start: int, stop: int) -> StoredColumns:
        """The messages from one place to another, counted from 0."""
        subjects, seqs, timestamps, data, raw_headers = self
        return StoredColumns(
            subjects[start:stop], seqs[start:stop], timestamps[start:stop], data[start:stop], raw_headers[start:stop]
        )

    def where(self, wanted: Sequence[bool]) -> StoredColumns:
        """The messages that are wanted."""
        return StoredColumns(
            [*compress(self.subjects, wanted)], [*compress(self.seqs, wanted)], [*compress(self.timestamps, wanted)],
            [*compress(self.data, wanted)], [*compress(self.raw_headers, wanted)],
        )  # fmt: skip

    def headers(self) -> list[Headers | None]:
        """The user's headers of each message, or None. RemoteProtocolError when they are malformed."""
        return [
            StoredMsg(block, b"", seq).headers or None for block, seq in zip(self.raw_headers, self.seqs, strict=True)
        ]

    def header_lines(self) -> HeaderLines | None:
        """The user's headers without an object for each. None: a block is not plain, and ``headers`` looks at each.

        One regular expression takes the lines of all blocks. They begin with a line end each, and nothing may lie
        between them, so no line reaches into the next block. Pays: Spark's ``includeHeaders``, at 0.4 of the price.
        """
        blocks = self.raw_headers
        ends = [*map(bytes.rfind, blocks, repeat(SERVER_BLOCK))]  # the last: a header may imitate the server's
        if min(ends, default=0) < 0 or not all(map(bytes.startswith, blocks, repeat(FIRST_LINE))):
            return None
        parts = [block[FIRST_END:end] for block, end in zip(blocks, ends, strict=True)]
        pieces = _PLAIN_LINE.split(b"".join(parts))
        if any(pieces[::3]):
            return None
        return HeaderLines([*map(bytes.count, parts, repeat(LINE_END))], pieces[1::3], pieces[2::3])


def stored_columns(parts: Sequence[tuple[bytes, bytes, int]]) -> StoredColumns:
    """The columns of header blocks, payloads and sequences. RemoteProtocolError when a block lacks subject or time."""
    if not parts:
        return StoredColumns((), (), (), (), ())
    blocks, data, seqs = zip(*parts, strict=True)
    found = _found(blocks)
    if found is not None:
        subjects, _, timestamps = found
    else:
        subjects = [_value(block, b"Nats-Subject") for block in blocks]
        timestamps = [_value(block, b"Nats-Time-Stamp") for block in blocks]
    return StoredColumns(subjects, seqs, timestamps, data, blocks)


def next_columns(
    blocks: Sequence[bytes], data: Sequence[bytes], previous: int, fields: Fields | None = None
) -> StoredColumns | None:
    """The columns of replies that follow ``previous`` in a page, and each other (``next_sequences``): of all, or None.

    None, too, when they have another form than servers give them, or when some are left out and a reply lacks the
    number of the one before. Then they are looked at one by one. ``fields``: what the blocks say, if that was found
    already.
    """
    found = _found(blocks) if fields is None else fields if _are_bare(fields) else None
    if found is None:
        return None
    subjects, numbers, timestamps = found
    run = range(previous + 1, previous + 1 + len(numbers))
    seqs: Sequence[int] = run  # nearly always; to compare costs a quarter of parsing
    is_run = numbers[-1] == b"%d" % run[-1] and len(numbers[-1]) <= MAX_DIGITS
    if not is_run or b"\n".join((*numbers, b"")) != consecutive.joined(b"", run, b"\n"):
        if not b"".join(numbers).isdigit() or max(map(len, numbers)) > MAX_DIGITS:
            return None
        seqs = [*map(int, numbers)]
        if seqs[0] <= previous or not all(map(lt, seqs, islice(seqs, 1, None))):
            return None
        befores = map(ENDING.__mod__, (previous, *seqs))
        if seqs[-1] > run[-1] and not all(map(bytes.endswith, blocks, befores)):  # some are missing, or left out
            return None
    return StoredColumns(subjects, seqs, timestamps, data, blocks)


def joined(parts: Sequence[StoredColumns]) -> StoredColumns:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    for part in parts:
        for column, more in zip(columns, part, strict=True):
            column += more
    return StoredColumns(*columns)


def _found(blocks: Sequence[bytes]) -> Fields | None:
    """What all blocks say, or None if one of them has another form."""
    text = b"".join(blocks)
    pieces = _SERVER_PART.split(text)
    count = len(blocks)
    # As many server's parts as blocks, nothing after the last, and as many ends as blocks, one at the end of each: so
    # each block has its own.
    if len(pieces) != 4 * count + 1 or pieces[-1] or not all(map(bytes.endswith, blocks, repeat(END))):
        return None
    only_parts_end = pieces[:-1:4].count(pieces[0]) == count and END not in b"\r\n%b\r\n" % pieces[0]
    if not only_parts_end and (text.count(END) != count or b"\r\n" + END in text):
        return None
    fields = pieces[1::4], pieces[2::4], pieces[3::4]
    return fields if _are_bare(fields) else None


def _are_bare(fields: Fields) -> bool:
    """Whether each subject and each time is free of blanks around it, which are outside of a value."""
    subjects, _, times = fields
    values = b"".join(subjects + times)
    return b" " not in values and b"\t" not in values


class MessageColumns(Sequence[Any]):
    """Messages to publish, kept as columns: ``(subject, payload)`` of each, or ``(subject, payload, headers)``.

    Anything that publishes many takes it as it takes a list. Batches are quicker with it, because it saves a tuple for
    each message. Leave the columns unchanged.

    Who has messages in another form than objects of Python's derives from it: ``encoded`` says what they look like on
    the wire, and the columns, which are then made when somebody asks for them, what they are.
    """

    __slots__ = ("_headers", "_payloads", "_subjects")

    def __init__(
        self, subjects: Sequence[str], payloads: Sequence[bytes], headers: HeaderColumns | None = None
    ) -> None:
        """``headers``: names, each with one value for all messages, or with a list that has a value for each message.

        Or it is a list of what each message has: a mapping as a single publish takes it, or None. Values are checked
        when they are published. LocalProtocolError when one column is longer than another.
        """
        count = len(subjects)
        if count != len(payloads):
            raise LocalProtocolError(f"there are {count} subjects for {len(payloads)} payloads")
        columns: dict[str, Any] = {}
        if isinstance(headers, Mapping):
            columns = {name: values for name, values in headers.items() if not isinstance(values, str)}
        elif headers is not None:
            columns = {"headers": headers}
        for name, values in columns.items():
            if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
                raise LocalProtocolError(f"{name} must be a str, or a sequence of one for each of {count} messages")
        self._subjects = subjects
        self._payloads = payloads
        self._headers = headers or None

    @property
    def subjects(self) -> Sequence[str]:
        """Where each message goes."""
        return self._subjects

    @property
    def payloads(self) -> Sequence[bytes]:
        """What each message carries."""
        return self._payloads

    @property
    def headers(self) -> HeaderColumns | None:
        """The headers, as they were given. None: no message has any."""
        return self._headers

    def encoded(self, reply: tuple[bytes, bytes], first: int, largest: int, most: int) -> tuple[int, bytes]:
        """How many messages from the front on were encoded, and their PUBs. None here: they are encoded like others.

        Their replies count up from ``first``. ``reply``: the bytes before and after the number. ``largest``: bytes of a
        payload, at most. It stops before the first message that would start after ``most`` bytes: the last one may
        overrun. The caller sends the rest one by one. The bytes go out as they are, so each subject has passed
        ``check_subject``.
        """
        return 0, b""

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Any]:
        headers = self.headers
        if headers is None:
            return zip(self.subjects, self.payloads, strict=True)
        if isinstance(headers, Mapping):
            headers = [_at(headers, place) for place in range(len(self))]
        return zip(self.subjects, self.payloads, headers, strict=True)

    def __getitem__(self, place: int | slice) -> Any:
        headers = self.headers
        own: Any = None
        if headers is not None:
            own = _at(headers, place) if isinstance(headers, Mapping) else headers[place]
        if isinstance(place, slice):
            return MessageColumns(self.subjects[place], self.payloads[place], own)
        message = self.subjects[place], self.payloads[place]
        return message if headers is None else (*message, own)


def message_columns(messages: Sequence[Any]) -> tuple[Sequence[str], Sequence[bytes], Any]:
    """Subjects, payloads and headers of messages to publish. None: no message has any headers.

    Raises: TypeError or ValueError: one has fewer parts than two, or more than three.
    """
    if type(messages) is not list and isinstance(messages, MessageColumns):  # to ask an abstract class costs more
        return messages.subjects, messages.payloads, messages.headers
    try:
        return [subject for subject, _ in messages], [payload for _, payload in messages], None
    except ValueError:
        try:
            return _three_columns(messages)  # nearly always all have headers
        except ValueError:
            return _three_columns([message if len(message) == 3 else (*message, None) for message in messages])


def _three_columns(messages: Sequence[Any]) -> tuple[list[str], list[bytes], list[Any]]:
    """Of messages that have three parts. ValueError: one has not."""
    return [each for each, _, _ in messages], [each for _, each, _ in messages], [each for _, _, each in messages]


def in_columns(messages: Sequence[Any]) -> Sequence[Any]:
    """A list or tuple of messages as ``MessageColumns``. As it is, if one has not two parts, or three."""
    if not isinstance(messages, list | tuple):
        return messages
    try:
        return MessageColumns(*message_columns(messages))
    except (TypeError, ValueError):
        return messages


def _at(headers: Mapping[str, str | Sequence[str]], place: int | slice) -> dict[str, Any]:
    """The headers of one message, or the columns of some."""
    return {name: value if isinstance(value, str) else value[place] for name, value in headers.items()}


def _value(block: bytes, name: bytes) -> bytes:
    value = last_value(block, name)
    if value is None:
        raise RemoteProtocolError(f"a Direct Get reply without {name.decode()}", block)
    return value
