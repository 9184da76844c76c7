"""``python -m jsproto_io.serve``: a JetStream server in memory, for tests of any client in any language.

It takes the flags with which test suites start a nats-server, and prints the two lines for which they wait. The log
goes to standard error, in nats-server's form, and leaves the time of day out. SIGINT and SIGTERM end it with exit code
0.

| flag | what it does |
|---|---|
| ``-p``, ``--port`` N | the TCP port, 4222 by default. 0 and -1: a free one |
| ``-a``, ``--addr``, ``--net`` HOST | the address, 127.0.0.1 by default |
| ``-js``, ``--jetstream`` | nothing: JetStream is always there |
| ``-sd``, ``--store_dir`` DIR | what has file storage is left there at the end, and found at the next start |
| ``-m``, ``--http_port`` N | ``/varz`` and ``/healthz`` are served there. 0 and -1: a free port |
| ``-D``, ``-V``, ``-DV``, ``-T`` | nothing: there is no more to log |
| ``--user`` NAME, ``--pass`` WORD | the one user that may connect |
| ``--auth`` TOKEN | the token with which anybody may connect |
| ``-P``, ``--pid`` FILE | the id of the process is written there |
| ``-l``, ``--log`` FILE | the log is written there, not to standard error |
| ``--tls``, ``--tlscert``, ``--tlskey`` FILE | TLS for all clients |
| ``--tlsverify``, ``--tlscacert`` FILE | clients have to show a certificate of that authority |
| ``--domain``, ``--release``, ``--dialect``, ``--ack-version`` | as in ``jsproto_io.testing.serve()`` |
| ``--max-payload``, ``--max-pending`` BYTES | the same |
| ``--limit`` NAME=N | a limit of ``jsproto.server.BatchLimits`` or ``AccountLimits``. May be repeated |

Any other flag is refused with exit code 2, such as clusters or leaf nodes. So is ``-c`` with its configuration files.

Not here: what the server answers (``jsproto.server``), the server as an object (``jsproto_io.testing``).
"""

from __future__ import annotations

import argparse
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn, TextIO

import jsproto
from jsproto.errors import LocalProtocolError
from jsproto.server.access import Access, User
from jsproto.server.session import MAX_PENDING
from jsproto.server.store.context import REFERENCE, AccountLimits, BatchLimits, Release
from jsproto.wire.limits import DEFAULT_MAX_PAYLOAD
from jsproto_io.testing.host import HOST
from jsproto_io.testing.monitoring import Monitoring
from jsproto_io.testing.store import Store
from jsproto_io.testing.threads import MemoryServer, serve
from jsproto_io.testing.users import read_access

PROGRAM: Final = "python -m jsproto_io.serve"
PORT: Final = 4222
OLDEST: Final[Release] = (2, 11, 0)
MEMORY_ONLY: Final = "In memory only, for tests: this is no database, and all is lost when it ends"
UNTIL_THE_END: Final = "In memory, for tests: this is no database, and a crash loses all. At the end it is left in"
NEWEST: Final = ".".join(map(str, REFERENCE))
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)
OF_BATCHES: Final = frozenset(field.name for field in fields(BatchLimits))
LIMITS: Final = {
    field.name: float if field.name == "idle" else int for field in (*fields(BatchLimits), *fields(AccountLimits))
}


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Serve until a signal comes. Returns the exit code: 0, or 1 when the port is taken."""
    try:
        asked = asked_for(arguments, program)
        return run(asked.server, asked.http_port, store=asked.store, log=asked.log)
    except (LocalProtocolError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


class Asked(NamedTuple):
    """What the flags ask for: a server, the port of its monitoring, where its streams are left, and where it logs."""

    server: MemoryServer
    http_port: int | None
    store: Store | None
    log: TextIO | None


def asked_for(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> Asked:
    """What the flags ask for. The server has yet to listen. ``program``: the name of the command, for complaints.

    Raises:
        LocalProtocolError: the value of a flag is unusable.
        OSError: a file of a flag cannot be written.
        SystemExit: a flag is unknown. The complaint is printed.
    """
    options = _parser(program).parse_args(arguments)
    if options.tls and options.tlscert is None:
        raise LocalProtocolError("TLS needs a certificate: --tlscert")
    if not options.auth and bool(options.user) != bool(options.password):  # a token takes precedence
        raise LocalProtocolError("a user has a name and a password: --user NAME --pass WORD")
    server = server_of(
        options.addr, options.port, options.tlscert, options.tlskey, options.limit,
        tls_ca=(options.tlscacert or options.tlscert) if options.tlsverify else None, domain=options.domain,
        release=release(options.release), dialect=options.dialect, ack_version=options.ack_version,
        max_payload=options.max_payload, max_pending=options.max_pending,
        access=access(options.user, options.password, options.auth, options.users),
    )  # fmt: skip
    if options.pid is not None:
        Path(options.pid).write_text(f"{os.getpid()}", encoding="ascii")
    store = None if options.store_dir is None else Store(options.store_dir)
    return Asked(
        server, options.http_port, store, None if options.log is None else Path(options.log).open("a", encoding="utf-8")
    )


def server_of(
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
    limits: Sequence[str],
    *,
    tls_ca: str | None = None,
    **options: Any,
) -> MemoryServer:
    """The server that the options of a command line ask for. It has yet to listen.

    Args:
        host: the address.
        port: the TCP port. 0 and -1: a free one.
        certificate: a file for TLS, or None.
        key: the file of its private key. None: it is in the same file.
        limits: of batches and of the account, each as NAME=N.
        tls_ca: a file with the authority whose certificates clients have to show, or None.
        options: see ``jsproto_io.testing.host.RoleKeywords``.

    Raises:
        LocalProtocolError: a limit is unknown or no number, or a file of TLS is unusable.
    """
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(certificate, key)
            if tls_ca is not None:
                context.load_verify_locations(tls_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # an ssl.SSLError is one
            raise LocalProtocolError(f"{certificate} is no certificate with its key: {error}") from error
    given: dict[str, Any] = {}
    for each in limits:
        name, _, number = each.partition("=")
        try:
            given[name] = LIMITS[name](number)
        except (KeyError, ValueError):
            raise LocalProtocolError(f"a limit is NAME=N, with a name of {', '.join(LIMITS)}: {each!r}") from None
    of_batches = {name: value for name, value in given.items() if name in OF_BATCHES}
    of_account = AccountLimits(**{name: value for name, value in given.items() if name not in OF_BATCHES})
    return serve(
        host=host, port=max(port, 0), tls=context, limits=BatchLimits(**of_batches), account_limits=of_account,
        **options,
    )  # fmt: skip


def access(user: str, password: str, token: str, users: str | None = None) -> Access | None:
    """Who may connect, by the flags. A token takes precedence, as in nats-server. None: anybody.

    ``users``: a file, see ``jsproto_io.testing.users``.

    Raises:
        LocalProtocolError: the password or the token is hashed, or there are users in more than one place.
        OSError: the file cannot be read.
    """
    if users is not None:
        if token or user:
            raise LocalProtocolError("users are in the file alone: leave out --user, --pass and --auth")
        return read_access(users)
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


def run(
    server: MemoryServer, http_port: int | None = None, *, store: Store | None = None, log: TextIO | None = None
) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code: 0, or 1 when a port or the store cannot be had.

    Args:
        server: does not run yet.
        http_port: of the monitoring. 0 and -1: a free one. None: there is no monitoring.
        store: where streams are found, and left at the end.
        log: where the log goes. None: to standard error.
    """

    def say(level: str, text: str) -> None:
        print(f"[{os.getpid()}] [{level}] {text}", file=log or sys.stderr, flush=True)

    previous = {number: signal.signal(number, _stop) for number in _ENDS}
    try:
        say(
            "INF", f"Starting jsproto {jsproto.__version__}, which answers as nats-server {server.role.context.version}"
        )
        say("WRN", MEMORY_ONLY if store is None else f"{UNTIL_THE_END} {store.path}")
        if store is not None:
            try:
                say("INF", f"Streams that were found: {server.call(store.load)}")
            except (LocalProtocolError, OSError) as error:
                say("FTL", f"Error restoring: {error}")
                return 1
        try:
            server.start()
        except OSError as error:
            say("FTL", f"Error listening on {server.host}:{server.port}: {error}")
            return 1
        with ExitStack() as stack:
            stack.callback(server.close)
            try:
                if http_port is not None:
                    try:
                        monitoring = stack.enter_context(Monitoring(server, server.host, max(http_port, 0)))
                    except OSError as error:
                        say("FTL", f"Can't listen to the monitor port: {error}")
                        return 1
                    say("INF", f"Starting http monitor on {server.host}:{monitoring.port}")
                say("INF", f"Listening for client connections on {server.host}:{server.port}")
                say("INF", "Server is ready")
                server.wait()
            except KeyboardInterrupt:
                server.call(lambda role, now: role.shut_down(now))
                raise
    except KeyboardInterrupt:
        say("INF", "Server Exiting..")
        if store is not None:
            server.call(store.write)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="A JetStream server in memory, for tests. It is no database.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-p", "-port", "--port", type=int, default=PORT, metavar="N", help="TCP port; 0 or -1 for a free one")
    add("-a", "-addr", "--addr", "--net", default=HOST, metavar="HOST", help="the address to listen on")
    add("-js", "-jetstream", "--js", "--jetstream", action="store_true", help="nothing: JetStream is always there")
    add("-sd", "-store_dir", "--store_dir", metavar="DIR", help="what has file storage is left there at the end")
    add(
        "-m",
        "-http_port",
        "--http_port",
        metavar="N",
        type=int,
        help="the port of /varz and /healthz",
    )
    add("-c", "-config", "--config", type=_no_file, metavar="FILE", help="nothing: configuration files are not read")
    add("-user", "--user", default="", metavar="NAME", help="the one user that may connect")
    add("-pass", "--pass", dest="password", default="", metavar="WORD", help="the password of the user")
    add("-auth", "--auth", default="", metavar="TOKEN", help="the token with which anybody may connect")
    add("--users", metavar="FILE", help="who may connect, and do what: the block authorization of nats-server, as JSON")
    add("-P", "-pid", "--pid", metavar="FILE", help="the id of the process is written there")
    add("-l", "-log", "--log", metavar="FILE", help="the log is written there")
    no_more = "nothing: there is no more to log"
    add("-D", "-V", "-DV", "-T", "--debug", "--trace", "--logtime", action="store_true", help=no_more)
    add("-tlscert", "--tlscert", metavar="FILE", help="TLS, with this certificate")
    add("-tlskey", "--tlskey", metavar="FILE", help="the key of the certificate, if it is in another file")
    add("-tls", "--tls", action="store_true", help="TLS, as --tlscert says")
    add("-tlsverify", "--tlsverify", action="store_true", help="clients have to show a certificate")
    add("-tlscacert", "--tlscacert", metavar="FILE", help="the authority of the certificates of clients")
    add("--domain", metavar="NAME", help="the JetStream domain")
    add("--release", default=NEWEST, metavar="X.Y.Z", help="the release to answer as")
    add("--dialect", choices=["released", "draft"], default="released", help="draft: the text of the specifications")
    add("--ack-version", type=int, choices=[1, 2], default=1, help="of the subjects on which messages are acknowledged")
    add("--max-payload", type=int, default=DEFAULT_MAX_PAYLOAD, metavar="BYTES", help="of a message")
    add("--max-pending", type=int, default=MAX_PENDING, metavar="BYTES", help="that a client may leave unread")
    add("--limit", action="append", default=[], metavar="NAME=N", help=f"one of {', '.join(LIMITS)}")
    version = f"jsproto {jsproto.__version__}"
    add("-v", "-version", "--version", action="version", version=version, help="print the version and exit")
    return parser


def _no_file(name: str) -> NoReturn:
    raise argparse.ArgumentTypeError("configuration files are not read")


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)  # it ends already
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
