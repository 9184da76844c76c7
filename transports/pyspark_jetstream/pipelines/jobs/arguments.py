"""The options that several of the programs have, and what stands in them.

Rules: text becomes a checked value here, or BadUsage with one line that names the option.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Self

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
        help="Any other option nats.NAME of the connection, as README has them. Repeat it for more.",
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
    str | None, typer.Option(help="Only what matches; wildcards are allowed.", metavar="SUBJECT", show_default=False)
]
Source = Annotated[str, typer.Argument(help="The stream to read.", metavar="STREAM")]
Target = Annotated[str, typer.Argument(help="The stream to write to.", metavar="TARGET")]
Create = Annotated[bool, typer.Option("--create-stream", help="Make the stream if it is not there.")]
ToServers = Annotated[
    str | None,
    typer.Option(help="The servers of TARGET, if they are others.", metavar="URL", show_default=False),
]
Prefix = Annotated[
    str | None,
    typer.Option(help="Put this before each subject, such as 'copies.'.", metavar="TEXT", show_default=False),
]


@dataclass(frozen=True)
class Access:
    """How to reach the servers: as the data source's options have it; or a server of one's own, with a store."""

    servers: str | None
    store: str | None
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        servers: str | None,
        store: str | None,
        user: str | None,
        password: str | None,
        token: str | None,
        nats: Sequence[str] | None,
    ) -> Self:
        """Of what was given; without servers and store NATS_URL counts. BadUsage."""
        if servers is not None and store is not None:
            raise BadUsage("--servers and --store exclude each other")
        if servers is None and store is None:
            servers = os.environ.get("NATS_URL") or None
        named = {"user": user, "password": password, "token": token, **pairs(nats, "--nats")}
        return cls(servers, store, {f"nats.{name}": value for name, value in named.items() if value is not None})

    def required(self) -> Self:
        """The same; BadUsage when there can be nothing to read."""
        if self.servers is None and self.store is None:
            raise BadUsage("where from? --servers URL, or --store FOLDER of what an earlier run has kept there")
        return self


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE, several times. BadUsage."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise BadUsage(f"{option} takes NAME=VALUE, not {text!r}")
        found[name] = value
    return found


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?Z?")


@dataclass(frozen=True)
class Bound:
    """A place in a stream: a sequence, or a time in nanoseconds since the epoch."""

    seq: int | None = None
    time: int | None = None

    @classmethod
    def of(cls, text: str | None, option: str) -> Self | None:
        """``42``, ``2026-11-21``, ``2026-11-21T08:00``, or RFC 3339. BadUsage."""
        if text is None:
            return None
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
    """The data source's options for a stretch of a stream; all of it without bounds."""
    options = {}
    for name, bound in (("starting", begin), ("ending", end)):
        if bound is None:
            continue
        if bound.seq is not None:
            options[f"{name}Offsets"] = json.dumps({stream: bound.seq})
        elif bound.time is not None:
            options[f"{name}Timestamp"] = format_timestamp(bound.time)
    return options


def stretch(stream: str, subject: str | None, begin: str | None, until: str | None) -> dict[str, str]:
    """The data source's options for what --subject, --from and --until choose of a stream. BadUsage."""
    options = {"stream": stream, **bounds(stream, Bound.of(begin, "--from"), Bound.of(until, "--until"))}
    wanted = wanted_subject(subject, "--subject", wildcards=True)
    return options if wanted is None else {**options, "subject": wanted}


def stream_name(text: str) -> str:
    """A stream's name. BadUsage."""
    try:
        return check_name(text)
    except LocalProtocolError as error:
        raise BadUsage(str(error)) from None


def wanted_subject(text: str | None, option: str, *, wildcards: bool) -> str | None:
    """A subject. BadUsage."""
    try:
        if text is not None:
            check_subject(text, wildcards=wildcards)
    except LocalProtocolError as error:
        raise BadUsage(f"{option}: {error}") from None
    return text


def new_app(**options: Any) -> typer.Typer:
    """A program of one command."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options)
