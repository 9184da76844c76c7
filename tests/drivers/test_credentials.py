"""Files and texts of credentials: what is read of them, when, and what is told of those that will not do."""

from __future__ import annotations

import logging
import sys
from collections import UserString
from pathlib import Path
from typing import Any

import pytest

from jsproto.errors import CredentialsError, LocalProtocolError
from jsproto_io._state.common import new_session
from jsproto_io._state.credentials import signing
from tests.authority import Key, Operator, credentials, is_signed
from tests.marks import promise

USER = Key("user")
CREDS = credentials("J.W.T", USER.seed)
OPTIONS = ("user_credentials", "nkeys_seed", "nkeys_seed_str")


def signed(options: Any, nonce: str = "one") -> tuple[str | None, str | None, str]:
    """JWT, public key and signature, in the order in which a link asks for them."""
    made: Any = signing(options)
    assert not made.keys() & set(OPTIONS)
    jwt = made["user_jwt_cb"]() if "user_jwt_cb" in made else None
    return jwt, made.get("nkey"), made["signature_cb"](nonce).decode()


def file(folder: Path, content: str, name: str = "file") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_seed(tmp_path: Path) -> None:
    for options in (
        {"nkeys_seed_str": f" {USER.seed}\n"},
        {"nkeys_seed": file(tmp_path, USER.seed + "\n")},
        {"nkeys_seed": str(tmp_path / "file"), "user_credentials": None},
    ):
        jwt, nkey, signature = signed(options)
        assert (jwt, nkey) == (None, USER.public)
        assert is_signed(USER.public, "one", signature)


DECORATED = f"-----BEGIN USER NKEY SEED-----\n{USER.seed}\n------END USER NKEY SEED------\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "content",
    [
        f"{USER.seed}\n{USER.public}\n",
        f"{USER.public}\n  {USER.seed}  \n",
        DECORATED,
        f"# the service of orders, größer\n\n{USER.seed}\n",
        f"\ufeff{USER.seed}\n",
        CREDS,
    ],
    ids=["public key after", "public key before", "decorated", "comment", "byte order mark", "creds"],
)
def test_a_seed_is_found_in_what_tools_write(tmp_path: Path, content: str, end: str) -> None:
    path = tmp_path / "user.nk"
    path.write_bytes(content.replace("\n", end).encode())
    jwt = file(tmp_path, f"-----BEGIN NATS USER JWT-----{end}J.W.T{end}------END NATS USER JWT------{end}", "jwt")
    given: list[dict[str, Any]] = [{"nkeys_seed": path}, {"user_credentials": (jwt, path)}]
    if not content.startswith("\ufeff"):
        given.append({"nkeys_seed_str": content})
    for options in given:
        found, _, signature = signed(options)
        assert found == ("J.W.T" if "user_credentials" in options else None)
        assert is_signed(USER.public, "one", signature)


def test_an_account_s_seed_in_a_file_is_named(tmp_path: Path) -> None:
    seed = Operator().account.seed
    path = file(tmp_path, f"-----BEGIN ACCOUNT NKEY SEED-----\n{seed}\n------END ACCOUNT NKEY SEED------\n")
    with pytest.raises(CredentialsError, match="not that of a user") as caught:
        signing({"nkeys_seed": path})
    assert seed not in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_credentials(tmp_path: Path, end: str) -> None:
    content = CREDS.replace("\n", end)
    (tmp_path / "creds").write_bytes(content.encode())
    pair = (file(tmp_path, "J.W.T\n", "jwt"), str(file(tmp_path, f"{USER.seed}\n", "seed")))
    for given in (content, UserString(content), tmp_path / "creds", str(tmp_path / "creds"), pair):
        jwt, nkey, signature = signed({"user_credentials": given, "token": "t"})
        assert (jwt, nkey) == ("J.W.T", None)
        assert is_signed(USER.public, "one", signature)


@promise("Files are read again, and the server's nonce is signed, for each link.")
def test_files_are_read_for_each_link(tmp_path: Path) -> None:
    other = Key("user")
    path = file(tmp_path, CREDS)
    made: Any = signing({"user_credentials": path})
    file(tmp_path, credentials("n.e.w", other.seed))
    assert made["user_jwt_cb"]() == "n.e.w"
    path.unlink()  # a link that has the JWT signs with the key that goes with it
    assert is_signed(other.public, "two", made["signature_cb"]("two").decode())
    with pytest.raises(CredentialsError, match="cannot read"):
        made["user_jwt_cb"]()


def test_who_has_none_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert signing({"user": "u", "nkeys_seed": None}) == {"user": "u"}
    with pytest.raises(
        CredentialsError, match=r"^nkeys and credentials need an extra: pip install 'jsproto\[nkeys\]'$"
    ):
        signing({"nkeys_seed_str": USER.seed})


def altered(seed: str) -> str:
    return seed[:20] + ("A" if seed[20] != "A" else "B") + seed[21:]


@promise("No error, repr or log shows a secret")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nkeys_seed_str": altered(USER.seed)}, "the nkey seed is damaged"),
        ({"nkeys_seed_str": USER.seed[:-3]}, "the nkey seed is damaged"),
        ({"nkeys_seed_str": USER.seed + "é"}, "the nkey seed is damaged"),
        ({"nkeys_seed_str": ""}, "the nkey seed is damaged"),
        ({"nkeys_seed_str": Operator().account.seed}, "the nkey seed is not that of a user"),
        ({"nkeys_seed_str": b"SU"}, "nkeys_seed_str must be a str, not bytes"),
        ({"nkeys_seed": USER.seed}, "nkeys_seed must be a path, but it looks like a secret itself"),
        ({"nkeys_seed": 5}, "nkeys_seed must be a path, not int"),
        ({"nkeys_seed": "no/such"}, "nkeys_seed: cannot read 'no/such': No such file or directory"),
        ({"nkeys_seed": "a\0b"}, "is no file of credentials"),
        ({"user_credentials": b"eyJ"}, "user_credentials must be a path, not bytes"),
        ({"user_credentials": f" {USER.seed}"}, "user_credentials must be a path, but it looks like a secret itself"),
        ({"user_credentials": "eyJ0eXAi.x.y"}, "but it looks like a secret itself"),
        ({"user_credentials": f"# mine\n{USER.seed}"}, "but it looks like a secret itself"),
        ({"user_credentials": (1, 2, 3)}, "user_credentials must be a path, not tuple"),
        ({"user_credentials": CREDS.replace("JWT", "TWJ")}, "the credentials hold no user JWT"),
        ({"user_credentials": CREDS.replace("BEGIN USER", "BEGIN ACCOUNT")}, "the credentials hold no user nkey seed"),
        ({"user_credentials": credentials("J.W.T", altered(USER.seed))}, "the nkey seed is damaged"),
        (
            {"user_credentials": CREDS, "nkeys_seed": "x", "nkey": USER.public, "signature_cb": str},
            "these options exclude each other: user_credentials, nkeys_seed, signature_cb, nkey",
        ),
    ],
)
def test_what_will_not_do_is_told_in_one_line_without_secrets(options: Any, words: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        new_session("h", options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    for secret in (USER.seed[2:12], "J.W.T", "eyJ"):
        assert secret not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(USER.seed.encode() + b"\xff")
    with pytest.raises(CredentialsError, match="is no file of credentials"):
        signing({"nkeys_seed": path})
    path.write_text(USER.seed + "é", encoding="utf-8")
    with pytest.raises(CredentialsError, match="the nkey seed is damaged"):
        signing({"nkeys_seed": path})


@promise("No error, repr or log shows a secret")
def test_secrets_show_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    session = new_session("h", {"user_credentials": CREDS})
    shown = repr(vars(session)) + repr(session.options) + caplog.text
    assert USER.seed not in shown
    assert "J.W.T" not in shown
