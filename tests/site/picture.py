"""``python -m tests.site.picture``: record ``jsproto demo`` as demo.gif, for the README, and demo.svg, for the site.

Both are files of the repository, beside this one, to be made anew when the demo looks different. It needs the extras
``demo`` and ``pictures``: asciinema records, agg draws the GIF, termtosvg the SVG, which moves without a script.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
COLUMNS: Final = 100
ROWS: Final = 30
LAST: Final = 4  # seconds for which the end stands


def main() -> None:
    """Record, and draw both."""
    demo = f"printf '$ jsproto demo\\n'; {shlex.quote(sys.executable)} -m jsproto_io.cli demo"
    with tempfile.TemporaryDirectory() as scratch:
        svg = HERE / "demo.svg"
        cast = Path(scratch, "demo.cast")
        run("asciinema", "rec", "-q", "--cols", COLUMNS, "--rows", ROWS, "-c", demo, cast)
        run("agg", "--fps-cap", 10, "--idle-time-limit", 2, "--last-frame-duration", LAST, cast, HERE / "demo.gif")
        run("termtosvg-ng", "render", cast, svg, "-m", 40, "-M", 1500, "-D", 1000 * LAST)
        svg.write_text(svg.read_text().replace("&#10240;", " "))  # a blank of the plot is wider than its cell


def run(program: str, *arguments: object) -> None:
    """Run a program of this environment."""
    words = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    subprocess.run(words, check=True, env={**os.environ, "TERM": "xterm-256color"})


main()
