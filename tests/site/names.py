"""What a docstring of ours means to the reference: an extension for griffe, which reads the source.

Rules:

* ``**options: Unpack[Kind]`` is shown as the options of ``Kind`` and of its bases, one keyword each. The line
  ``options: ...`` of the docstring becomes what ``Kind`` says of each of them. Without that line they end ``Args``.
* The docstrings of ``jsproto.api_errors`` are made when it is imported, and are taken from there.
* ``Class`` and ``Class.member()`` lead to their place in the reference, and so do errors. Other code is text.
* An example is shown as code.
* A title such as ``Raises, with nothing sent:`` opens the section of its first word. Entries below a title of another
  kind, such as ``The ticket fails with:``, are bullets.

Not here: the look of a page.
"""

from __future__ import annotations

import re
from importlib import import_module
from textwrap import dedent, indent
from typing import Any, Final

import griffe

from jsproto import api_errors, errors

_SECTIONS: Final = ("Args", "Attributes", "Raises", "Returns", "Yields")
_TITLE: Final = re.compile(rf"^( *)({'|'.join(_SECTIONS)})\b[^\n:]+:\n(?=\1 +\S)", re.MULTILINE)
_ENTRIES: Final = re.compile(
    rf"^( *)(?!{'|'.join(_SECTIONS)}|[*]|\w+: )(\S[^\n]*):\n((?:\1 {{4}}[ \S]*\n?)+)", re.MULTILINE
)
_EXAMPLE: Final = re.compile(r"^Example:\n\n((?: {4}.*\n?|\n(?= {4}))+)", re.MULTILINE)
_CODE: Final = re.compile(r"(```.*?```)", re.DOTALL)
_NAME: Final = re.compile(
    r"``([A-Z]\w+(?:\.[a-z]\w*)?)(?:\(\))?``"
    r"|(?:(?<=[*] )|(?<![\w`.\[])(?!\w+(?:, \w+)*:))([A-Z]\w+Error)(?![\w`.])"  # a section of errors stays one
)
_BULLET: Final = re.compile(r"(?m)^(?P<before>(?! *[*]).*\S.*)\n(?P<margin> *) [*] ")


class Names(griffe.Extension):
    """Prepare all docstrings and signatures of a package, once it is loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Called by griffe."""
        collection = loader.modules_collection
        for one in _objects(pkg):
            if isinstance(one, griffe.Function):
                _expand(one, collection)
            if isinstance(one, griffe.Class) and one.module.path == api_errors.__name__:
                one.docstring = griffe.Docstring(getattr(api_errors, one.name).__doc__, parent=one)
            if one.docstring is not None:
                one.docstring.value = _linked(_prepared(one.docstring.value), _home(one.path))


def _objects(one: Any) -> Any:
    yield one
    for member in one.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _expand(function: griffe.Function, collection: griffe.ModulesCollection) -> None:
    """Put the options in the place of ``**options: Unpack[Kind]``."""
    for parameter in list(function.parameters):
        annotation = parameter.annotation
        if parameter.kind is not griffe.ParameterKind.var_keyword or not isinstance(annotation, griffe.ExprSubscript):
            continue
        if getattr(annotation.left, "canonical_name", "") != "Unpack":
            continue
        try:
            kind = collection[annotation.slice.canonical_path]  # type: ignore[union-attr]
        except KeyError:  # of a package that is not read
            continue
        del function.parameters[parameter.name]
        kinds = [place for place in reversed([kind, *kind.mro()]) if isinstance(place, griffe.Class)]
        for line in (line for place in kinds for line in place.attributes.values()):
            if line.name not in function.parameters:
                function.parameters.add(_keyword(line))
        if function.docstring is not None:
            said = "\n".join(_said(place) for place in kinds)
            function.docstring.value = _with(said, parameter.name, function.docstring.value)


def _keyword(line: Any) -> griffe.Parameter:
    kind = griffe.ParameterKind.keyword_only
    return griffe.Parameter(line.name, annotation=_plain(line.annotation), kind=kind, default="...")


def _said(kind: griffe.Class) -> str:
    """The lines of ``Attributes`` of a TypedDict."""
    _, _, said = ("" if kind.docstring is None else kind.docstring.value).partition("Attributes:\n")
    return dedent(said).strip()


def _with(said: str, name: str, text: str) -> str:
    """``text`` with ``said`` in the place of what it says of the argument ``name``, or at the end of its ``Args``."""
    entry = re.compile(rf"^( +){name}: .*\n?(?:\1 +.*\n?)*", re.MULTILINE)
    replaced, count = entry.subn(lambda found: f"{indent(said, found[1])}\n" if said else "", text)
    if count or not said:
        return replaced
    lines = indent(said, 4 * " ")
    begin, args, rest = f"{text}\n".partition("\nArgs:\n")
    entries, end, after = rest.partition("\n\n")
    return f"{begin}{args}{entries.rstrip()}\n{lines}{end}{after}" if args else f"{text}\n\nArgs:\n{lines}"


def _plain(annotation: Any) -> Any:
    """The type in ``Annotated[type, Option(...)]``."""
    if isinstance(annotation, griffe.ExprSubscript) and getattr(annotation.left, "canonical_name", "") == "Annotated":
        inner = annotation.slice
        return inner.elements[0] if isinstance(inner, griffe.ExprTuple) else inner
    return annotation


def _prepared(text: str) -> str:
    text = _EXAMPLE.sub(lambda found: f"```python\n{dedent(found[1]).strip()}\n```\n", text)
    text = _TITLE.sub(r"\1\2:\n", text)
    text = _ENTRIES.sub(_bullets, text)
    return _BULLET.sub(lambda found: f"{found['before']}\n\n{found['margin']}* ", text)


def _home(path: str) -> str:
    """The module of the reference in which a docstring of ours looks for names."""
    if path.startswith(("jsproto_io._aio", "jsproto_io.asyncio", "jsproto_io.trio")):
        return "jsproto_io.asyncio"
    if path.startswith(("jsproto.server", "jsproto.testing")):
        return ".".join(path.split(".")[:2])
    return "jsproto_io.sync" if path.startswith("jsproto_io") else "jsproto"


def _linked(text: str, home: str) -> str:
    module = import_module(home)

    def link(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        for place in (module, errors, api_errors):
            first, _, member = name.partition(".")
            if first in getattr(place, "__all__", vars(place)):
                one = getattr(place, first)
                if isinstance(one, type) and (not member or (hasattr(one, member) and getattr(one, member).__doc__)):
                    return f"[`{name}`][{place.__name__}.{name}]"
        return found[0]

    pieces = _CODE.split(text)
    return "".join(each if at % 2 else _NAME.sub(link, each) for at, each in enumerate(pieces))


def _bullets(found: re.Match[str]) -> str:
    margin, title, block = found.groups()
    entries = dedent(block).rstrip().split("\n")
    if not re.match(r"\w+(, \w+)*: ", entries[0]):  # code, or text that goes on
        return found[0]
    lines = [f"  {entry}" if entry.startswith(" ") else f"* {entry}" for entry in entries]
    bullets = indent("\n".join(lines), margin)
    return f"{margin}{title}:\n\n{bullets}\n"
