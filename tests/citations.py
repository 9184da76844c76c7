"""What docstrings, comments and READMEs cite, and what there is to be cited.

Three forms: a fact of ``jsproto/server/FACTS.md`` (``FACTS.md F2.9, F2.10``, or all of a section, ``FACTS.md F2``), a
public document that is listed there (``ADR-50``), and a row of ``tests/REQUIREMENTS.md`` (``rows 13 to 20``).

Not here: whether what is cited says so.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FACTS: Final = ROOT / "jsproto" / "server" / "FACTS.md"
REQUIREMENTS: Final = ROOT / "tests" / "REQUIREMENTS.md"
_SUFFIXES: Final = (".py", ".md")
_BEFORE_A_STATEMENT: Final = (tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)

_SECTION: Final = re.compile(r"^## (F\d+) ", re.MULTILINE)
_FACT: Final = re.compile(r"^- (F\d+\.\d+) ", re.MULTILINE)
_DOCUMENT: Final = re.compile(r"^\| (ADR-\d+) \|", re.MULTILINE)
_ROW: Final = re.compile(r"^\| (\d+) \|", re.MULTILINE)

_ID: Final = r"F\d+(?:\.\d+)?\b"
_CITED_FACTS: Final = re.compile(rf"\bFACTS\.md ({_ID}(?:(?:, | and ){_ID})*)")
_BARE_FACT: Final = re.compile(r"\bF\d+\.\d+\b")
_CITED_DOCUMENT: Final = re.compile(r"\bADR-?\d+\b|\bADR[ #]+\d+")
_CITED_ROWS: Final = re.compile(r"\brows? (\d+(?:(?:, | and | to )\d+)*)")

# How documents are cited that a reader of the repository does not have.
_UNKNOWN: Final = re.compile(
    r"(?i:\bserver[ -]facts?\b|\bfacts?: section|\bsections? \d|\bconsistency models[,)])"
    r"|\b(?:DESIGN|peers|sourcing|simulation|reliability|renovation|requirements|server-facts)\.md\b"
)
_CITATIONS: Final = (_BARE_FACT, _CITED_FACTS, _CITED_DOCUMENT, _CITED_ROWS, _UNKNOWN)


def fact_ids(text: str) -> list[str]:
    """The ids that a page of facts defines: those of its sections and those of its facts, in their order."""
    return [*_SECTION.findall(text), *_FACT.findall(text)]


def documents(text: str) -> list[str]:
    """The public documents that a page of facts lists."""
    return _DOCUMENT.findall(text)


def rows(text: str) -> list[int]:
    """The numbers of the rows that a page of requirements has."""
    return [int(number) for number in _ROW.findall(text)]


def cited_facts(text: str) -> list[str]:
    """The facts that a text cites, and the ids in it that stand alone."""
    text = _unwrapped(text)
    ids = [each for cited in _CITED_FACTS.findall(text) for each in re.findall(_ID, cited)]
    return ids + [f"{bare} without FACTS.md" for bare in _BARE_FACT.findall(_CITED_FACTS.sub("", text))]


def cited_documents(text: str) -> list[str]:
    """The public documents that a text cites, and what looks like one in another form."""
    return _CITED_DOCUMENT.findall(text)


def cited_rows(text: str) -> list[int]:
    """The rows that a text cites, those between two of them included."""
    found: list[int] = []
    for cited in _CITED_ROWS.findall(text):
        for span in re.split(r", | and ", cited):
            first, _, last = span.partition(" to ")
            found += range(int(first), int(last or first) + 1)
    return found


def unknown(text: str) -> list[str]:
    """The citations in a text that nobody can look up."""
    return [found[0] for found in _UNKNOWN.finditer(" ".join(text.split()))]


def _unwrapped(text: str) -> str:
    """A text in one line, as a citation may be wrapped, in a comment too."""
    return " ".join(re.sub(r"\n\s*#", "\n", text).split())


@cache
def words_of(file: Path) -> str:
    """What a file that cites says to its readers: all of a page, the docstrings and comments of a module.

    A docstring is a string that is a statement, or begins one: attributes have them too. Without anything that looks
    like a citation a module is not taken apart, which is slow, and says nothing here.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    one_line = _unwrapped(text)
    if not any(citation.search(one_line) for citation in _CITATIONS):
        return ""
    said, begins = [], True
    with file.open("rb") as opened:
        for token in tokenize.tokenize(opened.readline):
            if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
                said.append(token.string)
            elif token.type != tokenize.NL:
                begins = token.type in _BEFORE_A_STATEMENT
    return "\n".join(said)


def files() -> Iterator[Path]:
    """Every module and every page of the repository, without those that only define what is cited."""
    yield ROOT / "README.md"
    for folder in ("jsproto", "transports", "tests", "fuzz"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in _SUFFIXES and file not in (FACTS, REQUIREMENTS, Path(__file__).resolve()):
                yield file
