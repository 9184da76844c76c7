"""What a mirror takes of the stream that it mirrors: a filter, a start, transforms of subjects.

Rules: a mirror takes what matches its filter, or the source of one of its transforms, from its start on. The first
transform that matches gives the copy its subject. A start at a sequence takes precedence over one at a time.

Not here: headers (``replication.sourcing``), and transforms that do more than place wildcards, such as
``{{partition(...)}}``, which are refused.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Final

from jsproto.errors import BadSubjectError
from jsproto.grammar.config import StreamSource
from jsproto.grammar.subjects import check_subject, matches, overlaps
from jsproto.grammar.times import parse_timestamp
from jsproto.server.store.refusals import refusal

if TYPE_CHECKING:
    from jsproto.server.store.stream import Stored

_PLACE: Final = re.compile(r"\$(\d+)|\{\{[wW]ildcard\((\d+)\)\}\}")


class _Transform:
    """One subject that becomes another: ``$1``, or ``{{wildcard(1)}}``, is the first ``*`` of the source, and so on."""

    __slots__ = ("_parts", "source")

    def __init__(self, source: str, destination: str) -> None:
        self.source = source
        self._parts: list[str | int] | None = None  # of the destination: tokens, and places in the subject
        if not destination:
            return
        try:
            for subject in (source, destination):
                check_subject(subject, wildcards=True)
        except BadSubjectError as error:
            raise refusal(10154, str(error)) from None
        tokens, self._parts = source.split("."), []
        stars = [place for place, token in enumerate(tokens) if token == "*"]
        to = destination.split(".")
        if "*" in to or (to[-1] == ">") != (tokens[-1] == ">"):
            raise refusal(10154, "invalid mapping destination")
        for token in to[:-1] if to[-1] == ">" else to:
            placed = _PLACE.fullmatch(token)
            if placed is None:
                if token.startswith("{{"):
                    raise refusal(10154, f"unknown function in transform: {token}")
                self._parts.append(token)
                continue
            number = int(placed[1] or placed[2])
            if not 0 < number <= len(stars):
                raise refusal(10154, f"wildcard index out of range: {token}")
            self._parts.append(stars[number - 1])

    def of(self, subject: str) -> str:
        """The transformed ``subject``, which matches the source."""
        if self._parts is None:
            return subject
        tokens = subject.split(".")
        named = [tokens[part] if isinstance(part, int) else part for part in self._parts]
        wanted = self.source.split(".")
        rest = tokens[len(wanted) - 1 :] if wanted[-1] == ">" else []
        return ".".join(named + rest)


class Taking:
    """What a mirror takes of its origin, and under which subjects."""

    __slots__ = ("_first", "_since", "_transforms")

    def __init__(self, mirror: StreamSource) -> None:
        """Read the field ``mirror`` of a stream's configuration.

        Raises:
            APIError: servers refuse it.
        """
        asked, wanted = mirror.get("subject_transforms") or [], mirror.get("filter_subject")
        if asked and wanted:
            raise refusal(10150)
        self._first = mirror.get("opt_start_seq") or 0
        self._since = 0
        start = mirror.get("opt_start_time")
        if start and not self._first:
            try:
                self._since = parse_timestamp(start)
            except ValueError as error:
                raise refusal(10025, str(error)) from None
        self._transforms = [_Transform(one.get("src") or ">", one.get("dest") or "") for one in asked]
        for one, another in combinations(self._transforms, 2):
            if overlaps(one.source, another.source):
                raise refusal(10152)
        if not asked:
            self._transforms.append(_Transform(wanted or ">", ""))

    def subject_of(self, stored: Stored) -> bytes | None:
        """The subject under which the mirror has a message of its origin. None: the mirror does not take it."""
        if stored.seq < self._first or stored.timestamp < self._since:
            return None
        subject = stored.subject.decode("utf-8", "surrogateescape")
        for transform in self._transforms:
            if matches(transform.source, subject):
                return transform.of(subject).encode("utf-8", "surrogateescape")
        return None
