"""The configuration of a stream as options of a command.

Rules
 * An option has the name of its field, with hyphens. ``--set field=value`` gives what lacks an option.
 * ``--config`` is a file of the server's JSON, such as ``jsproto stream info --json`` prints. Options go before it.

Not here: what a configuration means (``jsproto.StreamConfig``).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from jsproto.errors import Error
from jsproto.grammar.config import StreamConfig
from jsproto.grammar.consumer import ConsumerConfig
from jsproto_io.cli import values
from jsproto_io.cli.common import adding
from jsproto_io.cli.records import BadUsage, open_source

MAX_CONFIG: Final = 1_048_576  # bytes of a file with a configuration

Text = str | None
Flag = bool | None
Number = int | None
Metadata = Annotated[list[str] | None, typer.Option(help="More about it, one pair each.", metavar="KEY=VALUE")]
Fields = Annotated[
    list[str] | None, typer.Option("--set", help="Any other field; VALUE is JSON or text.", metavar="FIELD=VALUE")
]
File = Annotated[Text, typer.Option(help="A file of its JSON; - is standard input.", metavar="FILE")]


@dataclass(frozen=True, slots=True)
class Given:
    """The options that streams and consumers share. A subclass has a field for each option of its own."""

    replicas: int | None
    metadata: list[str] | None
    fields: list[str] | None
    config: str | None

    def plain(
        self, others: Collection[str], *, sizes: Collection[str] = (), durations: Collection[str]
    ) -> dict[str, Any]:
        """The fields of a configuration that the options give, without ``others``: those with a reading of their own.

        Raises:
            BadUsage: a value cannot be one.
        """
        names = [
            each.name
            for each in dataclasses.fields(self)
            if each.name not in ("replicas", "metadata", "fields", "config")
        ]
        options: dict[str, Any] = {
            name: value for name in names if name not in others and (value := getattr(self, name)) is not None
        }
        for read, chosen in ((values.size, sizes), (values.duration, durations)):
            for name in chosen:
                if name in options:
                    options[name] = read(options[name], f"--{name.replace('_', '-')}")
        if self.replicas is not None:
            options["num_replicas"] = self.replicas
        if self.metadata:
            options["metadata"] = values.metadata(self.metadata)
        return options

    def over_file(
        self, options: Mapping[str, Any], kind: type[StreamConfig | ConsumerConfig], what: str
    ) -> dict[str, Any]:
        """The fields of the file of a ``what``, then ``options``, then ``--set``.

        Raises:
            BadUsage: a value cannot be one, or the file cannot be read.
        """
        document = {} if self.config is None else from_file(self.config, kind, what)
        return {**document, **options, **values.fields(self.fields or ())}


def by_commas(given: Iterable[str]) -> list[str]:
    """What an option says that takes several by commas, or again."""
    return [each for some in given for each in some.split(",") if each]


def _options(
    subjects: Annotated[
        list[str] | None, typer.Option(help="What it takes; several by commas, or again.", metavar="SUBJECT")
    ] = None,
    description: Annotated[Text, typer.Option(help="What it is for.", metavar="TEXT")] = None,
    retention: Annotated[Text, typer.Option(help="limits, interest or workqueue.", metavar="WORD")] = None,
    storage: Annotated[Text, typer.Option(help="file or memory.", metavar="WORD")] = None,
    replicas: Annotated[Number, typer.Option(min=1, help="How many servers store it.", metavar="N")] = None,
    discard: Annotated[Text, typer.Option(help="old or new: what a full stream drops.", metavar="WORD")] = None,
    compression: Annotated[Text, typer.Option(help="none or s2.", metavar="WORD")] = None,
    max_msgs: Annotated[Number, typer.Option(min=-1, help="-1: no limit.", metavar="N")] = None,
    max_msgs_per_subject: Annotated[Number, typer.Option(min=-1, help="-1: no limit.", metavar="N")] = None,
    max_bytes: Annotated[Text, typer.Option(help="Such as 10GB; -1: no limit.", metavar="SIZE")] = None,
    max_msg_size: Annotated[Text, typer.Option(help="Such as 64K; -1: no limit.", metavar="SIZE")] = None,
    max_age: Annotated[Text, typer.Option(help="Such as 7d; 0s: no limit.", metavar="DURATION")] = None,
    duplicate_window: Annotated[
        Text,
        typer.Option("--duplicate-window", "--dupe-window", help="For message ids, such as 2m.", metavar="DURATION"),
    ] = None,
    max_consumers: Annotated[Number, typer.Option(min=-1, help="-1: no limit.", metavar="N")] = None,
    allow_direct: Annotated[Flag, typer.Option(help="Reads without the leader.")] = None,
    allow_atomic: Annotated[Flag, typer.Option(help="Atomic batches.")] = None,
    allow_batched: Annotated[Flag, typer.Option(help="Fast ingest.")] = None,
    allow_msg_ttl: Annotated[Flag, typer.Option(help="A TTL for each message.")] = None,
    allow_msg_schedules: Annotated[Flag, typer.Option(help="Delayed and repeated messages.")] = None,
    allow_msg_counter: Annotated[Flag, typer.Option(help="Counters.")] = None,
    allow_rollup_hdrs: Annotated[
        Flag, typer.Option("--allow-rollup/--no-allow-rollup", help="Messages that replace those before.")
    ] = None,
    deny_delete: Annotated[Flag, typer.Option(help="No message can be deleted.")] = None,
    deny_purge: Annotated[Flag, typer.Option(help="It cannot be purged.")] = None,
    metadata: Metadata = None,
    fields: Fields = None,
    config: File = None,
) -> None:
    """The parameters, of which typer reads names, types, defaults and help."""


@dataclass(frozen=True, slots=True)
class Configuration(Given):
    """The options of ``with_configuration``, as the command line has them. None: not given."""

    subjects: list[str] | None
    description: str | None
    retention: str | None
    storage: str | None
    discard: str | None
    compression: str | None
    max_msgs: int | None
    max_msgs_per_subject: int | None
    max_bytes: str | None
    max_msg_size: str | None
    max_age: str | None
    duplicate_window: str | None
    max_consumers: int | None
    allow_direct: bool | None
    allow_atomic: bool | None
    allow_batched: bool | None
    allow_msg_ttl: bool | None
    allow_msg_schedules: bool | None
    allow_msg_counter: bool | None
    allow_rollup_hdrs: bool | None
    deny_delete: bool | None
    deny_purge: bool | None

    def changes(self) -> dict[str, Any]:
        """The fields of StreamConfig that the options give, and those of the file.

        Raises:
            BadUsage: a value cannot be one, or the file cannot be read.
        """
        options = self.plain(
            {"subjects"}, sizes=("max_bytes", "max_msg_size"), durations=("max_age", "duplicate_window")
        )  # fmt: skip
        if self.subjects:
            options["subjects"] = by_commas(self.subjects)
        return self.over_file(options, StreamConfig, "stream")

    def of(self, stream: str) -> StreamConfig:
        """The configuration of a new stream.

        Raises:
            BadUsage: as of ``changes``.
            LocalProtocolError: the fields cannot stand together.
        """
        changes = {"allow_direct": True, **self.changes()}
        return StreamConfig.from_options(stream, **changes)


def from_file(path: str, kind: type[StreamConfig | ConsumerConfig], what: str) -> dict[str, Any]:
    """The fields of a configuration in a file of the server's JSON.

    Raises:
        BadUsage: the file cannot be read, or has no configuration of a ``what``.
    """
    with open_source(path) as source:
        text = source.stream.read(MAX_CONFIG)
    try:
        found = json.loads(text)
        document = found.get("config", found) | {"name": "any"}
        read = kind.from_json(document)
    except (ValueError, AttributeError, TypeError):
        raise BadUsage(f"--config: {path} is no JSON object of a {what}") from None
    except Error as error:
        raise BadUsage(f"--config: {path}: {error}") from None
    unnamed = ("name", "durable_name", "extra")
    own = {name: getattr(read, name) for name in document if hasattr(read, name) and name not in unnamed}
    return {**own, **({"extra": read.extra} if read.extra else {})}


with_configuration = adding(_options, Configuration, "configuration")
