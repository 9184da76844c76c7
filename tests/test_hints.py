"""``typing.get_type_hints`` works on each public class and function, for what reads types while a program runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pytest

MODULES: Final = (
    "jsproto", "jsproto.api_errors", "jsproto.errors", "jsproto.events", "jsproto.server", "jsproto.testing",
    "jsproto_io", "jsproto_io.asyncio", "jsproto_io.contexts", "jsproto_io.nats_server", "jsproto_io.serve",
    "jsproto_io.sync", "jsproto_io.testing", "jsproto_io.testing.threads", "jsproto_io.trio", "pyspark_jetstream",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_hints_can_be_read(name: str) -> None:
    module = pytest.importorskip(name, exc_type=ModuleNotFoundError)
    import_module("jsproto.client.jetstream")  # from here on its name stands where annotations have it
    public = [getattr(module, each) for each in getattr(module, "__all__", None) or dir(module) if each[0] != "_"]
    wrong = {}
    for each in {found for one in public for found in functions(one)}:
        try:
            typing.get_type_hints(each)
        except NameError as error:
            wrong[f"{each.__module__}.{each.__qualname__}"] = str(error)
    assert wrong == {}


def functions(one: Any) -> Iterator[Any]:
    """``one``, if it is a class or a function of ours, and the public methods and properties of a class."""
    if getattr(one, "__module__", "").startswith(("jsproto", "pyspark_jetstream")):
        if inspect.isclass(one):
            yield one
            for name in dir(one):
                if name[0] != "_" or name == "__init__":
                    member = inspect.getattr_static(one, name)
                    yield from functions(getattr(member, "fget", None) or getattr(member, "__func__", member))
        elif inspect.isfunction(one):
            yield one
