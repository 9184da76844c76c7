"""How one subject becomes another: in copies, on the way into a stream, and when a message is published again.

Rules, those of nats-server 2.15.1:

* ``$1``, or ``{{wildcard(1)}}``, in the destination is the first ``*`` of the source, and so on. A number below 1 is
  the first token.
* ``{{partition(3,1,2)}}`` is the hash of those tokens, modulo 3, or that of the whole subject without tokens.
* ``{{left(1,2)}}`` and ``{{right(1,2)}}`` are two bytes of a token. ``{{splitFromLeft(1,2)}}``, ``{{splitFromRight}}``,
  ``{{sliceFromLeft}}``, ``{{sliceFromRight}}`` and ``{{split(1,-)}}`` make more tokens of one.
* ``{{random(3)}}`` is a number below 3. It looks random, and is the same for each subject.
* A ``>`` at the end takes the rest. An empty destination changes nothing.

Not here: transforms that can be turned around, which accounts need.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from jsproto.errors import BadSubjectError
from jsproto.grammar.subjects import check_subject, matches
from jsproto.server.store.refusals import refusal

_FUNCTION: Final = re.compile(r"\{\{\s*(\w+)\s*\((.*)\)\s*\}\}")
_PLACE: Final = re.compile(r"\$([+-]?[0-9]{1,9})", re.ASCII)
_NUMBER: Final = re.compile(r" *([+-]?[0-9]{1,9}) *", re.ASCII)
_NAMES: Final = {
    name.lower(): re.compile("".join(f"[{sign.lower()}{sign}]" if sign.isupper() else sign for sign in name))
    for name in (
        "Wildcard", "Partition", "SplitFromLeft", "SplitFromRight", "SliceFromLeft", "SliceFromRight", "Left", "Right",
        "Split", "Random",
    )
}  # fmt: skip
_NOT_ENOUGH: Final = "not enough arguments passed to the function"
_TOO_MANY: Final = "too many arguments passed to the function"
_WRONG: Final = "function argument is invalid or in the wrong format"
_OUT_OF_RANGE: Final = "wildcard index out of range"
_OFFSET: Final = 2_166_136_261
_PRIME: Final = 16_777_619


class _Piece(NamedTuple):
    """A token of a destination. ``places``: those of the subject that it is made of, counted from 0."""

    function: str
    places: tuple[int, ...] = ()
    number: int = 0
    text: str = ""


class Transform:
    """One subject that becomes another."""

    __slots__ = ("_pieces", "source")

    def __init__(self, source: str, destination: str, is_bad: int) -> None:
        """``is_bad``: the code of the error for a transform that is none."""
        self.source = source
        self._pieces: list[_Piece] | None = None
        if not destination:
            return
        to, tokens = destination.split("."), source.split(".")
        has_rest = tokens[-1] == ">"
        stars = [place for place, token in enumerate(tokens) if token == "*"]
        try:
            _check(to)
            if not _is_pattern(source) or "*" in to or has_rest != (to[-1] == ">"):
                raise refusal(is_bad, "invalid subject")
            wildcards = stars if stars or has_rest else None
            self._pieces = [_read(token, wildcards) for token in (to[:-1] if has_rest else to)]
        except ValueError as error:
            raise refusal(is_bad, f"invalid mapping destination: {error}") from None

    def of(self, subject: str) -> str:
        """The transformed ``subject``, which matches the source."""
        if self._pieces is None:
            return subject
        tokens = [token.encode("utf-8", "surrogateescape") for token in subject.split(".")]
        made = [_made(piece, tokens) for piece in self._pieces]
        wanted = self.source.split(".")
        rest = tokens[len(wanted) - 1 :] if wanted[-1] == ">" else []
        return b".".join(made + rest).decode("utf-8", "surrogateescape")

    def renamed(self, subject: bytes) -> bytes | None:
        """The transformed ``subject``. None: it does not match the source."""
        text = subject.decode("utf-8", "surrogateescape")
        return self.of(text).encode("utf-8", "surrogateescape") if matches(self.source, text) else None


@lru_cache(256)  # each message asks for that of its stream
def transform(source: str, destination: str) -> Transform:
    """A transform that was checked before."""
    return Transform(source, destination, 10156)


def _check(destination: list[str]) -> None:
    """Check the tokens of a destination by themselves.

    Raises:
        ValueError: one is empty, or has a blank, or an unknown function, or comes after ``>``.
    """
    for number, token in enumerate(destination):
        if token and ">" in destination[:number]:
            raise ValueError(f"invalid transform in {token}")
        if _is_function(token):
            _name(token)
        elif not _is_pattern(token):
            raise ValueError("invalid transform")


def _is_pattern(subject: str) -> bool:
    try:
        check_subject(subject, wildcards=True)
    except BadSubjectError:
        return False
    return True


def _is_function(token: str) -> bool:
    return token.startswith("{{") and token.endswith("}}") and len(token) > 4


def _name(token: str) -> tuple[str, str]:
    """The name of a function, and its arguments.

    Raises:
        ValueError: it is unknown.
    """
    called = _FUNCTION.fullmatch(token)
    name = "" if called is None else called[1].lower()
    if called is None or name not in _NAMES or _NAMES[name].fullmatch(called[1]) is None:
        raise ValueError(f"unknown function in {token}")
    return name, called[2]


def _read(token: str, stars: list[int] | None) -> _Piece:
    """One token of a destination. ``stars``: where the source has them. None: it has no wildcards at all.

    Raises:
        ValueError: it has a function that is none.
    """
    piece, numbers = _function(token)
    if stars is None:
        if numbers and piece.function != "partition":
            raise ValueError(f"{_OUT_OF_RANGE} in {token}")
        return piece
    beyond = [number for number in numbers if number > len(stars)]
    if beyond:
        raise ValueError(f"{_OUT_OF_RANGE} in {token}: [{beyond[0]}]")
    return piece._replace(places=tuple(stars[number - 1] if number > 0 else 0 for number in numbers))


def _function(token: str) -> tuple[_Piece, list[int]]:
    """What a token stands for, and the wildcards of which it is made, counted from 1."""
    place = _PLACE.fullmatch(token)
    if place is not None:
        return _Piece("wildcard"), [int(place[1])]
    if not _is_function(token):
        return _Piece("", text=token), []
    name, inside = _name(token)
    arguments = re.split(r",\s*", inside)
    if name == "partition":
        number, *wildcards = [_integer(each, token) for each in arguments]
        return _Piece(name, number=number), wildcards
    least = 1 if name in ("wildcard", "random") else 2
    if len(arguments) != least or (arguments == [""] and name == "wildcard"):
        is_short = len(arguments) < least or arguments == [""] or name == "random"
        raise ValueError(f"{_NOT_ENOUGH if is_short else _TOO_MANY} in {token}")
    first = _integer(arguments[0], token)
    if name == "random":
        return _Piece(name, number=first), []
    if name == "split":
        if " " in arguments[1]:
            raise ValueError(f"{_WRONG} in {token}")
        return _Piece(name, text=arguments[1]), [first]
    return _Piece(name, number=0 if least == 1 else _integer(arguments[1], token)), [first]


def _integer(text: str, token: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{_WRONG} in {token}")
    return int(found[1])


def _made(piece: _Piece, tokens: list[bytes]) -> bytes:
    """What a token of the destination is for a subject."""
    number = piece.number
    if not piece.function:
        return piece.text.encode("utf-8", "surrogateescape")
    if piece.function == "partition":
        key = b"".join(tokens[place] for place in piece.places) if piece.places else b".".join(tokens)
        return b"%d" % (_hash(key) % (number % 2**32) if number else 0)
    if piece.function == "random":
        return b"%d" % (_hash(b".".join(tokens) + b"random") % abs(number) if number else 0)
    token = tokens[piece.places[0]]
    if piece.function == "split":
        return _split(token, piece.text)
    if not 0 < number < len(token):
        return token
    match piece.function:
        case "left":
            return token[:number]
        case "right":
            return token[-number:]
        case "splitfromleft":
            return token[:number] + b"." + token[number:]
        case "splitfromright":
            return token[:-number] + b"." + token[-number:]
    first = len(token) % number if piece.function == "slicefromright" else 0
    slices = [token[:first]] + [token[start : start + number] for start in range(first, len(token), number)]
    return b".".join(each for each in slices if each)


def _split(token: bytes, by: str) -> bytes:
    """A token with dots in the place of ``by``, of several only one. Empty: between all letters."""
    text = token.decode("utf-8", "surrogateescape")
    parts = text.split(by) if by else list(text)
    made = ""
    for number, part in enumerate(parts):
        made += part
        has_next = number + 1 < len(parts) and parts[number + 1] != ""
        if has_next and (part or number):
            made += "."
    return made.encode("utf-8", "surrogateescape")


def _hash(key: bytes) -> int:
    """The hash FNV-1a, of 32 bits."""
    value = _OFFSET
    for byte in key:
        value = (value ^ byte) * _PRIME % 2**32
    return value
