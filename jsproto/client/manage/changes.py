"""Requests about streams that take several steps: fetch, change, send back.

Rules: those of ``client.scripts``.

Not here: what a configuration may hold (``grammar.config``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from jsproto.api_errors import InvalidJSONError
from jsproto.errors import LocalProtocolError, RemoteProtocolError, UnsupportedByServerError
from jsproto.ticket import Ticket

if TYPE_CHECKING:
    from jsproto.client.manage.streams import Streams
    from jsproto.grammar.config import ServerInfo, StreamConfig, StreamInfo


FOR_GOOD: Final = ("sealed", "deny_delete", "deny_purge", "allow_msg_ttl")
"""Fields that no update can take back once they are set."""


def change_stream(
    js: Streams, name: str, changes: dict[str, Any], now: float, timeout: float | None, pedantic: bool,
    level: int | None,
) -> Generator[Ticket[Any], Any, StreamInfo]:  # fmt: skip
    """Fetch a stream's configuration, change the named fields and send all of it back.

    All of it, because the server takes a field that an update leaves out for a change (FACTS.md F6.2). Two answers are
    needed for a change that is final: one alone may be wrong, such as that of an old leader.

    Raises, with nothing sent but the question:
        LocalProtocolError: the server would refuse the update.
        RemoteProtocolError: two answers differ about something that no update can take back.
    """
    info: StreamInfo = yield js.stream_info(name, now=now, timeout=timeout)
    lasting = [field for field in FOR_GOOD if field not in changes and getattr(info.config, field)]
    if lasting:
        again: StreamInfo = yield js.stream_info(name, now=now, timeout=timeout)
        if doubtful := [field for field in lasting if not getattr(again.config, field)]:
            raise RemoteProtocolError(
                f"stream {name}: {', '.join(doubtful)} is set in one of two answers only: try again"
            )
    config: StreamConfig = info.config.updated(**changes)
    if _persists_async(config) != _persists_async(info.config):
        raise LocalProtocolError(
            f"the persist_mode of a stream cannot be changed: it is {info.config.persist_mode or 'default'!r}"
        )
    updated: StreamInfo = yield js.update_stream(
        config, now=now, pedantic=pedantic, required_api_level=level, timeout=timeout
    )
    return updated


def explain_server_managed(
    asked: Ticket[StreamInfo], server: ServerInfo | None
) -> Generator[Ticket[Any], Any, StreamInfo]:
    """The answer to a stream configuration with ``server_managed``, which no release knows (FACTS.md F4.11).

    Raises:
        UnsupportedByServerError: the server does not know the field.
    """
    try:
        info: StreamInfo = yield asked
    except InvalidJSONError as error:
        if "server_managed" not in error.description:
            raise
        raise UnsupportedByServerError(
            "server_managed", "newer than 2.15", None if server is None else server.version,
            "create the consumer with sourcing_consumer, and give its name and deliver_subject",
        ) from error  # fmt: skip
    return info


def _persists_async(config: StreamConfig) -> bool:
    """Whether its messages are acknowledged before they are on disk. Unset means no, as ``default`` does."""
    return config.persist_mode == "async"
