"""``jsproto stream``: list, look at, create, change, empty, delete, back up and restore streams.

Rules
 * What destroys asks before, and refuses where nobody can be asked. ``--force`` skips the question.
 * JSON is the server's own.

Not here: tables (``tables``), the options of a configuration (``configuring``), backups themselves (``backing_up``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from jsproto.grammar.api import ApiSubjects
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerInfo
from jsproto_io.cli import values
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.configuring import Configuration, with_configuration
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.tables import Config, config_changes, stream_list, stream_table, subject_list
from jsproto_io.cli.terminal import Failure, bytes_shown, check_somebody_can_be_asked, running
from jsproto_io.cli.values import counted

app = typer.Typer(
    cls=CommandGroup,
    help="List, look at, create, change, empty and delete streams.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="The stream.", metavar="STREAM", show_default=False)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


@app.command("ls", epilog="Example: jsproto stream ls --subject 'orders.>'")
@with_common
def ls(
    common: Common,
    subject: Annotated[
        str | None, typer.Option(help="Only streams that take messages of it.", metavar="SUBJECT")
    ] = None,
) -> None:
    """List the streams. With --quiet only their names."""
    screen = common.screen()
    with running(screen), common.connected("stream ls") as (_, js):
        names = partial(js.stream_names, subject)
        common.print_list(screen, names, js.streams(subject), stream_list, "no streams")


@app.command("info", epilog="Example: jsproto stream info ORDERS --json")
@with_common
def info(common: Common, stream: Name) -> None:
    """Show the configuration and the state of a stream."""
    screen = common.screen()
    with running(screen), common.connected("stream info") as (_, js):
        found = js.stream_info(stream)
        if common.as_json:
            screen.dump(found.to_json())
        else:
            screen.out.print(stream_table(found))


@app.command("create", epilog="Example: jsproto stream create ORDERS --subjects 'orders.>' --max-age 7d")
@with_common
@with_configuration
def create(common: Common, configuration: Configuration, stream: Name) -> None:
    """Create a stream, or find it with the same configuration.

    Without --subjects it takes messages of its own name. --allow-direct is on unless it is switched off.
    """
    screen = common.screen()
    with running(screen):
        config = configuration.of(stream)
        with common.connected("stream create") as (_, js):
            made = js.create_stream(config)
        if common.as_json:
            screen.dump(made.to_json())
        else:
            subjects = ", ".join(made.config.subjects or ["what it copies"])
            screen.say(f"stream {made.config.name} is there, for {subjects}")  # servers do not say since when


@app.command("edit", epilog="Example: jsproto stream edit ORDERS --max-age 1d --no-allow-direct")
@with_common
@with_configuration
def edit(common: Common, configuration: Configuration, stream: Name) -> None:
    """Change the configuration of a stream: only what the options say."""
    screen = common.screen()
    with running(screen):
        changes = configuration.changes()
        if not changes:
            raise BadUsage("nothing to change: give an option such as --max-age")
        with common.connected("stream edit") as (_, js):
            before = js.stream_info(stream).config
            after = js.update_stream(stream, **changes)
        changed(common, f"stream {stream}", before, after.config, after)


@app.command("purge", epilog="Example: jsproto stream purge ORDERS --subject orders.test --keep 10")
@with_common
def purge(
    common: Common,
    stream: Name,
    subject: Annotated[
        str | None, typer.Option(help="Only messages of it, wildcards allowed.", metavar="SUBJECT")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="All but the last N.", metavar="N")] = None,
    seq: Annotated[int | None, typer.Option(min=1, help="Only those before this sequence.", metavar="N")] = None,
    force: Force = False,
) -> None:
    """Delete messages of a stream, all of them unless an option says otherwise."""
    screen = common.screen()
    with running(screen):
        if keep is not None and seq is not None:
            raise BadUsage("give --keep or --seq, not both")
        if not force:
            check_somebody_can_be_asked()
        with common.connected("stream purge") as (_, js):
            if not force:
                left = f", all but the last {keep:,}" if keep is not None else ""
                left = f" before sequence {seq:,}" if seq is not None else left
                what = f"messages of {subject}" if subject is not None else "messages"
                held = js.stream_info(stream).state.messages
                screen.confirm(f"Delete {what}{left} from stream {stream}, which has {held:,}?")
            purged = js.purge_stream(stream, subject=subject, keep=keep, seq=seq)
        if common.as_json:
            screen.dump({"ok": True, "stream": stream, "purged": purged})
        else:
            screen.say(f"{counted(purged, 'message')} deleted from stream {stream}")


@app.command("subjects", epilog="Example: jsproto stream subjects ORDERS 'orders.eu.>' --top 10")
@with_common
def subjects(
    common: Common,
    stream: Name,
    pattern: Annotated[
        str, typer.Argument(help="Only subjects that match, wildcards allowed.", metavar="FILTER", show_default=False)
    ] = ">",
    top: Annotated[int | None, typer.Option(min=1, help="The N with most messages, most first.", metavar="N")] = None,
) -> None:
    """List the subjects of a stream's messages. With --quiet only their names."""
    screen = common.screen()
    with running(screen), common.connected("stream subjects") as (_, js):
        found = [*js.stream_subjects(stream, pattern).items()]
        if top is not None:
            found = sorted(found, key=lambda each: -each[1])[:top]
        if common.as_json:
            for subject, count in found:
                screen.dump({"subject": subject, "messages": count})
        elif common.quiet:
            for subject, _count in found:
                screen.write(f"{subject}\n".encode(errors="surrogateescape"))
        elif found:
            screen.out.print(subject_list(found))
        else:
            screen.say("no subjects")


@app.command("rmm", epilog="Example: jsproto stream rmm ORDERS 17 --force")
@with_common
def rmm(
    common: Common,
    stream: Name,
    seq: Annotated[int, typer.Argument(min=1, help="Its sequence.", metavar="SEQ", show_default=False)],
    force: Force = False,
) -> None:
    """Delete one message of a stream, and have its bytes overwritten."""
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("stream rmm") as (_, js):
            if not force:
                message = js.get_msg(stream, seq, level="leader")
                screen.confirm(f"Delete message {seq:,} of stream {stream}, of {message.subject}?")
            js.secure_delete_msg(stream, seq)
        done(common, {"stream": stream, "seq": seq}, f"message {seq:,} of stream {stream} deleted")


@app.command("backup", epilog="Example: jsproto stream backup ORDERS backups/orders")
@with_common
def backup(
    common: Common,
    stream: Name,
    folder: Annotated[Path, typer.Argument(help="Where to, a new folder.", metavar="FOLDER", show_default=False)],
    consumers: Annotated[bool, typer.Option(help="Consumers with their state, too.")] = True,
    check: Annotated[bool, typer.Option("--check", help="The server checks each message first.")] = False,
) -> None:
    """Write a stream and its consumers into a folder.

    "nats stream restore" reads it, too. Servers back up streams in files alone.
    """
    screen = common.screen()
    with running(screen):
        from jsproto_io.cli.backing_up import back_up

        api = ApiSubjects(**common.settings().jetstream)
        with common.connected("stream backup") as (nc, js), bytes_shown(screen, f"backup of {stream}") as progress:
            if js.stream_info(stream).config.storage == "memory":
                raise Failure(f"stream {stream} is in memory: servers back up streams in files alone")
            size = back_up(nc, api, stream, folder, consumers=consumers, check=check, progress=progress)
        data = {"stream": stream, "folder": str(folder), "bytes": size}
        done(common, data, f"stream {stream} is in {folder}, {values.size_text(size)}")


@app.command("restore", epilog="Example: jsproto stream restore backups/orders")
@with_common
def restore_stream(
    common: Common,
    folder: Annotated[Path, typer.Argument(help="Where the backup is.", metavar="FOLDER", show_default=False)],
) -> None:
    """Make a stream of its backup, also one of "nats stream backup".

    It has the name, the sequences, the times and the consumers of the one before.
    """
    screen = common.screen()
    with running(screen):
        from jsproto_io.cli.backing_up import read_about, restore

        name = read_about(folder)["config"]["name"]
        api = ApiSubjects(**common.settings().jetstream)
        with common.connected("stream restore") as (nc, _), bytes_shown(screen, f"restore of {name}") as progress:
            made = restore(nc, api, folder, progress=progress)
        if common.as_json:
            screen.dump(made.to_json())
        else:
            screen.say(f"stream {name} is there again, {values.counted(made.state.messages, 'message')}")


@app.command("rm", epilog="Example: jsproto stream rm ORDERS --force")
@with_common
def rm(common: Common, stream: Name, force: Force = False) -> None:
    """Delete a stream, its messages and its consumers."""
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("stream rm") as (_, js):
            if not force:
                state = js.stream_info(stream).state
                held = f"{counted(state.messages, 'message')} and {counted(state.consumer_count, 'consumer')}"
                screen.confirm(f"Delete stream {stream} with {held}?")
            js.delete_stream(stream)
        done(common, {"stream": stream}, f"stream {stream} deleted")


def changed(common: Common, what: str, before: Config, after: Config, info: StreamInfo | ConsumerInfo) -> None:
    """Say how ``what`` was changed. ``info``: all about it, for a program."""
    screen = common.screen()
    if common.as_json:
        screen.dump(info.to_json())
        return
    lines = config_changes(before, after)
    screen.say(what + (" changed" if lines else " has that configuration already"))
    for line in lines:
        screen.say(line)


def done(common: Common, data: dict[str, Any], line: str) -> None:
    """Say that something was done."""
    screen = common.screen()
    if common.as_json:
        screen.dump({"ok": True, **data})
    else:
        screen.say(line)
