"""Users and what they may do: the role answers bytes as a real server with the same configuration does."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from jsproto.errors import BadSubjectError, LocalProtocolError
from jsproto.server import Access, Permissions, Responses, Server, ServerSession, User
from jsproto.server.access import MAX_REPLIES, Grants, quoted
from jsproto_io.nats_server import NatsServer
from tests.marks import promise
from tests.server.test_faithful_links import ENDS, OPTIONS, on_a_server


def connect(**said: Any) -> bytes:
    said = {name.rstrip("_"): value for name, value in said.items()}
    return b"CONNECT " + json.dumps(OPTIONS | said).encode() + b"\r\n"


ANNA: Final = connect(user="a", pass_="p")
BEN: Final = connect(user="b", pass_="p")
PICKY: Final = connect(user="a", pass_="p", verbose=True, pedantic=True)
PUBLISH: Final = b"PUB a 1\r\nx\r\n"
ANSWER: Final = b"PUB back 1\r\ny\r\n"
SUBSCRIPTIONS: Final = (
    b"s.a", b"s.>", b"s.no.a", b"s.no.*", b"s.no.>", b"s.*.*", b">", b"*", b"qq", b"qq grp", b"qq other", b"w.a v1.x",
    b"w.a v1", b"w.a", b"w.> v1.a", b"s.d", b"s.d grp", b"s.d other", b"s.* grp", b"s..a", b's."x', b'z\\"q', b"a..b",
    b"\xc3\xa4", b"\xff", b"a\x01b", b"\xc2\xad", b"\xf0\x9f\x98\x80", b"\xf3\xa0\x80\x81", b"_INBOX.a", b"s.x grp",
)  # fmt: skip
PUBLICATIONS: Final = (
    b"p.a", b"p.no", b"p.no.x", b"q.a", b"q.b", b"q.*", b"q.>", b"z", b"p", b"p..a", b"p.*", b'\xff"', b"$JS.API.FOO",
    b"q.a.b", b"\x07\x1b",
)  # fmt: skip
DENIED: Final = b"PUB s.no.a 1\r\nx\r\nPUB s.d 1\r\ny\r\nPUB s.ok 1\r\nz\r\n"
SERVERS: Final[dict[str, tuple[str, Access | None, list[bytes]]]] = {
    "password": ("authorization { user: u, password: p }", Access([User("u", "p")]), [
        b"", PUBLISH, b"FOO\r\n", b"CXX\r\n", b"CONNECT {\r\n", b"INFO {}\r\n", b"\r\n", connect(), connect(user="u"),
        connect(user="u", pass_="p"), connect(user="u", pass_="q"), connect(user="x", pass_="p"), connect(user=3),
        connect(auth_token="p"), connect(user="u", pass_="p", account="A"), connect(user="u", pass_=None),
        connect(user="u", pass_="p", new_account=True), connect(user="u", pass_="p") + connect(user="v"),
        connect(user="u", pass_="p") + b"SUB a 1\r\n" + connect() + PUBLISH, connect(user="u", protocol=7),
        connect(user="u", pass_="p", protocol=7), connect(name=3, user="u", pass_="p"),
    ]),
    "token": ("authorization { token: t }", Access(token="t"), [
        connect(), connect(auth_token="t"), connect(auth_token="x"), connect(user="t", pass_="t"), b"PUB a 1\r\n",
    ]),
    "no_auth_user": (
        "authorization { users=[{user:a,password:p},{user:b,password:q}] }\nno_auth_user: b",
        Access([User("a", "p"), User("b", "q")], no_auth_user="b"),
        [
            connect(), connect(user="a"), ANNA, connect(pass_="p"), connect(auth_token="t"), b"PUB b 1\r\nx\r\n",
            b"PUB b 1\r\nx\r\n" + connect(user="a"), connect(user="", pass_=""), b"FOO\r\n",
        ],
    ),
    "anybody": ("", None, [
        connect(account="A"), connect(new_account=True), connect(user="x"), connect(jwt=3),
        connect() + b"SUB a 1\r\n" + connect() + PUBLISH,
        connect() + b"SUB a 1\r\n" + connect() + b"SUB a 1\r\n" + PUBLISH,
        *(connect() + lines for lines in (
            b"PUB $NRG.x 1\r\nx\r\n", b"PUB _GR_.x 1\r\nx\r\n", b"PUB a _R_.abc 1\r\nx\r\n", b"SUB a _sys_ 1\r\n",
            b"PUB a _GR_.x 1\r\nx\r\n", b"PUB a $JS.ACK.x 1\r\nx\r\n", b"PUB a _R_ 1\r\nx\r\n",
        )),
    ]),
    "permissions": (
        """authorization { users=[{user:a,password:p, permissions: {
            publish: {allow:["p.>","q.*","$JS.API.>"], deny:["p.no","q.b"]},
            subscribe: {allow:["s.>","_INBOX.>", "qq grp", "w.* v1.*"], deny:["s.no.*","s.d grp","s.x"]}}}] }""",
        Access([User("a", "p", permissions=Permissions(
            ["p.>", "q.*", "$JS.API.>"], ["p.no", "q.b"], ["s.>", "_INBOX.>", "qq grp", "w.* v1.*"],
            ["s.no.*", "s.d grp", "s.x"],
        ))]),
        [
            hello + lines
            for hello in (ANNA, PICKY)
            for lines in (
                *(b"SUB %b 1\r\n" % each for each in SUBSCRIPTIONS),
                *(b"PUB %b 1\r\nx\r\n" % each for each in PUBLICATIONS),
            )
        ],
    ),
    "denied": (
        """authorization { users=[{user:a,password:p, permissions: {
            subscribe: {allow:["s.>"], deny:["s.no.*","s.d grp"]}}}] }""",
        Access([User("a", "p", permissions=Permissions(subscribe=["s.>"], deny_subscribe=["s.no.*", "s.d grp"]))]),
        [
            *(ANNA + lines + DENIED for lines in (
                b"SUB s.> 1\r\n", b"SUB s.> grp 1\r\n", b"SUB s.d 1\r\n", b"SUB s.no.> 1\r\n", b"SUB s.*.a 1\r\n",
                b"SUB s.> 1\r\nUNSUB 1 1\r\n",
            )),
            ANNA + b"SUB s.r 8\r\nSUB s.*.b grp 1\r\nPUB s.no.b s.r 1\r\nx\r\n",
        ],
    ),
    "responses": (
        """authorization { users=[
            {user:a,password:p, permissions: {publish: ["go.>"], subscribe: ">",
             allow_responses: {max: 2, expires: "1m"}}},
            {user:b,password:p, permissions: {allow_responses: true}}] }""",
        Access([
            User("a", "p", permissions=Permissions(["go.>"], subscribe=[">"], allow_responses=Responses(2, 60))),
            User("b", "p", permissions=Permissions(allow_responses=Responses())),
        ]),
        [
            ANNA + b"SUB go.* 1\r\nPUB go.a back 1\r\nx\r\n" + ANSWER * 3, ANNA + ANSWER, BEN + PUBLISH,
            ANNA + b"SUB go.* 1\r\nPUB go.a go.r 1\r\nx\r\n" + b"PUB go.r 1\r\ny\r\n" * 3,
            ANNA + b"SUB go.* 1\r\nPUB go.a back 1\r\nx\r\n" + ANSWER + b"PUB go.a back 1\r\nx\r\n" + ANSWER * 3,
        ],
    ),
    "deny": (
        """authorization { users=[{user:a,password:p, permissions: {publish: {deny: "no.>"}}}] }""",
        Access([User("a", "p", permissions=Permissions(deny_publish=["no.>"]))]),
        [ANNA + b"PUB no.a 1\r\nx\r\nPUB b 1\r\nx\r\n", ANNA + b"SUB a 1\r\n" + PUBLISH],
    ),
}  # fmt: skip


def on_the_role(data: bytes, access: Access | None, now: float = 0.0) -> bytes:
    """What the role answers to ``data``, without INFO."""
    session = Server(token=b"t", access=access).connect(0.0)
    session.data_to_send()
    session.receive_data(data, now)
    return b"".join(session.data_to_send()) + (ENDS if session.wants_close else b"")


@promise("What their permissions do not allow is refused with the words of nats-server")
@pytest.mark.server
@pytest.mark.parametrize("name", SERVERS)
def test_both_say_the_same(name: str) -> None:
    config, access, scripts = SERVERS[name]
    with NatsServer(config=config) as real:
        info = Server(token=b"t", access=access).connect(0.0).data_to_send()[0]
        assert json.loads(info[5:]).get("auth_required") == real.info.get("auth_required")
        for data in scripts:
            told = on_the_role(data + b"PING\r\n", access)
            assert (data, on_a_server(data + b"PING\r\n", told, real)) == (data, told)


def said(name: str, number: int) -> bytes:
    _, access, scripts = SERVERS[name]
    return on_the_role(scripts[number] + b"PING\r\n", access)


def test_who_may_connect() -> None:
    violation = b"-ERR 'Authorization Violation'\r\n" + ENDS
    refused = {
        name: [data for data in scripts if on_the_role(data + b"PING\r\n", access).endswith(violation)]
        for name, (_, access, scripts) in SERVERS.items()
    }
    assert {name: len(scripts) for name, scripts in refused.items()} == {
        "password": 15, "token": 4, "no_auth_user": 4, "anybody": 2, "permissions": 0, "denied": 0, "responses": 0,
        "deny": 0,
    }  # fmt: skip
    assert said("password", 4) == ENDS
    assert said("password", 9) == b"PONG\r\n"
    assert said("no_auth_user", 5) == b"+OK\r\nPONG\r\n"


def test_a_second_connect_ends_the_subscriptions() -> None:
    assert said("anybody", 4) == b"PONG\r\n"
    assert said("anybody", 5) == b"MSG a 1 1\r\nx\r\nPONG\r\n"


def test_what_servers_keep_for_themselves() -> None:
    assert said("anybody", 6) == b"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\nPONG\r\n"
    assert said("anybody", 8) == b"-ERR 'Permissions Violation for Publish with Reply of \"_R_.abc\"'\r\nPONG\r\n"
    words = b'Permissions Violation for Subscription to "a" using queue "_sys_"'
    assert said("anybody", 9) == b"-ERR '%b'\r\nPONG\r\n" % words


def test_what_a_user_may_publish_and_subscribe_to() -> None:
    allowed = [data for data in SERVERS["permissions"][2] if b"ERR" not in on_the_role(data, SERVERS["permissions"][1])]
    lines = [data.split(b"\r\n")[1] for data in allowed if data.startswith(ANNA)]
    assert lines == [
        b"SUB s.a 1", b"SUB s.> 1", b"SUB s.*.* 1", b"SUB qq grp 1", b"SUB w.a v1.x 1", b"SUB w.> v1.a 1", b"SUB s.d 1",
        b"SUB s.d other 1", b"SUB s.* grp 1", b'SUB s."x 1', b"SUB _INBOX.a 1", b"PUB p.a 1", b"PUB p.no.x 1",
        b"PUB q.a 1", b"PUB q.* 1", b"PUB q.> 1", b"PUB p.* 1", b"PUB $JS.API.FOO 1",
    ]  # fmt: skip


def test_a_denied_message_is_left_out_at_delivery() -> None:
    assert said("denied", 0) == b"MSG s.d 1 1\r\ny\r\nMSG s.ok 1 1\r\nz\r\nPONG\r\n"
    assert said("denied", 1) == b"MSG s.ok 1 1\r\nz\r\nPONG\r\n"
    assert said("denied", 2) == b"MSG s.d 1 1\r\ny\r\nPONG\r\n"
    assert b"503" in said("denied", 6)


def test_answers_are_allowed_for_a_time() -> None:
    grants = Grants(Permissions(allow_responses=Responses(0, 5.0)))
    grants.delivered(b"back", 1.0)
    assert [grants.may_publish("back", now) for now in (1.0, 6.0, 6.1, 1.0)] == [True, True, False, False]
    for number in range(MAX_REPLIES + 1):
        grants.delivered(b"r%d" % number, 9.0)
    assert [grants.may_publish(subject, 9.0) for subject in ("r0", "r1")] == [False, True]
    assert said("responses", 0).count(b"Violation") == 1
    assert said("responses", 3).count(b"Violation") == 0


def test_whoever_says_nothing_is_cut_off() -> None:
    session = Server(token=b"t", access=Access(token="x", timeout=3.0)).connect(10.0)
    assert session.deadline() == 13.0
    session.data_to_send()
    session.handle_timeout(13.0)
    assert (session.data_to_send(), session.wants_close) == ([b"-ERR 'Authentication Timeout'\r\n"], True)
    known = Server(token=b"t", access=Access(token="x", timeout=3.0)).connect(10.0)
    known.receive_data(connect(auth_token="x"), 11.0)
    assert known.deadline() == 130.0


def test_a_user_signs_the_nonce() -> None:
    asked: list[tuple[str, bytes, bytes]] = []
    nonces: list[str] = []

    def verify(nkey: str, nonce: bytes, signature: bytes) -> bool:
        asked.append((nkey, nonce, signature))
        return signature == b"\xfb\xff\xfe"

    access = Access([User(nkey="UX"), User("u", "p")], verify=verify)
    for lines, is_let_in in (
        (connect(nkey="UX", sig="-__-"), True), (connect(nkey="UX", sig="+//+"), True), (connect(nkey="UX"), False),
        (connect(nkey="UX", sig="?"), False), (connect(nkey="UY", sig="-__-"), False),
        (connect(nkey="UY", user="u", pass_="p"), False), (connect(user="u", pass_="p"), True),
    ):  # fmt: skip
        session = Server(token=b"t", access=access).connect(0.0)
        nonces.append(json.loads(session.data_to_send()[0][5:])["nonce"])
        session.receive_data(lines, 0.0)
        assert session.wants_close is not is_let_in
    assert asked[0] == ("UX", nonces[0].encode(), b"\xfb\xff\xfe")
    assert {len(nonce) for nonce in nonces} == {15}


def test_what_cannot_be_configured() -> None:
    for make in (
        lambda: Access(), lambda: Access([User("a")], token="t"), lambda: Access([User("a"), User("a")]),
        lambda: Access([User("a")], no_auth_user="b"), lambda: Access(token="$2a$11$x"), lambda: User("a", "$2b$11$x"),
        lambda: User(), lambda: User("a", nkey="UX"), lambda: Server(token=b"t", access=Access([User(nkey="UX")])),
    ):  # fmt: skip
        with pytest.raises(LocalProtocolError):
            make()
    for entry in ("a..b", "", "a b c"):
        with pytest.raises(BadSubjectError):
            Permissions(subscribe=[entry])
    with pytest.raises(BadSubjectError):
        Permissions(publish=["a b"])


def test_secrets_are_not_shown() -> None:
    assert "p@ss" not in repr(Access([User("a", "p@ss")])) + repr(Access(token="p@ss"))


def test_a_session_knows_its_user() -> None:
    server = Server(token=b"t", access=Access([User("a", "p")]))
    session: ServerSession = server.connect(0.0)
    session.receive_data(connect(user="a", pass_="p", name="shop"), 0.0)
    assert session.user == User("a", "p")
    assert session.said["name"] == "shop"


def test_a_quoted_subject() -> None:
    assert quoted('a"\\\x07\x1b\xe4\u00ad\U000e0001'.encode() + b"\xff") == (
        '"a\\"\\\\\\a\\x1bä\\u00ad\\U000e0001\\xff"'.encode()
    )
