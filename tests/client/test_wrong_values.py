"""Wrong values for every parameter of every verb of the core's ``JetStream``: each is a LocalProtocolError.

Rules: as ``drivers.test_wrong_values``. A script that refuses a value in its first step fails its ticket at once. What
a verb hands on unread (``UNREAD``) may be anything until it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final, get_type_hints, is_typeddict

import pytest

from jsproto import ConsumerConfig, JetStream, StreamConfig
from jsproto.client.bucket import bucket_options
from jsproto.client.connection.subscription import Subscription
from jsproto.client.consume import consume_options
from jsproto.client.consume.message import JSMsg, term
from jsproto.client.consume.priority import Priority
from jsproto.client.consume.subscribe import SubscriptionSpec
from jsproto.client.publish import publish_options
from jsproto.client.read import read_options
from jsproto.errors import Error, LocalProtocolError, WrongTypeError
from jsproto.grammar.consumer import ConsumerInfo
from jsproto.grammar.options import Option
from tests.harness import Harness
from tests.wrong_values import FLAGS, NOTHING, WRONG, parameters

INFO: Final = ConsumerInfo("S", "C", ConsumerConfig(durable_name="C"))
OF_THE_DRIVER: Final = frozenset({"now", "message_class", "facade", "spec", "plan", "pull"})
"""What no application gives."""

UNREAD: Final = frozenset(
    {
        ("change_consumer", "changes"), ("change_consumer", "required_api_level"), ("change_stream", "changes"),
        ("change_stream", "required_api_level"), ("consumers", "timeout"), ("streams", "timeout"),
        ("subjects", "offset"),
    }
)  # fmt: skip
VERBS: Final = sorted(
    name
    for name, value in inspect.getmembers_static(JetStream)
    if name[0] != "_" and inspect.isfunction(value) and not {"spec", "plan"} & parameters(value).keys()
)


def good(js: JetStream, verb: str) -> dict[str, Any]:
    """A value for each parameter that has no default."""
    return {
        "changes": {}, "config": StreamConfig("S") if "stream" in verb else INFO.config, "consumer": "C", "group": "g",
        "info": INFO, "message_class": JSMsg, "messages": [("s.a", b"")], "name": "C", "now": 100.0, "pattern": None,
        "place": Priority(), "pull": js.pull_consumer(INFO, JSMsg), "seq": 1, "source": "S", "stream": "S",
        "subject": "s.a", "subjects": "s.a", "until": timedelta(1), "wanted": SubscriptionSpec("s.a", "S"),
    }  # fmt: skip


def outcome(verb: str, parameter: str, wrong: object) -> BaseException | None:
    """What a call raised, or why its ticket has failed."""
    js = Harness().js
    values, taken = good(js, verb), parameters(getattr(JetStream, verb))
    given = {name: values[name] for name, needed in taken.items() if needed and name in values}
    try:
        made = getattr(js, verb)(**{**given, parameter: wrong})
    except Exception as error:
        return error
    return getattr(made, "error", None)


@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_is_a_local_protocol_error(verb: str) -> None:
    failures = []
    for parameter in parameters(getattr(JetStream, verb)).keys() - OF_THE_DRIVER - {"self"}:
        for wrong in WRONG:
            error = outcome(verb, parameter, wrong)
            must = wrong is NOTHING and parameter not in FLAGS and (verb, parameter) not in UNREAD
            if not isinstance(error, LocalProtocolError if must else Error | None):
                failures.append((parameter, wrong, error))
    assert failures == []


def options() -> Iterator[tuple[str, Option]]:
    """Every option of a verb that consumes, publishes or reads."""
    for module in (consume_options, publish_options, read_options, bucket_options):
        for kind in vars(module).values():
            if is_typeddict(kind):
                for name, hint in get_type_hints(kind, include_extras=True).items():
                    for option in getattr(hint, "__metadata__", ()):
                        yield name, option


def test_none_is_refused_where_it_stands_for_nothing() -> None:
    others = {name: option for name, option in options() if option.default is not None}
    assert len(others) > 20
    for name, option in others.items():
        if name != "max_messages":  # for which it is no limit
            with pytest.raises(LocalProtocolError, match=name):
                option.check(name, None)


@pytest.mark.parametrize(
    "verb",
    [
        lambda h: Subscription(h.session, "a").unsubscribe(WRONG[4]),
        lambda h: h.js.acker(INFO.config, JSMsg).ack_many([NOTHING]),
        lambda h: term(WRONG[5]),
        lambda h: h.js.consistent_session().record(NOTHING),
    ],
)
def test_so_it_is_with_what_verbs_return(verb: Callable[[Harness], object]) -> None:
    with pytest.raises(WrongTypeError):
        verb(Harness())
