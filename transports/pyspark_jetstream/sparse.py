"""How many messages of a range there are to read: where a filter takes few of them, or many have been deleted.

Rules:
* An answer to a Direct Get of one message says which is the next that matches, and how many match in all from there.
  Two of them, at the edges of a range, say how many it has, without reading it.
* Counts are of any replica, and of moments that differ. They bound what is asked for, and where a micro-batch ends.
  What is read follows from the range alone.
* That nothing is in a range, so that nobody reads it, the leader says.

Not here: which ranges there are (``planning``), reading them (``ranges``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from jsproto.errors import PermissionsViolationError
from jsproto.grammar.config import StreamInfo
from jsproto_io.sync import JetStream
from pyspark_jetstream.planning import Range, check_single, end_of, first_of, next_at_leader, takes_all

FULL: Final = 0.9  # of the sequences; a stream with fewer messages has holes that are worth counting
DENSE: Final = 0.1  # of the messages; from there on reading them all is cheaper than a filter with wildcards
MAX_EDGES: Final = 1_000  # tasks of a read that the driver counts for
PROBES: Final = 8  # questions for the end of a micro-batch, at most
ENOUGH: Final = 0.8  # of the messages that it may have


class Ahead(NamedTuple):
    """What there is from a sequence on: the first message that matches (None: there is none), and how many do."""

    first: int | None
    matches: int


NOTHING: Final = Ahead(None, 0)


def look_ahead(js: JetStream, info: StreamInfo, subject: str | None, seq: int) -> Ahead:
    """What matches from ``seq`` on, which takes one question, or none after the end of the stream."""
    if seq >= end_of(info):
        return NOTHING
    try:
        with js.get_batch(info.config.name, seq=seq, subject=subject, batch=1) as reader:
            for message in reader:
                return Ahead(message.seq, 1 + (message.num_pending or 0))
    except PermissionsViolationError as error:
        check_single(js, info.config.name, error)
    return NOTHING


def count_between(js: JetStream, info: StreamInfo, subject: str | None, lo: int, hi: int) -> int:
    """How many messages from ``lo`` to ``hi - 1`` match."""
    return max(look_ahead(js, info, subject, lo).matches - look_ahead(js, info, subject, hi).matches, 0)


def filtered(js: JetStream, info: StreamInfo, subject: str | None, whole: Range) -> Range:
    """The range with the filter where it costs least, and with the number of messages if that was asked for.

    A server looks for wildcards message by message, at several times the price of reading all. So a filter that takes
    much is left to the task. It applies whatever the stream's subjects are now: it may hold messages of former
    subjects, and of its sources' subjects.
    """
    if subject is None or subject == ">":
        return whole
    wanted = replace(whole, subject=subject)
    if takes_all(info, subject):
        return replace(wanted, local=True)
    if "*" not in subject and ">" not in subject:
        return wanted
    count = count_between(js, info, subject, whole.lo, whole.hi)
    return replace(wanted, local=count > (whole.hi - whole.lo) * DENSE, matches=count)


def has_holes(info: StreamInfo, full: float = 1.0) -> bool:
    """Whether messages of a stream have been deleted, or overwritten: more of them than ``full`` allows."""
    return info.state.messages < (end_of(info) - first_of(info)) * full


def reach(js: JetStream, info: StreamInfo, subject: str | None, hi: int, ahead: Ahead, most: int) -> int:
    """The sequence before which ``most`` messages match, or somewhat fewer, but one at least: up to ``hi``.

    ``ahead``: what matches from where they begin.
    """
    assert ahead.first is not None
    low, inside = ahead.first + 1, 1
    high, beyond = hi, ahead.matches
    for _ in range(PROBES):
        if inside >= most * ENOUGH or high - low <= 1:
            break
        step = (high - low) * (most - inside) // max(beyond - inside, 1)
        guess = min(max(low + step, low + 1), high - 1)
        there = look_ahead(js, info, subject, guess)
        count = ahead.matches - there.matches
        if count > most:
            high, beyond = guess, count
        else:
            low, inside = there.first or hi, count  # nothing between is wanted
    return min(low, hi)


def measured(js: JetStream, info: StreamInfo, tasks: Sequence[Range]) -> list[Range]:
    """Tasks one after the other, with how many messages each has. Those that have none are passed over.

    Where all messages are wanted, and there, nobody asks. So it is with very many tasks.
    """
    if not tasks or len(tasks) > MAX_EDGES:
        return [*tasks]
    subject = None if tasks[0].local else tasks[0].subject
    if subject is None and not has_holes(info, FULL):
        return [*tasks]
    found = []
    following = 0  # the leader's next message
    here = look_ahead(js, info, subject, tasks[0].first)
    for each in tasks:
        is_empty = here.first is None or here.first >= each.hi
        there = here if is_empty else look_ahead(js, info, subject, each.hi)
        count = here.matches - there.matches
        if count <= 0 and following < each.hi:
            message = next_at_leader(js, each.stream, subject, max(each.first, following))
            following = end_of(info) if message is None else message.seq
        if count > 0:
            found.append(replace(each, matches=count))
        else:
            found.append(replace(each, begin=each.hi) if following >= each.hi else each)
        here = there
    return found
