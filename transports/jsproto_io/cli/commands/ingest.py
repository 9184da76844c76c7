"""``jsproto ingest``: its options and what it shows.

Not here: what it does (``jsproto_io.cli.ingesting``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain, islice
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, DownloadColumn, ProgressColumn, TextColumn

from jsproto_io.cli import ingesting as ingests
from jsproto_io.cli import report
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.ingesting import Ingest
from jsproto_io.cli.plan import IngestPlan
from jsproto_io.cli.records import Format, Record, Source, Template, Unsafe, open_source, read_records
from jsproto_io.cli.terminal import Screen, one_line, running
from jsproto_io.cli.values import counted

BAR_WIDTH: Final = 20  # leaves room for the ^C that a terminal echoes: one line more would spoil the erasing

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Gap(StrEnum):
    """What the server does when it misses a message of the batch."""

    FAIL = "fail"
    OK = "ok"


@app.command(
    "ingest",
    epilog="Example: jsproto ingest flights.csv --subject 'flights.{carrier}' --create-stream",
)
@with_common
def ingest_command(
    common: Common,
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
) -> None:
    """Publish the records of a file to JetStream, one message each, and wait until they are stored.

    A CSV row becomes a JSON object by the names of the header row. A JSON line, or a line of text, is sent as
    it is.
    """
    screen = common.screen()
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
                common.connected("ingest", event_cb=result.on_event) as (nc, _),
                _ingest_progress(screen, source) as on_progress,
            ):
                ingests.ingest(nc, records, result, on_progress, plan, live=source.live)
        if common.as_json:
            screen.dump({"ok": True, **data()})
        elif not result.sent:
            screen.say("no records: nothing was sent")
        elif not common.quiet:
            screen.out.print(report.ingest_table(result))


def acknowledged(result: Ingest, skipped: int) -> str:
    """The part of an error line about stored records, and where to continue. Empty before the batch begins."""
    if not result.acks and result.ack is None:
        return ""
    done = skipped + result.acked
    if result.ack is not None:
        last = f"{result.ack.seq:,} of stream {result.ack.stream}"
        return f"; {counted(result.acked, 'record')} stored, the last as {last}; go on with --skip {done}"
    sent = f"{result.acked:,} of {counted(result.sent, 'record')} sent were acknowledged"
    return f"; {sent}; go on with --skip {done} (some after it may be stored too)"


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
