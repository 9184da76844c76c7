"""The keys that a watcher has shown, compared with those that the bucket has.

Rules:

* A key is known from its value on, until its marker.
* A list of the stream's subjects shows one moment. A key that is known with a revision of then, or before, and is
  missing in the list, is gone.
* What comes later and is as old as the list is left out where the list does not have its key.

Not here: when to compare, and asking for the list (``watch``).
"""

from __future__ import annotations

from collections.abc import Collection


class KnownKeys:
    """The subjects of keys that have a value, as far as a watcher has shown it."""

    __slots__ = ("_known", "_listed", "_listed_at")

    def __init__(self) -> None:
        self._known: dict[str, int] = {}  # revisions, by subject
        self._listed: Collection[str] = ()
        self._listed_at = 0  # the stream's last sequence when it was listed

    def takes(self, subject: str, seq: int, has_value: bool) -> bool:
        """A message is to be shown. Returns False where it is of a key that is known to be gone."""
        if seq <= self._listed_at:
            if subject not in self._listed:
                return False
        else:
            self._listed, self._listed_at = (), 0  # all that comes is newer
        if has_value:
            self._known[subject] = seq
        else:
            self._known.pop(subject, None)
        return True

    def compare(self, listed: Collection[str], listed_at: int) -> list[str]:
        """The subjects that the stream had at this sequence. Returns those that are gone."""
        self._listed, self._listed_at = listed, listed_at
        gone = [subject for subject, seq in self._known.items() if seq <= listed_at and subject not in listed]
        for subject in gone:
            del self._known[subject]
        return gone

    def forget_revisions(self) -> None:
        """Sequences mean other messages now."""
        self._known = dict.fromkeys(self._known, 0)
        self._listed, self._listed_at = (), 0
