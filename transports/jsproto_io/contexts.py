"""Where a program connects to, and as whom: environment variables, and the contexts of the NATS command line (ADR-21).

    from jsproto_io import from_env
    from jsproto_io.sync import connect

    settings = from_env()
    with connect(**settings.connect) as nc:
        js = nc.jetstream(**settings.jetstream)

A context is the file ``nats/context/NAME.json`` below ``$XDG_CONFIG_HOME``, or else below ``~/.config``. The file
``nats/context.txt`` has the name of the selected one.

Rules
 * Names, fields and variables are those of the command ``nats``. ``~`` and ``$NAME`` in paths are expanded.
 * An argument goes before a variable, and a variable before a field of the context.
 * Credentials that come first replace all credentials of the rest. A password, or a seed, alone completes them.
 * A value may be ``env://NAME``, ``file://PATH`` or ``data:;base64,TEXT`` where it is a secret, or a file with one.
 * An error names the file and the field, and shows paths alone of the values.
 * Permissions of files are the operating system's business, as for ``nats``: a file that others can read is read.
 * What would be ignored at one's peril is refused: a SOCKS proxy, ``nsc``, certificates of Windows.

Not here: writing files of contexts (``cli.context_files``), and ``op://`` and ``nsc://`` run no programs.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast

from jsproto.client.connection.connect_options import connect_options
from jsproto.errors import ContextNotFoundError, LocalProtocolError, SettingsError
from jsproto_io._state.connecting import ConnectKeywords
from jsproto_io._state.credentials import looks_secret

__all__ = [
    "ConnectArguments",
    "JetStreamArguments",
    "SettingFields",
    "Settings",
    "from_env",
    "load",
    "names",
    "selected",
]

MAX_FILE: Final = 1_048_576  # bytes of a context

VARIABLES: Final = {
    "url": "NATS_URL", "user": "NATS_USER", "password": "NATS_PASSWORD", "token": "NATS_TOKEN", "creds": "NATS_CREDS",
    "nkey": "NATS_NKEY", "user_jwt": "NATS_JWT", "user_seed": "NATS_SEED", "cert": "NATS_CERT", "key": "NATS_KEY",
    "ca": "NATS_CA", "socks_proxy": "NATS_SOCKS_PROXY",
}  # fmt: skip
"""The environment variable of each field."""
_KINDS: Final = ("user", "token", "creds", "nkey", "user_jwt")  # of credentials, each of which excludes the others
_COMPLETIONS: Final = {"user": "password", "user_jwt": "user_seed"}
_REFUSED: Final = {
    "socks_proxy": "there are no SOCKS proxies here",
    "nsc": "nsc is not asked; give the file that it names as creds",
    "windows_cert_store": "certificates of Windows are not read; give cert, key and ca",
}
_PROGRAMS: Final = ("op://", "nsc://")  # schemes of values that other programs hold


class SettingFields(TypedDict, total=False):
    """The fields of a context, as ADR-21 has them. None, and an empty text, count as missing.

    Attributes:
        url: one server, or several with commas.
        user: with ``password``.
        password: of ``user``.
        token: in the place of a user.
        creds: the path of a ``.creds`` file.
        nkey: the path of a file with a seed.
        user_jwt: the JWT itself.
        user_seed: the seed that goes with it.
        cert: the path of the client's certificate.
        key: the path of its private key.
        ca: the path of the certificates to trust, instead of the system's.
        tls_first: TLS begins before INFO.
        inbox_prefix: of the subjects for answers.
        jetstream_domain: the domain of JetStream.
        jetstream_api_prefix: another API subject than ``$JS.API``.
        nsc: refused, as are ``socks_proxy`` and ``windows_cert_store``.
    """

    url: str | None
    user: str | None
    password: str | None
    token: str | None
    creds: str | os.PathLike[str] | None
    nkey: str | os.PathLike[str] | None
    user_jwt: str | None
    user_seed: str | None
    cert: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    ca: str | os.PathLike[str] | None
    tls_first: bool | None
    inbox_prefix: str | None
    jetstream_domain: str | None
    jetstream_api_prefix: str | None
    nsc: str | None
    socks_proxy: str | None
    windows_cert_store: str | None


class ConnectArguments(ConnectKeywords, total=False):
    """Keyword arguments of each driver's ``connect()``."""

    servers: str


class JetStreamArguments(TypedDict, total=False):
    """Keyword arguments of ``Connection.jetstream()``."""

    domain: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to connect to, and as whom.

    Attributes:
        connect: the keyword arguments for ``connect()``. They may hold secrets, which the repr does not show.
        jetstream: the keyword arguments for ``Connection.jetstream()``.
        context: the name of the context. None: there is none.
        path: the path of its file, or None.
    """

    connect: ConnectArguments = field(repr=False)
    jetstream: JetStreamArguments = field(default_factory=lambda: JetStreamArguments())
    context: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class _Value:
    """One field, and where it stands: in the context ``path``, or else in a variable or an argument."""

    value: Any = field(repr=False)
    path: str | None
    field: str


def load(name: str | os.PathLike[str] | None = None, **fields: Unpack[SettingFields]) -> Settings:
    """The settings of a context.

    Args:
        name: the name of the context, or the path of a file that ends with ``.json``. None: the selected context.
        fields: they go before those of the context.

    Raises:
        ContextNotFoundError: there is no such context, or none is selected.
        SettingsError: the context, or a file that it names, cannot be used.
    """
    if name is None and (name := selected()) is None:
        raise ContextNotFoundError("no context is selected", str(folder() / "context.txt"))
    shown, path = find_file(os.fspath(name))
    return _settings([_given(fields), _read_context(path)], shown, str(path))


def from_env(
    *,
    context: str | None = None,
    use_selected: bool = False,
    **fields: Unpack[SettingFields],
) -> Settings:
    """The settings that the environment has: ``NATS_URL``, ``NATS_CREDS`` and so on, and the context ``NATS_CONTEXT``.

    Without any the server is ``nats://localhost:4222``. As for ``nats``, a ``NATS_USER`` alone is a token.

    Args:
        context: the name of a context, or its path. None: that of ``NATS_CONTEXT``, if it is set.
        use_selected: where neither names a context, take the selected one, if there is one, as ``nats`` does.
        fields: they go before the variables.

    Raises:
        ContextNotFoundError: there is no such context.
        SettingsError: the context, a variable, or a file that one of them names cannot be used.
    """
    layers = [_given(fields), _variables()]
    name = context or os.environ.get("NATS_CONTEXT") or (selected() if use_selected else None)
    if name is None:
        return _settings(layers, None, None)
    shown, path = find_file(name)
    return _settings([*layers, _read_context(path)], shown, str(path))


def selected() -> str | None:
    """The name of the context that is selected in the NATS command line. None: there is none.

    Raises:
        SettingsError: the file that has it cannot be read.
    """
    path = folder() / "context.txt"
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read it: {_why(error)}", str(path)) from None


def names() -> list[str]:
    """The names of the contexts, sorted."""
    try:
        return sorted(path.stem for path in (folder() / "context").glob("*.json") if path.is_file())
    except OSError:  # nobody may look into the folder: there is none for this user
        return []


# -- where a value comes from ------------------------------------------------------------------------------------------


def folder() -> Path:
    """The folder of ``nats``, in which contexts are."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "nats"


def find_file(name: str) -> tuple[str, Path]:
    """The name and the file of a context."""
    path = Path(name).expanduser()
    if name.endswith(".json") and os.path.isfile(path):
        return path.stem, path
    if not name or ".." in name or "/" in name or "\\" in name:
        raise ContextNotFoundError(f"no context can have the name {name!r}, and there is no such file")
    return name, folder() / "context" / f"{name}.json"


def _read_context(path: Path) -> dict[str, _Value]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE)
    except FileNotFoundError:
        known = ", ".join(names()) or "none at all"
        raise ContextNotFoundError(f"there is no such context; there are: {known}", str(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a null in the name
        raise SettingsError(f"cannot read it: {_why(error)}", str(path)) from None
    try:
        found = json.loads(content)
    except ValueError as error:  # whose text has no part of the content
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise SettingsError(f"it is no JSON{where}", str(path)) from None
    except RecursionError:
        raise SettingsError("it is no JSON of a context", str(path)) from None
    if not isinstance(found, dict):
        raise SettingsError(f"it must be a JSON object, not {type(found).__name__}", str(path))
    return {
        name: _Value(found[name], str(path), name)
        for name in SettingFields.__annotations__
        if found.get(name) not in (None, "")
    }


def _variables() -> dict[str, _Value]:
    found = {name: _Value(os.environ[each], None, each) for name, each in VARIABLES.items() if os.environ.get(each)}
    if "user" in found and "password" not in found:
        found["token"] = found.pop("user")
    return found


def _given(fields: SettingFields) -> dict[str, _Value]:
    unknown = fields.keys() - SettingFields.__annotations__.keys()
    if unknown:
        raise LocalProtocolError(f"no field of a context: {', '.join(sorted(unknown))}")
    return {name: _Value(value, None, name) for name, value in fields.items() if value not in (None, "")}


# -- what becomes of it ------------------------------------------------------------------------------------------------


def _settings(layers: list[dict[str, _Value]], context: str | None, path: str | None) -> Settings:
    """Put the layers together, of which the first goes before the others."""
    merged: dict[str, _Value] = {}
    has_credentials = False
    for layer in layers:
        credentials = {*_KINDS, *_COMPLETIONS.values()} if has_credentials else set()
        merged = {**{name: value for name, value in layer.items() if name not in credentials}, **merged}
        has_credentials = has_credentials or not layer.keys().isdisjoint(_KINDS)
    for name, why in _REFUSED.items():
        if name in merged:
            raise _failed(merged, name, why)
    return Settings(_connect_arguments(merged), _jetstream_arguments(merged), context, path)


def _connect_arguments(values: dict[str, _Value]) -> ConnectArguments:
    made: dict[str, Any] = {}
    if "url" in values:
        made["servers"] = _text(values, "url")
        try:
            connect_options(made["servers"])
        except LocalProtocolError as error:
            raise _failed(values, "url", str(error)) from None
    made |= _credentials(values)
    if "tls_first" in values:
        made["tls_handshake_first"] = _flag(values, "tls_first")
    if (tls := _tls(values)) is not None:
        made["tls"] = tls
    if "inbox_prefix" in values:
        made["inbox_prefix"] = _text(values, "inbox_prefix")
    return cast("ConnectArguments", made)


def _jetstream_arguments(values: dict[str, _Value]) -> JetStreamArguments:
    made = JetStreamArguments()
    if "jetstream_domain" in values:
        made["domain"] = _text(values, "jetstream_domain")
    if "jetstream_api_prefix" in values:
        made["prefix"] = _text(values, "jetstream_api_prefix")
        if "domain" in made:
            raise _failed(values, "jetstream_api_prefix", "give this or jetstream_domain, not both")
    return made


def _credentials(values: dict[str, _Value]) -> dict[str, Any]:
    given = [name for name in _KINDS if name in values]
    if len(given) > 1:
        raise _failed(values, given[1], f"give one of these, not several: {', '.join(given)}")
    for kind, completion in _COMPLETIONS.items():
        if completion in values and kind not in given:
            raise _failed(values, completion, f"it needs a {kind}")
    if "user" in given:
        made: dict[str, Any] = {"user": _text(values, "user")}
        return made | ({"password": _secret(values, "password")} if "password" in values else {})
    if "token" in given:
        return {"token": _secret(values, "token")}
    if "creds" in given:
        return {"user_credentials": _file_or_content(values, "creds")[1]}
    if "nkey" in given:
        is_content, value = _file_or_content(values, "nkey")
        return {"nkeys_seed_str" if is_content else "nkeys_seed": value}
    return _jwt(values) if "user_jwt" in given else {}


def _jwt(values: dict[str, _Value]) -> dict[str, Any]:
    """A JWT with its seed. A bearer token, which saves the signature, comes alone."""
    jwt = _secret(values, "user_jwt")
    if "user_seed" not in values:
        return {"user_jwt_cb": lambda: jwt, "signature_cb": lambda nonce: ""}
    begin, end = "-----BEGIN {}-----", "------END {}------"
    parts = (("NATS USER JWT", jwt), ("USER NKEY SEED", _secret(values, "user_seed")))
    return {"user_credentials": "".join(f"{begin}\n{text}\n{end}\n".format(name, name) for name, text in parts)}


def _tls(values: dict[str, _Value]) -> ssl.SSLContext | None:
    """The configuration of TLS that ``cert``, ``key`` and ``ca`` make. None without them."""
    if values.keys().isdisjoint(("cert", "key", "ca")):
        return None
    for name, other in (("cert", "key"), ("key", "cert")):
        if name in values and other not in values:
            raise _failed(values, name, f"it needs a {other}")
    try:
        context = ssl.create_default_context(cafile=_path(values, "ca") if "ca" in values else None)
    except ssl.SSLError:
        raise _failed(values, "ca", "the file holds no certificates in PEM") from None
    if "cert" in values:
        _load_certificate(context, values)
    return context


def _load_certificate(context: ssl.SSLContext, values: dict[str, _Value]) -> None:
    def ask_nobody() -> str:
        raise _failed(values, "key", "it is encrypted, and there is nobody to ask for its password")

    certificate, key = _path(values, "cert"), _path(values, "key")
    try:
        context.load_cert_chain(certificate, key, ask_nobody)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _failed(values, "key", "it does not belong to the certificate") from None
        raise _failed(values, "cert", "this file and that of the key hold no certificate and key in PEM") from None


# -- one value ---------------------------------------------------------------------------------------------------------


def _failed(values: dict[str, _Value], name: str, text: str) -> SettingsError:
    return SettingsError(text, values[name].path, values[name].field)


def _text(values: dict[str, _Value], name: str) -> str:
    value = values[name].value
    if not isinstance(value, str):
        raise _failed(values, name, f"it must be text, not {type(value).__name__}")
    return value


def _flag(values: dict[str, _Value], name: str) -> bool:
    value = values[name].value
    if not isinstance(value, bool):
        raise _failed(values, name, f"it must be true or false, not {type(value).__name__}")
    return value


def _secret(values: dict[str, _Value], name: str) -> str:
    """A text, or that to which it refers."""
    text = _text(values, name)
    content = _content(values, name, text)
    if content is None and text.startswith("file://"):
        content = _read(values, name, text.removeprefix("file://"))
    return text if content is None else content.rstrip("\r\n")


def _file_or_content(values: dict[str, _Value], name: str) -> tuple[bool, str]:
    """Whether the value holds the content itself, and that content, or else the path of a file that can be read."""
    if isinstance(values[name].value, os.PathLike):
        return False, _path(values, name)
    content = _content(values, name, _text(values, name))
    if content is None:
        return False, _path(values, name)
    if name == "creds" and "-BEGIN" not in content:
        raise _failed(values, name, "it holds no credentials")
    return True, content


def _content(values: dict[str, _Value], name: str, text: str) -> str | None:
    """The content that ``text`` refers to. None: it is something other than a reference, or one to a file."""
    if text.startswith(_PROGRAMS):
        raise _failed(values, name, f"{text.partition(':')[0]}:// is not asked")
    if text.startswith("env://"):
        variable = text.removeprefix("env://")
        if not os.environ.get(variable):
            raise _failed(values, name, f"the variable {variable!r} is not set")
        return os.environ[variable]
    if text.startswith("data:"):
        head, _, encoded = text.partition(",")
        try:
            if not head.endswith(";base64"):
                raise ValueError
            return base64.b64decode(encoded, validate=True).decode()
        except ValueError:
            raise _failed(values, name, "after data: it needs ;base64, and text in Base64") from None
    return None


def _path(values: dict[str, _Value], name: str) -> str:
    """The path of a file that can be read."""
    value = values[name].value
    path = os.fspath(value) if isinstance(value, os.PathLike) else _text(values, name)
    path = os.path.expanduser(os.path.expandvars(path.removeprefix("file://")))
    _read(values, name, path)
    return path


def _read(values: dict[str, _Value], name: str, path: str) -> str:
    if looks_secret(path):
        raise _failed(values, name, "it must be a path, but it looks like a secret itself")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE).decode("latin-1")
    except OSError as error:
        raise _failed(values, name, f"cannot read {path!r}: {_why(error)}") from None
    except ValueError:  # a null in it
        raise _failed(values, name, "it is no path") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it is no text"
