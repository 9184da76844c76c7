"""The facade for event loops, continued: objects that are context managers.

Rules: those of ``_aio.connection``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Managed:
    """A context manager that ends its object at the end of the block."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._leave_block(error)

    @abstractmethod
    async def _leave_block(self, error: BaseException | None) -> None:
        """The block was left, with ``error`` or without."""
