"""The options of every command that talks to servers: where to connect, as whom, and how to print.

Rules
 * They have one home: ``with_common`` adds them to a command, which gets them as one value.
 * An option goes before its environment variable, and a variable before the context of the NATS command line.
 * A failure to connect names the address.

Not here: what the variables and contexts mean (``jsproto_io.contexts``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, TypeVar

import typer

from jsproto_io.cli.terminal import Screen

if TYPE_CHECKING:
    from rich.table import Table

    from jsproto_io.contexts import Settings
    from jsproto_io.sync import Connection, InfoLister, JetStream

Command: TypeAlias = Callable[..., None]


class _Described(Protocol):
    """What a server says of a stream or a consumer."""

    def to_json(self) -> dict[str, Any]: ...


Described = TypeVar("Described", bound=_Described)


def _options(
    servers: Annotated[
        str | None, typer.Option("--servers", "--server", "-s", help="NATS URLs, comma-separated.", metavar="URL")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="A context of the NATS command line, or its file.", metavar="NAME")
    ] = None,
    user: Annotated[str | None, typer.Option(help="User name.", metavar="NAME")] = None,
    password: Annotated[str | None, typer.Option(help="Password.", metavar="TEXT")] = None,
    token: Annotated[str | None, typer.Option(help="Token.", metavar="TEXT")] = None,
    creds: Annotated[str | None, typer.Option(help="A file of credentials.", metavar="FILE")] = None,
    nkey: Annotated[str | None, typer.Option(help="A file with the seed of a user's nkey.", metavar="FILE")] = None,
    tlscert: Annotated[str | None, typer.Option(help="The client's certificate.", metavar="FILE")] = None,
    tlskey: Annotated[str | None, typer.Option(help="Its private key.", metavar="FILE")] = None,
    tlsca: Annotated[
        str | None, typer.Option(help="Certificates to trust, instead of the system's.", metavar="FILE")
    ] = None,
    tlsfirst: Annotated[bool, typer.Option("--tlsfirst", help="TLS begins before the server's INFO.")] = False,
    js_domain: Annotated[str | None, typer.Option(help="The JetStream domain.", metavar="NAME")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, max=86_400, help="Wait so long for each answer.", metavar="SECONDS")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no notes.")] = False,
) -> None:
    """The parameters, of which typer reads names, types, defaults and help."""


@dataclass(frozen=True, slots=True)
class Common:
    """The options of ``with_common``, as the command line has them."""

    servers: str | None = None
    context: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    creds: str | None = None
    nkey: str | None = None
    tlscert: str | None = None
    tlskey: str | None = None
    tlsca: str | None = None
    tlsfirst: bool = False
    js_domain: str | None = None
    timeout: float = 5.0
    as_json: bool = False
    quiet: bool = False

    def screen(self) -> Screen:
        """Where to print."""
        return Screen(self.as_json, self.quiet)

    def settings(self) -> Settings:
        """Where to connect to, and as whom.

        Raises:
            SettingsError: an option, a variable or a context cannot be used.
        """
        from jsproto_io.contexts import from_env

        return from_env(
            context=self.context,
            use_selected=True,
            url=self.servers,
            user=self.user,
            password=self.password,
            token=self.token,
            creds=self.creds,
            nkey=self.nkey,
            cert=self.tlscert,
            key=self.tlskey,
            ca=self.tlsca,
            tls_first=self.tlsfirst or None,
            jetstream_domain=self.js_domain,
        )

    @contextmanager
    def connected(self, name: str, **options: Any) -> Iterator[tuple[Connection, JetStream]]:
        """A connection, and its JetStream, for a block.

        Args:
            name: what the server shows as the client's name, after "jsproto".
            options: further options of ``jsproto_io.sync.connect``.

        Raises:
            SettingsError: as of ``settings``.
            CannotConnectError: the handshake failed.
            Error: otherwise as in ``jsproto_io.sync.connect``.
        """
        from jsproto_io.cli.connecting import open_connection

        settings = self.settings()
        given: dict[str, Any] = {"timeout": self.timeout, **settings.connect, **options}
        with open_connection(name=f"jsproto {name}", **given) as nc:
            yield nc, nc.jetstream(**settings.jetstream)

    def print_list(
        self,
        screen: Screen,
        names: Callable[[], Iterable[str]],
        infos: InfoLister[Described],
        table: Callable[[list[Described], int], Table],
        none: str,
    ) -> None:
        """Print all that a server has of one kind: names with ``quiet``, JSON lines, or a table.

        A note names those that the server had to leave out.

        Args:
            screen: where to print.
            names: asks for their names.
            infos: what the server says of each, asked for when it is iterated over.
            table: makes the table, of a width in columns.
            none: the line for people when there is none.
        """
        if self.quiet and not self.as_json:
            for name in names():
                screen.write(f"{name}\n".encode(errors="surrogateescape"))
        elif self.as_json:
            for info in infos:
                screen.dump(info.to_json())
        elif found := list(infos):
            screen.out.print(table(found, screen.out.width))
        elif not infos.missing:
            screen.say(none)
        if infos.missing:
            screen.note(f"the server could not show: {', '.join(infos.missing)}")


def adding(options: Callable[..., None], kind: type[Any], name: str) -> Callable[[Command], Command]:
    """A decorator that adds the parameters of ``options`` to a command, which gets them as its argument ``name``.

    ``kind`` is the dataclass that takes them. They come after the command's own.
    """
    names = [each.name for each in fields(kind)]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        shared = inspect.signature(options, eval_str=True).parameters

        @wraps(command)
        def run(**values: Any) -> None:
            given = kind(**{each: values.pop(each) for each in names})
            command(**{name: given}, **values)

        kept = [each for each in own.values() if each.name != name]
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*kept, *shared.values())]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in every}
        return run

    return decorate


with_common = adding(_options, Common, "common")
