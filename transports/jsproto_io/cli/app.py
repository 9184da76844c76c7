"""The commands ``jsproto demo``, ``ingest``, ``mirror``, ``serve`` and ``consumer``: their options and what they show.

Not here: what the commands do (``demo``, ``plan``, ``ingest``, ``records``, ``mirror``, the driver), tables and JSON
(``report``), error lines, exit codes and signals (``terminal``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from itertools import chain, islice
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, ProgressColumn, Task, TextColumn
from rich.text import Text

import jsproto
from jsproto.events import Event
from jsproto_io import serve as serves
from jsproto_io.cli import demo as demos
from jsproto_io.cli import ingest as ingests
from jsproto_io.cli import mirror as mirrors
from jsproto_io.cli import report
from jsproto_io.cli.demo import Demo
from jsproto_io.cli.ingest import Ingest, open_connection
from jsproto_io.cli.mirror import Mirrored, MirrorPlan
from jsproto_io.cli.plan import IngestPlan
from jsproto_io.cli.records import (
    BadUsage,
    Format,
    Record,
    Source,
    Template,
    Unsafe,
    open_source,
    read_records,
)
from jsproto_io.cli.terminal import Screen, one_line, running
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import StreamCopy

DEFAULT_URL = "nats://localhost:4222"
BAR_WIDTH = 20  # leaves room for the ^C that a terminal echoes: one line more would spoil the erasing

app = typer.Typer(
    help="Put data into NATS JetStream by fast ingest, get it back, copy streams, and reset consumers.",
    epilog="Exit codes: 0 done, 1 failed or mismatch, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the plain help is half as long
)
consumers = typer.Typer(help="Change the consumers of a stream.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(consumers, name="consumer")


class Gap(StrEnum):
    """What the server does when it misses a message of the batch."""

    FAIL = "fail"
    OK = "ok"


Servers = Annotated[str, typer.Option(envvar="NATS_URL", help="NATS URLs, comma-separated.", metavar="URL")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
User = Annotated[str | None, typer.Option(envvar="NATS_USER", help="User name.", metavar="NAME")]
Password = Annotated[str | None, typer.Option(envvar="NATS_PASSWORD", help="Password.", metavar="TEXT")]
Token = Annotated[str | None, typer.Option(envvar="NATS_TOKEN", help="Token.", metavar="TEXT")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"jsproto {jsproto.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


# -- jsproto demo --------------------------------------------------------------------------------------------


@app.command("demo", short_help="Send real flight records in, read them back, compare.")
def demo_command(
    servers: Annotated[
        str | None,
        typer.Option(help="Use this server (NATS URLs, comma-separated), start none.", metavar="URL"),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="How many of the flights to send.", metavar="N")] = demos.FLIGHTS,
    stream: Annotated[
        str, typer.Option(help="The stream to make; in lower case it begins the subjects.", metavar="NAME")
    ] = "FLIGHTS",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stream on the server (needs --servers).")] = False,
    user: User = None,
    password: Password = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Send 336,776 real flight records into JetStream, read them all back, and compare.

    Starts a nats-server of its own on a free port of this machine, with a temporary store, and removes it at
    the end. NATS_URL is ignored. With --servers it makes a stream on a running server, and deletes it at the
    end.
    """
    screen = Screen(as_json)
    demo = Demo(stream=stream, own_server=servers is None)
    sent, note, data = lambda: demo.ingest.sent, lambda: _demo_note(demo), lambda: report.demo_json(demo)
    with running(screen, sent, note, data) as stop:
        credentials: dict[str, Any] = {}
        if servers is not None:
            credentials = {"user": user, "password": password, "token": token}
        elif keep:
            raise BadUsage("--keep needs --servers: the demo's own server is removed together with its store")
        flights = demos.find_flights()
        with ExitStack() as stack:
            if servers is None:
                with stop.held():  # an interrupted start would leave a process
                    url = stack.enter_context(NatsServer()).url
            else:
                url = servers
            on_event = demo.ingest.on_event
            nc = stack.enter_context(open_connection(url, name="jsproto demo", event_cb=on_event, **credentials))
            on_ingested, on_read = stack.enter_context(_demo_progress(screen, min(rows, demos.FLIGHTS)))
            demo.server, demo.url = nc.server_info.version if nc.server_info else "", nc.connected_url or ""
            keep = keep or servers is None  # the demo's own server is removed with its store
            demos.run(nc, demo, flights, rows, keep=keep, on_ingested=on_ingested, on_read=on_read)
        if as_json:
            screen.dump(report.demo_json(demo))
        else:
            _show_demo(screen, demo)
        if not demo.equal:
            raise typer.Exit(1)


@contextmanager
def _demo_progress(screen: Screen, total: int) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    with screen.progress(BarColumn(BAR_WIDTH), TextColumn("{task.completed:,} of {task.total:,}")) as progress:
        going_in = progress.add_task("in: fast ingest", total=total)
        coming_out = progress.add_task("out: Direct Get", total=total, start=False)

        def on_ingested(count: int) -> None:
            progress.update(going_in, completed=count)

        def on_read(count: int) -> None:
            progress.start_task(coming_out)
            progress.update(coming_out, completed=count)

        yield on_ingested, on_read


def _demo_note(demo: Demo) -> str:
    note = ""
    if demo.ingest.acks:
        note = f"; {demo.ingest.acked:,} of {records_text(demo.ingest.sent)} sent were acknowledged"
    if demo.came_out.count:
        note += f", {demo.came_out.count:,} read back"
    if demo.stream_left:
        note += f"; stream {demo.stream} is left on the server"
    return note


def _show_demo(screen: Screen, demo: Demo) -> None:
    how = "started for this run" if demo.own_server else demo.url
    screen.out.print(Text(f"nats-server {demo.server} ({how}), stream {demo.stream}"))
    screen.out.print(report.demo_table(demo))
    screen.out.print(
        report.Throughput(("in", "green", demo.ingest.meter.samples), ("out", "cyan", demo.reading.samples))
    )
    screen.out.print(Text(report.demo_verdict(demo), style="bold green" if demo.equal else "bold red"))


# -- jsproto ingest ------------------------------------------------------------------------------------------


@app.command(
    "ingest",
    short_help="Publish the records of a file, or of standard input.",
    epilog="Example: jsproto ingest flights.csv --subject 'flights.{carrier}' --create-stream",
)
def ingest_command(
    file: Annotated[
        str,
        typer.Argument(help="CSV, JSON lines or text, also .gz or .zip; - is standard input.", metavar="FILE"),
    ],
    subject: Annotated[
        str,
        typer.Option(help="Where to publish; may hold columns: 'flights.{carrier}'.", metavar="SUBJECT"),
    ],
    stream: Annotated[
        str | None,
        typer.Option(help="The stream that stores it, looked at before anything is sent.", metavar="NAME"),
    ] = None,
    create_stream: Annotated[
        bool,
        typer.Option(
            "--create-stream", help="Make the stream if it is not there; its name is the first token's if not given."
        ),
    ] = False,
    allow_batched: Annotated[
        bool, typer.Option("--allow-batched", help="Switch fast ingest on if the stream has it off.")
    ] = False,
    servers: Servers = DEFAULT_URL,
    kind: Annotated[
        Format,
        typer.Option("--format", help="auto: by the file's name, lines if it does not tell."),
    ] = Format.AUTO,
    delimiter: Annotated[
        str | None,
        typer.Option(help="Between values of a CSV row; a comma, or a tab in .tsv, if not given.", metavar="CHAR"),
    ] = None,
    unsafe: Annotated[
        Unsafe, typer.Option(help="Refuse a value that is no subject token, or replace what is wrong by _.")
    ] = Unsafe.REFUSE,
    skip: Annotated[
        int, typer.Option(min=0, help="Leave out the first N records, to go on after a failure.", metavar="N")
    ] = 0,
    flow: Annotated[
        int, typer.Option(min=1, max=65_535, help="Messages for each acknowledgement, at most.", metavar="N")
    ] = 500,
    gap: Annotated[Gap, typer.Option(help="When a message is lost, the batch fails, or goes on.")] = Gap.FAIL,
    user: User = None,
    password: Password = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Publish the records of a file to JetStream, one message each, and wait until they are stored.

    A CSV row becomes a JSON object by the names of the header row. A JSON line, or a line of text, is sent as
    it is.
    """
    screen = Screen(as_json)
    result = Ingest()

    def data() -> dict[str, Any]:
        return report.ingest_json(result, skip)

    with running(screen, lambda: result.sent, lambda: acknowledged(result, skip), data):
        plan = IngestPlan(
            template=Template(subject, unsafe), stream=stream, create=create_stream, allow_batched=allow_batched,
            kind=kind, delimiter=delimiter, skip=skip, gap=gap.value, flow=flow,
        )  # fmt: skip
        with open_source(file) as source:
            found = read_records(source, plan.template, plan.kind, plan.delimiter)
            records: Iterable[Record] = islice(found, plan.skip, None)
            if not source.live:  # a wrong header is reported before a stream is created
                records = chain(list(islice(records, 1)), records)
            with (
                open_connection(
                    servers,
                    name="jsproto ingest",
                    event_cb=result.on_event,
                    user=user,
                    password=password,
                    token=token,
                ) as nc,
                _ingest_progress(screen, source) as on_progress,
            ):
                ingests.ingest(nc, records, result, on_progress, plan, live=source.live)
        if as_json:
            screen.dump({"ok": True, **data()})
        elif result.sent:
            screen.out.print(report.ingest_table(result))
        else:
            screen.out.print("no records: nothing was sent")


def acknowledged(result: Ingest, skipped: int) -> str:
    """The part of an error line about stored records, and where to continue. Empty if the batch did not begin."""
    if not result.acks and result.ack is None:
        return ""
    done = skipped + result.acked
    if result.ack is not None:
        last = f"{result.ack.seq:,} of stream {result.ack.stream}"
        return f"; {records_text(result.acked)} stored, the last as {last}; go on with --skip {done}"
    sent = f"{result.acked:,} of {records_text(result.sent)} sent were acknowledged"
    return f"; {sent}; go on with --skip {done} (some after it may be stored too)"


def records_text(number: int) -> str:
    """``1 record``, ``2,000 records``."""
    return f"{number:,} record" + ("" if number == 1 else "s")


@contextmanager
def _ingest_progress(screen: Screen, source: Source) -> Iterator[Callable[[int], None]]:
    """Show how many bytes of ``source`` were read, if its size is known, and how many records are acknowledged."""
    columns: list[ProgressColumn] = [TextColumn("{task.fields[acked]:,} acknowledged")]
    if source.size is not None:
        columns = [BarColumn(BAR_WIDTH), DownloadColumn(), *columns]
    with screen.progress(*columns) as progress:
        task = progress.add_task(one_line(os.path.basename(source.name)), total=source.size, acked=0)

        def on_progress(acked: int) -> None:
            progress.update(task, completed=source.position(), acked=acked)

        yield on_progress


# -- jsproto mirror ------------------------------------------------------------------------------------------


@app.command(
    "mirror",
    short_help="Copy a stream into another one, each message once.",
    epilog="Example: jsproto mirror JOBS JOBS_COPY --to-servers nats://there:4222 --create-stream --follow",
)
def mirror_command(
    source: Annotated[str, typer.Argument(help="The stream to copy.", metavar="SRC")],
    target: Annotated[str, typer.Argument(help="The stream to copy to.", metavar="DST")],
    to_servers: Annotated[
        str | None, typer.Option(help="The servers of DST, if they are others.", metavar="URL")
    ] = None,
    consumer: Annotated[
        str | None, typer.Option(help="The consumer of SRC; mirror-DST if not given.", metavar="NAME")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--filter", help="Copy this subject alone, wildcards allowed.", metavar="SUBJECT")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Put this before each subject, such as 'copies.'.", metavar="TEXT")] = "",
    marker: Annotated[
        str | None,
        typer.Option(
            help="Use atomic batches with markers of this subject: DST may have other writers.", metavar="SUBJECT"
        ),
    ] = None,
    create_stream: Annotated[bool, typer.Option("--create-stream", help="Make DST if it is not there.")] = False,
    shared: Annotated[
        bool,
        typer.Option("--shared", help="Copy a work queue beside its other consumers. A message goes when all have it."),
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    wait: Annotated[
        float, typer.Option(min=0.1, help="Wait so long for another program that copies.", metavar="SECONDS")
    ] = 10.0,
    servers: Servers = DEFAULT_URL,
    user: User = None,
    password: Password = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Copy a stream into another one, also on other servers, and acknowledge what is stored there.

    A work queue is emptied by that. The copy can be ended at any time, also by a crash: the next run goes on where it
    was, and stores each message once. DST has no other writer, unless --marker is used. Credentials are those of SRC.
    Credentials of DST go into its URL. Needs nats-server 2.14 at SRC.
    """
    screen = Screen(as_json)
    result = Mirrored()

    def data() -> dict[str, Any]:
        return report.mirror_json(result, source, target)

    with running(screen, lambda: result.copied, lambda: report.mirrored(result), data):
        plan = MirrorPlan(
            source=source, target=target, consumer=consumer or f"mirror-{target}", subject=subject, prefix=prefix,
            marker=marker, create=create_stream, shared=shared, follow=follow, wait=wait,
        )  # fmt: skip
        credentials = {"user": user, "password": password, "token": token}
        with ExitStack() as stack:

            def dial(url: str, **options: Any) -> Any:
                nc = open_connection(
                    url, name="jsproto mirror", event_cb=on_event, max_reconnect_attempts=-1, **options
                )
                return stack.enter_context(nc)

            def on_event(event: Event) -> None:
                note = result.on_event(event)
                if note is not None:
                    screen.note(note)

            nc = dial(servers, **credentials)
            to = nc if to_servers is None else dial(to_servers)
            on_begin = stack.enter_context(_mirror_progress(screen))
            mirrors.mirror(nc.jetstream(), to.jetstream(), plan, result, on_begin)
        if as_json:
            screen.dump({"ok": True, **data()})
        else:
            screen.out.print(report.mirror_table(result))


@contextmanager
def _mirror_progress(screen: Screen) -> Iterator[Callable[[StreamCopy], None]]:
    """Show how many messages are copied, and how many are left."""
    with screen.progress(CopyColumn()) as progress:

        def on_begin(copy: StreamCopy) -> None:
            progress.add_task(one_line(f"{copy.stream} to {copy.target}"), total=None, copy=copy)

        yield on_begin


class CopyColumn(ProgressColumn):
    """What a copy says of itself, each time that the display is drawn."""

    def render(self, task: Task) -> Text:
        """The text of ``task``, which has the copy among its fields."""
        copy: StreamCopy = task.fields["copy"]
        rate = report.per_second(copy.copied, task.elapsed or 0)
        lag = "" if copy.lag is None else f", {copy.lag:,} to go"
        return Text(f"{copy.copied:,} copied, {rate:,}/s{lag}")


# -- jsproto serve -------------------------------------------------------------------------------------------


@app.command(
    "serve",
    short_help="Run a JetStream server in memory, for tests.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def serve_command(context: typer.Context) -> None:
    """Run a JetStream server in memory, for tests of any client. It is no database.

    The flags are those of "python -m jsproto_io.serve", and --memory.
    """
    arguments = list(context.args)
    with running(Screen(False), lambda: 0, lambda: "", dict):
        if not {"--memory", "--help", "-h"} & set(arguments):
            raise BadUsage("this server keeps all in memory and is no database: say so with --memory")
        code = serves.main([each for each in arguments if each != "--memory"], program="jsproto serve --memory")
    raise typer.Exit(code)


# -- jsproto consumer ----------------------------------------------------------------------------------------


@consumers.command(
    "reset",
    short_help="Set a consumer back to its ack floor, or to a sequence.",
    epilog="Example: jsproto consumer reset ORDERS billing --seq 1200",
)
def reset_command(
    stream: Annotated[str, typer.Argument(help="The stream.", metavar="STREAM")],
    consumer: Annotated[str, typer.Argument(help="The name of the consumer.", metavar="CONSUMER")],
    seq: Annotated[
        int | None,
        typer.Option(min=1, help="Go on at this stream sequence; after the ack floor if not given.", metavar="N"),
    ] = None,
    servers: Servers = DEFAULT_URL,
    user: User = None,
    password: Password = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Reset a consumer: it forgets what it has delivered, and goes on after its ack floor, or at --seq.

    The ack floor is the sequence up to which all is acknowledged. What comes after it is delivered again. Programs
    that read from the consumer keep their subscriptions. Needs nats-server 2.14.

    --seq goes back or ahead. Ahead in a work queue, what is left out stays in the stream, and is not delivered any
    more. In an interest stream it is deleted if no other consumer wants it.
    """
    screen = Screen(as_json)
    data: dict[str, Any] = {"stream": stream, "consumer": consumer}
    with running(screen, lambda: 0, lambda: "", lambda: data):
        with open_connection(
            servers, name="jsproto consumer", event_cb=lambda _: None, user=user, password=password, token=token
        ) as nc:
            reset = nc.jetstream().reset_consumer(stream, consumer, seq)
        if as_json:
            screen.dump({"ok": True, **report.reset_json(reset)})
        else:
            screen.out.print(report.reset_text(reset), soft_wrap=True)
