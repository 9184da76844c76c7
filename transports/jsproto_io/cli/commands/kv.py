"""``jsproto kv``: buckets, their keys and their values.

Rules
 * Verbs, arguments and options have the names of ``nats kv``.
 * What destroys asks before, as in ``streams``.
 * A value is an argument, or all of standard input.

Not here: options of a bucket (``bucketing``), how entries are shown (``keyvalues``, ``tables``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jsproto.api_errors import MessageTTLDisabledError
from jsproto.errors import KeyDeletedError
from jsproto_io.cli import values
from jsproto_io.cli.bucketing import BucketConfiguration, as_configured, mirrored, with_bucket
from jsproto_io.cli.commands.streams import Force, changed, done
from jsproto_io.cli.commands.sub import Count, Null, Raw, check_raw
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import LinkNotes
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.keyvalues import EntryPrinter, entry_json
from jsproto_io.cli.messages import raw_end
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.tables import bucket_list, bucket_table, key_history, key_list
from jsproto_io.cli.terminal import Failure, Screen, check_somebody_can_be_asked, running

if TYPE_CHECKING:
    from jsproto.grammar.bucket_config import BucketStatus
    from jsproto.grammar.bucket_keys import KeyValueEntry
    from jsproto_io.sync import Bucket as OpenBucket
    from jsproto_io.sync import JetStream

app = typer.Typer(
    cls=CommandGroup,
    help="Keep keys and values in buckets: make buckets, read, write and watch keys.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Bucket = Annotated[str, typer.Argument(help="The bucket.", metavar="BUCKET", show_default=False)]
Key = Annotated[str, typer.Argument(help="The key.", metavar="KEY", show_default=False)]
Value = Annotated[
    str | None,
    typer.Argument(help="The value; all of standard input if not given.", metavar="VALUE", show_default=False),
]
Last = Annotated[
    int | None, typer.Option("--revision", min=1, help="Only if this is the last revision of the key.", metavar="N")
]


# -- buckets -----------------------------------------------------------------------------------------------------------


@app.command("add", epilog="Example: jsproto kv add PRICES --history 5 --ttl 7d")
@with_common
@with_bucket
def add(
    common: Common,
    configuration: BucketConfiguration,
    bucket: Bucket,
    storage: Annotated[str | None, typer.Option(help="file or memory.", metavar="WORD")] = None,
    mirror: Annotated[str | None, typer.Option(help="Copy this bucket.", metavar="BUCKET")] = None,
    mirror_domain: Annotated[
        str | None, typer.Option(help="With --mirror: the JetStream domain that has it.", metavar="NAME")
    ] = None,
) -> None:
    """Create a bucket, or find it with the same configuration."""
    screen = common.screen()
    with running(screen):
        options = configuration.options() | mirrored(mirror, mirror_domain)
        if storage is not None:
            options["storage"] = storage
        with common.connected("kv add") as (_, js), as_configured("kv", bucket):
            status = js.create_bucket(bucket, **options).status()
        if common.as_json:
            screen.dump(status.info.to_json())
        else:
            screen.say(f"bucket {bucket} is there, in stream {status.info.config.name}")


@app.command("edit", epilog="Example: jsproto kv edit PRICES --history 10 --max-bucket-size 1GB")
@with_common
@with_bucket
def edit(
    common: Common,
    configuration: BucketConfiguration,
    bucket: Bucket,
    no_mirror: Annotated[bool, typer.Option("--no-mirror", help="It stops copying, and takes values.")] = False,
) -> None:
    """Change a bucket: only what the options say."""
    screen = common.screen()
    with running(screen):
        options: dict[str, Any] = configuration.options()
        if no_mirror:
            options["mirror"] = None
        if not options:
            raise BadUsage("nothing to change: give an option such as --history")
        with common.connected("kv edit") as (_, js):
            before = js.bucket(bucket).config
            after = js.update_bucket(bucket, **options)
        changed(common, f"bucket {bucket}", before, after.config, after.info)


@app.command("info", epilog="Example: jsproto kv info PRICES --json")
@with_common
def info(common: Common, bucket: Bucket) -> None:
    """Show what a bucket is like, and how much it holds."""
    screen = common.screen()
    with running(screen), common.connected("kv info") as (_, js):
        status = js.bucket(bucket).status()
        if common.as_json:
            screen.dump(status.info.to_json())
        else:
            screen.out.print(bucket_table(status))


@app.command("buckets", epilog="Example: jsproto kv buckets --quiet")
@with_common
def buckets(common: Common) -> None:
    """List the buckets. With --quiet only their names."""
    screen = common.screen()
    with running(screen), common.connected("kv buckets") as (_, js):
        _list_buckets(common, screen, js)


@app.command("ls", epilog="Example: jsproto kv ls PRICES 'eu.*' --verbose")
@with_common
def ls(
    common: Common,
    bucket: Annotated[
        str | None, typer.Argument(help="The bucket; without one the buckets.", metavar="BUCKET", show_default=False)
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Argument(help="Only keys that match, wildcards allowed.", metavar="FILTER", show_default=False),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show revisions, sizes and times.")] = False,
    display_value: Annotated[bool, typer.Option("--display-value", help="With --verbose: show values.")] = False,
) -> None:
    """List the keys of a bucket that have a value, or the buckets."""
    screen = common.screen()
    with running(screen):
        if display_value and not verbose:
            raise BadUsage("--display-value needs --verbose")
        if verbose and bucket is None:
            raise BadUsage("--verbose is for the keys of a BUCKET")
        with common.connected("kv ls") as (_, js):
            if bucket is None:
                _list_buckets(common, screen, js)
            elif verbose:
                _list_entries(screen, js.bucket(bucket), filters or [], display_value)
            else:
                _list_keys(screen, js.bucket(bucket), filters or [])


def _list_buckets(common: Common, screen: Screen, js: JetStream) -> None:
    if common.quiet and not common.as_json:
        for name in js.bucket_names():
            screen.write(f"{name}\n".encode())
        return
    found: list[BucketStatus] = js.buckets()
    if common.as_json:
        for status in found:
            screen.dump(status.info.to_json())
    elif found:
        screen.out.print(bucket_list(found, screen.out.width))
    else:
        screen.say("no buckets")


def _list_keys(screen: Screen, bucket: OpenBucket, filters: list[str]) -> None:
    found = bucket.keys(*filters)
    for key in found:
        if screen.as_json:
            screen.dump({"key": key})
        else:
            screen.write(f"{key}\n".encode(errors="surrogateescape"))
    if not found:
        screen.note("no keys")


def _list_entries(screen: Screen, bucket: OpenBucket, filters: list[str], with_values: bool) -> None:
    found: dict[str, KeyValueEntry] = {}
    with bucket.watch(*filters, meta_only=not with_values) as watcher:
        for entry in watcher:
            if entry is None:
                break
            found.pop(entry.key, None)
            if not entry.is_marker:
                found[entry.key] = entry
    if screen.as_json:
        for each in found.values():
            screen.dump(entry_json(each, with_values))
    elif found:
        screen.out.print(key_list(found.values(), screen.out.width, with_values))
    else:
        screen.note("no keys")


@app.command("compact", epilog="Example: jsproto kv compact PRICES --force")
@with_common
def compact(
    common: Common,
    bucket: Bucket,
    older_than: Annotated[
        str, typer.Option(help="Of younger markers the history alone goes.", metavar="DURATION")
    ] = "30m",
    force: Force = False,
) -> None:
    """Remove the markers of deleted keys, and their history."""
    screen = common.screen()
    with running(screen):
        age = values.duration(older_than, "--older-than")
        if not force:
            check_somebody_can_be_asked()
        with common.connected("kv compact") as (_, js):
            opened = js.bucket(bucket)
            if not force:
                screen.confirm(f"Remove the markers of deleted keys of bucket {bucket}, and their history?")
            removed = opened.purge_deletes(older_than=age)
        what = f"{values.counted(removed, 'revision')} removed from bucket {bucket}"
        done(common, {"bucket": bucket, "removed": removed}, what)


# -- one key -----------------------------------------------------------------------------------------------------------


@app.command("put", epilog="Example: jsproto kv put PRICES eu.tea 3.20")
@with_common
def put(common: Common, bucket: Bucket, key: Key, value: Value = None) -> None:
    """Store a value, whatever the key has."""
    screen = common.screen()
    with running(screen):
        data = _read_value(value)
        with common.connected("kv put") as (_, js):
            _stored(common, bucket, key, js.bucket(bucket).put(key, data))


@app.command("create", epilog="Example: jsproto kv create LOCKS backup host1 --ttl 10m")
@with_common
def create(
    common: Common,
    bucket: Bucket,
    key: Key,
    value: Value = None,
    ttl: Annotated[str | None, typer.Option(help="How long it lives, in whole seconds.", metavar="DURATION")] = None,
) -> None:
    """Store a value if the key has none."""
    screen = common.screen()
    with running(screen):
        age = None if ttl is None else values.duration(ttl, "--ttl")
        data = _read_value(value)
        with common.connected("kv create") as (_, js):
            try:
                revision = js.bucket(bucket).create(key, data, ttl=age)
            except MessageTTLDisabledError:
                raise _no_ttl(bucket) from None
        _stored(common, bucket, key, revision)


@app.command("update", epilog="Example: jsproto kv update PRICES eu.tea 3.40 17")
@with_common
def update(
    common: Common,
    bucket: Bucket,
    key: Key,
    value: Value = None,
    last: Annotated[
        int | None,
        typer.Argument(min=0, help="The last revision of the key; 0: none.", metavar="REVISION", show_default=False),
    ] = None,
    revision: Annotated[
        int | None, typer.Option(min=0, help="The same, where the value is standard input.", metavar="N")
    ] = None,
) -> None:
    """Store a value if nobody has changed the key since a revision."""
    screen = common.screen()
    with running(screen):
        if (last is None) == (revision is None):
            raise BadUsage("since which revision? Give VALUE REVISION, or --revision N")
        data = _read_value(value)
        with common.connected("kv update") as (_, js):
            number = js.bucket(bucket).update(key, data, last if last is not None else revision or 0)
            _stored(common, bucket, key, number)


@app.command("get", epilog="Example: jsproto kv get PRICES eu.tea --raw")
@with_common
def get(
    common: Common,
    bucket: Bucket,
    key: Key,
    revision: Annotated[int | None, typer.Option(min=1, help="This one, not the last.", metavar="N")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the value alone, as it is.")] = False,
) -> None:
    """Print the value of a key."""
    screen = common.screen()
    with running(screen):
        check_raw(raw, False, common.as_json)
        with common.connected("kv get") as (_, js):
            EntryPrinter(screen, raw, b"").show(js.bucket(bucket).get(key, revision))


@app.command("history", epilog="Example: jsproto kv history PRICES eu.tea")
@with_common
def history(common: Common, bucket: Bucket, key: Key) -> None:
    """Show the revisions of a key that the bucket keeps. Wildcards are allowed."""
    screen = common.screen()
    with running(screen), common.connected("kv history") as (_, js):
        found = js.bucket(bucket).history(key)
        if common.as_json:
            for entry in found:
                screen.dump(entry_json(entry))
        elif found:
            screen.out.print(key_history(found, screen.out.width))
        else:
            screen.note(f"no revisions of {key}")


@app.command("revert", epilog="Example: jsproto kv revert PRICES eu.tea 17")
@with_common
def revert(
    common: Common,
    bucket: Bucket,
    key: Key,
    revision: Annotated[int, typer.Argument(min=1, help="An older one.", metavar="REVISION", show_default=False)],
    force: Force = False,
) -> None:
    """Store the value of an older revision again.

    It fails where somebody changes the key meanwhile.
    """
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("kv revert") as (_, js):
            opened = js.bucket(bucket)
            old = opened.get(key, revision)
            try:
                last = opened.get(key).revision
            except KeyDeletedError as error:
                last = error.revision
            if not force:
                screen.confirm(f"Replace revision {last:,} of key {key} by the value of revision {revision:,}?")
            _stored(common, bucket, key, opened.update(key, old.value, last))


@app.command("del", epilog="Example: jsproto kv del PRICES eu.tea --force")
@with_common
def delete(
    common: Common,
    bucket: Bucket,
    key: Annotated[
        str | None, typer.Argument(help="The key; without one the bucket.", metavar="KEY", show_default=False)
    ] = None,
    revision: Last = None,
    force: Force = False,
) -> None:
    """Delete a key, or without a KEY the bucket.

    The key keeps its history, and has a marker as its last revision.
    """
    screen = common.screen()
    with running(screen):
        if key is None and revision is not None:
            raise BadUsage("--revision is for a KEY")
        if not force:
            check_somebody_can_be_asked()
        with common.connected("kv del") as (_, js):
            opened = js.bucket(bucket)
            if key is not None:
                if not force:
                    screen.confirm(f"Delete key {key} of bucket {bucket}?")
                _gone(common, bucket, key, opened.delete(key, last=revision), "deleted")
                return
            if not force:
                held = values.counted(opened.status().values, "revision")
                screen.confirm(f"Delete bucket {bucket} with {held}?")
            js.delete_bucket(bucket)
            done(common, {"bucket": bucket}, f"bucket {bucket} deleted")


@app.command("purge", epilog="Example: jsproto kv purge PRICES eu.tea --force")
@with_common
def purge(
    common: Common,
    bucket: Bucket,
    key: Key,
    ttl: Annotated[str | None, typer.Option(help="How long the marker stays.", metavar="DURATION")] = None,
    revision: Last = None,
    force: Force = False,
) -> None:
    """Delete a key and its history. A marker is left."""
    screen = common.screen()
    with running(screen):
        age = None if ttl is None else values.duration(ttl, "--ttl")
        if not force:
            check_somebody_can_be_asked()
        with common.connected("kv purge") as (_, js):
            opened = js.bucket(bucket)
            if not force:
                screen.confirm(f"Delete key {key} of bucket {bucket}, and its history?")
            try:
                marker = opened.purge(key, last=revision, ttl=age)
            except MessageTTLDisabledError:
                raise _no_ttl(bucket) from None
        _gone(common, bucket, key, marker, "purged")


@app.command("watch", epilog="Example: jsproto kv watch PRICES 'eu.*' --updates --json")
@with_common
def watch(
    common: Common,
    bucket: Bucket,
    keys: Annotated[
        list[str] | None,
        typer.Argument(help="Only keys that match, wildcards allowed.", metavar="KEY", show_default=False),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Begin with all revisions, not the last ones.")] = False,
    updates: Annotated[bool, typer.Option("--updates", help="Changes alone, not what is there.")] = False,
    deletes: Annotated[bool, typer.Option(help="Markers of deleted keys, too.")] = True,
    revision: Annotated[int | None, typer.Option(min=1, help="Begin at this revision.", metavar="N")] = None,
    count: Count = None,
    raw: Raw = False,
    null: Null = False,
) -> None:
    """Print the keys of a bucket, and then what changes.

    It goes on until Ctrl-C or --count.
    """
    screen = common.screen()
    taken = 0
    with running(screen, note=lambda: f"; {taken:,} printed" if taken else "", data=lambda: {"printed": taken}):
        check_raw(raw, null, common.as_json)
        printer = EntryPrinter(screen, raw, raw_end(null))
        options: dict[str, Any] = {"event_cb": LinkNotes(screen), "max_reconnect_attempts": -1}
        with (
            common.connected("kv watch", **options) as (_, js),
            js.bucket(bucket).watch(
                *keys or (), history=history, updates_only=updates, ignore_deletes=not deletes, since=revision
            ) as watcher,
        ):
            if updates:
                screen.note("waiting for changes; Ctrl-C ends it")
            for entry in watcher:
                if entry is None:
                    screen.note(f"{values.counted(taken, 'revision')} so far; waiting for changes; Ctrl-C ends it")
                    continue
                printer.show(entry)
                taken += 1
                screen.flush()
                if taken == count:
                    break


def _read_value(given: str | None) -> bytes:
    """The value to store. BadUsage: there is none."""
    if given is not None:
        return given.encode(errors="surrogateescape")
    if sys.stdin is None or sys.stdin.isatty():
        raise BadUsage("what to store? Give a VALUE, or standard input")
    return sys.stdin.buffer.read()


def _stored(common: Common, bucket: str, key: str, revision: int) -> None:
    done(
        common, {"bucket": bucket, "key": key, "revision": revision}, f"key {key} stored as revision {revision:,}"
    )  # fmt: skip


def _gone(common: Common, bucket: str, key: str, revision: int, how: str) -> None:
    line = f"key {key} {how}, which is revision {revision:,}"
    done(common, {"bucket": bucket, "key": key, "revision": revision}, line)


def _no_ttl(bucket: str) -> Failure:
    return Failure(f"bucket {bucket} allows no --ttl: jsproto stream edit KV_{bucket} --allow-msg-ttl")
