"""The schedule of work: never more than so many at once, in order within a key, nothing lost, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsproto.client.consume.schedule import NO_KEY, Job, WorkSchedule
from tests.marks import promise


def filled(concurrency: int, *jobs: tuple[int, Hashable]) -> WorkSchedule[str]:
    schedule: WorkSchedule[str] = WorkSchedule(concurrency)
    for seq, key in jobs:
        schedule.add(f"m{seq}", seq, key)
    return schedule


def started(schedule: WorkSchedule[str]) -> list[Job[str]]:
    """All jobs that can be started now."""
    jobs = []
    while (job := schedule.start()) is not None:
        jobs.append(job)
    return jobs


def seqs(jobs: list[Job[str]]) -> list[int]:
    return [job.seq for job in jobs]


def test_no_more_jobs_than_slots_are_started() -> None:
    schedule = filled(2, (1, 1), (2, 2), (3, 3))
    first, _ = started(schedule)
    assert (schedule.running, schedule.waiting, schedule.has_slot, schedule.can_start) == (2, 1, False, False)
    schedule.end(first)
    assert seqs(started(schedule)) == [3]


def test_jobs_of_a_key_follow_each_other_in_order_of_their_sequences() -> None:
    schedule = filled(9, (3, "a"), (1, "a"), (2, "b"))
    one, two = started(schedule)
    assert (one.seq, two.seq) == (1, 2)
    schedule.end(one)
    assert seqs(started(schedule)) == [3]


def test_keys_take_turns() -> None:
    schedule = filled(1, (1, "a"), (2, "a"), (3, "b"))
    order = []
    while (job := schedule.start()) is not None:
        order.append(job.seq)
        schedule.end(job)
    assert order == [1, 3, 2]


def test_a_key_waits_for_a_job_that_comes_again() -> None:
    schedule = filled(2, (1, "a"), (2, "a"), (3, "b"))
    one, three = started(schedule)
    schedule.end(one, again_by=9.0)
    schedule.end(three)
    assert started(schedule) == []
    assert schedule.deadline() == 9.0
    schedule.add("again", 1, "a")
    (again,) = started(schedule)
    assert (again.seq, again.message) == (1, "again")
    assert schedule.deadline() is None
    schedule.end(again)
    assert seqs(started(schedule)) == [2]


def test_an_earlier_message_of_the_key_does_not_wait_for_the_one_that_comes_again() -> None:
    schedule = filled(2, (5, "a"))
    (five,) = started(schedule)
    schedule.end(five, again_by=9.0)
    schedule.add("m4", 4, "a")
    schedule.add("m6", 6, "a")
    (four,) = started(schedule)
    assert four.seq == 4
    schedule.end(four)
    assert started(schedule) == []


def test_a_key_does_not_wait_longer_than_it_has_to() -> None:
    schedule = filled(2, (1, "a"), (2, "a"))
    (one,) = started(schedule)
    schedule.end(one, again_by=9.0)
    schedule.expire(8.9)
    assert started(schedule) == []
    schedule.expire(9.0)
    assert seqs(started(schedule)) == [2]


@promise("It is not worked on twice at once in one program.")
def test_a_second_delivery_takes_the_place_of_the_one_that_waits() -> None:
    schedule = filled(1, (1, "a"), (2, "a"))
    (one,) = started(schedule)
    schedule.add("m2 again", 2, "a")
    schedule.add("m1 again", 1, "a")  # which is under way: dropped
    assert schedule.waiting == 1
    schedule.end(one)
    (two,) = started(schedule)
    assert two.message == "m2 again"


def test_what_waits_can_be_taken_back_in_order() -> None:
    schedule = filled(2, (3, "b"), (1, "a"), (2, "a"), (5, "c"), (4, "b"))
    running = started(schedule)
    assert seqs(running) == [3, 1]
    assert schedule.take_waiting() == ["m2", "m4", "m5"]
    assert (schedule.waiting, schedule.running, schedule.can_start) == (0, 2, False)
    schedule.end(running[0], again_by=9.0)
    assert schedule.take_waiting() == []
    assert schedule.deadline() is None
    schedule.end(running[1])
    schedule.add("m7", 7, "b")
    assert seqs(started(schedule)) == [7]


def test_jobs_without_a_key_wait_for_no_other_one() -> None:
    schedule = filled(2, (1, "a"), (5, NO_KEY), (2, "a"), (4, NO_KEY), (3, "b"))
    one, five = started(schedule)
    assert seqs([one, five]) == [1, 5]
    schedule.add("m5 again", 5, NO_KEY)  # which is under way: dropped
    schedule.add("m4 again", 4, NO_KEY)
    schedule.end(five)
    (four,) = started(schedule)
    assert (four.seq, four.message) == (4, "m4 again")
    schedule.add("m6", 6, NO_KEY)
    assert schedule.take_waiting() == ["m2", "m3", "m6"]
    for job in (one, four):
        schedule.end(job)
    assert (schedule.waiting, schedule.running, schedule.can_start) == (0, 0, False)
    assert not schedule._lanes


@pytest.mark.parametrize("key", ["a", None])
def test_nothing_is_kept_of_what_has_ended(key: str | None) -> None:
    schedule = filled(1, (1, key))
    (one,) = started(schedule)
    schedule.end(one, again_by=9.0)
    schedule.expire(9.0)
    assert not schedule._jobs
    assert not schedule._lanes


class World:
    """A server that delivers each message until it is done, and callbacks that end in any order."""

    def __init__(self, concurrency: int, keys: list[str]) -> None:
        self.schedule: WorkSchedule[int] = WorkSchedule(concurrency)
        self.concurrency = concurrency
        self.keys = keys
        self.to_deliver = list(range(len(keys)))
        self.running: list[Job[int]] = []
        self.done: dict[str, list[int]] = {key: [] for key in keys}

    def deliver(self, which: int) -> None:
        """A message comes: the first one, or one that comes again."""
        if self.to_deliver:
            seq = self.to_deliver.pop(0)
            self.schedule.add(seq, seq, self.keys[seq])

    def deliver_twice(self, which: int) -> None:
        """A message comes again, while it is under way."""
        if self.running:
            seq = self.running[which % len(self.running)].seq
            self.schedule.add(seq, seq, self.keys[seq])

    def start(self, which: int) -> None:
        job = self.schedule.start()
        if job is not None:
            assert self.keys[job.seq] not in {self.keys[other.seq] for other in self.running}
            self.running.append(job)
            assert len(self.running) <= self.concurrency

    def finish(self, which: int) -> None:
        if self.running:
            job = self.running.pop(which % len(self.running))
            self.schedule.end(job)
            self.done[self.keys[job.seq]].append(job.seq)

    def fail(self, which: int) -> None:
        """It comes again, before or after what was not delivered yet."""
        if self.running:
            job = self.running.pop(which % len(self.running))
            self.schedule.end(job, again_by=1.0)
            self.to_deliver.insert(which % (len(self.to_deliver) + 1), job.seq)

    steps = (deliver, deliver_twice, start, start, finish, fail)


@promise("It is not worked on twice at once in one program.")
@promise("messages of one key are worked on one after the other, in the order of the stream.")
@given(
    st.integers(1, 4),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=20),
    st.lists(st.tuples(st.sampled_from(World.steps), st.integers(0, 99)), max_size=100),
)
def test_any_order_of_events_keeps_the_rules(
    concurrency: int, keys: list[str], steps: list[tuple[Callable[[World, int], None], int]]
) -> None:
    world = World(concurrency, keys)
    for step, which in [*steps, *[(World.deliver, 0), (World.start, 0), (World.finish, 0)] * 2 * len(keys)]:
        step(world, which)
        assert world.schedule.running == len(world.running)
    assert all(done == sorted(done) for done in world.done.values())
    assert sorted(seq for done in world.done.values() for seq in done) == list(range(len(keys)))
    assert world.schedule.deadline() is None
    assert not world.schedule._lanes
