"""The types of fields in JSON documents: what configurations and infos of all kinds are read and written with.

Rules: a reader checks one value and returns it, perhaps converted. Known fields have the right type or the whole
document is refused. Unknown ones pass and are kept. Null means unset. Values stay as they were made. A field that
differs from its JSON has a writer as well, which takes what callers give.

Not here: the documents themselves (``config``, ``consumer``), text to JSON (``bodies``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from jsproto.errors import MAX_QUOTED, LocalProtocolError, RemoteProtocolError
from jsproto.grammar.bodies import loads, shown
from jsproto.grammar.times import Seconds, format_timestamp, parse_timestamp

Json: TypeAlias = Mapping[str, Any]
"""A JSON object, decoded."""

NEVER: Final = "0001-01-01T00:00:00Z"
"""Go's zero time, which stands for "never" or "not set"."""

Reader: TypeAlias = Callable[[Any, str], Any]
"""Checks one value and returns it, perhaps converted. ValueError with the path when it has the wrong type."""

Writer: TypeAlias = Reader
"""The inverse of a reader: from what callers give to JSON. It may raise LocalProtocolError as well."""

_NO_WRITERS: Final[Mapping[str, Writer]] = {}


def as_text(value: Any, path: str) -> str:
    """A string."""
    if type(value) is not str:
        raise ValueError(f"{path} must be a string, not {shown(value)}")
    return value


def as_flag(value: Any, path: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{path} must be true or false, not {shown(value)}")
    return value


def as_integer(value: Any, path: str) -> int:
    """A signed integer of 64 bits."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"{path} must be an integer of 64 bits, not {shown(value)}")
    return value


def as_count(value: Any, path: str) -> int:
    """An unsigned integer of 64 bits."""
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError(f"{path} must be an unsigned integer of 64 bits, not {shown(value)}")
    return value


def as_size(value: Any, path: str) -> int:
    """A number of bytes that one message may have."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{path} must be a number of bytes, not {shown(value)}")
    return value


def as_moment(value: Any, path: str) -> int | None:
    """Nanoseconds since the epoch, None for Go's zero time, which stands for "never"."""
    text = as_text(value, path)
    try:
        moment = parse_timestamp(text)
        # Formatted at once, so that every moment that was read can be written.
        return None if format_timestamp(moment) == NEVER else moment
    except (ValueError, LocalProtocolError) as error:
        raise ValueError(f"{path}: {error}") from None


def as_anything(value: Any, path: str) -> Any:
    """Whatever it is."""
    return value


def list_of(item: Reader) -> Reader:
    """A list whose members ``item`` reads."""

    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{path} must be a list, not {shown(value)}")
        return [item(member, f"{path}[{index}]") for index, member in enumerate(value)]

    return read


def map_of(item: Reader) -> Reader:
    """An object of any keys whose values ``item`` reads."""

    def read(value: Any, path: str) -> dict[str, Any]:
        return {as_text(key, path): item(member, f"{path}.{key}") for key, member in as_object(value, path).items()}

    return read


def record_of(fields: Mapping[str, Reader]) -> Reader:
    """An object with known fields, whose unknown ones pass."""

    def read(value: Any, path: str) -> dict[str, Any]:
        known, extra = _split(as_object(value, path), fields, f"{path}.")
        return known | extra

    return read


def as_object(value: Any, path: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} must be an object, not {shown(value)}")
    return value


def _split(body: Json, fields: Mapping[str, Reader], path: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The known fields, checked and freed of nulls, and the others."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in body.items():
        reader = fields.get(name)
        if reader is None:
            extra[name] = value
        elif value is not None:
            known[name] = reader(value, f"{path}{name}")
    return known, extra


def read_fields(document: bytes | Json, fields: Mapping[str, Reader], what: str) -> dict[str, Any]:
    """The fields of a document that came from the peer, ``extra`` among them."""
    raw = document if isinstance(document, bytes) else b""
    try:
        known, extra = _split(loads(raw) if raw else as_object(document, what), fields)
    except ValueError as error:
        raise RemoteProtocolError(f"{what}: {error}", raw) from None
    known["extra"] = extra
    return known


def write_fields(
    model: Any, fields: Mapping[str, Reader], extra: Json, writers: Mapping[str, Writer] = _NO_WRITERS
) -> dict[str, Any]:
    """The fields that are set, in the order of the wire, then the unknown ones.

    LocalProtocolError when a writer refuses what a caller put into a list or an object of the model.
    """
    body: dict[str, Any] = {}
    for name, reader in fields.items():
        value = getattr(model, name)
        if value is not None and name in writers:
            body[name] = writers[name](value, name)
        elif value is not None:
            body[name] = format_timestamp(value) if reader is as_moment else value
    return body | {name: value for name, value in extra.items() if name not in fields}


def taken(name: str, value: Any, fields: Mapping[str, Reader], writers: Mapping[str, Writer]) -> Any:
    """What a caller gives for a field that has a writer, as it would be read back: a duration is ``Seconds``.

    LocalProtocolError, with the name, when it has the wrong type or is out of range. None stays None.
    """
    try:
        return None if value is None else fields[name](writers[name](value, name), name)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from None


def word_of(allowed: Sequence[str]) -> Writer:
    """A field whose values are ``allowed``. It is for what callers give: a newer server may say another one."""

    def take(value: Any, path: str) -> str:
        if type(value) is not str or value not in allowed:
            *others, last = map(repr, allowed)
            raise ValueError(f"{path} is {', '.join(others)} or {last}, not {shown(value)}{nearest(value, allowed)}")
        return value

    return take


def checked_word(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Check an option whose values are ``allowed``. LocalProtocolError, with the nearest of them, for another one."""
    if value not in allowed:
        try:
            word_of(allowed)(value, name)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from None


def check_count(name: str, value: object) -> None:
    """Check an option that says how many, or how many bytes. LocalProtocolError unless it is a whole number above 0."""
    if type(value) is not int or value < 1:
        raise LocalProtocolError(f"{name} is a whole number of 1 or more, not {value!r:.100}")


def check_words(model: Any, words: Mapping[str, Writer], kind: str) -> None:
    """Check the fields of a configuration that have a few values. LocalProtocolError as of ``checked_word``."""
    for name, take in words.items():
        value = getattr(model, name)
        try:
            if value is not None:
                take(value, name)
        except ValueError as error:
            raise LocalProtocolError(f"{kind} option {error}") from None


def nearest(value: Any, allowed: Collection[str]) -> str:
    """A question that offers the nearest of ``allowed``, empty where all are far."""
    if not isinstance(value, str):
        return ""
    by_lower = {word.lower().replace("-", "_"): word for word in allowed}
    near = get_close_matches(value[:MAX_QUOTED].lower().replace("-", "_"), by_lower, 1)
    return f": did you mean {by_lower[near[0]]!r}?" if near else ""


def as_seconds(value: Any, path: str) -> Seconds:
    """A duration on the wire, which is nanoseconds. Its writer is ``times.nanoseconds``."""
    return Seconds.from_nanoseconds(as_integer(value, path))


def unknown_fields(value: Any, fields: Mapping[str, Reader]) -> dict[str, Any]:
    """What a caller gives as ``extra``: fields that have a name here are refused."""
    extra = as_record(value, "extra")
    known = sorted(extra.keys() & fields.keys())
    if known:
        raise ValueError(f"extra is for unknown fields, not for {', '.join(known)}")
    return extra


def as_texts(value: Any, path: str) -> list[str]:
    """A list of strings."""
    texts: list[str] = list_of(as_text)(value, path)
    return texts


def as_record(value: Any, path: str) -> dict[str, Any]:
    """An object of whatever fields."""
    record: dict[str, Any] = map_of(as_anything)(value, path)
    return record


def as_records(value: Any, path: str) -> list[dict[str, Any]]:
    """A list of objects of whatever fields."""
    records: list[dict[str, Any]] = list_of(as_record)(value, path)
    return records


def cluster_of(active: Reader) -> Reader:
    """Who has the replicas of a stream or consumer. ``active`` reads how long ago each was heard of."""
    return record_of({"replicas": list_of(record_of({"active": active}))})


_BY_TYPE: Final[Mapping[str, Reader]] = {
    "str": as_text, "bool": as_flag, "float": as_seconds, "list[str]": as_texts, "dict[str, str]": map_of(as_text),
}  # fmt: skip


def readers_of(model: Any, integer: Reader = as_integer, **others: Reader) -> dict[str, Reader]:
    """The readers of a dataclass, by the types of its fields: ``others`` where JSON has it otherwise.

    ``integer``: of an int. What has a class of its own, or any fields, is an object, or a list of them.
    """
    readers: dict[str, Reader] = {}
    for each in fields(model):
        kind = str(each.type).removesuffix(" | None")
        known = integer if kind == "int" else _BY_TYPE.get(kind, as_records if kind.startswith("list") else as_record)
        readers[each.name] = others.get(each.name, known)
    del readers["extra"]
    return readers
