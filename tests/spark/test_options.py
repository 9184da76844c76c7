"""Options, offsets and schemas: what a user may say, and the error when it cannot be. No server, no JVM."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import attrs
import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import pyspark_jetstream
from jsproto.grammar.position import StreamPosition
from jsproto_io.nats_server import NatsServer
from jsproto_io.sync import connect
from pyspark_jetstream import JetStreamDataSource, foreign_names
from pyspark_jetstream.offsets import (
    SplitPlan,
    check_streams,
    decode_begins,
    decode_offset,
    decode_split_plan,
    encode_offset,
    is_initial,
    is_same,
)
from pyspark_jetstream.option_fields import OptionError, options_of
from pyspark_jetstream.options import ConnectionOptions, ReadOptions, WriteOptions, read_options, write_options
from pyspark_jetstream.planning import Range, covers, grouped, later, split
from pyspark_jetstream.schema import check_read_schema, check_write_schema, written_names
from pyspark_jetstream.sink import JetStreamWriter
from pyspark_jetstream.source import share
from tests.marks import promise
from tests.spark.standalone import zipped
from tests.tools import generate_options

pytestmark = pytest.mark.spark

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def reading(**options: Any) -> ReadOptions:
    return read_options({"servers": "nats://a", "stream": "S", **{name: str(value) for name, value in options.items()}})


def writing(**options: Any) -> WriteOptions:
    return write_options(
        {"servers": "nats://a", "stream": "S", **{name: str(value) for name, value in options.items()}}
    )


def schema(**columns: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_what_is_read_by_default() -> None:
    options = reading()
    assert (options.streams, options.subject, options.starting_offsets, options.ending_offsets) == (
        ("S",),
        None,
        None,
        "latest",
    )
    assert (options.max_offsets_per_trigger, options.min_partitions, options.max_records_per_partition) == (
        None,
        None,
        250_000,
    )
    assert (options.fail_on_data_loss, options.include_headers, options.include_bookkeeping) == (True, False, False)
    assert (options.batch_size, options.max_bytes, options.num_retries) == (10_000, 8 * 1024 * 1024, 3)


def test_names_count_in_any_case() -> None:
    options = read_options({"SERVERS": "a", "path": " A , B ", "MAXoffsetsPerTrigger": "7", "owner": "spark"})
    assert (options.connection.servers, options.streams, options.max_offsets_per_trigger) == ("a", ("A", "B"), 7)
    assert reading(filterSubject="a.*").subject == "a.*"
    assert reading(maxTriggerDelay="5m").max_trigger_delay == 300
    assert reading(maxTriggerDelay="500ms", requestTimeout="2").max_trigger_delay == 0.5
    assert reading(startingTimestamp="2026-01-01T00:00:00Z").starting_timestamp == 1_767_225_600 * 10**9
    assert reading(startingTimestamp="999999999").starting_timestamp == 999_999_999 * 10**6
    assert reading(startingTimestamp="10000000000").starting_timestamp == 10**16
    assert reading(endingTimestamp="1767225600000").ending_timestamp == 1_767_225_600 * 10**9
    assert reading(startingOffsets='{"S": -2}').starting_offsets == {"S": -2}
    assert reading(stream="", kvBucket="K", endingOffsets='{"K": 7}').ending_offsets == {"KV_K": 7}
    assert reading(stream="", kvBucket="K", endingOffsets='{"KV_K": 7}').ending_offsets == {"KV_K": 7}


def test_the_tables_of_the_readme_are_up_to_date() -> None:
    readme = generate_options.README.read_text(encoding="utf-8")
    assert readme == generate_options.render(readme), "run: python -m tests.tools.generate_options"


def test_one_quantity_has_one_name() -> None:
    """An option is called like its field, but for the dot of a name of Kafka's and for several streams."""
    for kind in (ReadOptions, WriteOptions):
        for field, option in options_of(kind):
            name = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", option.name.removeprefix("fetch."))
            assert field == name or (field, name) == ("streams", "stream")


def test_options_with_another_value() -> None:
    options = reading(startingOffsets='{"S": 3}', subject="a.>", maxTriggerDelay="2h", includeHeaders="TRUE")
    other = attrs.evolve(options, subject="a.b")
    assert (other.subject, attrs.evolve(other, subject="a.>")) == ("a.b", options)
    with pytest.raises(OptionError, match="option subject cannot be 'a..b'"):
        attrs.evolve(options, subject="a..b")


FOREIGN = (
    "startingOffsetsByTimestamp endingOffsetsByTimestamp subscribe subscribePattern assign filter "
    "limit startOffset topic kafka.bootstrap.servers kafka.security.protocol versionAsOf msgId exactlyOnce"
)


@promise("An option that is not known is refused.")
@pytest.mark.parametrize("name", FOREIGN.split())
def test_options_of_other_sources(name: str) -> None:
    """They are answered with ours, of which there is each."""
    for options in (reading, writing):
        with pytest.raises(OptionError, match=f"there is no option '{name}' for a (read|write): [^\n]+$"):
            options(**{name: "x"})


def test_what_others_are_answered() -> None:
    ours = {
        each
        for kind in (ReadOptions, WriteOptions, ConnectionOptions)
        for _, option in options_of(kind)
        for each in option.names
    }
    for name, text in foreign_names.ANSWERS.items():
        assert name == name.lower()
        assert name not in map(str.lower, ours)
        assert {*re.findall(r"(?<=give option )\w+(?:\.\w+)?", text)} <= ours


def test_names_that_spark_adds() -> None:
    given = {
        "servers": "a", "path": "S", "paths": "[]", "option.stream": "S", "owner": "me", "checkpointLocation": "c",
        "queryName": "q", "asyncProgressTrackingEnabled": "false", "__partition_columns": "[]",
    }  # fmt: skip
    assert (read_options(given).streams, write_options(given).stream) == (("S",), "S")


@promise("executors get the content. Never shown")
def test_the_connection() -> None:
    connection = reading(
        **{
            "nats.user": "u", "nats.password": "geheim", "nats.connectTimeout": "500ms", "nats.jsDomain": "hub",
            "requestTimeout": "7", "servers": "nats://x:geheim@a:1,b",
        }
    ).connection  # fmt: skip
    assert connection.keywords == {"user": "u", "password": "geheim", "connect_timeout": 0.5}
    assert (connection.domain, connection.prefix, connection.request_timeout) == ("hub", None, 7.0)
    assert "geheim" not in repr(connection)
    assert "'a:1,b'" in repr(connection)
    assert pickle.loads(pickle.dumps(connection)) == connection


@promise("Never shown")
def test_secrets_are_not_shown() -> None:
    secrets = [field for field, option in options_of(ConnectionOptions) if option.text.endswith("Never shown")]
    assert secrets == ["user_credentials", "password", "token", "nkeys_seed_str", "tls_key"]
    with_all = object.__new__(ConnectionOptions)  # no connection takes all of them
    for field in attrs.fields_dict(ConnectionOptions):
        object.__setattr__(with_all, field, "geheim" if field in secrets else "shown")
    assert "geheim" not in repr(with_all)
    assert repr(with_all).count("'***'") == len([*secrets, "tls_ca", "tls_cert"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": ""}, "option stream is missing"),
        ({"servers": " "}, "option servers is missing"),
        ({"stream": "A B"}, "option stream cannot be 'A B'"),
        ({"stream": "A,A"}, "names one stream twice"),
        ({"kvBucket": "K"}, "options stream and kvBucket exclude each other"),
        ({"kvBucket": "K", "stream": "", "subject": "a"}, "options subject and kvBucket exclude each other"),
        ({"kvKeys": "a"}, "option kvKeys needs kvBucket"),
        ({"streamPattern": "a"}, "options stream and streamPattern exclude each other"),
        ({"streamPattern": "a(", "stream": ""}, "option streamPattern cannot be 'a(': a regular expression"),
        ({"kvBucket": "A,B", "stream": ""}, "option kvBucket cannot be 'A,B': a bucket's name has"),
        ({"kvBucket": "K", "stream": "", "kvKeys": "a,b"}, "option kvKeys cannot be 'a,b': one key, or one pattern"),
        ({"kvBucket": "K", "stream": "", "kvKeys": "a..b"}, "option kvKeys cannot be 'a..b': a subject must not"),
        ({"kvBucket": "K", "stream": "", "includeHeaders": "true"}, "includeHeaders and kvBucket exclude each other"),
        ({"kvBucket": "K", "stream": "", "endingOffsets": '{"K": 7, "KV_K": 9}'}, "bucket K has two offsets"),
        ({"startingOffset": "1"}, "no option 'startingOffset' for a read; did you mean 'startingOffsets' or"),
        ({"MAXrecordsPartition": "1"}, "for a read; did you mean 'maxRecordsPerPartition' or 'minPartitions'"),
        ({"nats.pasword": "geheim"}, "no option 'nats.pasword' for the connection; did you mean 'nats.password'"),
        ({"zzz": "1"}, "there is no option 'zzz' for a read"),
        ({"subject": "a,b"}, "option subject takes one subject or pattern, not 'a,b': take a pattern that matches all"),
        ({"startingOffsets": "first"}, "option startingOffsets cannot be 'first': earliest, latest, or JSON"),
        ({"startingOffsets": "{}"}, "cannot be '{}'"),
        ({"startingOffsets": "[1]"}, "cannot be"),
        ({"startingOffsets": '{"S": 0}'}, "cannot be"),
        ({"startingOffsets": '{"S": true}'}, "cannot be"),
        ({"startingOffsets": '{"T": 1}'}, "option startingOffsets names 'T', which is not read"),
        ({"endingOffsets": "earliest"}, "option endingOffsets cannot be 'earliest'"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "exclude each other"),
        ({"startingTimestampStrategy": "latest"}, "option startingTimestampStrategy needs startingTimestamp"),
        ({"startingTimestamp": "1764366376"}, "option startingTimestamp cannot be '1764366376': a number is millisec"),
        ({"startingTimestamp": "1000000000"}, "these are seconds: give 1000000000000"),
        (
            {"endingTimestamp": '{"S": 9999999999}'},
            "option endingTimestamp cannot be '{\"S\": 9999999999}': a number is",
        ),
        (
            {"startingTimestamp": "1764366376000000"},
            "option startingTimestamp cannot be '1764366376000000': a number is",
        ),
        ({"endingTimestamp": "1764366376000000000"}, "is milliseconds since 1970, and years are 1678 to 2261"),
        ({"endingTimestamp": "9999-12-31T23:59:59Z"}, "is milliseconds since 1970, and years are 1678 to 2261"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp cannot be 'yesterday': RFC 3339"),
        ({"subject": "a..b"}, "option subject cannot be 'a..b': "),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger must be 1 to"),
        ({"fetch.numRetries": "-1"}, "option fetch.numRetries cannot be '-1': a number from 0 on"),
        ({"maxTriggerDelay": "2 fortnights"}, "option maxTriggerDelay cannot be '2 fortnights': seconds, or such as"),
        ({"requestTimeout": "0"}, "option requestTimeout cannot be '0'"),
        ({"nats.connectTimeout": "soon"}, "option nats.connectTimeout cannot be 'soon': seconds, or such as 500ms"),
        ({"failOnDataLoss": "perhaps"}, "option failOnDataLoss cannot be 'perhaps': true or false"),
        ({"nats.jsDomain": "a", "nats.apiPrefix": "b"}, "exclude each other"),
        ({"nats.colour": "red"}, "there is no option 'nats.colour' for the connection"),
    ],
)
def test_a_read_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        reading(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": ""}, "option stream is missing"),
        ({"stream": "A,B"}, "a sink writes to one stream"),
        ({"deliverey": "atomic"}, "there is no option 'deliverey' for a write; did you mean 'delivery'?"),
        ({"subject": "a.*"}, "option subject cannot be 'a.*'"),
        ({"delivery": "exactly"}, "option delivery cannot be 'exactly': fast, fastDedup or atomic"),
        ({"maxOutstandingAcks": "4"}, "must be 1 to 3"),
        ({"flow": "70000"}, "option flow must be 1 to 65535"),
        ({"msgIdPrefix": "x"}, "option msgIdPrefix is for delivery fastDedup: take it"),
        ({"msgIdPrefix": "x", "delivery": "atomic"}, "for delivery fastDedup: to run a job again, give txnAppId and"),
        ({"txnAppId": "x", "delivery": "atomic"}, "options txnAppId and txnVersion go together"),
        ({"txnVersion": "1", "delivery": "atomic"}, "options txnAppId and txnVersion go together"),
        ({"txnAppId": "x", "txnVersion": "1"}, "options txnAppId and txnVersion need delivery fastDedup or atomic"),
        ({"txnAppId": "x.y", "txnVersion": "1"}, "option txnAppId cannot be 'x.y': a job name must not contain"),
        ({"txnAppId": "x", "txnVersion": "-1"}, "option txnVersion cannot be '-1': a number from 0 on"),
        ({"txnAppId": "x", "msgIdPrefix": "y", "delivery": "fastDedup"}, "exclude each other: it takes its place"),
    ],
)
def test_a_write_that_cannot_be(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("*", "\\*")):
        writing(**options)
    assert writing(delivery="FASTDEDUP").delivery == "fastDedup"


def test_a_streaming_write_has_a_number_of_its_own() -> None:
    options = {"servers": "a", "stream": "S", "delivery": "atomic", "txnAppId": "x", "txnVersion": "1"}
    with pytest.raises(OptionError, match="options txnAppId and txnVersion are for save"):
        JetStreamDataSource(options).streamWriter(schema(data=StringType()), False)


def test_a_column_origin_that_names_no_rows() -> None:
    """Tables have such columns. One that a read gave is taken, in any case."""
    wanted = schema(data=StringType(), ORIGIN=schema(task=LongType(), seq=LongType(), attempt=LongType()))
    assert check_write_schema(wanted, writing(subject="a")) == ["data", "origin"]
    airports = schema(data=StringType(), origin=StringType())
    assert check_write_schema(airports, writing(subject="a", ignoreExtraColumns="true")) == ["data"]
    with pytest.raises(OptionError, match="column 'origin' cannot be written"):
        check_write_schema(airports, writing(subject="a"))


@promise("The end is for `read` only, and exclusive")
def test_a_streaming_read_has_no_end() -> None:
    def reader(**ends: str) -> object:
        return JetStreamDataSource({"servers": "a", "stream": "S", **ends}).streamReader(schema(seq=LongType()))

    for ends in ({"endingOffsets": '{"S": 3}'}, {"endingTimestamp": "1"}):
        with pytest.raises(OptionError, match="endingOffsets and endingTimestamp are for read: readStream has no end"):
            reader(**ends)
    for none in ("latest", '{"S": -1}'):
        assert reader(endingOffsets=none)


def test_a_streaming_write_appends() -> None:
    """Spark tells a sink of a query in complete mode to overwrite."""
    with pytest.raises(OptionError, match=r"use outputMode\('append'\). .* foreachBatch, by store_once"):
        JetStreamDataSource({"servers": "a", "stream": "S"}).streamWriter(schema(data=StringType()), True)


@promise("Options of micro-batches are refused in a `read`")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "1"),
        ("maxBytesPerTrigger", "1"),
        ("minOffsetsPerTrigger", "1"),
        ("maxTriggerDelay", "15m"),
    ],
)
@pytest.mark.parametrize("place", [{"stream": "S"}, {"kvBucket": "B"}, {"stream": "S", "pushFilters": "true"}])
def test_a_read_has_no_micro_batches(place: dict[str, str], name: str, value: str) -> None:
    source = JetStreamDataSource({"servers": "a", **place, name: value})
    said = f"option {name} is for readStream: give endingOffsets or endingTimestamp to read less, or call limit"
    with pytest.raises(OptionError, match=said):
        source.reader(schema(timestamp=TimestampType()))
    assert source.streamReader(schema(timestamp=TimestampType()))


@promise("A schema of your own with some of these columns (and `timestamp_ns`) reads just them.")
def test_columns_that_are_read() -> None:
    check_read_schema(schema(seq=LongType(), headers=HEADERS))
    assert JetStreamDataSource.name() == "jetstream"
    source = JetStreamDataSource({"servers": "a", "stream": "S", "includeHeaders": "true"})
    assert source.schema().endswith("timestamp timestamp, headers array<struct<key:string,value:binary>>")
    for wrong, message in ((schema(), "no columns"), (schema(x=LongType()), "no column 'x'"),
                           (schema(timestamp=LongType()), "column timestamp is timestamp, not bigint")):  # fmt: skip
        with pytest.raises(OptionError, match=message):
            check_read_schema(wrong)


@promise("drop columns that cannot be written")
def test_columns_that_are_written() -> None:
    wanted = schema(data=StringType(), headers=MapType(StringType(), ArrayType(StringType())))
    assert check_write_schema(wanted, writing(subject="a")) == ["data", "headers"]
    more = schema(data=BinaryType(), x=IntegerType())
    assert check_write_schema(more, writing(subject="a", ignoreExtraColumns="true")) == ["data"]
    base = {"data": BinaryType(), "subject": StringType()}
    wrong: list[tuple[StructType, dict[str, str], str]] = [
        (schema(data=TimestampType()), {}, "column data must be binary or string, not timestamp"),
        (schema(subject=StringType()), {}, "column data is missing"),
        (schema(data=StringType()), {}, "where to?"),
        (schema(**base, x=IntegerType()), {}, "column 'x' cannot be written"),
        (schema(**base, msg_id=StringType()), {"delivery": "atomic"}, "leave out column msg_id"),
        (schema(**base, expected_last_subject_seq=LongType()), {}, "needs delivery atomic"),
        (schema(**base, expected_last_subject_seq_subject=StringType()), {}, "needs delivery atomic"),
        (schema(**base, incr=LongType()), {"delivery": "atomic"}, "takes no markers"),
        (schema(**base, at=StringType()), {}, "column at must be timestamp, not string"),
    ]
    for columns, options, message in wrong:
        with pytest.raises(OptionError) as caught:
            check_write_schema(columns, writing(**options))
        assert message in str(caught.value)


def test_a_column_in_another_case() -> None:
    upper = schema(Subject=StringType(), DATA=StringType(), Headers=MapType(StringType(), StringType()))
    assert check_write_schema(upper, writing()) == ["subject", "data", "headers"]
    several = schema(subject=StringType(), Subject=LongType(), data=StringType())
    assert written_names(several.names) == ["subject", "Subject", "data"]
    assert check_write_schema(several, writing(ignoreExtraColumns="true")) == ["subject", "data"]
    with pytest.raises(OptionError, match="column 'Subject' cannot be written"):
        check_write_schema(several, writing())


@pytest.mark.parametrize("name", ["delivery", "DELIVERY", "flow", "maxOutstandingAcks", "ignoreExtraColumns"])
def test_an_option_of_a_write_in_a_read(name: str) -> None:
    with pytest.raises(OptionError, match=f"(?i)option {name} is not for a read"):
        read_options({"servers": "nats://a", "stream": "S", name: "1"})


@pytest.mark.parametrize("name", ["startingOffsets", "includeheaders", "kvKeys", "failOnDataLoss"])
def test_an_option_of_a_read_in_a_write(name: str) -> None:
    with pytest.raises(OptionError, match=f"(?i)option {name} is not for a write"):
        write_options({"servers": "nats://a", "stream": "S", name: "1"})


def positions_of(names: set[str]) -> st.SearchStrategy[dict[str, StreamPosition]]:
    numbers = st.integers(0, 2**63 - 2)
    return st.fixed_dictionaries(
        {
            name: st.builds(StreamPosition, st.just(name), numbers, numbers.map(str), st.none() | numbers)
            for name in names
        }
    )


positions = st.sets(st.text(min_size=1), max_size=5).flatmap(positions_of)


@given(positions)
def test_an_offset_is_what_was_encoded(given: dict[str, StreamPosition]) -> None:
    text = json.dumps(encode_offset(given))
    assert decode_offset(json.loads(text)) == given
    assert json.dumps(encode_offset(dict(reversed(given.items())))) == text  # Spark compares texts
    assert decode_split_plan(json.loads(text)) is None
    both = json.loads(json.dumps(encode_offset(given, SplitPlan(3, 100))))
    assert (decode_offset(both), decode_split_plan(both)) == (given, SplitPlan(3, 100))
    assert not is_initial(both)


@given(positions, positions, positions)
def test_where_a_micro_batch_begins(
    start: dict[str, StreamPosition], begins: dict[str, StreamPosition], end: dict[str, StreamPosition]
) -> None:
    """The end of the first one says so, and goes first. Later ones say so of streams that are new, or came back."""
    initial, later = encode_offset(start, is_initial=True), encode_offset(start)
    planned = json.loads(json.dumps(encode_offset(end, SplitPlan(2, 9), begins=begins)))
    assert decode_offset(planned) == end
    assert decode_begins(initial, planned) == {**start, **begins}
    assert decode_begins(later, planned) == {**begins, **start}
    assert decode_begins(later, json.loads(json.dumps(encode_offset(end, moved=begins)))) == {**start, **begins}
    assert decode_begins(initial, encode_offset(end)) == start  # of an older release
    assert decode_begins(initial, encode_offset(end, is_initial=True)) == {**start, **end}  # nothing was there


def test_an_offset_in_a_checkpoint() -> None:
    """Texts and integers, as checkpoints of this release have them, and those of the release before."""
    begin, end = StreamPosition("S", 0, "1795000000000000000"), StreamPosition("S", 15, "1795000000000000000", 1_795)
    encoded = encode_offset({"S": end}, SplitPlan(2, 9), begins={"S": begin})
    assert json.dumps(encoded) == (
        '{"v": 1, "parts": 2, "most": 9, "from": {"S": {"created": "1795000000000000000", "seq": 1}}, '
        '"streams": {"S": {"created": "1795000000000000000", "seq": 16, "witness": "1795"}}}'
    )
    older = {"v": 1, "parts": 2, "most": 9, "streams": {"S": {"created": "1795000000000000000", "seq": 16}}}
    assert decode_offset(older) == {"S": StreamPosition("S", 15, "1795000000000000000")}
    assert is_same(decode_offset(older), {"S": end})
    assert is_same({"S": end}, decode_offset(older))
    for other in (
        {"S": replace(end, witness=1_796)},
        {"S": replace(end, seq=14)},
        {"S": replace(end, identity="1")},
        {"T": end},
        {"S": end, "T": end},
    ):
        assert not is_same({"S": end}, other)


DAMAGED: list[Any] = [1, [1], {"S": 1}, {"S": {"created": "1"}}, {"S": {"created": "1", "seq": 0}}] + [
    {"S": {"created": "1", "seq": 1, **wrong}} for wrong in ({"created": "x"}, {"seq": "x"}, {"witness": "x"})
]


@pytest.mark.parametrize(
    "offset", [{}, {"v": 2, "streams": {}}, {"v": 1}, {"S": {"0": 5}}, *({"v": 1, "streams": each} for each in DAMAGED)]
)
def test_an_offset_that_is_not_ours(offset: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="the checkpoint has offsets of"):
        decode_offset(offset)


@pytest.mark.parametrize("begins", DAMAGED)
@pytest.mark.parametrize("key", ["from", "moved"])
def test_a_begin_that_is_not_ours(key: str, begins: Any) -> None:
    start = encode_offset({}, is_initial=True)
    with pytest.raises(OptionError, match="the checkpoint has offsets of another source"):
        decode_begins(start, {**encode_offset({}), key: begins})


def test_a_checkpoint_of_other_streams() -> None:
    found = {name: StreamPosition(name, 1) for name in "ACB"}
    check_streams({"A": found["A"]}, ("A", "B"))
    with pytest.raises(OptionError, match="the checkpoint is of A, B, C, but the query does not read B, C: take"):
        check_streams(found, ("A",))


@promise("A micro-batch that comes again is split as it was")
@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 300), st.integers(1, 20))
def test_a_range_is_cut_without_gaps(lo: int, span: int, most: int, parts: int) -> None:
    whole = Range(lo, lo + span, StreamPosition("S", lo + span - 1))
    (found,) = split([whole], SplitPlan(parts, most))
    assert split([whole], SplitPlan(parts, most, in_all=True)) == [found]
    assert grouped(found, SplitPlan(parts, most, in_all=True)) == [[each] for each in found]
    assert [seq for each in found for seq in range(each.lo, each.hi)] == [*range(lo, lo + span)]
    assert all(1 <= each.hi - each.lo <= most for each in found)
    assert not span or len(found) >= min(parts, span)
    assert len(split([whole], SplitPlan(parts, 250_000))[0]) == min(span, parts)
    begin = lo + span // 2
    moved = [later(each, begin) for each in found]
    assert [(each.lo, each.hi) for each in moved] == [(each.lo, each.hi) for each in found]
    assert [seq for each in moved for seq in range(each.first, each.hi)] == [*range(begin, lo + span)]


@promise("Of each stream that has any it is one at least")
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=5), st.none() | st.integers(1, 3_000))
def test_a_limit_is_shared(counts: list[int], most: int | None) -> None:
    waiting = {str(n): count for n, count in enumerate(counts)}
    shares = share(waiting, most)
    assert all(0 <= shares[name] <= count for name, count in waiting.items())
    assert all(shares[name] for name, count in waiting.items() if count)  # each goes on
    total = sum(counts)
    least = total if most is None else min(most, total)
    assert least <= sum(shares.values()) <= least + len(counts) - 1


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        (">", "a.b", True), ("a.>", "a.>", True), ("a.>", "a", False), ("a.*", "a.b", True), ("a.*", "a.>", False),
        ("*.b", "*.b", True), ("a.b", "*.b", False), ("a", "a.b", False), ("a.b", "a", False), ("*", ">", False),
    ],
)  # fmt: skip
def test_covering(pattern: str, subject: str, expected: bool) -> None:
    assert covers(pattern, subject) is expected


def test_a_process_that_is_not_told_of_a_zip_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark tells the driver's process of a streaming read a wrong folder: what is pickled finds its package itself."""
    code = zipped(tmp_path / "jsproto.zip")
    monkeypatch.setattr(pyspark_jetstream, "__file__", str(code / "pyspark_jetstream" / "__init__.py"))
    dumps: Any = cloudpickle.dumps
    pickled = dumps(JetStreamDataSource({"a": "b"}))
    there = f"""
import sys
sys.path.append({str(Path(pyspark.__file__).parents[1])!r})
from pyspark import cloudpickle
for _ in range(2):
    found = cloudpickle.loads({pickled!r})
print(type(found).__name__, found.options, sys.modules[type(found).__module__].__file__)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", there], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == f"JetStreamDataSource {{'a': 'b'}} {code}/pyspark_jetstream/__init__.py\n"
    here = cloudpickle.loads(pickled)
    assert (type(here), here.options) == (JetStreamDataSource, {"a": "b"})


@pytest.mark.parametrize("package", ["pyarrow", "attrs"])
def test_a_python_without_a_package(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ModuleNotFoundError, match=f"^{package} is missing in {sys.executable}: install it there, or set"
    ):
        JetStreamDataSource({})


def test_what_plans_a_write_does_without_arrow() -> None:
    """Spark starts a process for it with each job (``python -m tests.bench.spark``)."""
    there = """
import sys
import pyspark_jetstream.sink
print({"pyarrow.compute", "pyspark_jetstream.rows", "pyspark_jetstream.arrow"} & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", there], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.versions
def test_columns_that_a_release_does_not_heed(server_for: Callable[..., NatsServer]) -> None:
    server = server_for("2.12.8")
    with connect(server.url) as nc:
        config: dict[str, Any] = {"storage": "memory", "allow_atomic": True, "allow_msg_schedules": True}
        nc.jetstream().create_stream("S", subjects=["s.>"], **config)
    known = {"data": BinaryType(), "at": TimestampType(), "target": StringType()}
    options = writing(servers=server.url, subject="s.later", delivery="atomic", markerSubject="s")
    assert JetStreamWriter(schema(**known), options, overwrite=False).names == list(known)
    with pytest.raises(OptionError, match=r"the keyword source needs nats-server 2\.14; the server is 2\.12\.8"):
        JetStreamWriter(schema(**known, source=StringType()), options, overwrite=False)
