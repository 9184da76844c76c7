"""``python -m jsproto_io.serve``: a JetStream server in memory, for tests of any client in any language.

It takes the flags with which test suites start a nats-server, and prints the two lines for which they wait. The log
goes to standard error, in nats-server's form without the time of day. SIGINT and SIGTERM end it with exit code 0.

| flag | what it does |
|---|---|
| ``-p``, ``--port`` N | the TCP port, 4222 by default. 0 and -1: a free one |
| ``-a``, ``--addr``, ``--net`` HOST | the address, 127.0.0.1 by default |
| ``-js``, ``--jetstream`` | nothing: JetStream is always there |
| ``-sd``, ``--store_dir`` DIR | nothing is stored there, and a line of the log says so |
| ``-m``, ``--http_port`` N | nothing is served there, and a line of the log says so |
| ``-D``, ``-V``, ``-DV`` | nothing: there is no more to log |
| ``--user`` NAME, ``--pass`` WORD | the one user that may connect |
| ``--auth`` TOKEN | the token with which anybody may connect |
| ``--tlscert``, ``--tlskey`` FILE | TLS for all clients |
| ``--domain``, ``--release``, ``--dialect``, ``--ack-version`` | as in ``jsproto_io.testing.serve()`` |
| ``--max-payload``, ``--max-pending`` BYTES | the same |
| ``--limit`` NAME=N | a limit of batches: see ``jsproto.server.BatchLimits``. May be repeated |

Any other flag is refused with exit code 2, such as a configuration file, clusters or leaf nodes.

Not here: what the server answers (``jsproto.server``), the server as an object (``jsproto_io.testing``).
"""

from __future__ import annotations

import argparse
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from dataclasses import fields
from types import FrameType
from typing import Any, Final, NoReturn

import jsproto
from jsproto.errors import LocalProtocolError
from jsproto.server.access import Access, User
from jsproto.server.session import MAX_PENDING
from jsproto.server.store.context import REFERENCE, BatchLimits, Release
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD
from jsproto_io.testing.host import HOST
from jsproto_io.testing.threads import MemoryServer, serve

PORT: Final = 4222
OLDEST: Final[Release] = (2, 11, 0)
MEMORY_ONLY: Final = "In memory only, for tests: this is no database, and all is lost when it ends"
NEWEST: Final = ".".join(map(str, REFERENCE))
LIMITS: Final = {field.name: float if field.name == "idle" else int for field in fields(BatchLimits)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes. Returns the exit code: 0, or 1 when the port cannot be had."""
    try:
        return run(*asked_for(arguments))
    except LocalProtocolError as error:
        print(f"jsproto_io.serve: {error}", file=sys.stderr)
        return 2


def asked_for(arguments: Sequence[str] | None = None) -> tuple[MemoryServer, list[str]]:
    """The server that the flags ask for, and warnings for its log. It does not listen yet.

    Raises:
        LocalProtocolError: the value of a flag is unusable.
        SystemExit: a flag is unknown. The complaint is printed.
    """
    options = _parser().parse_args(arguments)
    notes = []
    if options.store_dir is not None:
        notes.append(f"Nothing is stored in {options.store_dir}")
    if options.http_port is not None:
        notes.append(f"There is no monitoring on port {options.http_port}")
    server = server_of(
        options.addr, options.port, options.tlscert, options.tlskey, options.limit, domain=options.domain,
        release=release(options.release), dialect=options.dialect, ack_version=options.ack_version,
        max_payload=options.max_payload, max_pending=options.max_pending,
        access=access(options.user, options.password, options.auth),
    )  # fmt: skip
    return server, notes


def server_of(
    host: str, port: int, certificate: str | None, key: str | None, limits: Sequence[str], **options: Any
) -> MemoryServer:
    """The server that the options of a command line ask for. It does not listen yet.

    Args:
        host: the address.
        port: the TCP port. 0 and -1: a free one.
        certificate: a file for TLS, or None.
        key: the file of its private key. None: it is in the same file.
        limits: of batches, each as NAME=N.
        options: see ``jsproto_io.testing.host.RoleKeywords``.

    Raises:
        LocalProtocolError: a limit is unknown or no number, or a file of TLS is unusable.
    """
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(certificate, key)
        except OSError as error:  # an ssl.SSLError is one
            raise LocalProtocolError(f"{certificate} is no certificate with its key: {error}") from error
    given: dict[str, Any] = {}
    for each in limits:
        name, _, number = each.partition("=")
        try:
            given[name] = LIMITS[name](number)
        except (KeyError, ValueError):
            raise LocalProtocolError(f"a limit is NAME=N, with a name of {', '.join(LIMITS)}: {each!r}") from None
    return serve(host=host, port=max(port, 0), tls=context, limits=BatchLimits(**given), **options)


def access(user: str, password: str, token: str) -> Access | None:
    """Who may connect, by the flags. A token takes precedence, as in nats-server. None: anybody.

    Raises:
        LocalProtocolError: the password or the token is hashed.
    """
    if token:
        return Access(token=token)
    return Access([User(user, password)]) if user else None


def release(text: str) -> Release:
    """``2.14.0`` as numbers.

    Raises:
        LocalProtocolError: these are not three numbers, or the release is not one that the server knows.
    """
    numbers = tuple(int(each) if each.isascii() and each.isdigit() else -1 for each in text.split("."))
    if len(numbers) != 3 or min(numbers) < 0 or not OLDEST <= numbers <= REFERENCE:
        known = " to ".join(".".join(map(str, each)) for each in (OLDEST, REFERENCE))
        raise LocalProtocolError(f"a release is {known}, not {text!r}")
    return numbers


def run(server: MemoryServer, notes: Sequence[str] = ()) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code: 0, or 1 when the port cannot be had.

    ``notes``: lines of warning for the log.
    """
    previous = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _log(
            "INF", f"Starting jsproto {jsproto.__version__}, which answers as nats-server {server.role.context.version}"
        )
        for note in (MEMORY_ONLY, *notes):
            _log("WRN", note)
        try:
            server.start()
        except OSError as error:
            _log("FTL", f"Error listening on {server.host}:{server.port}: {error}")
            return 1
        try:
            _log("INF", f"Listening for client connections on {server.host}:{server.port}")
            _log("INF", "Server is ready")
            server.wait()
        finally:
            server.close()
    except KeyboardInterrupt:
        _log("INF", "Server Exiting..")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jsproto_io.serve",
        description="A JetStream server in memory, for tests. It is no database.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-p", "-port", "--port", type=int, default=PORT, metavar="N", help="TCP port; 0 or -1 for a free one")
    add("-a", "-addr", "--addr", "--net", default=HOST, metavar="HOST", help="the address to listen on")
    add("-js", "-jetstream", "--js", "--jetstream", action="store_true", help="nothing: JetStream is always there")
    add("-sd", "-store_dir", "--store_dir", metavar="DIR", help="nothing is stored there")
    add("-m", "-http_port", "--http_port", metavar="N", help="nothing is served there")
    add("-D", "-V", "-DV", "--debug", "--trace", action="store_true", help="nothing: there is no more to log")
    add("-user", "--user", default="", metavar="NAME", help="the one user that may connect")
    add("-pass", "--pass", dest="password", default="", metavar="WORD", help="the password of the user")
    add("-auth", "--auth", default="", metavar="TOKEN", help="the token with which anybody may connect")
    add("-tlscert", "--tlscert", metavar="FILE", help="TLS, with this certificate")
    add("-tlskey", "--tlskey", metavar="FILE", help="the key of the certificate, if it is in another file")
    add("--domain", metavar="NAME", help="the JetStream domain")
    add("--release", default=NEWEST, metavar="X.Y.Z", help="the release to answer as")
    add("--dialect", choices=["released", "draft"], default="released", help="draft: the text of ADR-50 and ADR-31")
    add("--ack-version", type=int, choices=[1, 2], default=1, help="of the subjects on which messages are acknowledged")
    add("--max-payload", type=int, default=DEFAULT_MAX_PAYLOAD, metavar="BYTES", help="of a message")
    add("--max-pending", type=int, default=MAX_PENDING, metavar="BYTES", help="that a client may leave unread")
    add("--limit", action="append", default=[], metavar="NAME=N", help=f"of batches: {', '.join(LIMITS)}")
    version = f"jsproto {jsproto.__version__}"
    add("-v", "-version", "--version", action="version", version=version, help="print the version and exit")
    return parser


def _log(level: str, text: str) -> None:
    print(f"[{os.getpid()}] [{level}] {text}", file=sys.stderr, flush=True)


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
