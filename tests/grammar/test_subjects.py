"""Subjects, queue groups, names: what is let through, what is not and what the caller is told, what matches what."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsproto.errors import BadSubjectError
from jsproto.grammar.subjects import MAX_NAME, MAX_SUBJECT, check_name, check_queue, check_subject, matches

SEPARATORS = "\0\t\n\v\f\r "

words = st.text(st.characters(exclude_characters=SEPARATORS + ".", exclude_categories=["Cs"]), min_size=1, max_size=8)
tokens = words.filter(lambda word: word not in ("*", ">"))
subjects = st.lists(tokens, min_size=1, max_size=5).map(".".join)
patterns = st.tuples(
    st.lists(st.one_of(tokens, st.just("*")), max_size=4), st.one_of(tokens, st.sampled_from(["*", ">"]))
).map(lambda parts: ".".join([*parts[0], parts[1]]))


class Name(str, Enum):  # noqa: UP042
    """The kind of constant that formatting turns into something else."""

    ORDERS = "orders.new"


@given(subjects)
@example("a")
@example("$JS.API.INFO")
@example("a*b.>c.**")  # wildcards only as whole tokens
@example("grüße.日本")
@example("a\x7f.\x85.\xa0.\u2028")  # blanks to Unicode, not to the wire
def test_subjects_become_utf8(subject: str) -> None:
    assert check_subject(subject) == subject.encode()
    assert check_subject(subject, wildcards=True) == subject.encode()


@given(patterns)
@example("*")
@example(">")
@example("a.*.>")
def test_patterns(pattern: str) -> None:
    assert check_subject(pattern, wildcards=True) == pattern.encode()
    if {"*", ">"} & set(pattern.split(".")):
        with pytest.raises(BadSubjectError, match="wildcards"):
            check_subject(pattern)


def test_a_constant_is_taken_by_its_characters() -> None:
    assert check_subject(Name.ORDERS) == b"orders.new"


@given(st.binary(min_size=1, max_size=8))
def test_received_bytes_go_back_as_they_came(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    try:
        assert check_subject(text) == raw
    except BadSubjectError:
        assert re.search(rb"[\0\t-\r .*>]", raw) is not None


@given(st.text(), st.booleans())
@example("a\r\nPUB b 0\r\n\r\n", False)
@example("a\n", True)
@example("\ud800", False)
def test_whatever_is_let_through_is_one_word_of_whole_tokens(text: str, wildcards: bool) -> None:
    try:
        encoded = check_subject(text, wildcards=wildcards)
    except BadSubjectError:
        return
    assert not set(encoded) & set(SEPARATORS.encode())
    parts = encoded.split(b".")
    assert all(parts)
    assert b">" not in parts[:-1]
    assert wildcards or not {b"*", b">"} & set(parts)


@given(subjects, st.sampled_from(SEPARATORS), st.integers(0, 50))
def test_a_separator_anywhere_is_refused_everywhere(subject: str, separator: str, at: int) -> None:
    bad = subject[:at] + separator + subject[at:]
    for check in (check_subject, check_queue, check_name):
        with pytest.raises(BadSubjectError, match=re.escape(f"must not contain {separator!r}")):
            check(bad)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("", "must not be empty"),
        (".a", "empty token"),
        ("a.", "empty token"),
        ("a..b", "empty token"),
        (".", "empty token"),
        ("a.*", "wildcards are for subscribing and filtering"),
        ("a.>", "wildcards are for subscribing and filtering"),
        ("a b", "must not contain ' '"),
        ("a\x00b", r"must not contain '\x00'"),
        ("\ud800", "must be text that UTF-8 can encode"),
        ("a" * (MAX_SUBJECT + 1), f"at most {MAX_SUBJECT} bytes, this one has {MAX_SUBJECT + 1}"),
        ("ü" * MAX_SUBJECT, f"this one has {2 * MAX_SUBJECT}"),
        (b"a", "must be a str, not bytes"),
        (None, "must be a str, not NoneType"),
    ],
)
def test_what_the_caller_is_told(subject: Any, why: str) -> None:
    with pytest.raises(BadSubjectError, match=re.escape(why)) as caught:
        check_subject(subject)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("pattern", [">.a", "a.>.b", ">.>"])
def test_a_tail_wildcard_is_last(pattern: str) -> None:
    with pytest.raises(BadSubjectError, match="must be the last token"):
        check_subject(pattern, wildcards=True)


@pytest.mark.parametrize("pattern", ["", "a..b", "a b", "a" * (MAX_SUBJECT + 1), "\udfff"])
def test_patterns_follow_the_other_rules_too(pattern: str) -> None:
    with pytest.raises(BadSubjectError):
        check_subject(pattern, wildcards=True)


def test_the_longest_lines_fit_into_a_control_line() -> None:
    longest = check_subject("a" * MAX_SUBJECT)
    assert len(b"HPUB %b %b %d %d" % (longest, longest, 999_999_999, 999_999_999)) <= 4096


@pytest.mark.parametrize("queue", ["workers", "a.b", "a..b", "*", ">", "ü"])
def test_queue_groups(queue: str) -> None:
    assert check_queue(queue) == queue.encode()


@pytest.mark.parametrize("queue", ["", "a b", "a\r\nb", "\ud800", "a" * (MAX_SUBJECT + 1), 5])
def test_bad_queue_groups(queue: Any) -> None:
    with pytest.raises(BadSubjectError, match="^a queue group"):
        check_queue(queue)


@pytest.mark.parametrize("name", ["ORDERS", "a-b_c", "ü", "a" * MAX_NAME])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "a.b", "a*", ">", "a/b", "a\\b", "a b", "a\tb", "\ud800", "a" * (MAX_NAME + 1), b"a"]
)
def test_bad_names(name: Any) -> None:
    with pytest.raises(BadSubjectError, match="^a consumer name"):
        check_name(name, "consumer")


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.b", False),
        ("a.b", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.*.c", "a.b.c", True),
        ("a.*.c", "a.b.d", False),
        (">", "a", True),
        (">", "a.b.c", True),
        ("a.>", "a", False),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "b.c", False),
        ("*.>", "a.b.c", True),
        ("a.*.>", "a.b", False),
        ("a.b*", "a.bc", False),
    ],
)
def test_matching(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


def as_regex(pattern: str) -> str:
    parts = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(parts.get(token, re.escape(token)) for token in pattern.split("."))


@given(st.lists(st.sampled_from(["a", "b", "*"]), max_size=3), st.sampled_from(["a", "*", ">"]),
       st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=5).map(".".join))  # fmt: skip
def test_matching_agrees_with_a_regular_expression(head: list[str], last: str, subject: str) -> None:
    pattern = ".".join([*head, last])
    assert matches(pattern, subject) is (re.fullmatch(as_regex(pattern), subject) is not None)
