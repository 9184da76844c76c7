"""How plainly the docstrings and READMEs are written: ``python -m tests.tools.words [--show KIND] [PLACE ...]``.

A place is a file or a folder. For each file it prints how many sentences there are, how many of 100 are negated and
passive, how many semicolons 100 have, each sentence of more than ``LONG`` words, and each "behind" that may stand for
"after". ``--show negated`` and ``--show passive`` print those sentences too.

* A table's row, an item and a signature count as sentences. Code in backticks counts as one word.
* A sentence is negated if it has a word of ``_NEGATIONS``, whatever it negates: "not", "no", "without", "can't".
* A sentence is passive if a form of "be" stands before a participle, with up to two words of ``_BETWEEN`` in between:
  "is sent", "was not yet read". A participle ends in "ed", or stands in ``_IRREGULAR``. "Is red" is none.
* A paragraph that begins with "Not here:" is neither: it says what a module leaves out.
* A replica may lag behind, and a text may say how far behind.

Not here: how much of it is allowed (``tests/test_words.py``).
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.sentences import sections, sentences

ROOT: Final = Path(__file__).resolve().parents[2]
LONG: Final = 30  # words
_CODE: Final = re.compile(r"``.*?``|`[^`]*`")
_LAGS: Final = re.compile(r"\b(lag\w*|how far) behind\b")
_LEFT_OUT: Final = "Not here:"
_NEGATIONS: Final = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|nowhere|neither|nor|cannot|without)\b|n't\b", re.IGNORECASE
)
_BETWEEN: Final = r"(?:(?:not|no|never|yet|also|then|only|still|always|again|already|longer|all|both|\w+ly) ){0,2}"
_IRREGULAR: Final = (
    "begun|bound|broken|brought|built|chosen|cut|done|drawn|fed|forgotten|found|given|gone|heard|held|hidden|kept|known"
    "|laid|left|lost|made|met|overwritten|paid|put|read|said|seen|sent|set|shown|split|spent|taken|thrown|told|torn"
    "|understood|withdrawn|won|written"
)
_PASSIVE: Final = re.compile(
    rf"\b(?:is|are|was|were|be|been|being) {_BETWEEN}(?:\w{{2,}}ed|{_IRREGULAR})\b", re.IGNORECASE
)


@dataclass
class Words:
    """What was counted in one text."""

    sentences: int = 0
    semicolons: int = 0
    told: int = 0
    """Sentences outside of "Not here:"."""
    long: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    negated: list[str] = field(default_factory=list)
    passive: list[str] = field(default_factory=list)

    def add(self, other: Words) -> None:
        """Count that as well."""
        self.sentences += other.sentences
        self.semicolons += other.semicolons
        self.told += other.told
        self.long += other.long
        self.behind += other.behind
        self.negated += other.negated
        self.passive += other.passive

    @property
    def semicolons_in_100(self) -> float:
        return 100 * self.semicolons / max(self.sentences, 1)

    @property
    def negated_in_100(self) -> float:
        return 100 * len(self.negated) / max(self.told, 1)

    @property
    def passive_in_100(self) -> float:
        return 100 * len(self.passive) / max(self.told, 1)


def texts(path: Path) -> Iterator[str]:
    """The docstrings of a module, or the sections of a Markdown file without its programs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from sections(text).values()
        return
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found:
                yield _without_programs(found)


def counted(path: Path) -> Words:
    """The words of one file."""
    found = Words()
    for text in texts(path):
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in sentences(paragraph):
                _count(sentence, found)
                if not paragraph.startswith(_LEFT_OUT):
                    _count_told(sentence, found)
    return found


def _count(sentence: str, found: Words) -> None:
    """Count how long and how winding a sentence is."""
    plain = _CODE.sub("x", sentence)
    found.sentences += 1
    found.semicolons += plain.count(";")
    if len(plain.split()) > LONG and not sentence.startswith("|"):
        found.long.append(sentence)
    if re.search(r"\bbehind\b", _LAGS.sub("", plain)):
        found.behind.append(sentence)


def _count_told(sentence: str, found: Words) -> None:
    """Count whether a sentence is negated or passive."""
    plain = _CODE.sub("x", sentence)
    found.told += 1
    if _NEGATIONS.search(plain):
        found.negated.append(sentence)
    if _PASSIVE.search(plain):
        found.passive.append(sentence)


def files(places: list[str]) -> list[Path]:
    """The modules and Markdown files at ``places``."""
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
    return found


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all statements in it. Expressions are left out, which are most of a module."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(inner)


def _without_programs(text: str) -> str:
    """A docstring without its indented blocks, which are programs or tables."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def main() -> None:
    """Print what is counted at the places of the command line, each file and all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.words", description=__doc__.partition("\n")[0])
    parser.add_argument("--show", action="append", default=["long", "behind"], choices=["negated", "passive"])
    parser.add_argument("place", nargs="*", default=["jsproto", "transports", "README.md"])
    given = parser.parse_args()
    total = Words()
    for path in files(given.place):
        found = counted(path)
        total.add(found)
        print(f"{path.relative_to(ROOT)}: {_said(found)}")
        for kind in given.show:
            for sentence in getattr(found, kind):
                print(f"    {kind}: {sentence}")
    print(
        f"all: {_said(total)}, {len(total.long)} sentences of more than {LONG} words, {len(total.behind)} with 'behind'"
    )


def _said(found: Words) -> str:
    """The numbers of a text."""
    return (
        f"{found.sentences} sentences, in 100: {found.negated_in_100:.1f} negated, {found.passive_in_100:.1f} passive,"
        f" {found.semicolons_in_100:.1f} semicolons"
    )


if __name__ == "__main__":
    main()
