"""What must hold at the end of a simulation, whatever went wrong: checks that ask the server, and what clients saw.

Rules:

* Each check raises InvariantError, whose text says what does not hold, and where.
* They are about streams that keep what they store: limits and deletions are the caller's business.

Not here: progress. Ask for that apart, after all faults have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from jsproto.errors import Error
from jsproto.grammar.batch import BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE
from jsproto.server.server import Server
from jsproto.server.store.stream import Publication, Stored, Stream
from jsproto.ticket import Ticket

_SHOWN: Final = 5  # of what is wrong, in a text


class InvariantError(Error):
    """Something that must hold does not."""


def check_acknowledged(stream: Stream, acknowledged: Mapping[int, bytes]) -> None:
    """Nothing acknowledged is lost: the payloads are stored under the sequences of their acknowledgements.

    Raises:
        InvariantError: a message is missing, or another one is in its place.
    """
    lost = []
    for seq, payload in acknowledged.items():
        stored = stream.get(seq)
        if stored is None or stored.payload != payload:
            lost.append(f"{seq} is {'missing' if stored is None else 'another message'}")
    _require(not lost, f"acknowledged, and not stored in {stream.config.name}", lost)


def check_batches(stream: Stream) -> None:
    """Atomic batches are whole: their sequences go from 1 on without a gap, side by side, and a commit is at the end.

    Raises:
        InvariantError: a batch has a hole, is mixed with other messages, or has no end.
    """
    wrong = []
    open_id, expected = b"", 1
    for stored in stream:
        publication = Publication(stored.subject, stored.header, stored.payload)
        batch_id = publication.value(BATCH_ID) or b""
        if batch_id != open_id and open_id:
            wrong.append(f"batch {open_id.decode()} has no commit before sequence {stored.seq}")
        if batch_id != open_id:
            expected = 1
        if batch_id and publication.value(BATCH_SEQUENCE) != b"%d" % expected:
            wrong.append(f"sequence {stored.seq} is not member {expected} of batch {batch_id.decode()}")
        expected += 1
        open_id = b"" if publication.value(BATCH_COMMIT) else batch_id
    if open_id:
        wrong.append(f"batch {open_id.decode()} has no commit")
    _require(not wrong, f"atomic batches in {stream.config.name}", wrong)


def check_copied_once(
    origins: Iterable[bytes], copies: Stream, key: Callable[[Stored], bytes] = lambda stored: stored.payload
) -> None:
    """Each message is in the copy exactly once, and in order.

    ``origins``: the keys of the messages, in their order. ``key``: that of a copy, by default its payload.

    Raises:
        InvariantError: one is missing, doubled, or in another place.
    """
    wanted, found = list(origins), [key(stored) for stored in copies]
    places = [f"place {index}" for index, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]]
    if len(wanted) != len(found):
        places.append(f"{len(found)} copies of {len(wanted)} messages")
    _require(not places, f"copies in {copies.config.name} differ", places)


def check_monotone(sequences: Iterable[int]) -> None:
    """The sequences that one client read, or that were acknowledged to it, never go back.

    Raises:
        InvariantError: a sequence is lower than the one before.
    """
    back = [f"from {before} to {after}" for before, after in pairwise(sequences) if after < before]
    _require(not back, "went back", back)


def check_answered(tickets: Iterable[Ticket[Any]]) -> None:
    """No ticket is open: after the end of a session each has its answer, or an error.

    Raises:
        InvariantError: one is open.
    """
    still = [repr(ticket) for ticket in tickets if not ticket.done]
    _require(not still, "open tickets", still)


def check_bounded(server: Server, most: int) -> None:
    """The memory for what clients leave unread is bounded.

    ``most``: bytes for each client.

    Raises:
        InvariantError: more wait for one.
    """
    full = [f"{session.pending} bytes" for session in server.sessions if session.pending > most]
    _require(not full, f"more than {most} bytes wait for a client", full)


def _require(holds: bool, what: str, wrong: list[str]) -> None:
    if not holds:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise InvariantError(f"{what}: {', '.join(wrong[:_SHOWN])}{more}")
