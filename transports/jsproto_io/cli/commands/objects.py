"""``jsproto object``: buckets of objects, such as files of any size.

Rules
 * Verbs, arguments and options have the names of ``nats object``.
 * What destroys asks before, as in ``streams``. A put replaces, unless ``--create`` is given.
 * A file is written beside its place, and takes it once it is whole.

Not here: options of a bucket (``bucketing``), tables (``tables``).
"""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jsproto.grammar.object_info import ObjectInfo
from jsproto.grammar.times import format_timestamp
from jsproto_io.cli import values
from jsproto_io.cli.bucketing import ObjectStoreConfiguration, as_configured, with_object_store
from jsproto_io.cli.commands.pub import Header
from jsproto_io.cli.commands.streams import Force, changed, done
from jsproto_io.cli.commands.sub import Count
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.configuring import Metadata
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.tables import (
    object_list,
    object_store_list,
    object_store_table,
    object_table,
)
from jsproto_io.cli.terminal import Screen, bytes_shown, check_somebody_can_be_asked, one_line, running

if TYPE_CHECKING:
    from jsproto_io.sync import JetStream, ObjectStore

app = typer.Typer(
    cls=CommandGroup,
    help="Keep objects of any size in buckets: files, for example.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Bucket = Annotated[str, typer.Argument(help="The bucket.", metavar="BUCKET", show_default=False)]
Name = Annotated[str, typer.Argument(help="The object.", metavar="NAME", show_default=False)]


# -- buckets -----------------------------------------------------------------------------------------------------------


@app.command("add", epilog="Example: jsproto object add FILES --max-bucket-size 10GB")
@with_common
@with_object_store
def add(
    common: Common,
    configuration: ObjectStoreConfiguration,
    bucket: Bucket,
    storage: Annotated[str | None, typer.Option(help="file or memory.", metavar="WORD")] = None,
) -> None:
    """Create a bucket, or find it with the same configuration."""
    screen = common.screen()
    with running(screen):
        options = configuration.options()
        if storage is not None:
            options["storage"] = storage
        with common.connected("object add") as (_, js), as_configured("object", bucket):
            status = js.create_object_store(bucket, **options).status()
        if common.as_json:
            screen.dump(status.info.to_json())
        else:
            screen.say(f"bucket {bucket} is there, in stream {status.info.config.name}")


@app.command("edit", epilog="Example: jsproto object edit FILES --max-bucket-size 20GB")
@with_common
@with_object_store
def edit(common: Common, configuration: ObjectStoreConfiguration, bucket: Bucket) -> None:
    """Change a bucket: only what the options say."""
    screen = common.screen()
    with running(screen):
        options = configuration.options()
        if not options:
            raise BadUsage("nothing to change: give an option such as --ttl")
        with common.connected("object edit") as (_, js):
            before = js.object_store(bucket).config
            after = js.update_object_store(bucket, **options)
        changed(common, f"bucket {bucket}", before, after.config, after.info)


@app.command("seal", epilog="Example: jsproto object seal FILES --force")
@with_common
def seal(common: Common, bucket: Bucket, force: Force = False) -> None:
    """Seal a bucket: nothing in it can change any more."""
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("object seal") as (_, js):
            opened = js.object_store(bucket)
            if not force:
                screen.confirm(f"Seal bucket {bucket}? This cannot be undone.")
            opened.seal()
        done(common, {"bucket": bucket}, f"bucket {bucket} is sealed")


@app.command("gc", epilog="Example: jsproto object gc FILES --force")
@with_common
def gc(
    common: Common,
    bucket: Bucket,
    older_than: Annotated[str, typer.Option(help="Younger ones may be of a put that runs.", metavar="DURATION")] = "1h",
    force: Force = False,
) -> None:
    """Remove chunks that no object owns: of puts that were cut off."""
    screen = common.screen()
    with running(screen):
        age = values.duration(older_than, "--older-than")
        if not force:
            check_somebody_can_be_asked()
        with common.connected("object gc") as (_, js):
            opened = js.object_store(bucket)
            if not force:
                screen.confirm(f"Remove chunks of bucket {bucket} that no object owns?")
            removed = opened.gc(older_than=age)
        what = f"{values.counted(removed, 'chunk')} removed from bucket {bucket}"
        done(common, {"bucket": bucket, "removed": removed}, what)


# -- objects -----------------------------------------------------------------------------------------------------------


@app.command("put", epilog="Example: jsproto object put FILES reports/2026.pdf")
@with_common
def put(
    common: Common,
    bucket: Bucket,
    file: Annotated[
        Path | None,
        typer.Argument(help="The file; standard input if not given.", metavar="FILE", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The object; as the file if not given.", metavar="NAME")] = None,
    description: Annotated[str | None, typer.Option(help="What it is.", metavar="TEXT")] = None,
    header: Header = None,
    metadata: Metadata = None,
    chunk_size: Annotated[str | None, typer.Option(help="Of its messages, such as 128K.", metavar="SIZE")] = None,
    create: Annotated[bool, typer.Option("--create", help="Only if there is no object of this name.")] = False,
) -> None:
    """Put a file, or standard input, into a bucket. It goes on after a lost link.

    Readers see the old object until the new one is whole.
    """
    screen = common.screen()
    with running(screen):
        options: dict[str, Any] = {"create": create}
        if description is not None:
            options["description"] = description
        if header:
            options["headers"] = values.headers(header)
        if metadata:
            options["metadata"] = values.metadata(metadata)
        if chunk_size is not None:
            options["chunk_size"] = values.size(chunk_size, "--chunk-size")
        if name is None and file is None:
            raise BadUsage("standard input needs a --name")
        called = posixpath.normpath(file.as_posix()) if name is None and file is not None else name or ""
        with _source(file) as source, common.connected("object put") as (_, js):
            total = os.fstat(source.fileno()).st_size if file is not None else None
            opened = js.object_store(bucket)
            with bytes_shown(screen, called, lambda: total) as progress:
                info = opened.put(called, source, progress=progress, **options)
        done(common, object_json(info), f"object {called} stored, {values.size_text(info.size)}")


@app.command("get", epilog="Example: jsproto object get FILES reports/2026.pdf -O -")
@with_common
def get(
    common: Common,
    bucket: Bucket,
    name: Name,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-O", help="The file; - is standard output. As the object if not given.", metavar="FILE"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a file that is there.")] = False,
) -> None:
    """Write an object to a file, which takes its place once it is whole."""
    screen = common.screen()
    with running(screen):
        path = output if output is not None else posixpath.basename(name)
        if path == "-":
            if common.as_json:
                raise BadUsage("give --json or --output -, not both")
            with common.connected("object get") as (_, js), js.object_store(bucket).open(name) as reader:
                for piece in reader:
                    screen.write(piece)
            return
        if not path or os.path.isdir(path):
            raise BadUsage(f"no file can be named {path!r}: give --output FILE")
        if os.path.exists(path) and not force:
            raise BadUsage(f"{path} is there: give --output FILE, or --force")
        with common.connected("object get") as (_, js):
            opened = js.object_store(bucket)
            with bytes_shown(screen, name, lambda: opened.info(name).size or None) as progress:
                info = opened.get_file(name, path, progress=progress)
        done(common, {**object_json(info), "file": path}, f"object {name} is in {path}, {values.size_text(info.size)}")


@app.command("info", epilog="Example: jsproto object info FILES reports/2026.pdf")
@with_common
def info(
    common: Common,
    bucket: Bucket,
    name: Annotated[
        str | None, typer.Argument(help="The object; without one the bucket.", metavar="NAME", show_default=False)
    ] = None,
) -> None:
    """Show an object, or a bucket."""
    screen = common.screen()
    with running(screen), common.connected("object info") as (_, js):
        opened = js.object_store(bucket)
        if name is not None:
            found = opened.info(name)
            if common.as_json:
                screen.dump(object_json(found))
            else:
                screen.out.print(object_table(found))
            return
        status = opened.status()
        if common.as_json:
            screen.dump(status.info.to_json())
        else:
            screen.out.print(object_store_table(status))


@app.command("ls", epilog="Example: jsproto object ls FILES")
@with_common
def ls(
    common: Common,
    bucket: Annotated[
        str | None, typer.Argument(help="The bucket; without one the buckets.", metavar="BUCKET", show_default=False)
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted objects, too.")] = False,
) -> None:
    """List the objects of a bucket, or the buckets. With --quiet only their names."""
    screen = common.screen()
    with running(screen), common.connected("object ls") as (_, js):
        if bucket is None:
            _list_buckets(screen, js)
        else:
            _list_objects(screen, js.object_store(bucket), deleted)


def _list_buckets(screen: Screen, js: JetStream) -> None:
    found = js.object_stores()
    if screen.as_json:
        for status in found:
            screen.dump(status.info.to_json())
    elif screen.quiet:
        for status in found:
            screen.write(f"{status.bucket}\n".encode())
    elif found:
        screen.out.print(object_store_list(found, screen.out.width))
    else:
        screen.say("no buckets")


def _list_objects(screen: Screen, bucket: ObjectStore, deleted: bool) -> None:
    found = bucket.list(deleted=deleted)
    if screen.as_json:
        for info in found:
            screen.dump(object_json(info))
    elif screen.quiet:
        for info in found:
            screen.write(f"{one_line(info.name)}\n".encode(errors="surrogateescape"))
    elif found:
        screen.out.print(object_list(found, screen.out.width))
    else:
        screen.say("no objects")


@app.command("del", epilog="Example: jsproto object del FILES reports/2026.pdf --force")
@with_common
def delete(
    common: Common,
    bucket: Bucket,
    name: Annotated[
        str | None, typer.Argument(help="The object; without one the bucket.", metavar="NAME", show_default=False)
    ] = None,
    force: Force = False,
) -> None:
    """Delete an object, or without a NAME the bucket."""
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("object del") as (_, js):
            opened = js.object_store(bucket)
            if name is not None:
                if not force:
                    size = values.size_text(opened.info(name).size)
                    screen.confirm(f"Delete object {name} of bucket {bucket}, {size}?")
                opened.delete(name)
                done(common, {"bucket": bucket, "name": name}, f"object {name} deleted")
                return
            if not force:
                held = values.size_text(opened.status().size)
                screen.confirm(f"Delete bucket {bucket} with {held}?")
            js.delete_object_store(bucket)
            done(common, {"bucket": bucket}, f"bucket {bucket} deleted")


@app.command("rename", epilog="Example: jsproto object rename FILES draft.pdf reports/2026.pdf")
@with_common
def rename(
    common: Common,
    bucket: Bucket,
    name: Name,
    new: Annotated[str, typer.Argument(help="Its new name.", metavar="NEW", show_default=False)],
) -> None:
    """Give an object another name. Links to it break."""
    screen = common.screen()
    with running(screen), common.connected("object rename") as (_, js):
        info = js.object_store(bucket).rename(name, new)
        done(common, object_json(info), f"object {name} is now {new}")


@app.command("link", epilog="Example: jsproto object link FILES latest reports/2026.pdf")
@with_common
def link(
    common: Common,
    bucket: Bucket,
    name: Annotated[str, typer.Argument(help="The link.", metavar="NAME", show_default=False)],
    target: Annotated[
        str | None,
        typer.Argument(help="The object; without one a whole bucket.", metavar="TARGET", show_default=False),
    ] = None,
    to_bucket: Annotated[
        str | None, typer.Option("--bucket", help="The bucket of the target; the same if not given.", metavar="BUCKET")
    ] = None,
) -> None:
    """Make a link to an object, or to a bucket."""
    screen = common.screen()
    with running(screen):
        if target is None and to_bucket is None:
            raise BadUsage("a link to what? Give TARGET or --bucket")
        with common.connected("object link") as (_, js):
            opened = js.object_store(bucket)
            if target is not None:
                made = opened.link(name, target, bucket=to_bucket)
            else:
                made = opened.link_bucket(name, to_bucket or "")
        to = "" if made.link is None else f" leads to {made.link}"
        done(common, object_json(made), f"{name}{to}")


@app.command("watch", epilog="Example: jsproto object watch FILES --updates --json")
@with_common
def watch(
    common: Common,
    bucket: Bucket,
    updates: Annotated[bool, typer.Option("--updates", help="Changes alone, not what is there.")] = False,
    deletes: Annotated[bool, typer.Option(help="Deleted objects, too.")] = True,
    count: Count = None,
) -> None:
    """Print the objects of a bucket, and then what changes.

    It goes on until Ctrl-C or --count.
    """
    screen = common.screen()
    taken = 0
    with running(screen, note=lambda: f"; {taken:,} printed" if taken else "", data=lambda: {"printed": taken}):
        options: dict[str, Any] = {"event_cb": LinkNotes(screen), "max_reconnect_attempts": -1}
        with (
            common.connected("object watch", **options) as (_, js),
            js.object_store(bucket).watch(updates_only=updates, ignore_deletes=not deletes) as watcher,
        ):
            if updates:
                screen.note("waiting for changes; Ctrl-C ends it")
            for info in watcher:
                if info is None:
                    screen.note(f"{values.counted(taken, 'object')} so far; waiting for changes; Ctrl-C ends it")
                    continue
                if screen.as_json:
                    screen.dump(object_json(info))
                else:
                    what = "deleted" if info.deleted else "" if info.link else values.size_text(info.size)
                    to = "" if info.link is None else f"-> {info.link}"
                    line = one_line(f"#{info.revision} {values.stamp(info.timestamp)} {info.name} {what}{to}")
                    screen.write(f"{line}\n".encode(errors="replace"))
                taken += 1
                screen.flush()
                if taken == count:
                    break


@contextmanager
def _source(file: Path | None) -> Iterator[Any]:
    """The bytes to put. BadUsage: the file cannot be read."""
    if file is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise BadUsage("what to put? Give a FILE, or standard input")
        yield sys.stdin.buffer
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise BadUsage(f"cannot read {file}: {error.strerror}") from None
    with opened:
        yield opened


def object_json(info: ObjectInfo) -> dict[str, Any]:
    """An object for a program. ``sha256``: in hexadecimal digits, null where there is none."""
    digest = info.sha256()
    found: dict[str, Any] = {
        "bucket": info.bucket, "name": info.name, "size": info.size, "chunks": info.chunks,
        "sha256": None if digest is None else digest.hex(), "revision": info.revision,
        "modified": format_timestamp(info.timestamp), "deleted": info.deleted,
    }  # fmt: skip
    more: dict[str, Any] = {
        "description": info.description, "headers": {name: list(texts) for name, texts in info.headers.items()},
        "metadata": dict(info.metadata),
        "link": None if info.link is None else {"bucket": info.link.bucket, "name": info.link.name},
    }  # fmt: skip
    return found | {name: value for name, value in more.items() if value}
