"""How plainly the docstrings and READMEs are written: ``python -m tests.tools.words [FILE OR FOLDER ...]``.

For each file it prints how many sentences there are, how many semicolons in 100 of them, each sentence of more than
``LONG`` words, and each "behind" that may stand for "after". A table's row, an item and a signature count as sentences.
A replica may lag behind, and a text may say how far behind.

Not here: how much of it is allowed (``tests/test_words.py``).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.sentences import sections, sentences

ROOT: Final = Path(__file__).resolve().parents[2]
LONG: Final = 30  # words
_CODE: Final = re.compile(r"``.*?``|`[^`]*`")
_LAGS: Final = re.compile(r"\b(lag\w*|how far) behind\b")


@dataclass
class Words:
    """What was counted in one text."""

    sentences: int = 0
    semicolons: int = 0
    long: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)

    def add(self, other: Words) -> None:
        """Count that as well."""
        self.sentences += other.sentences
        self.semicolons += other.semicolons
        self.long += other.long
        self.behind += other.behind

    @property
    def semicolons_in_100(self) -> float:
        return 100 * self.semicolons / max(self.sentences, 1)


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
        for sentence in sentences(text):
            plain = _CODE.sub("x", sentence)
            found.sentences += 1
            found.semicolons += plain.count(";")
            if len(plain.split()) > LONG and not sentence.startswith("|"):
                found.long.append(sentence)
            if re.search(r"\bbehind\b", _LAGS.sub("", plain)):
                found.behind.append(sentence)
    return found


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


def main(places: list[str]) -> None:
    """Print what is counted at ``places``, each file and all of them."""
    total = Words()
    for path in files(places or ["jsproto", "transports", "README.md"]):
        found = counted(path)
        total.add(found)
        print(f"{path.relative_to(ROOT)}: {found.sentences} sentences, {found.semicolons_in_100:.0f} ; in 100")
        for name, each in (("long", found.long), ("behind", found.behind)):
            for sentence in each:
                print(f"    {name}: {sentence}")
    print(
        f"all: {total.sentences} sentences, {total.semicolons_in_100:.1f} semicolons in 100 of them, {len(total.long)}"
        f" of more than {LONG} words, {len(total.behind)} with 'behind'"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
