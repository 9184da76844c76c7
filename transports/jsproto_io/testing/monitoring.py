"""What test suites ask a nats-server's monitoring port, to find out that it runs: ``/varz`` and ``/healthz``.

Rules: it answers from a thread of its own, and looks at the server between two inputs. All other paths are not found.

Not here: the other pages of nats-server's monitoring, and most fields of ``/varz``.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from jsproto_io.testing.sockets import accept
from jsproto_io.testing.threads import MemoryServer


class _Listener(ThreadingHTTPServer):
    """One that waits where there is no file descriptor for a link."""

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, pause = accept(self.socket)
        if accepted is None:
            threading.Event().wait(pause)
            raise OSError("there is no request")
        return accepted, accepted.getpeername()


class Monitoring:
    """The monitoring port of ``server``. For a ``with`` block."""

    def __init__(self, server: MemoryServer, host: str, port: int) -> None:
        """Listen. ``port``: 0 for a free one.

        Raises:
            OSError: the address is in use.
        """

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                body = json.dumps({"status": "not found"} if page is None else page()).encode()
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: nats-server logs no requests either."""

        def varz() -> dict[str, Any]:
            info = server.role.server
            return {
                "server_id": info.server_id, "server_name": info.server_name, "version": info.version,
                "host": server.host, "port": server.port, "max_payload": info.max_payload,
                "connections": server.call(lambda role, now: len(role.sessions)),
            }  # fmt: skip

        pages: dict[str, Callable[[], dict[str, Any]]] = {"/varz": varz, "/healthz": lambda: {"status": "ok"}}
        self._server = _Listener((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="jsproto-monitoring", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
