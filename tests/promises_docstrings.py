"""What public docstrings guarantee, as ``promises`` for the README: by module and name, its members' included.

The drivers on event loops have the docstrings of the one on threads (``drivers/test_parity.py``): these are not here.
"""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

CLIENT_ATOMIC: Final = "client/test_atomic.py::test_"
CLIENT_ATOMIC_ENDS: Final = "client/test_atomic_ends.py::test_"
CLIENT_AT_ONCE: Final = "client/test_at_once.py::test_"
CLIENT_CONSISTENCY: Final = "client/test_consistency.py::test_"
CLIENT_DIALLER: Final = "client/test_server_pool.py::test_"
CLIENT_DIRECT: Final = "client/test_direct.py::test_"
CLIENT_FAST: Final = "client/test_fast.py::test_"
CLIENT_FAST_TOTAL: Final = "client/test_fast_total.py::test_"
CLIENT_JETSTREAM: Final = "client/test_jetstream.py::test_"
CLIENT_JSMSG: Final = "client/test_message.py::test_"
CLIENT_MULTI: Final = "client/test_multi.py::test_"
CLIENT_SNAPSHOT: Final = "client/test_snapshot.py::test_"
CLIENT_PUBLISHER: Final = "client/test_pipelined.py::test_"
CLIENT_PUBLISH_BATCH: Final = "client/test_publish_batch.py::test_"
CLIENT_PULL: Final = "client/test_pull.py::test_"
CLIENT_PUSH: Final = "client/test_push.py::test_"
CLIENT_SENDING: Final = "client/test_sending.py::test_"
CLIENT_SESSION: Final = "client/test_session.py::test_"
DRIVERS_ATOMIC_FACADE: Final = "drivers/test_atomic_facade.py::test_"
DRIVERS_BAD_INPUT: Final = "drivers/test_bad_input.py::test_"
DRIVERS_CANCELLING: Final = "drivers/test_cancelling.py::test_"
DRIVERS_DURATIONS: Final = "drivers/test_durations.py::test_"
DRIVERS_ENDS: Final = "drivers/test_ends.py::test_"
DRIVERS_FACADE: Final = "drivers/test_facade.py::test_"
DRIVERS_FAULTS: Final = "drivers/test_faults.py::test_"
DRIVERS_IN_HAND: Final = "drivers/test_in_hand.py::test_"
DRIVERS_OUTAGE: Final = "drivers/test_outage.py::test_"
DRIVERS_PUBLISHING: Final = "drivers/test_publishing.py::test_"
DRIVERS_READING: Final = "drivers/test_reading.py::test_"
DRIVERS_RECONNECT: Final = "drivers/test_reconnect.py::test_"
DRIVERS_SESSIONS: Final = "drivers/test_sessions.py::test_"
DRIVERS_SHARING: Final = "drivers/test_sharing.py::test_"
DRIVERS_TIMEOUTS: Final = "drivers/test_timeouts.py::test_"
FUZZ_CORPUS: Final = "test_fuzz_corpus.py::test_"
GRAMMAR_ACKS: Final = "grammar/test_acks.py::test_"
GRAMMAR_COLUMNS: Final = "grammar/test_columns.py::test_"
GRAMMAR_PUBLISH_HEADERS: Final = "grammar/test_publish_headers.py::test_"
INTEGRATION_CRASHES: Final = "integration/test_crashes.py::test_"
INTEGRATION_ATOMIC_RELEASES: Final = "integration/test_atomic_releases.py::test_"
INTEGRATION_CLUSTER: Final = "integration/test_cluster.py::test_"
INTEGRATION_PULL_RELEASES: Final = "integration/test_pull_releases.py::test_"
INTEGRATION_READING: Final = "integration/test_reading.py::test_"
INTEGRATION_SUBSCRIBE_RELEASES: Final = "integration/test_subscribe_releases.py::test_"
NATS_SERVER: Final = "test_nats_server.py::test_"
PAIR_CONSUMING_PAIR: Final = "pair/test_consuming_pair.py::test_"
PAIR_PAIR: Final = "pair/test_pair.py::test_"
PAIR_WAKING: Final = "pair/test_waking.py::test_"
RULES_WINDOWS: Final = "rules/test_window.py::test_"
SERVER_ATOMIC: Final = "server/test_atomic.py::test_"
SERVER_DELIVER: Final = "server/test_consumer.py::test_"
STATEFUL_WORLDS: Final = "stateful/test_worlds.py::test_"
TRANSCRIPTS_SERVER_ROLE: Final = "transcripts/test_server_role.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "jsproto_io.sync:PipelinedPublisher": (
        promise(
            "The messages that are not known to be stored, in order: what another batch or publisher would begin with.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_publisher_ahead",
            CLIENT_PUBLISHER + "failures_are_kept_however_many_they_are",
        ),
        promise(
            "What it gave, and was not published when the call ended with an error, is at the end of "
            "``unacknowledged``.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_publisher_ahead",
            DRIVERS_IN_HAND + "ctrl_c_loses_nothing",
            DRIVERS_IN_HAND + "each_row_is_published_or_handed_back_or_still_in_the_source",
        ),
        promise(
            "This holds for any error, for a cancellation and for Ctrl-C.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "ctrl_c_loses_nothing",
        ),
        promise(
            "Wait until every message has its acknowledgement or has failed.",
            CLIENT_PUBLISHER + "every_message_ends_exactly_once",
            DRIVERS_OUTAGE + "many_messages",
            DRIVERS_SHARING + "many_publish_by_one_publisher",
        ),
        promise(
            "Raises, with nothing sent: TimeoutError: there was no room within ``wait_stall``.",
            DRIVERS_PUBLISHING + "no_room_and_no_answers",
            DRIVERS_TIMEOUTS + "without_a_link",
        ),
        promise(
            "Raises, with nothing sent:",
            CLIENT_PUBLISHER + "a_bad_message_leaves_those_before_it_taken",
            DRIVERS_BAD_INPUT + "what_cannot_be_sent_spends_no_sequence",
            DRIVERS_BAD_INPUT + "what_is_no_str_is_no_subject",
        ),
    ),
    "jsproto_io.sync:AtomicBatch": (
        promise(
            "One atomic batch (ADR-50): stored whole, or not at all.",
            "stateful/test_pair_stateful.py::TestAtomicFaults",
            SERVER_ATOMIC + "a_batch_is_stored_whole_or_not_at_all",
            INTEGRATION_ATOMIC_RELEASES + "a_server_that_is_killed_stores_all_or_nothing",
            INTEGRATION_CLUSTER + "an_atomic_batch_does_not_outlive_its_leader",
        ),
        promise(
            "it discards the batch when the block is left without a commit: nothing is stored",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
            DRIVERS_CANCELLING + "a_batch_whose_task_is_cancelled_commits_nothing",
        ),
        promise(
            "nothing sent and no sequence spent:",
            CLIENT_ATOMIC + "what_cannot_be_sent_spends_no_sequence",
            CLIENT_ATOMIC + "a_full_outbox_spends_no_sequence",
            CLIENT_ATOMIC + "expected_last_sequence_is_only_for_the_first_message",
            CLIENT_ATOMIC + "a_message_id_occurs_once",
        ),
        promise(
            "asking again (after a wait that was given up) gives the same answer",
            CLIENT_ATOMIC + "a_commit_can_be_asked_for_again",
            CLIENT_ATOMIC + "nothing_is_done_behind_a_commit",
            DRIVERS_ATOMIC_FACADE + "a_commit_can_be_asked_for_again",
            DRIVERS_SHARING + "many_end_what_one_has_ended",
        ),
        promise(
            "It is not known whether all of it is stored or nothing.",
            CLIENT_ATOMIC_ENDS + "no_answer_to_a_commit_leaves_open_whether_it_is_stored",
            CLIENT_ATOMIC_ENDS + "a_lost_link_with_the_commit_under_way_leaves_open_whether_it_is_stored",
            DRIVERS_ATOMIC_FACADE + "a_commit_without_an_answer",
        ),
        promise(
            "End the batch without a commit: nothing is stored.",
            CLIENT_ATOMIC_ENDS + "a_discarded_batch_says_nothing_to_the_server",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
        ),
    ),
    "jsproto_io.sync:BatchReader": (
        promise(
            "The messages as columns instead, up to ``most`` at a time: what has come, at least one, in order.",
            DRIVERS_READING + "columns",
            CLIENT_DIRECT + "messages_as_columns",
            GRAMMAR_COLUMNS + "a_page_in_columns_is_what_it_is_message_by_message",
        ),
    ),
    "jsproto_io.sync:Connection": (
        promise(
            "A server that takes no more bytes delays it by no more than twice the ``timeout`` of the connection.",
            DRIVERS_FAULTS + "close_does_not_wait_for_ever",
            DRIVERS_FAULTS + "a_server_that_takes_the_last_bytes_but_never_closes",
            DRIVERS_ENDS + "every_end_comes_in_time_when_the_server_stands_still",
        ),
        promise(
            "Raises, with nothing sent:",
            DRIVERS_FACADE + "a_bad_message_is_refused_and_changes_nothing",
            DRIVERS_BAD_INPUT + "what_is_no_str_is_no_subject",
            CLIENT_SESSION + "a_users_mistake_changes_nothing",
        ),
    ),
    "jsproto_io.sync:FastPublisher": (
        promise(
            "Messages run ahead of the server's acknowledgements by a bounded window. A verb waits while the window is "
            "closed.",
            RULES_WINDOWS + "monotone_and_bounded",
            RULES_WINDOWS + "sender_and_receiver_never_wait_for_each_other",
            CLIENT_FAST + "a_server_cannot_raise_the_rate_above_what_was_asked",
            "stateful/test_pair_stateful.py::TestFastFaults",
        ),
        promise(
            "None: nothing more is stored, and asking again (after a wait that was given up) gives the same answer",
            CLIENT_FAST + "committing_again_gives_the_same_answer",
            DRIVERS_FAULTS + "a_commit_can_be_asked_for_again",
            DRIVERS_SHARING + "many_end_what_one_has_ended",
        ),
        promise(
            "nothing sent and no sequence spent:",
            CLIENT_FAST + "a_refused_message_spends_no_sequence",
            DRIVERS_BAD_INPUT + "what_cannot_be_sent_spends_no_sequence",
        ),
        promise(
            "The messages that are not known to be stored, in order: what another batch or publisher would begin with.",
            CLIENT_FAST + "what_is_not_known_to_be_stored_is_kept_for_another_try",
            DRIVERS_RECONNECT + "a_lossless_batch_ends_with_the_link_and_is_published_again",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_publisher_ahead",
            DRIVERS_IN_HAND + "each_row_is_published_or_handed_back_or_still_in_the_source",
        ),
    ),
    "jsproto:FastPublisher": (
        promise(
            "The published messages that are not known to be stored, in order: what another batch would begin with.",
            CLIENT_FAST + "what_is_not_known_to_be_stored_is_kept_for_another_try",
        ),
    ),
    "jsproto_io.sync:JSMsg": (
        promise(
            "The first of ``ack``, ``nak`` and ``term`` settles it: later acknowledgements are ignored silently.",
            CLIENT_JSMSG + "terminal_acknowledgements_are_sent_once",
            DRIVERS_SHARING + "one_of_many_settles_a_message",
            CLIENT_JSMSG + "under_the_policy_none_nothing_is_sent",
        ),
        promise(
            "End the deliveries of the message, though it is not processed. A server that is killed may forget that.",
            INTEGRATION_PULL_RELEASES + "each_acknowledgement_means_what_it_says",
            SERVER_DELIVER + "termination",
            INTEGRATION_CRASHES + "what_was_terminated_comes_again_after_a_crash",
        ),
    ),
    "jsproto_io.sync:JetStream": (
        promise(
            "Every verb raises, besides what it lists itself: TimeoutError: no answer came in time. "
            "ConnectionLostError: the connection was lost. ConnectionClosedError: the connection was closed. APIError: "
            "the server refused the request.",
            DRIVERS_TIMEOUTS + "without_a_link",
            DRIVERS_TIMEOUTS + "a_server_that_takes_nothing",
            DRIVERS_FACADE + "after_close_every_verb_refuses",
            CLIENT_JETSTREAM + "errors_of_the_api",
        ),
        promise(
            "its publisher may never hear of it",
            DRIVERS_PUBLISHING + "abandoned_batches_are_told",
            PAIR_PAIR + "advisories_of_a_batch_that_is_left_alone",
        ),
        promise(
            "No message is left out that is there from beginning to end, up to where the read ends; a replica that "
            "lags may end it early.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_DIRECT + "whatever_happens_on_the_way_nothing_comes_twice_and_nothing_is_left_out",
            INTEGRATION_READING + "pages_of_any_size_over_deleted_messages",
        ),
        promise(
            "no subject is left out that is there all the time.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_MULTI + "each_subject_once_as_of_the_point",
        ),
        promise(
            "loses a message meanwhile (purged, deleted, expired), that one may show, or an older one, or none.",
            CLIENT_SNAPSHOT + "a_deleted_message_uncovers_an_older_one",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
        promise(
            "Exactly so, of what the stream still held when the read began: what had been purged, deleted or "
            "dropped by then is left out.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            INTEGRATION_READING + "a_snapshot_while_somebody_writes_is_the_state_at_its_sequence",
        ),
        promise(
            "TimeoutError: there was no room within ``wait_stall``. Nothing was sent.",
            DRIVERS_PUBLISHING + "no_room_and_no_answers",
            DRIVERS_TIMEOUTS + "without_a_link",
        ),
        promise(
            "Wait until every message of ``publish_async()`` is acknowledged or has failed. Each ``PendingAck`` has "
            "the result.",
            DRIVERS_OUTAGE + "promises",
            DRIVERS_PUBLISHING + "promises_end_with_the_connection",
        ),
        promise(
            "Store all of ``messages`` in one atomic batch, or none of them",
            DRIVERS_ATOMIC_FACADE + "an_iterable_in_one_call",
            DRIVERS_ATOMIC_FACADE + "an_iterable_that_cannot_be_a_batch_stores_nothing",
            CLIENT_PUBLISH_BATCH + "a_list_under_way_when_the_link_ends",
        ),
        promise(
            "BatchFullError: there are more than ``max_messages``. Nothing was sent. LocalProtocolError: the messages "
            "cannot be a batch. Nothing is stored.",
            CLIENT_PUBLISH_BATCH + "a_list_that_cannot_be_a_batch_is_refused_before_anything_is_sent",
            CLIENT_PUBLISH_BATCH + "a_bad_message_in_a_list_stores_nothing",
        ),
        promise(
            "ordered: every message once and in order, without acknowledgements, as long as the stream holds it until "
            "its turn.",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
            "drivers/test_subscribing.py::test_an_ordered_subscription_tells_what_was_dropped_before_its_turn",
            "stateful/test_consuming_stateful.py::TestOrderedFaults",
            INTEGRATION_SUBSCRIBE_RELEASES + "an_ordered_subscription_through_leader_changes_and_reconnects",
        ),
    ),
    "jsproto_io.sync:PullSubscription": (
        promise(
            "0: no heartbeats, and a request that was lost is made again a second after it must have expired.",
            CLIENT_PULL + "a_request_that_was_lost_is_made_again_when_it_must_have_ended",
        ),
    ),
    "jsproto_io.nats_server:NatsServer": (
        promise(
            "End it in order (SIGTERM, and SIGKILL if that takes too long).",
            NATS_SERVER + "a_server_that_does_not_heed_sigterm",
        ),
    ),
    "jsproto:PipelinedPublisher": (
        promise(
            "Publishes ahead of the acknowledgements by a bounded window.",
            CLIENT_PUBLISHER + "the_window_in_messages",
            CLIENT_PUBLISHER + "the_window_in_bytes_is_overrun_by_one_message",
        ),
        promise(
            "Raises, with nothing sent:",
            CLIENT_PUBLISHER + "a_full_outbox",
            CLIENT_PUBLISHER + "a_bad_message_leaves_those_before_it_taken",
        ),
    ),
    "jsproto:AtomicBatch": (
        promise(
            "APIError: the server refuses the batch, and nothing is stored.",
            CLIENT_ATOMIC + "every_code_is_a_typed_error",
            DRIVERS_ATOMIC_FACADE + "a_check_that_fails_refuses_all",
        ),
        promise(
            "Raises, with nothing sent and no sequence spent:",
            CLIENT_ATOMIC + "what_cannot_be_sent_spends_no_sequence",
            CLIENT_ATOMIC + "a_full_outbox_spends_no_sequence",
            CLIENT_ATOMIC + "expected_last_sequence_is_only_for_the_first_message",
            CLIENT_ATOMIC + "a_message_id_occurs_once",
        ),
        promise(
            "After either commit it sends nothing: asking again (after a wait that was given up) gives the same "
            "answer.",
            CLIENT_ATOMIC + "nothing_is_done_behind_a_commit",
            CLIENT_ATOMIC + "a_commit_can_be_asked_for_again",
        ),
        promise(
            "nothing is stored, the server forgets the batch",
            SERVER_ATOMIC + "a_silent_batch_is_given_up",
            CLIENT_ATOMIC_ENDS + "a_discarded_batch_says_nothing_to_the_server",
        ),
    ),
    "jsproto:BatchAdvisories": (
        promise(
            "Early and repeated calls are harmless.",
            PAIR_WAKING + "early_and_repeated_calls_change_nothing",
            CLIENT_ATOMIC_ENDS + "time_that_passes_early_or_twice_is_harmless",
        ),
    ),
    "jsproto:ConnectOptions": (
        promise(
            "After a lost link the servers are dialled again, each ``max_reconnect_attempts`` times in a row (-1: for "
            "ever, 0: not at all).",
            CLIENT_DIALLER + "attempts_in_a_row_are_limited",
            CLIENT_DIALLER + "whoever_lives_is_dialled_before_it_gives_up",
            CLIENT_DIALLER + "by_default_sixty_attempts_and_two_seconds",
        ),
        promise(
            "A pause of ``reconnect_time_wait`` follows when all have been tried, or did not stay for so long.",
            CLIENT_DIALLER + "links_that_do_not_last_are_followed_by_pauses",
            CLIENT_DIALLER + "by_default_sixty_attempts_and_two_seconds",
        ),
    ),
    "jsproto:ConsistentSession": (
        promise(
            "Reads that are never older than what this session has written and read.",
            "stateful/test_consistency_stateful.py::TestSessions",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_CONSISTENCY + "it_never_reads_backwards",
        ),
        promise(
            "Raises, with nothing sent:",
            CLIENT_CONSISTENCY + "what_cannot_be_is_refused_before_anything_is_sent",
        ),
    ),
    "jsproto:Conversation": (
        promise(
            "Never raises, whatever the message holds.",
            FUZZ_CORPUS + "every_input_of_the_corpus_holds",
            CLIENT_FAST_TOTAL + "whatever_happens_in_whatever_order",
            CLIENT_ATOMIC_ENDS + "junk_is_told_and_changes_nothing",
        ),
    ),
    "jsproto:DirectBatch": (
        promise(
            "all that is in order is taken at once",
            CLIENT_AT_ONCE + "what_is_in_order_is_taken_at_once",
            CLIENT_DIRECT + "a_page_at_once_is_read_as_message_by_message",
        ),
        promise(
            "Take up to ``most`` received messages, in order",
            CLIENT_DIRECT + "every_message_exactly_once_in_order",
            CLIENT_DIRECT + "whatever_happens_on_the_way_nothing_comes_twice_and_nothing_is_left_out",
        ),
    ),
    "jsproto:JetStream": (
        promise(
            "it would refuse the field, or drop it silently",
            CLIENT_JETSTREAM + "features_that_the_server_is_too_old_for",
            DRIVERS_SESSIONS + "older_servers_would_drop_the_persist_mode",
        ),
        promise(
            "Raises, with nothing sent: LocalProtocolError: the subject, a header, a keyword or the size is not "
            "allowed, or a header is of an atomic batch. UnsupportedByServerError: the server is too old for a "
            "keyword.",
            GRAMMAR_PUBLISH_HEADERS + "values_that_servers_would_refuse_or_not_heed",
            GRAMMAR_PUBLISH_HEADERS + "the_first_release_that_knows_a_keyword",
            CLIENT_SENDING + "nobody_publishes_into_the_batch_of_somebody_else",
            CLIENT_SENDING + "what_is_no_header",
            CLIENT_JETSTREAM + "publish_refused",
        ),
        promise(
            "Store all of ``messages`` in one atomic batch, or none.",
            CLIENT_PUBLISH_BATCH + "a_list_is_published_in_one_call",
            CLIENT_PUBLISH_BATCH + "a_list_under_way_when_the_link_ends",
        ),
        promise(
            "Raises, with nothing sent: BatchFullError: there are more than ``max_messages``. LocalProtocolError: "
            "there is no message.",
            CLIENT_PUBLISH_BATCH + "a_list_that_cannot_be_a_batch_is_refused_before_anything_is_sent",
        ),
        promise(
            "The ticket fails, and nothing is stored, with the error of the first that ``AtomicBatch.add`` refuses",
            CLIENT_PUBLISH_BATCH + "a_bad_message_in_a_list_stores_nothing",
            CLIENT_PUBLISH_BATCH + "what_is_no_message_stores_nothing",
        ),
        promise(
            "Read what ``wanted`` names once and in order.",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
            PAIR_CONSUMING_PAIR + "an_ordered_consumer_reads_each_message_once_and_in_order",
        ),
        promise(
            "Replace the stream's configuration by ``config``, whole: a field left out counts as a change.",
            CLIENT_JETSTREAM + "changing_a_stream_sends_all_of_it_back",
            DRIVERS_DURATIONS + "a_stream_that_is_read_and_written_back_stays_as_it_is",
        ),
        promise(
            "Reads that are never older than what was written and read.",
            "stateful/test_consistency_stateful.py::TestSessions",
        ),
    ),
    "jsproto:LocalProtocolError": (
        promise(
            "Nothing was written and no state has changed.",
            CLIENT_SESSION + "a_users_mistake_changes_nothing",
            CLIENT_FAST_TOTAL + "whatever_happens_in_whatever_order",
        ),
    ),
    "jsproto:PubAck": (
        promise(
            "The stream sequences of what it acknowledges, in order: of a message, or of an atomic batch.",
            GRAMMAR_ACKS + "pub_acks",
            DRIVERS_SHARING + "many_make_snapshots_and_batches",
        ),
    ),
    "jsproto:PullConsumer": (
        promise(
            "OutboundBufferLimitError: the outbox has no room. Nothing is changed.",
            "client/test_pull_refusals.py::test_a_fetch_that_cannot_be_sent_changes_nothing",
        ),
    ),
    "jsproto:PushConsumer": (
        promise(
            "That is done no later than ``DRAIN_TIMEOUT`` seconds from now. "
            "If it cannot be deleted, ConsumerNotDeleted is emitted.",
            CLIENT_PUSH + "draining_deletes_in_the_end_whoever_does_not_take_the_rest",
            CLIENT_PUSH + "unsubscribing_tells_why_a_consumer_cannot_be_deleted",
        ),
    ),
    "jsproto:Session": (
        promise(
            "Everything that may be written now, in order",
            CLIENT_SESSION + "runs_are_queued_as_publish_would",
            CLIENT_SESSION + "the_same_inputs_give_the_same_bytes",
        ),
        promise(
            "Early and repeated calls are harmless.",
            PAIR_WAKING + "early_and_repeated_calls_change_nothing",
            PAIR_WAKING + "late_calls_lose_nothing",
            PAIR_PAIR + "a_quiet_batch_is_pinged_at_times_that_floats_round",
        ),
        promise(
            "Raises, with nothing queued:",
            CLIENT_SESSION + "a_users_mistake_changes_nothing",
            CLIENT_SESSION + "the_outbound_buffer_is_bounded",
        ),
        promise(
            "Raises, with nothing written:",
            CLIENT_SENDING + "what_is_no_str_is_no_subject",
            CLIENT_SENDING + "what_is_no_header",
        ),
        promise(
            "Queue one small ``payload`` to each of these subjects, which came off the wire as they are: all, or none.",
            CLIENT_JSMSG + "many_at_once_in_one_write",
            CLIENT_JSMSG + "what_cannot_be_sent_is_not_settled",
        ),
    ),
    "jsproto:StreamConfig": (
        promise(
            'They never say ``"default"`` back',
            TRANSCRIPTS_SERVER_ROLE + "what_servers_make_of_a_configuration",
            CLIENT_JETSTREAM + "an_update_keeps_the_persist_mode",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "jsproto_io.sync:JetStream": ('rounded up to whole seconds, or ``"never"``',),
    "jsproto_io.sync:ConsistentSession": ("as long as no more than 1024 match",),
    "jsproto_io.sync:PullSubscription": ("0 for never.",),
    "pyspark_jetstream:DefaultSource": ("``servers`` and ``stream``, always",),
    "jsproto:APIError": ("``err_code`` (what exactly)",),
    "jsproto:ConsumerConfig": ('so here it is ``"explicit"``',),
    "jsproto:PipelinedPublisher": ("fails with why there never will be",),
    "jsproto:DirectBatch": ("fails with why the read broke off",),
    "jsproto:FastPublisher": ("fails with why the batch ended when there never will be",),
    "jsproto:OrderedConsumer": ("or nothing of it may be received",),
    "jsproto:PubAck": ("0 when nothing was stored",),
    "jsproto:PushConsumer": ("the consumer is deleted now or never",),
    "jsproto:Seconds": ('a negative number for "never"',),
    "jsproto:Session": ("None: not at all",),
    "jsproto:StreamConfig": ("take what ``stream_info`` says",),
    "jsproto:StreamInfo": ("negative for never",),
    "jsproto:TraceEvent": ("what it did with the message, in order",),
}
