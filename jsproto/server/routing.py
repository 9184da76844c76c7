"""Which subscriptions a subject reaches, in the order in which they came: of clients, conversations and streams.

How it works: subscriptions are kept by how their patterns begin, so a subject is compared with few of them. What it
was found to reach is remembered. A new or ended subscription without wildcards changes what is known of its own subject
alone. One with wildcards makes the table forget everything. So does a memory that is full.

Who must notice that a subject has lost its subscriber asks ``Removals``, instead of asking for each subject again.

Pays: of the server in memory, ``python -m tests.testing_io.measure``. Without the memory each request of the API is
compared with all its verbs, and each acknowledgement with all consumers.

Not here: who may get a message, and one member of a queue group (``server``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import islice
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeVar

from jsproto.grammar.subjects import has_wildcards, matches

MAX_REMEMBERED: Final = 8192
"""How many subjects and subscriptions that they reach are remembered, in all."""
MAX_REMOVALS: Final = 1024
"""How many of the last removals are remembered."""


class Subscription(Protocol):
    """What a table holds. It is found by its identity."""

    @property
    def pattern(self) -> str:
        """The subject, with or without wildcards. It passed ``check_subject``, and stays."""


T = TypeVar("T", bound=Subscription)


class Removals:
    """Which patterns lost a subscription, of one table or of several. ``count``: how many there were so far."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[str] = deque(maxlen=MAX_REMOVALS)

    def add(self, pattern: str) -> None:
        """A subscription to ``pattern`` was removed."""
        self.count += 1
        self._last.append(pattern)

    def may_reach(self, subjects: Container[str], since: int) -> bool:
        """Whether one of ``subjects`` may have lost a subscription after the first ``since`` removals.

        True too often: for each pattern with wildcards, and for more removals than are remembered.
        """
        new = self.count - since
        if new > len(self._last):
            return True
        return any(pattern in subjects or has_wildcards(pattern) for pattern in islice(reversed(self._last), new))


class Subscriptions(Generic[T]):
    """A table of subscriptions."""

    def __init__(self, removals: Removals | None = None) -> None:
        """``removals``: keeps the pattern of each subscription that is removed. Tables may share it."""
        self._removals = removals or Removals()
        self._by_head: dict[str, dict[T, int]] = {}  # with the number of each, in the order in which they came
        self._number = 0
        self._found: dict[str, tuple[T, ...]] = {}
        self._remembered = 0

    def add(self, one: T) -> None:
        """Take a subscription that is not there."""
        self._number += 1
        self._by_head.setdefault(_head(one.pattern), {})[one] = self._number
        self._forget(one.pattern)

    def remove(self, one: T) -> None:
        """Leave out a subscription that is there."""
        head = _head(one.pattern)
        del self._by_head[head][one]
        if not self._by_head[head]:
            del self._by_head[head]
        self._forget(one.pattern)
        self._removals.add(one.pattern)

    def find(self, subject: str) -> tuple[T, ...]:
        """All that ``subject`` reaches, in the order in which they came."""
        found = self._found.get(subject)
        if found is None:
            tried = self._by_head.get(_head(subject), {}) | self._by_head.get("", {})
            numbered = sorted(tried.items(), key=itemgetter(1))
            found = tuple(one for one, _ in numbered if matches(one.pattern, subject))
            if self._remembered >= MAX_REMEMBERED:
                self._forget_all()
            self._found[subject] = found
            self._remembered += 1 + len(found)
        return found

    def _forget(self, pattern: str) -> None:
        """Forget what a subscription to ``pattern`` changes."""
        if has_wildcards(pattern):
            self._forget_all()
        else:
            found = self._found.pop(pattern, None)
            if found is not None:
                self._remembered -= 1 + len(found)

    def _forget_all(self) -> None:
        self._found.clear()
        self._remembered = 0


def _head(pattern: str) -> str:
    """The first two tokens of a subject or a pattern, or the only one. Empty where one of them is a wildcard."""
    head = pattern.split(".", 2)[:2]
    return "" if "*" in head or ">" in head else ".".join(head)
