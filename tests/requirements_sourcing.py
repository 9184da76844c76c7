"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 149 to 156, about the ack policy ``flow_control``.

The rest of durable sourcing is not built yet.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Requirement, row

CONSUMER: Final = "server/test_consumer.py::test_"
SETTINGS: Final = "server/test_consumer_settings.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    149: row(
        "ack_policy flow_control",
        "grammar/test_consumer.py::test_every_field_has_an_option", SETTINGS + "what_is_said_back",
    ),
    150: row("it needs a deliver subject", SETTINGS + "what_is_refused"),
    151: row("it needs flow control and heartbeats, which are set", SETTINGS + "what_is_said_back"),
    152: row(
        "answers to flow control acknowledge",
        CONSUMER + "acknowledging_by_flow_control", "server/test_acks.py::test_answers_to_flow_control",
    ),
    153: row(
        "the server asks by bytes, when it is full, and when it is idle",
        CONSUMER + "acknowledging_by_flow_control", CONSUMER + "flow_control_is_answered_on_the_newest_subject_only",
    ),
    154: row("it needs a positive max_ack_pending", SETTINGS + "what_is_refused", SETTINGS + "what_is_said_back"),
    155: row("it takes neither ack_wait nor backoff", SETTINGS + "what_is_refused"),
    156: row("it takes no limit of deliveries", SETTINGS + "what_is_refused"),
}  # fmt: skip
