"""``jsproto server check``: is the server, a stream or a consumer well? For monitors.

Rules: options have the names of ``nats server check``. Exit codes are 0 OK, 1 WARNING, 2 CRITICAL and 3 UNKNOWN.

Not here: what is judged and how (``checking``), other commands for servers.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from jsproto_io.cli import values
from jsproto_io.cli.checking import ConsumerLimits, StreamLimits, check_consumer, check_stream, checked
from jsproto_io.cli.common import Common, with_common
from jsproto_io.cli.connecting import open_connection
from jsproto_io.cli.groups import CommandGroup

app = typer.Typer(
    cls=CommandGroup,
    help="Check servers, streams and consumers, for monitors.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
check = typer.Typer(
    cls=CommandGroup,
    help="Is it well? Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
app.add_typer(check, name="check")

Stream = Annotated[str, typer.Option("--stream", help="The stream.", metavar="STREAM", show_default=False)]
Most = Annotated[int | None, typer.Option(min=0, help="Critical above it.", metavar="N")]
Least = Annotated[int | None, typer.Option(min=0, help="Critical below it.", metavar="N")]
Longest = Annotated[str | None, typer.Option(help="Critical where it is longer ago.", metavar="DURATION")]
Slow = Annotated[str, typer.Option(help="Warn above it.", metavar="DURATION")]
TooSlow = Annotated[str, typer.Option(help="Critical above it.", metavar="DURATION")]


@check.command("connection", epilog="Example: jsproto server check connection --rtt-critical 100ms")
@with_common
def connection(
    common: Common,
    connect_warn: Slow = "500ms",
    connect_critical: TooSlow = "1s",
    rtt_warn: Slow = "500ms",
    rtt_critical: TooSlow = "1s",
    req_warn: Slow = "500ms",
    req_critical: TooSlow = "1s",
) -> None:
    """Check how long connecting, a round trip to the server and a request take."""
    with checked(common.screen(), "connection") as found:
        limits = [
            (_seconds(warn, f"--{name}-warn"), _seconds(critical, f"--{name}-critical"))
            for name, warn, critical in (
                ("connect", connect_warn, connect_critical),
                ("rtt", rtt_warn, rtt_critical),
                ("req", req_warn, req_critical),
            )
        ]
        settings = common.settings()
        options: dict[str, Any] = {"timeout": common.timeout, **settings.connect}
        began = time.perf_counter()
        with open_connection(name="jsproto server check", **options) as nc:
            took = [time.perf_counter() - began, nc.rtt()]
            subject = nc.new_inbox()
            with nc.subscribe(subject, cb=lambda asked: asked.respond()):
                nc.flush()
                began = time.perf_counter()
                nc.request(subject)
                took.append(time.perf_counter() - began)
        for name, each, (warn, critical) in zip(("connect", "rtt", "request"), took, limits, strict=True):
            found.measure(f"{name} time", each, warn=warn, critical=critical, unit="s")


@check.command("stream", epilog="Example: jsproto server check stream --stream ORDERS --msgs-critical 1")
@with_common
def stream(
    common: Common,
    stream: Stream,
    lag_critical: Most = None,
    seen_critical: Longest = None,
    min_sources: Least = None,
    max_sources: Most = None,
    peer_expect: Annotated[int | None, typer.Option(min=0, help="How many replicas there are.", metavar="N")] = None,
    peer_lag_critical: Most = None,
    peer_seen_critical: Longest = None,
    msgs_warn: Annotated[int | None, typer.Option(min=0, help="Warn below it.", metavar="N")] = None,
    msgs_critical: Least = None,
    subjects_warn: Annotated[int | None, typer.Option(min=0, help="Warn above it.", metavar="N")] = None,
    subjects_critical: Annotated[
        int | None, typer.Option(min=0, help="Critical above it. Below, where it is less than the other.", metavar="N")
    ] = None,
) -> None:
    """Check a stream: its messages, what it copies, and its replicas."""
    with checked(common.screen(), f"stream {stream}") as found:
        limits = StreamLimits(
            lag_critical=lag_critical, seen_critical=_given(seen_critical, "--seen-critical"),
            min_sources=min_sources, max_sources=max_sources, peer_expect=peer_expect,
            peer_lag_critical=peer_lag_critical,
            peer_seen_critical=_given(peer_seen_critical, "--peer-seen-critical"), msgs_warn=msgs_warn,
            msgs_critical=msgs_critical, subjects_warn=subjects_warn, subjects_critical=subjects_critical,
        )  # fmt: skip
        with common.connected("server check") as (_, js):
            info = js.stream_info(stream)
        check_stream(found, info, limits)


@check.command(
    "consumer", epilog="Example: jsproto server check consumer --stream ORDERS --consumer C --unprocessed-critical 100"
)
@with_common
def consumer(
    common: Common,
    stream: Stream,
    consumer: Annotated[str, typer.Option("--consumer", help="The consumer.", metavar="CONSUMER", show_default=False)],
    outstanding_ack_critical: Most = None,
    waiting_critical: Most = None,
    unprocessed_critical: Most = None,
    redelivery_critical: Most = None,
    last_delivery_critical: Longest = None,
    last_ack_critical: Longest = None,
) -> None:
    """Check a consumer: what waits, and when it was last at work."""
    with checked(common.screen(), f"consumer {consumer} of stream {stream}") as found:
        limits = ConsumerLimits(
            outstanding_ack_critical=outstanding_ack_critical, waiting_critical=waiting_critical,
            unprocessed_critical=unprocessed_critical, redelivery_critical=redelivery_critical,
            last_delivery_critical=_given(last_delivery_critical, "--last-delivery-critical"),
            last_ack_critical=_given(last_ack_critical, "--last-ack-critical"),
        )  # fmt: skip
        with common.connected("server check") as (_, js):
            info = js.consumer_info(stream, consumer)
        check_consumer(found, info, limits)


def _seconds(text: str, option: str) -> float:
    return values.duration(text, option).total_seconds()


def _given(text: str | None, option: str) -> float | None:
    return None if text is None else _seconds(text, option)
