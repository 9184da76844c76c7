"""``jsproto consumer``: list, look at, create, delete, pause, resume and reset the consumers of a stream.

Rules: those of ``streams``.

Not here: reading from a consumer (``consume``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jsproto.grammar.sourcing_consumer import check_sourcing
from jsproto_io.cli import values
from jsproto_io.cli.commands.streams import Force, changed, done
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.consumer_options import ConsumerConfiguration, with_consumer
from jsproto_io.cli.groups import CommandGroup
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.tables import consumer_list, consumer_table, kind_of
from jsproto_io.cli.terminal import check_somebody_can_be_asked, one_line, running

if TYPE_CHECKING:
    from jsproto.grammar.consumer import ConsumerReset

app = typer.Typer(
    cls=CommandGroup,
    help="List, look at, create, delete, pause, resume and reset the consumers of a stream.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Stream = Annotated[str, typer.Argument(help="The stream.", metavar="STREAM", show_default=False)]
Name = Annotated[str, typer.Argument(help="The name of the consumer.", metavar="CONSUMER", show_default=False)]


@app.command("ls", epilog="Example: jsproto consumer ls ORDERS")
@with_common
def ls(common: Common, stream: Stream) -> None:
    """List the consumers of a stream. With --quiet only their names."""
    screen = common.screen()
    with running(screen), common.connected("consumer ls") as (_, js):
        names = partial(js.consumer_names, stream)
        common.print_list(screen, names, js.consumers(stream), consumer_list, f"no consumers of stream {stream}")


@app.command("info", epilog="Example: jsproto consumer info ORDERS billing")
@with_common
def info(common: Common, stream: Stream, consumer: Name) -> None:
    """Show the configuration and the state of a consumer."""
    screen = common.screen()
    with running(screen), common.connected("consumer info") as (_, js):
        found = js.consumer_info(stream, consumer)
        if common.as_json:
            screen.dump(found.to_json())
        else:
            screen.out.print(consumer_table(found))


@app.command("create", epilog="Example: jsproto consumer create ORDERS billing --filter-subject orders.paid")
@with_common
@with_consumer
def create(common: Common, configuration: ConsumerConfiguration, stream: Stream, consumer: Name) -> None:
    """Create a durable consumer, or find it with the same configuration. Without --deliver-subject it is pulled from.

    --sourcing makes the one that a source or mirror names in its "consumer", from nats-server 2.14.
    """
    screen = common.screen()
    with running(screen):
        config = configuration.of(consumer)
        with common.connected("consumer create") as (_, js):
            if configuration.sourcing:
                check_sourcing(config, js.stream_info(stream).config)
            made = js.create_consumer(stream, config)
        if common.as_json:
            screen.dump(made.to_json())
        else:
            screen.say(f"consumer {made.name} of stream {stream} is there, {kind_of(made.config)}")


@app.command("edit", epilog="Example: jsproto consumer edit ORDERS billing --ack-wait 1m --max-deliver 5")
@with_common
@with_consumer
def edit(common: Common, configuration: ConsumerConfiguration, stream: Stream, consumer: Name) -> None:
    """Change the configuration of a consumer: only what the options say."""
    screen = common.screen()
    with running(screen):
        changes = configuration.changes()
        if configuration.sourcing:
            raise BadUsage("--sourcing is for a new consumer")
        if not changes:
            raise BadUsage("nothing to change: give an option such as --ack-wait")
        if "filter_subject" in changes or "filter_subjects" in changes:  # one takes the place of the other
            changes = {"filter_subject": None, "filter_subjects": None, **changes}
        with common.connected("consumer edit") as (_, js):
            before = js.consumer_info(stream, consumer).config
            after = js.update_consumer(stream, consumer, **changes)
        changed(common, f"consumer {consumer} of stream {stream}", before, after.config, after)


@app.command("rm", epilog="Example: jsproto consumer rm ORDERS billing --force")
@with_common
def rm(common: Common, stream: Stream, consumer: Name, force: Force = False) -> None:
    """Delete a consumer. The messages stay in the stream."""
    screen = common.screen()
    with running(screen):
        if not force:
            check_somebody_can_be_asked()
        with common.connected("consumer rm") as (_, js):
            if not force:
                state = js.consumer_info(stream, consumer)
                waiting = values.counted(state.num_pending, "message")
                held = f"{waiting} to deliver, {state.num_ack_pending:,} awaiting acks"
                screen.confirm(f"Delete consumer {consumer} of stream {stream} ({held})?")
            js.delete_consumer(stream, consumer)
        done(common, {"stream": stream, "consumer": consumer}, f"consumer {consumer} of stream {stream} deleted")


@app.command("pause", epilog="Example: jsproto consumer pause ORDERS billing 30m")
@with_common
def pause(
    common: Common,
    stream: Stream,
    consumer: Name,
    until: Annotated[
        str, typer.Argument(help="A duration, or a time with its zone.", metavar="UNTIL", show_default=False)
    ],
) -> None:
    """Stop the deliveries of a consumer for a while. Needs nats-server 2.11."""
    screen = common.screen()
    with running(screen):
        end = values.moment_or_duration(until, "UNTIL")
        with common.connected("consumer pause") as (_, js):
            answer = js.pause_consumer(stream, consumer, end)
        name = f"consumer {consumer} of stream {stream}"
        text = f"{name} is paused until {values.stamp(answer.pause_until)}" if answer.paused else f"{name} goes on"
        data = {"stream": stream, "consumer": consumer, **answer.to_json()}
        done(common, data, text)


@app.command("resume", epilog="Example: jsproto consumer resume ORDERS billing")
@with_common
def resume(common: Common, stream: Stream, consumer: Name) -> None:
    """End a pause. Needs nats-server 2.11."""
    screen = common.screen()
    with running(screen):
        with common.connected("consumer resume") as (_, js):
            js.resume_consumer(stream, consumer)
        data = {"stream": stream, "consumer": consumer, "paused": False}
        done(common, data, f"consumer {consumer} of stream {stream} goes on")


@app.command(
    "reset",
    short_help="Set a consumer back to its ack floor, or to a sequence.",
    epilog="Example: jsproto consumer reset ORDERS billing --seq 1200",
)
@with_common
def reset(
    common: Common,
    stream: Stream,
    consumer: Name,
    seq: Annotated[
        int | None,
        typer.Option(min=1, help="Go on at this stream sequence; after the ack floor if not given.", metavar="N"),
    ] = None,
) -> None:
    """Reset a consumer: it forgets what it has delivered, and goes on after its ack floor, or at --seq.

    The ack floor is the sequence up to which all is acknowledged. What comes after it is delivered again. Programs
    that read from the consumer keep their subscriptions. Needs nats-server 2.14.

    --seq goes back or ahead. Ahead in a work queue, what is left out stays in the stream, past all deliveries. In an
    interest stream it is deleted unless another consumer wants it.
    """
    screen = common.screen()
    data: dict[str, Any] = {"stream": stream, "consumer": consumer}
    with running(screen, data=lambda: data):
        with common.connected("consumer reset") as (_, js):
            answer = js.reset_consumer(stream, consumer, seq)
        done(common, reset_json(answer), reset_text(answer))


def reset_text(reset: ConsumerReset) -> str:
    """``consumer C of stream S goes on at sequence 5: 3 messages to deliver``."""
    info = reset.info
    waiting = values.counted(info.num_pending, "message")
    where = f"consumer {info.name} of stream {info.stream_name} goes on at sequence {reset.reset_seq:,}"
    return one_line(f"{where}: {waiting} to deliver")


def reset_json(reset: ConsumerReset) -> dict[str, Any]:
    """A reset for a program. ``pending``: messages to deliver. ``stream_identity``: null before nats-server 2.15."""
    info = reset.info
    return {
        "stream": info.stream_name,
        "consumer": info.name,
        "reset_seq": reset.reset_seq,
        "pending": info.num_pending,
        "stream_identity": reset.stream_identity,
    }
