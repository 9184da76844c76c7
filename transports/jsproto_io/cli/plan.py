"""What ``jsproto ingest`` is asked to do, checked before anything is opened or dialled.

Rules: attrs runs the checks when a plan is made, and BadUsage says what is wrong. The bounds of numbers are not checked
again, since the command line checks them.

Not here: the options (``app``), the work (``ingesting``).
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from jsproto_io.cli.records import BadUsage, Format, Template

_NO_DELIMITERS: Final = frozenset('"\r\n')  # quotes and line ends of CSV


@attrs.frozen(kw_only=True)
class IngestPlan:
    """The plan of one ingest.

    Attributes:
        template: the subject of each record.
        stream: the stream to look at first. None: none, unless it may be created or changed.
        create: create the stream if it is not there.
        allow_batched: switch fast ingest on if the stream has it off.
        kind: the format of the records.
        delimiter: between the values of a CSV row. None: by the file's name.
        skip: how many records to leave out.
        gap: "fail" or "ok", as in ``JetStream.fast_publisher``.
        flow: messages for each acknowledgement, as in ``JetStream.fast_publisher``.
    """

    template: Template
    stream: str | None
    create: bool = False
    allow_batched: bool = False
    kind: Format = Format.AUTO
    delimiter: str | None = attrs.field(default=None)
    skip: int = 0
    gap: Literal["fail", "ok"] = "fail"
    flow: int = 500

    @delimiter.validator
    def _check_delimiter(self, _: object, delimiter: str | None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in _NO_DELIMITERS):
            raise BadUsage(f"the delimiter is one character, no quote and no line end, not {delimiter!r}")

    def __attrs_post_init__(self) -> None:
        if self.stream is None and (self.create or self.allow_batched):
            object.__setattr__(self, "stream", self.template.stream_name())
