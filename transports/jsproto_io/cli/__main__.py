"""``python -m jsproto_io.cli``: the ``jsproto`` command."""

from jsproto_io.cli import main

main()
