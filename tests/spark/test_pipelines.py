"""The programs on Spark, against a real server: what goes in, what comes out, and what they say of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from typer.testing import CliRunner

from jsproto_io.cli.demo import find_flights
from jsproto_io.cli.records import open_source
from jsproto_io.sync import connect
from pyspark_jetstream.pipelines.jobs import audit, export, ingest, mirror, replay
from tests.marks import promise
from tests.spark.conftest import PYTHONPATH, ROOT, Made, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jsproto_io.nats_server import NatsServer
    from jsproto_io.sync import JetStream

pytestmark = pytest.mark.spark

FLIGHTS = int(os.environ.get("JSPROTO_FLIGHTS", "3000"))
"""How many of the 336,776 flights go there and back."""

APPS = {"ingest": ingest.app, "export": export.app, "mirror": mirror.app, "replay": replay.app, "audit": audit.app}


class Programs:
    """Runs programs in this process, with the Spark that is there, against one server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, name: str, *arguments: object, code: int = 0) -> dict[str, Any]:
        """The JSON object that it prints. A failure's has ``error``."""
        found, out, err = self.call(name, *arguments, "--servers", self.url, "--json")
        assert found == code, err
        answer: dict[str, Any] = json.loads(out)
        if "error" in answer:
            assert f"jsproto: {answer['error']}\n" in err
        return answer

    def call(self, name: str, *arguments: object) -> tuple[int, str, str]:
        result = CliRunner().invoke(APPS[name], [str(each) for each in arguments])
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def run(spark: SparkSession, server: NatsServer) -> Programs:
    return Programs(server.url)


@pytest.fixture
def made(js: JetStream, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Names of streams that programs make, which go at the end."""
    names: list[str] = []

    def name(suffix: str = "") -> str:
        names.append(f"{''.join(filter(str.isalnum, request.node.name))}{suffix}"[-60:])
        return names[-1]

    yield name
    for each in names:
        js.delete_stream(each)


def equal(one: DataFrame, another: DataFrame) -> bool:
    """The same columns, types and rows, in whatever order."""
    kinds = [[(field.name, field.dataType) for field in table.schema] for table in (one, another)]
    return kinds[0] == kinds[1] and one.exceptAll(another).isEmpty() and another.exceptAll(one).isEmpty()


def bodies(js: JetStream, name: str) -> list[bytes]:
    return [message.data for message in js.get_batch(name) if ".$spark." not in message.subject]


# -- ingest and export -------------------------------------------------------------------------------------------------


@promise("gives the table back that `ingest` took")
@promise("`ingest`, `mirror` and `replay` store every row")
def test_flights_there_and_back(run: Programs, spark: SparkSession, made: Callable[[str], str], tmp_path: Path) -> None:
    name, flights, out = made(""), tmp_path / "flights.csv", tmp_path / "out"
    with open_source(os.fspath(find_flights())) as source:
        flights.write_bytes(b"".join(islice(source.stream, FLIGHTS + 1)))
    told = run(
        "ingest", flights, "--subject", f"{name}.{{carrier}}.{{origin}}", "--stream", name, "--create-stream",
        "--option", "nullValue=NA", "--schema", ingest.FLIGHTS_SCHEMA, "--delivery", "atomic",
    )  # fmt: skip
    assert (told["rows"], told["stored"], told["stored_twice"]) == (FLIGHTS, FLIGHTS, 0)
    told = run("export", name, out, "--data", "columns")
    assert told["rows"] == FLIGHTS
    came = spark.read.parquet(str(out))
    assert {"nats_subject", "nats_seq", "nats_timestamp", "nats_day"} <= set(came.columns)
    came = came.drop(*[each for each in came.columns if each.startswith("nats_")])
    went = spark.read.csv(str(flights), header=True, nullValue="NA", schema=ingest.FLIGHTS_SCHEMA)
    assert went.where("dep_time IS NULL").count() > 0
    assert equal(went, came)
    assert (out / f"nats_subject={name}.UA.JFK").is_dir()


@promise("gives the table back that `ingest` took")
def test_all_kinds_of_values_there_and_back(
    run: Programs, spark: SparkSession, made: Callable[[str], str], tmp_path: Path
) -> None:
    name, files = made(""), str(tmp_path / "in.parquet")
    spark.sql(
        """SELECT 1L id, 'é"\\n' text, TIMESTAMP'2026-11-21 08:00:00.123456' at, DATE'2026-11-21' on_day, X'00ff' raw,
           CAST(1.10 AS DECIMAL(10,2)) price, 0.1D ratio, array(1, NULL) list, map('k', 2) pairs,
           named_struct('x', CAST(NULL AS INT)) inner, TIMESTAMP_NTZ'2026-01-02 03:04:05.000006' local
           UNION ALL SELECT 2L, NULL, NULL, NULL, NULL, NULL, DOUBLE('NaN'), NULL, NULL, NULL, NULL"""
    ).write.parquet(files)
    run("ingest", files, "--subject", f"{name}.{{id}}", "--stream", name, "--create-stream")
    run("export", name, tmp_path / "out", "--data", "columns", "--by", "none")
    came = spark.read.parquet(str(tmp_path / "out"))
    came = came.drop(*[each for each in came.columns if each.startswith("nats_")])
    assert equal(spark.read.parquet(files).drop("pairs"), came.drop("pairs"))  # a map cannot be compared
    assert [row.pairs for row in came.orderBy("id").collect()] == [{"k": 2}, None]


@promise("then stores nothing twice within the duplicate window")
@promise("What the target has seen by its id within its duplicate window it drops")
def test_columns_as_messages_headers_and_ids(
    run: Programs, js: JetStream, made: Callable[[str], str], tmp_path: Path
) -> None:
    name, lines = made(""), tmp_path / "lines.jsonl"
    lines.write_text('{"k":"a b","v":"one","h":1,"id":"x"}\n{"k":"","v":"two","id":"y"}\n')
    options = ["--subject", f"{name}.{{k}}", "--stream", name, "--create-stream", "--unsafe", "replace", "--data", "v"]
    options += ["--header", "Number=h", "--msg-id", "id"]
    assert run("ingest", lines, *options)["stored"] == 2
    again = run("ingest", lines, *options)
    assert (again["rows"], again["stored"], again["duplicates_dropped"]) == (2, 0, 2)
    messages = sorted((each.subject, each.data, [*each.headers.items()]) for each in js.get_batch(name))
    assert messages == [
        (f"{name}._", b"two", [("Nats-Msg-Id", "y")]),
        (f"{name}.a_b", b"one", [("Number", "1"), ("Nats-Msg-Id", "x")]),
    ]


@promise("With `--checkpoint` that holds from run to run.")
def test_files_that_arrive(run: Programs, js: JetStream, made: Callable[[str], str], tmp_path: Path) -> None:
    name, folder = made(""), tmp_path / "in"
    folder.mkdir()
    options = ["--subject", f"{name}.x", "--stream", name, "--create-stream", "--checkpoint", tmp_path / "done"]
    options += ["--delivery", "atomic"]
    for number, total in enumerate((2, 4)):
        (folder / f"{number}.csv").write_text(f"n\n{2 * number}\n{2 * number + 1}\n")
        told = run("ingest", folder, *options)
        assert (told["rows"], told["stored"]) == (2, 2)
        assert sorted(bodies(js, name)) == [b'{"n":%d}' % n for n in range(total)]


def test_what_export_writes(run: Programs, spark: SparkSession, js: JetStream, stream: Made, tmp_path: Path) -> None:
    name = stream(100)
    told = run("export", name, tmp_path / "json", "--format", "json", "--by", "month", "--from", 11, "--until", 21)
    assert told["rows"] == 10
    rows = spark.read.json(str(tmp_path / "json"))
    assert sorted((row.seq, row.data) for row in rows.collect()) == [(n, str(n)) for n in range(11, 21)]
    told = run("export", name, tmp_path / "csv", "--format", "csv", "--tokens", 1, "--subject", f"{name}.3")
    assert told["rows"] == 10
    assert (tmp_path / "csv" / f"subject_prefix={name}").is_dir()
    spark.conf.set("spark.sql.adaptive.enabled", "true")  # as everywhere but here
    try:
        told = run("export", name, tmp_path / "none", "--subject", f"{name}.none")
        assert spark.conf.get(export.EXCLUDED, None) is None
        spark.conf.set(export.EXCLUDED, "some.rule")
        told_again = run("export", name, tmp_path / "none", "--subject", f"{name}.none", "--mode", "overwrite")
        assert spark.conf.get(export.EXCLUDED) == "some.rule"  # the session is not the program's own
    finally:
        spark.conf.unset(export.EXCLUDED)
        spark.conf.set("spark.sql.adaptive.enabled", "false")
    assert (told["rows"], told["bytes"], (tmp_path / "none" / "_SUCCESS").exists()) == (0, 0, True)
    assert told_again["rows"] == 0
    js.publish(f"{name}.x", b"\xff")
    failed = run("export", name, tmp_path / "text", "--data", "text", code=1)
    assert failed["error"] == "a message is not UTF-8: use --data base64, or binary with parquet"
    left = tmp_path / "text" / "_temporary" / "0" / "task_1" / f"subject={name}.1"
    left.mkdir(parents=True, exist_ok=True)  # as a task does that outlives its job
    (left / "part-0.parquet").write_bytes(b"half of it")
    assert run("export", name, tmp_path / "text", "--data", "base64")["rows"] == 101
    assert spark.read.parquet(str(tmp_path / "text")).count() == 101
    js.publish(f"{name}.{'x' * 300}", b"")
    failed = run("export", name, tmp_path / "long", code=1)
    assert re.search(
        r"Task failed while writing rows to .*: IOException: Mkdirs failed to create .*/subject=.*xxx", failed["error"]
    )


def test_a_bucket_at_a_moment(run: Programs, spark: SparkSession, js: JetStream, made: Any, tmp_path: Path) -> None:
    bucket = made("")
    js.create_stream(f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], max_msgs_per_subject=5, allow_direct=True)
    try:
        for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4")):
            js.publish(f"$KV.{bucket}.{key}", value)
        js.publish(f"$KV.{bucket}.b", b"", headers={"KV-Operation": "DEL"})
        wanted: list[tuple[list[Any], dict[str, bytes | None]]] = [
            ([], {"a": b"3", "c": b"4"}),
            (["--deleted", "--keys", "b"], {"b": None}),
            (["--at", 3], {"a": b"1", "b": b"2"}),
        ]
        for number, (options, values) in enumerate(wanted):
            out = tmp_path / str(number)
            assert run("export", out, "--bucket", bucket, *options)["rows"] == len(values)
            assert {row.key: row.value for row in spark.read.parquet(str(out)).collect()} == values
    finally:
        js.delete_stream(f"KV_{bucket}")
        js.create_stream(bucket, subjects=[bucket])  # what ``made`` deletes


# -- mirror and replay -------------------------------------------------------------------------------------------------


def test_mirror_by_queries(run: Programs, js: JetStream, stream: Made, tmp_path: Path) -> None:
    name, target = stream(100), stream()
    sql = f"SELECT concat('{target}.', seq) subject, upper(hex(data)) data FROM messages WHERE subject LIKE '%.3'"
    told = run("mirror", name, target, "--sql", sql, "--delivery", "fastDedup")
    assert (told["rows"], told["stored"]) == (10, 10)
    assert js.get_last_msg(target, f"{target}.13").data == b"3133"
    (tmp_path / "code.py").write_text(
        "from pyspark.sql.functions import expr\n"
        f"def better(rows): return rows.select(expr(\"'{target}.py' subject\"), 'data').where('seq = 1')\n"
        "def worse(rows): return 1\n"
    )
    assert run("mirror", name, target, "--python", f"{tmp_path}/code.py:better")["stored"] == 1
    failed = run("mirror", name, target, "--python", f"{tmp_path}/code.py:worse", code=1)
    assert failed["error"] == "--python: the function gave int, not a DataFrame"
    failed = run("mirror", name, target, "--sql", "SELECT nothing FROM messages", code=1)
    assert "`nothing` cannot be resolved" in failed["error"]


@promise("With `--checkpoint` that holds from run to run.")
@promise("`replay`, and `mirror` without a query")
@promise("The numbers of a summary are right as long")
def test_mirror_goes_on_where_it_ended(run: Programs, js: JetStream, stream: Made, made: Any, tmp_path: Path) -> None:
    name, target = stream(50), made("copy")
    js.publish(f"{name}.x", b"51", headers={"Plain": "p", "Nats-Msg-Id": "i", "Nats-Expected-Stream": name})
    options = ["--prefix", "m.", "--create-stream", "--delivery", "atomic", "--checkpoint", tmp_path / "state"]
    assert run("mirror", name, target, *options)["stored"] == 51
    fill(js, name, 52, 60)
    assert run("mirror", name, target, *options)["stored"] == 9
    assert Counter(bodies(js, target)) == Counter(b"%d" % n for n in range(1, 61))
    headers = [pair for pair in js.get_last_msg(target, f"m.{name}.x").headers.items() if "Batch" not in pair[0]]
    assert headers == [("Plain", "p")]


@promise("A work queue that `mirror` has emptied by `atomic` is in the target once.")
def test_mirror_empties_a_work_queue(run: Programs, js: JetStream, stream: Made, made: Any, tmp_path: Path) -> None:
    name, target = stream(1_500, retention="workqueue"), made("copy")
    options = ["--prefix", "m.", "--create-stream", "--delivery", "atomic", "--checkpoint", tmp_path / "state"]
    options += ["--read-mode", "sourcing", "--consumer", "mirror"]
    told = run("mirror", name, target, *options)
    assert (told["rows"], told["stored"], js.stream_info(name).state.messages) == (1_500, 1_500, 0)
    fill(js, name, 1_501, 1_600)
    assert run("mirror", name, target, *options)["stored"] == 100
    assert js.stream_info(name).state.messages == 0
    assert Counter(bodies(js, target)) == Counter(b"%d" % n for n in range(1, 1_601))


@promise("a stretch of time once more, in order, at its own pace, faster, or at full speed")
@promise("`ingest`, `mirror` and `replay` store every row")
@promise("`replay`, and `mirror` without a query")
@promise("`replay` at a pace has one task, which keeps the order of all messages.")
def test_replay_in_order(run: Programs, js: JetStream, stream: Made, made: Any) -> None:
    name, target = stream(3_000), made("again")
    js.publish(f"{name}.x", b"last", msg_id="id-1")
    told = run("replay", name, target, "--prefix", "again.", "--create-stream", "--speed", 1000, "--from", 2)
    assert (told["rows"], told["stored"]) == (3_000, 3_000)
    assert bodies(js, target) == [*(b"%d" % n for n in range(2, 3_001)), b"last"]
    assert js.get_last_msg(target, f"again.{name}.x").headers["Nats-Msg-Id"] == "id-1"
    told = run("replay", name, target, "--prefix", "again.", "--speed", "full", "--until", 11)
    assert (told["rows"], told["stored"]) == (10, 10)


# -- audit -------------------------------------------------------------------------------------------------------------


def test_audit(run: Programs, js: JetStream, stream: Made, tmp_path: Path) -> None:
    name = stream(10, duplicate_window=0.1, allow_direct=True)
    good = run("audit", name, tmp_path / "good.html", "--strict")
    assert (good["messages"], good["missing"], good["duplicates"], good["subjects"]) == (10, 0, 0, 10)
    js.publish(f"{name}.<b>$", b"x", msg_id="twice")
    until_forgotten(js, f"{name}.<b>$", "twice")
    before = js.stream_info(name).state
    delete(js, name, 3, 4, 7)
    told = run("audit", name, tmp_path / "bad.html", "--strict", code=1)
    assert (told["missing"], told["gaps"], told["duplicates"]) == (3, 2, 1)
    assert told["messages"] == before.messages - 3
    page = (tmp_path / "bad.html").read_text()
    assert "Missing sequences: 3. Gaps: 2." in page
    assert "Message ids stored more than once: 1. Messages too many: 1." in page
    assert "&lt;b&gt;$" in page
    assert "<b>" not in page
    assert "data:image/png;base64," in page
    few = run("audit", name, tmp_path / "few.html", "--subject", f"{name}.1", "--tokens", 1)
    assert (few["messages"], few["subjects"]) == (1, 1)
    assert "missing" not in few


def until_forgotten(js: JetStream, subject: str, msg_id: str) -> None:
    """Publish with an id again until the stream has forgotten it."""
    while js.publish(subject, b"x", msg_id=msg_id).duplicate:
        pass


def delete(js: JetStream, name: str, *sequences: int) -> None:
    for seq in sequences:
        reply = js._connection.request(f"$JS.API.STREAM.MSG.DELETE.{name}", json.dumps({"seq": seq}).encode())
        assert json.loads(reply.data)["success"]


# -- servers of their own, and bad input -------------------------------------------------------------------------------


def test_a_server_of_its_own(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NATS_URL", raising=False)
    (tmp_path / "in.json").write_text('{"n":1}\n{"n":2}\n')
    programs, store = Programs(""), tmp_path / "store"
    ingesting = ("ingest", tmp_path / "in.json", "--subject", "ns.{n}", "--create-stream")
    code, out, err = programs.call(*ingesting, "--store", store)
    assert (code, err) == (0, "")
    assert "ingest: done" in out
    assert "messages stored   2" in out
    code, out, err = programs.call("export", "NS", tmp_path / "out", "--store", store, "--data", "columns", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 2
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [1, 2]
    code, out, err = programs.call("export", "NS", tmp_path / "out2")
    assert code == 2
    assert err == "jsproto: where from? --servers URL, or --store FOLDER of what an earlier run has kept there\n"


@promise("ends with a summary (`--json` for programs) or with one line that says what is wrong")
def test_what_cannot_be(run: Programs, stream: Made, tmp_path: Path) -> None:
    name = stream(10)
    (tmp_path / "in.csv").write_text("a,b\n1,x y\n")
    (tmp_path / "in.txt").write_text("")
    csv, txt = tmp_path / "in.csv", tmp_path / "in.txt"
    to = ["--subject", f"{name}.x", "--stream", name]
    wrong: list[tuple[int, str, list[Any], str | None]] = [
        (2, "ingest", [tmp_path / "no", *to], f"cannot read {tmp_path / 'no'}: there is no such file or folder"),
        (2, "ingest", [txt, *to], "the files' names do not tell one format: give --format parquet, csv or json"),
        (2, "ingest", [csv], "where to? Give --subject, such as --subject 'flights.{carrier}', or --subject-column"),
        (2, "ingest", [csv, "--subject", "NOWHERE.x"], "there is no stream NOWHERE: add --create-stream to make it"),
        (2, "ingest", [csv, *to, "--follow"], "--follow needs --checkpoint, or the next run would begin anew"),
        (2, "ingest", [csv, *to, "--header", "x"], "--header takes NAME=VALUE, not 'x'"),
        (2, "ingest", [csv, *to, "--nats", "creedz=x"], "there is no option 'nats.creedz' for the connection; did "
         "you mean 'nats.creds' or 'nats.nkeySeed' or 'nats.creds.content'?"),
        (2, "ingest", [csv, "--subject", f"{name}.{{c}}", "--stream", name], "--subject: there is no column 'c'; the "
         "columns are a, b"),
        (2, "ingest", [csv, *to, "--data", "a"], "--data a: the column is int, but a message is text or binary"),
        (1, "ingest", [csv, "--subject", f"{name}.{{b}}", "--stream", name], "column 'b' holds 'x y', which cannot be "
         "part of a subject (--unsafe replace)"),
        (1, "ingest", [csv, "--subject", "other.x", "--stream", name], "row 0 of partition 0 cannot "
         f"be stored: stream {name} does not take subject 'other.x'"),
        (1, "ingest", [csv, *to, "--schema", "a INT"], None),
        (1, "export", ["NOWHERE", tmp_path / "x"], "there is no stream NOWHERE"),
        (2, "export", [name, tmp_path], f"{tmp_path} is there already: choose another folder, or --mode append or "
         "overwrite"),
        (2, "export", [name, tmp_path / "x", "--by", "week"], "--by takes subject, hour, day, month, year or none, "
         "not 'week'"),
        (2, "export", [name, tmp_path / "x", "--from", "noon"], "--from takes a sequence, or a time such as "
         "2026-11-21T08:00, not 'noon'"),
        (2, "export", [name, tmp_path / "x", "--data", "columns"], "--data columns: which ones? ingest has left none "
         "with this stream, so give --schema"),
        (1, "export", [name, tmp_path / "x", "--from", "12"], f"stream {name} ends at sequence 10, but 12 was to be "
         "read next; set failOnDataLoss to false to go on with what is there"),
        (2, "mirror", [name, name], f"{name} is where it comes from: choose another target"),
        (2, "mirror", [name, "T", "--python", "x"], "--python takes FILE:NAME, not 'x'"),
        (2, "mirror", [name, "T", "--consumer", "C"], "--consumer and --read-mode sourcing go together"),
        (2, "mirror", [name, "T", "--read-mode", "sourcing", "--consumer", "C"], "--read-mode sourcing needs "
         "--checkpoint: what is not remembered cannot be acknowledged"),
        (2, "mirror", [name, "T", "--read-mode", "sourcing", "--consumer", "C", "--checkpoint", "x", "--from", "2"],
         "--from and --read-mode sourcing exclude each other: the consumer says where to begin"),
        (2, "replay", [name, "T", "--speed", "slow"], "--speed takes original, full or a number above 0, not 'slow'"),
        (2, "replay", [name, "T", "--delivery", "atomic"], "--delivery atomic needs --speed full: it stores a "
         "thousand messages at a time"),
        (1, "audit", ["NOWHERE"], "there is no stream NOWHERE"),
        (2, "audit", [name, tmp_path / "no" / "x.html"], f"cannot write {tmp_path / 'no' / 'x.html'}: give a file in a "
         "folder that is there"),
    ]  # fmt: skip
    for code, program, arguments, message in wrong:
        answer = run(program, *arguments, code=code)
        assert not answer["ok"]
        assert "\n" not in answer["error"]
        if message is not None:
            assert answer["error"] == message


def test_by_spark_submit(server: NatsServer, js: JetStream, stream: Made, tmp_path: Path) -> None:
    """The one that starts a Spark of its own. The interpreter is left to the program to choose."""
    name = stream()
    (tmp_path / "in.csv").write_text("a\n1\n")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    program = ROOT / "transports" / "pyspark_jetstream" / "pipelines" / "ingest.py"
    env = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    env |= {"PYTHONPATH": PYTHONPATH, "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    master: list[str | Path] = ["--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    master += ["--conf", "spark.sql.codegen.wholeStage=false"]
    master += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    options = ["--subject", f"{name}.x", "--stream", name, "--servers", server.url, "--json", "--schema", "a INT"]
    command = [submit, *master, program, tmp_path / "in.csv", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()  # behind what Python warns of: spark-submit makes one stream of two
    assert json.loads(last)["stored"] == 1
    assert bodies(js, name) == [b'{"a":1}']


# -- while others write ------------------------------------------------------------------------------------------------


@contextmanager
def somebody_writes(server: NatsServer, subject: str) -> Iterator[None]:
    """All the time, as fast as messages are acknowledged."""
    over = threading.Event()

    def write() -> None:
        with connect(server.url) as nc:
            while not over.is_set():
                nc.jetstream().publish(subject, b"0")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@promise("`export` and `audit` read each message of their range once, whatever is run again.")
def test_what_is_written_meanwhile_is_not_in_it(
    run: Programs, spark: SparkSession, server: NatsServer, js: JetStream, stream: Made, tmp_path: Path
) -> None:
    name = stream(3_000)
    with somebody_writes(server, f"{name}.x"):
        exported = run("export", name, tmp_path / "out")
        audited = run("audit", name, tmp_path / "page.html", "--strict")
        assert js.stream_info(name).state.messages > audited["messages"] > exported["rows"] >= 3_000
    assert (audited["missing"], audited["gaps"], audited["duplicates"]) == (0, 0, 0)
    seqs = [row.seq for row in spark.read.parquet(str(tmp_path / "out")).select("seq").collect()]
    assert sorted(seqs) == [*range(1, exported["rows"] + 1)]
