"""The configuration of a bucket, of keys or of objects, as options of a command.

Rules: an option has the name that ``nats kv`` gives it. ``--max-bytes`` is ``--max-bucket-size``.

Not here: what a bucket is like (``jsproto.grammar.bucket_config``, ``object_store_config``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jsproto.errors import BucketExistsError
from jsproto_io.cli import values
from jsproto_io.cli.common import adding
from jsproto_io.cli.configuring import Flag, Metadata, Number, Text
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import Failure

if TYPE_CHECKING:
    from jsproto.grammar.config import StreamSource


Description = Annotated[Text, typer.Option(help="What it is for.", metavar="TEXT")]
Ttl = Annotated[Text, typer.Option(help="How long a value lives, such as 7d; 0s: for ever.", metavar="DURATION")]
Replicas = Annotated[Number, typer.Option(min=1, help="How many servers have it.", metavar="N")]
Size = Annotated[
    Text, typer.Option("--max-bucket-size", "--max-bytes", help="Such as 10GB; -1: no limit.", metavar="SIZE")
]
Compress = Annotated[Flag, typer.Option(help="Compressed files.")]
Cluster = Annotated[Text, typer.Option(help="The cluster that has it.", metavar="NAME")]
Tags = Annotated[list[str] | None, typer.Option(help="Only servers with this tag. May be given again.", metavar="TAG")]


@dataclass(frozen=True, slots=True)
class Shared:
    """The options that buckets of keys and of objects share. None: not given."""

    description: str | None
    ttl: str | None
    replicas: int | None
    max_bucket_size: str | None
    compress: bool | None
    cluster: str | None
    tags: list[str] | None
    metadata: list[str] | None

    def shared(self) -> dict[str, Any]:
        """Those that are given, by the names of the library. An option without a limit is None.

        Raises:
            BadUsage: a value cannot be one.
        """
        plain = {"description": self.description, "replicas": self.replicas, "compression": self.compress}
        found: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
        if self.ttl is not None:
            found["ttl"] = values.duration(self.ttl, "--ttl")
        if self.max_bucket_size is not None:
            found["max_bytes"] = _limit(self.max_bucket_size, "--max-bucket-size, --max-bytes")
        if self.cluster is not None or self.tags:
            where = {"cluster": self.cluster, "tags": self.tags or None}
            found["placement"] = {name: value for name, value in where.items() if value is not None}
        if self.metadata:
            found["metadata"] = values.metadata(self.metadata)
        return found


@contextmanager
def as_configured(group: str, bucket: str) -> Iterator[None]:
    """A bucket that is there with another configuration is a Failure, which names the command that changes it."""
    try:
        yield
    except BucketExistsError:
        raise Failure(
            f"bucket {bucket} is there with another configuration: jsproto {group} edit {bucket} changes it"
        ) from None


def _limit(text: str, option: str) -> int | None:
    limit = values.size(text, option)
    return None if limit == -1 else limit


def _options(
    description: Description = None,
    history: Annotated[Number, typer.Option(help="Revisions that a key keeps, 1 to 64.", metavar="N")] = None,
    ttl: Ttl = None,
    marker_ttl: Annotated[
        Text, typer.Option(help="Keys that expire leave a marker for so long, 1s or more.", metavar="DURATION")
    ] = None,
    replicas: Replicas = None,
    max_value_size: Annotated[Text, typer.Option(help="Such as 64K; -1: no limit.", metavar="SIZE")] = None,
    max_bucket_size: Size = None,
    compress: Compress = None,
    direct: Annotated[Flag, typer.Option(help="Reads without the leader. On in a new bucket.")] = None,
    atomic: Annotated[Flag, typer.Option(help="Changes of several keys at once. On in a new bucket.")] = None,
    cluster: Cluster = None,
    tags: Tags = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="It has the keys of this bucket, too. May be given again.", metavar="BUCKET"),
    ] = None,
    republish_source: Annotated[Text, typer.Option(help="What is published again.", metavar="SUBJECT")] = None,
    republish_destination: Annotated[Text, typer.Option(help="Where to.", metavar="SUBJECT")] = None,
    republish_headers: Annotated[
        bool, typer.Option("--republish-headers", help="Published again without values.")
    ] = False,
    metadata: Metadata = None,
) -> None:
    """The parameters, of which typer reads names, types, defaults and help."""


@dataclass(frozen=True, slots=True)
class BucketConfiguration(Shared):
    """The options of ``with_bucket``, as the command line has them. None: not given."""

    history: int | None
    marker_ttl: str | None
    max_value_size: str | None
    direct: bool | None
    atomic: bool | None
    source: list[str] | None
    republish_source: str | None
    republish_destination: str | None
    republish_headers: bool

    def options(self) -> dict[str, Any]:
        """The ``BucketOptions`` that are given. An option without a limit is None.

        Raises:
            BadUsage: a value cannot be one.
        """
        plain = {
            "history": self.history, "direct": self.direct, "atomic": self.atomic, "sources": self.source or None,
        }  # fmt: skip
        found = self.shared() | {name: value for name, value in plain.items() if value is not None}
        if self.marker_ttl is not None:
            found["marker_ttl"] = values.duration(self.marker_ttl, "--marker-ttl")
        if self.max_value_size is not None:
            found["max_value_size"] = _limit(self.max_value_size, "--max-value-size")
        return found | self._republish()

    def _republish(self) -> dict[str, Any]:
        if self.republish_destination is None:
            if self.republish_source is not None or self.republish_headers:
                raise BadUsage("--republish-source and --republish-headers need --republish-destination")
            return {}
        headers = {"headers_only": True} if self.republish_headers else {}
        return {
            "republish": {"src": self.republish_source or ">", "dest": self.republish_destination, **headers},
        }


def mirrored(mirror: str | None, domain: str | None) -> dict[str, Any]:
    """The option of a bucket that copies ``mirror``, which may be in another domain. Empty: it copies none.

    Raises:
        BadUsage: there is a domain alone.
    """
    if mirror is None:
        if domain is not None:
            raise BadUsage("--mirror-domain needs --mirror")
        return {}
    origin: StreamSource = {"name": mirror}
    if domain is not None:
        origin["external"] = {"api": f"$JS.{domain}.API"}
    return {"mirror": origin}


with_bucket = adding(_options, BucketConfiguration, "configuration")


def _object_options(
    description: Description = None,
    ttl: Ttl = None,
    replicas: Replicas = None,
    max_bucket_size: Size = None,
    compress: Compress = None,
    batched: Annotated[Flag, typer.Option(help="Fast ingest, which puts are quicker by. On in a new bucket.")] = None,
    cluster: Cluster = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> None:
    """The parameters, of which typer reads names, types, defaults and help."""


@dataclass(frozen=True, slots=True)
class ObjectStoreConfiguration(Shared):
    """The options of ``with_object_store``, as the command line has them. None: not given."""

    batched: bool | None

    def options(self) -> dict[str, Any]:
        """The ``ObjectStoreOptions`` that are given. An option without a limit is None.

        Raises:
            BadUsage: a value cannot be one.
        """
        return self.shared() | ({} if self.batched is None else {"batched": self.batched})


with_object_store = adding(_object_options, ObjectStoreConfiguration, "configuration")
