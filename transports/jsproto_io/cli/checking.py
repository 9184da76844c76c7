"""What a monitor is told of a server, a stream or a consumer: one line, and an exit code.

| code | word     | when |
|------|----------|------|
| 0    | OK       | all is within its limits |
| 1    | WARNING  | something is beyond a limit for warnings |
| 2    | CRITICAL | something is beyond a limit for alarms, or cannot be asked |
| 3    | UNKNOWN  | the options are wrong, or the check was interrupted |

Rules
 * Line and codes are those of plugins for Nagios: ``stream OK: 12 messages | messages=12;;``.
 * A figure that is equal to its limit is within it.
 * Results are pure functions of what the server says.

Not here: options (``commands.server``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import typer

from jsproto.errors import Error, LocalProtocolError, SettingsError
from jsproto.grammar.config import StreamInfo
from jsproto.grammar.consumer import ConsumerInfo
from jsproto_io.cli.records import BadUsage
from jsproto_io.cli.terminal import Failure, Screen, explain, one_line
from jsproto_io.cli.values import seconds_text

WORDS: Final = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
OK, WARNING, CRITICAL, UNKNOWN = range(4)
_NS: Final = 1_000_000_000


class Findings:
    """What a check has found so far. ``subject``: what is checked."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.code = OK
        self.texts: list[str] = []  # of the worst code
        self._figures: dict[str, tuple[float, str]] = {}  # by name: the value, and how it is written with its limits

    def add(self, code: int, text: str) -> None:
        """Note something. What is worse than all before takes its place in the line."""
        if code > self.code:
            self.code, self.texts = code, []
        if code == self.code:
            self.texts.append(text)

    def measure(
        self, name: str, value: float, *, warn: float | None = None, critical: float | None = None, unit: str = ""
    ) -> None:
        """Judge a figure that may be as high as its limits. None: there is no limit."""
        code = CRITICAL if _is_above(value, critical) else WARNING if _is_above(value, warn) else OK
        self._judge(name, value, unit, code, (warn, critical), "")

    def measure_least(self, name: str, value: float, *, warn: float | None, critical: float | None) -> None:
        """Judge a figure that may be as low as its limits. None: there is no limit."""
        code = CRITICAL if _is_below(value, critical) else WARNING if _is_below(value, warn) else OK
        self._judge(name, value, "", code, (warn, critical), ":")

    def _judge(
        self, name: str, value: float, unit: str, code: int, limits: tuple[float | None, float | None], mark: str
    ) -> None:
        written = ";".join("" if limit is None else f"{limit:.6g}{mark}" for limit in limits)
        self._figures[name.replace(" ", "_")] = (value, f"{value:.6g}{unit};{written}")
        limit = limits[1] if code == CRITICAL else limits[0]
        self.add(code, f"{name} {_shown(value, unit)}" + (f", the limit is {_shown(limit or 0, unit)}" if code else ""))

    def line(self) -> str:
        """The line for a monitor."""
        figures = " ".join(f"{name}={written}" for name, (_, written) in self._figures.items())
        text = one_line(f"{self.subject} {WORDS[self.code]}: {'; '.join(self.texts)}")
        return f"{text} | {figures}" if figures else text

    def to_json(self) -> dict[str, Any]:
        """The same for a program."""
        figures = {name: value for name, (value, _) in self._figures.items()}
        return {
            "check": self.subject, "status": WORDS[self.code], "code": self.code, "texts": self.texts,
            "figures": figures,
        }  # fmt: skip


@contextmanager
def checked(screen: Screen, subject: str) -> Iterator[Findings]:
    """Run a check. It ends the command with the line and the exit code."""
    found = Findings(subject)
    try:
        yield found
    except (BadUsage, SettingsError) as error:
        found.add(UNKNOWN, str(error))
    except KeyboardInterrupt:
        found.add(UNKNOWN, "interrupted")
    except LocalProtocolError as error:
        found.add(UNKNOWN, explain(error))
    except (Failure, Error, OSError) as error:
        found.add(CRITICAL, explain(error))
    if screen.as_json:
        screen.dump(found.to_json())
    else:
        screen.write(f"{found.line()}\n".encode(errors="replace"))
    screen.flush()
    raise typer.Exit(found.code)


@attrs.frozen(kw_only=True)
class StreamLimits:
    """What a stream may be like. None: it does not matter. Durations are in seconds."""

    lag_critical: int | None = None
    seen_critical: float | None = None
    min_sources: int | None = None
    max_sources: int | None = None
    peer_expect: int | None = None
    peer_lag_critical: int | None = None
    peer_seen_critical: float | None = None
    msgs_warn: int | None = None
    msgs_critical: int | None = None
    subjects_warn: int | None = None
    subjects_critical: int | None = None


def check_stream(found: Findings, info: StreamInfo, limits: StreamLimits) -> None:
    """Judge a stream, the streams that it copies, and its replicas."""
    state = info.state
    found.measure_least("messages", state.messages, warn=limits.msgs_warn, critical=limits.msgs_critical)
    if state.num_subjects is not None:
        warn, critical = limits.subjects_warn, limits.subjects_critical
        few = warn is not None and critical is not None and critical < warn  # then the limits are the least
        (found.measure_least if few else found.measure)(
            "subjects", state.num_subjects, warn=warn, critical=critical
        )  # fmt: skip
    copies = [*([info.mirror] if info.mirror else ()), *(info.sources or ())]
    if info.config.sources or limits.min_sources or limits.max_sources is not None:
        count = len(info.sources or ())
        if limits.min_sources is not None and count < limits.min_sources:
            found.add(CRITICAL, f"{count} sources, {limits.min_sources} are expected")
        if limits.max_sources is not None and count > limits.max_sources:
            found.add(CRITICAL, f"{count} sources, no more than {limits.max_sources} are expected")
    for copy in copies:
        if copy.error is not None:
            found.add(CRITICAL, f"{copy.name}: {copy.error.get('description', copy.error)}")
        _within(found, f"{copy.name} lag", copy.lag, limits.lag_critical)
        if limits.seen_critical is not None:
            _seen(found, copy.name, copy.active, limits.seen_critical)
    _check_replicas(found, info, limits)


def _check_replicas(found: Findings, info: StreamInfo, limits: StreamLimits) -> None:
    cluster = info.cluster or {}
    replicas = cluster.get("replicas") or []
    has_leader = bool(cluster.get("leader")) or not info.cluster
    if not has_leader:
        found.add(CRITICAL, "it has no leader")
    if limits.peer_expect is not None:
        peers = len(replicas) + has_leader
        if peers != limits.peer_expect:
            found.add(CRITICAL, f"{peers} replicas, {limits.peer_expect} are expected")
    for replica in replicas:
        name = f"replica {replica.get('name')}"
        if replica.get("offline"):
            found.add(CRITICAL, f"{name} is offline")
        _within(found, f"{name} lag", replica.get("lag", 0), limits.peer_lag_critical)
        if limits.peer_seen_critical is not None:
            _seen(found, name, replica.get("active"), limits.peer_seen_critical)


@attrs.frozen(kw_only=True)
class ConsumerLimits:
    """What a consumer may be like. None: it does not matter. Durations are in seconds."""

    outstanding_ack_critical: int | None = None
    waiting_critical: int | None = None
    unprocessed_critical: int | None = None
    redelivery_critical: int | None = None
    last_delivery_critical: float | None = None
    last_ack_critical: float | None = None


def check_consumer(found: Findings, info: ConsumerInfo, limits: ConsumerLimits) -> None:
    """Judge a consumer."""
    found.measure("unprocessed", info.num_pending, critical=limits.unprocessed_critical)
    found.measure("outstanding acks", info.num_ack_pending, critical=limits.outstanding_ack_critical)
    found.measure("waiting pulls", info.num_waiting, critical=limits.waiting_critical)
    found.measure("redelivered", info.num_redelivered, critical=limits.redelivery_critical)
    for what, place, limit in (
        ("delivery", info.delivered, limits.last_delivery_critical),
        ("ack", info.ack_floor, limits.last_ack_critical),
    ):
        if limit is None:
            continue
        if info.ts is None:
            found.add(UNKNOWN, "the server does not tell its time")
        elif place.last_active is None:
            found.add(CRITICAL, f"no {what} yet")
        else:
            found.measure(f"last {what}", (info.ts - place.last_active) / _NS, critical=limit, unit="s")


def _within(found: Findings, name: str, value: int, critical: int | None) -> None:
    if critical is not None and value > critical:
        found.add(CRITICAL, f"{name} {value:,}, the limit is {critical:,}")


def _seen(found: Findings, name: str, ago: float | None, critical: float) -> None:
    if ago is None:
        found.add(CRITICAL, f"{name} was not heard of")
    elif ago > critical:
        found.add(CRITICAL, f"{name} was heard of {seconds_text(ago)} ago, the limit is {seconds_text(critical)}")


def _is_above(value: float, limit: float | None) -> bool:
    return limit is not None and value > limit


def _is_below(value: float, limit: float | None) -> bool:
    return limit is not None and value < limit


def _shown(value: float, unit: str) -> str:
    return f"{value:,}" if not unit else f"{value * 1_000:.3g} ms" if value < 1 else seconds_text(value)
