"""``python -m tests.site OUT``: build the site into the folder OUT."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.site.build import build, fetch_mermaid, write_sources


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.site", description="Build the site into a folder.")
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--with",
        dest="tools",
        choices=["zensical", "material"],
        action="append",
        help="with this one, and not zensical; repeated: with each of them, and OUT has what the last one made",
    )
    parser.add_argument("--plain", action="store_true", help="without Mermaid: diagrams stay text")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_sources(folder)
        assets = folder / "docs" / "assets"
        if asked.plain:
            (assets / "mermaid.min.js").write_text("")
        else:
            fetch_mermaid(assets)
        for tool in asked.tools or ["zensical"]:
            build(folder, tool)
        shutil.copytree(folder / "site", asked.out, dirs_exist_ok=True)


main()
