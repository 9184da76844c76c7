"""Rows that cannot be stored, as dead letters. Writers are called as Spark calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from jsproto_io.sync import JetStream
from pyspark_jetstream import buried
from pyspark_jetstream.markers import WriteError
from pyspark_jetstream.option_fields import OptionError
from pyspark_jetstream.rows import RowError
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
