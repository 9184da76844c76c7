"""Random programs: which steps there are, and how a seed chooses some.

Rules:

* A program sticks to a few of the ``THEMES``, so that its steps have to do with each other.
* What steps name are few streams, consumers, subjects and sequences, so that they meet.
* Times are so far away that nothing depends on how fast a server is, or so near that a step waits for them.

Not here: running them (``links``). Nor are mirrors, sources and schedules: a real server copies when it finds time, and
publishes what is scheduled at full seconds of its clock. What it has done when a step ends is chance. They have tests
of their own, which wait for what they compare (``tests/server/test_following.py``, ``test_schedules.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tests.integration.differential.hostile import bytes_of_a_stranger, spoilt
from tests.integration.differential.links import API, Step

Chance: TypeAlias = random.Random
Choices: TypeAlias = dict[str, tuple[Any, ...]]

STREAMS: Final = ("S", "S", "S", "S", "S", "S", "T")
CONSUMERS: Final = ("C", "C", "C", "C", "C", "D", "D", "E")
SUBJECTS: Final = ("s.a", "s.a", "s.a", "s.b", "s.b", "s.c.d", "t.a")
FILTERS: Final = ("s.a", "s.a", "s.b", "s.>", "s.*", "t.*", "t.a", ">", "*.a", "x")
DELIVER: Final = ("d.one", "d.one", "d.two")
PAST, FUTURE = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
HOUR: Final = 3600 * 10**9
SOON: Final = 20_000_000  # nanoseconds
SOON_ENOUGH: Final = 0.06  # seconds

STREAM: Final[Choices] = {
    "max_msgs": (1, 3, 0, -1), "max_bytes": (60, 200), "max_msgs_per_subject": (1, 2), "discard": ("new", "old"),
    "max_msg_size": (2, 20), "retention": ("limits", "interest", "workqueue"), "allow_rollup_hdrs": (True,),
    "deny_purge": (True,), "deny_delete": (True,), "discard_new_per_subject": (True,), "allow_msg_ttl": (True,),
    "allow_direct": (True,), "allow_msg_counter": (True,), "duplicate_window": (60 * 10**9, 0), "max_consumers": (1,),
    "subject_transform": ({"src": "s.*", "dest": "s.$1.x"},), "first_seq": (5,), "no_ack": (False,),
    "pedantic": (True,), "allow_atomic": (True,), "allow_batched": (True,), "sealed": (True,), "max_age": (HOUR,),
    "consumer_limits": ({"max_ack_pending": 5}, {"inactive_threshold": HOUR}), "compression": ("s2", "none"),
    "description": ("words",), "metadata": ({"k": "v"},), "subjects": (["s.>", "u"], ["t.*"], ["s.a", "t.a"], []),
    "republish": ({"src": "s.>", "dest": "r.>"},), "num_replicas": (0, 1),
    "subject_delete_marker_ttl": (HOUR,), "persist_mode": ("default", "async"),
}  # fmt: skip
CONSUMER: Final[Choices] = {
    "ack_policy": ("explicit", "none", "all", "flow_control"),
    "deliver_policy": ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"),
    "opt_start_seq": (1, 2, 4), "opt_start_time": (PAST, FUTURE), "ack_wait": (HOUR, 30 * 10**9),
    "max_deliver": (1, 2, -1, 0), "backoff": ([HOUR], [HOUR, 2 * HOUR]), "filter_subject": FILTERS,
    "filter_subjects": (["s.a", "s.b"], ["s.a"], ["s.>", "s.a"], ["t.a", ""]), "replay_policy": ("instant", "original"),
    "sample_freq": ("100%", "x"), "max_waiting": (1, 2), "max_ack_pending": (1, 2, -1), "headers_only": (True,),
    "max_batch": (1, 3), "max_expires": (HOUR,), "max_bytes": (50,), "inactive_threshold": (HOUR,),
    "num_replicas": (0, 1, 3), "mem_storage": (True,), "metadata": ({"k": "v"},), "pause_until": (PAST, FUTURE),
    "priority_policy": ("none", "overflow", "pinned_client", "prioritized"), "priority_groups": (["g"], ["g", "h"]),
    "priority_timeout": (HOUR,), "description": ("words",), "rate_limit_bps": (0, 1000),
    "flow_control": (True, False), "idle_heartbeat": (0, HOUR), "direct": (True,), "sourcing": (True,),
}  # fmt: skip
LIKELY: Final[Choices] = {
    "deliver_policy": ("all", "last", "new"), "max_deliver": (1, 2, -1), "filter_subject": FILTERS,
    "filter_subjects": (["s.a", "s.b"], ["s.a", "s.c.>"]), "max_ack_pending": (1, 2, 3), "headers_only": (True,),
    "max_waiting": (1, 2), "mem_storage": (True,), "max_batch": (2,), "max_bytes": (60,), "inactive_threshold": (HOUR,),
}  # fmt: skip
PUSH: Final[Choices] = {
    "deliver_subject": DELIVER, "deliver_group": ("q",), "flow_control": (True,), "idle_heartbeat": (HOUR,),
}  # fmt: skip
PULL: Final[Choices] = {
    "no_wait": (True,), "batch": (1, 2, 5, 0, -1), "max_bytes": (1, 40, 90, 1000), "expires": (HOUR,),
    "idle_heartbeat": (HOUR // 4, HOUR), "group": ("g", "h", "x"), "min_pending": (1, 3), "min_ack_pending": (1, 3),
    "priority": (0, 1, 9, 10), "id": ("x",),
}  # fmt: skip
HEADERS: Final[Choices] = {
    "Nats-Expected-Last-Sequence": ("0", "1", "3", "x", ""), "Nats-Expected-Last-Subject-Sequence": ("0", "1", "2"),
    "Nats-Expected-Last-Subject-Sequence-Subject": ("s.a", "s.>", "x"),
    "Nats-Msg-Id": ("m", "n"), "Nats-Expected-Last-Msg-Id": ("m", "o"), "Nats-Rollup": ("sub", "all", "x", "SUB"),
    "Nats-Expected-Stream": ("S", "T"), "Nats-TTL": ("1h", "never", "x", "0", "3600"), "Nats-Incr": ("1", "-2", "x"),
    "Nats-Required-Api-Level": ("0", "99", "x"), "Nats-Stream-Source": ("x",), "Any": ("thing", "other"),
    "Nats-Marker-Reason": ("MaxAge",),
}  # fmt: skip
GET: Final[Choices] = {
    "seq": (0, 1, 2, 5, 9), "last_by_subj": FILTERS, "next_by_subj": FILTERS, "batch": (0, 1, 2, 9, -1),
    "max_bytes": (1, 30), "start_time": (PAST, FUTURE), "multi_last": (["s.>"], ["s.a", "s.b"], [">"], ["x"], []),
    "up_to_seq": (1, 3, 9), "up_to_time": (PAST, FUTURE), "no_hdr": (True,),
}  # fmt: skip


def some(chance: Chance, of: Choices, most: int) -> dict[str, Any]:
    """At most ``most`` of the fields, each with one of its values."""
    return {name: chance.choice(of[name]) for name in chance.sample(sorted(of), chance.randint(0, min(most, len(of))))}


def api(verb: str, body: Any = b"") -> Step:
    """A request to the JetStream API."""
    return Step("pub", f"{API}{verb}", body)


# -- what a step may be ------------------------------------------------------------------------------------------------


def _stream(chance: Chance, verb: str = "CREATE", has: dict[str, Any] | None = None) -> Step:
    """Create or change a stream, with the fields ``has``, and some others."""
    name = chance.choice(STREAMS) if has is None else "S"
    body = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": "memory" if chance.random() < 0.7 else "file"}
    return api(f"STREAM.{verb}.{name}", body | some(chance, STREAM, chance.choice((0, 0, 1, 2, 4))) | (has or {}))


def _publish(chance: Chance) -> list[Step]:
    headers = some(chance, HEADERS, 3) if chance.random() < 0.6 else {}
    payload = chance.choice((b"", b"x", b"long payload", b"{}"))
    reply = "" if chance.random() < 0.05 else "{}"
    return [Step("pub", chance.choice(SUBJECTS), payload, headers or None, reply)]


def _store(chance: Chance) -> list[Step]:
    payload = chance.choice((b"", b"x", b"long payload"))
    headers = chance.choice((None, None, None, {"Nats-Msg-Id": "m"}, {"Any": "thing"}, {"Nats-Rollup": "sub"}))
    return [Step("pub", chance.choice(SUBJECTS), payload, headers)]


def _counter(chance: Chance) -> list[Step]:
    headers = {"Nats-Incr": chance.choice(("1", "-2", "+3", "0", "1e3", " 1", str(10**30)))}
    headers |= some(chance, HEADERS, chance.choice((0, 0, 0, 1)))
    return [Step("pub", chance.choice(SUBJECTS), b"" if chance.random() < 0.9 else b"x", headers)]


def _atomic(chance: Chance) -> list[Step]:
    batch, length, commit = chance.choice(("a", "a", "a", "b", "x" * 65)), chance.randint(1, 4), chance.random() < 0.8
    steps = []
    for sequence in range(1, length + 1):
        number = sequence if chance.random() < 0.93 else chance.choice((0, 1, 7, "x"))
        headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
        if sequence == length and commit:
            headers["Nats-Batch-Commit"] = chance.choice(("1", "1", "1", "eob", "x", ""))
        if chance.random() < 0.25:
            headers |= some(chance, HEADERS, 2)
        reply = "{}" if chance.random() < 0.9 else ""
        steps.append(Step("pub", chance.choice(SUBJECTS[:3]), chance.choice((b"x", b"long payload")), headers, reply))
    return steps


def _fast(chance: Chance) -> list[Step]:
    batch, length = chance.choice(("a", "a", "a", "a", "b", "x" * 65)), chance.randint(1, 6)
    flow = chance.choice(("1", "2", "10", "10", "0", "x"))
    gap = chance.choice(("ok", "ok", "ok", "fail", "fail", "fail", "x"))
    steps = []
    for sequence in range(1, length + 1):
        operation = 0 if sequence == 1 else 1
        if sequence == length and chance.random() < 0.7:
            operation = chance.choice((2, 2, 3, 4))
        elif chance.random() < 0.05:
            operation = chance.choice((0, 1, 2, 3, 4, 5))
        number = sequence if chance.random() < 0.9 else chance.choice((0, 1, 2, sequence + 2))
        headers = some(chance, HEADERS, 2) if chance.random() < 0.2 else {}
        reply = f"{{}}.{batch}.{flow}.{gap}.{number}.{operation}.$FI"
        steps.append(
            Step("pub", chance.choice(SUBJECTS[:3]), chance.choice((b"x", b"long payload")), headers or None, reply)
        )
    return steps


def _consumer(chance: Chance, has: dict[str, Any] | None = None) -> list[Step]:
    """Create or change a consumer, of any configuration, or of C with the fields ``has`` and a few others."""
    stream, name = ("S", "C") if has is not None else (chance.choice(STREAMS), chance.choice(CONSUMERS))
    config: dict[str, Any] = {"name": name} if name == "E" else {"durable_name": name}
    if has is None and chance.random() < 0.05:
        config = {"name": "C", "durable_name": chance.choice(CONSUMERS)}
    config["ack_policy"] = chance.choice(("explicit", "explicit", "explicit", "none", "all"))
    if has is None and chance.random() < 0.3:
        config |= {"deliver_subject": chance.choice(DELIVER)} | some(chance, PUSH, 2)
    config |= some(chance, LIKELY, chance.choice((0, 1, 2, 3)))
    if has is None and chance.random() < 0.3:
        config |= some(chance, CONSUMER, 2)
    body: dict[str, Any] = {"stream_name": stream, "config": config | (has or {})}
    if has is None and chance.random() < 0.15:
        body["action"] = chance.choice(("create", "update", ""))
    if has is None and chance.random() < 0.05:
        body["pedantic"] = True
    verb = f"CONSUMER.CREATE.{stream}.{name}"
    kind = chance.random()
    if kind < 0.15 and "durable_name" in config:
        verb = f"CONSUMER.DURABLE.CREATE.{stream}.{name}"
    elif kind < 0.2 and has is None:
        verb = f"CONSUMER.CREATE.{stream}"
    elif kind < 0.4 and "filter_subject" in config:
        verb += f".{config['filter_subject']}"
    return [api(verb, body)]


def _verb_of_consumer(chance: Chance) -> list[Step]:
    stream, name = chance.choice(STREAMS), chance.choice(CONSUMERS)
    verb, body = chance.choice((
        *[("INFO", b"")] * 12, ("DELETE", b""),
        ("PAUSE", {"pause_until": chance.choice((PAST, FUTURE, None, "x"))}), ("PAUSE", b""), ("PAUSE", {}),
        ("UNPIN", {"group": chance.choice(("g", "h", "", "x", 1))}),
        ("RESET", b""), ("RESET", {"seq": chance.choice((0, 1, 2, 5, 9, -1))}), ("RESET", {}),
    ))  # fmt: skip
    return [api(f"CONSUMER.{verb}.{stream}.{name}", body)]


def _pull(chance: Chance) -> list[Step]:
    subject = f"CONSUMER.MSG.NEXT.{chance.choice(STREAMS)}.{chance.choice(CONSUMERS)}"
    kind = chance.random()
    if kind < 0.1:
        return [api(subject, chance.choice((b"", b"1", b"3", b"x", b"{", b"0", b"-1")))]
    if kind < 0.2:
        body = some(chance, PULL, 2) | {"expires": SOON}
        body.pop("idle_heartbeat", None)  # how many come is a matter of time
        return [api(subject, body)._replace(wait=SOON_ENOUGH)]
    body = some(chance, PULL, chance.choice((1, 2, 3))) | ({"group": "g"} if chance.random() < 0.4 else {})
    return [api(subject, body | {"no_wait": True} if kind < 0.7 else body)]


def _acknowledge(chance: Chance) -> list[Step]:
    stream, name, seq = chance.choice(STREAMS), chance.choice(CONSUMERS), chance.choice((0, 1, 1, 1, 2, 2, 3, 3, 4, 5))
    numbers = f"{chance.choice((1, 1, 1, 2))}.{seq}.{seq if chance.random() < 0.7 else chance.randint(0, 6)}"
    subject = f"$JS.ACK.{stream}.{name}.{numbers}.1.0"
    kind = chance.random()
    if kind < 0.05:
        subject = f"$JS.ACK._.szMpdrwD.{stream}.{name}.{numbers}.1.0.x"
    elif kind < 0.08:
        subject = chance.choice((f"$JS.ACK.{stream}.{name}", f"$JS.ACK.{stream}.{name}.x.x.x.x.x", "$JS.ACK"))
    payload = chance.choice((
        b"+ACK", b"", b"+OK", b"-NAK", b"+WPI", b"+TERM", b"+TERM why", b"+NXT", b'+NXT {"batch":2,"no_wait":true}',
        b"+NXT 1", b"x", b"+ACKx", b"-NAK x", b'-NAK {"delay":-1}', b'-NAK {"delay":3600000000000}', b"-NAK 1h",
    ))  # fmt: skip
    if chance.random() < 0.05:
        return [Step("pub", subject, b'-NAK {"delay":20000000}', wait=SOON_ENOUGH)]
    return [Step("pub", subject, payload, None, "{}" if chance.random() < 0.85 else "")]


def _subscribe(chance: Chance) -> list[Step]:
    if chance.random() < 0.25:
        return [Step("unsub", f"u{chance.randint(0, 30)}")]
    subject = chance.choice((*DELIVER, *DELIVER, "d.*", "r.>"))
    return [Step("sub", subject, reply=chance.choice(("", "", "", "q")) if subject in DELIVER else "")]


def _read(chance: Chance) -> list[Step]:
    name, body = chance.choice(STREAMS), some(chance, GET, chance.choice((1, 2, 3)))
    kind = chance.random()
    if kind < 0.2:
        tail, subject = chance.choice((b"", b"", {}, body)), chance.choice(FILTERS)
        return [api(f"DIRECT.GET.{name}.{subject}", tail)]
    return [api(f"{'DIRECT.GET' if kind < 0.7 else 'STREAM.MSG.GET'}.{name}", body)]


def _manage(chance: Chance) -> list[Step]:
    name, seq = chance.choice(STREAMS), chance.randint(0, 6)
    page = some(chance, {"offset": (0, 1, 5, -1), "subject": FILTERS}, 2)
    verb, body = chance.choice((
        (f"STREAM.MSG.DELETE.{name}", {"seq": seq} | some(chance, {"no_erase": (True, False)}, 1)),
        (f"STREAM.INFO.{name}", some(chance, {"subjects_filter": FILTERS, "deleted_details": (True,),
                                              "offset": (0, 1, -1)}, 2)),
        (f"STREAM.INFO.{name}", b""),
        (f"STREAM.PURGE.{name}", some(chance, {"seq": (0, 1, 2, 4, 9), "keep": (0, 1, 3), "filter": FILTERS}, 2)),
        (f"STREAM.PURGE.{name}", b""),
        (f"STREAM.DELETE.{name}", b""), ("STREAM.NAMES", page), ("STREAM.LIST", page), ("STREAM.NAMES", b""),
        ("STREAM.LIST", b""), (f"CONSUMER.NAMES.{name}", page), (f"CONSUMER.LIST.{name}", page),
        (f"CONSUMER.NAMES.{name}", b""), (f"CONSUMER.LIST.{name}", b""), ("INFO", b""), ("INFO", {}),
        (f"CONSUMER.INFO.{name}.{chance.choice(CONSUMERS)}", b""),
        (f"CONSUMER.DELETE.{name}.{chance.choice(CONSUMERS)}", b""),
    ))  # fmt: skip
    return [api(verb, body)]


def _change(chance: Chance) -> list[Step]:
    return [_stream(chance, chance.choice(("CREATE", "UPDATE", "UPDATE")))]


def _hostile(chance: Chance) -> list[Step]:
    maker = chance.choice((_change, _consumer, _verb_of_consumer, _pull, _acknowledge, _read, _manage, _publish, _fast))
    return [spoilt(chance, step) for step in maker(chance)]


def _bytes(chance: Chance) -> list[Step]:
    return [Step("bytes", payload=bytes_of_a_stranger(chance))]


Maker: TypeAlias = Callable[[Chance], list[Step]]

THEMES: Final[dict[str, tuple[Maker, ...]]] = {
    "publish": (_publish, _publish, _publish, _manage, _change),
    "counters": (_counter, _counter, _counter, _publish, _read),
    "atomic": (_atomic, _atomic, _publish, _manage),
    "fast": (_fast, _fast, _publish, _manage),
    "consumers": (_consumer, _consumer, _verb_of_consumer, _store, _manage),
    "pull": (_pull, _pull, _pull, _acknowledge, _acknowledge, _verb_of_consumer, _store, _consumer),
    "push": (_subscribe, _acknowledge, _acknowledge, _verb_of_consumer, _store, _store, _consumer),
    "priority": (_pull, _pull, _pull, _acknowledge, _verb_of_consumer, _store),
    "read": (_read, _read, _read, _store, _manage),
    "manage": (_manage, _manage, _change, _store),
    "hostile": (_hostile,),
    "bytes": (_bytes,),
}
_STREAMS_OF: Final[dict[str, dict[str, Any]]] = {
    "counters": {"allow_msg_counter": True}, "atomic": {"allow_atomic": True}, "fast": {"allow_batched": True},
    "read": {"allow_direct": True},
}  # fmt: skip
_CONSUMERS_OF: Final[dict[str, dict[str, Any]]] = {
    "pull": {}, "consumers": {}, "hostile": {}, "push": {"deliver_subject": "d.one"},
    "priority": {"priority_policy": "pinned_client", "priority_groups": ["g"]},
}  # fmt: skip


def program(seed: int, steps: int, themes: str = "") -> list[Step]:
    """The program of a seed. ``themes``: a word of those that it may have, all without one."""
    chance = random.Random(seed)
    names = [name for name in THEMES if themes in name]
    chosen = chance.sample(names, min(len(names), chance.choice((1, 1, 2))))
    made = [
        _stream(chance, has={name: value for theme in chosen for name, value in _STREAMS_OF.get(theme, {}).items()})
    ]
    if "push" in chosen:
        made.append(Step("sub", "d.one", reply=""))
    for theme in chosen:
        if theme in _CONSUMERS_OF:
            has = dict(_CONSUMERS_OF[theme])
            if theme == "priority":
                has["priority_policy"] = chance.choice(("pinned_client", "overflow", "prioritized"))
            made += _store(chance) * chance.randint(0, 3) + _consumer(chance, has)
    while len(made) < steps:
        made += chance.choice(THEMES[chance.choice(chosen)])(chance)
    return made[:steps]
