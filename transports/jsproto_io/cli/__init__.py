"""The ``jsproto`` command: its entry point, and one clear line when the packages it needs are missing.

Rules: before the check only the standard library is imported. So ``jsproto`` says in one line what to install where its
extra is missing.

Not here: the commands (``app``).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from io import TextIOWrapper

NEEDED = ("attrs", "typer", "rich", "plotille")


def main() -> None:
    """Run the command line. It ends the process with its exit code."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"jsproto: {', '.join(missing)} not installed: pip install 'jsproto[cli]'", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that cannot show a character shows another
            stream.reconfigure(errors="replace")
    try:
        from jsproto_io.cli.app import app
    except KeyboardInterrupt:  # the imports take a moment
        sys.exit(130)
    app(prog_name="jsproto")
