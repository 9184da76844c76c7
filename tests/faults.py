"""Which tests fail on the faults that other clients have, or their users report, in publishing and consuming.

Each client's faults were seen by running it, or are in its issues; ``SURVEYED`` are questions that the maintainers of
seven clients found to be answered differently in each, and ``REPORTED`` what users complain of most. A fault is here in
a few words with the tests that fail on that behaviour: pytest's node ids below ``tests/``. ``test_faults`` checks that
each of them exists.
"""

from __future__ import annotations

from typing import Final

from tests import requirements_subscribe as consuming
from tests.requirements import (
    ACKS,
    ADVISORY,
    ATOMIC,
    ATOMIC_ENDS,
    BATCH,
    CONFIG,
    FACADE,
    FAST,
    FAST_SUBJECT,
    RELEASES,
    SERVER_FAST,
    STATEFUL,
    WINDOWS,
    Requirement,
    recorded,
    row,
)

ATOMIC_FACADE = "drivers/test_atomic_facade.py::test_"
ATOMIC_RELEASES = "integration/test_atomic_releases.py::test_"
BAD_INPUT = "drivers/test_bad_input.py::test_"
DROPPED = "drivers/test_dropped.py::test_"
ERRORS = "test_errors.py::test_"
FAULTS = "drivers/test_faults.py::test_"
IDLING = "drivers/test_idling.py::test_"
JETSTREAM = "client/test_jetstream.py::test_"
LIST = "client/test_publish_batch.py::test_"
LOOPS = "drivers/test_loops.py::test_"
OUTAGE = "drivers/test_outage.py::test_"
PAIR_CONSUMING = "pair/test_consuming_pair.py::test_"
PAIR_STATEFUL = "stateful/test_pair_stateful.py::"
PERMISSIONS = "client/test_permissions.py::test_"
PERMISSIONS_FACADE = "drivers/test_permissions.py::test_"
PUBLISHER = "client/test_pipelined.py::test_"
PUBLISHING = "drivers/test_publishing.py::test_"
RECONNECT = "drivers/test_reconnect.py::test_"
SESSION = "client/test_session.py::test_"
THREADS = "drivers/test_sync.py::test_"

PEERS: Final[dict[str, tuple[Requirement, ...]]] = {
    "nats-py": (
        row(
            "a server's error never reaches the future of publish_async",
            PUBLISHER + "the_ways_to_fail_with_a_ticket",
            PUBLISHER + "every_message_ends_exactly_once",
            PUBLISHING + "one_at_a_time",
            OUTAGE + "promises",
        ),
        row(
            "a violation of permissions is told beside the publish, which waits for its timeout",
            PERMISSIONS + "a_stream_publish_that_was_dropped",
            PERMISSIONS + "a_message_of_many_that_was_dropped",
            PERMISSIONS_FACADE + "what_may_not_be_asked_fails_at_once",
        ),
        row(
            "version 2 of the ack subjects kills the ordered consumer, and the connection with it",
            consuming.RELEASES + "the_workflow_with_ack_subjects_of_version_2",
            consuming.PULL_RELEASES + "every_message_once_and_every_one_acknowledged",
            PAIR_CONSUMING + "an_ordered_consumer_reads_each_message_once_and_in_order",
        ),
        row(
            "a fetch from a consumer that is deleted waits for all of its time",
            consuming.PULLING + "what_is_deleted_while_fetching_is_told_at_once",
            consuming.PULL_RELEASES + "a_deleted_consumer_is_told_at_once",
            consuming.STATUS + "the_table",
        ),
        row(
            "a fetch from a consumer that is not there fails without saying why",
            consuming.PULL + "a_fetch_whose_consumer_goes_during_an_election_ends_at_once",
            consuming.PULLING + "what_is_deleted_while_fetching_is_told_at_once",
        ),
        row(
            "a second acknowledgement raises",
            consuming.ACKS + "terminal_acknowledgements_are_sent_once",
            consuming.PULLING + "every_kind_of_acknowledgement",
        ),
        row(
            "an empty fetch raises",
            consuming.PULL + "an_empty_fetch_is_no_error",
            consuming.PULLING + "fetching_and_acknowledging",
        ),
        row("flow control is answered by a timer", consuming.PUSH + "flow_control_is_answered_when_it_is_reached"),
        row(
            "two heartbeats missed are an alarm, or none is told at all",
            consuming.PUSH + "three_heartbeats_missed_are_an_alarm_once",
            consuming.PULL + "heartbeats",
        ),
        row(
            "the consumer is there before anybody listens",
            consuming.WORKFLOW + "the_stream_is_found_by_the_subject_and_the_consumer_is_made_for_it",
        ),
        row("of several streams the first one is taken", consuming.WORKFLOW + "a_subject_must_be_of_one_stream"),
    ),
    "natsrpy": (
        row(
            "version 2 of the ack subjects has too many tokens for a fetch",
            consuming.PULL + "both_versions_of_ack_subjects_are_messages",
            consuming.PULL_RELEASES + "every_message_once_and_every_one_acknowledged",
        ),
    ),
    "nats-jetstream": (
        row("timeouts by the wall clock", "test_architecture.py::test_time_is_the_monotonic_one"),
        row("a message is acknowledged again and again", consuming.ACKS + "terminal_acknowledgements_are_sent_once"),
        row(
            "metadata is made up for what is no message of a stream",
            consuming.ACKS + "a_reply_that_says_nothing",
            "client/test_pull_refusals.py::test_what_is_no_message_of_a_stream",
        ),
        row("requests are made by a loop that polls", consuming.PULL + "a_stream_of_messages_waits_without_polling"),
        row(
            "most conflicts end an iteration silently",
            consuming.PULL + "an_error_ends_a_stream_of_messages_after_what_came",
            consuming.PULLING + "a_consumer_that_is_deleted_ends_the_stream_of_messages",
        ),
    ),
    "nats-jetstream-extra": (
        row(
            "after 11 s of silence add() goes on saying yes to messages that are never stored",
            FAST + "a_silent_batch_is_kept_alive",
            FAST + "a_batch_that_could_not_be_kept_alive_is_not_trusted",
            IDLING + "a_batch_left_alone_is_kept_alive",
            IDLING + "a_batch_that_the_server_must_have_forgotten_takes_nothing",
            IDLING + "a_batch_that_the_server_forgets_too_early_acknowledges_nothing",
        ),
        row("1000 messages are written in stone", ATOMIC + "the_size_guard_can_be_raised_or_switched_off"),
        row("a gap is told with the wrong numbers", ACKS + "both_dialects_say_the_same", recorded("fast-gap_ok")),
    ),
    "natsio": (
        row(
            "after 10 s of silence one message is reported good before the error",
            FAST + "a_batch_that_could_not_be_kept_alive_is_not_trusted",
            IDLING + "a_batch_that_the_server_forgets_too_early_acknowledges_nothing",
        ),
        row("leaving the block commits", FACADE + "leaving_the_block_without_commit_abandons"),
    ),
    "orbit.go": (
        row(
            "error codes of fast ingest that mean something else by now",
            ERRORS + "every_row_has_a_class_of_its_own",
            FAST_SUBJECT + "a_problem_is_the_servers_error_code",
            FAST + "switched_off_midway",
            FACADE + "a_batch_that_the_server_refuses",
        ),
        row(
            "a message without headers panics in the middle of a list",
            LIST + "headers_may_be_absent_none_or_empty",
            FACADE + "headers_may_be_absent_none_or_empty",
        ),
        row(
            "acknowledgements move backwards",
            FAST + "acks_never_move_backwards_and_lies_change_nothing",
            WINDOWS + "monotone_and_bounded",
        ),
        row(
            "a gap in mode fail is not acted on",
            FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
            FAST + "a_commit_that_stored_fewer_fails_with_what_was_stored",
            BAD_INPUT + "a_message_over_max_msg_size_ends_a_lossless_batch_with_what_was_stored",
        ),
        row("the last word does not wake who waits for room", FAST + "the_last_word_wakes_whoever_waits_for_room"),
        row(
            "a batch stays open after a commit, or a message, that failed",
            ATOMIC + "nothing_is_done_behind_a_commit",
            ATOMIC + "every_code_is_a_typed_error",
        ),
        row("any number of outstanding acknowledgements is taken", FAST + "impossible_options_are_refused"),
        row("acknowledgements are told apart by their bytes", ACKS + "the_type_decides_before_anything_else"),
    ),
    "nats.js": (
        row(
            "a refused message ends the batch in mode ok",
            "client/test_fast_lossy.py::test_gap_ok_reports_and_goes_on",
            recorded("fast-err_ok"),
            BAD_INPUT + "a_message_over_max_msg_size_is_a_gap_that_may_be_tolerated",
        ),
        row(
            "a server's error at the commit shows as a wrong count",
            ATOMIC + "every_code_is_a_typed_error",
            FAST + "a_batch_of_one_message_refused",
            FAST + "a_refused_commit_that_stores_nothing",
            ATOMIC_FACADE + "a_check_that_fails_refuses_all",
        ),
        row(
            "the id of an acknowledgement is not looked at",
            ATOMIC + "the_acknowledgement_of_another_batch_is_no_answer",
        ),
        row(
            "no ping unless the caller sends it",
            FAST + "a_closed_window_flushes_pings_and_opens_again",
            FAST + "a_silent_batch_is_kept_alive",
            IDLING + "a_batch_left_alone_is_kept_alive",
        ),
        row("a failed first message leaves the batch open", ATOMIC + "a_refused_first_message_ends_the_batch"),
    ),
    "orbit.java": (
        row(
            'the server\'s text is lost in "invalid ack"',
            ATOMIC + "every_code_is_a_typed_error",
            ATOMIC + "what_a_text_holds_is_kept",
            PUBLISHER + "the_ways_to_fail_with_a_ticket",
            JETSTREAM + "publish_refused",
        ),
    ),
    "orbit.net": (
        row(
            "503 on the inbox of a batch is dropped",
            FAST + "no_stream_behind_the_subject",
            FAST + "a_message_nobody_took_breaks_the_batch",
            ATOMIC + "nobody_takes_the_first_message",
        ),
    ),
}

SURVEYED: Final[tuple[Requirement, ...]] = (
    row(
        "the guard of 1000 messages, and how the true limit becomes known",
        ATOMIC + "the_default_size_is_that_of_servers",
        ATOMIC + "the_size_guard_can_be_raised_or_switched_off",
        ATOMIC + "what_a_text_holds_is_kept",
        ATOMIC_FACADE + "a_thousand_messages",
    ),
    row("one name for a commit without a message", ATOMIC_FACADE + "a_commit_needs_no_message"),
    row(
        "a batch that died, by a gap or by silence, takes nothing and says why",
        FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
        FAST + "a_batch_that_could_not_be_kept_alive_is_not_trusted",
        ATOMIC_ENDS + "a_batch_that_was_silent_for_too_long_is_refused_at_the_next_verb",
        ATOMIC_RELEASES + "a_batch_that_the_server_has_forgotten_is_refused_by_the_client_first",
        IDLING + "a_batch_that_the_server_must_have_forgotten_takes_nothing",
    ),
    row(
        "a message that was not sent spends no sequence",
        ATOMIC + "what_cannot_be_sent_spends_no_sequence",
        ATOMIC + "a_later_message_that_is_not_taken_gives_its_sequence_back",
        FAST + "a_refused_message_spends_no_sequence",
        BAD_INPUT + "what_cannot_be_sent_spends_no_sequence",
    ),
    row(
        "ack_first, ack_every and the timeout: shape and defaults",
        ATOMIC + "nothing_follows_the_first_message_before_it_is_answered",
        ATOMIC + "without_ack_first_messages_flow_at_once",
        ATOMIC + "ack_every_asks_and_waits",
        ATOMIC_ENDS + "the_default_timeout_is_that_of_the_context",
    ),
    row(
        "ids of the caller, and what they may be",
        ATOMIC + "an_impossible_id_is_refused_before_anything_is_sent",
        BATCH + "the_longest_id_is_64_bytes",
        BAD_INPUT + "impossible_ids_are_refused_by_name",
    ),
    row(
        "where a ping goes, and that the caller may send one",
        PUBLISHING + "a_ping_goes_where_the_batch_began",
        FAST + "an_empty_batch_cannot_be_committed_or_pinged",
    ),
    row(
        "leaving a block is no commit, least of all by an error",
        FACADE + "leaving_the_block_without_commit_abandons",
        FACADE + "leaving_the_block_by_an_error_commits_nothing",
        ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
        DROPPED + "a_batch_that_is_dropped_is_given_up",
    ),
)

REPORTED: Final[dict[int, tuple[Requirement, ...]]] = {
    1: (row("no client for threads", FACADE + "the_main_job", THREADS + "a_connection_works_without_with"),),
    2: (
        row(
            "a fetch hangs, or times out with messages waiting",
            consuming.PULL_STATEFUL,
            consuming.CONSUMING_STATEFUL + "TestFetchingFaults",
            consuming.PULL + "the_server_says_nothing_of_a_full_max_ack_pending",
            consuming.PULLING + "a_full_max_ack_pending_does_not_hang",
            consuming.PULL + "a_fetch_survives_its_link",
        ),
        row(
            "a request that was lost is never made again",
            consuming.PULL + "a_request_that_was_lost_is_made_again_when_it_must_have_ended",
            consuming.PULL + "a_silent_consumer_is_asked_again",
            consuming.CONSUMING_STATEFUL + "TestStreamingFaults",
        ),
        row(
            "whoever waits for a consumer that is not there waits for ever, or for long",
            consuming.PULL + "a_stream_of_messages_whose_consumer_is_not_there_ends_at_once",
            consuming.PUSH + "without_heartbeats_silence_is_no_alarm_but_the_consumer_is_looked_for",
            consuming.PUSH + "a_consumer_that_is_gone_ends_it",
            consuming.PULLING + "a_consumer_that_is_deleted_ends_the_stream_of_messages",
            consuming.DRIVER + "members_of_a_queue_group_notice_that_their_consumer_is_deleted",
        ),
    ),
    3: (
        row(
            "publishing is slow: a write, or a round trip, for each message",
            "client/test_leaving.py::test_small_writes_linger",
            SESSION + "a_run_of_plain_messages_is_queued_at_once",
            SESSION + "a_numbered_run_of_messages_is_queued_as_publish_would",
            ATOMIC + "later_messages_repeat_the_id_and_count_up_without_asking",
            FAST + "publish_many_starts_alone_then_fills_the_window",
        ),
    ),
    4: (
        row(
            "errors of asynchronous publishes are lost",
            PUBLISHER + "every_message_ends_exactly_once",
            PUBLISHING + "messages_that_fail_are_handed_back_at_the_flush",
            PUBLISHING + "leaving_the_block_tells_of_failures_but_not_over_an_error",
            OUTAGE + "many_messages",
        ),
    ),
    5: (
        row(
            "messages lost, or blocked, at a reconnect",
            OUTAGE + "promises",
            OUTAGE + "publishes_that_are_waited_for",
            OUTAGE + "many_messages",
            OUTAGE + "atomic_batches",
            RECONNECT + "a_lossless_batch_ends_with_the_link_and_is_published_again",
            RELEASES + "a_server_killed_in_the_middle_loses_nothing_acknowledged",
            PAIR_STATEFUL + "TestFastFaults",
            PAIR_STATEFUL + "TestAtomicFaults",
        ),
        row(
            "what is published meanwhile grows without bound, or vanishes",
            SESSION + "what_is_published_without_a_link_waits_for_the_next_one_while_there_is_room",
            OUTAGE + "a_plain_publish_is_kept_while_there_is_room_and_then_waits",
            OUTAGE + "a_plain_publish_that_waits_is_told_of_the_end",
            RECONNECT + "what_is_published_meanwhile_arrives",
        ),
    ),
    6: (
        row(
            "subscriptions, those for acknowledgements too, are dead after a reconnect",
            SESSION + "a_new_link_carries_the_subscriptions_first",
            RECONNECT + "subscriptions_live_on",
            PUBLISHER + "over_a_new_link",
            RECONNECT + "a_batch_that_may_lose_goes_on",
            consuming.DRIVER + "subscriptions_go_on_after_a_lost_link",
            consuming.PULL + "a_stream_of_messages_survives_its_link",
        ),
    ),
    7: (
        row(
            "an ordered consumer stalls, or makes one consumer after the other without end",
            consuming.ORDERED + "silence_leads_to_another_consumer_and_then_to_patience",
            consuming.ORDERED + "what_may_pass_is_tried_again",
            consuming.ORDERED + "recreating_waits_for_room_in_the_buffer",
            consuming.DRIVER + "an_ordered_subscription_survives_what_others_do_to_its_consumer",
            consuming.RELEASES + "an_ordered_subscription_through_leader_changes_and_reconnects",
            consuming.CONSUMING_STATEFUL + "TestOrderedFaults",
        ),
        row(
            "a missed heartbeat is told although the link was down",
            consuming.PUSH + "silence_does_not_count_while_the_link_is_down",
            consuming.PULL + "no_alarm_without_a_link",
        ),
    ),
    8: (
        row(
            "headers are lost",
            FACADE + "messages_one_by_one_with_headers",
            ATOMIC_FACADE + "a_batch_is_stored_whole_at_the_commit",
        ),
    ),
    9: (
        row(
            "memory grows with what is not acknowledged",
            PUBLISHER + "the_window_in_bytes_is_overrun_by_one_message",
            PUBLISHER + "a_window_of_failures_stops_the_publisher_until_they_are_taken",
            FAST + "what_is_not_known_to_be_stored_is_kept_for_another_try",
            SESSION + "the_outbound_buffer_is_bounded",
        ),
    ),
    11: (
        row(
            "cancelling loses messages, or leaves acknowledgements hanging",
            LOOPS + "cancelling_a_publisher_cuts_no_message",
            LOOPS + "a_batch_survives_a_wait_that_was_given_up",
            LOOPS + "a_cancelled_request_hurts_nobody",
            PUBLISHING + "a_publish_that_is_given_up_hurts_nobody",
        ),
        row(
            "cancelling a fetch, or a wait for a message, loses messages",
            consuming.PULLING + "a_fetch_that_is_cancelled_loses_nothing",
            consuming.PULL + "what_comes_for_a_fetch_that_was_given_up_is_for_the_next",
            consuming.DRIVER + "waiting_for_a_message_has_its_time",
            LOOPS + "cancelled_waits_lose_no_message",
        ),
    ),
    12: (
        row(
            "threads and event loops get in each other's way",
            THREADS + "threads_share_a_connection",
            THREADS + "threads_share_a_batch",
            BAD_INPUT + "a_commit_amid_what_others_add_counts_all_that_was_taken",
            ATOMIC_RELEASES + "many_threads_commit_batches_of_their_own",
        ),
    ),
    13: (
        row(
            "unclear options and errors of connecting and reconnecting",
            FACADE + "an_address_that_refuses_is_passed_over",
            FACADE + "impossible_options_are_refused",
            RECONNECT + "attempts_come_to_an_end",
        ),
    ),
    14: (
        row(
            "slow consumers are counted wrongly, or not told",
            consuming.PUSH + "the_buffer_is_bounded_by_both_limits",
            "client/test_pull_refusals.py::test_messages_nobody_asked_for_are_bounded",
            consuming.DRIVER + "a_slow_application_is_told_and_what_it_lost_comes_again",
            FACADE + "a_full_subscription_drops_and_says_so",
        ),
    ),
    15: (
        row(
            "a drain hangs, or loses what is buffered",
            consuming.PUSH + "draining_deletes_in_the_end_whoever_does_not_take_the_rest",
            consuming.PUSH + "a_link_that_is_lost_ends_a_drain",
            consuming.DRIVER + "draining_delivers_what_is_buffered_and_then_deletes_the_consumer",
            consuming.DRIVER + "draining_the_connection_deletes_consumers",
            consuming.PULLING + "a_drained_subscription_gives_what_it_has",
            consuming.DRIVER + "closing_the_connection_ends_callbacks",
        ),
        row(
            "closing hangs, or hangs who publishes",
            FAULTS + "close_does_not_wait_for_ever",
            PUBLISHING + "promises_end_with_the_connection",
            RECONNECT + "closing_during_the_outage",
            OUTAGE + "a_plain_publish_that_waits_is_told_of_the_end",
        ),
    ),
    19: (
        row(
            "new fields of the server need a release",
            CONFIG + "unknown_fields_survive",
            ADVISORY + "reasons_known_and_unknown_are_kept",
        ),
    ),
    21: (
        row(
            "revisions of several keys stored at once",
            ATOMIC + "a_commit_stores_its_message",
            ATOMIC_FACADE + "a_batch_is_stored_whole_at_the_commit",
        ),
    ),
    23: (
        row(
            "fast ingest, all of it",
            FACADE + "the_main_job",
            STATEFUL + "TestFastBatch",
            SERVER_FAST + "publishers_share",
        ),
    ),
    24: (
        row(
            "long work is delivered again",
            consuming.PULLING + "work_in_progress_is_not_delivered_again",
            consuming.ACKS + "work_is_reported_at_a_third_of_the_ack_wait",
            consuming.ACKS + "work_is_reported_until_it_stops",
        ),
    ),
}
