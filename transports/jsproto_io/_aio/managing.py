"""The facade for event loops, continued: streams, what is in them, and the account.

Rules: those of ``_aio.connection``.

Not here: consumers (``consuming``), reading messages (``reading``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar, Unpack

from jsproto.client.manage.pages import Pages
from jsproto.grammar.account import AccountInfo
from jsproto.grammar.config import StreamConfig, StreamInfo, StreamOptions
from jsproto.grammar.times import seconds
from jsproto_io._aio.asking import Asks
from jsproto_io._state.common import Timeout, stream_config, warn_of_async_persistence
from jsproto_io._state.managing import InfoListerBase

if TYPE_CHECKING:
    from jsproto_io._aio.connection import Connection

T = TypeVar("T")


class InfoLister(InfoListerBase[T]):
    """Streams or consumers, one after the other. Made by ``JetStream.streams()`` and ``JetStream.consumers()``.

    Iterate over it. The next page is requested when the one before it was taken. A list that changes meanwhile may
    leave an entry out, or show it twice: servers have no cursor.

    The iteration raises:
        TimeoutError: no page came in time. The iteration may go on.
        StreamNotFoundError: the stream whose consumers are listed does not exist.
    """

    def __init__(self, core: Pages[T], connection: Connection) -> None:
        super().__init__(core)
        self._connection = connection

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            try:
                return self._taken.popleft()
            except IndexError:
                readable = await self._connection._call_with_room(self._take_ready)
            if readable is not None:
                await self._connection._wait(readable)
            elif self._core.finished and not self._taken:
                raise StopAsyncIteration


class Managing(Asks):
    """The verbs of ``JetStream`` that manage streams."""

    async def create_stream(
        self,
        config: StreamConfig | str,
        *,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamInfo:
        """Create a stream, or find it with the same configuration.

        With ``persist_mode="async"`` the server acknowledges messages before they are on disk, and a crash can lose
        them. DurabilityWarning says so.

        Args:
            config: the whole configuration, or the stream's name.
            pedantic: the server refuses values that it would replace otherwise.
            required_api_level: the API level that the server must have, or refuse the request.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.
            options: fields of StreamConfig. Durations are seconds or timedeltas.

        Raises:
            StreamNameExistError: the stream exists with another configuration.
            PedanticError: the server would replace a value, and ``pedantic`` was given.
            APIRequiredApiLevelError: the server's API level is lower than ``required_api_level``.
            UnsupportedByServerError: the server is too old for a field or a keyword. The error says since when.
        """
        wanted = stream_config(config, options)
        warn_of_async_persistence(wanted)
        return await self._asked(
            self._core.create_stream, wanted, pedantic=pedantic, required_api_level=required_api_level, timeout=timeout
        )

    async def update_stream(
        self,
        config: StreamConfig | str,
        *,
        pedantic: bool = False,
        required_api_level: int | None = None,
        timeout: Timeout | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamInfo:
        """Change a stream's configuration.

        With the stream's name only what ``options`` say changes. Fields of a newer server, which this library does not
        know, stay as they are. Of two such changes at the same time the last one wins.

        Args:
            config: the whole new configuration. Or the stream's name: the present configuration is fetched then, and
                ``options`` change it.
            pedantic: the server refuses values that it would replace otherwise.
            required_api_level: the API level that the server must have, or refuse the request.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.
            options: fields of StreamConfig. Durations are seconds or timedeltas.

        Raises:
            StreamNotFoundError: there is no such stream.
            APIError: a field cannot be changed.
            PedanticError, APIRequiredApiLevelError, UnsupportedByServerError: as in ``create_stream``.
        """
        if isinstance(config, str):
            return await self._asked(
                self._core.change_stream, config, dict(options), pedantic=pedantic,
                required_api_level=required_api_level, timeout=timeout,
            )  # fmt: skip
        return await self._asked(
            self._core.update_stream, stream_config(config, options), pedantic=pedantic,
            required_api_level=required_api_level, timeout=timeout,
        )  # fmt: skip

    async def stream_info(self, name: str, *, timeout: Timeout | None = None) -> StreamInfo:
        """The configuration and state of a stream.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.stream_info, name, timeout=timeout)

    async def delete_stream(self, name: str, *, timeout: Timeout | None = None) -> bool:
        """Delete a stream and all its messages. Returns the server's ``success``.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return await self._asked(self._core.delete_stream, name, timeout=timeout)

    async def stream_names(self, subject: str | None = None, *, timeout: Timeout | None = None) -> list[str]:
        """The names of all streams, sorted.

        Args:
            subject: only the streams that take messages of it. Wildcards are allowed.
            timeout: of each page of the list, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BadSubjectError: ``subject`` cannot be one.
        """
        return await self._asked(self._core.stream_names, subject, timeout=timeout)

    def streams(self, subject: str | None = None, *, timeout: Timeout | None = None) -> InfoLister[StreamInfo]:
        """The configurations and states of all streams, sorted by name: an iterator that fetches page by page.

        Args:
            subject: only the streams that take messages of it. Wildcards are allowed.
            timeout: of each page, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            BadSubjectError: ``subject`` cannot be one.
        """
        limit = seconds(timeout, default=self._core.timeout)
        return InfoLister(self._core.streams(subject, timeout=limit), self._connection)

    async def find_stream(self, subject: str, *, timeout: Timeout | None = None) -> str:
        """The name of the one stream that takes messages of ``subject``, in which wildcards are allowed.

        Raises:
            NoMatchingStreamError: no stream does, or several do. The error names ``subject``.
        """
        return await self._asked(self._core.find_stream, subject, timeout=timeout)

    async def stream_subjects(self, name: str, filter: str = ">", *, timeout: Timeout | None = None) -> dict[str, int]:
        """The subjects of a stream's messages, sorted, and how many messages each of them has.

        A list of more than 100,000 subjects comes in pages. If it changes meanwhile, it is read anew.

        Args:
            name: the stream's name.
            filter: only subjects that match it. Wildcards are allowed.
            timeout: of each page, in seconds or as a timedelta. None: that of ``jetstream()``.

        Raises:
            StreamNotFoundError: there is no such stream.
            SnapshotError: the list changes faster than it can be read.
        """
        return await self._asked(self._core.stream_subjects, name, filter, timeout=timeout)

    async def purge_stream(
        self,
        name: str,
        *,
        subject: str | None = None,
        keep: int | None = None,
        seq: int | None = None,
        timeout: Timeout | None = None,
    ) -> int:
        """Delete messages of a stream: all of them, unless an argument says otherwise.

        Args:
            name: the stream's name.
            subject: only messages of it. Wildcards are allowed.
            keep: all but the last so many.
            seq: only messages before this sequence. Not together with ``keep``.
            timeout: seconds, or a timedelta. None: that of ``jetstream()``.

        Returns:
            How many messages were deleted.

        Raises:
            StreamNotFoundError: there is no such stream.
            APIError: the server refused, for example because of ``deny_purge``.
        """
        return await self._asked(self._core.purge_stream, name, subject=subject, keep=keep, seq=seq, timeout=timeout)

    async def delete_msg(self, stream: str, seq: int, *, timeout: Timeout | None = None) -> bool:
        """Delete one message of a stream. Its bytes may stay on the server's disk for a while.

        Returns the server's ``success``.

        Raises:
            MessageNotFoundError: there is no such message.
            StreamNotFoundError: there is no such stream.
            APIError: the server refused, for example because of ``deny_delete``.
        """
        return await self._asked(self._core.delete_msg, stream, seq, timeout=timeout)

    async def secure_delete_msg(self, stream: str, seq: int, *, timeout: Timeout | None = None) -> bool:
        """Delete one message of a stream, and have its bytes overwritten on the server's disk. Otherwise as
        ``delete_msg``.
        """
        return await self._asked(self._core.secure_delete_msg, stream, seq, timeout=timeout)

    async def account_info(self, *, timeout: Timeout | None = None) -> AccountInfo:
        """The limits of the account, and how much of them it uses. An account with tiers has them in ``tiers``."""
        return await self._asked(self._core.account_info, timeout=timeout)
