"""Gives a class to the modules beneath its own that name it in annotations.

A module that imported what stands above it would make a circle, so it imports that for type checkers alone. Whoever
defines the class lends it, and ``typing.get_type_hints`` works on the functions of all of them from then on.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def lend(*classes: type, to: str) -> None:
    """Set each of ``classes`` in the module ``to``, and in all modules below that package, by its name.

    Only modules that are imported get them, and one that has the name keeps its own.
    """
    _lend(classes, import_module(to))


def _lend(classes: tuple[type, ...], module: ModuleType) -> None:
    for part in [*vars(module).values()]:
        if isinstance(part, ModuleType) and part.__name__.startswith(f"{module.__name__}."):
            _lend(classes, part)
    for each in classes:
        vars(module).setdefault(each.__name__, each)
