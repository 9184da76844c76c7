"""The options of the verbs of objects: what each means, its default and its check (``grammar.options``).

Not here: what a bucket is like (``grammar.object_store_config``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from jsproto.errors import LocalProtocolError
from jsproto.grammar.bodies import MAX_UINT64
from jsproto.grammar.object_info import DEFAULT_CHUNK
from jsproto.grammar.options import Option, of_count, of_flag, of_range, of_text, of_time
from jsproto.grammar.times import Duration

RESUME_FOR = 60.0  # seconds: a server is restarted, or a leader elected, in less


def _of_headers(name: str, value: Any) -> dict[str, list[str]]:
    if not isinstance(value, Mapping):
        raise LocalProtocolError(f"{name} is a mapping of names to values, not {value!r:.100}")
    return {
        of_text(f"a name in {name}", key): [of_text(f"a value in {name}", each) for each in _several(values)]
        for key, values in value.items()
    }


def _several(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list | tuple) else [values]


def _of_metadata(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise LocalProtocolError(f"{name} is a mapping of names to texts, not {value!r:.100}")
    return {of_text(f"a name in {name}", key): of_text(f"a value in {name}", each) for key, each in value.items()}


class MetaOptions(TypedDict, total=False):
    """What a description says, besides the name and the content.

    Attributes:
        description: a text for people.
        headers: by name, a value or several.
        metadata: by name, a value. nats-py drops it when it changes a description.
    """

    description: Annotated[str | None, Option(None, of_text)]
    headers: Annotated[Mapping[str, str | Sequence[str]] | None, Option(None, _of_headers)]
    metadata: Annotated[Mapping[str, str] | None, Option(None, _of_metadata)]


class PutOptions(MetaOptions, total=False):
    """How an object is put.

    Attributes:
        chunk_size: bytes of a chunk, less than a message may have.
        create: only if there is no object of this name.
        if_revision: only if the description of the present object has this revision. 0: if the name was never used.
        resume_for: seconds, or a timedelta, for which a put that was interrupted is tried again.
    """

    chunk_size: Annotated[int, Option(DEFAULT_CHUNK, of_count)]
    create: Annotated[bool, Option(False, of_flag)]
    if_revision: Annotated[int | None, Option(None, of_range(0, MAX_UINT64))]
    resume_for: Annotated[Duration, Option(RESUME_FOR, of_time)]


class GetOptions(TypedDict, total=False):
    """Which bytes of an object to get. A part has no digest: its chunks are checked by their number and lengths.

    Attributes:
        start: the first byte.
        end: the byte after the last one. None: the end of the object.
    """

    start: Annotated[int, Option(0, of_range(0, MAX_UINT64))]
    end: Annotated[int | None, Option(None, of_range(0, MAX_UINT64))]


class ObjectWatchOptions(TypedDict, total=False):
    """What a watcher sees.

    Attributes:
        updates_only: neither present objects nor their end.
        ignore_deletes: objects alone, without markers.
    """

    updates_only: Annotated[bool, Option(False, of_flag)]
    ignore_deletes: Annotated[bool, Option(False, of_flag)]
