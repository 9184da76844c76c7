"""The facade for threads, made awaitable: each blocking call runs in a worker thread.

So one body of tests written for the facade for event loops covers the one for threads as well.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio import get_cancelled_exc_class, move_on_after, to_thread

import jsproto_io.asyncio
from jsproto_io import sync
from jsproto_io._aio import consuming as _async_consuming
from jsproto_io._blocking import consuming

CLOSE_WITHIN = 30.0  # seconds
_END = object()
_LIKE: dict[type, type] = {
    getattr(sync, name): getattr(jsproto_io.asyncio, name) for name in sync.__all__ if name != "connect"
}
_LIKE[consuming.Working] = _async_consuming.Working


async def _run(call: Callable[[], Any]) -> Any:
    return await to_thread.run_sync(call, abandon_on_cancel=True)


def _wrap(value: Any) -> Any:
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return Awaitable(value) if type(value) in _LIKE or isinstance(value, Iterator) else value


class Awaitable:
    """An object of the facade for threads, used like its sibling for event loops."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value
        if not inspect.iscoroutinefunction(getattr(_LIKE[type(self._target)], name)):
            return lambda *args, **keywords: _wrap(value(*args, **keywords))

        async def call(*args: Any, **keywords: Any) -> Any:
            plain = (each._target if isinstance(each, Awaitable) else each for each in args)
            return _wrap(await _run(partial(value, *plain, **keywords)))

        return call

    async def __aenter__(self) -> Self:
        await _run(self._target.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with move_on_after(CLOSE_WITHIN, shield=True):  # past its time limit too a test closes what it opened
            await _run(partial(self._target.__exit__, kind, error, traceback))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await _run(partial(next, self._target, _END))
        if item is _END:
            raise StopAsyncIteration
        return _wrap(item)


@asynccontextmanager
async def connect(*args: Any, **keywords: Any) -> AsyncIterator[Any]:
    """``jsproto_io.sync.connect`` as an asynchronous context manager.

    A test that is cancelled leaves its threads running: the connection is closed under them, so that they end.
    """
    target = await _run(partial(sync.connect, *args, **keywords))
    try:
        async with Awaitable(target) as connection:
            yield connection
    except get_cancelled_exc_class():
        threading.Thread(target=target.close, name="closes-under-those-who-wait", daemon=True).start()
        raise
