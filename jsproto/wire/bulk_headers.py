"""The headers of many messages, as bytes and at once: what ``encode_headers`` makes of each of them.

Rules

* Messages that have the same names in the same order are encoded name by name.
* All others (other names, several values of a name, no headers) are encoded one by one, in the same run.
* An unsendable header raises, and so does one whose name is reserved.

How it works: header blocks stay unbuilt. A name is a constant, and so is a value that all messages have. Other values
are checked and encoded as one text. The join that makes the messages puts them between its columns. Pays:
``fast-ingest-headers``.

Not here: the first line and the end of a block (``bulk_encoder``), which names are reserved (``client.connection``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import add, itemgetter
from typing import cast

from jsproto.errors import LocalProtocolError
from jsproto.grammar.headers import FIRST_LINE, LINE_END, Headers, HeadersLike, encode_headers, encode_values
from jsproto.wire.bulk_encoder import Column, HeaderLines, all_equal


def header_lines(headers: Sequence[HeadersLike | None], reserved: str) -> HeaderLines | None:
    """The lines of ``headers``, one for each message. None: all are plain. There must be some.

    Raises:
        BadHeaderError: one of them cannot be sent.
        LocalProtocolError: a name begins with ``reserved``.
    """
    count = len(headers)
    if headers[0] is headers[-1] and len({*map(id, headers)}) == 1:
        if headers[0] is None:
            return None
        lines = _lines(headers[0], reserved)
        return HeaderLines((lines,), [len(lines)] * count)
    found = _same_names(headers, count, reserved)
    if found is not None:
        return found
    each = [b"" if own is None else _lines(own, reserved) for own in headers]
    given = [own is not None for own in headers]
    return HeaderLines((each,), [*map(len, each)], None if all(given) else given)


def lines_of_columns(headers: Mapping[str, str | Sequence[str]], count: int, reserved: str) -> HeaderLines | None:
    """The lines of ``count`` messages that have ``headers``: one value for all of them, or one for each.

    None: they are to be looked at one by one. Raises: as ``header_lines``.
    """
    return _by_names([*headers], [*headers.values()], count, reserved)


def _same_names(headers: Sequence[HeadersLike | None], count: int, reserved: str) -> HeaderLines | None:
    """The lines of messages that all have the same names. None: they lack it, or have it in another form."""
    kinds = {*map(type, headers)}
    dicts = cast("Sequence[dict[str, str]]", headers)
    pairs: list[tuple[str, str]] = []
    if kinds == {dict}:
        names = [*chain.from_iterable(dicts)]
    elif kinds == {Headers}:
        pairs += chain.from_iterable(map(Headers.items, cast("Sequence[Headers]", headers)))
        names = [name for name, _ in pairs]
    else:
        return None
    width = len(names) // count
    first = names[:width]
    try:
        # Of texts, not of lists: what they are, whatever a str subclass says that it is equal to. Each name has an end,
        # as an empty one would be none.
        if "\n".join((*names, "")) != "\n".join((*first, "")) * count or (pairs and {*map(len, dicts)} != {width}):
            return None
        if pairs:
            values = [[value for _, value in pairs[place::width]] for place in range(width)]
        else:  # a dict that has each of these names once, and nothing else, has no other number of them
            values = [[*map(itemgetter(name), dicts)] for name in first]
    except (TypeError, KeyError):  # no texts, or strange ones
        return None
    return _by_names(first, values, count, reserved)


def _by_names(
    names: Sequence[str], values: Iterable[str | Sequence[str]], count: int, reserved: str
) -> HeaderLines | None:
    """The lines of messages that have the headers ``names``. None: a value is something other than text."""
    columns: list[Column] = []
    varying: list[list[int]] = []
    constant = b""
    size = 0
    for name, column in zip(names, values, strict=True):
        try:
            constant += _lines({name: ""}, reserved)[: -len(LINE_END)]
            if isinstance(column, str):
                constant += encode_values((column,))[0]
            elif column[0] is column[-1] and "\n".join(column) == "\n".join([column[0]] * count):
                constant += encode_values(column[:1])[0]
            else:
                encoded = encode_values(column)
                columns += (constant, encoded)
                varying.append([*map(len, encoded)])
                size += len(constant)
                constant = b""
        except TypeError:
            return None
        constant += LINE_END
    sizes = [size + len(constant)] * count
    for lengths in varying:
        sizes = (
            [sizes[0] + lengths[0]] * count if all_equal(lengths) and all_equal(sizes) else [*map(add, sizes, lengths)]
        )
    return HeaderLines((*columns, constant), sizes)


def _lines(headers: HeadersLike, reserved: str) -> bytes:
    """The lines of one message."""
    checked = Headers.of(headers)
    for name in checked:
        if name.startswith(reserved):
            raise LocalProtocolError(f"{name} is looked at by itself")
    return encode_headers(checked)[len(FIRST_LINE) : -len(LINE_END)]
