"""Whatever is read from a real server while others write is complete, or a typed error.

Ten random worlds; with ``WORLDS=10000`` in the environment a fiftieth of that, and the scenes at their full size.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from jsproto.errors import MessageNotFoundError, MessagesDroppedError
from tests.worlds.real import RealWorld

if TYPE_CHECKING:
    from jsproto_io.nats_server import NatsServer

WORLDS: Final = int(os.environ.get("WORLDS", "0"))
RANDOM_WORLDS: Final = max(10, WORLDS // 50)
IS_FULL: Final = WORLDS > 0
_names = iter(range(1_000_000))


@contextmanager
def world(server: NatsServer, **options: Any) -> Iterator[RealWorld]:
    with RealWorld(server.url, f"WORLD{os.getpid()}_{next(_names)}", allow_batched=True, **options) as made:
        yield made


def outcomes(made: RealWorld, verb: str) -> Counter[str]:
    return Counter(outcome for done, outcome in made.errors if done == verb)


# -- mirrors that hold a part ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["max_msgs", "filter"])
def test_mirrors_that_hold_a_part(server: NatsServer, kind: str) -> None:
    """100 messages, a mirror with 10 or 25 of them: nobody takes that for the stream."""
    with world(server) as made:
        made.fill([str(number % 4) for number in range(100)])
        mirror = f"{made.name}_M"
        if kind == "max_msgs":
            made.mirror(mirror, max_msgs=10)
        else:
            made.mirror(mirror, {"filter_subject": f"{made.name}.1"})
        made.wait_for_mirror(mirror)
        for _ in range(30):
            made.read("get_batch", seq=1, if_dropped="error")
            made.read("get_last_msgs_for", subjects=[f"{made.name}.*"])
            made.read("snapshot", subjects=[f"{made.name}.*"])
            made.read("get_msg", session=True, seq=5, next=True)
            made.read("get_batch", session=True, seq=1)
        assert outcomes(made, "get_batch")["none"] > 0
        for number in range(30):
            made.write_own(str(number % 4))
            made.read("get_last_msgs_for", session=True, subjects=[f"{made.name}.{number % 4}"])
            made.read("get_batch", session=True, seq=95)
            made.read("get_last_msg", session=True, subject=f"{made.name}.{number % 4}")
        assert outcomes(made, "session get_last_msgs_for")["none"] > 0


def test_what_was_dropped_is_told_whoever_answers(server: NatsServer) -> None:
    with world(server, max_msgs=50) as made:
        made.fill([str(number % 4) for number in range(100)])
        made.mirror(f"{made.name}_M", max_msgs=10)
        made.wait_for_mirror(f"{made.name}_M")
        for _ in range(20):
            made.read("get_batch", seq=1, if_dropped="error")
        assert outcomes(made, "get_batch")[MessagesDroppedError.__name__] > 0
        assert outcomes(made, "get_batch")["none"] == 0


def test_spark_reads_a_range_beside_a_mirror(server: NatsServer) -> None:
    pytest.importorskip("pyspark")
    from pyspark_jetstream.options import read_options
    from pyspark_jetstream.planning import Range, end_position
    from pyspark_jetstream.ranges import read_range

    with world(server) as made:
        made.fill([str(number % 4) for number in range(100)])
        made.mirror(f"{made.name}_M", max_msgs=10)
        made.wait_for_mirror(f"{made.name}_M")
        end = end_position(made.js.stream_info(made.name))
        options = read_options({"stream": made.name, "servers": server.url})
        for _ in range(15):
            pages = read_range(made.nc, made.js, Range(1, 101, end), options)
            assert [seq for page in pages for seq in page.seqs] == list(range(1, 101))


# -- others overwrite --------------------------------------------------------------------------------------------------


def test_one_hot_key(server: NatsServer) -> None:
    with world(server, max_msgs_per_subject=1) as made:
        made.write(["hot", "0"])
        made.start_writer(1, 1, can_delete=False)
        made.start_writer(2, 3, can_delete=False)
        for _ in range(60 if IS_FULL else 20):
            made.read("snapshot", subjects=[f"{made.name}.0"])
            made.read("get_last_msgs_for", subjects=[f"{made.name}.0"])
            made.read("get_last_msg", session=True, subject=f"{made.name}.0")
        assert outcomes(made, "snapshot")["none"] > 0


@pytest.mark.slow
def test_many_literal_keys_and_patterns(server: NatsServer) -> None:
    keys = 3_000
    with world(server, max_msgs_per_subject=1) as made:
        made.fill([str(number) for number in range(keys)])
        made.start_writer(1, keys, can_delete=False)
        made.start_writer(2, keys, can_delete=False)
        for _ in range(10 if IS_FULL else 1):
            made.read("snapshot", subjects=[f"{made.name}.{number}" for number in range(keys)])
            made.read("snapshot", subjects=[f"{made.name}.*", f"{made.name}.>"])
            made.read("snapshot", subjects=[">"])
            made.read(
                "get_last_msgs_for", subjects=[f"{made.name}.{number}" for number in range(1_000)], max_bytes=4_000
            )
            at = made.lives[-1].last_seq
            made.read("snapshot", subjects=[f"{made.name}.{number}" for number in range(500)], at=at)
        assert outcomes(made, "snapshot")["none"] > 0
        assert outcomes(made, "get_last_msgs_for")["none"] > 0


@pytest.mark.skipif(not IS_FULL, reason="takes a minute: WORLDS=10000")
def test_more_subjects_than_one_list_has(server: NatsServer) -> None:
    keys = 130_000
    with world(server, max_msgs_per_subject=1) as made:
        made.fill([str(number) for number in range(keys)])
        made.start_writer(1, keys, can_delete=False)
        for _ in range(2):
            assert len(made.read("snapshot", subjects=[f"{made.name}.*"])) in (0, keys)
        assert outcomes(made, "snapshot")["none"] > 0


# -- anything ----------------------------------------------------------------------------------------------------------


def some_mirror(made: RealWorld, random: Random, name: str) -> None:
    """A mirror of some kind, perhaps of another mirror."""
    options: dict[str, Any] = random.choice(
        [{}, {"max_msgs": 10}, {"max_msgs_per_subject": 1}, {"max_age": 0.2}, {"max_msgs": 1}]
    )
    mirror: dict[str, Any] = random.choice([
        {}, {"filter_subject": f"{made.name}.1"}, {"opt_start_seq": 40},
        {"subject_transforms": [{"src": f"{made.name}.*", "dest": f"{made.name}.t.$1"}]},
        {"subject_transforms": [{"src": f"{made.name}.1", "dest": f"{made.name}.2"}]},
    ])  # fmt: skip
    made.mirror(name, mirror, **options)


def read_something(made: RealWorld, random: Random, keys: int) -> None:
    """One read of any kind."""
    last = made.lives[-1].last_seq
    key = f"{made.name}.{random.randrange(keys)}"
    some = [[key], [f"{made.name}.*"], [f"{made.name}.>", key], [f"{made.name}.{n}" for n in range(keys)]]
    seq = max(1, random.choice((1, last - 30, last - 5, last)))
    small: dict[str, Any] = {} if random.random() < 0.5 else {"max_bytes": random.choice((1, 100, 1_000))}
    pages = {name: 4 * size + 2_000 for name, size in small.items()}  # a read to the end has to outrun the writers
    session = random.random() < 0.5
    match random.randrange(7):
        case 0:
            made.read("get_last_msg", session=session, subject=key, level=random.choice(("direct", "leader")))
        case 1:
            made.read("get_msg", session=session, seq=seq, next=True)
        case 2:
            dropped: dict[str, Any] = {} if session else {"if_dropped": random.choice(("skip", "error"))}
            made.read("get_batch", session=session, seq=seq, **dropped, **pages)
        case 3:
            made.read("get_batch", session=session, seq=seq, subject=key, **pages)
        case 4:
            made.read("get_last_msgs_for", session=session, subjects=random.choice(some), **small)
        case 5:
            made.read("snapshot", subjects=random.choice(some), **small)
        case _:
            made.write_own(str(random.randrange(keys)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RANDOM_WORLDS))
def test_random_worlds(server: NatsServer, seed: int) -> None:
    random = Random(seed)
    keys = random.choice((2, 5, 40))
    options = random.choice([{}, {"max_msgs_per_subject": 1}, {"max_msgs_per_subject": 5}, {"max_msgs": 60}])
    with world(server, **options) as made:
        made.fill([str(random.randrange(keys)) for _ in range(80)])
        for number in range(random.choice((0, 1, 2, 3))):
            some_mirror(made, random, f"{made.name}_M{number}")
        for writer in range(2):
            made.start_writer(seed * 2 + writer, keys, can_recreate=seed % 3 == 0)
        for _ in range(25):
            read_something(made, random, keys)
        assert sum(outcome in ("none", MessageNotFoundError.__name__) for _, outcome in made.errors) > 0
