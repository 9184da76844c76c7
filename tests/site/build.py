"""Builds the site: copies the pages, rewrites their links, and runs one of the two tools.

Rules:

* A link of a page leads to the page's place on the site. One to a file that has no page is shown as its text alone.
* Nothing is fetched when the site is viewed. Mermaid, which draws the state tables, is a file of the site.
* Both tools read ``mkdocs.yml``, with the paths of this checkout and the navigation added.

Not here: which pages there are (``pages``).
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from tests.site.pages import MODULES, SECTIONS, Page

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
MERMAID: Final = "mermaid@11"  # of the npm registry
Tool = Literal["zensical", "material"]

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
_CODE: Final = re.compile(r"`[^`\n]+`")
_FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def copied(text: str, copy: Page) -> str:
    """The text of a page with its links for the place on the site."""
    places = {page.source: page.place for pages in SECTIONS.values() for page in pages}

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if copy.quotes:
            return found["text"]
        if "://" in target or not target:
            return found[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(copy.source), target))
        if there not in places:
            return found["text"]
        way = posixpath.relpath(places[there], posixpath.dirname(copy.place) or ".")
        return f"[{found['text']}]({way}{'#' + anchor if anchor else ''})"

    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_shown(_LINK.sub(link, text[at : fence.start()])), fence[0]]
        at = fence.end()
    return "".join([*pieces, _shown(_LINK.sub(link, text[at:]))])


def _shown(text: str) -> str:
    """Both tools show the backslash of a bar that is code in a table, and need none."""
    return _CODE.sub(lambda found: found[0].replace("\\|", "|"), text)


def write_sources(folder: Path) -> None:
    """Write ``docs`` and ``mkdocs.yml`` into ``folder``."""
    docs = folder / "docs"
    for pages in SECTIONS.values():
        for page in pages:
            to = docs / page.place
            to.parent.mkdir(parents=True, exist_ok=True)
            text = (ROOT / page.source).read_text()
            text = _figures(text) if page.source.endswith(".html") else copied(text, page)
            to.write_text(text.replace("tests/site/demo.gif", "assets/demo.svg"))
    (docs / "reference").mkdir()
    for module in MODULES:
        (docs / "reference" / f"{module}.md").write_text(f"# `{module}`\n\n::: {module}\n")
    (docs / "assets").mkdir()
    for name in ("demo.svg", "site.css"):
        shutil.copy(HERE / name, docs / "assets")
    text = (HERE / "mkdocs.yml").read_text().replace("PATHS", f"{ROOT}, {ROOT / 'transports'}")
    text = text.replace("NAMES:Names", f"{HERE / 'names.py'}:Names")
    (folder / "mkdocs.yml").write_text(
        "\n".join([text, "docs_dir: docs", "site_dir: site", "nav:", *_navigation(), ""])
    )


def _figures(html: str) -> str:
    """The page of the benchmark, which stands alone, as one of the site."""
    title, body = re.search(r"<h1>(.*?)</h1>(.*)</body>", html, re.DOTALL).groups()  # type: ignore[union-attr]
    body = re.sub(r"<h2>(.*?)</h2>", r"</div>\n\n## \1\n\n<div class='figures'>", body)
    anew = "To measure anew: `python -m tests.bench --html tests/site/figures.html`."
    return f"# {title}\n\n{anew}\n\n<div class='figures'>{body}</div>\n"


def _navigation() -> Iterator[str]:
    for title, pages in SECTIONS.items():
        yield f"  - {title}:"
        yield from (f'      - "{page.title}": {page.place}' for page in pages)
    yield "  - Reference:"
    yield from (f'      - "{title}": reference/{module}.md' for module, title in MODULES.items())


def fetch_mermaid(assets: Path) -> None:
    """Take Mermaid from the npm registry, for diagrams that need no network when they are viewed."""
    subprocess.run(["npm", "pack", "--silent", MERMAID, "--pack-destination", assets], check=True)
    (packed,) = assets.glob("mermaid-*.tgz")
    with tarfile.open(packed) as archive:
        script = archive.extractfile("package/dist/mermaid.min.js")
        if script is None:
            raise SystemExit(f"{MERMAID} has no dist/mermaid.min.js")
        (assets / "mermaid.min.js").write_bytes(script.read())
    packed.unlink()


def build(folder: Path, tool: Tool) -> None:
    """Run ``tool`` strictly on the sources in ``folder``. SystemExit if it finds a fault."""
    program = {"zensical": ["zensical", "build", "--strict"], "material": ["mkdocs", "build", "--strict"]}[tool]
    ended = subprocess.run([Path(sys.executable).with_name(program[0]), *program[1:]], cwd=folder)
    if ended.returncode:
        raise SystemExit(ended.returncode)
