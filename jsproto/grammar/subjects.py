"""Subjects, queue groups and names: what may be written to the wire, and which subject matches which pattern.

Rules: a subject is tokens of one character or more, joined by dots. Blanks, tabs, line ends and NUL would split or end
the control line they stand in. VT and FF are blanks to some readers: all seven are refused. ``*`` stands for one token,
``>`` for all that follow. Both are wildcards only as whole tokens (servers take ``a*b`` literally). Text becomes UTF-8.
Bytes that were received outside UTF-8 (surrogate escapes) become themselves again. Everything this side sends passes
here, which keeps foreign text out of control lines, and control lines short enough for servers.

Not here: what a subject is for (``api``, ``jsack``, ``fast``). Who may use it.
"""

from __future__ import annotations

import re
from typing import Final

from jsproto.errors import BadSubjectError

MAX_SUBJECT: Final = 2032
"""Bytes in a subject or queue group: two of them, a verb and two sizes fit into nats-server's default control line."""

MAX_NAME: Final = 255
"""Bytes in the name of a stream or consumer (nats-server's ``JSMaxNameLen``)."""

# \t-\r is HTAB LF VT FF CR. The possessive quantifiers keep refusing as cheap as accepting. Groups with a lookahead
# have none: Python before 3.11.5 ignores a lookahead in a possessive group.
_TEXT: Final = r"[^\0\t-\r .]++"
_LITERAL_TOKEN: Final = rf"(?![*>](?:\.|\Z)){_TEXT}"
_LITERAL: Final = re.compile(rf"{_LITERAL_TOKEN}(?:\.{_LITERAL_TOKEN})*")
_PATTERN: Final = re.compile(rf"(?:(?!>\.){_TEXT}\.)*{_TEXT}")
_NAME: Final = re.compile(r"[^\0\t-\r .*>/\\]++")
_SEPARATOR: Final = re.compile(r"[\0\t-\r ]")


def check_subject(subject: str, *, wildcards: bool = False) -> bytes:
    """The subject as the wire has it. ``wildcards`` allows them.

    BadSubjectError: it is something other than a str, is empty, has an empty token, a character that would end it, a
    forbidden wildcard, or more than MAX_SUBJECT bytes.
    """
    grammar = _PATTERN if wildcards else _LITERAL
    try:
        if grammar.fullmatch(subject) is not None:
            encoded = subject.encode("utf-8", "surrogateescape")
            if len(encoded) <= MAX_SUBJECT:
                return encoded
    except (TypeError, UnicodeEncodeError):
        pass
    raise BadSubjectError(_complaint(subject, "subject", MAX_SUBJECT) or _wrong_tokens(subject, wildcards))


def check_queue(queue: str) -> bytes:
    """The name of a queue group as the wire has it: one word of at most MAX_SUBJECT bytes, or BadSubjectError."""
    complaint = _complaint(queue, "queue group", MAX_SUBJECT)
    if complaint is not None:
        raise BadSubjectError(complaint)
    return queue.encode("utf-8", "surrogateescape")


def check_name(name: str, kind: str = "stream") -> str:
    """``name``, which servers take as the name of a stream, consumer or domain (``kind``, for the message).

    BadSubjectError: it is something other than a str, is empty, has ``. * > / \\``, a blank or the like, or more than
    MAX_NAME bytes.
    """
    complaint = _complaint(name, f"{kind} name", MAX_NAME)
    if complaint is None and _NAME.fullmatch(name) is None:
        complaint = f"a {kind} name must not contain any of . * > / \\: {name!r}"
    if complaint is not None:
        raise BadSubjectError(complaint)
    return name


def has_wildcards(subject: str) -> bool:
    """Whether a subject, which must have passed ``check_subject``, stands for others."""
    return not {"*", ">"}.isdisjoint(subject.split("."))


def matches(pattern: str, subject: str) -> bool:
    """Whether ``subject`` matches ``pattern``, which must have passed ``check_subject``. A peer says ``subject``."""
    if pattern[0] != subject[:1] and pattern[0] not in "*>":
        return False  # a server tries many patterns that begin with another letter
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        del wanted[-1]
        if len(tokens) <= len(wanted):
            return False
        del tokens[len(wanted) :]
    return len(tokens) == len(wanted) and all(want in ("*", token) for want, token in zip(wanted, tokens, strict=True))


def overlaps(one: str, another: str) -> bool:
    """Whether some subject matches both patterns. Both must have passed ``check_subject``."""
    left, right = one.split("."), another.split(".")
    for mine, theirs in zip(left, right, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(left) == len(right)


def contains(wide: str, narrow: str) -> bool:
    """Whether every subject that matches ``narrow`` matches ``wide``. Both must have passed ``check_subject``."""
    wanted, tokens = wide.split("."), narrow.split(".")
    for place, want in enumerate(wanted):
        if place == len(tokens) or (tokens[place] == ">" and want != ">"):
            return False
        if want == ">":
            return True
        if want not in ("*", tokens[place]):
            return False
    return len(wanted) == len(tokens)


def _complaint(value: object, what: str, limit: int) -> str | None:
    """The reason that keeps ``value`` from being one word on a control line, or None."""
    if not isinstance(value, str):
        return f"a {what} must be a str, not {type(value).__name__}"
    if not value:
        return f"a {what} must not be empty"
    found = _SEPARATOR.search(value)
    if found is not None:
        return f"a {what} must not contain {found[0]!r}: {value!r:.200}"
    try:
        size = len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return f"a {what} must be text that UTF-8 can encode: {value!r:.200}"
    return f"a {what} has at most {limit} bytes, this one has {size}" if size > limit else None


def _wrong_tokens(subject: str, wildcards: bool) -> str:
    """The reason that keeps the tokens of ``subject``, words as they are, from making a subject."""
    tokens = subject.split(".")
    if "" in tokens:
        return f"a subject must not have an empty token (check its dots): {subject!r}"
    if wildcards:
        return f"'>' must be the last token of a subject: {subject!r}"
    return f"wildcards are for subscribing and filtering; this needs one subject without them: {subject!r}"
