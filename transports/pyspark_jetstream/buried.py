"""Dead letters of a sink: rows that cannot be stored, on a subject of their own (``deadLetterSubject``).

Rules:
* A dead letter has the row's data and, in headers, its subject, its number and why it cannot be stored. Data that is
  too large is left out.
* It is stored before the rows after it are. Its message id is its number, so within the duplicate window of its stream
  a repetition stores it once.
* A task that has more than ``MOST`` of them fails: the rest would be like them.
* One that its stream refuses fails the task: its ``max_msg_size`` may be too small, say.

Not here: which rows cannot be stored (``rows``). What only the server refuses fails the task.
"""

from __future__ import annotations

from typing import Final

from jsproto.errors import APIError
from jsproto_io.sync import Connection, JetStream
from pyspark_jetstream.connecting import retry_transient
from pyspark_jetstream.markers import TaskId, WriteError

MOST: Final = 1_000  # in a task
WHY: Final = "Jsproto-Error"
ROW: Final = "Jsproto-Row"
SUBJECT: Final = "Jsproto-Subject"
ROOM: Final = 2_048  # bytes for headers


class Grave:
    """Where the dead letters of a task go. ``count``: how many there are."""

    def __init__(self, nc: Connection, js: JetStream, subject: str, task: TaskId) -> None:
        self.count = 0
        self._nc, self._js = nc, js
        self._subject = subject
        self._task = task

    def bury(self, row: int, why: str, subject: str | None, data: bytes) -> None:
        """Store a row that cannot be stored as one. WriteError."""
        self.count += 1
        if self.count > MOST:
            text = f"row {row} of partition {self._task.partition} {why}, and so cannot {MOST} rows before it"
            raise WriteError(f"{text}: that is too many for deadLetterSubject")
        headers = {WHY: _line(why), ROW: f"{self._task.partition}.{row}", SUBJECT: _line(subject or "")}
        payload = data if len(data) <= self._nc.max_payload - ROOM else b""

        def publish() -> None:
            self._js.publish(self._subject, payload, headers=headers, msg_id=f"{self._task}.dead.{row}")

        try:
            retry_transient(self._nc, publish)
        except APIError as error:
            stream = ", ".join(self._js.stream_names(self._subject))
            text = f"row {row} of partition {self._task.partition} {why}, and its dead letter of {len(payload)} bytes"
            raise WriteError(
                f"{text} was not stored by stream {stream} of deadLetterSubject {self._subject}: {error}"
            ) from error


def _line(text: str) -> str:
    """``text`` as the value of a header: printable ASCII, and not too long."""
    return "".join(each if " " <= each <= "~" else "?" for each in text[:500]).strip()
