"""A field of an options class: its name in Spark, how its text becomes a value, and its row in the README.

Rules: an option is declared once, as an attribute of a class of ``options``. Its converter takes the text that Spark
has, and passes any other value, so that ``attrs.evolve`` works. A value that cannot be is an OptionError of one line,
which names the option.

Not here: which options there are (``options``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import attrs

from jsproto.errors import LocalProtocolError
from pyspark_jetstream.foreign_names import answer, is_sparks
from pyspark_jetstream.security import content_of

Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]

LARGEST: Final = 2**63 - 1
CONNECTION: Final = "nats."
"""What the names of most options of the connection begin with."""
PATH: Final = "path"
"""Spark's own name for the argument of ``load`` and ``save``."""
CONTENT: Final = ".content"
"""What is added to the name of an option that names a file, for what such a file holds."""
NEAR: Final = 3  # names that an error lists, at most
NEARNESS: Final = 0.6  # of a misspelt name, from 0 to 1
_OPTION: Final = "option"
_SECONDS: Final = "seconds, or such as 500ms, 30s, 15m or 2h; a day at most"
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)")
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600}
_FLAGS: Final = {"true": True, "false": False}


class OptionError(ValueError):
    """An option that is missing or cannot be. The message is one line and names it."""


@attrs.frozen(kw_only=True)
class Option:
    """What Spark's users see of a field.

    Attributes:
        ``name``, ``aliases``: in Spark, in any case.
        ``text``, ``shown``: description and default for the README.
        ``required``: an example, for the error of a missing option. Empty: the option may be missing.
        ``excludes``: options that cannot be given as well, with what the error adds.
        ``needs``: another option, without which this one says nothing.
        ``exact``: spaces around the value count.
        ``file``: the value names a file. With ``CONTENT`` after the name, the value is what such a file holds.
    """

    name: str
    text: str
    shown: str = ""
    aliases: tuple[str, ...] = ()
    required: str = ""
    excludes: Mapping[str, str] = attrs.Factory(dict)
    needs: str = ""
    exact: bool = False
    file: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the one that counts before the others first."""
        return self.name, *self.aliases


def option(
    name: str,
    text: str,
    *,
    parse: Callable[[str], Any] = str,
    form: str = "",
    default: Any = None,
    otherwise: Callable[[Any], Any] | None = None,
    complete: Callable[[Any, Any], Any] | None = None,
    check: Sequence[Check] = (),
    show: Callable[[Any], str] | bool = True,
    **more: Any,
) -> Any:
    """A field of an options class.

    ``parse`` makes the value of the text, and ``form`` says in errors what it may be. ``otherwise`` makes a default of
    the fields before this one, and ``complete`` the final value of the parsed one and of the fields before. ``check``
    are validators, ``show`` is for the repr, and ``more`` are attributes of ``Option``.
    """
    declared = Option(name=name, text=text, **more)

    def fallback(instance: Any) -> Any:
        found = default if otherwise is None else otherwise(instance)
        if found is None and declared.required:
            raise OptionError(f"option {name} is missing, {declared.required}")
        return found

    def convert(value: Any, instance: Any) -> Any:
        if isinstance(value, str):
            try:
                value = parse(value)
            except OptionError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError, LocalProtocolError) as error:
                reason = error if isinstance(error, LocalProtocolError) else form
                raise OptionError(f"option {name} cannot be {value!r}: {reason}") from None
        return value if complete is None or value is None else complete(value, instance)

    return attrs.field(
        default=attrs.Factory(fallback, takes_self=True),
        converter=attrs.Converter(convert, takes_self=True),
        validator=[*check],
        repr=show,
        metadata={_OPTION: declared},
    )


def count(name: str, text: str, default: int | None = None, most: int = LARGEST, **more: Any) -> Any:
    """A number from 1 to ``most``."""

    def check(_: object, field: attrs.Attribute[Any], number: int | None) -> None:
        if number is not None and not 1 <= number <= most:
            raise OptionError(f"option {name} must be 1 to {most}, not {number}")

    more.setdefault("shown", "" if default is None else str(default))
    return option(name, text, parse=int, form=f"a number from 1 to {most}", default=default, check=[check], **more)


def flag(name: str, text: str, default: bool | None = None, **more: Any) -> Any:
    """True or false."""
    more.setdefault("shown", str(default).lower())
    return option(name, text, parse=_flag, form="true or false", default=default, **more)


def duration(name: str, text: str, default: float | None = None, **more: Any) -> Any:
    """Seconds."""
    return option(name, text, parse=_seconds, form=_SECONDS, default=default, **more)


def option_of(field: attrs.Attribute[Any]) -> Option:
    """The option of a field that ``option`` made."""
    found: Option = field.metadata[_OPTION]
    return found


def options_of(kind: type) -> Iterator[tuple[str, Option]]:
    """The names of the fields that ``option`` made in a class, with their options, in the order of the class."""
    for field in attrs.fields(kind):
        if _OPTION in field.metadata:
            yield field.name, option_of(field)


class GivenOptions:
    """The options that Spark hands over, by name in any case."""

    def __init__(self, options: Mapping[str, str], known: Sequence[type], others: type, direction: str) -> None:
        """Check the names. OptionError for one that cannot be.

        ``known`` are the classes whose options count, ``others`` is the class of the other direction, and
        ``direction`` is "read" or "write".
        """
        self._given = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for kind in known for _, each in options_of(kind) for name in each.names}
        names |= {f"{name}{CONTENT}".lower(): f"{name}{CONTENT}" for name in names.values() if name in _files(known)}
        for _, other in options_of(others):
            if other.name.lower() not in names and self.text(other.name) is not None:
                raise OptionError(f"option {other.name} is not for a {direction}")
        for name in options:
            if name.lower() not in names and not is_sparks(name.lower()):
                where = "the connection" if name.lower().startswith(CONNECTION) else f"a {direction}"
                raise OptionError(f"there is no option {name!r} for {where}{_instead(name.lower(), names)}")

    def text(self, name: str) -> str | None:
        """What was given, without spaces around it. None: nothing, or spaces."""
        return self._given.get(name.lower(), "").strip() or None

    def made(self, kind: type, **fields: Any) -> Any:
        """An instance of ``kind`` with what was given, and ``fields``. OptionError."""
        texts: dict[str, str] = {}
        by_name = {}
        for field, each in options_of(kind):
            found = self._value(each)
            if found is not None:
                texts[field] = found
                by_name[each.name] = each
        for name, each in by_name.items():
            if each.needs and each.needs not in by_name:
                raise OptionError(f"option {name} needs {each.needs}")
            for other, why in each.excludes.items():
                if other in by_name:
                    raise OptionError(f"options {other} and {name} exclude each other{why}")
        return kind(**texts, **fields)

    def _value(self, wanted: Option) -> str | None:
        if wanted.file:
            return self._content(wanted.name)
        if wanted.exact:
            return self._given.get(wanted.name.lower())
        return next(filter(None, map(self.text, wanted.names)), None)

    def _content(self, name: str) -> str | None:
        """Of an option that names a file: the content that was given, or that of the file."""
        content, path = self._given.get(name.lower() + CONTENT), self._given.get(name.lower())
        if content is not None and path is not None:
            raise OptionError(f"options {name} and {name}{CONTENT} exclude each other")
        try:
            return content if path is None else content_of(name, path)
        except ValueError as error:
            raise OptionError(str(error)) from None


def _files(kinds: Sequence[type]) -> set[str]:
    return {each.name for kind in kinds for _, each in options_of(kind) if each.file}


def _instead(name: str, names: Mapping[str, str]) -> str:
    """What an error adds to the name of an option that there is not. ``names``: those that there are."""
    meant = answer(name)
    if meant is not None:
        return f": {meant}"
    near = get_close_matches(name, names.keys() - {PATH}, NEAR, NEARNESS)
    return f"; did you mean {' or '.join(repr(names[each]) for each in near)}?" if near else ""


def _flag(text: str) -> bool:
    return _FLAGS[text.lower()]


def _seconds(text: str) -> float:
    number, unit = _DURATION.fullmatch(text).groups()  # type: ignore[union-attr]  # AttributeError: it is none
    seconds = float(number) * _UNITS[unit or "s"]
    if not 0 < seconds <= 86_400:
        raise ValueError
    return seconds
