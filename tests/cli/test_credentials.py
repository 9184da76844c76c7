"""Options that say who one is reach a real server, and so does a context with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from jsproto.server import Access, Permissions, User
from jsproto_io.testing import serve
from tests.authority import Key, Operator, tls_config
from tests.cli.calling import Place, call


def test_users_certificates_and_authorities(server_for: Any, tmp_path: Path) -> None:
    key, stranger = Key("user"), Key("user")
    for name, each in (("user.nk", key), ("stranger.nk", stranger)):
        (tmp_path / name).write_text(each.seed, encoding="utf-8")
    users = f"authorization {{ users: [ {{user: u, password: p}}, {{nkey: {key.public}}} ] }}\n"
    place = Place(server_for(config=tls_config(trustme.CA(), tmp_path, "verify: true") + users).url)
    ca = ("--tlsca", f"{tmp_path}/ca.pem")
    tls = (*ca, "--tlscert", f"{tmp_path}/cert.pem", "--tlskey", f"{tmp_path}/key.pem")
    command = ("pub", "a", "x", "--core")
    for user in (("--user", "u", "--password", "p"), ("--nkey", f"{tmp_path}/user.nk")):
        assert place.ok(*command, *tls, *user).out == "1 message published\n"
    for options in ((), ca, tls, (*tls, "--user", "u", "--password", "x"), (*tls, "--nkey", f"{tmp_path}/stranger.nk")):
        line = place.fails(1, *command, *options)
        assert line.startswith(f"cannot connect: {place.url}: ")
        assert line.count(place.url) == 1


def test_credentials_of_an_option_and_of_a_context(server_for: Any, tmp_path: Path) -> None:
    operator = Operator()
    creds, context = tmp_path / "user.creds", tmp_path / "mine.json"
    creds.write_text(operator.credentials(Key("user")), encoding="utf-8")
    place = Place(server_for(config=operator.config()).url)
    context.write_text(json.dumps({"url": place.url, "creds": str(creds)}), encoding="utf-8")
    assert (
        place.ok("stream", "create", "S", "--creds", str(creds), "--storage", "memory").out
        == "stream S is there, for S\n"
    )
    assert call("stream", "ls", "--quiet", "--context", str(context), NATS_URL="").out == "S\n"
    assert place.fails(1, "stream", "ls").startswith(f"cannot connect: {place.url}: ")


@pytest.mark.parametrize("command", [["ingest", "-", "--subject", "a"], ["mirror", "A", "B"], ["bench"], ["demo"]])
def test_commands_that_were_there_take_them_too(command: list[str], tmp_path: Path) -> None:
    done = call(*command, "--context", f"{tmp_path}/none")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "no such file" in done.err


@pytest.mark.parametrize("options", [[], ["--core"]])
def test_what_a_user_may_not_publish_is_told(options: list[str]) -> None:
    user = User("u", "p", permissions=Permissions(deny_publish=["secret.>"]))
    with serve(port=0, access=Access([user])) as server:
        place = Place(server.url.replace("//", "//u:p@"))
        assert place.fails(1, "pub", "secret.a", "x", *options) == 'Permissions Violation for Publish to "secret.a"'
        assert place.ok("pub", "open.a", "x", "--core").out == "1 message published\n"
