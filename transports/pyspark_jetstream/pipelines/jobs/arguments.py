"""The arguments that several of the programs have, as attrs classes that hold checked values.

Rules: a field made by ``option``, ``switch`` or ``positional`` is one argument of the command line. Its text becomes a
checked value, or BadUsage with one line that names the option. ``running.new_program`` makes a command of
these classes.

Not here: arguments of one program alone, which stand with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Self

import attrs
import typer
from attrs import NOTHING

from jsproto.errors import LocalProtocolError
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto_io.cli.records import BadUsage
from pyspark_jetstream.options import Delivery

EPILOG: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."


PROMISES: Final = {
    Delivery.FAST: "at least once: a task that Spark runs again stores its rows again",
    Delivery.FAST_DEDUP: "once, if a task that runs again does so within the duplicate window",
    Delivery.ATOMIC: "once, however late a task runs again",
}

_ARGUMENT: Final = "argument"


def positional(
    text: str, metavar: str, default: Any = NOTHING, *, kind: Any = str, parse: Callable[[Any], Any] | None = None
) -> Any:
    """A field that is an argument by its place. See ``option``."""
    shown = typer.Argument(help=text, metavar=metavar, show_default=False)
    return _field(kind, shown, default, parse)


def option(
    text: str,
    metavar: str | None = None,
    default: Any = None,
    *,
    kind: Any = str,
    name: str | None = None,
    parse: Callable[[Any], Any] | None = None,
    check: Any = None,
    **more: Any,
) -> Any:
    """A field that is an option of the command line.

    ``text`` is its help, ``kind`` typer's type for it, or None, ``name`` its name if that differs from the field's.
    ``parse`` makes the field's value of that, ``check`` is a validator, and ``more`` is for typer.
    """
    names = [] if name is None else [name]
    shown = typer.Option(*names, help=text, metavar=metavar, show_default=default is not None, **more)
    return _field(kind, shown, default, parse, check)


def switch(name: str, text: str) -> Any:
    """A field that is False unless its option is given."""
    return option(text, default=False, kind=bool, name=name)


def _field(kind: Any, shown: Any, default: Any, parse: Callable[[Any], Any] | None, check: Any = None) -> Any:
    annotated: Any = Annotated
    converter = None if parse is None else attrs.converters.optional(parse)
    metadata = {_ARGUMENT: annotated[kind | None if default is None else kind, shown]}
    return attrs.field(default=default, converter=converter, validator=check, metadata=metadata)


def arguments_of(kind: type) -> Iterator[tuple[str, Any, Any]]:
    """The names of a class's arguments, their types for typer, and their defaults (``NOTHING`` for none)."""
    for field in attrs.fields(kind):
        yield field.name, field.metadata[_ARGUMENT], field.default


def pairs(given: Sequence[str] | dict[str, str], option: str) -> dict[str, str]:
    """NAME=VALUE, several times, or what came of it. BadUsage."""
    if isinstance(given, dict):
        return given
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadUsage(f"{option} takes NAME=VALUE, not {text!r}")
        found[name] = value
    return found


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?Z?")


@attrs.frozen
class Bound:
    """A place in a stream: a sequence, or a time in nanoseconds since the epoch."""

    seq: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, text: str | Self, option: str) -> Self:
        """``42``, ``2026-11-21``, ``2026-11-21T08:00``, or RFC 3339. BadUsage."""
        if not isinstance(text, str):
            return text
        if text.isascii() and text.isdigit() and int(text) > 0:
            return cls(seq=int(text))
        whole = f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text
        local = _LOCAL.fullmatch(whole)
        if local is not None:
            whole = f"{local[1]}T{local[2]}{local[3] or ':00'}Z"
        try:
            return cls(time=parse_timestamp(whole))
        except ValueError:
            raise BadUsage(f"{option} takes a sequence, or a time such as 2026-11-21T08:00, not {text!r}") from None


def bounds(stream: str, begin: Bound | None, end: Bound | None) -> dict[str, str]:
    """The data source's options for a stretch of a stream. Without bounds it is all of it."""
    options = {}
    for name, bound in (("starting", begin), ("ending", end)):
        if bound is None:
            continue
        if bound.seq is not None:
            options[f"{name}Offsets"] = json.dumps({stream: bound.seq})
        elif bound.time is not None:
            options[f"{name}Timestamp"] = format_timestamp(bound.time)
    return options


def stream_name(text: str) -> str:
    """A stream's name. BadUsage."""
    try:
        return check_name(text)
    except LocalProtocolError as error:
        raise BadUsage(str(error)) from None


def checked_subject(text: str, option: str) -> str:
    """A subject without wildcards. BadUsage."""
    return _subject(text, option, wildcards=False)


def checked_filter(text: str, option: str) -> str:
    """A subject that may have wildcards. BadUsage."""
    return _subject(text, option, wildcards=True)


def _subject(text: str, option: str, *, wildcards: bool) -> str:
    try:
        check_subject(text, wildcards=wildcards)
    except LocalProtocolError as error:
        raise BadUsage(f"{option}: {error}") from None
    return text


# -- groups of arguments -----------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Output:
    """How a program reports."""

    as_json: bool = switch("--json", "Print one JSON object instead of a table.")
    verbose: bool = switch("--verbose", "Show what Spark logs.")


@attrs.frozen(kw_only=True)
class Access:
    """How to reach the servers, or the folder for a server of one's own."""

    servers: str | None = option("NATS URLs, comma-separated. Default: what NATS_URL says.", "URL")
    store: str | None = option("No server: start one for this run, which keeps its streams in this folder.", "FOLDER")
    user: str | None = option("User name.", "NAME", envvar="NATS_USER")
    password: str | None = option("Password.", "TEXT", envvar="NATS_PASSWORD")
    token: str | None = option("Token.", "TEXT", envvar="NATS_TOKEN")
    nats: dict[str, str] | None = option(
        "Any other option nats.NAME of the connection: see the README of pyspark_jetstream. Repeat it for more.",
        "NAME=VALUE", kind=list[str], name="--nats", parse=partial(pairs, option="--nats"),
    )  # fmt: skip

    def __attrs_post_init__(self) -> None:
        if self.servers is not None and self.store is not None:
            raise BadUsage("--servers and --store exclude each other")

    @property
    def urls(self) -> str | None:
        """The servers: without --servers and --store those of NATS_URL."""
        return os.environ.get("NATS_URL") or None if self.servers is None and self.store is None else self.servers

    @property
    def options(self) -> dict[str, str]:
        """The data source's options of the connection."""
        named = {"user": self.user, "password": self.password, "token": self.token, **(self.nats or {})}
        return {f"nats.{name}": value for name, value in named.items() if value is not None}


@attrs.frozen(kw_only=True)
class SourceAccess(Access):
    """The same for a program that reads, for which an empty server has nothing."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.urls is None and self.store is None:
            raise BadUsage("where from? --servers URL, or --store FOLDER of what an earlier run has kept there")


@attrs.frozen(kw_only=True)
class Selection:
    """Which messages of a stream are read."""

    subject: str | None = option(
        "Only what matches. Wildcards are allowed.", "SUBJECT", parse=partial(checked_filter, option="--subject")
    )
    begin: Bound | None = option(
        "Sequence or UTC time to begin with.", "SEQ|TIME", name="--from", parse=partial(Bound.of, option="--from")
    )
    until: Bound | None = option(
        "Sequence or UTC time to end before.", "SEQ|TIME", parse=partial(Bound.of, option="--until")
    )

    def of(self, stream: str) -> dict[str, str]:
        """The data source's options for these messages of ``stream``."""
        options = {"stream": stream, **bounds(stream, self.begin, self.until)}
        return options if self.subject is None else {**options, "subject": self.subject}


@attrs.frozen(kw_only=True)
class Source(Selection):
    """A stream, and which of its messages are read."""

    source: str = positional("The stream to read.", "STREAM", parse=stream_name)


@attrs.frozen(kw_only=True, slots=False)  # with slots it could not be a second base class
class Destination:
    """How rows are stored in a stream."""

    create_stream: bool = switch("--create-stream", "Make the stream if it is not there.")
    delivery: Delivery = option(
        "What is stored when Spark runs a task twice. fast: its rows twice. fastDedup: once within the stream's "
        "duplicate window. atomic: once.", default=Delivery.FAST, kind=Delivery,
    )  # fmt: skip
    marker: str | None = option(
        "With atomic: its markers go to SUBJECT.$spark.*.*, which the stream must take. Default: what fits.",
        "SUBJECT", parse=partial(checked_subject, option="--marker"),
    )  # fmt: skip


@attrs.frozen(kw_only=True)
class Continuation:
    """Whether a run goes on where the last one ended."""

    checkpoint: str | None = option(
        "Remember in this folder what is done: each run takes what is new, then ends.", "FOLDER"
    )
    follow: bool = switch("--follow", "With --checkpoint: go on until Ctrl-C.")

    def __attrs_post_init__(self) -> None:
        if self.follow and self.checkpoint is None:
            raise BadUsage("--follow needs --checkpoint, or the next run would begin anew")
