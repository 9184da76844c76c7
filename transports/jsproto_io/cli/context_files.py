"""Contexts of the NATS command line as files: they are written, selected, listed and removed.

Rules
 * Only their owner can read what is written here, as with ``nats``.
 * A file is replaced as a whole, after it was found usable. Fields that are unknown here stay in it.
 * Paths are written in full, so that a context works from every folder.

Not here: what fields mean (``jsproto_io.contexts``).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jsproto.client.connection.connect_options import connect_options
from jsproto.errors import ContextNotFoundError, LocalProtocolError, SettingsError
from jsproto_io.cli.records import BadUsage
from jsproto_io.contexts import find_file, folder, load, names, selected

_PATHS: Final = ("creds", "nkey", "cert", "key", "ca")


class Listed(NamedTuple):
    """A context in a list. ``url``, without passwords, and ``description``: None where the file has no usable one."""

    name: str
    selected: bool
    url: str | None
    description: str | None


def save(name: str, fields: dict[str, Any], base: str | None = None) -> Path:
    """Write a context. ``fields`` go before those that it has, or else before those of the context ``base``.

    Returns:
        The path of its file.

    Raises:
        BadUsage: no context can have the name, or the fields cannot stand together.
        ContextNotFoundError: there is no context ``base``.
        OSError: the file cannot be written.
    """
    path = _path_of(name)
    before = _document(path) if path.exists() or base is None else _document(find_file(base)[1], base)
    document = {**before, **{field: _written(field, value) for field, value in fields.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = folder() / f".{name}.{os.getpid()}.json"  # outside the folder of contexts, which is listed
    try:
        _write(draft, json.dumps(document, indent=2) + "\n")
        load(str(draft))
        os.replace(draft, path)
    except SettingsError as error:
        raise BadUsage(str(error).replace(str(draft), name)) from None
    finally:
        draft.unlink(missing_ok=True)
    return path


def select(name: str) -> None:
    """Make a context the one that is used where none is named.

    Raises:
        ContextNotFoundError: there is none of this name.
        OSError: the file that says so cannot be written.
    """
    if not _path_of(name).exists():
        raise _missing(name)
    draft = folder() / f".context.{os.getpid()}.txt"
    try:
        _write(draft, name)
        os.replace(draft, folder() / "context.txt")
    finally:
        draft.unlink(missing_ok=True)


def remove(name: str) -> None:
    """Remove a context, and the selection if it was selected.

    Raises:
        ContextNotFoundError: there is none of this name.
        OSError: its file cannot be removed.
    """
    was_selected = selected() == name
    try:
        _path_of(name).unlink()
    except FileNotFoundError:
        raise _missing(name) from None
    if was_selected:
        (folder() / "context.txt").unlink()


def listed() -> list[Listed]:
    """All contexts, sorted by name."""
    chosen = selected()
    found = []
    for name in names():
        document: dict[str, Any] = {}
        with suppress(BadUsage):
            document = _document(_path_of(name))
        url = None
        with suppress(LocalProtocolError, KeyError):
            url = ", ".join(address.url for address in connect_options(document["url"]).servers)
        found.append(Listed(name, name == chosen, url, document.get("description") or None))
    return found


def _missing(name: str) -> ContextNotFoundError:
    return ContextNotFoundError(f"there is no context {name}; there are: {', '.join(names()) or 'none at all'}")


def _path_of(name: str) -> Path:
    """The file of a context of this name. BadUsage: none can have it."""
    if name.startswith(".") or any(each in name for each in ("/", "\\", "..", "\0")) or not name.strip():
        raise BadUsage(f"no context can have the name {name!r}")
    return folder() / "context" / f"{name}.json"


def _document(path: Path, name: str | None = None) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        if name is None:
            return {}
        raise ContextNotFoundError(f"there is no context {name}") from None
    except (OSError, ValueError):
        raise BadUsage(f"{path} is no context that can be read") from None
    if not isinstance(document, dict):
        raise BadUsage(f"{path} is no context that can be read")
    return document


def _written(field: str, value: Any) -> Any:
    """A path in full. What refers to something else, or is expanded when it is read, stays as it is."""
    is_path = field in _PATHS and not value.startswith(("~", "$")) and ":" not in value
    return os.path.abspath(value) if is_path else value


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
