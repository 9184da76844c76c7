"""Which tests show which requirement of ``REQUIREMENTS.md``: durable sourcing, its ack policy ``flow_control`` and its
configurations.

Rows of sourcing that are not here are not built yet.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Requirement, row

CONSUMER: Final = "server/test_consumer.py::test_"
SETTINGS: Final = "server/test_consumer_settings.py::test_"
READY: Final = "grammar/test_sourcing.py::test_"
SOURCES: Final = "grammar/test_sources.py::test_"
CONFIG: Final = "client/test_sourcing_config.py::test_"
REAL: Final = "drivers/test_sourcing.py::test_"

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
    157: row(
        "the client refuses what contradicts that, and offers what does not",
        READY + "a_ready_made_configuration", READY + "what_servers_refuse",
        CONFIG + "what_servers_refuse_of_a_consumer_is_not_sent", REAL + "servers_refuse_what_is_refused_before",
    ),
    158: row(
        "a source or mirror names its consumer and the deliver subject",
        SOURCES + "a_consumer_that_servers_may_take", SOURCES + "a_consumer_that_servers_refuse",
        REAL + "a_work_queue_moves_by_a_durable_source",
    ),
    159: row(
        "server_managed only where a caller gives it, with a clear refusal",
        CONFIG + "a_refusal_of_server_managed_says_what_to_do", REAL + "server_managed_is_refused_with_what_to_do",
    ),
    160: row(
        "neither start nor filter beside a consumer",
        SOURCES + "a_consumer_that_servers_refuse", REAL + "servers_refuse_what_is_refused_before",
    ),
    161: row("last per subject and the original pace", REAL + "what_a_sourcing_consumer_may_have"),
    165: row("a pause of the consumer pauses the sourcing", REAL + "a_work_queue_moves_by_a_durable_source"),
    166: row(
        "lag and error of a source",
        SOURCES + "a_source", SOURCES + "any_information_is_written_as_it_was_read",
        REAL + "a_source_whose_consumer_acknowledges_otherwise_says_so",
    ),
}  # fmt: skip
