"""Reading records: every format, every way a file can be damaged, and the subjects made from columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.grammar.subjects import check_subject
from jsproto_io.cli.records import (
    BadInput,
    BadUsage,
    Format,
    Record,
    Source,
    Template,
    Unsafe,
    guess_format,
    open_source,
    read_records,
)


def read(
    data: bytes,
    kind: Format,
    subject: str = "s",
    unsafe: Unsafe = Unsafe.REFUSE,
    delimiter: str | None = None,
) -> list[Record]:
    source = Source("data", "data", io.BytesIO(data), len(data), lambda: 0, live=False)
    return list(read_records(source, Template(subject, unsafe), kind, delimiter))


def payloads(data: bytes, kind: Format) -> list[bytes]:
    return [payload for _, _, payload in read(data, kind)]


# -- subjects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fields", "pattern"),
    [
        ("orders.new", (), "orders.new"),
        ("flights.{carrier}.{origin}", ("carrier", "origin"), "flights.*.*"),
        ("a.x-{n}-y.b", ("n",), "a.*.b"),
        ("{departure airport}", ("departure airport",), "*"),
        ("a.{v1.2}.b", ("v1.2",), "a.*.b"),
        ("100%.{a}%s", ("a",), "100%.*"),
    ],
)
def test_a_template_knows_its_fields_and_what_a_stream_must_listen_to(
    text: str, fields: tuple[str, ...], pattern: str
) -> None:
    template = Template(text)
    assert (template.fields, template.pattern) == (fields, pattern)


def test_a_template_fills_in_values() -> None:
    assert Template("100%.{a}%s.{b}").subject(["x", "é"]) == "100%.x%s.é"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "a\r\nPUB x",
        "a..b",
        ".a",
        "a.",
        "a.*",
        "a.>",
        "a.{}",
        "a.{x",
        "a.x}",
        "{{x}}",
        "a\tb",
        "a.{x} b",
    ],
)
def test_what_is_no_subject_is_refused_as_wrong_usage(text: str) -> None:
    with pytest.raises(BadUsage, match=r"subject|wildcard"):
        Template(text)


def test_a_stream_is_named_after_the_first_token() -> None:
    assert Template("flights.{carrier}").stream_name() == "FLIGHTS"
    with pytest.raises(BadUsage, match="--stream NAME"):
        Template("{carrier}.flights").stream_name()


@pytest.mark.parametrize("value", ["", "New York", "1.5", "*", "a>", "a\r\nb", "\x00", "tab\t"])
def test_a_value_that_is_no_token_is_refused_or_replaced(value: str) -> None:
    with pytest.raises(BadInput, match="column 'city' holds"):
        Template("t.{id}.{city}").subject(["1", value])
    subject = Template("t.{id}.{city}", Unsafe.REPLACE).subject(["1", value])
    assert subject.startswith("t.1.")
    assert subject.count(".") == 2


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_whatever_a_value_holds_the_subject_keeps_its_tokens(value: str) -> None:
    subject = Template("t.{x}.u", Unsafe.REPLACE).subject([value])
    head, token, tail = subject.split(".")
    assert (head, tail) == ("t", "u")
    assert token
    assert not set(token) & set(" \r\n\t\0*>")
    assert check_subject(subject) == subject.encode()


# -- lines ---------------------------------------------------------------------------------------------------


def test_lines_are_passed_on_as_bytes_without_their_ends() -> None:
    assert read(b"one\ntw\xffo\r\n\nlast", Format.LINES) == [
        (1, "s", b"one"),
        (2, "s", b"tw\xffo"),
        (3, "s", b""),
        (4, "s", b"last"),
    ]


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))))
def test_lines_come_back_as_they_were(lines: list[bytes]) -> None:
    assert payloads(b"".join(line + b"\n" for line in lines), Format.LINES) == lines


def test_lines_have_no_columns() -> None:
    with pytest.raises(BadUsage, match="no column 'a'"):
        read(b"x\n", Format.LINES, "s.{a}")


def test_a_line_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsproto_io.cli.records.MAX_LINE", 4)
    assert payloads(b"abc\n1234", Format.LINES) == [b"abc", b"1234"]
    with pytest.raises(BadInput, match="line 2: longer than 4 bytes"):
        read(b"abc\n12345\n", Format.LINES)


# -- JSON lines ----------------------------------------------------------------------------------------------


def test_json_lines_are_passed_on_unchanged() -> None:
    data = b'\xef\xbb\xbf{"a": 1,  "b":"\\u00e9\xc3\xa9"}\r\n\n   \n[1, 2]\n"x"'
    assert read(data, Format.JSONL) == [
        (1, "s", b'{"a": 1,  "b":"\\u00e9\xc3\xa9"}'),
        (4, "s", b"[1, 2]"),
        (5, "s", b'"x"'),
    ]


@pytest.mark.parametrize(
    ("value", "token"), [('"x"', "x"), ("17", "17"), ("-3", "-3"), ("true", "true"), ('"\\u00fc"', "ü")]
)
def test_json_values_become_tokens(value: str, token: str) -> None:
    line = f'{{"k": {value}}}'.encode()
    assert read(line, Format.JSONL, "s.{k}") == [(1, f"s.{token}", line)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"k": 1', "line 2: not JSON: Expecting ',' delimiter at column 8"),
        (b"{'k': 1}", "line 2: not JSON"),
        (b'{"k": NaN}', "line 2: not JSON: NaN is not allowed"),
        (b'{"k": "\xff"}', "line 2: not UTF-8: byte 0xff at column 8"),
        (b"[" * 100_000, "line 2: not JSON"),
        (b'{"k": ' + b"1" * 10_000 + b"}", "line 2: not JSON"),
        (b"[1]", "line 2: not a JSON object, so it has no 'k'"),
        (b'{"j": 1}', "line 2: 'k' is missing"),
        (b'{"k": null}', "line 2: 'k' is missing"),
        (b'{"k": {"x": 1}}', "line 2: 'k' is not a plain value"),
        (b'{"k": 1.5}', "line 2: column 'k' holds '1.5'"),
        (b'{"k": "\\ud800"}', "line 2: column 'k' holds"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_line(line: bytes, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(b'{"k": 1}\n' + line + b"\n", Format.JSONL, "s.{k}")
    assert str(caught.value).startswith(why)


# -- CSV -----------------------------------------------------------------------------------------------------


def test_a_csv_row_becomes_a_json_object() -> None:
    data = 'id,"full name",%d\r\n1,Zoë,x\r\n2,"say ""hi""\n\\",50%\r\n\r\n3,,\n'.encode("utf-8-sig")
    rows = read(data, Format.CSV, "people.{id}")
    assert [(line, subject) for line, subject, _ in rows] == [
        (2, "people.1"),
        (4, "people.2"),
        (6, "people.3"),
    ]
    assert [payload.decode() for _, _, payload in rows] == [
        '{"id":"1","full name":"Zoë","%d":"x"}',
        '{"id":"2","full name":"say \\"hi\\"\\n\\\\","%d":"50%"}',
        '{"id":"3","full name":"","%d":""}',
    ]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))] * 3)))
def test_csv_values_survive(rows: list[tuple[str, str, str]]) -> None:
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", 'b"', "c%s"])
    writer.writerows(rows)
    read_rows = [tuple(json.loads(payload).values()) for payload in payloads(file.getvalue().encode(), Format.CSV)]
    assert read_rows == rows


def test_the_delimiter_can_be_told() -> None:
    assert read(b"a;b\n1;2\n", Format.CSV, "s.{b}", delimiter=";") == [(2, "s.2", b'{"a":"1","b":"2"}')]


@pytest.mark.parametrize("data", [b"", b"a,b\n"])
def test_a_csv_without_rows_has_no_records(data: bytes) -> None:
    assert read(data, Format.CSV) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a,b\n1,2\n3\n", "line 3: 1 field, but the header has 2"),
        (b"a,b\n1,2\n3,4,5\n", "line 3: 3 fields, but the header has 2"),
        (b'a,b\n1,2\n3,"unfinished\n', "line 3: unexpected end of data"),
        (b'a,b\n"1"x,2\n', "line 2: ',' expected after '\"'"),
        (b"a,b\n1,\xfe\n", "line 2: not UTF-8: byte 0xfe at column 3"),
        (b"a,,c\n", "line 1: column 2 of the header has no name"),
        (b"a,b,a\n", "line 1: the header has 'a' twice"),
        (b"a,b\n1,x y\n", "line 2: column 'b' holds 'x y', which cannot be part of a subject"),
    ],
)
def test_csv_that_does_not_fit_is_refused_with_its_line(data: bytes, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(data, Format.CSV, "s.{b}")
    assert str(caught.value).startswith(why)


def test_a_column_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(BadUsage, match="there is no column 'c'; the columns are a, b"):
        read(b"a,b\n1,2\n", Format.CSV, "s.{c}")


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", Format.CSV),
        ("A.CSV", Format.CSV),
        ("a.tsv", Format.CSV),
        ("a.jsonl", Format.JSONL),
        ("a.ndjson", Format.JSONL),
        ("a.log", Format.LINES),
        ("-", Format.LINES),
    ],
)
def test_the_format_is_guessed_by_name(name: str, kind: Format) -> None:
    assert guess_format(name) is kind


def zipped(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


CSV = b"a\tb\n1\t2\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [("x.tsv", CSV), ("x.tsv.gz", gzip.compress(CSV, mtime=0)), ("x.zip", zipped(("in/x.tsv", CSV)))],
)
def test_files_are_opened_whatever_they_are_packed_in(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with open_source(str(path)) as source:
        assert (source.name, source.size, source.live) == (str(path), len(data), False)
        records = list(read_records(source, Template("s.{a}"), Format.AUTO))
        assert records == [(2, "s.1", b'{"a":"1","b":"2"}')]
        assert 0 < source.position() <= len(data)


def many_lines() -> bytes:
    return b"".join(b"%d,%d\n" % (number, number * number) for number in range(50_000))


@pytest.mark.parametrize(
    ("pack", "keep", "why"),
    [
        (gzip.compress, 0.5, "is cut short or damaged"),
        (lambda data: zipped(("x.csv", data)), 0.5, "is cut short or no whole zip archive"),
    ],
)
def test_half_an_archive_is_told(tmp_path: Path, pack: Callable[[bytes], bytes], keep: float, why: str) -> None:
    packed = pack(many_lines())
    path = tmp_path / "half"
    path.write_bytes(packed[: int(len(packed) * keep)])
    with pytest.raises(BadInput, match=why), open_source(str(path)) as source:
        list(read_records(source, Template("s"), Format.LINES))


def test_a_damaged_zip_member_is_told(tmp_path: Path) -> None:
    packed = bytearray(zipped(("x.csv", many_lines())))
    packed[1000:1010] = bytes(10)
    path = tmp_path / "damaged.zip"
    path.write_bytes(packed)
    with pytest.raises(BadInput, match="after line"), open_source(str(path)) as source:
        list(read_records(source, Template("s"), Format.LINES))


def test_a_zip_of_several_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    path.write_bytes(zipped(("a", b"1"), ("b", b"2")))
    with pytest.raises(BadUsage, match="holds 2 files"), open_source(str(path)):
        pass


@pytest.mark.parametrize(("name", "why"), [("missing.csv", "No such file"), ("", "Is a directory")])
def test_what_cannot_be_opened_is_wrong_usage(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(BadUsage, match=f"cannot read .*{why}"), open_source(str(tmp_path / name)):
        pass


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(b"")
    with open_source(str(path)) as source:
        assert list(read_records(source, Template("s"), Format.AUTO)) == []
