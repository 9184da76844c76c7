"""Records of a file, CSV, JSON lines or plain lines, each with its subject.

Rules
 * One record becomes one message.
 * CSV: a JSON object by the names of the header row. Every value is a string as it stands in the file.
 * JSON lines: the line unchanged, once it is known to be JSON. Blank lines are skipped.
 * Lines: the bytes up to the end of the line.
 * The input is taken as it is, and all of it: an unfit line raises ``BadInput`` with its number.
 * Memory is bounded: one line is held, and a line has a longest length.

Not here: publishing, and what is shown.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Final, NoReturn, TypeAlias, cast

from jsproto.errors import BadSubjectError
from jsproto.grammar.subjects import check_subject

MAX_LINE: Final = 64 * 1024 * 1024  # bytes; no server takes a larger payload
Record: TypeAlias = tuple[int, str, bytes]  # number of its (last) line, subject, payload


class BadInput(Exception):
    """The input is damaged or unfit. The text says where."""


class BadUsage(Exception):
    """The options of a command are impossible."""


class Format(StrEnum):
    """How records stand in a file."""

    AUTO = "auto"
    CSV = "csv"
    JSONL = "jsonl"
    LINES = "lines"


class Unsafe(StrEnum):
    """What to do with a value that is unfit as a subject token."""

    REFUSE = "refuse"
    REPLACE = "replace"


_FORMATS: Final = {".csv": Format.CSV, ".tsv": Format.CSV, ".jsonl": Format.JSONL, ".ndjson": Format.JSONL}


@dataclass(frozen=True, slots=True)
class Source:
    """An opened input.

    Attributes:
        name: the path as given, for messages.
        inner: the name from which the format is guessed.
        stream: the unpacked bytes.
        size: bytes on disk. None: unknown.
        position: returns how many bytes on disk were read.
        live: a pipe or a terminal, which may still be written. Records should leave as they come.
    """

    name: str
    inner: str
    stream: BinaryIO
    size: int | None
    position: Callable[[], int]
    live: bool


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open ``path``, or standard input for ``-``. gzip and zip archives of one file are unpacked.

    Raises:
        BadUsage: it cannot be opened.
        BadInput: it is no whole archive.
    """
    with ExitStack() as stack:
        if path == "-":
            if sys.stdin is None:
                raise BadUsage("standard input is closed")
            raw = cast("io.BufferedReader", sys.stdin.buffer)
        else:
            try:
                raw = stack.enter_context(open(path, "rb"))
            except OSError as error:
                raise BadUsage(f"cannot read {path}: {error.strerror}") from None
        name = "standard input" if path == "-" else path
        size = _size(raw)
        inner, stream = path.removesuffix(".gz"), cast("BinaryIO", raw)
        head = raw.peek(4)[:4] if size is None or size else b""
        if head.startswith(b"\x1f\x8b"):
            stream = cast("BinaryIO", stack.enter_context(gzip.GzipFile(fileobj=raw)))
        elif head == b"PK\x03\x04":
            inner, stream = _unzip(raw, name, stack)
        yield Source(name, inner, stream, size, raw.tell if size is not None else lambda: 0, live=size is None)


def _size(raw: io.BufferedReader) -> int | None:
    try:
        status = os.fstat(raw.fileno())
    except (OSError, io.UnsupportedOperation):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _unzip(raw: io.BufferedReader, name: str, stack: ExitStack) -> tuple[str, BinaryIO]:
    if not raw.seekable():
        raise BadUsage(f"{name} is a zip archive, which cannot be read from a pipe: name the file")
    try:
        archive = stack.enter_context(zipfile.ZipFile(raw))
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise BadUsage(f"{name} holds {len(members)} files: unpack the one you mean")
        member = stack.enter_context(archive.open(members[0]))
    except (zipfile.BadZipFile, EOFError) as error:
        raise BadInput(f"{name} is cut short or no whole zip archive: {error}") from None
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or a compression Python does not know
        raise BadUsage(f"{name}: {error}") from None
    # ZipExtFile reads lines slowly by itself.
    return members[0].filename, cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", member), 1 << 16))


# -- subjects ------------------------------------------------------------------------------------------------


class Template:
    """A subject, perhaps with column names in braces: ``flights.{carrier}``.

    Attributes:
        text: the template.
        fields: the column names, in their order.
        pattern: the subject for a stream, with a wildcard for each token that has a field.
    """

    _FIELD: Final = re.compile(r"\{([^{}]*)\}")
    _UNSAFE: Final = re.compile(r"[\x00-\x20\x7f.*>\ud800-\udfff]")

    def __init__(self, text: str, unsafe: Unsafe = Unsafe.REFUSE) -> None:
        """BadUsage when ``text`` is unfit as a subject."""
        self.text = text
        self.fields: tuple[str, ...] = tuple(self._FIELD.findall(text))
        fixed = self._FIELD.sub("x", text)
        if "" in self.fields or "{" in fixed or "}" in fixed:
            raise BadUsage(f"subject {text!r}: a column's name goes between braces, as in flights.{{carrier}}")
        try:
            check_subject(fixed)
        except BadSubjectError as error:
            raise BadUsage(str(error)) from None
        # A dot inside a column's name is not the end of a token.
        marked = self._FIELD.sub("\0", text)
        self.pattern = ".".join("*" if "\0" in token else token for token in marked.split("."))
        self._format = self._FIELD.sub("%s", text.replace("%", "%%"))
        self._unsafe = unsafe

    def stream_name(self) -> str:
        """The default name of the stream: the first token in upper case. BadUsage when that has a field."""
        first = self.pattern.partition(".")[0]
        if first == "*":
            raise BadUsage("the subject begins with a column, so the stream needs a name: --stream NAME")
        return first.upper()

    def subject(self, values: Sequence[str]) -> str:
        """The subject for the values of ``fields``. BadInput names the value that is unfit."""
        for value in values:
            if not value or self._UNSAFE.search(value):
                break
        else:
            return self._format % tuple(values)
        if self._unsafe is Unsafe.REPLACE:
            return self._format % tuple(self._UNSAFE.sub("_", value) or "_" for value in values)
        field, value = next(
            pair for pair in zip(self.fields, values, strict=True) if not pair[1] or self._UNSAFE.search(pair[1])
        )
        raise BadInput(f"column {field!r} holds {_quoted(value)}, which cannot be part of a subject (--unsafe replace)")


def _quoted(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:37] + "...")


# -- formats -------------------------------------------------------------------------------------------------


def guess_format(inner: str) -> Format:
    """The format by a file's name. ``lines`` for other names, and for standard input."""
    return _FORMATS.get(os.path.splitext(inner)[1].lower(), Format.LINES)


def read_records(source: Source, template: Template, kind: Format, delimiter: str | None = None) -> Iterator[Record]:
    """The records of ``source``. Its iteration raises BadInput or BadUsage."""
    if kind is Format.AUTO:
        kind = guess_format(source.inner)
    if kind is Format.CSV:
        tab = os.path.splitext(source.inner)[1].lower() == ".tsv"
        return _csv_records(source, template, delimiter or ("\t" if tab else ","))
    if kind is Format.JSONL:
        return _json_records(source, template)
    if template.fields:
        raise BadUsage(f"plain lines have no column {template.fields[0]!r}: give --format csv or --format jsonl")
    return _line_records(source, template.subject(()))


def read_lines(source: Source) -> Iterator[bytes]:
    """The lines with their ends, at most MAX_LINE bytes long. BadInput when the archive is damaged."""
    number = 0
    try:
        while line := source.stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise BadInput(f"line {number}: longer than {MAX_LINE} bytes")
            yield line
    except (EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise BadInput(f"after line {number}: {source.name} is cut short or damaged: {error}") from None


def _text_lines(source: Source) -> Iterator[str]:
    """The lines as text, decoded one by one, which tells which line is broken."""
    for number, line in enumerate(read_lines(source), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            raise BadInput(f"line {number}: not UTF-8: byte 0x{bad:02x} at column {error.start + 1}") from None


def _line_records(source: Source, subject: str) -> Iterator[Record]:
    for number, line in enumerate(read_lines(source), 1):
        yield number, subject, line.removesuffix(b"\n").removesuffix(b"\r")


def _json_records(source: Source, template: Template) -> Iterator[Record]:
    subject = None if template.fields else template.subject(())
    for number, line in enumerate(_text_lines(source), 1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise BadInput(f"line {number}: not JSON: {error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError) as error:
            raise BadInput(f"line {number}: not JSON: {error}") from None
        try:
            yield number, subject or template.subject(_values(value, template.fields)), text.encode()
        except BadInput as error:
            raise BadInput(f"line {number}: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _values(record: Any, fields: Sequence[str]) -> list[str]:
    if not isinstance(record, dict):
        raise BadInput(f"not a JSON object, so it has no {fields[0]!r}")
    found = []
    for field in fields:
        value = record.get(field)
        if value is None or isinstance(value, (dict, list)):
            raise BadInput(f"{field!r} is {'missing' if value is None else 'not a plain value'}")
        found.append(value if isinstance(value, str) else json.dumps(value))
    return found


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')  # what JSON does not allow inside a string as it stands


def _csv_records(source: Source, template: Template, delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(MAX_LINE)  # 128 KiB otherwise
    rows = csv.reader(_text_lines(source), delimiter=delimiter, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            return
        columns = _columns(header, template)
        simple = "{" + ",".join(f'{json.dumps(name, ensure_ascii=False)}:"%s"' for name in _escape(header)) + "}"
        needs_escape = _ESCAPED.search
        for row in rows:
            if len(row) != len(header):
                if not row:
                    continue
                raise BadInput(f"line {rows.line_num}: {_count(len(row), 'field')}, but the header has {len(header)}")
            try:
                subject = template.subject([row[column] for column in columns])
            except BadInput as error:
                raise BadInput(f"line {rows.line_num}: {error}") from None
            if needs_escape("".join(row)):
                text = json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
            else:
                text = simple % tuple(row)  # half the cost of json.dumps
            yield rows.line_num, subject, text.encode()
    except csv.Error as error:
        raise BadInput(f"line {rows.line_num}: {error}") from None


def _escape(names: Sequence[str]) -> list[str]:
    return [name.replace("%", "%%") for name in names]


def _columns(header: Sequence[str], template: Template) -> list[int]:
    """The indexes of the template's fields. The header is checked, too."""
    for number, name in enumerate(header, 1):
        if not name:
            raise BadInput(f"line 1: column {number} of the header has no name")
        if name in header[: number - 1]:
            raise BadInput(f"line 1: the header has {_quoted(name)} twice")
    for field in template.fields:
        if field not in header:
            raise BadUsage(f"there is no column {field!r}; the columns are {', '.join(header)}")
    return [header.index(field) for field in template.fields]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
