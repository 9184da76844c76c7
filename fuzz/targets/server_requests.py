"""Any request, acknowledgement or schedule of a client is a value, or raises the typed error of its parser.

Durations and time stamps are written and read as the same. Header blocks and subjects: see the other targets.
"""

from __future__ import annotations

from fuzz.parsing import expecting
from jsproto.errors import APIError, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import loads
from jsproto.grammar.cron import next_due
from jsproto.grammar.durations import format_duration, parse_duration
from jsproto.grammar.times import format_timestamp, parse_timestamp, parse_timestamps
from jsproto.server.consume.acks import nak_delay, read_acknowledgement
from jsproto.server.consume.pull_requests import BadRequestError, read_request
from jsproto.server.read.direct import GetRequest
from jsproto.server.store.transform import transform

NOW = 1_795_268_256_024_729_669
attempt = expecting(BadRequestError, LocalProtocolError, RemoteProtocolError)
attempt_text = expecting(APIError, ValueError)  # of a text, where the caller says what it was for


def run(data: bytes) -> None:
    """One input."""
    nak_delay(read_acknowledgement("$JS.ACK.S.C.1.2.3.4.5", data).argument)
    nak_delay(data)
    request = attempt(read_request, "_INBOX.x", data, 1.0)
    assert request is None or request.batch >= 0 or request.deadline() is None
    body = attempt(loads, data)
    asked = None if body is None else attempt(GetRequest.from_json, body)
    assert asked is None or asked.selects in (True, False)
    check_texts(data)


def check_texts(data: bytes) -> None:
    """Durations, schedules, transforms and times."""
    text = data.decode("utf-8", "surrogateescape")
    duration = attempt_text(parse_duration, text)
    if duration is not None and duration >= 0:
        assert parse_duration(format_duration(duration)) == duration
    due = attempt_text(next_due, text, None, NOW, NOW)
    assert due is None or due.when >= NOW or not due.repeats
    source, _, destination = text.partition(" ")
    mapping = attempt_text(transform, source, destination)
    if source and mapping is not None:
        mapping.renamed(b"a.b.c")
    stamp = attempt_text(parse_timestamp, data)
    assert attempt_text(parse_timestamps, [data]) in (None, [stamp])
    written = None if stamp is None else attempt(format_timestamp, stamp)
    assert written is None or parse_timestamp(written) == stamp
