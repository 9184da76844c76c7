"""What the READMEs guarantee, each sentence as its reader sees it, and the tests that try to break it.

``QUOTED`` has them by section: a sentence or a part of one, word for word, and pytest's node ids below ``tests/``.
``DESCRIBED`` has what sounds like one and only describes. ``test_promises`` checks that the words are there, that the
tests exist, and that no sentence with the words of a guarantee is in neither. No two sections of the READMEs have the
same title.

Here are the README of the repository, and that of the drivers up to reading. ``promises_consuming`` has consuming, the
core and the tests, ``promises_managing`` contexts and managing, ``promises_publishing`` publishing. Workers and nats-py
are in ``promises_workers``, Spark in ``promises_spark``, the server in memory in ``promises_testing``, docstrings in
``promises_docstrings``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Promise(NamedTuple):
    """A guarantee, word for word, and the tests that try to break it."""

    words: str
    tests: tuple[str, ...]


def promise(words: str, *tests: str) -> Promise:
    return Promise(words, tests)


ARCHITECTURE: Final = "test_architecture.py::test_"
CLIENT_AUTHENTICATION: Final = "client/test_authentication.py::test_"
CLIENT_CONSISTENCY: Final = "client/test_consistency.py::test_"
CLIENT_DIALLER: Final = "client/test_server_pool.py::test_"
CLIENT_DIRECT: Final = "client/test_direct.py::test_"
CLIENT_DIRECT_BELIEF: Final = "client/test_direct_belief.py::test_"
CLIENT_DIRECT_OUTAGES: Final = "client/test_direct_outages.py::test_"
CLIENT_FAST: Final = "client/test_fast.py::test_"
CLIENT_FAST_LOSSY: Final = "client/test_fast_lossy.py::test_"
CLIENT_LINKS: Final = "client/test_links.py::test_"
CLIENT_OPTIONS: Final = "client/test_options.py::test_"
CLIENT_PUBLISHER: Final = "client/test_pipelined.py::test_"
CLIENT_PUSH: Final = "client/test_push.py::test_"
CLIENT_SENDING: Final = "client/test_sending.py::test_"
CLIENT_KNOWN: Final = "client/test_known_streams.py::test_"
CLIENT_SESSION: Final = "client/test_session.py::test_"
CLIENT_SINGLE: Final = "client/test_single.py::test_"
CLIENT_SNAPSHOT: Final = "client/test_snapshot.py::test_"
CLIENT_SNAPSHOT_DOUBTS: Final = "client/test_snapshot_doubts.py::test_"
DRIVERS_ATOMIC_FACADE: Final = "drivers/test_atomic_facade.py::test_"
DRIVERS_BAD_INPUT: Final = "drivers/test_bad_input.py::test_"
DRIVERS_CANCELLING: Final = "drivers/test_cancelling.py::test_"
DRIVERS_COMMON: Final = "drivers/test_common.py::test_"
DRIVERS_CREDENTIALS: Final = "drivers/test_credentials.py::test_"
DRIVERS_FACADE: Final = "drivers/test_facade.py::test_"
DRIVERS_LINKS: Final = "drivers/test_links.py::test_"
DRIVERS_OUTAGE: Final = "drivers/test_outage.py::test_"
DRIVERS_PARITY: Final = "drivers/test_parity.py::test_"
DRIVERS_PULLING: Final = "drivers/test_pulling.py::test_"
DRIVERS_READING: Final = "drivers/test_reading.py::test_"
DRIVERS_RECONNECT: Final = "drivers/test_reconnect.py::test_"
DRIVERS_REPEATING: Final = "drivers/test_repeating.py::test_"
DRIVERS_SECURITY: Final = "drivers/test_security.py::test_"
DRIVERS_SESSIONS: Final = "drivers/test_sessions.py::test_"
DRIVERS_SHARING: Final = "drivers/test_sharing.py::test_"
DRIVERS_SUBSCRIBING: Final = "drivers/test_subscribing.py::test_"
DRIVERS_SYNC: Final = "drivers/test_sync.py::test_"
DRIVERS_TLS: Final = "drivers/test_tls.py::test_"
GRAMMAR_TOKEN: Final = "grammar/test_session_token.py::test_"
INTEGRATION_ATOMIC_RELEASES: Final = "integration/test_atomic_releases.py::test_"
INTEGRATION_AT_MOST_ONCE: Final = "integration/test_at_most_once.py::test_"
INTEGRATION_CLUSTER: Final = "integration/test_cluster.py::test_"
INTEGRATION_READING: Final = "integration/test_reading.py::test_"
READING_ATTACKED: Final = "integration/test_reading_attacked.py::test_"
INTEGRATION_STALE_READS: Final = "integration/test_stale_reads.py::test_"
INTEGRATION_SUBSCRIBE_RELEASES: Final = "integration/test_subscribe_releases.py::test_"
PAIR_CONSISTENCY: Final = "pair/test_consistency.py::test_"
PAIR_CONSUMERS_PAIR: Final = "pair/test_consumers_pair.py::test_"
PAIR_CONSUMING_PAIR: Final = "pair/test_consuming_pair.py::test_"
PAIR_DIRECT_PAIR: Final = "pair/test_direct_pair.py::test_"
PAIR_PAIR: Final = "pair/test_pair.py::test_"
README: Final = "test_readme.py::test_"
RULES_GAPS: Final = "rules/test_sequence_gaps.py::test_"
SERVER_DELIVER: Final = "server/test_consumer.py::test_"
SERVER_REPLICAS: Final = "server/test_replicas.py::test_"
SIMULATION_LINKS: Final = "simulation/test_links.py::test_"
SPARK_REPLICAS: Final = "spark/test_replicas.py::test_"
SPARK_SINKS: Final = "spark/test_sinks.py::test_"
SPARK_STREAMING: Final = "spark/test_streaming.py::test_"
SPARK_TASKS: Final = "spark/test_tasks.py::test_"
SPARK_WRITES: Final = "spark/test_writing_tasks.py::test_"
STATEFUL_OVERWRITING: Final = "stateful/test_overwriting_worlds.py::test_"
STATEFUL_WORLDS: Final = "stateful/test_worlds.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "jsproto": (
        promise(
            "It opens no socket, reads no clock, starts no thread and imports nothing but the standard library.",
            ARCHITECTURE + "the_core_imports_only_what_is_pure",
            ARCHITECTURE + "the_core_calls_no_impure_builtin",
            ARCHITECTURE + "the_core_asks_no_clock",
            ARCHITECTURE + "the_core_works_where_everything_impure_is_poisoned",
        ),
        promise(
            "every workflow behaves the same on all of them",
            DRIVERS_PARITY + "a_class_is_the_same",
            DRIVERS_PARITY + "the_modules_export_the_same",
            DRIVERS_FACADE + "the_main_job",
            DRIVERS_OUTAGE + "many_messages",
        ),
        promise(
            "The same inputs give the same bytes, so a failure is replayed in a test without a server.",
            CLIENT_SESSION + "the_same_inputs_give_the_same_bytes",
            PAIR_PAIR + "the_same_seed_gives_the_same_times_and_messages",
            PAIR_PAIR + "a_lost_link_is_dialled_again",
        ),
        promise(
            "**consistent sessions** that read their own writes and never read backwards, with any replica or mirror "
            "answering",
            "stateful/test_consistency_stateful.py::TestSessions",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            INTEGRATION_STALE_READS + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
            CLIENT_CONSISTENCY + "it_never_reads_backwards",
            CLIENT_CONSISTENCY + "a_mirror_that_holds_a_part_is_not_taken_for_the_stream",
        ),
        promise(
            "**Apache Spark** reads, streams and writes JetStream, with exact replay and sinks that store every "
            "row once",
            SPARK_STREAMING + "restarts_at_random_moments",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_WRITES + "twins_and_zombies_store_nothing_twice",
        ),
    ),
    "Two commands": (
        promise(
            "The library alone (`pip install .`) brings nothing along",
            ARCHITECTURE + "the_wheel",
        ),
    ),
    "Ten lines": (
        promise(
            "On asyncio and trio the verbs are the same, with `async` and `await`.",
            README + "the_programs_on_threads_and_loops",
            DRIVERS_PARITY + "contexts_and_iterators_match",
        ),
    ),
    "Guarantees": (
        promise(
            "leaving the `with` block without a commit commits nothing silently",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
            DRIVERS_FACADE + "leaving_the_block_without_commit_abandons",
            DRIVERS_FACADE + "leaving_the_block_by_an_error_commits_nothing",
            DRIVERS_CANCELLING + "a_batch_whose_task_is_cancelled_commits_nothing",
        ),
        promise(
            'with `gap="fail"` an error carries what was acknowledged, and `unacknowledged` has the rest',
            INTEGRATION_CLUSTER + "gap_fail_tells_what_is_stored",
            CLIENT_FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
            CLIENT_FAST + "gap_fail_without_a_last_word",
            CLIENT_FAST + "a_commit_that_stored_fewer_fails_with_what_was_stored",
            DRIVERS_BAD_INPUT + "a_message_over_max_msg_size_ends_a_lossless_batch_with_what_was_stored",
        ),
        promise(
            "what the answering replica or mirror holds: the last writes may be missing",
            PAIR_DIRECT_PAIR + "stale_reads_at_will",
            SERVER_REPLICAS + "every_copy_answers_and_chance_says_which",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
        promise(
            "what is in the stream all the time is not left out, or the read fails with a typed error",
            STATEFUL_OVERWRITING + "what_was_overwritten_and_what_overwrote_it_are_not_both_missing",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_DIRECT + "whatever_happens_on_the_way_nothing_comes_twice_and_nothing_is_left_out",
            PAIR_DIRECT_PAIR + "messages_that_get_lost_doubled_and_overtaken_are_never_missing_silently",
            INTEGRATION_READING + "a_stream_that_keeps_one_message_of_a_subject_is_read_whole_while_it_is_written",
        ),
        promise(
            "a message that was under way when the link was lost may be stored or not",
            DRIVERS_RECONNECT + "requests_under_way_fail_and_later_ones_are_answered",
            DRIVERS_OUTAGE + "publishes_that_are_waited_for",
            DRIVERS_OUTAGE + "many_messages",
            DRIVERS_OUTAGE + "promises",
            CLIENT_PUBLISHER + "every_message_ends_exactly_once",
        ),
        promise(
            "Only a `msg_id` makes it safe to publish it again",
            DRIVERS_REPEATING + "what_is_published_again_by_its_id_is_stored_once",
        ),
        promise(
            'With `gap="ok"` losses are events',
            CLIENT_FAST_LOSSY + "gap_ok_waits_for_a_link_no_longer_than_for_an_answer_or_the_server_knows_the_batch",
            DRIVERS_RECONNECT + "a_batch_that_may_lose_is_forgotten_by_a_restarted_server",
            DRIVERS_RECONNECT + "a_batch_that_may_lose_goes_on",
            INTEGRATION_CLUSTER + "gap_ok_goes_on_over_a_new_link_and_reports_what_is_missing",
            PAIR_PAIR + "refusals_that_a_lost_link_takes_with_it_end_no_batch",
            PAIR_PAIR + "a_batch_that_may_lose_does_not_wait_for_ever_for_a_server_that_is_gone",
        ),
        promise(
            "what was acknowledged, except right after a change of leaders or while the network is split",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            PAIR_DIRECT_PAIR + "stale_reads_at_will",
            PAIR_DIRECT_PAIR + "the_leader_has_what_was_acknowledged",
            CLIENT_CONSISTENCY + "an_old_leader_is_not_believed",
        ),
        promise(
            "a last message, a next message and the end of a batch are never older than what the session has written "
            "or read",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            "stateful/test_consistency_stateful.py::TestSessions",
            INTEGRATION_STALE_READS + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
            INTEGRATION_STALE_READS + "batches_of_a_session_do_not_end_early",
            CLIENT_CONSISTENCY + "the_next_message_may_have_been_replaced",
            READING_ATTACKED + "a_session_is_not_shown_what_it_has_replaced",
        ),
        promise(
            "every message at least once, until it is acknowledged or `max_deliver` is reached",
            "stateful/test_consuming_stateful.py::TestFetchingFaults",
            "stateful/test_consuming_stateful.py::TestStreamingFaults",
            PAIR_CONSUMING_PAIR + "fetching_and_acknowledging_loses_nothing",
            PAIR_CONSUMERS_PAIR + "every_message_arrives_until_it_is_acknowledged",
            INTEGRATION_CLUSTER + "pulling_goes_on_under_new_leaders",
            SERVER_DELIVER + "backoff_and_the_last_delivery",
        ),
        promise(
            "every message once and in order, as long as the stream holds it. What limits took is told",
            "stateful/test_consuming_stateful.py::TestOrderedFaults",
            "stateful/test_ordered_stateful.py::TestOrderedReading",
            PAIR_CONSUMING_PAIR + "an_ordered_consumer_reads_each_message_once_and_in_order",
            INTEGRATION_SUBSCRIBE_RELEASES + "an_ordered_subscription_through_leader_changes_and_reconnects",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_survives_what_others_do_to_its_consumer",
            DRIVERS_SUBSCRIBING + "an_ordered_subscription_tells_what_was_dropped_before_its_turn",
        ),
        promise(
            "every message at most once, in order, until a server is killed",
            CLIENT_PUSH + "nobody_in_a_queue_group_looks_for_gaps",
            INTEGRATION_AT_MOST_ONCE + "what_comes_again_without_acknowledgements_is_told",
            CLIENT_PUSH + "gaps_and_restarts_are_told",
            RULES_GAPS + "every_lost_delivery_is_counted_once_what_follows_it_arrives",
        ),
        promise(
            "a caller's mistake raises `LocalProtocolError`, with nothing written",
            CLIENT_SESSION + "a_users_mistake_changes_nothing",
            CLIENT_SENDING + "what_is_no_str_is_no_subject",
            CLIENT_SENDING + "what_is_no_message",
            DRIVERS_BAD_INPUT + "what_cannot_be_sent_spends_no_sequence",
            DRIVERS_BAD_INPUT + "what_is_no_str_is_no_subject",
            DRIVERS_FACADE + "a_bad_message_is_refused_and_changes_nothing",
        ),
        promise(
            "the same rows, except those deleted meanwhile",
            SPARK_STREAMING + "restarts_at_random_moments",
            SPARK_TASKS + "a_read_that_breaks_off_goes_on",
            SPARK_TASKS + "a_micro_batch_is_cut_as_it_was",
            SPARK_REPLICAS + "a_page_that_a_replica_ends_early_is_not_the_end",
        ),
        promise(
            "every row once, however late a task is repeated",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_WRITES + "twins_and_zombies_store_nothing_twice",
            SPARK_WRITES + "markers_that_have_gone",
            SPARK_WRITES + "a_row_is_counted_over_batches",
        ),
        promise(
            "all messages are stored or none",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
            DRIVERS_ATOMIC_FACADE + "an_iterable_that_cannot_be_a_batch_stores_nothing",
            "stateful/test_pair_stateful.py::TestAtomicFaults",
        ),
    ),
    "The drivers: `jsproto_io`": (
        promise(
            "Verbs, parameters and errors are the same, with `async` and `await` on event loops.",
            README + "the_programs_on_threads_and_loops",
            DRIVERS_PARITY + "contexts_and_iterators_match",
        ),
    ),
    "Threads, tasks and processes": (
        promise(
            "A connection, and everything made from it, may be used by many threads at once",
            DRIVERS_SYNC + "threads_share_a_connection",
            DRIVERS_SYNC + "threads_share_a_batch",
            DRIVERS_SYNC + "threads_share_a_reader",
            DRIVERS_SYNC + "threads_may_close_at_once",
            DRIVERS_SHARING + "many_publish_by_one_publisher",
            DRIVERS_PULLING + "a_pool_of_workers_shares_a_stream_of_messages",
            INTEGRATION_ATOMIC_RELEASES + "many_threads_commit_batches_of_their_own",
        ),
        promise(
            "Ctrl-C during a wait leaves the connection usable. An `ack` or `unsubscribe` in your `finally` "
            "block still works.",
            DRIVERS_SYNC + "ctrl_c_during_a_wait_changes_nothing",
            DRIVERS_SYNC + "ctrl_c_strikes_when_the_state_is_whole",
            DRIVERS_SYNC + "what_a_signal_s_handler_raises_while_bytes_leave_loses_none",
            DRIVERS_SYNC + "what_a_signal_s_handler_raises_while_bytes_come_loses_none",
            DRIVERS_SYNC + "ctrl_c_ends_a_wait_that_was_the_leader_until_the_link_was_lost",
        ),
        promise(
            "In other verbs Ctrl-C may interrupt a change of state. Then the connection ends with an error.",
            DRIVERS_SYNC + "ctrl_c_inside_a_change_of_state_ends_the_connection",
            DRIVERS_SYNC + "a_handler_that_raises_again_and_again_ends_the_connection",
            DRIVERS_SYNC + "a_handler_that_raises_while_a_sleep_is_prepared_ends_the_connection",
        ),
    ),
    "Connecting": (
        promise(
            "A connection outlives its links.",
            DRIVERS_RECONNECT + "subscriptions_live_on",
            DRIVERS_OUTAGE + "promises",
            DRIVERS_RECONNECT + "a_dead_link_is_replaced",
        ),
        promise(
            "It makes 60 attempts in a row at each server. It pauses for 2 seconds when all servers have been tried, "
            "or when they keep closing the link.",
            CLIENT_DIALLER + "by_default_sixty_attempts_and_two_seconds",
            CLIENT_DIALLER + "attempts_in_a_row_are_limited",
            CLIENT_DIALLER + "links_that_do_not_last_are_followed_by_pauses",
            CLIENT_SESSION + "dialling_again_pauses_and_ends",
        ),
        promise(
            "0 attempts mean none, -1 means for ever.",
            CLIENT_DIALLER + "attempts_in_a_row_are_limited",
            CLIENT_DIALLER + "for_ever",
        ),
        promise(
            "Subscriptions go on, and so do readers of Direct Get, after the last message they got.",
            DRIVERS_RECONNECT + "subscriptions_live_on",
            DRIVERS_SUBSCRIBING + "subscriptions_go_on_after_a_lost_link",
            INTEGRATION_READING + "a_server_that_dies_in_the_middle_of_a_page",
        ),
        promise(
            "Requests and publishes that were under way end with `ConnectionLostError` or `TimeoutError`. The "
            "server may have stored them or not.",
            DRIVERS_RECONNECT + "requests_under_way_fail_and_later_ones_are_answered",
            DRIVERS_OUTAGE + "publishes_that_are_waited_for",
            DRIVERS_OUTAGE + "many_messages",
            DRIVERS_OUTAGE + "promises",
            CLIENT_PUBLISHER + "every_message_ends_exactly_once",
        ),
        promise(
            "Only a `msg_id` makes it safe to publish them again, within the stream's `duplicate_window`.",
            DRIVERS_REPEATING + "what_is_published_again_by_its_id_is_stored_once",
        ),
        promise(
            'Atomic batches and lossless fast-ingest batches (`gap="fail"`) end with `BatchLostError`',
            DRIVERS_ATOMIC_FACADE + "a_connection_that_is_lost_ends_the_batch",
            DRIVERS_OUTAGE + "atomic_batches",
            DRIVERS_RECONNECT + "a_lossless_batch_ends_with_the_link_and_is_published_again",
            "stateful/test_pair_stateful.py::TestAtomicFaults",
        ),
        promise(
            "Another batch begins with `batch.unacknowledged`, which a fast-ingest batch has: see [Loading all of "
            "it](#loading-all-of-it).",
            DRIVERS_RECONNECT + "a_lossless_batch_ends_with_the_link_and_is_published_again",
            CLIENT_FAST + "what_is_not_known_to_be_stored_is_kept_for_another_try",
            "stateful/test_pair_stateful.py::TestFastFaults",
        ),
        promise(
            'With `gap="ok"` a fast-ingest batch asks the server for its position and goes on. That takes a new '
            "link within its `ack_timeout`, and before the server has forgotten the batch, 10 seconds after its "
            "last message. Otherwise it ends with `BatchLostError`, too.",
            CLIENT_FAST_LOSSY + "gap_ok_waits_for_a_link_no_longer_than_for_an_answer_or_the_server_knows_the_batch",
            DRIVERS_RECONNECT + "a_batch_that_may_lose_is_forgotten_by_a_restarted_server",
            DRIVERS_RECONNECT + "a_batch_that_may_lose_goes_on",
            INTEGRATION_CLUSTER + "gap_ok_goes_on_over_a_new_link_and_reports_what_is_missing",
            PAIR_PAIR + "refusals_that_a_lost_link_takes_with_it_end_no_batch",
            PAIR_PAIR + "a_batch_that_may_lose_does_not_wait_for_ever_for_a_server_that_is_gone",
        ),
        promise(
            "Servers that a cluster announces are dialled after the given ones, until it announces them no more.",
            CLIENT_DIALLER + "what_is_no_longer_named_is_forgotten_but_not_what_was_given_or_is_in_use",
            CLIENT_DIALLER + "whoever_lives_is_dialled_before_it_gives_up",
            CLIENT_DIALLER + "rolling_restarts",
            "integration/test_members.py::test_a_connection_outlives_all_the_servers_it_was_given",
        ),
        promise(
            "Plain publishes are kept and leave with the next link. Beyond half of `pending_size` bytes "
            "`publish` waits for the link.",
            DRIVERS_OUTAGE + "a_plain_publish_is_kept_while_there_is_room_and_then_waits",
            DRIVERS_OUTAGE + "a_plain_publish_that_waits_is_told_of_the_end",
            DRIVERS_RECONNECT + "what_is_published_meanwhile_arrives",
            DRIVERS_RECONNECT + "a_server_that_takes_less_gets_what_it_takes",
        ),
        promise(
            "Files are read again, and the server's nonce is signed, for each link.",
            DRIVERS_CREDENTIALS + "files_are_read_for_each_link",
            DRIVERS_SECURITY + "a_new_link_signs_again",
            CLIENT_AUTHENTICATION + "each_link_signs_its_own_nonce",
        ),
        promise(
            "A server that requires TLS gets it. Its certificate must be one that the system trusts, or that "
            "your `tls=ssl_context` trusts.",
            DRIVERS_TLS + "a_server_that_is_not_who_it_should_be",
            DRIVERS_SECURITY + "jetstream_inside_tls",
            DRIVERS_SECURITY + "tls_that_will_not_do",
            DRIVERS_TLS + "each_link_has_its_own_tls",
        ),
        promise(
            "`tls=True` and the scheme `tls://` refuse a link without TLS.",
            CLIENT_AUTHENTICATION + "one_side_requires_what_the_other_has_not",
            DRIVERS_SECURITY + "tls_that_will_not_do",
            CLIENT_OPTIONS + "no_tls_where_the_url_asks_for_it",
        ),
        promise(
            "`True` requires TLS, `False` forbids it",
            CLIENT_AUTHENTICATION + "one_side_requires_what_the_other_has_not",
            DRIVERS_SECURITY + "tls_that_will_not_do",
            CLIENT_OPTIONS + "no_tls_where_the_url_asks_for_it",
        ),
        promise(
            "Names that came before TLS had begun are ignored",
            CLIENT_AUTHENTICATION + "what_servers_are_named_before_tls_does_not_count",
            CLIENT_AUTHENTICATION + "what_is_smuggled_in_before_tls_does_not_count",
        ),
        promise(
            "A server before 2.12 repeats them only when the cluster changes",
            CLIENT_AUTHENTICATION + "an_old_server_says_nothing_inside_tls",
        ),
        promise(
            "Failures are an `AuthorizationError`, a `TLSError` or a `CredentialsError`.",
            DRIVERS_SECURITY + "strangers_are_refused",
            DRIVERS_SECURITY + "what_cannot_be_read_is_told_at_once",
            DRIVERS_SECURITY + "tls_that_will_not_do",
        ),
        promise(
            "A server that has refused the credentials twice is not asked a third time",
            CLIENT_AUTHENTICATION + "who_is_refused_twice_does_not_ask_a_third_time",
            CLIENT_AUTHENTICATION + "each_server_may_refuse_once",
            DRIVERS_SECURITY + "who_is_refused_twice_gives_up",
        ),
        promise(
            "No error, repr or log shows a secret",
            CLIENT_OPTIONS + "secrets_show_nowhere",
            CLIENT_OPTIONS + "no_traceback_shows_the_secret_of_a_url",
            DRIVERS_CREDENTIALS + "secrets_show_nowhere",
            DRIVERS_CREDENTIALS + "what_will_not_do_is_told_in_one_line_without_secrets",
            CLIENT_AUTHENTICATION + "a_callback_that_fails_ends_the_link_and_is_not_quoted",
            DRIVERS_COMMON + "events_are_logged_without_what_is_secret",
        ),
        promise(
            "with `tls=True` none is sent in the open",
            CLIENT_AUTHENTICATION + "tls_comes_before_connect",
            CLIENT_AUTHENTICATION + "one_side_requires_what_the_other_has_not",
            CLIENT_AUTHENTICATION + "what_the_server_is_said_to_be_before_tls_is_not_in_force_afterwards",
        ),
        promise(
            "`connect` waits for a server, with the same attempts and pauses",
            DRIVERS_LINKS + "connect_waits_for_a_server",
            DRIVERS_LINKS + "connect_waits_no_longer_than_it_may",
            CLIENT_DIALLER + "the_first_connection_is_tried_again",
            SIMULATION_LINKS + "connect_waits_until_the_server_is_there",
        ),
        promise(
            "to the next server, or to the same if there is one alone",
            DRIVERS_LINKS + "a_link_is_left",
            DRIVERS_LINKS + "requests_under_way_fail_when_the_link_is_left",
        ),
        promise(
            "If there is another server, the connection moves there at a moment when no request and no batch is under "
            "way. While there always is one, it stays until the server ends it.",
            CLIENT_LINKS + "answers_are_waited_for",
            CLIENT_LINKS + "a_batch_that_is_given_up_is_noticed",
            CLIENT_LINKS + "acknowledgements_are_waited_for",
            DRIVERS_LINKS + "a_server_that_goes_is_left",
            DRIVERS_LINKS + "the_only_server_is_not_left",
            SIMULATION_LINKS + "the_link_moves_between_two_publishes",
        ),
        promise(
            "So do credentials that were refused twice by one server.",
            CLIENT_LINKS + "the_first_connection_ends_when_the_credentials_are_refused_twice",
            DRIVERS_LINKS + "credentials_that_are_refused_end_the_wait",
        ),
    ),
    "Reading": (
        promise(
            '`"direct"` is quick: a replica answers, or a mirror with `mirror_direct`, and the last writes may '
            'be missing. `"leader"` asks the stream\'s leader.',
            PAIR_DIRECT_PAIR + "stale_reads_at_will",
            SERVER_REPLICAS + "every_copy_answers_and_chance_says_which",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
        promise(
            "Without a `level`, the leader of a stream that allows no Direct Get is asked.",
            CLIENT_SINGLE + "the_leader_is_asked_where_nobody_answers_a_direct_get",
        ),
        promise(
            "`get_batch`, `get_last_msgs_for` and `snapshot` read the stream itself. Up to where they end they "
            "leave nothing out that is there all the time, or fail with a typed error.",
            STATEFUL_OVERWRITING + "what_was_overwritten_and_what_overwrote_it_are_not_both_missing",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_DIRECT + "whatever_happens_on_the_way_nothing_comes_twice_and_nothing_is_left_out",
            PAIR_DIRECT_PAIR + "messages_that_get_lost_doubled_and_overtaken_are_never_missing_silently",
            INTEGRATION_READING + "a_stream_that_keeps_one_message_of_a_subject_is_read_whole_while_it_is_written",
        ),
        promise(
            "Its answers are dropped and asked for again. `MirrorAnswerError` says that only mirrors answer.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_CONSISTENCY + "only_mirrors_answer",
        ),
        promise(
            "It asks for the next page only as messages are taken, and goes on after the last message when a "
            "server dies.",
            CLIENT_DIRECT + "the_memory_is_bounded_however_few_messages_a_page_has",
            "client/test_direct_outages.py::test_a_new_link_goes_on_behind_the_last_message",
            "client/test_direct_outages.py::test_a_new_link_while_the_reader_is_slow",
            INTEGRATION_READING + "a_server_that_dies_in_the_middle_of_a_page",
            CLIENT_DIRECT_OUTAGES + "what_is_buffered_is_taken_while_there_is_no_link",
            READING_ATTACKED + "a_stream_whose_only_server_dies_and_comes_back",
        ),
        promise(
            'What was deleted inside the range is passed over. `if_dropped="error"` reports it at the beginning '
            "of the range.",
            INTEGRATION_READING + "pages_of_any_size_over_deleted_messages",
            PAIR_DIRECT_PAIR + "reading_page_by_page_over_deleted_messages",
            CLIENT_DIRECT_BELIEF + "what_was_dropped_is_told",
            DRIVERS_READING + "what_limits_dropped",
        ),
        promise(
            "`StreamRecreatedError` reports a stream that was deleted and created again between two pages.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_DIRECT_OUTAGES + "a_mirror_that_was_made_anew_since_the_leader_was_asked",
            READING_ATTACKED + "a_mirror_whose_limit_moves_is_the_same_mirror",
        ),
        promise(
            "`StreamRolledBackError` reports a stream that came back shorter between two pages than what was given "
            "out: it was restored, or its server lost messages in a crash. An end before that is never taken for the "
            "end.",
            PAIR_CONSISTENCY + "a_batch_ends_where_a_server_lost_what_it_gave",
            CLIENT_DIRECT_BELIEF + "an_end_before_what_was_given_out_is_none",
            CLIENT_DIRECT_BELIEF + "the_leader_says_twice_that_the_stream_is_shorter",
            CLIENT_DIRECT_BELIEF + "another_message_under_the_same_sequence",
        ),
        promise(
            "A mirror that was created again holds the same messages, so there it may go unnoticed.",
            CLIENT_DIRECT_OUTAGES + "a_mirror_is_older_than_what_it_holds",
        ),
        promise(
            "A rollup of the whole stream is followed during the read. It is a `SnapshotError` with an earlier "
            "`at`, as long as it is the stream's first message.",
            CLIENT_SNAPSHOT_DOUBTS + "a_rollup_of_all_is_followed_while_it_is_read",
            CLIENT_SNAPSHOT_DOUBTS + "a_rollup_of_all_fails_a_snapshot_of_before",
            READING_ATTACKED + "a_rollup_of_all_is_no_snapshot_of_before",
        ),
        promise(
            "Servers do not index a subject with the byte 0x7f, so a snapshot leaves it out.",
            READING_ATTACKED + "a_subject_that_servers_do_not_index",
        ),
        promise(
            "It is exactly the state at its `up_to_seq`, while others overwrite. What they write is read after "
            "it until nothing is missing.",
            CLIENT_SNAPSHOT + "it_is_the_state_at_its_sequence",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            INTEGRATION_READING + "a_snapshot_while_somebody_writes_is_the_state_at_its_sequence",
            INTEGRATION_READING + "a_stream_that_keeps_one_message_of_a_subject_is_read_whole_while_it_is_written",
            PAIR_DIRECT_PAIR + "a_snapshot_from_copies_that_lag_is_the_leaders_state",
            STATEFUL_OVERWRITING + "what_was_overwritten_and_what_overwrote_it_are_not_both_missing",
            CLIENT_SNAPSHOT_DOUBTS + "two_pages_with_a_deletion_between_them_do_not_end_the_catching_up",
        ),
        promise(
            "Subjects outside UTF-8 are a `SnapshotError` where several answers are needed: servers list them "
            "under another name.",
            CLIENT_SNAPSHOT_DOUBTS + "a_subject_that_is_not_utf_8_cannot_be_asked_for_by_name",
        ),
        promise(
            "`get_last_msgs_for` with `up_to_seq` or `up_to_time` shows what the answering replica has of that "
            "moment. A `snapshot` checks it.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_SNAPSHOT + "a_replica_that_has_not_come_so_far",
        ),
        promise(
            "With `at` it is exactly the state at an earlier sequence or time, or a `SnapshotError`.",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_SNAPSHOT + "at_a_sequence",
            CLIENT_SNAPSHOT + "at_a_time",
            CLIENT_SNAPSHOT_DOUBTS + "a_replica_in_memory_does_not_say_how_far_it_has_come",
        ),
        promise(
            "all subjects, however many, at one sequence",
            CLIENT_SNAPSHOT + "more_subjects_than_a_server_answers_for",
            DRIVERS_READING + "more_subjects_than_a_server_answers_for",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
        promise(
            "Purges, deletions and what limits drop have no sequence. Of a subject that loses a message to them during "
            "the read, that message, an older one, or none may show. What they took before is left out.",
            CLIENT_SNAPSHOT + "a_deleted_message_uncovers_an_older_one",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
    ),
    "Reading what was written": (
        promise(
            "all that was acknowledged, except right after a change of leaders or while the network is split: an "
            "old leader may still answer",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            PAIR_DIRECT_PAIR + "stale_reads_at_will",
            PAIR_DIRECT_PAIR + "the_leader_has_what_was_acknowledged",
            CLIENT_CONSISTENCY + "an_old_leader_is_not_believed",
        ),
        promise(
            "what the answering server holds: what was just written may be missing, a second read may be older "
            "than the first, and a mirror may hold a part of the stream",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            SERVER_REPLICAS + "a_copy_is_what_its_origin_was",
        ),
        promise(
            "what the stream held while it was read, in order, perhaps without what was just written",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
        ),
        promise(
            "what the mirror holds: it may lag by any distance, and hold a part",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            CLIENT_CONSISTENCY + "the_end_of_a_mirror_proves_nothing",
        ),
        promise(
            "a last message, a next message and the end of a batch are never older than what the session has written "
            "or read",
            STATEFUL_WORLDS + "an_answer_is_right_or_a_typed_error",
            "stateful/test_consistency_stateful.py::TestSessions",
            INTEGRATION_STALE_READS + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
            INTEGRATION_STALE_READS + "batches_of_a_session_do_not_end_early",
            CLIENT_CONSISTENCY + "the_next_message_may_have_been_replaced",
            READING_ATTACKED + "a_session_is_not_shown_what_it_has_replaced",
        ),
        promise(
            "An answer that may be too old is asked for again, then asked of the leader. If no answer is recent "
            "enough in time, the read fails with `StaleReadError`. The error has the wanted sequence and the "
            "found one.",
            CLIENT_CONSISTENCY + "a_replica_that_stays_behind_makes_the_leader_be_asked",
            CLIENT_CONSISTENCY + "who_is_silent_is_passed_over",
            CLIENT_CONSISTENCY + "nobody_answers_at_all",
            CLIENT_CONSISTENCY + "an_old_leader_is_not_believed",
        ),
        promise(
            "A token from outside, or a session over a new link, is proved before the first read of a stream: the "
            "leader shows that the message read last is still there. That costs one or two questions.",
            "stateful/test_rolled_back_stateful.py::TestRolledBack",
            CLIENT_KNOWN + "a_token_from_outside_is_proved_once",
            CLIENT_KNOWN + "a_new_link_is_a_boundary",
            PAIR_CONSISTENCY + "a_restart_that_loses_nothing_costs_a_look",
        ),
        promise(
            "`StreamRolledBackError` reports a stream that came back shorter, also one that has grown again. "
            "`StreamRecreatedError` reports one that was deleted and created again. `session.forget(stream)` goes on "
            "with what there is.",
            "stateful/test_rolled_back_stateful.py::TestRolledBack",
            CLIENT_KNOWN + "a_stream_that_came_back_shorter",
            CLIENT_KNOWN + "a_stream_that_was_made_anew",
            PAIR_CONSISTENCY + "a_server_that_lost_what_was_read",
            DRIVERS_SESSIONS + "a_token_of_a_store_that_was_restored",
            "integration/test_persistence.py::test_a_session_notices_what_a_killed_server_lost",
        ),
        promise(
            "The leader has to say so twice, 4 s apart. A read with a shorter timeout fails with `StaleReadError` "
            "until then.",
            CLIENT_KNOWN + "one_old_answer_never_decides",
            CLIENT_KNOWN + "a_read_that_has_no_time_for_two_answers",
            CLIENT_KNOWN + "the_doubt_goes_over_from_one_read_to_the_next",
        ),
        promise(
            "What was written, and never read, has no witness. It is missed only while the stream ends before it.",
            CLIENT_KNOWN + "a_leader_before_what_was_written",
            GRAMMAR_TOKEN + "what_was_read_has_a_witness",
        ),
        promise(
            "That a message is missing is believed only of the leader. At level `direct` a mirror's answer is "
            "not believed.",
            CLIENT_CONSISTENCY + "what_is_missing_may_just_not_be_there_yet",
            CLIENT_CONSISTENCY + "the_leader_says_what_is_missing_for_good",
            CLIENT_CONSISTENCY + "a_mirror_that_holds_a_part_is_not_taken_for_the_stream",
        ),
        promise(
            "Outside this guarantee are the newest value of any writer (linearizable reads do not exist in "
            "JetStream), purges and deletions, which have no sequence.",
            DRIVERS_SESSIONS + "what_no_server_promises_is_not_pretended",
            CLIENT_CONSISTENCY + "the_end_was_deleted",
        ),
        promise(
            "A message that is read by its sequence, or inside a batch, may be one that a later write has replaced.",
            READING_ATTACKED + "a_session_is_not_shown_what_it_has_replaced",
            CLIENT_CONSISTENCY + "a_stored_message_stays_what_it_is",
        ),
        promise(
            "It will see all messages, but perhaps not at once.",
            PAIR_CONSISTENCY + "a_fresh_consumer_of_a_copy_that_lags_sees_all_messages_but_not_at_once",
        ),
        promise(
            "never an older price, from any server",
            "stateful/test_consistency_stateful.py::TestSessions",
            INTEGRATION_STALE_READS + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
        ),
        promise(
            "another process goes on from there",
            PAIR_CONSISTENCY + "a_token_goes_to_another_client_of_a_mirror",
            GRAMMAR_TOKEN + "it_survives_its_bytes",
        ),
        promise(
            "does not end before sequence 1",
            INTEGRATION_STALE_READS + "batches_of_a_session_do_not_end_early",
            CLIENT_CONSISTENCY + "a_batch_does_not_end_before_the_token",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Guarantees": ("quotes the guarantees of these pages",),
    "Reading": ("The same holds for a stream that keeps more messages",),
    "Stability": ("A release that renames something keeps no alias for the old name.",),
    "Which verb": ("`get_data` (payload only)",),
}
