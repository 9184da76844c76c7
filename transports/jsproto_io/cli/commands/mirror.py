"""``jsproto mirror``: its options and what it shows.

Not here: what it does (``jsproto_io.cli.mirroring``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import typer
from rich.progress import ProgressColumn, Task
from rich.text import Text

from jsproto.events import Event
from jsproto_io.cli import mirroring as mirrors
from jsproto_io.cli import report
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import open_connection
from jsproto_io.cli.mirroring import Mirrored, MirrorPlan
from jsproto_io.cli.terminal import Screen, one_line, running
from jsproto_io.sync import StreamCopy

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    "mirror",
    epilog="Example: jsproto mirror JOBS JOBS_COPY --to-servers nats://there:4222 --create-stream --follow",
)
@with_common
def mirror_command(
    common: Common,
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
) -> None:
    """Copy a stream into another one, also on other servers, and acknowledge what is stored there.

    A work queue is emptied by that. The copy can be ended at any time, also by a crash: the next run goes on where it
    was, and stores each message once. DST has no other writer, unless --marker is used. Credentials are those of SRC.
    Credentials of DST go into its URL. Needs nats-server 2.14 at SRC.
    """
    screen = common.screen()
    result = Mirrored()

    def data() -> dict[str, Any]:
        return report.mirror_json(result, source, target)

    with running(screen, lambda: result.copied, lambda: report.mirrored(result), data):
        plan = MirrorPlan(
            source=source, target=target, consumer=consumer or f"mirror-{target}", subject=subject, prefix=prefix,
            marker=marker, create=create_stream, shared=shared, follow=follow, wait=wait,
        )  # fmt: skip
        with ExitStack() as stack:

            def on_event(event: Event) -> None:
                note = result.on_event(event)
                if note is not None:
                    screen.note(note)

            options: dict[str, Any] = {"event_cb": on_event, "max_reconnect_attempts": -1}
            _, js = stack.enter_context(common.connected("mirror", **options))
            to = js
            if to_servers is not None:
                other = open_connection(to_servers, name="jsproto mirror", timeout=common.timeout, **options)
                to = stack.enter_context(other).jetstream()
            on_begin = stack.enter_context(_mirror_progress(screen))
            mirrors.mirror(js, to, plan, result, on_begin)
        if common.as_json:
            screen.dump({"ok": True, **data()})
        elif not common.quiet:
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
