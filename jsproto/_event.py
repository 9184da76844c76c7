"""The decorator of value types: read-only for type checkers, cheap to build at run time.

A frozen dataclass costs four times as much to build as a slots dataclass, and values of these kinds are built for
every message. So immutability is a promise that the type checker keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(cls: type[C]) -> type[C]:
    """Make ``cls`` a slots dataclass that type checkers treat as frozen."""
    return dataclass(slots=True)(cls)
