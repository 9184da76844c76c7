"""The targets by name. A target takes any bytes and raises only when its first line does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fuzz.targets import client_bytes, control_json, header_block, server_bytes

TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "client_bytes": client_bytes.run,
    "server_bytes": server_bytes.run,
    "header_block": header_block.run,
    "control_json": control_json.run,
}
