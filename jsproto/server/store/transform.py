"""How one subject becomes another: in copies, on the way into a stream, and when a message is published again.

Rules: ``$1``, or ``{{wildcard(1)}}``, in the destination is the first ``*`` of the source, and so on. A ``>`` at the
end takes the rest. An empty destination changes nothing.

Not here: transforms that do more than place wildcards, such as ``{{partition(...)}}``, which are refused.
"""

from __future__ import annotations

import re
from typing import Final

from jsproto.errors import BadSubjectError
from jsproto.grammar.subjects import check_subject, matches
from jsproto.server.store.refusals import refusal

_PLACE: Final = re.compile(r"\$(\d+)|\{\{[wW]ildcard\((\d+)\)\}\}")


class Transform:
    """One subject that becomes another: ``$1``, or ``{{wildcard(1)}}``, is the first ``*`` of the source, and so on."""

    __slots__ = ("_parts", "source")

    def __init__(self, source: str, destination: str, is_bad: int) -> None:
        """``is_bad``: the code of the error for a transform that is none."""
        self.source = source
        self._parts: list[str | int] | None = None  # of the destination: tokens, and places in the subject
        if not destination:
            return
        try:
            for subject in (source, destination):
                check_subject(subject, wildcards=True)
        except BadSubjectError as error:
            raise refusal(is_bad, str(error)) from None
        tokens, self._parts = source.split("."), []
        stars = [place for place, token in enumerate(tokens) if token == "*"]
        to = destination.split(".")
        if "*" in to or (to[-1] == ">") != (tokens[-1] == ">"):
            raise refusal(is_bad, "invalid mapping destination")
        for token in to[:-1] if to[-1] == ">" else to:
            placed = _PLACE.fullmatch(token)
            if placed is None:
                if token.startswith("{{"):
                    raise refusal(is_bad, f"unknown function in transform: {token}")
                self._parts.append(token)
                continue
            number = int(placed[1] or placed[2])
            if not 0 < number <= len(stars):
                raise refusal(is_bad, f"wildcard index out of range: {token}")
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

    def renamed(self, subject: bytes) -> bytes | None:
        """The transformed ``subject``. None: it does not match the source."""
        text = subject.decode("utf-8", "surrogateescape")
        return self.of(text).encode("utf-8", "surrogateescape") if matches(self.source, text) else None
