"""Credentials and TLS as options of Spark: in files that only the driver has, and as their contents."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jsproto_io.nats_server import NatsServer
from pyspark_jetstream.connecting import opened
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.options import read_options
from pyspark_jetstream.security import renewed
from pyspark_jetstream.source import JetStreamReader
from tests.authority import Key, Operator, tls_config
from tests.marks import promise
from tests.spark.test_tasks import COLUMNS, read

pytestmark = pytest.mark.spark

USER = Key("user")
OPERATOR = Operator()
CREDS = OPERATOR.credentials(USER)
FORGED = Operator().credentials(USER)
CA = trustme.CA()
CLIENT = CA.issue_cert("client")
CONTENTS = {
    "nats.creds.content": CREDS,
    "nats.tls.ca.content": CA.cert_pem.bytes().decode(),
    "nats.tls.cert.content": CLIENT.cert_chain_pems[0].bytes().decode(),
    "nats.tls.key.content": CLIENT.private_key_pem.bytes().decode(),
}
SECRETS = (USER.seed, CREDS.splitlines()[1], CONTENTS["nats.tls.key.content"].splitlines()[1], "geheim")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server that wants certificates, and users of an operator."""
    config = tls_config(CA, tmp_path_factory.mktemp("tls"), "verify: true") + OPERATOR.config()
    with NatsServer(config=config) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The same options, with files for their contents."""
    found = {}
    for name, content in CONTENTS.items():
        path = tmp_path / name
        path.write_text(content)
        found[name.removesuffix(".content")] = str(path)
    return found


def shows_no_secret(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


@promise("Never shown")
def test_a_table_goes_through_a_guarded_server(
    guarded: NatsServer, spark: SparkSession, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = read_options({"servers": guarded.url, "stream": "S", **files})
    with opened(options.connection, reader_thread=True) as nc:
        nc.jetstream().create_stream("S", subjects=["s.>"], allow_direct=True, allow_batched=True)
    contents = {"servers": guarded.url, **CONTENTS}
    rows = spark.range(0, 100, 1, 1).selectExpr("concat('s.', id) as subject", "cast(id as string) as data")
    rows.write.format("jetstream").options(**contents).mode("append").save("S")
    df = spark.read.format("jetstream").option("servers", guarded.url).options(minPartitions="1", **files).load("S")
    assert sorted(int(row.data) for row in df.collect()) == [*range(100)]
    df.explain(extended=True)
    assert shows_no_secret(capsys.readouterr().out)
    forged = spark.read.format("jetstream").options(**{**contents, "nats.creds.content": FORGED})
    with pytest.raises(PySparkException, match="AuthorizationError: nats:.*: Authorization Violation") as caught:
        forged.load("S").collect()
    assert shows_no_secret(str(caught.value))


@promise("executors get the content. Never shown")
def test_files_are_read_in_the_driver_and_contents_travel(files: dict[str, str]) -> None:
    secret = {"nats.password": "geheim", "nats.user": "u", "nats.tls.hostname": "h"}
    connection = read_options({"servers": "nats://x:geheim@a", "stream": "S", **files, **secret}).connection
    for path in files.values():
        Path(path).unlink()
    there = pickle.loads(pickle.dumps(connection))
    assert there == connection
    assert there.keywords["user_credentials"] == CREDS
    assert there.keywords["tls_key"] == CONTENTS["nats.tls.key.content"]
    assert there.keywords["tls_hostname"] == "h"
    assert shows_no_secret(repr(there))
    assert repr(there).count("'***'") == 5


@pytest.mark.parametrize(("value", "meant"), [("true", True), ("False", False), (" ", None)])
def test_tls_as_an_option(value: str, meant: bool | None) -> None:
    options = {"servers": "a", "stream": "S", "nats.tls": value, "nats.nkeySeed": USER.seed}
    assert read_options(options).connection.keywords.get("tls") is meant
    assert read_options({**options, "nats.tls": "true", "nats.tls.handshakeFirst": "true"}).connection.keywords[
        "tls_handshake_first"
    ]


OTHER = CA.issue_cert("other").private_key_pem.bytes().decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nats.creds": "/no/such"}, "option nats.creds: cannot read the file in the driver: No such file"),
        ({"nats.creds": __file__[:-3] + "\0"}, "option nats.creds names no file of text"),
        ({"nats.creds.content": CREDS, "nats.creds": __file__}, "options nats.creds and nats.creds.content exclude"),
        ({"nats.creds.content": USER.seed}, "option nats.creds holds no credentials"),
        ({"nats.creds.content": CREDS.replace("JWT", "X")}, "cannot be used: the credentials hold no user JWT"),
        ({"nats.nkeySeed": USER.seed[:-1]}, "cannot be used: the nkey seed is damaged"),
        ({"nats.token": "geheim", "nats.user": "u"}, "cannot be used: give a token or a user, not both"),
        ({"nats.tls": "geheim?"}, "option nats.tls cannot be 'geheim?'"),
        (
            {"nats.tls": "false", "nats.tls.ca.content": CONTENTS["nats.tls.ca.content"]},
            "option nats.tls is false, but",
        ),
        ({"nats.tls.ca.content": "geheim"}, "option nats.tls.ca holds no certificates in PEM"),
        ({"nats.tls.cert.content": "geheim"}, "options nats.tls.cert and nats.tls.key go together"),
        (
            {"nats.tls.cert.content": CONTENTS["nats.tls.cert.content"], "nats.tls.key.content": OTHER},
            "options nats.tls.cert and nats.tls.key hold no PEM, or do not belong together",
        ),
        ({"nats.tls.nonsense": "geheim"}, "there is no option 'nats.tls.nonsense' for the connection"),
        ({"servers": "nats://u:geheim@a/x"}, "cannot be used: not a server URL: 'a/x'"),
    ],
)
def test_what_will_not_do_is_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options({"servers": "a", "stream": "S", **options})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    if "nats.tls" not in options:
        assert shows_no_secret(str(caught.value))


@promise("`nats.creds` that are renewed in their file count for each link and task from then on.")
def test_credentials_are_renewed(guarded: NatsServer, files: dict[str, str]) -> None:
    """The driver reads the file again. Tasks on other machines get what it holds then."""
    path = Path(files["nats.creds"])
    path.write_text(FORGED)
    options = read_options({"servers": guarded.url, "stream": "R", "minPartitions": "1", **files})
    reader = JetStreamReader(COLUMNS, options)
    assert renewed(str(path), FORGED) is None
    path.write_text(CREDS)
    assert renewed(str(path), FORGED) == CREDS
    with opened(options.connection, reader_thread=True) as nc:
        js = nc.jetstream()
        js.create_stream("R", subjects=["r.>"], allow_direct=True)
        js.publish("r.1", b"1")
    (partition,) = reader.partitions()
    assert shows_no_secret(repr(partition))
    assert read(reader, [partition]) == [1]
    path.unlink()
    assert read(reader, [partition]) == [1]
    assert renewed(str(path), FORGED) is renewed(None, None) is None
    path.write_text("nothing of the kind")
    assert renewed(str(path), FORGED) is None
