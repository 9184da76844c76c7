"""Streams and the account in the JetStream API: create, change, look up, list, empty, delete.

Rules:

* Those of ``jetstream``.
* The text of an error names the stream, or the message, that was asked about.
* A message that is not there is a MessageNotFoundError, whichever way the server says it (FACTS.md F6.11).

Not here: requests that take several steps (``changes``), how a list is read (``pages``), consumers
(``consume.consumers``), the subjects of a stream (``read.reads``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from jsproto.api_errors import SequenceNotFoundError, StreamMsgDeleteFailedError
from jsproto.client.connection.questions import Api, succeeded
from jsproto.client.manage.changes import change_stream, explain_server_managed
from jsproto.client.manage.pages import Pages, name_of, page_of
from jsproto.errors import LocalProtocolError, MessageNotFoundError, NoMatchingStreamError, UnsupportedByServerError
from jsproto.grammar.account import AccountInfo
from jsproto.grammar.bodies import MAX_UINT64, dumps, uint64
from jsproto.grammar.config import SourceConsumer, StreamConfig, StreamInfo, of_stream_config
from jsproto.grammar.sources import SOURCING_SINCE
from jsproto.grammar.stored import check_seq
from jsproto.grammar.subjects import check_subject
from jsproto.ticket import Ticket
from jsproto.wire.limits import HARD_MAX_PAYLOAD

FEATURES: Final = {
    ("allow_msg_ttl", True): ("2.11", "a time to live of messages"),
    ("allow_msg_counter", True): ("2.12", "counters"),
    ("allow_msg_schedules", True): ("2.12", "message schedules"),
    ("allow_atomic", True): ("2.12", "atomic batches"),
    ("allow_batched", True): ("2.14", "fast ingest"),
    ("persist_mode", "async"): ("2.12", "asynchronous persistence"),
}
"""Fields of a stream's configuration, and their values, that older servers do not know: since when, and their names."""

NOTHING_THERE: Final = ("no message found", "stream store EOF")
"""What StreamMsgDeleteFailedError says of a message that is not there."""


class Streams(Api):
    """The half of ``JetStream`` that manages streams."""

    def account_info(self, *, now: float, timeout: float | None = None) -> Ticket[AccountInfo]:
        """Limits and use of the account."""
        return self._ask(self.api.info(), b"", AccountInfo.from_json, now, timeout)

    def create_stream(
        self,
        config: StreamConfig,
        *,
        now: float,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[StreamInfo]:
        """Create the stream, or find it there with the same configuration.

        Arguments and errors: as the drivers' verb. LocalProtocolError (by ``config.check`` or ``config.check_words``)
        is raised. So is UnsupportedByServerError: the server is too old for a feature: it would refuse the field, or
        drop it silently. It comes with the ticket if ``server_managed`` of a source's or mirror's consumer is refused.
        """
        of_stream_config("config", config).check_words()
        return self._configure(self.api.stream_create(config.name), config, now, timeout, pedantic, required_api_level)

    def update_stream(
        self,
        config: StreamConfig,
        *,
        now: float,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[StreamInfo]:
        """Replace the stream's configuration by ``config``, whole: a field left out counts as a change.

        To servers a source that gets a ``consumer`` is another source. It copies again all that the consumer delivers,
        so a change to a durable source is not made by one update (FACTS.md F4.10).

        Arguments and errors: as ``create_stream``.
        """
        of_stream_config("config", config)
        return self._configure(self.api.stream_update(config.name), config, now, timeout, pedantic, required_api_level)

    def change_stream(
        self,
        name: str,
        changes: dict[str, Any],
        *,
        now: float,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[StreamInfo]:
        """Fetch the configuration, change the named fields (as in ``StreamOptions``), send all of it back.

        Fields that this library does not know go back as they came. Two changes at the same time: the last one wins.
        """
        return self.session.run(change_stream(self, name, changes, now, timeout, pedantic, required_api_level))

    def stream_info(self, name: str, *, now: float, timeout: float | None = None) -> Ticket[StreamInfo]:
        """Configuration and state of a stream."""
        return self._ask(self.api.stream_info(name), b"", StreamInfo.from_json, now, timeout, about=f"stream {name}")

    def delete_stream(self, name: str, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """Delete a stream and all its messages."""
        return self._ask(self.api.stream_delete(name), b"", succeeded, now, timeout, about=f"stream {name}")

    # -- lists ---------------------------------------------------------------------------------------------------------

    def streams(self, subject: str | None = None, *, timeout: float | None = None) -> Pages[StreamInfo]:
        """Configuration and state of all streams, or of those that take messages of ``subject``, page by page.

        Wildcards are allowed in ``subject``. ``timeout``: seconds for each page.

        Raises:
            BadSubjectError: ``subject`` cannot be one.
        """
        return self._listed(self.api.stream_list(), StreamInfo.from_json, subject, timeout)

    def stream_names(
        self, subject: str | None = None, *, now: float, timeout: float | None = None
    ) -> Ticket[list[str]]:
        """The names of all streams, or of those that take messages of ``subject``. Arguments: as ``streams``."""
        pages: Pages[str] = self._listed(self.api.stream_names(), name_of, subject, timeout)
        return self.session.run(pages.whole(now))

    def find_stream(self, subject: str, *, now: float, timeout: float | None = None) -> Ticket[str]:
        """The name of the one stream that takes messages of ``subject``, wildcards allowed.

        Raises:
            BadSubjectError: ``subject`` cannot be one.

        The ticket fails with:
            NoMatchingStreamError: there is none, or there are several.
        """
        check_subject(subject, wildcards=True)
        return self.session.run(find_stream(self, subject, now, timeout))

    def _listed(
        self, where: str, build: Callable[[Any], Any], subject: str | None, timeout: float | None
    ) -> Pages[Any]:
        wanted = {} if subject is None else {"subject": check_subject(subject, wildcards=True).decode()}
        return self._pages(where, "streams", build, wanted, timeout)

    def _pages(
        self,
        where: str,
        field: str,
        build: Callable[[Any], Any],
        wanted: dict[str, Any],
        timeout: float | None,
        about: str = "",
    ) -> Pages[Any]:
        """The list that the API has at the subject ``where``. ``field``: what an answer calls its entries."""
        read = page_of(field, build)
        return Pages(
            self.session,
            lambda offset, now: self._ask(
                where, dumps({"offset": offset, **wanted}), read, now, timeout, about=about, limit=HARD_MAX_PAYLOAD
            ),
        )

    # -- messages of a stream ------------------------------------------------------------------------------------------

    def purge_stream(
        self,
        name: str,
        *,
        now: float,
        subject: str | None = None,
        keep: int | None = None,
        seq: int | None = None,
        timeout: float | None = None,
    ) -> Ticket[int]:
        """Delete messages of a stream: all of them, or less. The ticket takes how many.

        Arguments and errors: as the drivers' verb. Raised is LocalProtocolError: both ``keep`` and ``seq`` are given,
        one of them is no such number, or ``subject`` cannot be one (BadSubjectError).
        """
        body: dict[str, Any] = {}
        if keep is not None and seq is not None:
            raise LocalProtocolError("a purge takes keep or seq, not both: the server would refuse it")
        if subject is not None:
            body["filter"] = check_subject(subject, wildcards=True).decode()
        if keep is not None:
            if type(keep) is not int or not 0 <= keep <= MAX_UINT64:
                raise LocalProtocolError(f"keep is how many messages stay, 0 or more, not {keep!r:.100}")
            body["keep"] = keep
        if seq is not None:
            check_seq(seq)
            body["seq"] = seq
        return self._ask(
            self.api.stream_purge(name), dumps(body) if body else b"", _purged, now, timeout, about=f"stream {name}"
        )

    def delete_msg(self, stream: str, seq: int, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """Delete the message ``seq`` of a stream. Its bytes may stay on the server's disk until they are compacted.

        Errors: as the drivers' verb. Raised is LocalProtocolError: ``seq`` is no sequence from 1 on.
        """
        return self._delete_msg(stream, seq, {"no_erase": True}, now, timeout)

    def secure_delete_msg(self, stream: str, seq: int, *, now: float, timeout: float | None = None) -> Ticket[bool]:
        """``delete_msg``, and the server overwrites its bytes on the disk."""
        return self._delete_msg(stream, seq, {}, now, timeout)

    def _delete_msg(
        self, stream: str, seq: int, how: dict[str, Any], now: float, timeout: float | None
    ) -> Ticket[bool]:
        check_seq(seq)
        asked = self._ask(
            self.api.stream_msg_delete(stream), dumps({"seq": seq, **how}), succeeded, now, timeout,
            about=f"message {seq} of stream {stream}",
        )  # fmt: skip
        return self.session.run(_deleted(asked))

    # -- configurations ------------------------------------------------------------------------------------------------

    def _configure(
        self, subject: str, config: StreamConfig, now: float, timeout: float | None, pedantic: bool, level: int | None
    ) -> Ticket[StreamInfo]:
        self._check(config)
        headers = self._level_header(level, pedantic=pedantic)
        body = config.to_json() | ({"pedantic": True} if pedantic else {})
        asked = self._ask(
            subject, dumps(body), StreamInfo.from_json, now, timeout, about=f"stream {config.name}", headers=headers
        )
        if not any(consumer.get("server_managed") for consumer in _consumers(config)):
            return asked
        return self.session.run(explain_server_managed(asked, self.session.server))

    def _check(self, config: StreamConfig) -> None:
        config.check()
        server = self.session.server
        if _consumers(config) and server is not None and server.is_before(SOURCING_SINCE):
            raise UnsupportedByServerError("the consumer of a source or mirror", SOURCING_SINCE, server.version)
        for (feature, value), (needed, name) in FEATURES.items():
            if getattr(config, feature) == value and server is not None and server.is_before(needed):
                raise UnsupportedByServerError(f"{name} ({feature})", needed, server.version)


def find_stream(js: Streams, subject: str, now: float, timeout: float | None) -> Generator[Ticket[Any], Any, str]:
    """A script: the one stream that takes messages of ``subject``.

    Raises:
        NoMatchingStreamError: there is none, or there are several.
    """
    names: list[str] = yield js.stream_names(subject, now=now, timeout=timeout)
    if len(names) != 1:
        raise NoMatchingStreamError(subject, names)
    return names[0]


def _deleted(asked: Ticket[bool]) -> Generator[Ticket[Any], Any, bool]:
    try:
        done: bool = yield asked
    except (SequenceNotFoundError, StreamMsgDeleteFailedError) as error:
        if isinstance(error, StreamMsgDeleteFailedError) and error.description not in NOTHING_THERE:
            raise
        raise MessageNotFoundError(MessageNotFoundError.code, error.description, error.about) from error
    return done


def _purged(body: dict[str, Any]) -> int:
    return uint64(body, "purged", 0)


def _consumers(config: StreamConfig) -> list[SourceConsumer]:
    """The consumers that its sources and its mirror name."""
    blocks = [*(config.sources or []), *([] if config.mirror is None else [config.mirror])]
    return [block["consumer"] for block in blocks if block.get("consumer") is not None]
