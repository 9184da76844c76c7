"""What the surveys of wrong values try: values, and the names of what a verb takes.

Not here: the surveys (``client.test_wrong_values``, ``drivers.test_wrong_values``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final


class Nothing:
    """What no parameter can take."""

    def __repr__(self) -> str:
        return "Nothing()"


NOTHING: Final = Nothing()
WRONG: Final[tuple[Any, ...]] = (NOTHING, [], {}, b"\xff", "\x00", -1, 1.5, True)
FLAGS: Final = frozenset({"ordered", "manual_ack", "pedantic", "next", "no_erase", "details", "deleted_details"})
"""What is asked for its truth alone."""


def parameters(verb: Callable[..., Any]) -> dict[str, bool]:
    """The names of what a verb takes, and whether it needs them."""
    found: dict[str, bool] = {}
    for each in inspect.signature(verb).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            options = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
            assert options is not None, verb
            names = getattr(import_module(verb.__module__), options[1]).__annotations__
            found |= dict.fromkeys(names, False)
        elif each.kind is not each.VAR_POSITIONAL:
            found[each.name] = each.default is each.empty
    return found
