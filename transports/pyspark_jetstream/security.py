"""Credentials and TLS of the options: as texts, which reach every executor, and not as files, which do not.

Rules: a file is read in the driver, and its content travels in its place. What is checked is checked there too. Each
link reads the file of credentials again, where it is. The driver sends with each task what that holds by then.
No error and no repr shows what such an option holds.

Not here: what the options are called (``options``), signing and TLS themselves (``jsproto_io``).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from jsproto.errors import LocalProtocolError
from jsproto_io._state.common import new_session

MAX_FILE: Final = 1_048_576  # bytes


def content_of(name: str, path: str) -> str:
    """What the file that option ``name`` names holds. ValueError, of one line, when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE).decode()
    except OSError as error:
        raise ValueError(f"option {name}: cannot read the file in the driver: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"option {name} names no file of text") from None


def renewed(path: str | None, content: str | None) -> str | None:
    """What the file of credentials holds now. None: the same, or there is none on this machine."""
    if path is None:
        return None
    try:
        now = content_of("nats.creds", path)
    except ValueError:
        return None
    return now if now != content and "-BEGIN" in now else None


def checked(servers: str, keywords: Mapping[str, Any]) -> None:
    """See whether these could be used, as far as that takes no server. ValueError, of one line, when they could not."""
    try:
        new_session(servers, connect_keywords(keywords))  # type: ignore[arg-type]  # its keys are those of options
    except LocalProtocolError as error:
        raise ValueError(f"the options of the connection cannot be used: {error}") from None


def connect_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of ``connect``, with a TLS configuration instead of certificates and keys (PEM texts).

    Raises: ValueError, of one line: these cannot be used.
    """
    made = {name: value for name, value in keywords.items() if name not in ("tls_ca", "tls_cert", "tls_key")}
    if "-BEGIN" not in made.get("user_credentials", "-BEGIN"):  # else it would pass for a path, and be shown
        raise ValueError("option nats.creds holds no credentials")
    ca, certificate, key = (keywords.get(name) for name in ("tls_ca", "tls_cert", "tls_key"))
    if (certificate is None) != (key is None):
        raise ValueError("options nats.tls.cert and nats.tls.key go together")
    if ca is None and certificate is None:
        return made
    if made.get("tls") is False:
        raise ValueError("option nats.tls is false, but there are certificates for it")
    try:
        context = ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise ValueError("option nats.tls.ca holds no certificates in PEM") from None
    if certificate is not None and key is not None:
        _load(context, certificate, key)
    return {**made, "tls": context}


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Let ``context`` show this certificate. OpenSSL reads files only."""
    with TemporaryDirectory(prefix="jsproto-") as folder:  # for a moment, and of mode 0700
        both = Path(folder, "both.pem")
        both.write_text(f"{key}\n{certificate}", encoding="utf-8")
        try:
            context.load_cert_chain(both, password="")  # without one, OpenSSL would ask on the terminal
        except (ssl.SSLError, ValueError):
            raise ValueError("options nats.tls.cert and nats.tls.key hold no PEM, or do not belong together") from None
