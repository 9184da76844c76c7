"""What parsers of any bytes have in common: they return a value, or raise their typed error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Attempt: TypeAlias = Callable[..., Any]
"""Calls its first argument with the others. None stands for the typed error."""


def expecting(*errors: type[Exception]) -> Attempt:
    """An ``Attempt`` at parsers that raise these errors and no other."""

    def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except errors:
            return None

    return attempt
