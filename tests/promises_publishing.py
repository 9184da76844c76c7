"""What the README of the drivers guarantees of publishing, and the tests that try to break it."""

from __future__ import annotations

from typing import Final

from tests.promises import (
    CLIENT_FAST,
    DRIVERS_ATOMIC_FACADE,
    DRIVERS_BAD_INPUT,
    DRIVERS_CANCELLING,
    DRIVERS_FACADE,
    DRIVERS_OUTAGE,
    DRIVERS_SESSIONS,
    INTEGRATION_CLUSTER,
    README,
    Promise,
    promise,
)

CLIENT_ATOMIC: Final = "client/test_atomic.py::test_"
CLIENT_PUBLISH_BATCH: Final = "client/test_publish_batch.py::test_"
CLIENT_PUBLISHER: Final = "client/test_pipelined.py::test_"
CLIENT_RETRY: Final = "client/test_publish_retry.py::test_"
CLI_END_TO_END: Final = "cli/test_end_to_end.py::test_"
DRIVERS_IN_HAND: Final = "drivers/test_in_hand.py::test_"
DRIVERS_KEYWORDS: Final = "drivers/test_publish_keywords.py::test_"
INTEGRATION_PERSISTENCE: Final = "integration/test_persistence.py::test_"
INTEGRATION_PUBLISH_RELEASES: Final = "integration/test_publish_releases.py::test_"
PAIR_KEYWORDS: Final = "pair/test_publish_keywords_pair.py::test_"
SERVER_ATOMIC: Final = "server/test_atomic.py::test_"
TRANSCRIPTS_SERVER_ROLE: Final = "transcripts/test_server_role.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "Publishing": (
        promise(
            "Leaving a batch's `with` block without a commit abandons it, by an error or a cancelled task too. "
            "Nothing is ever committed silently.",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
            DRIVERS_FACADE + "leaving_the_block_without_commit_abandons",
            DRIVERS_FACADE + "leaving_the_block_by_an_error_commits_nothing",
            DRIVERS_CANCELLING + "a_batch_whose_task_is_cancelled_commits_nothing",
        ),
        promise(
            "An abandoned atomic batch stores nothing. A fast-ingest batch stores as it goes, and what it sent stays.",
            DRIVERS_ATOMIC_FACADE + "a_batch_without_commit_stores_nothing",
            DRIVERS_FACADE + "leaving_the_block_without_commit_abandons",
            DRIVERS_FACADE + "leaving_the_block_by_an_error_commits_nothing",
            DRIVERS_CANCELLING + "a_batch_whose_task_is_cancelled_commits_nothing",
        ),
        promise(
            "A `BatchError` carries the last acknowledged sequence. It says how much is stored, if the server "
            "had the last word.",
            INTEGRATION_CLUSTER + "gap_fail_tells_what_is_stored",
            CLIENT_FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
            CLIENT_FAST + "gap_fail_without_a_last_word",
            CLIENT_FAST + "a_commit_that_stored_fewer_fails_with_what_was_stored",
            DRIVERS_BAD_INPUT + "a_message_over_max_msg_size_ends_a_lossless_batch_with_what_was_stored",
        ),
        promise(
            "`js.publish_batch([(subject, payload), ...])` is an atomic batch in one call, and gives its one "
            "acknowledgement.",
            CLIENT_PUBLISH_BATCH + "a_list_is_published_in_one_call",
            CLIENT_PUBLISH_BATCH + "a_list_under_way_when_the_link_ends",
            DRIVERS_ATOMIC_FACADE + "an_iterable_that_cannot_be_a_batch_stores_nothing",
        ),
        promise(
            "Atomic batches have at most 1,000 messages (`BatchFullError`), fast-ingest batches have no end.",
            CLIENT_ATOMIC + "the_batch_has_a_size_and_the_marker_is_not_counted",
            DRIVERS_ATOMIC_FACADE + "a_thousand_messages",
            SERVER_ATOMIC + "the_largest_batch",
            DRIVERS_FACADE + "the_main_job",
            CLI_END_TO_END + "the_demo_starts_its_own_server_and_compares",
        ),
        promise(
            'With `persist_mode="async"` a stream acknowledges before it writes to disk, also where the server '
            "says `sync: always`.",
            INTEGRATION_PERSISTENCE + "asynchronous_persistence_overrides_sync_always",
        ),
        promise(
            "A crash of the server, the machine or the disk loses acknowledged messages, and their sequences are "
            "given out again.",
            INTEGRATION_PERSISTENCE + "a_server_that_is_killed_gives_sequences_out_again",
        ),
        promise(
            "The mode cannot be switched on or off later, and excludes replicas and atomic batches.",
            DRIVERS_SESSIONS + "asynchronous_persistence_is_warned_of",
            TRANSCRIPTS_SERVER_ROLE + "the_server_role_answers_as_the_reference[cons-persist_forms@2.15.1]",
        ),
    ),
    "Loading all of it": (
        promise(
            "`load` stores every row of an iterator, through lost links and restarts of the server:",
            README + "loading_all_of_it",
            README + "rows_are_loaded_through_restarts_of_the_server_on_threads",
            README + "rows_are_loaded_through_restarts_of_the_server_on_loops",
        ),
        promise(
            "`unacknowledged` has every message that the batch took and is not known to have stored, in order: those "
            "that it published, then those that it has not. What an iterator has not given yet is still in the "
            "iterator.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "each_row_is_published_or_handed_back_or_still_in_the_source",
        ),
        promise(
            "Of a list, a tuple or columns `unacknowledged` has all the rest.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "the_recovery_is_one_for_all_sources",
        ),
        promise(
            "It is the same after any error, a cancellation or Ctrl-C: `left = batch.unacknowledged`, and go on with "
            "the same iterator.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "ctrl_c_loses_nothing",
            DRIVERS_IN_HAND + "each_row_is_published_or_handed_back_or_still_in_the_source",
        ),
        promise(
            "Each row is stored at least once. What was under way may be stored a second time, by the next batch. The "
            "`msg_id` keeps the second copy out, if it comes within the stream's `duplicate_window` (two minutes, if "
            "it is not set).",
            README + "rows_are_loaded_through_restarts_of_the_server_on_threads",
            README + "rows_are_loaded_through_restarts_of_the_server_on_loops",
            DRIVERS_IN_HAND + "the_recovery_is_one_for_all_sources",
        ),
        promise(
            "After a LocalProtocolError, a cancellation or Ctrl-C the batch is open. `take_unpublished()` takes back "
            "what `publish_many` has not published, and the first of them is the refused one. `commit` fails as long "
            "as messages of an iterator are not taken back.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_batch",
            DRIVERS_IN_HAND + "ctrl_c_loses_nothing",
        ),
        promise(
            "An `async_publisher()` has the same two. `AsyncPublishError` of `publish_many` and `flush` holds the "
            "failed messages, all of them, and then they are not in `unacknowledged`.",
            DRIVERS_IN_HAND + "nothing_is_lost_between_the_caller_and_a_publisher_ahead",
            DRIVERS_IN_HAND + "flush_does_not_forget_what_was_taken",
            DRIVERS_OUTAGE + "many_messages",
            CLIENT_PUBLISHER + "failures_are_kept_however_many_they_are",
            CLIENT_PUBLISHER + "a_window_of_failures_stops_the_publisher_until_they_are_taken",
        ),
        promise(
            "An atomic batch stores nothing of what was given to it before it failed.",
            DRIVERS_ATOMIC_FACADE + "a_connection_that_is_lost_ends_the_batch",
            DRIVERS_IN_HAND + "a_batch_of_too_many_takes_one_more_than_it_can_hold",
        ),
    ),
    "Keywords of a publish": (
        promise(
            "The same keywords go with `publish`, `publish_async`, the publisher of `async_publisher()`, fast-ingest "
            "and atomic batches:",
            DRIVERS_KEYWORDS + "each_keyword_arrives",
            DRIVERS_KEYWORDS + "schedules_publish",
            DRIVERS_KEYWORDS + "increments_on_each_path",
            DRIVERS_KEYWORDS + "a_trace_of_a_message",
        ),
        promise(
            "the message is stored once within `duplicate_window`",
            DRIVERS_KEYWORDS + "counters",
            PAIR_KEYWORDS + "headers_made_alone_go_with_many_messages",
        ),
        promise("the message lives so long", PAIR_KEYWORDS + "what_a_stream_does_with_each"),
        promise("it replaces all of its subject", DRIVERS_KEYWORDS + "each_keyword_arrives"),
        promise("the same again and again", PAIR_KEYWORDS + "schedules", DRIVERS_KEYWORDS + "schedules_publish"),
        promise(
            "Impossible values raise `LocalProtocolError`, and servers that are too old `UnsupportedByServerError`, "
            "with nothing sent. What the stream does not allow is an `APIError` that names the option it lacks.",
            DRIVERS_KEYWORDS + "bad_values_are_refused_and_nothing_is_sent",
            DRIVERS_KEYWORDS + "schedules_that_cannot_be",
            INTEGRATION_PUBLISH_RELEASES + "what_a_release_does_not_know_is_refused_by_name",
            DRIVERS_KEYWORDS + "refusals_are_typed",
            PAIR_KEYWORDS + "what_a_stream_does_not_allow",
        ),
        promise(
            "In an atomic batch there is no `expected_last_msg_id`, and `expected_last_seq` goes with the first "
            "message. The server of the stream reports to `trace` only the message that commits.",
            DRIVERS_KEYWORDS + "of_an_atomic_batch_the_commit_is_reported",
            DRIVERS_KEYWORDS + "the_message_id_of_the_last_message",
            PAIR_KEYWORDS + "an_atomic_batch_cannot_look_at_message_ids",
        ),
        promise(
            "A message that no stream takes, as during an election, is sent again by `publish` and `publish_async`: up "
            "to two times, 0.25 seconds apart.",
            CLIENT_RETRY + "after_the_last_attempt_it_fails",
            CLIENT_RETRY + "one_of_many_is_sent_again_as_the_newest",
            DRIVERS_KEYWORDS + "a_message_is_sent_again_until_its_stream_is_there",
            INTEGRATION_CLUSTER + "a_message_is_sent_again_after_a_step_down",
        ),
        promise(
            "Those of `publish_many` are handed back at once.",
            CLIENT_RETRY + "messages_that_are_counted_are_handed_back_at_once",
        ),
        promise(
            "A `publish` that is cancelled may still be sent again. `retry_attempts=0` fails at once.",
            CLIENT_RETRY + "it_fails_at_once_without_attempts_or_time_for_one",
            CLIENT_RETRY + "a_message_that_no_stream_took_is_sent_again",
        ),
        promise(
            "Nothing is stored twice by it: the server says that nobody had it.",
            CLIENT_RETRY + "a_message_that_no_stream_took_is_sent_again",
            PAIR_KEYWORDS + "a_message_that_comes_before_its_stream",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {}
