"""Options of verbs: each is declared once, as a line of a TypedDict, and checked where the value is made.

Rules:

* A line has the name, the type, and an ``Option``: the default, and the check of anything else. The docstring of the
  TypedDict says what each option means. Its lines are the ``Attributes``.
* A verb takes ``**options: Unpack[...]`` of it. So type checkers refuse wrong names and types.
* ``checked`` makes the value: all options, by name. A wrong name, type or range is LocalProtocolError, at the call.
* A verb that hands options on to one with more keywords hands on ``named`` ones.
* The default passes without a check. So None is allowed where it is the default.
* ``explained`` puts the lines into the docstring of the verb, for ``help()``. Lines without an ``Option`` will do.

Not here: the options of ``connect()`` (``client.connection.connect_options``), the fields of configurations
(``config``, ``consumer``), the keywords of a publish (``publish_headers``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

from jsproto.errors import LocalProtocolError, WrongTypeError
from jsproto.grammar.fields import check_count, checked_word, nearest
from jsproto.grammar.times import Duration, seconds

_WIDTH: Final = 100  # columns of a line for ``help()``, before its margin

F = TypeVar("F", bound=Callable[..., Any])
O = TypeVar("O", bound=Mapping[str, object])  # noqa: E741

Check: TypeAlias = Callable[[str, Any], Any]
"""Given the name and the value of an option, the value in its one form. LocalProtocolError if it cannot be one."""


class Option(NamedTuple):
    """What belongs to an option besides its name and type. ``check`` is for all values but the ``default``."""

    default: Any
    check: Check


def checked(kind: type[O], given: Mapping[str, object]) -> O:
    """The value of ``kind``, a TypedDict of options: those that are ``given``, and the defaults of the others.

    Raises:
        WrongTypeError: there is no option of a name. The text offers the nearest one.
        LocalProtocolError: a value cannot be one, by the option's check.
    """
    options, values = _declared(kind)
    values = values.copy()
    for name, value in given.items():
        option = options.get(name)
        if option is None:
            raise _unknown(name, options)
        values[name] = value if value is option.default else option.check(name, value)
    return cast(O, values)


def named(kind: type[O], given: O) -> O:
    """``given``, for a verb that has more keywords than the options of ``kind``. Values are not checked.

    Raises:
        WrongTypeError: there is no option of a name. The text offers the nearest one.
    """
    names = kind.__annotations__
    for name in given:
        if name not in names:
            raise _unknown(name, names)
    return given


def split(kind: type[O], given: Mapping[str, object]) -> tuple[O, dict[str, Any]]:
    """The options of ``kind`` among those of a verb, and the rest, which has another home. Nothing is checked."""
    options, _ = _declared(kind)
    mine = {name: value for name, value in given.items() if name in options}
    return cast(O, mine), {name: value for name, value in given.items() if name not in mine}


def _unknown(name: str, names: Collection[str]) -> WrongTypeError:
    return WrongTypeError(f"there is no option {name!r:.100}{nearest(name, names)}")


@cache
def _declared(kind: type[Mapping[str, object]]) -> tuple[dict[str, Option], dict[str, Any]]:
    """The options of a TypedDict, and their defaults. Fields of other kinds are checked elsewhere."""
    hints = get_type_hints(kind, include_extras=True)
    options = {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return options, {name: option.default for name, option in options.items()}


def explained(*kinds: type[Mapping[str, object]]) -> Callable[[F], F]:
    """Add the options of ``kinds`` to the docstring of a verb: to its ``Args``, or as ``Options`` at its end."""

    def explain(verb: F) -> F:
        if verb.__doc__ is not None:
            lines = [line for kind in kinds for line in _attributes(kind)]
            verb.__doc__ = _with_lines(verb.__doc__, lines)
        return verb

    return explain


def _with_lines(docstring: str, lines: list[str]) -> str:
    first, *rest = docstring.rstrip().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line), default=0) * " "
    texts = [f"{margin}{line}" for line in lines]
    if f"{margin}Args:" not in rest:
        return "\n".join([first, *rest, "", f"{margin}Options:", *texts])
    begin = rest.index(f"{margin}Args:")
    end = rest.index("", begin) if "" in rest[begin:] else len(rest)
    return "\n".join([first, *rest[:end], *texts, *rest[end:]])


def _attributes(kind: type[Mapping[str, object]]) -> list[str]:
    """The lines of the section ``Attributes``, indented once. The last line of an option has its default."""
    lines = (kind.__doc__ or "").rstrip().split("\n")
    begin = [line.strip() for line in lines].index("Attributes:")
    margin = len(lines[begin]) - len(lines[begin].lstrip())
    shown = [line[margin:] for line in lines[begin + 1 :]]
    _, defaults = _declared(kind)
    begins = [number for number, line in enumerate(shown) if line[:4].isspace() and not line[4].isspace()]
    for first, end in zip(begins, [*begins[1:], len(shown)], strict=True):
        default = defaults.get(shown[first].strip().partition(":")[0])
        if default not in (None, False, ()):
            text = f"Default: {default!r}."
            if len(shown[end - 1]) + 1 + len(text) > _WIDTH:
                shown[end - 1] += f"\n{8 * ' '}{text}"
            else:
                shown[end - 1] += f" {text}"
    return shown


# -- checks ------------------------------------------------------------------------------------------------------------


def of_time(name: str, value: Duration | None) -> float:
    """A duration of 0 or more, in seconds."""
    if value is None:  # which would be a default
        raise LocalProtocolError(f"{name} is a number of seconds, 0 or more, or a timedelta, not None")
    return seconds(value, name)


def of_count(name: str, value: Any) -> int:
    """How many, or how many bytes: a whole number of 1 or more."""
    check_count(name, value)
    return cast(int, value)


def of_range(least: int, most: int) -> Check:
    """A whole number from ``least`` to ``most``."""

    def check(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise LocalProtocolError(f"{name} is a whole number from {least} to {most}, not {value!r:.100}")
        return value

    return check


def of_words(*allowed: str) -> Check:
    """One of a few words."""

    def check(name: str, value: Any) -> str:
        checked_word(name, value, allowed)
        return cast(str, value)

    return check


def of_type(kind: type | tuple[type, ...], described: str) -> Check:
    """An object of a class. ``described``: what it is, for the error."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise LocalProtocolError(f"{name} must be {described}, not {type(value).__name__}")
        return value

    return check


def or_none(check: Check) -> Check:
    """The same, or None, where that is not the default."""
    return lambda name, value: None if value is None else check(name, value)


def of_flag(name: str, value: object) -> bool:
    """True or False, and nothing that stands for them."""
    if not isinstance(value, bool):
        raise LocalProtocolError(f"{name} must be True or False, not {value!r:.100}")
    return value


def of_text(name: str, value: object) -> str:
    """A str."""
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} must be a str, not {value!r:.100}")
    return value


def of_call(name: str, value: Any) -> Callable[..., Any]:
    """What can be called."""
    if not callable(value):
        raise LocalProtocolError(f"{name} must be callable, not {type(value).__name__}")
    return cast(Callable[..., Any], value)
