"""Wrong values for every parameter of every public verb, in memory: each is a LocalProtocolError, and nothing breaks.

How it works: a program in simulated time makes an object of each class. Each verb is called once for each parameter
and each wrong value, with good values for what it needs besides. Parameters are those of its signature, and of the
options that it takes.

Names that a verb lacks are refused as well, also where the core has a keyword of that name.

Rules: what no parameter can take must be refused by LocalProtocolError. Other values may fit some parameters. No value
may raise anything but an error of this library.

Not here: which values fit, and the texts of errors (the tests of each verb).
"""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from jsproto import ConsumerConfig, StreamConfig
from jsproto.errors import Error, LocalProtocolError
from jsproto_io.sync import Connection, JetStream, connect
from jsproto_io.testing.simulation import current, simulate
from tests.wrong_values import FLAGS, NOTHING, WRONG, parameters

GOOD: Final[dict[str, Any]] = {
    "ack": None, "batch": 1, "callback": print, "consumer": "C", "group": "g", "message": None,
    "messages": [("s.a", b"x")], "name": "S", "seq": 1, "stream": "S", "subject": "s.a", "subjects": "s.a",
    "target": "T", "to": "D", "token": b"", "until": timedelta(1),
}  # fmt: skip
"""For the parameters that have no default."""

CONFIGS: Final[dict[str, Any]] = {
    "create_stream": StreamConfig("NEW", subjects=["new"]), "update_stream": StreamConfig("U", subjects=["u"]),
    "update_consumer": ConsumerConfig(durable_name="X"), "create_consumer": ConsumerConfig(durable_name="X"),
}  # fmt: skip
GONE: Final = {"delete_stream": "name", "delete_consumer": "consumer"}
"""Verbs that would take away what the others need, and the parameter that is to name something else."""

OBJECTS: Final[dict[str, Callable[[Connection, JetStream], Any]]] = {
    "Connection": lambda nc, js: nc,
    "JetStream": lambda nc, js: js,
    "Subscription": lambda nc, js: nc.subscribe("x"),
    "FastPublisher": lambda nc, js: js.fast_publisher(),
    "AtomicBatch": lambda nc, js: js.atomic_batch(),
    "PipelinedPublisher": lambda nc, js: js.async_publisher(),
    "PendingAck": lambda nc, js: js.publish_async("s.a", b""),
    "BatchAdvisories": lambda nc, js: js.batch_advisories("S"),
    "PullSubscription": lambda nc, js: js.pull_subscribe_bind("C", "S"),
    "PullMessages": lambda nc, js: js.pull_subscribe("s.a").messages(),
    "JSMsg": lambda nc, js: js.pull_subscribe_bind("C", "S").fetch(1)[0],
    "PushSubscription": lambda nc, js: js.subscribe("s.a"),
    "BatchReader": lambda nc, js: js.get_batch("S"),
    "ConsistentSession": lambda nc, js: js.consistent_session(),
    "TraceCollector": lambda nc, js: nc.trace(),
    "Counter": lambda nc, js: js.counter("N"),
}
BUCKET: Final[dict[str, Callable[[Connection, JetStream], Any]]] = {"Bucket": lambda nc, js: js.create_bucket("B")}
LEAKS: Final = frozenset(
    {
        "api", "at_least", "draw", "expires", "facade", "inbox", "message", "message_class", "no_such", "now", "place",
        "retry", "session", "started", "timeout", "within",
    }
)  # fmt: skip
"""Keywords of the core, and one that is none."""
LEFT_OUT: Final = frozenset({"close", "drain", "force_reconnect", "consume"})
"""What ends the object, and what begins a thread (``client.test_work`` has its wrong values)."""


def verbs(thing: Any) -> Iterator[str]:
    """The public verbs of an object that take something."""
    for name, value in inspect.getmembers_static(type(thing)):
        if name[0] != "_" and inspect.isfunction(value) and name not in LEFT_OUT:
            yield name


def outcome(verb: Callable[..., Any], arguments: dict[str, Any]) -> BaseException | None:
    """What a call raised. What it made is closed."""
    try:
        made = verb(**arguments)
        if type(made).__name__ == "BatchReader" or inspect.isgenerator(made):
            list(made)
    except Exception as error:
        return error
    for end in ("unsubscribe", "abandon", "stop", "close"):
        if hasattr(made, end) and not isinstance(made, Connection):
            getattr(made, end)()
            break
    return None


@contextmanager
def opened(kind: str) -> Iterator[Any]:
    """One object, on a connection to a server that has what its verbs need."""
    server, now = current().server, current().world.now
    common: dict[str, Any] = {"allow_direct": True, "allow_atomic": True, "allow_batched": True}
    server.add_stream(StreamConfig("S", subjects=["s.*"], **common), now)
    server.add_stream(StreamConfig("U", subjects=["u"]), now)
    server.add_stream(StreamConfig("N", subjects=["n.*"], allow_msg_counter=True), now)
    with connect("nats://server") as nc:
        js = nc.jetstream(timeout=1)
        js.create_consumer("S", durable="C")
        js.publish("s.a", b"")
        yield (OBJECTS | BUCKET)[kind](nc, js)


def good(verb: str, taken: dict[str, bool]) -> dict[str, Any]:
    """A value for each parameter that has no default."""
    given = {each: GOOD[each] for each, needed in taken.items() if needed and each in GOOD}
    if "config" in taken:
        given["config"] = CONFIGS.get(verb)
    if verb in GONE:
        given[GONE[verb]] = "GONE"
    return given


def survey(kind: str, failures: dict[str, str]) -> None:
    """The program: try every verb of one object."""
    with opened(kind) as thing:
        for name in verbs(thing):
            verb = getattr(thing, name)
            taken = parameters(verb)
            for parameter in taken:
                for wrong in WRONG:
                    error = outcome(verb, {**good(name, taken), parameter: wrong})
                    must = wrong is NOTHING and parameter not in FLAGS
                    if not isinstance(error, LocalProtocolError if must else Error | None):
                        failures.setdefault(f"{name}({parameter}={wrong!r})", repr(error)[:90])


def survey_names(kind: str, failures: dict[str, str]) -> None:
    """The program: give every verb of one object that takes options a name that it lacks."""
    with opened(kind) as thing:
        for name, verb in inspect.getmembers(thing, inspect.ismethod):
            kinds = {each.kind for each in inspect.signature(verb).parameters.values()}
            if name[0] == "_" or inspect.Parameter.VAR_KEYWORD not in kinds:
                continue
            taken = parameters(verb)
            for leak in LEAKS - taken.keys():
                error = outcome(verb, {**good(name, taken), leak: 1})
                if not isinstance(error, LocalProtocolError):
                    failures[f"{name}({leak}=)"] = repr(error)[:90]


@pytest.mark.parametrize("kind", OBJECTS | BUCKET)
def test_names_of_the_core_are_no_options(kind: str) -> None:
    failures: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulate(lambda: survey_names(kind, failures), clients="blocking", faults=())
        gc.collect()
    assert failures == {}


@pytest.mark.parametrize("kind", OBJECTS)
def test_what_cannot_be_is_a_local_protocol_error(kind: str) -> None:
    failures: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulate(lambda: survey(kind, failures), clients="blocking", faults=())
        gc.collect()
    assert failures == {}
