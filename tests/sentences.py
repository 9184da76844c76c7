"""Sentences of the READMEs and of public docstrings, and which of them are guarantees by their words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

WORDS: Final = re.compile(
    r"\b(never|always|ever|every\w*|all|only|exactly|once|twice|again|no|none|nothing|nobody|cannot|guarant\w+|safe|bounded"
    r"|promise[sd]?|harmless|same|whole|at most|at least|in order|in time|until|whoever|whatever|whichever|however"
    r"|(?:is|are|was|were|do|does|did) not)\b",
    re.IGNORECASE,
)
"""Of a guarantee in a README."""

STRONG_WORDS: Final = re.compile(
    r"\b(never|always|guarant\w+|exactly|bounded|safe|harmless|silently|whatever happens|no more than|no later than"
    r"|at (?:most|least) once|nothing (?:is |was |has been )?(?:sent|stored|changed|written|queued|lost)|in order"
    r"|once and in order|same answer|or none|or nothing|not at all|leaves? out|left out|no state|every message)\b",
    re.IGNORECASE,
)
"""Of a guarantee in a docstring, which says of every parameter what it is not."""

PROMISING: Final = ("Rules the core keeps",)
"""Sections of the READMEs in which each sentence is a guarantee, and so is each row of a table that says so."""

_TABLE_OF_PROMISES: Final = re.compile(r"\| what (?:that|is) promise[sd]")
_ITEM: Final = re.compile(r"^(?:[*-]|\d+\.) ")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:])\**\s+(?=[A-Z`*\"(])")


def fold(text: str) -> str:
    """``text`` on one line: where it is wrapped does not matter."""
    return " ".join(text.split())


def sections(readme: str) -> dict[str, str]:
    """The text below each heading, without its subsections, marks in HTML, and all of programs but their comments."""
    found: dict[str, str] = {}
    title, lines, is_code = "", [], False
    for line in [*readme.splitlines(), "# end"]:
        if line.startswith("```"):
            is_code = not is_code
            lines.append("")
        elif is_code:
            _, _, comment = line.partition("  # ")
            lines += [comment, ""]
        elif line.startswith("<!--"):
            lines.append("")
        elif line.startswith("#"):
            found[title] = "\n".join(lines)
            title, lines = line.strip("# "), []
        else:
            lines.append(line)
    del found[""]
    return found


def sentences(text: str) -> Iterator[str]:
    """Sentences, items and rows of a text, folded."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=\|)", text):
        folded = _ITEM.sub("", fold(block))
        if folded.startswith("|"):
            yield folded
        else:
            yield from (sentence for sentence in _SENTENCE_ENDS.split(folded) if sentence)


def guarantees(readme: str) -> Iterator[tuple[str, str]]:
    """Each sentence of a README that guarantees something, with its section."""
    for title, text in sections(readme).items():
        in_table = False
        for sentence in sentences(text):
            if not sentence.startswith("|"):
                in_table = False
            elif _TABLE_OF_PROMISES.search(sentence):
                in_table = True
                continue
            elif in_table and set(sentence) <= set("|- "):
                continue
            if in_table or title in PROMISING or WORDS.search(sentence):
                yield title, sentence


def documented(module: ModuleType, name: str) -> Iterator[str]:
    """The docstrings of what ``module`` exports as ``name``, and of its public members."""
    value = getattr(module, name)
    yield vars(value).get("__doc__") or ""
    for member in dir(value) if isinstance(value, type) else ():
        function = inspect.getattr_static(value, member)
        function = function.fget if isinstance(function, property) else getattr(function, "__func__", function)
        if not member.startswith("_") and inspect.isfunction(function):
            yield inspect.getdoc(function) or ""


def docstrings(place: str) -> str:
    """All docstrings of ``module:name``, folded."""
    module, _, name = place.partition(":")
    return "\n".join(fold(text) for text in documented(import_module(module), name))
