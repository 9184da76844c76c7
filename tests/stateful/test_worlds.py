"""Worlds of streams, replicas and mirrors: whatever is read is complete, or a typed error.

``WORLDS=10000`` in the environment tries so many instead of a few hundred.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.marks import promise
from tests.worlds.memory import Event, Plan, Read, World, small_pages

WORLDS: Final = int(os.environ.get("WORLDS") or examples(300))
SUBJECT: Final = st.integers(0, 9)

events = st.one_of(
    st.builds(Event, st.just("write"), SUBJECT, st.integers(1, 6)),
    st.builds(Event, st.just("overwrite"), SUBJECT, st.integers(1, 6)),
    st.builds(Event, st.just("delete"), st.integers(0, 4), st.integers(0, 1)),
    st.builds(Event, st.just("purge"), SUBJECT, st.integers(0, 3)),
    st.builds(Event, st.just("purge_seq"), st.integers(1, 10)),
    st.builds(Event, st.just("lag"), st.integers(0, 3), st.integers(0, 4)),
    st.builds(Event, st.just("wait"), st.integers(1, 12)),
)
rare_events = st.one_of(
    st.builds(Event, st.just("recreate"), st.just(0), st.integers(0, 1)),
    st.builds(Event, st.just("cut")),
    st.builds(Event, st.just("own"), SUBJECT),
)
all_events = st.one_of(events, events, events, rare_events)
overwrites = st.builds(Event, st.just("overwrite"), SUBJECT, st.integers(1, 3))
writes = st.builds(Event, st.just("write"), SUBJECT, st.integers(1, 9))
meanwhile = st.one_of(
    st.just([]),
    st.lists(st.tuples(st.integers(0, 3), all_events), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 1), overwrites), min_size=4, max_size=12),
)

numbers = st.integers(-6, 6)  # of the first messages, or of the last
patterns = st.one_of(SUBJECT.map(lambda number: f"s.{number}"), st.sampled_from(["s.*", ">", "s.>"]))
many_subjects = st.one_of(
    st.lists(SUBJECT.map(lambda number: f"s.{number}"), min_size=1, max_size=9, unique=True),
    st.sampled_from([["s.*"], [">"], ["s.1", "s.*"], ["s.*", "s.>"], ["s.1", "s.2"]]),
)
one_message = st.one_of(
    st.fixed_dictionaries({"seq": numbers}),
    st.fixed_dictionaries({"seq": numbers, "next": st.just(True)}, optional={"subject": patterns}),
    st.fixed_dictionaries({"subject": patterns}, optional={"next": st.just(True)}),
    st.fixed_dictionaries({"start_time": numbers}),
    st.fixed_dictionaries({"subject": SUBJECT.map(lambda number: f"s.{number}")}),
)
small = {"max_bytes": st.sampled_from([1, 40, 200])}
batches = st.one_of(
    st.fixed_dictionaries(
        {"seq": numbers, "if_dropped": st.sampled_from(["skip", "error"])},
        optional={"subject": patterns, "batch": st.integers(1, 20), **small},
    ),
    st.fixed_dictionaries(
        {"start_time": numbers, "if_dropped": st.sampled_from(["skip", "error"])},
        optional={"subject": patterns, **small},
    ),
)  # fmt: skip
lasts = st.one_of(
    st.fixed_dictionaries({"subjects": many_subjects}, optional={"batch": st.integers(1, 8), **small}),
    st.fixed_dictionaries({"subjects": many_subjects}, optional=small),
    st.fixed_dictionaries({"subjects": many_subjects, "up_to_seq": numbers}, optional=small),
    st.fixed_dictionaries({"subjects": many_subjects, "up_to_time": numbers}, optional=small),
)
snapshots = st.one_of(
    st.fixed_dictionaries({"subjects": many_subjects}, optional=small),
    st.fixed_dictionaries({"subjects": many_subjects}, optional=small),
    st.fixed_dictionaries({"subjects": many_subjects, "at": numbers}, optional=small),
    st.fixed_dictionaries({"subjects": many_subjects, "at_time": numbers}, optional=small),
)
session_batches = st.fixed_dictionaries(
    {"seq": numbers}, optional={"subject": patterns, "batch": st.integers(1, 20), **small}
)
session_lasts = st.fixed_dictionaries({"subjects": many_subjects}, optional=small)


def reads_of(verb: str, keywords: st.SearchStrategy[Any], session: st.SearchStrategy[str]) -> st.SearchStrategy[Read]:
    return st.builds(Read, st.just(verb), keywords, session, meanwhile, st.sampled_from([1, 3, 100]))


levels = st.sampled_from(["direct", "direct", "leader", "mirror"])
plain, direct = st.just(""), st.just("direct")
reads = st.one_of(
    reads_of("get_msg", one_message, plain),
    reads_of("get_msg", one_message.map(lambda asked: asked | {"level": "leader"}), plain),
    reads_of("get_batch", batches, plain),
    reads_of("get_batch", batches, plain),
    reads_of("get_last_msgs_for", lasts, plain),
    reads_of("snapshot", snapshots, plain),
    reads_of("snapshot", snapshots, plain),
    reads_of("get_msg", one_message, levels),
    reads_of("get_batch", session_batches, direct),
    reads_of("get_last_msgs_for", session_lasts, direct),
)

streams = st.fixed_dictionaries(
    {"num_replicas": st.sampled_from([1, 1, 2, 3])},
    optional={
        "max_msgs_per_subject": st.sampled_from([1, 1, 2, 5]), "max_msgs": st.sampled_from([4, 12]),
        "max_age": st.sampled_from([1.0, 3.0]),
    },
)  # fmt: skip
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_msgs_per_subject": st.sampled_from([1, 2]), "max_msgs": st.sampled_from([1, 3, 8]),
        "max_age": st.sampled_from([0.5, 2.0]),
    },
)  # fmt: skip
origins: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.sampled_from(["s.1", "s.*", "s.none"]).map(lambda subject: {"filter_subject": subject}),
    st.integers(1, 12).map(lambda seq: {"opt_start_seq": seq}),
    st.just({"opt_start_time": "2023-11-14T22:13:21Z"}),
    st.sampled_from([("s.*", "t.$1"), ("s.1", "s.2"), ("s.>", "s.x.>"), ("s.*", "s.1")]).map(
        lambda pair: {"subject_transforms": [{"src": pair[0], "dest": pair[1]}]}
    ),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    mirrors = []
    for name in ("M", "N")[: draw(st.sampled_from([0, 1, 1, 2]))]:
        origin = draw(origins)
        if name == "N" and draw(st.booleans()):
            origin = origin | {"name": "M"}
        mirrors.append((name, draw(limits), origin))
    fill = [Event("write", 0, draw(st.sampled_from([0, 3, 9, 9])))]
    before = [*fill, *draw(st.lists(st.one_of(writes, events), max_size=5))]
    then = draw(st.lists(st.one_of(writes, writes, all_events), max_size=6))
    return Plan(
        draw(streams), mirrors, before, [event for event in then if event.what not in ("own", "cut")],
        draw(st.lists(reads, min_size=1, max_size=5)), draw(st.lists(st.integers(0, 11), min_size=1, max_size=12)),
    )  # fmt: skip


@promise("**consistent sessions** that read their own writes and never read backwards")
@promise("what is in the stream all the time is not left out")
@promise("what was acknowledged, except right after a change of leaders or while the network is split")
@promise("what the answering replica or mirror holds: the last writes may be missing")
@promise("a last message, a next message", of="Guarantees")
@promise("all subjects, however many, at one sequence")
@promise('`"direct"` is quick: a replica answers')
@promise("`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself.")
@promise("Its answers are dropped and asked for again.")
@promise("`StreamRecreatedError` reports a stream that was deleted and created again between two pages.")
@promise("It is exactly the state at its `up_to_seq`, while others overwrite.")
@promise("With `at` it is exactly the state at an earlier sequence or time")
@promise("Purges, deletions and what limits drop have no sequence.")
@promise("`get_last_msgs_for` with `up_to_seq` or `up_to_time` shows what the answering")
@promise("all that was acknowledged, except right after a change of leaders or while the network is split")
@promise("what the answering server holds")
@promise("what the stream held while it was read")
@promise("what the mirror holds: it may lag by any distance, and hold a part")
@promise("a last message, a next message", of="Reading what was written")
@promise("No message is left out that is there from beginning to end")
@promise("no subject is left out that is there all the time.")
@promise("loses a message meanwhile (purged, deleted, expired)")
@promise("Exactly so, of what the stream still held when the read began")
@promise("Reads that are never older than what this session has written and read.")
@settings(max_examples=WORLDS, suppress_health_check=list(HealthCheck))
@given(plans())
def test_an_answer_is_right_or_a_typed_error(plan: Plan) -> None:
    with small_pages():
        world = World(plan)
        for read in plan.reads:
            world.read(read)
