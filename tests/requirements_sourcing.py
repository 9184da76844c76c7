"""Which tests show which requirement of ``REQUIREMENTS.md``: durable sourcing, its ack policy ``flow_control``, its
configurations, and resets of consumers.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Requirement, row

CONSUMER: Final = "server/test_consumer.py::test_"
SETTINGS: Final = "server/test_consumer_settings.py::test_"
READY: Final = "grammar/test_sourcing.py::test_"
SOURCES: Final = "grammar/test_sources.py::test_"
CONFIG: Final = "client/test_sourcing_config.py::test_"
FOLLOWING: Final = "server/test_following.py::test_"
BY_CONSUMERS: Final = "server/test_consumer_following.py::test_"
AS_REAL_SERVERS: Final = "server/test_following_consumers.py::test_the_role_does_what_a_real_server_does"
FOLLOWING_PAIR: Final = "pair/test_following_pair.py::test_"
REAL: Final = "drivers/test_sourcing.py::test_"

RESETS: Final = "client/test_consumers.py::test_"
RESETS_ROLE: Final = "server/test_consumers.py::test_"
RESETS_PAIR: Final = "pair/test_resets_pair.py::test_"


def reset(scenario: str) -> str:
    """The server role answers this recorded conversation as the real server did."""
    test = "transcripts/test_server_role_resets.py::test_the_server_role_answers_as_the_reference"
    return f"{test}[source-reset_{scenario}@2.15.1]"


def answered(scenario: str) -> str:
    """The server role answers this recorded conversation as the release did."""
    return f"transcripts/test_server_role_sourcing.py::test_the_server_role_answers_as_the_release[source-{scenario}]"


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
    162: row(
        "a durable consumer of the server's for work queues and interest",
        answered("auto_durable@2.15.1"), answered("auto_mirror@2.15.1"),
        BY_CONSUMERS + "the_server_makes_a_consumer_of_a_work_queue",
        BY_CONSUMERS + "interest_begins_with_the_consumer_and_lasts_until_the_copy",
        BY_CONSUMERS + "a_work_queue_is_copied_once_and_drained_whatever_happens",
        BY_CONSUMERS + "the_draft_manages_a_consumer_of_that_name",
        AS_REAL_SERVERS,
        FOLLOWING_PAIR + "a_work_queue_is_copied_whole",
        FOLLOWING_PAIR + "a_client_sees_and_pauses_the_consumer_of_the_server",
    ),
    163: row(
        "two sources with the same consumer are refused",
        "server/test_settings.py::test_sources_that_are_refused",
        AS_REAL_SERVERS,
        FOLLOWING_PAIR + "the_client_has_types_for_what_is_wrong_with_a_source",
    ),
    164: row(
        "the ack policy of the consumer is checked",
        BY_CONSUMERS + "another_ack_policy_is_an_error_until_it_is_right",
        AS_REAL_SERVERS,
        FOLLOWING_PAIR + "the_client_has_types_for_what_is_wrong_with_a_source",
        REAL + "a_source_whose_consumer_acknowledges_otherwise_says_so",
    ),
    165: row(
        "a pause of the consumer pauses the sourcing",
        REAL + "a_work_queue_moves_by_a_durable_source", BY_CONSUMERS + "a_pause_is_obeyed_and_hides_in_the_lag",
    ),
    166: row(
        "lag and error of a source",
        SOURCES + "a_source", SOURCES + "any_information_is_written_as_it_was_read",
        REAL + "a_source_whose_consumer_acknowledges_otherwise_says_so",
        FOLLOWING + "a_source_says_how_far_it_is_and_what_it_lacks",
        FOLLOWING + "the_role_copies_what_a_real_server_copies",
    ),
    167: row("the client resets consumers", RESETS + "resetting", "drivers/test_pulling.py::test_resetting"),
    168: row("without a sequence: to the ack floor", RESETS + "resetting", reset("basic")),
    169: row("with a sequence: to there", RESETS + "resetting", reset("basic")),
    170: row(
        "sequence 0: refused by the client, the ack floor to the server",
        RESETS + "what_is_not_reset_because_of_the_arguments_or_the_server",
        RESETS_ROLE + "a_reset_goes_where_the_policy_allows",
    ),
    171: row("it resets what is pending, and the consumer's sequences", reset("basic"), reset("push")),
    172: row("to a sequence only with some deliver policies", reset("policies")),
    173: row("not below the consumer's start", reset("policies")),
    174: row("the answer is the consumer's info and reset_seq", RESETS + "resetting", reset("basic")),
    175: row("the answer's info is that after the reset", RESETS + "resetting"),
    176: row("10204 is typed", "drivers/test_pulling.py::test_resetting"),
    177: row(
        "what is not there is an error, not a timeout",
        RESETS + "what_cannot_be_reset_is_an_error_after_the_look_up",
        RESETS_ROLE + "a_reset_of_what_is_not_there_is_not_answered",
    ),
    178: row(
        "consumers at work go on after a reset",
        RESETS_PAIR + "a_pull_consumer_goes_on_after_a_reset", RESETS_PAIR + "a_push_consumer_goes_on_after_a_reset",
        "drivers/test_pulling.py::test_subscriptions_go_on_after_a_reset",
    ),
    179: row(
        "an ordered consumer goes on without repeating",
        RESETS_PAIR + "an_ordered_consumer_repeats_nothing_after_a_reset",
    ),
}  # fmt: skip
