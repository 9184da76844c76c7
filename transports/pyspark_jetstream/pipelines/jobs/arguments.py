"""The arguments that several of the programs have, as attrs classes that hold checked values.

Rules: a field made by ``argument`` is one argument of the command line. Its text becomes a checked value, or BadUsage
with one line that names the option. ``running.new_program`` makes the command of these classes.

Not here: arguments of one program alone, which stand with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Self

import attrs
import typer

from jsproto.errors import LocalProtocolError
from jsproto.grammar.subjects import check_name, check_subject
from jsproto.grammar.times import format_timestamp, parse_timestamp
from jsproto_io.cli.records import BadUsage

EPILOG: Final = "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."


class Delivery(StrEnum):
    """What a sink promises."""

    FAST = "fast"
    FAST_DEDUP = "fastDedup"
    ATOMIC = "atomic"


PROMISES: Final = {
    Delivery.FAST: "at least once: a task that Spark runs again stores its rows again",
    Delivery.FAST_DEDUP: "once, if a task that runs again does so within the duplicate window",
    Delivery.ATOMIC: "once, however late a task runs again",
}

Servers = Annotated[
    str | None,
    typer.Option(help="NATS URLs, comma-separated. Default: what NATS_URL says.", metavar="URL", show_default=False),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="No server: start one for this run, which keeps its streams in this folder.",
        metavar="FOLDER",
        show_default=False,
    ),
]
User = Annotated[str | None, typer.Option(envvar="NATS_USER", help="User name.", metavar="NAME")]
Password = Annotated[str | None, typer.Option(envvar="NATS_PASSWORD", help="Password.", metavar="TEXT")]
Token = Annotated[str | None, typer.Option(envvar="NATS_TOKEN", help="Token.", metavar="TEXT")]
Nats = Annotated[
    list[str] | None,
    typer.Option(
        "--nats",
        help="Any other option nats.NAME of the connection: see the README of pyspark_jetstream. Repeat it for more.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show what Spark logs.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Deliver = Annotated[
    Delivery,
    typer.Option(
        help="What is stored when Spark runs a task twice. fast: its rows twice. fastDedup: once within the stream's "
        "duplicate window. atomic: once."
    ),
]
Marker = Annotated[
    str | None,
    typer.Option(
        help="With atomic: its markers go to SUBJECT.$spark.*.*, which the stream must take. Default: what fits.",
        metavar="SUBJECT",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Remember in this folder what is done: each run takes what is new, then ends.",
        metavar="FOLDER",
        show_default=False,
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="With --checkpoint: go on until Ctrl-C.")]
From = Annotated[
    str | None,
    typer.Option("--from", help="Sequence or UTC time to begin with.", metavar="SEQ|TIME", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option(help="Sequence or UTC time to end before.", metavar="SEQ|TIME", show_default=False),
]
Subject = Annotated[
    str | None, typer.Option(help="Only what matches. Wildcards are allowed.", metavar="SUBJECT", show_default=False)
]
StreamArgument = Annotated[str, typer.Argument(help="The stream to read.", metavar="STREAM")]
TargetArgument = Annotated[str, typer.Argument(help="The stream to write to.", metavar="TARGET")]
Create = Annotated[bool, typer.Option("--create-stream", help="Make the stream if it is not there.")]
ToServers = Annotated[
    str | None,
    typer.Option(help="The servers of TARGET, if they are others.", metavar="URL", show_default=False),
]
Prefix = Annotated[
    str | None,
    typer.Option(help="Put this before each subject, such as 'copies.'.", metavar="TEXT", show_default=False),
]


_ARGUMENT: Final = "argument"


def argument(
    shown: Any, default: Any = attrs.NOTHING, *, parse: Callable[[Any], Any] | None = None, check: Any = None
) -> Any:
    """A field that is an argument of the command line.

    ``shown`` is its type with what typer shows of it. ``parse`` makes the field's value of what typer gives, unless
    that is None, and ``check`` is a validator.
    """
    converter = None if parse is None else attrs.converters.optional(parse)
    return attrs.field(default=default, converter=converter, validator=check, metadata={_ARGUMENT: shown})


def arguments_of(kind: type) -> Iterator[tuple[str, Any, Any]]:
    """The names of a class's arguments, their types for typer, and their defaults (``attrs.NOTHING`` for none)."""
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

    as_json: bool = argument(Json, False)
    verbose: bool = argument(Verbose, False)


@attrs.frozen(kw_only=True)
class Access:
    """How to reach the servers, or the folder for a server of one's own."""

    servers: str | None = argument(Servers, None)
    store: str | None = argument(Store, None)
    user: str | None = argument(User, None)
    password: str | None = argument(Password, None)
    token: str | None = argument(Token, None)
    nats: dict[str, str] | None = argument(Nats, None, parse=partial(pairs, option="--nats"))

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

    subject: str | None = argument(Subject, None, parse=partial(checked_filter, option="--subject"))
    begin: Bound | None = argument(From, None, parse=partial(Bound.of, option="--from"))
    until: Bound | None = argument(Until, None, parse=partial(Bound.of, option="--until"))

    def of(self, stream: str) -> dict[str, str]:
        """The data source's options for these messages of ``stream``."""
        options = {"stream": stream, **bounds(stream, self.begin, self.until)}
        return options if self.subject is None else {**options, "subject": self.subject}


@attrs.frozen(kw_only=True)
class Source(Selection):
    """A stream, and which of its messages are read."""

    source: str = argument(StreamArgument, parse=stream_name)


@attrs.frozen(kw_only=True, slots=False)  # with slots it could not be a second base class
class Destination:
    """How rows are stored in a stream."""

    create_stream: bool = argument(Create, False)
    delivery: Delivery = argument(Deliver, Delivery.FAST)
    marker: str | None = argument(Marker, None, parse=partial(checked_subject, option="--marker"))


@attrs.frozen(kw_only=True)
class Continuation:
    """Whether a run goes on where the last one ended."""

    checkpoint: str | None = argument(Checkpoint, None)
    follow: bool = argument(Follow, False)

    def __attrs_post_init__(self) -> None:
        if self.follow and self.checkpoint is None:
            raise BadUsage("--follow needs --checkpoint, or the next run would begin anew")
