"""What a stream takes of one that it copies: a filter, a start, transforms of subjects, a consumer.

Rules:

* It takes what matches the filter, or the source of one of the transforms, from the start on. The first transform that
  matches gives the copy its subject. A start at a sequence takes precedence over one at a time.
* A consumer that was made beforehand needs a name and a literal deliver subject. A filter or a start beside it is
  refused (FACTS.md F4.9, F4.11). With ``server_managed``, which only the draft knows, the name is enough, and they
  are allowed.
* Mirrors and sources are refused with codes of their own.

Not here: headers (``replication.copied``), and how a transform is read (``transform``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jsproto.errors import LocalProtocolError
from jsproto.grammar.config import StreamSource
from jsproto.grammar.sources import SOURCING_LEVEL
from jsproto.grammar.subjects import check_name, check_subject, matches, overlaps
from jsproto.grammar.times import parse_timestamp
from jsproto.server.store.context import ServerContext, hashed
from jsproto.server.store.refusals import refusal
from jsproto.server.store.transform import Transform

if TYPE_CHECKING:
    from jsproto.server.store.stream import Stored

MAX_SOURCES: Final = 1_000
"""Sources of one stream, because each is compared with all others. nats-server takes more."""


class _Codes(NamedTuple):
    """The codes of the errors about one kind of copy."""

    name: int
    filter_and_transforms: int
    overlap: int
    transform: int
    consumer: int


_OF_MIRRORS: Final = _Codes(10142, 10150, 10152, 10154, 10213)
_OF_SOURCES: Final = _Codes(10141, 10144, 10147, 10146, 10215)


class Taking:
    """What a mirror, or a stream with sources, takes of its origin, and under which subjects."""

    __slots__ = ("_first", "_since", "_transforms")

    def __init__(self, mirror: StreamSource, *, is_source: bool = False) -> None:
        """Read the field ``mirror`` of a stream's configuration, or one of its ``sources``.

        Raises:
            APIError: servers refuse it.
        """
        codes = _OF_SOURCES if is_source else _OF_MIRRORS
        try:
            check_name(mirror.get("name", ""))
        except LocalProtocolError:
            raise refusal(codes.name) from None
        _check_consumer(mirror, codes.consumer)
        asked, wanted = mirror.get("subject_transforms") or [], mirror.get("filter_subject")
        if asked and wanted:
            raise refusal(codes.filter_and_transforms)
        self._first = mirror.get("opt_start_seq") or 0
        self._since = 0
        start = mirror.get("opt_start_time")
        if start and not self._first:
            try:
                self._since = parse_timestamp(str(start))
            except ValueError as error:
                raise refusal(10025, str(error)) from None
        self._transforms = [Transform(one.get("src") or ">", one.get("dest") or "", codes.transform) for one in asked]
        for one, another in combinations(self._transforms, 2):
            if overlaps(one.source, another.source):
                raise refusal(codes.overlap)
        if not asked:
            self._transforms.append(Transform(wanted or ">", "", codes.transform))

    def subject_of(self, stored: Stored) -> bytes | None:
        """The subject under which the mirror has a message of its origin. None: the mirror does not take it."""
        if stored.seq < self._first or stored.timestamp < self._since:
            return None
        subject = stored.subject.decode("utf-8", "surrogateescape")
        for transform in self._transforms:
            if matches(transform.source, subject):
                return transform.of(subject).encode("utf-8", "surrogateescape")
        return None

    def renamed(self, stored: Stored) -> bytes:
        """The subject of a copy of ``stored``, which a consumer has chosen. Without a transform it stays."""
        subject = stored.subject.decode("utf-8", "surrogateescape")
        transform = next((one for one in self._transforms if matches(one.source, subject)), None)
        return stored.subject if transform is None else transform.of(subject).encode("utf-8", "surrogateescape")


def patterns_of(source: StreamSource) -> list[str]:
    """The subjects that a mirror or a source takes, empty for all of them."""
    transforms = source.get("subject_transforms") or [{"src": source.get("filter_subject") or ""}]
    return [one["src"] for one in transforms if one.get("src")]


def index_of(source: StreamSource) -> str:
    """What tells a source from the others of its stream: ``<stream> <subjects> <destinations>``.

    Of several transforms a form feed separates them. ``>`` stands for none. The first part also tells consumers and
    other servers apart.
    """
    external: dict[str, Any] | None = source.get("external")  # type: ignore[assignment]
    consumer: dict[str, Any] | None = source.get("consumer")  # type: ignore[assignment]
    transforms = source.get("subject_transforms") or [{"src": source.get("filter_subject") or ""}]
    subjects = "\f".join(one.get("src") or ">" for one in transforms)
    destinations = "\f".join(one.get("dest") or ">" for one in transforms)
    name = source["name"] + (f":{hashed(external.get('api') or '')}" if external else "")
    name += f":C={hashed(consumer['name'])}" if consumer else ""
    return f"{name} {subjects} {destinations}"


def known(source: StreamSource, context: ServerContext) -> StreamSource:
    """``source`` without what the release does not know: ``consumer``, which came with API level 4.

    Raises:
        APIError: servers refuse the field, or one in it, as unknown (10025). Before 2.12 they drop it.
    """
    consumer: dict[str, Any] | None = source.get("consumer")  # type: ignore[assignment]
    if consumer is None:
        return source
    if context.api_level < SOURCING_LEVEL:
        if not context.is_before_2_12:
            raise refusal(10025, 'json: unknown field "consumer"')
        less = source.copy()
        del less["consumer"]
        return less
    fields = {"name", "deliver_subject"} | ({"server_managed"} if context.dialect == "draft" else set())
    unknown = next((name for name in consumer if name not in fields), None)
    if unknown is not None:
        raise refusal(10025, f'json: unknown field "{unknown}"')
    return source


def check_sources(asked: Sequence[StreamSource]) -> None:
    """Check the field ``sources`` of a stream's configuration, of which there are at most ``MAX_SOURCES``.

    Raises:
        APIError: servers refuse a source, or two of them copy the same.
    """
    seen: set[str] = set()
    consumers: set[tuple[str, str]] = set()
    if len(asked) > MAX_SOURCES:
        raise refusal(10052, f"a stream has at most {MAX_SOURCES} sources")
    for source in asked:
        Taking(source, is_source=True)
        index = index_of(source)
        if index in seen:
            raise refusal(10140)
        seen.add(index)
        consumer = source.get("consumer")
        if consumer is not None:
            read = source["name"], consumer["name"]
            if read in consumers:
                raise refusal(10216)
            consumers.add(read)


def _check_consumer(source: StreamSource, is_bad: int) -> None:
    """Check the consumer that was made for ``source``, if there is one. ``is_bad``: the code of the error."""
    consumer: dict[str, Any] | None = source.get("consumer")  # type: ignore[assignment]
    if consumer is None:
        return
    try:
        check_name(consumer.get("name") or "")
        if not consumer.get("server_managed"):
            check_subject(consumer.get("deliver_subject") or "")
    except LocalProtocolError:
        raise refusal(is_bad) from None
    beside = any(source.get(name) for name in ("opt_start_seq", "opt_start_time", "filter_subject"))
    if beside and not consumer.get("server_managed"):
        raise refusal(is_bad)
