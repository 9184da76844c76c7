"""The subjects of a stream that a snapshot reads: their names, as the leader lists them, in groups for one request.

Rules:

* A list of more than 100,000 names comes in pages, sorted. One name of the last page is requested again with the next.
  If it is missing there, names have moved up, one may have been missed, and the list is read anew.
* A group has at most ``GROUP`` names, and at most ``GROUP_BYTES`` of JSON.

Not here: what is read of them (``snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from jsproto.client.read.multi import MAX_SUBJECTS
from jsproto.errors import RemoteProtocolError, SnapshotError
from jsproto.grammar.bodies import size_in_json
from jsproto.grammar.subjects import matches
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.read.reads import Reads
    from jsproto.grammar.config import StreamInfo

GROUP: Final = MAX_SUBJECTS - 1  # names; the witness of a snapshot is one more
GROUP_BYTES: Final = 256 * 1024  # of subjects in one request, as JSON; or half of what the server takes
LARGEST_IN_JSON: Final = 14  # bytes of one character, with a share of quotes and comma
TIMES_LISTED: Final = 10  # a list in pages that changes each time is read no oftener
_NOT_UTF_8: Final = "\ufffd"  # what servers list instead of bytes that are not UTF-8


class SubjectList:
    """The subjects that match what was asked for.

    Attributes, None before a list came:

    * ``listed_at``: the stream's last sequence before the first list.
    * ``created``: when the stream was created, as was said with the first list (nanoseconds since the epoch).
    * ``listed_on``: the server's clock then, in nanoseconds since the epoch.
    """

    __slots__ = ("_js", "_stream", "_timeout", "_wanted", "created", "listed_at", "listed_on")

    def __init__(self, js: Reads, stream: str, wanted: Sequence[str], *, timeout: float) -> None:
        """``wanted``: checked subjects, wildcards allowed. ``timeout``: seconds for each request."""
        self._js = js
        self._stream = stream
        self._wanted = wanted
        self._timeout = timeout
        self.listed_at: int | None = None
        self.created: int | None = None
        self.listed_on: int | None = None

    @property
    def fits_one_request(self) -> bool:
        """Whether one request can ask for what is wanted, without a list."""
        wanted, most = self._wanted, self._group_bytes
        if len(wanted) > MAX_SUBJECTS:
            return False
        return LARGEST_IN_JSON * sum(map(len, wanted)) <= most or sum(map(size_in_json, wanted)) <= most

    def names(self) -> Generator[Ticket[Any], Any, list[str]]:
        """A script: the subjects that match, and those that were wanted by name, each once.

        Raises:
            SnapshotError: the list changes faster than it can be read, or a name is not UTF-8.
            RemoteProtocolError: the list's total is no number.
        """
        names: dict[str, None] = {}
        for pattern in self._wanted:
            if is_literal(pattern):
                names[pattern] = None
            else:
                names.update(dict.fromkeys((yield from self._listed(pattern, by_name=True))))
        return [*names]

    def counts(self) -> Generator[Ticket[Any], Any, dict[str, int]]:
        """A script: the subjects that match and exist, with the number of their messages.

        Raises:
            SnapshotError: the list changes faster than it can be read.
            RemoteProtocolError: the list's total is no number.
        """
        counts: dict[str, int] = {}
        for pattern in self._wanted:
            counts |= yield from self._listed(pattern, by_name=False)
        return counts

    def in_groups(self, names: Sequence[str]) -> list[Sequence[str]]:
        """``names``, in their order, in groups that one request asks for."""
        groups: list[Sequence[str]] = []
        group: list[str] = []
        most = room = self._group_bytes
        for name in names:
            size = size_in_json(name) + 1
            room -= size
            if group and (room < 0 or len(group) == GROUP):
                groups.append(group)
                group, room = [], most - size
            group.append(name)
        return [*groups, group] if group else groups

    @property
    def _group_bytes(self) -> int:
        return min(GROUP_BYTES, self._js.session.max_payload // 2)

    def _listed(self, pattern: str, *, by_name: bool) -> Generator[Ticket[Any], Any, dict[str, int]]:
        """The subjects that match ``pattern``, sorted, and the number of their messages.

        ``by_name``: each of them will be asked for by its name.
        """
        info: StreamInfo
        for _ in range(TIMES_LISTED):
            info = yield self._ask(pattern, 0)
            if self.listed_at is None:
                self.listed_at, self.created, self.listed_on = info.state.last_seq, info.created, info.ts
            names = dict(info.state.subjects or {})
            total = self._total(info, len(names))
            if by_name:
                self._check_names(names)
            whole = True
            last, offset = max(names, default=""), len(names)
            while whole and offset < total:
                info = yield self._ask(pattern, offset - 1)
                page = info.state.subjects or {}
                if by_name:
                    self._check_names(page)
                whole = bool(page) and min(page) <= last < max(page)
                names |= page
                offset += len(page) - 1
                last, total = max(page, default=last), self._total(info, total)
            if whole:
                return {name: names[name] for name in sorted(names)}
        raise SnapshotError("the list of subjects changes faster than it can be read", self.listed_at or 0)

    def _ask(self, pattern: str, offset: int) -> Ticket[StreamInfo]:
        return self._js.subjects(self._stream, pattern, offset, now=self._js.session.now, timeout=self._timeout)

    def _total(self, info: StreamInfo, names: int) -> int:
        """How many subjects match, as the leader says. RemoteProtocolError when it is no number."""
        total = info.extra.get("total", names)
        if type(total) is not int:
            raise RemoteProtocolError(f"the total of a list of subjects is no integer, but {total!r:.100}")
        return total

    def _check_names(self, names: Iterable[str]) -> None:
        """SnapshotError for a subject that cannot be asked for by the name that it is listed under."""
        for name in names:
            if _NOT_UTF_8 in name:
                raise SnapshotError(
                    f"{name} is not UTF-8: such a subject cannot be asked for by name, which one answer has no need of",
                    self.listed_at or 0,
                )


def is_literal(subject: str) -> bool:
    """Whether ``subject`` has no wildcard."""
    return "*" not in subject and ">" not in subject


def matcher(subjects: Sequence[str]) -> Callable[[str], bool]:
    """A function: whether a subject is one of ``subjects``, or matches one."""
    if is_literal("".join(subjects)):
        return frozenset(subjects).__contains__
    names = {subject for subject in subjects if is_literal(subject)}
    patterns = [subject for subject in subjects if not is_literal(subject)]
    if ">" in patterns:
        return lambda subject: True
    return lambda subject: subject in names or any(matches(pattern, subject) for pattern in patterns)
