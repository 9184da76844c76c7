"""A list of the JetStream API, page by page.

Rules:

* A page is requested when the reader has taken all before it. One request is under way at a time.
* The list ends where the server's total is reached, or with an empty page. A server without an end is not followed.
* After an error the same page may be requested again. What was received can still be taken.
* Entries that the server could not show count as shown: ``missing`` has their names.
* A list has no cursor. While streams or consumers come and go, an entry may be left out, or come twice.

Not here: what the entries are (``streams``, ``consume.consumers``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from jsproto.client.connection.session import Session
from jsproto.errors import RemoteProtocolError
from jsproto.ticket import Ticket

T = TypeVar("T")

MAX_PAGES: Final = 10_000  # of a list, because a server could send pages without an end


class Page(NamedTuple):
    """One page: its entries, how many the list has, and the names of those that the server could not show."""

    entries: list[Any]
    total: int
    missing: list[str]


Ask: TypeAlias = Callable[[int, float], Ticket[Page]]
"""Requests the page that begins at an offset, at a time in seconds."""


class Pages(Generic[T]):
    """One list, as far as it was taken.

    Attributes: ``total`` (the server's entries, None before the first page), ``shown`` (those shown so far),
    ``missing`` (the names of entries that it left out, because their leaders were silent).
    """

    __slots__ = ("_ask", "_asked", "_ended", "_pages", "_received", "_session", "missing", "shown", "total")

    def __init__(self, session: Session, ask: Ask) -> None:
        self._session = session
        self._ask = ask
        self._asked: Ticket[None] | None = None
        self._pages = 0
        self._ended = False
        self._received: list[T] = []
        self.shown = 0
        self.total: int | None = None
        self.missing: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether the last entry was taken."""
        return self._ended and not self._received

    def take(self) -> list[T]:
        """The entries that were received and not taken."""
        taken, self._received = self._received, []
        return taken

    def readable(self, now: float) -> Ticket[None]:
        """Completed when the next page is here. It is requested, unless it is under way.

        The ticket fails with the error of the request.

        Raises: as ``Session.publish``.
        """
        if self._asked is None:
            asked = self._ask(self.shown, now)
            self._asked = self._session.run(self._receive(asked))
        return self._asked

    def whole(self, now: float) -> Generator[Ticket[Any], Any, list[T]]:
        """A script: all entries that are left."""
        found: list[T] = []
        while not self.finished:
            yield self.readable(now)
            found += self.take()
        return found

    def _receive(self, asked: Ticket[Page]) -> Generator[Ticket[Any], Any, None]:
        try:
            page: Page = yield asked
        finally:
            self._asked = None
        self._received += page.entries
        self.missing += page.missing
        self.total = page.total
        shown = len(page.entries) + len(page.missing)
        self.shown += shown
        self._pages += 1
        self._ended = not shown or self.shown >= page.total or self._pages == MAX_PAGES


def page_of(field: str, build: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Page]:
    """What reads a page from an answer whose entries are in ``field``. ``build`` makes an entry.

    It raises RemoteProtocolError for an answer without the list or its total.
    """

    def read(body: dict[str, Any]) -> Page:
        entries, total = body.get(field) or [], body.get("total")
        missing, offline = body.get("missing") or [], body.get("offline") or {}
        if not isinstance(entries, list) or type(total) is not int:
            raise RemoteProtocolError(f"a list of {field} without its {field}, or their total")
        if not isinstance(missing, list) or not isinstance(offline, dict):
            raise RemoteProtocolError(f"a list of {field} that does not say which are missing")
        return Page([build(entry) for entry in entries], total, sorted({*map(name_of, missing), *offline}))

    return read


def name_of(value: Any) -> str:
    """A name as a list has it. RemoteProtocolError when it is no string."""
    if type(value) is not str:
        raise RemoteProtocolError(f"a name in a list is a string, not {value!r:.100}")
    return value
