"""A configuration that is taken from a server, changed and written back changes only what was changed.

Also where the server is newer: it says fields that this library does not know, at any depth, and words that it lacks.
"""

from __future__ import annotations

import json
from typing import Any, Final

import hypothesis.strategies as st
from hypothesis import given
from hypothesis.strategies import SearchStrategy

from jsproto.client.manage.changes import FOR_GOOD
from jsproto.grammar.config import StreamConfig, StreamInfo
from jsproto.grammar.consumer import ConsumerConfig, ConsumerInfo
from tests.harness import Harness
from tests.marks import promise

words = st.text("abcxyz_", min_size=1, max_size=8)
flags = st.booleans()
integers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**64 - 1)
durations = st.integers(0, 2**63 - 1)  # nanoseconds, which no float holds exactly
anything = st.recursive(
    st.booleans() | integers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
unknown = st.dictionaries(words.map("new_{}".format), anything, max_size=3)
MOMENTS: Final = ("2026-11-25T16:00:00Z", "2026-11-25T16:00:00.123456789Z", "1999-01-01T00:00:00.5Z")


def objects(**fields: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """Some of these fields, with others that nobody knows yet."""
    return st.builds(lambda known, new: known | new, st.fixed_dictionaries({}, optional=fields), unknown)


transforms = objects(src=words, dest=words)
sources = objects(
    name=words, opt_start_seq=counts, opt_start_time=st.sampled_from(MOMENTS), filter_subject=words,
    subject_transforms=st.lists(transforms, max_size=2), external=objects(api=words, deliver=words),
)  # fmt: skip
STREAM: Final[dict[str, SearchStrategy[Any]]] = {
    "description": words,
    "subjects": st.lists(words, max_size=3),
    "retention": words,
    "max_consumers": integers,
    "max_msgs": integers,
    "max_bytes": integers,
    "max_age": durations,
    "max_msgs_per_subject": integers,
    "max_msg_size": integers,
    "discard": words,
    "storage": words,
    "num_replicas": integers,
    "no_ack": flags,
    "duplicate_window": durations,
    "placement": objects(cluster=words, tags=st.lists(words, max_size=2), preferred=words),
    "sources": st.lists(sources, max_size=2),
    "compression": words,
    "first_seq": counts,
    "subject_transform": transforms,
    "republish": objects(src=words, dest=words, headers_only=flags),
    "allow_direct": flags,
    "mirror_direct": flags,
    "discard_new_per_subject": flags,
    "sealed": flags,
    "deny_delete": flags,
    "deny_purge": flags,
    "allow_rollup_hdrs": flags,
    "consumer_limits": objects(inactive_threshold=durations, max_ack_pending=integers),
    "allow_msg_ttl": flags,
    "subject_delete_marker_ttl": durations,
    "allow_msg_counter": flags,
    "allow_atomic": flags,
    "allow_msg_schedules": flags,
    "persist_mode": words,
    "allow_batched": flags,
    "metadata": st.dictionaries(words, words, max_size=3),
}
CONSUMER: Final[dict[str, SearchStrategy[Any]]] = {
    "durable_name": st.just("C"),
    "description": words,
    "deliver_policy": words,
    "opt_start_seq": counts,
    "opt_start_time": st.sampled_from(MOMENTS),
    "ack_policy": words,
    "ack_wait": durations,
    "max_deliver": integers,
    "backoff": st.lists(durations, max_size=3),
    "filter_subject": words,
    "filter_subjects": st.lists(words, max_size=3),
    "replay_policy": words,
    "rate_limit_bps": counts,
    "sample_freq": words,
    "max_waiting": integers,
    "max_ack_pending": integers,
    "flow_control": flags,
    "headers_only": flags,
    "max_batch": integers,
    "max_expires": durations,
    "max_bytes": integers,
    "deliver_group": words,
    "idle_heartbeat": durations,
    "inactive_threshold": durations,
    "num_replicas": integers,
    "mem_storage": flags,
    "direct": flags,
    "sourcing": flags,
    "metadata": st.dictionaries(words, words, max_size=3),
    "pause_until": st.sampled_from(MOMENTS),
    "priority_groups": st.lists(words, max_size=3),
    "priority_policy": words,
    "priority_timeout": durations,
}
CHANGES: Final[dict[str, Any]] = {"description": "changed", "max_bytes": 17, "num_replicas": 3, "metadata": {"k": "v"}}
some_changes = st.dictionaries(st.sampled_from(sorted(CHANGES)), st.none(), max_size=3).map(
    lambda names: {name: CHANGES[name] for name in names}
)


def test_every_field_is_drawn() -> None:
    every = {name: name for name in StreamConfig.__dataclass_fields__}
    assert {*STREAM, "name", "mirror", "extra"} == every.keys()
    every = {name: name for name in ConsumerConfig.__dataclass_fields__}
    assert {*CONSUMER, "name", "deliver_subject", "extra"} == every.keys()


@promise("and nothing else: max_msgs stays")
@promise("Fields and words of a newer server stay as they are.")
@given(objects(**STREAM), some_changes)
def test_a_stream(body: dict[str, Any], changed: dict[str, Any]) -> None:
    found = {"name": "S", **body}
    harness = Harness()
    ticket = harness.js.change_stream("S", changed, now=harness.now)
    harness.answer(lambda _: {"config": found})
    if any(found.get(field) and field not in changed for field in FOR_GOOD):
        harness.answer(lambda _: {"config": found})
    (update,) = harness.answer(lambda pub: {"config": json.loads(pub.payload)})
    assert json.loads(update.payload) == found | changed
    assert ticket.result().config.to_json() == found | changed
    info = StreamInfo.from_json({"config": found})
    assert info.config.updated(**changed).to_json() == found | changed
    assert info.config.to_json() == found


@promise("Fields and words of a newer server stay as they are.")
@given(objects(**CONSUMER), some_changes)
def test_a_consumer(body: dict[str, Any], changed: dict[str, Any]) -> None:
    found = {"name": "C", **body}
    harness = Harness()
    ticket = harness.js.change_consumer("S", "C", changed, now=harness.now)
    answer = {"stream_name": "S", "name": "C", "config": found}
    harness.answer(lambda _: answer)
    (update,) = harness.answer(lambda pub: answer | {"config": json.loads(pub.payload)["config"]})
    assert json.loads(update.payload)["config"] == found | changed
    assert ticket.result().config.to_json() == found | changed
    info = ConsumerInfo.from_json(answer)
    assert info.config.updated(**changed).to_json() == found | changed
    assert info.config.to_json() == found
