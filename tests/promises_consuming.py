"""What the READMEs guarantee, continued: consuming, the core, the tests. See ``promises``."""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

BOTH: Final = "integration/test_both_servers.py::test_"
ARCHITECTURE: Final = "test_architecture.py::test_"
CLIENT_ATOMIC_ENDS: Final = "client/test_atomic_ends.py::test_"
CLIENT_AUTHENTICATION: Final = "client/test_authentication.py::test_"
CLIENT_DIRECT: Final = "client/test_direct.py::test_"
CLIENT_FAST: Final = "client/test_fast.py::test_"
CLIENT_FAST_LOSSY: Final = "client/test_fast_lossy.py::test_"
CLIENT_FAST_TOTAL: Final = "client/test_fast_total.py::test_"
CLIENT_FETCH: Final = "client/test_fetch.py::test_"
CLIENT_JSMSG: Final = "client/test_message.py::test_"
CLIENT_KEEPALIVE: Final = "client/test_keepalive.py::test_"
CLIENT_MEMORY: Final = "client/test_memory.py::test_"
CLIENT_ORDERED: Final = "client/test_ordered.py::test_"
ORDERED_POSITION: Final = "client/test_ordered_position.py::test_"
CLIENT_PERMISSIONS: Final = "client/test_permissions.py::test_"
CLIENT_PUBLISHER: Final = "client/test_pipelined.py::test_"
CLIENT_PUBLISH_BATCH: Final = "client/test_publish_batch.py::test_"
CLIENT_PULL: Final = "client/test_pull.py::test_"
CLIENT_PUSH: Final = "client/test_push.py::test_"
CLIENT_SENDING: Final = "client/test_sending.py::test_"
CLIENT_SESSION: Final = "client/test_session.py::test_"
CLIENT_SUBSCRIBE: Final = "client/test_subscribe.py::test_"
CONFORMANCE: Final = "testing_io/test_conformance.py::test_"
DRIVERS_BAD_INPUT: Final = "drivers/test_bad_input.py::test_"
DRIVERS_CALLBACKS: Final = "drivers/test_callbacks.py::test_"
DRIVERS_DRAINING: Final = "drivers/test_draining.py::test_"
DRIVERS_OWNERS: Final = "drivers/test_owners.py::test_"
DRIVERS_INTERRUPTING: Final = "drivers/test_interrupting.py::test_"
DRIVERS_ENDS: Final = "drivers/test_ends.py::test_"
DRIVERS_FACADE: Final = "drivers/test_facade.py::test_"
DRIVERS_FAULTS: Final = "drivers/test_faults.py::test_"
DRIVERS_PULLING: Final = "drivers/test_pulling.py::test_"
DRIVERS_REFUSALS: Final = "drivers/test_refusals.py::test_"
DRIVERS_SHARING: Final = "drivers/test_sharing.py::test_"
DRIVERS_SUBSCRIBING: Final = "drivers/test_subscribing.py::test_"
EMBEDDING: Final = "test_embedding.py::test_"
ERRORS: Final = "test_errors.py::test_"
FUZZ_CORPUS: Final = "test_fuzz_corpus.py::test_"
GRAMMAR_ACKS: Final = "grammar/test_acks.py::test_"
INTEGRATION_AT_MOST_ONCE: Final = "integration/test_at_most_once.py::test_"
INTEGRATION_CLUSTER: Final = "integration/test_cluster.py::test_"
INTEGRATION_CRASHES: Final = "integration/test_crashes.py::test_"
INTEGRATION_PULL_RELEASES: Final = "integration/test_pull_releases.py::test_"
INTEGRATION_SOAK_PUBLISH: Final = "integration/test_soak_publish.py::test_"
INTEGRATION_SUBSCRIBE_RELEASES: Final = "integration/test_subscribe_releases.py::test_"
PAIR_CONSUMERS_PAIR: Final = "pair/test_consumers_pair.py::test_"
PAIR_CONSUMING_PAIR: Final = "pair/test_consuming_pair.py::test_"
PAIR_ELECTIONS: Final = "pair/test_elections.py::test_"
PAIR_NETWORK: Final = "pair/test_network.py::test_"
PAIR_PAIR: Final = "pair/test_pair.py::test_"
PAIR_PRIORITY_PAIR: Final = "pair/test_priority_pair.py::test_"
PAIR_REFUSALS: Final = "pair/test_refusals.py::test_"
PAIR_WAKING: Final = "pair/test_waking.py::test_"
README: Final = "test_readme.py::test_"
RULES_GAPS: Final = "rules/test_sequence_gaps.py::test_"
SERVER_DELIVER: Final = "server/test_consumer.py::test_"
SERVER_PRIORITY: Final = "server/test_priority.py::test_"
SERVER_SESSION: Final = "server/test_session.py::test_"
WIRE_DECODER: Final = "wire/test_decoder.py::test_"
WIRE_PROPERTIES: Final = "wire/test_properties.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "A source that becomes durable without copying twice": (
        promise(
            "So an update alone **copies again** all that the consumer delivers: the whole stream.",
            BOTH + "an_update_to_a_durable_source_copies_again_and_three_steps_do_not",
        ),
        promise(
            "In three steps nothing comes twice, and nothing is left out",
            BOTH + "an_update_to_a_durable_source_copies_again_and_three_steps_do_not",
            "test_readme.py::test_a_source_that_becomes_durable",
        ),
        promise("A mirror cannot be changed.", BOTH + "a_mirror_becomes_durable_by_its_promotion"),
        promise(
            '`update_stream("ARCHIVE", mirror=None)` promotes it, and then it gets the durable source.',
            BOTH + "a_mirror_becomes_durable_by_its_promotion",
        ),
        promise("Until then its last sequence is `copied`.", BOTH + "a_mirror_becomes_durable_by_its_promotion"),
        promise(
            "Streams with retention `workqueue` and `interest` need no such steps.",
            "server/test_consumer_following.py::test_the_server_makes_a_consumer_of_a_work_queue",
            "server/test_following_consumers.py::test_the_role_does_what_a_real_server_does",
        ),
    ),
    "Copying a stream": (
        promise(
            "A stream whose server copies (`sources`) becomes durable",
            BOTH + "an_update_to_a_durable_source_copies_again_and_three_steps_do_not",
        ),
        promise(
            "Each message is in the target once and in order, wherever the copy, a link or one of both servers is "
            "ended, and the next copy goes on.",
            "integration/test_sourcing.py::test_a_short_soak",
            "pair/test_copying_pair.py::test_another_process_goes_on",
            "pair/test_copying_pair.py::TestStormy",
            "drivers/test_copying.py::test_a_target_that_goes_and_comes_back",
        ),
        promise(
            "One target, or one marker, is for one filter.",
            "drivers/test_copying.py::test_one_target_is_for_one_filter",
            "client/test_copier.py::test_a_target_of_another_filter",
        ),
        promise(
            "Nothing is acknowledged that the target does not have.",
            "integration/test_sourcing.py::test_a_copy_of_a_stream_that_was_restored_ends_and_acknowledges_nothing",
            "pair/test_sourcing_pair.py::test_a_stream_that_comes_back_shorter_is_not_read_on",
            "stateful/test_sourcing_stateful.py::TestSourcing",
            "client/test_sourcing.py::test_the_message_at_the_position_proves_it",
        ),
        promise(
            "Two answers, 4 s apart, are to say so.",
            "client/test_sourcing.py::test_one_answer_of_an_old_leader_does_not_end_it",
            "client/test_sourcing.py::test_a_stream_that_ends_before_the_position_is_not_read",
        ),
        promise(
            "Before, a `SourcePositionError` ends the copy.",
            "drivers/test_copying.py::test_a_position_beyond_the_stream",
            "client/test_sourcing.py::test_a_stream_that_ends_before_the_position_is_not_read",
        ),
        promise(
            "A message schedule is no job. It is passed over and stays (event `SchedulePassedOver`)",
            "drivers/test_copying.py::test_a_schedule_is_no_job",
            "client/test_sourcing.py::test_a_schedule_is_not_handed_on",
        ),
        promise(
            "Until it is gone nothing that comes after it is acknowledged, so a work queue keeps that.",
            "drivers/test_copying.py::test_a_schedule_is_no_job",
            "client/test_sourcing.py::test_a_schedule_that_comes_again_is_not_acknowledged_either",
            "client/test_sourcing.py::test_a_schedule_beside_a_quiet_queue_is_waited_for",
        ),
        promise(
            "`run(until_caught_up=True)` returns when all is stored that the source had at its start, also under "
            "traffic. With traffic the consumer may not have heard of all, and the next run tells it.",
            "drivers/test_copying.py::test_a_run_ends_with_what_the_source_had_at_its_beginning",
            "client/test_copier.py::test_a_goal_stays_where_it_was_when_the_run_began",
            "client/test_copier.py::test_a_consumer_that_does_not_ask_is_waited_for_a_while",
        ),
        promise(
            "A stream that is not the one of the position ends this with `SourcePositionError`",
            "drivers/test_copying.py::test_a_position_beyond_the_stream",
            "client/test_sourcing.py::test_the_message_at_the_position_proves_it",
        ),
        promise(
            "What it raises from is handed out again.",
            "drivers/test_copying.py::test_a_callback_confirms_what_it_returns_from",
        ),
        promise(
            'With `delivery="fast"` the target has no other writer.',
            "drivers/test_copying.py::test_another_writer",
            "pair/test_copying_pair.py::test_somebody_else_writes_to_the_target",
        ),
        promise(
            "it may have other writers.",
            "drivers/test_copying.py::test_another_writer",
            "drivers/test_copying.py::test_atomic_batches_beside_other_writers",
        ),
        promise(
            "Where the last copies are deleted before the consumer has heard that they are stored, they are copied "
            "again.",
            "drivers/test_copying.py::test_copies_that_are_deleted_too_early",
        ),
        promise(
            "Headers that begin with `Nats-` are not, except `Nats-TTL` for a target that takes it, and "
            "`Nats-Marker-Reason`, by which a server says that a key is removed.",
            "drivers/test_copying.py::test_a_key_that_has_expired_is_removed_in_the_copy_too",
            "client/test_copy_columns.py::test_copies_are_published_as_a_list_of_them",
            "drivers/test_copying.py::test_a_work_queue_is_copied_and_emptied",
        ),
        promise(
            "What the target refuses ends the copy with an error (it is full, or a message is too large), and stays in "
            "the source.",
            "drivers/test_copying.py::test_what_the_target_refuses_is_not_lost",
        ),
        promise(
            "One program at a time copies from a consumer.",
            "drivers/test_copying.py::test_one_program_at_a_time",
        ),
        promise(
            "**Then a message goes when all of them have acknowledged it**",
            "drivers/test_copying.py::test_a_queue_that_is_shared_with_workers",
        ),
        promise(
            "From nats-server 2.15 a stream that was deleted and created again is copied from its beginning.",
            "drivers/test_copying.py::test_a_source_that_is_made_anew",
        ),
        promise(
            "What it returns from is confirmed.",
            "drivers/test_copying.py::test_a_callback_confirms_what_it_returns_from",
        ),
        promise(
            "What is not confirmed comes again the next time",
            "drivers/test_sourcing.py::test_a_work_queue_is_copied_by_one_program_after_another",
            "drivers/test_sourcing.py::test_what_was_not_confirmed_comes_again",
            "integration/test_sourcing.py::test_a_work_queue_is_copied_once_and_in_order_whatever_happens_to_the_link",
        ),
    ),
    "Consuming": (
        promise(
            "calls a function with each message, several at once, in order within a key.",
            "drivers/test_consume.py::test_messages_of_a_key_follow_each_other_after_a_failure_too",
            "drivers/test_consume.py::test_no_more_callbacks_run_than_wanted",
        ),
        promise(
            "during this block it is not delivered again",
            DRIVERS_PULLING + "work_in_progress_is_not_delivered_again",
            CLIENT_JSMSG + "work_is_reported_at_a_third_of_the_ack_wait",
            CLIENT_JSMSG + "work_is_reported_when_there_is_room_again",
        ),
        promise(
            "returns when the server has it",
            DRIVERS_PULLING + "every_kind_of_acknowledgement",
            CLIENT_JSMSG + "an_acknowledgement_that_is_answered",
            INTEGRATION_PULL_RELEASES + "each_acknowledgement_means_what_it_says",
        ),
        promise(
            "Several workers, threads or tasks, share one subscription: each calls `messages()`, and each "
            "message goes to one of them.",
            DRIVERS_PULLING + "a_pool_of_workers_shares_a_stream_of_messages",
            DRIVERS_PULLING + "who_leaves_a_stream_of_messages_takes_nothing_from_the_others",
            CLIENT_PULL + "a_stream_of_messages_is_shared_until_the_last_one_leaves",
        ),
        promise(
            "acknowledged as the callbacks return",
            DRIVERS_SUBSCRIBING + "a_callback_gets_the_same_and_acknowledges_by_returning",
            DRIVERS_CALLBACKS + "what_a_callback_raises_is_told_and_the_next_message_comes",
        ),
        promise(
            "every message at least once: again and again until it is acknowledged, or `max_deliver` is reached",
            "stateful/test_consuming_stateful.py::TestFetchingFaults",
            "stateful/test_consuming_stateful.py::TestStreamingFaults",
            PAIR_CONSUMING_PAIR + "fetching_and_acknowledging_loses_nothing",
            PAIR_CONSUMERS_PAIR + "every_message_arrives_until_it_is_acknowledged",
            INTEGRATION_CLUSTER + "pulling_goes_on_under_new_leaders",
            SERVER_DELIVER + "backoff_and_the_last_delivery",
        ),
        promise(
            "every message once and in order, as long as the stream holds it until its turn",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_tells_what_was_dropped_before_its_turn",
            "stateful/test_consuming_stateful.py::TestOrderedFaults",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
            PAIR_CONSUMING_PAIR + "an_ordered_consumer_reads_each_message_once_and_in_order",
            INTEGRATION_SUBSCRIBE_RELEASES + "an_ordered_subscription_through_leader_changes_and_reconnects",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_survives_what_others_do_to_its_consumer",
        ),
        promise(
            "every message at most once, in order, until a server is killed: messages may then come again (event "
            "`ConsumerRestarted`). What was lost is the event `DeliveriesLost`, but not in a queue group",
            CLIENT_PUSH + "nobody_in_a_queue_group_looks_for_gaps",
            INTEGRATION_AT_MOST_ONCE + "what_comes_again_without_acknowledgements_is_told",
            CLIENT_PUSH + "gaps_and_restarts_are_told",
            RULES_GAPS + "every_lost_delivery_is_counted_once_what_follows_it_arrives",
        ),
        promise(
            "An existing consumer is never changed. Where it differs from what was asked for, a `BindError` "
            "lists the differences.",
            DRIVERS_SUBSCRIBING + "a_consumer_that_does_not_fit_is_refused_with_the_reason",
            DRIVERS_PULLING + "a_durable_consumer_stays_unless_it_is_to_go",
            CLIENT_SUBSCRIBE + "what_is_there_must_fit",
            CLIENT_SUBSCRIBE + "who_loses_the_race_joins_the_group_on_its_subject",
            CLIENT_SUBSCRIBE + "who_loses_the_race_alone_is_refused",
        ),
        promise(
            "The end of a subscription deletes the consumer that it created, a durable one too if it pushes. It "
            "keeps a queue group's consumer, and a durable one that is pulled from. `delete_consumer` overrides "
            "this.",
            DRIVERS_SUBSCRIBING + "unsubscribing_deletes_what_the_subscription_created",
            DRIVERS_SUBSCRIBING + "members_of_a_queue_group_share_one_consumer",
            DRIVERS_PULLING + "a_consumer_of_its_own",
            DRIVERS_PULLING + "a_durable_consumer_stays_unless_it_is_to_go",
        ),
        promise(
            "`drain` delivers what is buffered first",
            DRIVERS_SUBSCRIBING + "draining_delivers_what_is_buffered_and_then_deletes_the_consumer",
            DRIVERS_SUBSCRIBING + "draining_the_connection_waits_for_callbacks",
            DRIVERS_CALLBACKS + "a_callback_that_drains_the_connection_gets_the_rest",
            DRIVERS_PULLING + "a_drained_subscription_gives_what_it_has",
        ),
        promise(
            "`nc.drain()` waits, up to the connection's `timeout`, until other tasks or threads that iterate have "
            "acknowledged what they take.",
            DRIVERS_DRAINING + "what_is_buffered_can_be_acknowledged",
            DRIVERS_DRAINING + "threads_too",
            DRIVERS_DRAINING + "who_takes_no_more_delays_it_up_to_the_limit",
        ),
        promise(
            "A `subscribe` that is cancelled, or ended by Ctrl-C, leaves no subscription, and no consumer without a "
            "given name.",
            DRIVERS_OWNERS + "a_cancelled_verb_leaves_nothing",
            DRIVERS_OWNERS + "a_task_is_cancelled_at_each_turn_of_its_loop",
            DRIVERS_OWNERS + "ctrl_c_leaves_nothing",
        ),
        promise(
            "On threads a signal handler may call `nc.drain()`, `nc.close()` and `sub.drain()`.",
            DRIVERS_INTERRUPTING + "a_verb_at_each_line_of_another",
            DRIVERS_INTERRUPTING + "the_end_at_each_line_of_another_verb",
            DRIVERS_INTERRUPTING + "a_worker_ends_by_its_handler_of_sigterm",
        ),
        promise(
            "every end has its deadline",
            DRIVERS_ENDS + "every_end_comes_in_time_when_the_server_stands_still",
            CLIENT_PUSH + "draining_deletes_in_the_end_whoever_does_not_take_the_rest",
            DRIVERS_FAULTS + "close_does_not_wait_for_ever",
        ),
        promise(
            'With `"pinned_client"` one client gets everything. Another one follows when it stays away for '
            "`priority_timeout`, or at `unpin_consumer`.",
            PAIR_PRIORITY_PAIR + "one_client_gets_everything_until_it_is_unpinned",
            PAIR_PRIORITY_PAIR + "a_pinned_client_that_leaves_is_followed_by_another",
            PAIR_PRIORITY_PAIR + "a_new_leader_pins_anew",
            DRIVERS_PULLING + "a_pinned_client_gets_everything_until_it_is_unpinned",
        ),
        promise(
            'With `"overflow"` some clients get only what is too much for the rest',
            PAIR_PRIORITY_PAIR + "who_helps_out_gets_what_is_too_much_for_others",
            DRIVERS_PULLING + "clients_of_a_priority_group",
        ),
        promise(
            "a lower `priority` goes first",
            PAIR_PRIORITY_PAIR + "who_goes_first_gets_all_that_it_asks_for",
            SERVER_PRIORITY + "lower_priorities_go_first_and_equal_ones_take_turns",
        ),
        promise(
            "A fetch that finds nothing is an empty list.",
            CLIENT_PULL + "an_empty_fetch_is_no_error",
            CLIENT_PULL + "a_fetch_survives_its_link",
        ),
        promise(
            "It ends at once, with `ConsumerDeletedError` or another error of the server, when waiting has no use.",
            DRIVERS_PULLING + "what_is_deleted_while_fetching_is_told_at_once",
            CLIENT_PULL + "an_error_ends_a_fetch_at_once",
            CLIENT_PULL + "a_fetch_whose_consumer_goes_during_an_election_ends_at_once",
        ),
        promise(
            "A fetch waits through elections and lost links, and so does `messages()`.",
            PAIR_ELECTIONS + "a_verb_that_begins_in_an_election",
            CLIENT_PULL + "a_fetch_survives_its_link",
            CLIENT_PULL + "a_stream_of_messages_sits_out_an_election",
            CLIENT_PULL + "a_stream_of_messages_survives_its_link",
            INTEGRATION_CLUSTER + "pulling_goes_on_under_new_leaders",
            INTEGRATION_PULL_RELEASES + "a_stream_of_messages_survives_a_restart",
        ),
        promise(
            "It waits, too, when it begins in one.",
            CLIENT_FETCH + "a_fetch_that_nobody_answers_waits_for_its_time",
            PAIR_ELECTIONS + "a_verb_that_begins_in_an_election",
        ),
        promise(
            "`ack_sync` is sent again in an election until its time is over.",
            CLIENT_JSMSG + "an_acknowledgement_that_nobody_takes_is_sent_again",
            PAIR_ELECTIONS + "acknowledgements",
        ),
        promise(
            "What the user may not do raises `PermissionsViolationError`, and its text names the subject.",
            PAIR_REFUSALS + "each_refusal_is_heard",
            DRIVERS_REFUSALS + "a_refusal_is_heard",
        ),
        promise(
            "That holds for the requests that the library makes by itself, such as answers to flow control.",
            CLIENT_PERMISSIONS + "a_push_consumer_that_may_not_answer",
            CLIENT_PERMISSIONS + "an_ordered_reading_that_may_not_answer",
            DRIVERS_REFUSALS + "a_refusal_is_heard",
        ),
        promise(
            "A consumer that may not be acknowledged ends.",
            CLIENT_PERMISSIONS + "messages_that_may_not_be_acknowledged",
            DRIVERS_REFUSALS + "a_refusal_is_heard",
        ),
        promise(
            "`pull_subscribe_bind` needs no right to look up the consumer.",
            CLIENT_SUBSCRIBE + "a_pull_consumer_that_must_exist_needs_no_look_up",
            DRIVERS_REFUSALS + "who_may_only_pull_and_acknowledge",
        ),
        promise(
            "A consumer that pushes is looked for when it is silent for three heartbeats, or for 15 seconds "
            "without heartbeats, as in a queue group.",
            CLIENT_PUSH + "three_heartbeats_missed_are_an_alarm_once",
            CLIENT_PUSH + "without_heartbeats_silence_is_no_alarm_but_the_consumer_is_looked_for",
        ),
        promise(
            "When it was deleted, each of its subscriptions ends with `ConsumerNotFoundError`.",
            DRIVERS_SUBSCRIBING + "a_consumer_that_is_deleted_ends_its_subscription",
            DRIVERS_SUBSCRIBING + "members_of_a_queue_group_notice_that_their_consumer_is_deleted",
        ),
        promise(
            "The first `ack`, `nak` or `term` settles a message, and the rest are ignored.",
            CLIENT_JSMSG + "terminal_acknowledgements_are_sent_once",
            DRIVERS_SHARING + "one_of_many_settles_a_message",
        ),
        promise(
            "Three heartbeats missed are the event `ConsumerSilent`, except while there is no link.",
            CLIENT_PUSH + "three_heartbeats_missed_are_an_alarm_once",
            CLIENT_PUSH + "silence_does_not_count_while_the_link_is_down",
            CLIENT_PULL + "no_alarm_without_a_link",
        ),
        promise(
            "A program that was stopped, as by Ctrl-Z, first reads for up to 0.2 seconds what waits in its socket: "
            "an answer or a heartbeat among it is in time.",
            "drivers/test_standing_still.py::test_what_came_meanwhile_is_in_time",
            "drivers/test_standing_still.py::test_what_came_before_the_wait_is_in_time",
        ),
        promise(
            "A subscriber that is pushed more than `pending_msgs_limit` or `pending_bytes_limit` allow loses "
            "messages, until `ack_wait` brings them again, and gets the event `SlowConsumer`.",
            DRIVERS_SUBSCRIBING + "a_slow_application_is_told_and_what_it_lost_comes_again",
            CLIENT_PUSH + "the_buffer_is_bounded_by_both_limits",
        ),
        promise(
            "An ordered reader pauses instead.",
            CLIENT_ORDERED + "a_full_buffer_pauses_the_reading",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_keeps_a_small_buffer_and_loses_nothing",
        ),
        promise(
            "A subscriber that pulls gets no more than it asked for.",
            "client/test_pull_refusals.py::test_messages_nobody_asked_for_are_bounded",
            CLIENT_PULL + "requests_are_served_in_turn_and_only_their_sum_counts",
            "stateful/test_pull_stateful.py::TestPulls",
        ),
        promise(
            "for ever: it asks for more when half of what it asked for has come",
            CLIENT_PULL + "a_stream_of_messages_asks_again_at_its_threshold",
            CLIENT_PULL + "a_stream_of_messages_waits_without_polling",
        ),
        promise(
            "ends when the subscription does",
            DRIVERS_PULLING + "a_pool_of_workers_shares_a_stream_of_messages",
        ),
        promise(
            "A message that was acknowledged may come again all the same",
            INTEGRATION_CRASHES + "what_comes_again_after_a_crash",
        ),
        promise(
            "Nothing that is not acknowledged is lost by that.",
            INTEGRATION_CRASHES + "what_comes_again_after_a_crash",
        ),
        promise(
            "After a crash (or `kill -9`) of a single server, what `ack_sync` confirmed right before it may come "
            "again.",
            INTEGRATION_CRASHES + "what_comes_again_after_a_crash",
        ),
    ),
    "Ordered readers": (
        promise(
            "After a gap, silence, a new leader or a lost link another consumer goes on after the last message, "
            "as often as it takes (event `OrderedConsumerRecreated`)",
            CLIENT_ORDERED + "a_gap_leads_to_a_consumer_that_starts_after_the_last_message",
            CLIENT_ORDERED + "silence_leads_to_another_consumer_and_then_to_patience",
            CLIENT_ORDERED + "a_lost_link_leads_to_another_consumer_on_the_next_one",
            CLIENT_ORDERED + "what_may_pass_is_tried_again",
        ),
        promise(
            "A stream that was deleted and created again is read from its first message (event `StreamRecreated`)",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_reads_a_stream_that_was_made_again_from_its_beginning",
            PAIR_CONSUMING_PAIR + "an_ordered_consumer_reads_a_stream_that_is_made_again",
            CLIENT_ORDERED + "a_full_buffer_of_the_old_stream_skips_nothing_of_the_new_one",
        ),
        promise(
            "What limits or a purge took before its turn is the event `MessagesMissed`, with the first and the last "
            "sequence.",
            ORDERED_POSITION + "what_was_dropped_between_two_consumers_is_told_once",
            ORDERED_POSITION + "a_hole_that_limits_have_made_is_told",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_tells_what_was_dropped_before_its_turn",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
        ),
        promise(
            "is read on from the first message that is newer than the last one read (event `StreamRolledBack`)",
            ORDERED_POSITION + "a_stream_that_is_shorter_is_read_on_from_what_is_newer",
            ORDERED_POSITION + "a_stream_that_is_shorter_and_has_grown_again",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_reads_on_in_a_stream_that_came_back_shorter",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
        ),
        promise(
            "Nothing is read meanwhile.",
            ORDERED_POSITION + "one_old_answer_changes_nothing",
            ORDERED_POSITION + "a_stream_that_is_shorter_is_read_on_from_what_is_newer",
        ),
    ),
    "Testing without a server": (
        promise(
            "Nothing sleeps: time is a number that moves from deadline to deadline, so an hour of retries passes "
            "at once.",
            PAIR_PAIR + "the_same_seed_gives_the_same_times_and_messages",
            PAIR_PAIR + "time_passes_with_nothing_to_do",
            PAIR_NETWORK + "chance_is_spread_and_repeats_itself",
            ARCHITECTURE + "the_core_works_where_everything_impure_is_poisoned",
        ),
        promise(
            "The same seed gives the same bytes at the same times.",
            PAIR_PAIR + "the_same_seed_gives_the_same_times_and_messages",
            PAIR_PAIR + "time_passes_with_nothing_to_do",
            PAIR_NETWORK + "chance_is_spread_and_repeats_itself",
            ARCHITECTURE + "the_core_works_where_everything_impure_is_poisoned",
        ),
        promise(
            "A ticket that would never be answered raises `StuckError` instead of hanging.",
            PAIR_PAIR + "nobody_answers",
            PAIR_PAIR + "waiting_is_bounded",
        ),
        promise(
            "Here a batch survives the loss of every hundredth message, or answer, on its way through a cluster:",
            README + "a_client_and_a_server_in_simulated_time",
            "stateful/test_pair_stateful.py::TestFastFaults",
        ),
    ),
    "Driving the core yourself": (
        promise(
            "`finished` says that all has been received.",
            "test_readme.py::test_the_driver_on_a_plain_socket",
            "client/test_direct.py::test_one_page_is_all",
        ),
        promise("It does not say that it has been taken:", "test_readme.py::test_the_driver_on_a_plain_socket"),
        promise(
            "Servers without TLS never ask.",
            CLIENT_AUTHENTICATION + "tls_that_nobody_requires",
            CLIENT_AUTHENTICATION + "one_side_requires_what_the_other_has_not",
        ),
        promise(
            "Early and repeated calls of `handle_timeout` are harmless.",
            PAIR_WAKING + "early_and_repeated_calls_change_nothing",
            PAIR_WAKING + "late_calls_lose_nothing",
            CLIENT_ATOMIC_ENDS + "time_that_passes_early_or_twice_is_harmless",
        ),
    ),
    "Write your own transport": (
        promise(
            "It dials again, keeps time, writes and reads, and lets tasks wait for tickets.",
            CONFORMANCE + "the_transport_of_the_readme",
            CONFORMANCE + "a_defect_is_found",
        ),
        promise(
            "A link ends once. `receive_eof` after the end of the link changes nothing, so both tasks may report it.",
            CONFORMANCE + "the_transport_of_the_readme",
            CLIENT_SESSION + "no_address_answers",
        ),
    ),
    "Prove it": (
        promise(
            "It has a server in memory for each case, which it cuts off, stops and starts again.",
            CONFORMANCE + "the_driver_for_threads",
            CONFORMANCE + "a_defect_is_found",
        ),
        promise(
            "The drivers of this library pass it, and so does the one above.",
            CONFORMANCE + "the_driver_for_threads",
            CONFORMANCE + "the_driver_for_asyncio",
            CONFORMANCE + "the_driver_for_trio",
            CONFORMANCE + "the_transport_of_the_readme",
        ),
    ),
    "Embedding a conversation in another client": (
        promise(
            "A conversation (`FastPublisher`, `DirectBatch` and others) sees no socket. It publishes and "
            "subscribes through an `Outbox`, a few methods around the client that you have.",
            EMBEDDING + "another_client_carries_the_conversations",
            EMBEDDING + "two_batches_at_once",
            ARCHITECTURE + "the_core_imports_only_what_is_pure",
        ),
    ),
    "Rules the core keeps": (
        promise(
            "Receiving never raises.",
            FUZZ_CORPUS + "every_input_of_the_corpus_holds",
            CLIENT_FAST_TOTAL + "whatever_happens_in_whatever_order",
            SERVER_SESSION + "whatever_arrives_nothing_is_raised",
            WIRE_PROPERTIES + "bad_bytes_never_raise_and_come_to_the_same_however_they_are_cut",
        ),
        promise(
            "A peer that breaks the protocol becomes state and a typed error in every open ticket.",
            FUZZ_CORPUS + "a_short_search_finds_nothing",
            CLIENT_SESSION + "garbage_ends_the_session_but_what_came_before_counts",
            DRIVERS_FAULTS + "junk_in_the_middle",
        ),
        promise(
            "A caller's mistake raises `LocalProtocolError` at the call. Nothing was written and no state has changed.",
            CLIENT_SESSION + "a_users_mistake_changes_nothing",
            CLIENT_SENDING + "what_is_no_str_is_no_subject",
            CLIENT_SENDING + "what_is_no_message",
            DRIVERS_BAD_INPUT + "what_cannot_be_sent_spends_no_sequence",
            DRIVERS_BAD_INPUT + "what_is_no_str_is_no_subject",
            DRIVERS_FACADE + "a_bad_message_is_refused_and_changes_nothing",
        ),
        promise(
            'A payload that is not bytes raises `TypeError` ("the payload must be bytes, not str: encode it"), '
            "with nothing written either. Anything that can be read as bytes (`bytearray`, `memoryview`) is "
            "copied.",
            DRIVERS_FACADE + "a_payload_that_is_not_bytes_is_refused",
            DRIVERS_BAD_INPUT + "text_is_no_payload",
            CLIENT_SESSION + "payloads_are_bytes_or_something_that_can_be_read_as_bytes",
        ),
        promise(
            "A list for `publish_batch` that holds such a payload is a `LocalProtocolError`, which names the message.",
            CLIENT_PUBLISH_BATCH + "what_is_no_message_stores_nothing",
            DRIVERS_BAD_INPUT + "what_is_no_message_is_refused_by_everything_that_takes_many",
        ),
        promise(
            "of a class of its own for every code the server is known to send",
            ERRORS + "every_row_has_a_class_of_its_own",
            ERRORS + "the_generated_module_is_up_to_date",
        ),
        promise(
            "Every limit of the wire has a name (`jsproto/wire/limits.py`)",
            WIRE_DECODER + "the_limits_of_the_roles",
        ),
        promise(
            "Memory is bounded whatever the peer sends.",
            CLIENT_MEMORY + "lines",
            CLIENT_MEMORY + "answers",
            WIRE_PROPERTIES + "never_more_is_kept_than_was_fed",
            WIRE_DECODER + "memory_follows_the_bytes_however_small_the_pieces",
            CLIENT_SESSION + "the_cache_of_subjects_is_bounded",
            CLIENT_KEEPALIVE + "a_peer_that_asks_and_never_reads_costs_no_memory",
            "client/test_pull_refusals.py::test_messages_nobody_asked_for_are_bounded",
            CLIENT_DIRECT + "the_memory_is_bounded_however_few_messages_a_page_has",
            CLIENT_PUBLISHER + "a_window_of_failures_stops_the_publisher_until_they_are_taken",
            CLIENT_FAST_LOSSY + "gap_ok_what_others_refused_is_not_kept_though_one_before_them_waits",
            SERVER_SESSION + "what_a_client_costs_is_bounded",
        ),
        promise(
            "Both dialects of ADR-50's acknowledgements are understood: the draft's and the one that released "
            "servers speak.",
            GRAMMAR_ACKS + "both_dialects_say_the_same",
            "client/test_fast_lossy.py::test_the_draft_dialect_means_the_same",
        ),
        promise(
            "Every verb of JetStream that publishes refuses headers of an atomic batch (`Nats-Batch-...`): the "
            "server would wait for the rest of that batch.",
            CLIENT_SENDING + "nobody_publishes_into_the_batch_of_somebody_else",
            DRIVERS_BAD_INPUT + "a_message_read_from_an_atomic_batch_is_published_without_its_headers",
        ),
        promise(
            "A message that is read may have them. `jsproto.strip_batch_headers(headers)` gives the others.",
            CLIENT_SENDING + "what_is_left_of_a_message_of_a_batch_can_be_published",
            CLIENT_SENDING + "stripping_takes_whatever_verbs_take",
        ),
    ),
    "Set up and run": (
        promise(
            "An application that consumes works the same with both versions.",
            INTEGRATION_SUBSCRIBE_RELEASES + "the_workflow_with_ack_subjects_of_version_2",
            CLIENT_PULL + "both_versions_of_ack_subjects_are_messages",
        ),
    ),
    "Soak": (
        promise(
            "nothing acknowledged may be missing, nothing may be there twice",
            INTEGRATION_SOAK_PUBLISH + "a_short_soak",
            INTEGRATION_SOAK_PUBLISH + "a_violation_is_found",
        ),
        promise(
            "each sequence must come once and in order",
            INTEGRATION_SUBSCRIBE_RELEASES + "an_ordered_subscription_through_leader_changes_and_reconnects",
        ),
        promise(
            "Each message must be there once and in order, and the queue empty.",
            "integration/test_sourcing.py::test_a_short_soak",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Consuming": ("about ten times a second",),
    "Ordered readers": ("The range then may hold none of its messages.", "gets no such news"),
    "Copying a stream": ("Copies of older releases have none.",),
    "Driving the core yourself": (
        "write all of `data_to_send()`",
        "The same client reads a stream by Direct Get",
    ),
    "The contract of an outbox": (
        "gives the `ServerInfo` of the link",
        "gives the error that ended the connection",
    ),
    "Map of the tests": ("which tests attack which guarantee of a README",),
    "Soak": ("where the suite takes 3,000",),
    "How to add something": (
        "A guarantee:",
        "Quote the sentence in",
        "A sentence that sounds like a promise and describes",
        "fails for a sentence that sounds like a promise",
    ),
}
