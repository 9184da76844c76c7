"""Gives a class to the modules beneath its own that name it in annotations.

A module that imported what stands above it would make a circle, so it imports that for type checkers alone. Whoever
defines the class lends it, and ``typing.get_type_hints`` works on the functions of all of them from then on.
"""

from __future__ import annotations

from sys import modules


def lend(*classes: type, to: str) -> None:
    """Set each of ``classes`` in the module ``to``, and in all modules below that package, by its name.

    Only modules that are imported get them, and one that has the name keeps its own.
    """
    for name, module in [*modules.items()]:
        if f"{name}.".startswith(f"{to}."):
            for each in classes:
                vars(module).setdefault(each.__name__, each)
