"""The READMEs of the repository, for the tests that run their programs and check their promises and words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDERS: Final = (
    ".", "jsproto", "transports/jsproto_io", "transports/jsproto_io/cli", "transports/jsproto_io/testing",
    "transports/pyspark_jetstream", "tests", "fuzz",
)  # fmt: skip
PAGES: Final = (
    "jsproto/EMBEDDING.md", "jsproto/TABLES.md", "transports/jsproto_io/NATS_PY.md",
    "transports/jsproto_io/REFERENCE.md", "transports/jsproto_io/WORKERS.md",
)  # fmt: skip
"""Pages beside a README, which belong to it."""
TOUR: Final = "jsproto/TOUR.md"
START: Final = "transports/jsproto_io/START.md"
BUCKETS: Final = "transports/jsproto_io/BUCKETS.md"
TOURS: Final = (TOUR, START, BUCKETS)
"""Pages that explain. They promise nothing: what they tell is promised on the pages above."""
READMES: Final = {
    **{folder: (ROOT / folder / "README.md").read_text(encoding="utf-8") for folder in FOLDERS},
    **{page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES},
}
SHOWN: Final = {**READMES, **{page: (ROOT / page).read_text(encoding="utf-8") for page in TOURS}}
_PROGRAM: Final = re.compile(r"```python\n(.*?)```", re.DOTALL)


def programs(folder: str) -> list[str]:
    """The Python programs of the README in ``folder``, or of this page, in their order."""
    return _PROGRAM.findall(SHOWN[folder])


def program_with(folder: str, words: str) -> str:
    """The one program of the README in ``folder``, or of this page, that has ``words``."""
    (found,) = [program for program in programs(folder) if words in program]
    return found
