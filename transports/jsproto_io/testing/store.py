"""The directory in which a server in memory leaves what survives its end: one file, read again at the start.

Rules:

* The file is replaced as a whole, so there is the old one or the new one. It is no database: a crash loses what is new.
* An unreadable file stays as it is: the server refuses to start.

Not here: what is in the file (``jsproto.server.saved``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from jsproto.errors import LocalProtocolError
from jsproto.server import Server, restore, save

FILE: Final = "jsproto-server.saved"


class Store:
    """One directory. Attributes: ``path``, the file in it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Make ``directory`` if it is not there.

        Raises:
            OSError: it cannot be made, or nothing can be written in it.
        """
        self.path = Path(directory, FILE)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path.parent, os.W_OK):
            raise PermissionError(f"nothing can be written in {self.path.parent}")

    def load(self, role: Server, now: float) -> int:
        """Give ``role``, which has no streams, those of the file, if there is one. Returns how many. ``now``: seconds.

        Raises:
            LocalProtocolError: the file is of something else, of another version or damaged. It stays as it is.
            OSError: it cannot be read.
        """
        try:
            saved = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        try:
            restore(role, saved, now)
        except LocalProtocolError as error:
            raise LocalProtocolError(f"{self.path}: {error}") from error
        return len(role.api.streams)

    def write(self, role: Server, now: float) -> None:
        """Replace the file by what ``role`` keeps. ``now``: seconds.

        Raises:
            OSError: it cannot be written. The old file stays.
        """
        saved = save(role, now)
        new = self.path.with_name(f"{FILE}.{os.getpid()}")
        try:
            with new.open("wb") as file:
                file.write(saved)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)
