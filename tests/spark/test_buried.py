"""Rows that cannot be stored, as dead letters. Writers are called as Spark calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from jsproto.grammar.headers import encode_headers
from jsproto_io.sync import JetStream
from pyspark_jetstream import buried
from pyspark_jetstream import rows as rows_module
from pyspark_jetstream.markers import WriteError
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.rows import RowError, chunks_of
from pyspark_jetstream.schema import Target
from tests.marks import promise
from tests.spark.conftest import Made, data_of
from tests.spark.test_tasks import WRITTEN

pytestmark = pytest.mark.spark


def batches(*rows: tuple[str | None, str | None]) -> Iterator[pa.RecordBatch]:
    subjects, data = zip(*rows, strict=True)
    columns = {"subject": pa.array(subjects, pa.string()), "data": pa.array(data, pa.string())}
    yield pa.RecordBatch.from_pydict(columns)


@promise("With `deadLetterSubject` it becomes a dead letter")
@promise("A row that cannot be stored fails the task, by its number:")
@pytest.mark.parametrize("delivery", ["fast", "fastDedup", "atomic"])
def test_the_others_are_stored(js: JetStream, stream: Made, source: Any, delivery: str) -> None:
    name, dead = stream(max_msg_size=2_000), stream()
    rows: list[tuple[str | None, str | None]] = [(f"{name}.1", str(n)) for n in range(20)]
    rows[0] = (None, "nowhere")
    rows[3] = ("elsewhere", "other")
    rows[4] = (f"{name}.a b", "blank")
    rows[11] = (f"{name}.1", "x" * 3_000)
    rows[19] = (f"{name}..\u00e9", None)
    options = {"delivery": delivery, "markerSubject": name}
    with pytest.raises(RowError, match="row 11 of partition 0 has 3000 bytes of data"):
        source(name, **options).writer(WRITTEN, False).write(batches(*rows))
    writer = source(name, **options, deadLetterSubject=f"{dead}.x").writer(WRITTEN, False)
    written = writer.write(batches(*rows))
    assert (written.rows, written.buried) == (15, 5)
    with pytest.warns(UserWarning, match=f"dead letters on {dead}.x: 5 rows"):
        writer.commit([written, None])
    assert data_of(js, name) == Counter({*range(20)} - {0, 3, 4, 11, 19})
    letters = {each.headers[buried.ROW]: each for each in js.get_batch(dead)}
    assert {row: each.data[:9] for row, each in letters.items()} == {
        "0.0": b"nowhere", "0.3": b"other", "0.4": b"blank", "0.11": b"x" * 9, "0.19": b"",
    }  # fmt: skip
    assert letters["0.3"].headers[buried.SUBJECT] == "elsewhere"
    assert "does not take subject 'elsewhere'" in letters["0.3"].headers[buried.WHY]
    writer.write(batches(*rows))  # as Spark does with a task that it holds for dead
    assert js.stream_info(dead).state.messages == 5


@promise("Headers count, those that `fastDedup` and `atomic` add, too.")
@pytest.mark.parametrize(("delivery", "added"), [("fast", 0), ("fastDedup", 97), ("atomic", 87)])
def test_what_a_row_may_have(js: JetStream, stream: Made, source: Any, delivery: str, added: int) -> None:
    """The server takes what is let through, as the last row of a batch, too. One byte more is a dead letter."""
    name, dead = stream(max_msg_size=2_000), stream()
    rows: list[tuple[str | None, str | None]] = [(f"{name}.1", str(n)) for n in range(1_001)]
    rows[998] = (f"{name}.1", "998".zfill(2_000 - added))
    rows[999] = (f"{name}.1", "999".zfill(2_001 - added))
    options = {"delivery": delivery, "markerSubject": name, "deadLetterSubject": f"{dead}.x"}
    written = source(name, **options).writer(WRITTEN, False).write(batches(*rows))
    assert (written.rows, written.buried) == (1_000, 1)
    assert data_of(js, name) == Counter({*range(1_001)} - {999})
    (letter,) = js.get_batch(dead)
    whole = ", 2001 with its headers" if added else ""
    assert letter.headers[buried.WHY].startswith(f"has {2_001 - added} bytes of data{whole}; stream {name} takes 2000")
    if delivery == "atomic":  # to the byte: it has the longest number of a batch
        message = next(each for each in js.get_batch(name) if len(each.data) > 1_000)
        assert len(encode_headers(message.headers)) == added


def test_a_row_is_not_looked_at_for_each_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, letters = [], []
    headers = rows_module._headers

    def counting(chunk: pa.Table, *others: Any) -> Any:
        looked.append(chunk.num_rows)
        return headers(chunk, *others)

    monkeypatch.setattr(rows_module, "_headers", counting)
    columns = {"data": ["x"] * 2_000, "headers": [[("A", "1" if n % 20 else "1\n")] for n in range(2_000)]}
    kind = pa.schema({"data": pa.string(), "headers": pa.map_(pa.string(), pa.string())})
    batch = pa.RecordBatch.from_pydict(columns, kind)
    grave: Any = SimpleNamespace(bury=lambda row, *_: letters.append(row))
    chunks = chunks_of([batch], kind.names, "s.1", Target("S", ("s.*",), 2**63), 0, grave=grave)
    assert [len(chunk) for chunk in chunks].count(0) == 0
    assert letters == [*range(0, 2_000, 20)]
    assert sum(looked) < 10 * 2_000


def test_a_dead_letter_that_is_too_large(stream: Made, source: Any) -> None:
    name, dead = stream(max_msg_size=100), stream(max_msg_size=1_000)
    writer = source(name, deadLetterSubject=f"{dead}.x").writer(WRITTEN, False)
    with pytest.raises(WriteError) as caught:
        writer.write(batches((f"{name}.1", "1"), (f"{name}.1", "x" * 900)))
    assert "row 1 of partition 0 has 900 bytes of data; " in str(caught.value)
    assert f"not stored by stream {dead} of deadLetterSubject {dead}.x: message size exceeds" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_but_dead_letters(js: JetStream, stream: Made, source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name, dead = stream(), stream()
    monkeypatch.setattr(buried, "MOST", 3)
    writer = source(name, deadLetterSubject=f"{dead}.x").writer(WRITTEN, False)
    assert writer.write(batches(*[("other", "1")] * 3)).buried == 3
    with pytest.raises(WriteError, match="row 3 of partition 0 cannot be stored: .* too many for deadLetterSubject"):
        writer.write(batches(*[("other", "1")] * 4))
    huge = source(name, deadLetterSubject=f"{dead}.y").writer(WRITTEN, False)
    huge.write(batches((f"{name}.1", "x" * (1024 * 1024 + 1))))
    assert js.get_last_msg(dead, f"{dead}.y").data == b""
    with pytest.raises(OptionError, match="no stream takes deadLetterSubject nowhere"):
        source(name, deadLetterSubject="nowhere").writer(WRITTEN, False)
