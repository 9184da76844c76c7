"""Who hears that a question was refused: each verb, with each subject that it may publish or subscribe to denied.

The verb ends with PermissionsViolationError, at once. Or it works without, where ``WITHOUT`` says so.
"""

from __future__ import annotations

import pytest

from jsproto.client.connection.subscription import Subscription
from jsproto.errors import PermissionsViolationError
from jsproto.events import ServerReportedError
from jsproto.grammar.subjects import matches
from tests.marks import promise
from tests.pair.verbs import VERBS, prepared

API = "$JS.API."
QUESTIONS = [
    "$JS.ACK.>", "s.>", "$KV.>",
    *(
        API + each
        for each in (
            ">", "INFO", "DIRECT.GET.>", "STREAM.>", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.>", "STREAM.CREATE.>",
            "STREAM.UPDATE.>", "STREAM.PURGE.>", "STREAM.DELETE.>", "STREAM.MSG.GET.>", "STREAM.MSG.DELETE.>",
            "CONSUMER.>", "CONSUMER.CREATE.>", "CONSUMER.INFO.>", "CONSUMER.LIST.>", "CONSUMER.NAMES.>",
            "CONSUMER.DELETE.>", "CONSUMER.MSG.NEXT.>", "CONSUMER.RESET.>", "CONSUMER.PAUSE.>",
        )
    ),
]  # fmt: skip
LISTS = ("key_keys", "key_history", "key_watch")
WITHOUT = {
    (API + "STREAM.INFO.>", "ordered"),  # it cannot tell whether the stream is the same
    (API + "STREAM.INFO.>", "source"),  # the same
    (API + "STREAM.>", "source"),
    (API + "CONSUMER.INFO.>", "find_pull"),  # ADR-15: the look-up is not needed
    (API + "CONSUMER.INFO.>", "bind_pull"),  # it may be created
    (API + "CONSUMER.>", "find_pull"),
    (API + "CONSUMER.>", "bind_pull"),  # it counts as existing
    (API + ">", "find_pull"),
    *((API + each, verb) for each in ("STREAM.>", "STREAM.INFO.>") for verb in LISTS),  # as "ordered"
    *((API + "CONSUMER.DELETE.>", verb) for verb in (*LISTS, "key_purge_deletes")),  # the server forgets it by itself
}
AT_ONCE = 1.5  # seconds: less than any limit, and more than what a verb spends by itself


def asked(verb: str) -> tuple[list[str], str]:
    """What ``verb`` publishes to, and what it gives where all is permitted."""
    wire = prepared()
    listeners = [Subscription(wire.client, pattern) for pattern in ("$JS.>", "s.>", "$KV.>")]
    wire.exchange()
    found = repr(VERBS[verb](wire))
    wire.exchange()
    return [message.subject.decode() for listener in listeners for message in listener.pop_many(1000)], found


@promise("A forbidden request raises `PermissionsViolationError`")
@pytest.mark.parametrize("verb", VERBS)
def test_each_refusal_is_heard(verb: str) -> None:
    subjects, permitted = asked(verb)
    questions = [each for each in QUESTIONS if any(matches(each, subject) for subject in subjects)]
    assert questions
    for question in questions:
        wire = prepared()
        wire.denied.append(question)
        began, told = wire.now, len(wire.events)
        error, found = None, ""
        try:
            found = repr(VERBS[verb](wire))
        except PermissionsViolationError as caught:
            error = caught
        if error is not None:
            assert error.operation == "publish"
            assert matches(question, error.subject)
            assert wire.now - began < AT_ONCE
            assert (question, verb) not in WITHOUT
            continue
        refused = any(isinstance(event, ServerReportedError) for event in wire.events[told:])
        assert not refused or (question, verb) in WITHOUT
        assert refused or found == permitted


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "find_pull"])  # whose first fetch says so
def test_who_may_not_hear_answers_is_told(verb: str) -> None:
    wire = prepared()
    wire.deaf.append("_INBOX.>")
    wire.client.requests._sid = None  # what was subscribed to before would go on
    began = wire.now
    with pytest.raises(PermissionsViolationError) as caught:
        VERBS[verb](wire)
    assert caught.value.operation == "subscribe"
    assert wire.now - began < AT_ONCE
