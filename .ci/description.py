"""The description in the package: the README, whose links need the public address of the repository.

Links to files lead below ``Repository`` in ``[project.urls]``. While that has no address they are their text, and
pictures are left out, so that no link is dead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Description(MetadataHookInterface):
    """Called by hatchling, which builds the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``."""
        address = metadata.get("urls", {}).get("Repository")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")

        def link(found: re.Match[str]) -> str:
            picture, words, target = found.groups()
            if address:
                return f"{picture}[{words}]({address}/{'raw' if picture else 'blob'}/HEAD/{target})"
            return "" if picture else words

        text = re.sub(r"(!?)\[([^]\n]*)\]\((?!https?:|#)([^)\s]+)\)", link, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
