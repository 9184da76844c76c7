"""Mutate every field of every answer, one after the other: what does a client do that gets such an answer?

    python -m tests.tools.mutate_answers [--verb NAME] [--thorough]

Each verb runs against the server in memory. Then it runs again for each field of each answer that it got, with that
field left out, or with one of ``VALUES``. Fields are those of JSON bodies at any depth, header fields, and the status.

Rules for a client, whatever it gets:

* The verb ends, with a result or with an ``Error`` that is not ``InternalError``.
* What the result shows can be looked at, or is an ``Error``.
* No conversation fails (event ConversationFailed), the link lives, and others on it go on.

Prints each finding, and how many answers were tried. ``--thorough`` tries all values, else a field gets some of them.

Not here: bytes that are no frames (``fuzz``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from jsproto.client.connection.subscription import Subscription
from jsproto.errors import Error, InternalError
from jsproto.events import ConversationFailed
from jsproto.testing.world import StuckError
from jsproto.wire.frames import Msg
from tests.pair.verbs import VERBS, Edit, Verb, prepared

PATIENCE: Final = 120.0  # simulated seconds in which a verb must end
VALUES: Final[tuple[Any, ...]] = (
    None, "", "x", "\ud800", "a b", "*", "x" * 300, -1, 0, 2**64, 1.5, True, [], {}, [None], {"x": None},
)  # fmt: skip
HEADER_VALUES: Final = (b"", b"x", b"-1", b"18446744073709551616", b"9" * 400, b"a b", b"*", b"\xff", b".")
STATUSES: Final = (b"100", b"204", b"404", b"409", b"503", b"999", b"x")

# -- fields ------------------------------------------------------------------------------------------------------------


def _paths(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _changed(body: Any, path: tuple[Any, ...], value: Any, *, gone: bool) -> Any:
    body = json.loads(json.dumps(body))
    place = body
    for key in path[:-1]:
        place = place[key]
    if gone:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return body


def _with_payload(message: Msg, payload: bytes) -> Msg:
    return Msg(message.subject, message.sid, message.reply, message.header, payload)


def _with_header(message: Msg, lines: list[bytes]) -> Msg:
    return Msg(message.subject, message.sid, message.reply, b"\r\n".join([*lines, b"", b""]), message.payload)


def edits(message: Msg, every: int, turn: int) -> Iterator[tuple[str, Edit]]:
    """What to change in ``message``, with a name each. Each field gets one of ``every`` values, from ``turn`` on."""
    try:
        body = json.loads(message.payload)
    except ValueError:
        body = None
    for path in _paths(body):
        gone = _changed(body, path, None, gone=True)
        yield f"{path} left out", partial(_with_payload, payload=json.dumps(gone).encode())
        for value in VALUES[turn % every :: every]:
            other = _changed(body, path, value, gone=False)
            yield f"{path}={value!r:.20}", partial(_with_payload, payload=json.dumps(other).encode())
        turn += 1
    for payload in (b"", b"{", b"[]", b'"x"', b"\xff", b"null"):
        yield f"payload {payload!r}", partial(_with_payload, payload=payload)
    if message.header is None:
        return
    first, *fields = message.header[:-4].split(b"\r\n")
    for status in STATUSES:
        yield f"status {status!r}", partial(_with_header, lines=[b"NATS/1.0 " + status, *fields])
    for place, line in enumerate(fields):
        name, _, _ = line.partition(b":")
        rest = [*fields[:place], *fields[place + 1 :]]
        yield f"{name!r} left out", partial(_with_header, lines=[first, *rest])
        for value in HEADER_VALUES:
            lines = [*fields[:place], b"%b: %b" % (name, value), *fields[place + 1 :]]
            yield f"{name!r}: {value!r:.20}", partial(_with_header, lines=[first, *lines])


# -- one try -----------------------------------------------------------------------------------------------------------


def look_at(found: Any) -> None:
    """Look at all that a result shows. An ``Error`` is what a field may be instead."""
    for each in found if isinstance(found, list) else [found]:
        for name in ("__repr__", "subject", "headers", "timestamp", "stream", "num_pending", "metadata", "to_json"):
            try:
                value = getattr(each, name, None)
                if name in ("__repr__", "to_json") and callable(value):
                    value()
            except Error:
                continue


def complaint(verb: Verb, place: int, edit: Edit) -> str | None:
    """What is wrong with what ``verb`` does when its message number ``place`` is edited. None: nothing."""
    wire = prepared(place, edit)
    other = Subscription(wire.client, "other")
    wire.exchange()
    wire.is_watched = True
    until = wire.now + PATIENCE
    found: str | None = None
    try:
        look_at(verb(wire))
    except InternalError as error:
        found = str(error)
    except (Error, StuckError) as error:
        if isinstance(error, StuckError) or wire.now > until:
            found = f"it does not end: {error!r}"
    except Exception as error:
        found = repr(error)
    wire.is_watched = False
    if found is None and any(isinstance(event, ConversationFailed) for event in wire.events):
        found = str([event for event in wire.events if isinstance(event, ConversationFailed)])
    if found is None:
        try:
            wire.client.publish_message("other", b"1")
            wire.client.flush()
            wire.run_until(other.readable())
            wire.run_until(wire.js.account_info(now=wire.now))
        except Exception as error:
            found = f"others suffer: {error!r}"
    return found


def findings(name: str, every: int, first: int = 0, step: int = 1) -> Iterator[tuple[str, str | None]]:
    """For each edited answer of the verb ``name``, or one of ``step``: which it is, and what is wrong."""
    wire = prepared()
    wire.is_watched = True
    VERBS[name](wire)
    tried = ((place, *edit) for place, message in enumerate(wire.seen) for edit in edits(message, every, place))
    for place, what, edit in islice(tried, first % step, None, step):
        yield f"{name}, answer {place}, {what}", complaint(VERBS[name], place, edit)


def main(arguments: list[str]) -> int:
    """Run the command. Returns 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="mutate_answers", description=__doc__)
    parser.add_argument("--verb", choices=VERBS)
    parser.add_argument("--thorough", action="store_true")
    given = parser.parse_args(arguments)
    tried = wrong = 0
    for name in [given.verb] if given.verb else VERBS:
        for what, found in findings(name, 1 if given.thorough else 4):
            tried += 1
            if found is not None:
                wrong += 1
                print(f"{what}: {found}", flush=True)
    print(f"{tried} answers, {wrong} findings")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
