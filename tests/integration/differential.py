"""Random programs on the server role and on a real server, whose answers have to be the same.

``python -m tests.integration.differential --seeds 0:1000`` prints each program that shows a difference, without the
steps that it does not need. A program creates, changes and purges streams, publishes with and without expectations,
and reads. ``--steps``: its length.

Not here: fetching from consumers, batches, hostile bytes, leader changes.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any, Final

from jsproto.errors import NoRespondersError, RemoteProtocolError
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from tests.server.sides import OnARealServer, OnTheRole, Side, without_times

NAMES: Final = ("S", "T")
SUBJECTS: Final = ("s.a", "s.b", "s.c.d", "t.a", "t.b")
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "max_msgs": (1, 3, 0, -1), "max_bytes": (60, 200), "max_msgs_per_subject": (1, 2), "discard": ("new", "old"),
    "max_msg_size": (2, 20), "retention": ("limits", "interest", "workqueue"), "allow_rollup_hdrs": (True,),
    "deny_purge": (True,), "deny_delete": (True,), "discard_new_per_subject": (True,), "allow_msg_ttl": (True,),
    "allow_direct": (True,), "allow_msg_counter": (True,), "duplicate_window": (60 * 10**9, 0), "max_consumers": (1,),
    "subject_transform": ({"src": "s.*", "dest": "s.$1.x"},), "first_seq": (5,), "no_ack": (False,),
    "pedantic": (True,),
}  # fmt: skip
HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Nats-Expected-Last-Sequence": ("0", "1", "3"), "Nats-Expected-Last-Subject-Sequence": ("0", "1", "2"),
    "Nats-Msg-Id": ("m", "n"), "Nats-Expected-Last-Msg-Id": ("m",), "Nats-Rollup": ("sub", "all", "x"),
    "Nats-Expected-Stream": ("S", "T"), "Nats-TTL": ("1h", "never", "x", "0"), "Nats-Incr": ("1", "-2", "x"),
}  # fmt: skip
Step = tuple[str, str, Any, Any]


def program(seed: int, steps: int) -> list[Step]:
    """The steps for a seed: a kind, a subject or verb, a body, headers."""
    chance = random.Random(seed)
    made = [_create(chance, "CREATE")]
    return made + [_step(chance) for _ in range(steps - 1)]


def _some(chance: random.Random, of: dict[str, tuple[Any, ...]], most: int) -> dict[str, Any]:
    return {name: chance.choice(of[name]) for name in chance.sample(sorted(of), chance.randint(0, most))}


def _create(chance: random.Random, verb: str) -> Step:
    name = chance.choice(NAMES)
    body = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": chance.choice(("memory", "file"))}
    return "api", f"STREAM.{verb}.{name}", body | _some(chance, CHOICES, 3), None


def _step(chance: random.Random) -> Step:
    name, seq = chance.choice(NAMES), chance.randint(0, 6)
    kind = chance.random()
    if kind < 0.5:
        headers = _some(chance, HEADERS, 2) if chance.random() < 0.5 else {}
        return "ask", chance.choice(SUBJECTS), chance.choice((b"", b"x", b"long payload")), headers or None
    if kind < 0.6:
        return _create(chance, chance.choice(("CREATE", "UPDATE")))
    if kind < 0.7:
        body = _some(chance, {"seq": (0, 2, 4, 9), "keep": (0, 1, 3), "filter": ("s.a", "s.>", "t.*")}, 2)
        return "api", f"STREAM.PURGE.{name}", body, None
    if kind < 0.8:
        body = {"seq": seq} if chance.random() < 0.5 else {chance.choice(("last_by_subj", "next_by_subj")): "s.>"}
        return "api", f"STREAM.MSG.GET.{name}", body, None
    consumer = {"durable_name": "C", "ack_policy": chance.choice(("explicit", "none", "all"))}
    verb, body = chance.choice((
        ("STREAM.MSG.DELETE", {"seq": seq}), ("STREAM.INFO", {"subjects_filter": ">"}), ("CONSUMER.NAMES", {}),
        ("CONSUMER.CREATE", {"stream_name": name, "config": consumer}),
    ))  # fmt: skip
    return "api", f"{verb}.{name}" + (".C" if verb == "CONSUMER.CREATE" else ""), body, None


def run(side: Side, steps: list[Step]) -> list[Any]:
    """What a server answers to each step."""
    for name in NAMES:
        side.api(f"STREAM.DELETE.{name}")
    return [_answer(side, step) for step in steps]


def _answer(side: Side, step: Step) -> Any:
    kind, subject, body, headers = step
    try:
        answer = side.api(subject, body) if kind == "api" else side.ask(subject, body, headers)
    except (NoRespondersError, RemoteProtocolError):  # each side says in its way that nobody answers
        return "no answer"
    if answer.get("error", {}).get("err_code") == 10025:
        answer["error"].pop("description")
    if "message" in answer:
        answer["message"].pop("time")
    answer.pop("cluster", None)
    return without_times(answer)


def difference(real: Side, steps: list[Step]) -> tuple[int, Any, Any] | None:
    """The first step to which both answer differently, and the answers. None: there is none."""
    pairs = zip(run(OnTheRole(), steps), run(real, steps), strict=True)
    return next(((number, here, there) for number, (here, there) in enumerate(pairs) if here != there), None)


def shrunk(real: Side, steps: list[Step]) -> list[Step]:
    """The steps without those that the difference does not need."""
    found = difference(real, steps)
    assert found is not None
    steps = steps[: found[0] + 1]
    for number in reversed(range(len(steps) - 1)):
        fewer = steps[:number] + steps[number + 1 :]
        if difference(real, fewer) is not None:
            steps = fewer
    return steps


def search(real: Side, seeds: range, steps: int) -> list[int]:
    """Try the programs of ``seeds``, and print what differs. Returns their seeds."""
    bad: list[int] = []
    for seed in seeds:
        made = program(seed, steps)
        if difference(real, made) is not None and difference(real, made) is not None:  # else time made it
            bad.append(seed)
            made = shrunk(real, made)
            found = difference(real, made)
            print(f"seed {seed}:", *made, "role", found and found[1], "real", found and found[2], sep="\n  ")
    return bad


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.differential", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="first:end")
    parser.add_argument("--steps", type=int, default=30)
    asked = parser.parse_args()
    first, end = map(int, asked.seeds.split(":"))
    with NatsServer() as running, connect(running.url) as nc:
        bad = search(OnARealServer(nc), range(first, end), asked.steps)
    print(f"{end - first} programs, {len(bad)} with a difference: {bad}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
