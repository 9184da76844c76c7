"""``python -m jsproto`` says where to read on: the wheel has no pages.

Not here: the command line (``jsproto_io.cli``).
"""

from __future__ import annotations

from typing import Final

from jsproto import __version__

WHERE: Final = f"""\
jsproto {__version__} is a library. Where to read on:

  pages      README.md of the repository, which is in the source distribution, too
             (pip download --no-deps --no-binary :all: jsproto=={__version__})
  names      python -m pydoc jsproto_io.sync   or jsproto_io.asyncio, jsproto_io.trio, jsproto
  command    jsproto --help                    (pip install 'jsproto[cli]')
  a server   jsproto serve --memory            for a first look, and for tests
"""

if __name__ == "__main__":
    print(WHERE, end="")
