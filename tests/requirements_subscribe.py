"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 180 to 242, about subscribing (ADR-15).

Rows 180 to 204 are the subscribe workflow, rows 205 to 220 ack subjects and acknowledgements. Rows 221 to 242 are the
automatic management of statuses.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Requirement, row

ACKS: Final = "client/test_message.py::test_"
CONSUMERS: Final = "client/test_consumers.py::test_"
CONSUMING_STATEFUL: Final = "stateful/test_consuming_stateful.py::"
DRIVER: Final = "drivers/test_subscribing.py::test_"
GAPS: Final = "rules/test_sequence_gaps.py::test_"
JSACK: Final = "grammar/test_jsack.py::test_"
ORDERED: Final = "client/test_ordered.py::test_"
PULL: Final = "client/test_pull.py::test_"
PULLING: Final = "drivers/test_pulling.py::test_"
PULL_RELEASES: Final = "integration/test_pull_releases.py::test_"
PULL_STATEFUL: Final = "stateful/test_pull_stateful.py::TestPulls"
PUSH: Final = "client/test_push.py::test_"
RELEASES: Final = "integration/test_subscribe_releases.py::test_"
STATUS: Final = "rules/test_status.py::test_"
WORKFLOW: Final = "client/test_subscribe.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    # -- the workflow --------------------------------------------------------------------------------------------------
    180: row(
        "one way to subscribe: push, pull, queue, with a callback or an iterator",
        DRIVER + "an_iterator_gives_messages_until_it_is_drained",
        DRIVER + "a_callback_gets_the_same_and_acknowledges_by_returning",
        DRIVER + "members_of_a_queue_group_share_one_consumer",
        WORKFLOW + "a_pull_consumer_is_found_or_created",
    ),
    181: row("a subject or a stream is required", WORKFLOW + "what_cannot_be_is_refused_at_once"),
    182: row("a queue with heartbeats or flow control is refused", WORKFLOW + "what_cannot_be_is_refused_at_once"),
    183: row(
        "pull with ack none or all is refused",
        WORKFLOW + "what_cannot_be_is_refused_at_once",
        PULLING + "a_durable_consumer_stays_unless_it_is_to_go",
    ),
    184: row(
        "the stream is looked up by subject, exactly one",
        WORKFLOW + "the_stream_is_found_by_the_subject_and_the_consumer_is_made_for_it",
        WORKFLOW + "a_subject_must_be_of_one_stream",
        DRIVER + "what_is_not_there",
    ),
    185: row("the filter is the subject", WORKFLOW + "what_a_new_push_consumer_is_like"),
    186: row(
        "a named consumer is looked up and must be there, except for pull",
        WORKFLOW + "a_consumer_that_must_be_there",
        WORKFLOW + "a_look_up_that_fails_is_an_error",
        WORKFLOW + "what_a_look_up_says_counts",
        WORKFLOW + "a_pull_consumer_is_found_or_created",
        PULLING + "a_consumer_of_its_own",
    ),
    187: row("a queue's name is its durable's", WORKFLOW + "a_queue_without_a_name_meets_at_its_own"),
    188: row(
        "push_bound without a group: duplicate",
        WORKFLOW + "only_one_may_subscribe_but_a_group_may_share",
        DRIVER + "a_consumer_that_does_not_fit_is_refused_with_the_reason",
    ),
    189: row("no queue, but a group: error", WORKFLOW + "what_is_there_must_fit"),
    190: row("another group: error", WORKFLOW + "what_is_there_must_fit"),
    191: row("a queue, but no group: error", WORKFLOW + "what_is_there_must_fit"),
    192: row("another filter: error", WORKFLOW + "what_is_there_must_fit"),
    193: row(
        "pull onto push: error",
        WORKFLOW + "what_is_there_must_fit",
        PULLING + "what_a_consumer_does_not_allow",
    ),
    194: row("push onto pull: error", WORKFLOW + "what_is_there_must_fit"),
    195: row(
        "any other difference is an error with its field",
        WORKFLOW + "what_is_there_must_fit",
        DRIVER + "a_consumer_that_does_not_fit_is_refused_with_the_reason",
        PULLING + "a_durable_consumer_stays_unless_it_is_to_go",
    ),
    196: row("a group's consumer with flow control or heartbeats: error", WORKFLOW + "what_is_there_must_fit"),
    197: row(
        "the subscription comes before the consumer",
        WORKFLOW + "the_stream_is_found_by_the_subject_and_the_consumer_is_made_for_it",
    ),
    198: row(
        "an inbox for push, none for pull",
        WORKFLOW + "what_a_new_push_consumer_is_like",
        WORKFLOW + "a_pull_consumer_is_found_or_created",
    ),
    199: row(
        "create subjects of durables and ephemerals",
        WORKFLOW + "what_a_new_push_consumer_is_like",
        RELEASES + "the_workflow_on_a_release",
        CONSUMERS + "creating",
    ),
    200: row(
        "what we created is deleted at the end",
        DRIVER + "unsubscribing_deletes_what_the_subscription_created",
        PUSH + "a_consumer_that_was_there_stays",
        PULLING + "a_consumer_of_its_own",
    ),
    201: row(
        "never a shared durable, unless asked",
        PUSH + "a_consumer_that_was_there_stays",
        DRIVER + "members_of_a_queue_group_share_one_consumer",
        PULLING + "a_durable_consumer_stays_unless_it_is_to_go",
    ),
    202: row(
        "the loser of a race looks the consumer up and joins it",
        WORKFLOW + "who_loses_the_race_joins_the_group_on_its_subject",
        WORKFLOW + "who_loses_the_race_alone_is_refused",
        WORKFLOW + "who_loses_the_race_for_a_pull_consumer_shares_it",
    ),
    203: row(
        "a drain deletes at its end and reports failures",
        PUSH + "draining_deletes_when_all_was_dealt_with",
        PUSH + "draining_deletes_in_the_end_whoever_does_not_take_the_rest",
    ),
    204: row(
        "a drain delivers all that is buffered",
        DRIVER + "draining_delivers_what_is_buffered_and_then_deletes_the_consumer",
        PULLING + "a_drained_subscription_gives_what_it_has",
    ),
    # -- ack subjects and acknowledgements -----------------------------------------------------------------------------
    205: row(
        "a message has an ack subject",
        JSACK + "what_is_not_one",
        PUSH + "what_is_no_message_of_jetstream_is_passed_over",
        "client/test_pull_refusals.py::test_what_is_no_message_of_a_stream",
    ),
    206: row(
        "the reply is used as it came",
        ACKS + "terminal_acknowledgements_are_sent_once",
        ACKS + "a_reply_that_says_nothing",
    ),
    207: row(
        "version 1",
        JSACK + "version_1",
        RELEASES + "the_workflow_on_a_release",
        PULL_RELEASES + "the_version_of_the_ack_subjects",
    ),
    208: row(
        "version 2",
        JSACK + "version_2",
        RELEASES + "the_workflow_with_ack_subjects_of_version_2",
        PULL + "both_versions_of_ack_subjects_are_messages",
        PULL_RELEASES + "the_version_of_the_ack_subjects",
    ),
    209: row("more tokens than eleven", JSACK + "tokens_after_the_eleventh_are_ignored"),
    210: row(
        "ten tokens, another prefix, no numbers: error",
        JSACK + "what_is_not_one",
        JSACK + "numbers_are_numbers",
        ACKS + "a_reply_that_says_nothing",
    ),
    211: row(
        "an underscore is no domain",
        JSACK + "underscore_is_no_domain",
        PULL_RELEASES + "the_version_of_the_ack_subjects",
    ),
    212: row("nothing depends on the account hash", GAPS + "a_server_may_change_the_version_of_its_subjects"),
    213: row(
        "ack, nak, term, in progress",
        ACKS + "terminal_acknowledgements_are_sent_once",
        ACKS + "progress_is_not_terminal",
        PULL_RELEASES + "each_acknowledgement_means_what_it_says",
    ),
    214: row(
        "a delay, a reason",
        ACKS + "terminal_acknowledgements_are_sent_once",
        PULLING + "every_kind_of_acknowledgement",
    ),
    215: row(
        "after a terminal one nothing more",
        ACKS + "terminal_acknowledgements_are_sent_once",
        PULLING + "every_kind_of_acknowledgement",
    ),
    216: row(
        "settled only when it was sent",
        ACKS + "what_cannot_be_sent_is_not_settled",
        ACKS + "an_acknowledgement_that_is_not_answered_may_be_tried_again",
    ),
    217: row(
        "nothing under the policy none",
        ACKS + "under_the_policy_none_nothing_is_sent",
        PULLING + "no_acknowledgements_are_sent_where_none_are_wanted",
    ),
    218: row(
        "only sending can fail",
        ACKS + "after_the_end",
        ACKS + "what_cannot_be_sent_is_not_settled",
        PULLING + "acknowledging_when_the_consumer_is_gone",
    ),
    219: row("an acknowledgement that is answered", ACKS + "an_acknowledgement_that_is_answered"),
    220: row(
        "work in progress is reported by itself",
        ACKS + "work_is_reported_until_it_stops",
        PULLING + "work_in_progress_is_not_delivered_again",
    ),
    # -- statuses ------------------------------------------------------------------------------------------------------
    221: row(
        "statuses are managed by default",
        PUSH + "statuses_are_hidden",
        "client/test_pull_refusals.py::test_statuses_that_are_broken_or_for_nobody",
        PULL_STATEFUL,
    ),
    222: row(
        "a raw mode",
        PUSH + "raw_statuses_are_given_out_and_nothing_is_done_about_them",
        DRIVER + "raw_statuses_are_messages",
    ),
    223: row(
        "heartbeats, push and pull",
        PUSH + "three_heartbeats_missed_are_an_alarm_once",
        PULL + "heartbeats",
        PULLING + "a_long_fetch_lives_on_heartbeats",
    ),
    224: row(
        "three of them, or as many as one likes",
        PUSH + "three_heartbeats_missed_are_an_alarm_once",
        PUSH + "how_many_heartbeats_is_a_choice",
        PULL + "the_alarm_can_be_moved",
        PULL + "heartbeats",
    ),
    225: row(
        "the alarm reaches the application",
        PUSH + "three_heartbeats_missed_are_an_alarm_once",
        DRIVER + "a_consumer_that_is_deleted_ends_its_subscription",
        PULL + "heartbeats",
        PULL + "a_silent_consumer_is_asked_again",
    ),
    226: row(
        "not while there is no link",
        PUSH + "silence_does_not_count_while_the_link_is_down",
        PULL + "no_alarm_without_a_link",
    ),
    227: row("monotonic time", "test_architecture.py::test_the_core_works_where_everything_impure_is_poisoned"),
    228: row(
        "gaps, on messages and heartbeats, not for queues",
        GAPS + "a_lost_message_shows_at_the_next_one_and_once",
        GAPS + "a_lost_message_shows_at_the_next_heartbeat_and_once",
        PUSH + "nobody_in_a_queue_group_looks_for_gaps",
    ),
    229: row("gaps are reported", PUSH + "gaps_and_restarts_are_told"),
    230: row(
        "ordered consumers see to gaps themselves",
        ORDERED + "a_gap_leads_to_a_consumer_that_starts_after_the_last_message",
        "stateful/test_ordered_stateful.py::TestOrderedReading",
        CONSUMING_STATEFUL + "TestOrderedFaults",
    ),
    231: row("flow control is answered when it is reached", PUSH + "flow_control_is_answered_when_it_is_reached"),
    232: row(
        "and the next message follows within the same wait",
        DRIVER + "flow_control_lets_a_large_stream_through_a_small_buffer",
    ),
    233: row("its subject is not read", PUSH + "what_is_stalled_is_answered_once"),
    234: row(
        "it needs heartbeats",
        WORKFLOW + "what_cannot_be_is_refused_at_once",
        "server/test_consumer_settings.py::test_what_is_refused",
        "transcripts/test_server_role_consuming.py::test_the_server_role_answers_as_the_reference[sub-heartbeat_small@2.15.1]",
    ),
    235: row("what a heartbeat says is stalled is answered", PUSH + "what_is_stalled_is_answered_once"),
    236: row("once for each subject", PUSH + "what_is_stalled_is_answered_once"),
    237: row(
        "404 and 408 are hidden",
        PULL + "an_empty_fetch_is_no_error",
        STATUS + "the_table",
        PULL + "a_partial_fetch_that_does_not_wait_ends_with_404",
    ),
    238: row(
        "409 is an error",
        PULL + "an_error_ends_a_fetch_at_once",
        PUSH + "statuses_that_are_errors_end_it",
        PULLING + "what_is_deleted_while_fetching_is_told_at_once",
    ),
    239: row(
        "409s are told apart",
        STATUS + "the_table",
        STATUS + "every_recorded_status_is_known",
        PULL + "what_may_pass_is_asked_for_again",
    ),
    240: row(
        "503 is no responders",
        STATUS + "the_table",
        PUSH + "statuses_that_are_errors_end_it",
        PULL + "an_error_ends_a_fetch_at_once",
        PULLING + "what_is_deleted_while_fetching_is_told_at_once",
    ),
    241: row(
        "an unknown status is an error",
        STATUS + "the_table",
        PUSH + "statuses_that_are_errors_end_it",
        PULL + "an_error_ends_a_fetch_at_once",
    ),
    242: row(
        "pending counts are used",
        STATUS + "pending_counts",
        PULL + "a_fetch_that_got_some",
        PULL + "requests_are_served_in_turn_and_only_their_sum_counts",
        PULL_STATEFUL,
    ),
}
