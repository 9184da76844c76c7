"""Who judges reads objects to wrong answers, and to no right one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from jsproto.errors import Error, IncompleteBatchError, MessageNotFoundError, MessagesDroppedError
from jsproto.grammar.stored import StoredMsg, stored_header
from tests.worlds.checker import (
    Scene,
    Span,
    WrongAnswerError,
    check_as_of,
    check_batch,
    check_last_of_each,
    check_one,
    check_weak,
)
from tests.worlds.memory import Event, Plan, Read, World, small_pages
from tests.worlds.truth import Life, Message

NOT_FOUND = MessageNotFoundError(404, "Message Not Found")
TIME = "2026-11-20T20:36:46Z"


def life_of(*operations: str | int, life: int = 1) -> Life:
    """A life: subjects that were written; ``-2``: message 2 was deleted; ``"k!1"``: written, which displaced 1."""
    made = Life()
    for operation in operations:
        if isinstance(operation, int):
            made.remove(-operation, first=all(seq >= -operation for seq in _held(made)))
            continue
        subject, _, displaced = operation.partition("!")
        seq = made.last_seq + 1
        made.store(Message(seq, subject, b"%d of %d" % (seq, life), None))
        if displaced:
            made.remove(int(displaced), first=False, displaced=True)
    return made


def _held(life: Life) -> list[int]:
    return [seq for seq in life.messages if life.stays(seq, life.count, life.count)]


def scene_of(life: Life, began: int = 0, low: int | None = None, floor: int = 0, **more: Any) -> Scene:
    """A read that began in a state, and ends now; the copy that was most behind was in the state ``low`` then."""
    low = began if low is None else low
    last = max((seq for seq in life.messages if life.is_known(seq, low)), default=0)
    leader_last = max((seq for seq in life.messages if life.is_known(seq, began)), default=0)
    return Scene("S", [Span(life, low, last, began, leader_last, life.count)], floor=floor, **more)


def answer(life: Life, *seqs: int, stream: str = "S", number: int = 1) -> list[StoredMsg]:
    return [
        StoredMsg(
            stored_header(b"NATS/1.0\r\n\r\n", stream, life.messages[seq].subject, seq, TIME),
            b"%d of %d" % (seq, number),
            seq,
        )
        for seq in seqs
    ]


FOUR = life_of("a", "b", "a", "c")


@pytest.mark.parametrize(
    ("seqs", "error", "asked"),
    [
        ([1, 2, 3, 4], None, {}), ([1, 2], IncompleteBatchError("lost", 2), {}), ([3, 4], None, {"seq": 3}),
        ([1, 3], None, {"subject": "a"}), ([1, 2], None, {"batch": 2}), ([], IncompleteBatchError("lost", 0), {}),
    ],
)  # fmt: skip
def test_right_batches(seqs: list[int], error: Error | None, asked: dict[str, Any]) -> None:
    check_batch(scene_of(FOUR, 4), answer(FOUR, *seqs), error, **asked)


@pytest.mark.parametrize(
    ("seqs", "error", "asked"),
    [
        ([1, 2, 3], None, {}), ([2, 3, 4], None, {}), ([1, 3, 4], IncompleteBatchError("lost", 4), {}), ([], None, {}),
        ([1, 2, 2, 3, 4], None, {}), ([2, 1, 3, 4], None, {}), ([1, 2, 3, 4], None, {"seq": 2}),
        ([1, 2], None, {"batch": 1}), ([1, 2, 3], None, {"subject": "a"}),
        ([1, 2, 3, 4], MessagesDroppedError(1, 2), {}),
    ],
)  # fmt: skip
def test_wrong_batches(seqs: list[int], error: Error | None, asked: dict[str, Any]) -> None:
    with pytest.raises(WrongAnswerError):
        check_batch(scene_of(FOUR, 4), answer(FOUR, *seqs), error, **asked)


def test_a_batch_that_ends_where_the_slowest_copy_ended_is_right_and_not_before() -> None:
    check_batch(scene_of(FOUR, 4, low=2), answer(FOUR, 1, 2), None)
    with pytest.raises(WrongAnswerError, match="1 messages"):
        check_batch(scene_of(FOUR, 4, low=2), answer(FOUR, 1), None)
    with pytest.raises(WrongAnswerError, match="3"):
        check_batch(scene_of(FOUR, 4, low=2, floor=3), answer(FOUR, 1, 2), None)


def test_what_a_mirror_says_is_no_batch_of_the_stream() -> None:
    with pytest.raises(WrongAnswerError, match="is of M"):
        check_batch(scene_of(FOUR, 4), answer(FOUR, 1, 2, 3, 4, stream="M"), None)
    with pytest.raises(WrongAnswerError, match="never there"):
        check_batch(scene_of(FOUR, 4), answer(FOUR, 1, 2, 3, 4, number=2), None)


def test_what_was_dropped_in_front_has_to_be_told() -> None:
    life = life_of("a", "b", "c", -1)
    check_batch(scene_of(life, 4), answer(life, 2, 3), None)
    check_batch(scene_of(life, 4), [], MessagesDroppedError(1, 2), if_dropped="error")
    with pytest.raises(WrongAnswerError, match="dropped"):
        check_batch(scene_of(life, 4), answer(life, 2, 3), None, if_dropped="error")
    inside = life_of("a", "b", "c", -2)
    check_batch(scene_of(inside, 4), answer(inside, 1, 3), None, if_dropped="error")


def test_a_stream_and_its_successor_do_not_mix() -> None:
    old, new = life_of("a", "b", "c"), life_of("a", "b", "c", life=2)
    old.end()
    spans = [Span(old, 3, 3, 3, 3, old.count), Span(new, 0, 0, 0, 0, new.count)]
    scene = Scene("S", spans)
    check_batch(scene, answer(old, 1, 2), None)
    check_batch(scene, answer(new, 1, 2, 3, number=2), None)
    with pytest.raises(WrongAnswerError, match="mixed"):
        check_batch(scene, [*answer(old, 1), *answer(new, 2, 3, number=2)], None)
    with pytest.raises(WrongAnswerError, match="missing"):
        check_batch(scene_of(new, 3), answer(new, 1, 3, number=2), None)


LAST = life_of("a", "b", "a!1", "c", -2, "b")  # 3 a, 4 c, 5 b; the states are 1 to 7


@pytest.mark.parametrize(
    ("seqs", "up_to", "began"),
    [([3, 4, 5], 5, 7), ([2, 3, 4], 4, 5), ([3, 4], 4, 6), ([1, 2], 2, 2), ([3, 4, 5], None, 7)],
)
def test_right_last_messages(seqs: list[int], up_to: int | None, began: int) -> None:
    check_last_of_each(scene_of(LAST, began), answer(LAST, *seqs), None, subjects=">", up_to=up_to)


@pytest.mark.parametrize(
    ("seqs", "up_to", "began"),
    [
        ([3, 4], 5, 7), ([1, 4, 5], 5, 7), ([3, 4, 5], 4, 5), ([3, 4], 4, 7), ([2, 3, 4], 4, 6), ([4], 4, 5),
        ([3, 4], None, 7),
        ([2], 2, 2), ([1, 2, 3], 5, 2), ([1, 4], 4, 5), ([], 5, 7),
    ],
)  # fmt: skip
def test_wrong_last_messages(seqs: list[int], up_to: int | None, began: int) -> None:
    with pytest.raises(WrongAnswerError):
        check_last_of_each(scene_of(LAST, began), answer(LAST, *seqs), None, subjects=">", up_to=up_to)


def test_a_key_that_was_overwritten_after_the_sequence_was_there_all_the_time() -> None:
    life = life_of("a", "b", "a!1")
    with pytest.raises(WrongAnswerError, match="a is left out"):
        check_last_of_each(scene_of(life, 2), answer(life, 2), None, subjects=">", up_to=2)
    with pytest.raises(WrongAnswerError, match="a is left out"):
        check_as_of(scene_of(life, 4), answer(life, 2), None, subjects=["a", "b"], at=2)
    check_as_of(scene_of(life, 2), answer(life, 1, 2), None, subjects=["a", "b"], at=2)
    check_as_of(scene_of(life, 4), [], IncompleteBatchError("", 0), subjects=["a", "b"], at=2)
    for seqs in ([2, 3], [1]):
        with pytest.raises(WrongAnswerError):
            check_as_of(scene_of(life, 4), answer(life, *seqs), None, subjects=["a", "b"], at=2)


def test_what_was_deleted_while_it_was_read_may_count_as_never_written() -> None:
    life = life_of("a", "b", "a!1", -3)
    for seqs in ([1, 2], [2], [2, 3]):
        check_last_of_each(scene_of(life, 2), answer(life, *seqs), None, subjects=">", up_to=3)
    with pytest.raises(WrongAnswerError):
        check_last_of_each(scene_of(life, 4), answer(life, 1, 2), None, subjects=">", up_to=3)


def test_an_older_message_of_a_subject_that_lost_one() -> None:
    """What had overwritten it was overwritten, and the last one was deleted: nobody can show what was between."""
    life = life_of("a", "b", "a!1", "a!3", -4)
    check_last_of_each(scene_of(life, 2), answer(life, 1, 2), None, subjects=">", up_to=3)
    overwritten = life_of("a", "b", "a!1", "a!3")
    for seqs, lived in (([1, 2], overwritten), ([1], life_of("a", "b", "a!1", "a!3", -2))):
        with pytest.raises(WrongAnswerError):
            check_last_of_each(scene_of(lived, 2), answer(lived, *seqs), None, subjects=["a"], up_to=3)


def test_a_snapshot_is_no_older_than_the_leader_was() -> None:
    scene = scene_of(FOUR, 4, low=2)
    check_last_of_each(scene, answer(FOUR, 1, 2), None, subjects=["a", "b"], up_to=2)
    with pytest.raises(WrongAnswerError, match="known before"):
        check_last_of_each(scene, answer(FOUR, 1, 2), None, subjects=["a", "b"], up_to=2, is_snapshot=True)
    with pytest.raises(WrongAnswerError, match="known before"):
        check_last_of_each(scene_of(FOUR, 4, low=2, floor=3), answer(FOUR, 1, 2), None, subjects=["a", "b"], up_to=2)


@pytest.mark.parametrize("seqs", [[1, 3, 2, 4], [2, 3, 4, 4]])
def test_a_subject_twice(seqs: Sequence[int]) -> None:
    with pytest.raises(WrongAnswerError, match="twice"):
        check_last_of_each(scene_of(FOUR, 4), answer(FOUR, *seqs), None, subjects=">", up_to=4)


def test_single_reads() -> None:
    scene = scene_of(FOUR, 4, low=2)
    (one, two, three, _) = answer(FOUR, 1, 2, 3, 4)
    for right in (one, three):
        check_one(scene, right, subject="a")
    check_one(scene, two, seq=2)
    check_one(scene, two, seq=2, following=True)
    check_one(scene, three, seq=2, subject="a", following=True)
    check_one(scene, NOT_FOUND, subject="c")
    check_one(scene, NOT_FOUND, subject="none", level="leader", is_session=True)
    check_one(scene, three, subject="a", level="leader")
    known = scene_of(FOUR, 4, low=2, floor=3)
    check_one(known, three, subject="a", is_session=True)
    wrong: list[tuple[Scene, StoredMsg | Error, dict[str, Any]]] = [
        (scene, NOT_FOUND, {"subject": "a"}), (scene, NOT_FOUND, {"seq": 1}), (scene, two, {"subject": "a"}),
        (scene, two, {"seq": 1, "following": True}), (scene, one, {"subject": "a", "level": "leader"}),
        (scene, NOT_FOUND, {"subject": "c", "level": "leader"}), (known, one, {"subject": "a", "is_session": True}),
        (known, NOT_FOUND, {"seq": 3, "is_session": True}), (scene, answer(FOUR, 1, stream="M")[0], {"subject": "a"}),
        (scene, one, {"seq": 2}), (scene, answer(FOUR, 1, number=9)[0], {"seq": 1}),
    ]  # fmt: skip
    for where, told, asked in wrong:
        with pytest.raises(WrongAnswerError):
            check_one(where, told, **asked)


def test_a_mirror_speaks_for_itself() -> None:
    held = life_of("a", "a")
    scene = scene_of(FOUR, 4, mirrors={"M": Span(held, 2, 0, 2, 0, 2)})
    (of_mirror,) = answer(held, 2, stream="M")
    check_one(scene, of_mirror, subject="a")
    check_one(scene, NOT_FOUND, subject="b")
    check_weak(scene, [of_mirror, *answer(FOUR, 1)])
    with pytest.raises(WrongAnswerError):
        check_one(scene, of_mirror, subject="a", is_session=True)
    with pytest.raises(WrongAnswerError):
        check_weak(scene, answer(FOUR, 3, stream="M"))
    with pytest.raises(WrongAnswerError):
        check_weak(scene, answer(held, 2, stream="N"))


def test_a_read_that_does_not_end_is_found() -> None:
    """A world in which nobody answers, and a client that would wait for ever."""
    with small_pages():
        world = World(Plan(before=[Event("write", 0, 3)], reads=[Read("get_batch", {"seq": 1})]))
        world.server.handle_timeout = world.link.receive_data = lambda *_: None  # type: ignore[union-attr, assignment, method-assign]
        world.client.handle_timeout = lambda now: None  # type: ignore[method-assign]
        with pytest.raises(WrongAnswerError, match="does not end"):
            world.read(world.plan.reads[0])
