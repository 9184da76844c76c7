"""Options of verbs: declared once, checked where the value is made, and shown by ``help()``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, TypedDict, Unpack

import pytest

from jsproto.errors import LocalProtocolError, WrongTypeError
from jsproto.grammar.options import (
    Option,
    checked,
    explained,
    named,
    of_call,
    of_count,
    of_flag,
    of_range,
    of_text,
    of_time,
    of_type,
    of_words,
    or_none,
    split,
)
from jsproto.grammar.times import Duration


class Options(TypedDict, total=False):
    """What a verb of this test takes.

    Attributes:
        size: how many.
        pause: seconds, or a timedelta.
            None: none.
    """

    size: Annotated[int, Option(3, of_count)]
    pause: Annotated[Duration | None, Option(None, of_time)]


def test_a_value_has_all_options_in_one_form() -> None:
    assert checked(Options, {}) == {"size": 3, "pause": None}
    assert checked(Options, {"pause": timedelta(minutes=1), "size": 1}) == {"size": 1, "pause": 60.0}
    value = checked(Options, {})
    value["size"] = 9
    assert checked(Options, {})["size"] == 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"siz": 1}, "there is no option 'siz': did you mean 'size'?"),
        ({"size": 0}, "size is a whole number of 1 or more, not 0"),
        ({"size": None}, "size is a whole number of 1 or more, not None"),
        ({"pause": "1"}, "pause is a number of seconds, 0 or more, or a timedelta, not '1'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(given: dict[str, Any], text: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked(Options, given)
    assert str(caught.value) == text


def test_an_unknown_name_is_a_type_error_too() -> None:
    with pytest.raises(TypeError) as caught:
        checked(Options, {"nonsense": True})
    assert type(caught.value) is WrongTypeError


def test_options_of_several_homes_are_split_unchecked() -> None:
    mine, rest = split(Options, {"size": 0, "other": 1})
    assert (mine, rest) == ({"size": 0}, {"other": 1})


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (of_range(1, 3), [1, 3], [0, 4, True, 1.0, "1", None]),
        (of_words("a", "b"), ["a", "b"], ["c", None, 1, []]),
        (of_type(list, "a list"), [[]], [(), None]),
        (of_flag, [True, False], [0, None, "yes"]),
        (of_text, ["", "a"], [b"a", None, 1]),
        (of_call, [print], [None, 1]),
        (or_none(of_count), [None, 1], [0, "1"]),
        (of_time, [0, 1.5, timedelta(1)], [-1, True, float("nan"), "1", b"", [], None]),
    ],
)
def test_checks(check: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert check("it", value) == (value.total_seconds() if isinstance(value, timedelta) else value)
    for value in bad:
        with pytest.raises(LocalProtocolError, match="^it "):
            check("it", value)


def test_names_alone_are_checked() -> None:
    given: Any = {"size": 0}
    assert named(Options, given) is given
    with pytest.raises(WrongTypeError, match="there is no option 'siz': did you mean 'size'"):
        named(Options, {**given, "siz": 1})


def test_a_long_line_has_its_default_below() -> None:
    class Long(TypedDict, total=False):
        """One option.

        Attributes:
            size: a text that is as long as a line of help may be, which leaves no room for its default.
        """

        size: Annotated[int, Option(3, of_count)]

    @explained(Long)
    def verb(**options: Unpack[Long]) -> None:
        """Do it."""

    verb()
    assert (verb.__doc__ or "").splitlines()[-1] == f"{8 * ' '}Default: 3."


def test_a_verb_shows_what_it_takes() -> None:
    @explained(Options)
    def verb(**options: Unpack[Options]) -> None:
        """Do it.

        Args:
            options: those below.

        Raises:
            LocalProtocolError: it cannot be.
        """

    @explained(Options)
    def other(**options: Unpack[Options]) -> None:
        """Do it."""

    @explained(Options)
    def silent(**options: Unpack[Options]) -> None: ...

    verb(size=1)
    other()
    silent()
    lines = [line.strip() for line in (verb.__doc__ or "").splitlines()]
    shown = ["size: how many. Default: 3.", "pause: seconds, or a timedelta.", "None: none."]
    assert lines[2:] == [
        "Args:", "options: those below.", *shown, "", "Raises:", "LocalProtocolError: it cannot be.",
    ]  # fmt: skip
    assert [line.strip() for line in (other.__doc__ or "").splitlines()] == ["Do it.", "", "Options:", *shown]
    assert silent.__doc__ is None
