"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 259 to 267, about migration, refusals and rights.

As ``tests.requirements``, which has the rows about publishing.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Requirement, row
from tests.requirements_sourcing import AS_REAL_SERVERS, BY_CONSUMERS, FOLLOWING, READY

BOTH: Final = "integration/test_both_servers.py::test_"
COMMANDS: Final = "cli/test_streams.py::test_"
OWNER: Final = "client/test_sourcing.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    259: row(
        "a reset of a source's consumer skips ahead, and repeats nothing",
        BOTH + "a_reset_of_the_consumer_of_a_source_skips_ahead_and_repeats_nothing",
        BY_CONSUMERS + "what_a_reset_passes_over_is_all_that_is_not_copied", AS_REAL_SERVERS,
        OWNER + "a_reset_ahead_by_others_says_what_was_skipped",
        OWNER + "reset_by_somebody_else_is_not_answered_by_a_reset",
    ),
    260: row(
        "a migration to a durable source without copying twice",
        BOTH + "an_update_to_a_durable_source_copies_again_and_three_steps_do_not",
        BOTH + "a_mirror_becomes_durable_by_its_promotion", "test_readme.py::test_a_source_that_becomes_durable",
    ),
    261: row("no consumers of a work queue that overlap", BOTH + "a_work_queue_takes_no_consumers_that_overlap"),
    262: row(
        "max_waiting is for pull, a start needs its policy",
        BOTH + "configurations_of_a_consumer_that_are_refused",
        "server/test_consumer_settings.py::test_what_is_refused",
    ),
    263: row(
        "an origin may come later",
        BOTH + "an_origin_may_come_after_its_copy", BOTH + "an_origin_need_not_be_connected",
        FOLLOWING + "a_source_says_how_far_it_is_and_what_it_lacks",
        BY_CONSUMERS + "a_missing_stream_is_an_error_until_it_is_made",
    ),
    264: row(
        "tools for the durable consumer",
        READY + "a_ready_made_configuration", COMMANDS + "a_stream_copies_from_a_consumer_that_the_command_made",
        COMMANDS + "what_is_wrong_is_one_line",
    ),
    265: row("one message in three ways", BOTH + "one_message_is_stored_alike_by_each_way_to_publish"),
    266: row(
        "the answer to a reset confirms the configuration",
        OWNER + "the_answer_to_a_reset_confirms_what_the_consumer_is_like",
        OWNER + "a_consumer_is_created_claimed_reset_and_only_then_subscribed_to",
        BY_CONSUMERS + "another_ack_policy_is_an_error_until_it_is_right",
    ),
    267: row(
        "a pull worker asks and acknowledges",
        "client/test_pull.py::test_a_fetch_asks_once_and_ends_with_its_last_message",
        "drivers/test_refusals.py::test_who_may_only_pull_and_acknowledge",
        "drivers/test_permissions.py::test_consumers_are_permitted_by_what_they_filter",
        "client/test_subscribe.py::test_a_pull_consumer_that_must_exist_needs_no_look_up",
        "client/test_subscribe.py::test_a_durable_pull_consumer_that_may_not_be_looked_up_is_created_or_counts_as_existing",
    ),
}  # fmt: skip
