"""What the READMEs guarantee, continued: Spark and the programs on it. See ``promises``."""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

INTEGRATION_ATOMIC_RELEASES: Final = "integration/test_atomic_releases.py::test_"
SPARK_OPTIONS: Final = "spark/test_options.py::test_"
SPARK_MARKERS: Final = "spark/test_markers.py::test_"
SPARK_ORIGINS: Final = "spark/test_origins.py::test_"
SPARK_PIPELINES: Final = "spark/test_pipelines.py::test_"
SPARK_PIPELINES_PARTS: Final = "spark/test_pipelines_parts.py::test_"
SPARK_POSITIONS: Final = "spark/test_positions.py::test_"
SPARK_READING: Final = "spark/test_reading.py::test_"
SPARK_REPETITION: Final = "spark/test_repetition.py::test_"
SPARK_REPLICAS: Final = "spark/test_replicas.py::test_"
SPARK_SECURITY: Final = "spark/test_security.py::test_"
SPARK_SINKS: Final = "spark/test_sinks.py::test_"
SPARK_SOURCING: Final = "spark/test_sourcing.py::test_"
SPARK_SOURCING_QUERIES: Final = "spark/test_sourcing_queries.py::test_"
SPARK_STREAMING: Final = "spark/test_streaming.py::test_"
SPARK_TASKS: Final = "spark/test_tasks.py::test_"
SPARK_VIEWS: Final = "spark/test_views.py::test_"
SPARK_WRITES: Final = "spark/test_writing_tasks.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "Rows of a stream": (
        promise(
            "An offset has the sequence to read next, so **a range that is read again gives the same rows**, but "
            "those deleted meanwhile. That holds when a task, the query or the cluster was started again. The first "
            "micro-batch begins again where it began, whatever the starting offsets mean by then.",
            SPARK_STREAMING + "the_first_micro_batch_comes_again",
            SPARK_POSITIONS + "the_first_micro_batch_comes_again",
            SPARK_POSITIONS + "a_first_micro_batch_without_messages_comes_again",
            SPARK_POSITIONS + "several_streams_begin_where_they_began",
            SPARK_POSITIONS + "a_stream_that_is_new_in_a_query_begins_where_it_began",
            SPARK_STREAMING + "restarts_at_random_moments",
            SPARK_TASKS + "a_read_that_breaks_off_goes_on",
            SPARK_TASKS + "a_micro_batch_is_cut_as_it_was",
            SPARK_REPLICAS + "a_page_that_a_replica_ends_early_is_not_the_end",
        ),
        promise(
            "Any replica is read from. What a lagging replica does not have yet comes from the stream's leader.",
            SPARK_REPLICAS + "a_page_that_a_replica_ends_early_is_not_the_end",
            SPARK_REPLICAS + "a_follower_stands_still",
            SPARK_REPLICAS + "a_time_that_a_replica_does_not_have_yet",
            SPARK_TASKS + "a_replica_that_lags_all_the_time",
            SPARK_TASKS + "a_replica_that_lags_while_messages_go",
        ),
        promise(
            "What the stream has dropped before it was read ends the query with `DataLossError`. So does a "
            "stream that was deleted and created again under its name. `failOnDataLoss=false` goes on with what "
            "is there.",
            SPARK_STREAMING + "a_purge_between_two_runs",
            SPARK_STREAMING + "a_stream_made_anew",
            SPARK_TASKS + "a_purge_after_the_plan",
            SPARK_TASKS + "a_stream_made_anew_after_the_plan",
            SPARK_READING + "what_was_wanted_has_gone",
        ),
        promise(
            'A stream that came back shorter also ends it: a restored backup, or a crash with `persist_mode="async"`. '
            "An offset knows when its message was stored, so that is noticed when the sequences are there again, "
            "unless they were dropped again. `failOnDataLoss=false` goes on with what was stored since, and takes no "
            "row twice.",
            SPARK_POSITIONS + "a_stream_comes_back_shorter_between_two_micro_batches",
            SPARK_POSITIONS + "a_stream_comes_back_shorter_before_a_task_looks",
            SPARK_POSITIONS + "a_stream_comes_back_shorter_under_a_task",
            SPARK_POSITIONS + "a_stream_comes_back_shorter_under_a_batch_read",
            SPARK_POSITIONS + "a_stream_is_restored_from_a_backup",
            SPARK_POSITIONS + "a_run_with_an_end_loses_nothing_new",
            SPARK_POSITIONS + "any_history",
        ),
        promise(
            "One answer proves no loss, because a leader that was replaced may tell its past. So these errors take "
            "four seconds.",
            SPARK_POSITIONS + "an_old_answer_is_no_loss",
            SPARK_POSITIONS + "a_second_answer_comes_after_an_election",
        ),
        promise(
            "A stream that only `max_msgs_per_subject` or TTLs limit, such as a bucket, may lose its front that way.",
            SPARK_POSITIONS + "messages_that_go_one_by_one_are_no_loss",
        ),
        promise(
            "A user without the right to `$JS.API.STREAM.MSG.GET` gets a warning instead of the proof. So do "
            "checkpoints of releases whose offsets do not know when their message was stored, until the next "
            "micro-batch.",
            SPARK_POSITIONS + "a_user_who_may_not_ask_the_leader",
            SPARK_POSITIONS + "offsets_without_a_witness",
        ),
        promise(
            "Single messages that were deleted, or replaced by `max_msgs_per_subject`, leave no trace.",
            SPARK_READING + "holes",
            SPARK_TASKS + "a_replica_that_lags_while_messages_go",
        ),
        promise(
            "A query whose `subject` matches nothing new makes no micro-batches. It moves its offset once a "
            "minute, so that retention does not overtake it.",
            SPARK_STREAMING + "an_idle_query_waits_for_what_matches",
            SPARK_TASKS + "an_offset_stands_still_for_a_while",
        ),
        promise(
            "A schema of your own with some of these columns (and `timestamp_ns`) reads just them.",
            SPARK_READING + "columns",
            SPARK_OPTIONS + "columns_that_are_read",
        ),
    ),
    "Emptying a work queue": (
        promise(
            "A message schedule is no row.",
            SPARK_SOURCING + "a_schedule_is_no_row",
        ),
        promise(
            "A query without a checkpoint makes it if it is not there, without payloads (`headers_only`) and with a "
            "`max_ack_pending` of 100,000.",
            SPARK_SOURCING + "only_what_is_committed_goes",
            SPARK_SOURCING + "a_consumer_that_is_gone",
        ),
        promise(
            "**Only what Spark has committed is acknowledged.** A task, or a query that goes on from its checkpoint, "
            "reads the same again, wherever it had failed or was stopped.",
            SPARK_SOURCING + "only_what_is_committed_goes",
            SPARK_SOURCING + "a_driver_dies_anywhere",
            SPARK_SOURCING + "a_micro_batch_is_split_as_it_was",
            SPARK_POSITIONS + "the_first_micro_batch_of_a_work_queue_comes_again",
            SPARK_SOURCING + "the_server_restarts_under_it",
            SPARK_SOURCING + "a_confirmation_goes_no_further_than_deliveries",
            SPARK_SOURCING_QUERIES + "a_task_and_a_driver_die",
        ),
        promise(
            "Into the sink `atomic` each message is stored once. A run with `availableNow` reads what the queue has "
            "at its start, and leaves none of that.",
            SPARK_SOURCING_QUERIES + "queries_stop_at_random_moments",
            SPARK_SOURCING_QUERIES + "a_task_and_a_driver_die",
            SPARK_SOURCING + "a_run_empties_the_queue",
            SPARK_SOURCING + "a_consumer_that_is_paused",
        ),
        promise(
            "A query begins after what its consumer has acknowledged, and starting offsets are refused. `subject` is "
            "the consumer's filter. A consumer with another one is refused.",
            SPARK_SOURCING + "a_run_empties_the_queue",
            SPARK_SOURCING + "options_that_do_not_fit",
            SPARK_SOURCING + "streams_and_consumers_that_do_not_fit",
            SPARK_SOURCING + "a_filter_leaves_the_rest_to_others",
        ),
        promise(
            "A micro-batch has no more messages than the consumer may have under way: `max_ack_pending`, or the bytes "
            "of the server's window.",
            SPARK_SOURCING + "a_run_empties_the_queue",
        ),
        promise(
            "A consumer has one query at a time. Another one waits for `requestTimeout`, and fails with "
            "`SourceBusyError`.",
            SPARK_SOURCING + "one_query_at_a_time",
            SPARK_SOURCING_QUERIES + "a_second_query_has_to_wait",
        ),
        promise(
            "One that has acknowledged more than the checkpoint says ends the query with `DataLossError`. So does a "
            "consumer that is gone, or a stream that was made anew or came back shorter.",
            SPARK_POSITIONS + "a_work_queue_comes_back_shorter",
            SPARK_SOURCING + "another_checkpoint_of_the_same_consumer",
            SPARK_SOURCING + "a_purge_before_anything_was_delivered",
            SPARK_SOURCING + "a_consumer_that_is_gone",
            SPARK_SOURCING + "a_stream_made_anew",
            SPARK_SOURCING + "a_stream_made_anew_within_a_run",
            SPARK_SOURCING + "a_stream_made_anew_while_its_consumer_is_claimed",
        ),
        promise(
            "Messages are counted: a task that finds fewer than the consumer delivered fails with `DataLossError`.",
            SPARK_SOURCING + "a_message_that_goes_before_it_is_read",
            SPARK_SOURCING + "a_server_takes_a_deleted_message_for_all_before_it",
        ),
        promise(
            "A server that drops a delivered message takes that for an acknowledgement, and drops **all before it** "
            "unread.",
            SPARK_SOURCING + "a_server_takes_a_deleted_message_for_all_before_it",
        ),
        promise(
            "A message goes when both have acknowledged it.",
            SPARK_SOURCING + "a_queue_that_workers_share",
            SPARK_SOURCING + "an_interest_stream_waits_for_all",
        ),
        promise(
            "What a query has committed last may stay in the stream when it is stopped. The next run acknowledges it, "
            "and does not read it again.",
            SPARK_SOURCING + "a_driver_dies_anywhere",
            SPARK_SOURCING_QUERIES + "queries_stop_at_random_moments",
        ),
        promise(
            "`spark.read` is refused, because it has no commit.",
            SPARK_SOURCING + "options_that_do_not_fit",
        ),
    ),
    "Rows into a stream": (
        promise(
            "every row is stored, and stored **again** by each run that is repeated: at least once",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_WRITES + "twins_and_zombies_store_nothing_twice",
            SPARK_WRITES + "the_server_restarts_under_a_writing_task",
        ),
        promise(
            "A row with a message id of its own is dropped if the stream has seen that within its `duplicate_window`",
            SPARK_SINKS + "a_job_again_with_the_same_ids",
            SPARK_WRITES + "ids_that_rows_have_already",
        ),
        promise(
            "every row once, as long as the repetition comes within the stream's `duplicate_window` (2 minutes, "
            "unless you set it) and brings the row in the same partition: by message ids of its content, which take "
            "the place of what `headers` has. The order does not matter. It costs the server twice the work",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_ORIGINS + "ids_do_not_depend_on_what_came_before",
            SPARK_ORIGINS + "keys_are_overwritten_between_two_tries",
            SPARK_ORIGINS + "shuffled_rows_have_their_ids_in_whatever_order",
            SPARK_ORIGINS + "ids_do_not_depend_on_how_many_tasks_a_chunk_has",
            SPARK_ORIGINS + "partitions_and_micro_batches_have_ids_of_their_own",
            SPARK_WRITES + "ids_that_rows_have_already",
            SPARK_WRITES + "what_a_batch_left_is_sent_in_another",
        ),
        promise(
            "every row once, however late it is repeated, or an error that says what to do: rows are stored in atomic "
            "batches, each together with a marker that says how far its partition has come, and only if that marker "
            "has not moved",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_STREAMING + "a_checkpoint_that_is_older_than_the_target",
            SPARK_REPETITION + "a_query_and_its_checkpoints",
            SPARK_REPETITION + "other_rows_fail",
            SPARK_REPETITION + "twins_overtake_each_other",
            SPARK_WRITES + "twins_and_zombies_store_nothing_twice",
            SPARK_WRITES + "markers_that_have_gone",
            SPARK_WRITES + "a_row_is_counted_over_batches",
        ),
        promise(
            "A repeated task then knows its rows by name, whatever messages were deleted, overwritten or expired "
            "meanwhile.",
            SPARK_REPETITION + "named_rows_heal",
            SPARK_ORIGINS + "keys_are_overwritten_between_two_tries",
        ),
        promise(
            "Names hold where nothing lies between source and sink: no shuffle, cache or table.",
            SPARK_REPETITION + "a_shuffle_between_source_and_sink",
            SPARK_ORIGINS + "ids_do_not_depend_on_how_many_tasks_a_chunk_has",
            SPARK_ORIGINS + "rows_are_named_where_their_own_task_read_them",
        ),
        promise(
            "`atomic` takes names in the source's order alone: no sort, no range that is read twice into one "
            "partition, and with `coalesce` at most 64 ranges in one.",
            SPARK_ORIGINS + "names_that_do_not_tell_how_far_a_task_has_come",
            SPARK_REPETITION + "rows_from_many_tasks_have_no_names_in_markers",
        ),
        promise(
            "A repeated `atomic` task without names has to bring the same rows in the same order. A marker has a "
            "digest of its rows, and other rows fail with `WriteError`.",
            SPARK_REPETITION + "other_rows_fail",
            SPARK_REPETITION + "the_same_rows_never_fail",
            SPARK_REPETITION + "fewer_rows_than_are_stored",
            SPARK_ORIGINS + "a_digest_knows_rows_and_their_order_alone",
        ),
        promise(
            "With `atomic` a checkpoint that is older than the target fails before a row is stored. So does a "
            "micro-batch that was planned anew after rows of it were stored, and a target that has lost micro-batches.",
            SPARK_STREAMING + "a_checkpoint_that_is_older_than_the_target",
            SPARK_REPETITION + "a_range_that_was_planned_anew_half_way",
            SPARK_REPETITION + "a_whole_micro_batch_takes_no_other_row",
            SPARK_REPETITION + "a_stream_that_lost_its_end",
            SPARK_MARKERS + "each_line_of_the_table",
        ),
        promise(
            "`atomic` refuses a target with retention `workqueue` or `interest`, which would lose its markers.",
            SPARK_WRITES + "a_stream_that_takes_nothing",
            SPARK_REPETITION + "a_target_that_became_another_while_the_query_runs",
        ),
        promise(
            "A query whose markers have all gone fails before a row is stored, and the error says how to go on.",
            SPARK_REPETITION + "markers_that_were_dropped",
            SPARK_REPETITION + "a_target_that_knows_nothing_of_a_query",
            SPARK_REPETITION + "a_server_marks_that_it_removed_markers",
        ),
        promise(
            "repeated after the target has dropped their markers, they are stored a second time, and so is what "
            "follows.",
            SPARK_MARKERS + "the_first_micro_batch_has_nothing_to_be_proved_by",
        ),
        promise(
            "For a batch write the promise holds within one `save()`. To run a job again as a whole, in `foreachBatch` "
            "for example, give it a name and a number that rises:",
            SPARK_SINKS + "a_micro_batch_is_written_twice_by_a_function",
            SPARK_WRITES + "a_job_with_a_name_is_stored_once",
            SPARK_REPETITION + "a_job_that_is_run_again",
        ),
        promise(
            "A number is stored once. With `atomic` a lower one fails. Two writes in one `foreachBatch` need two "
            "names, and the repetition needs the same partitions.",
            SPARK_WRITES + "a_job_with_a_name_is_stored_once",
            SPARK_REPETITION + "a_job_that_is_run_again",
        ),
        promise(
            "A lost connection, or a leader that is not there, is waited for: five more tries in a row, over ten "
            "seconds.",
            SPARK_WRITES + "a_leader_that_is_not_there_is_waited_for",
            SPARK_WRITES + "the_server_restarts_under_a_writing_task",
            SPARK_TASKS + "the_last_pause_is_the_longest",
        ),
        promise(
            "An atomic batch has at most 999 rows, and 8 MiB of data unless one row has more.",
            SPARK_REPETITION + "batches_have_a_limit_of_bytes",
        ),
        promise(
            "`Nats-Batch-...`, which is part of somebody's atomic batch, fails the task",
            SPARK_WRITES + "headers_that_cannot_be",
        ),
    ),
    "Buckets as tables": (
        promise(
            "`readStream` has a row for each change.",
            SPARK_VIEWS + "a_bucket",
        ),
        promise(
            "`read` has the newest row of each key, all at one sequence, while others write.",
            SPARK_VIEWS + "a_bucket_overwritten_while_it_is_read",
            SPARK_VIEWS + "a_large_bucket_at_once",
        ),
        promise(
            "The read fails where a key may have been overwritten more often since than the bucket keeps.",
            SPARK_VIEWS + "a_moment_that_was_overwritten_since",
            SPARK_VIEWS + "moments_that_a_bucket_does_not_keep",
        ),
    ),
    "Options": (
        promise(
            "executors get the content. Never shown",
            SPARK_SECURITY + "files_are_read_in_the_driver_and_contents_travel",
            SPARK_OPTIONS + "the_connection",
        ),
        promise(
            "Never shown",
            SPARK_OPTIONS + "secrets_are_not_shown",
            SPARK_SECURITY + "a_table_goes_through_a_guarded_server",
        ),
        promise(
            "only what matches this one subject or pattern",
            SPARK_READING + "filters",
            SPARK_VIEWS + "a_filter_never_widens_a_read",
        ),
        promise(
            "exclusive. What is not there yet is not waited for",
            SPARK_READING + "ranges",
            SPARK_TASKS + "available_now_ends_where_the_stream_ended",
        ),
        promise(
            "A micro-batch that comes again is split as it was",
            SPARK_TASKS + "a_micro_batch_is_cut_as_it_was",
            SPARK_OPTIONS + "a_range_is_cut_without_gaps",
        ),
        promise(
            "On Spark 4.1 the first micro-batch of a query, and `availableNow`, take everything",
            SPARK_TASKS + "a_limit_where_spark_has_none",
        ),
        promise(
            "sequences for which a micro-batch waits",
            SPARK_STREAMING + "a_micro_batch_waits_for_enough",
        ),
        promise(
            "The end is for `read` only, and exclusive",
            SPARK_READING + "ranges",
            SPARK_OPTIONS + "a_streaming_read_has_no_end",
        ),
        promise(
            "drop columns that cannot be written",
            SPARK_OPTIONS + "columns_that_are_written",
        ),
    ),
    "Programs": (
        promise(
            "gives the table back that `ingest` took",
            SPARK_PIPELINES + "flights_there_and_back",
            SPARK_PIPELINES + "all_kinds_of_values_there_and_back",
        ),
        promise(
            "a stretch of time once more, in order, at its own pace, faster, or at full speed",
            SPARK_PIPELINES + "replay_in_order",
            SPARK_PIPELINES_PARTS + "a_row_leaves_when_it_is_due",
        ),
        promise(
            "ends with a summary (`--json` for programs) or with one line that says what is wrong",
            SPARK_PIPELINES + "what_cannot_be",
            SPARK_PIPELINES_PARTS + "one_line_of_an_error",
        ),
        promise(
            "`export` and `audit` read each message of their range once, whatever is run again. Where the range "
            "ends is fixed at the start, and what is written meanwhile is not in it.",
            SPARK_PIPELINES + "what_is_written_meanwhile_is_not_in_it",
            SPARK_TASKS + "a_read_that_breaks_off_goes_on",
            SPARK_TASKS + "the_server_restarts_under_a_reading_task",
        ),
        promise(
            "`ingest`, `mirror` and `replay` store every row, and on repetition what `--delivery` promises, as "
            "in the table above.",
            SPARK_SINKS + "tasks_die_and_a_driver_dies",
            SPARK_WRITES + "the_server_restarts_under_a_writing_task",
            SPARK_PIPELINES + "flights_there_and_back",
            SPARK_PIPELINES + "replay_in_order",
        ),
        promise(
            "With `--checkpoint` that holds from run to run.",
            SPARK_PIPELINES + "mirror_goes_on_where_it_ended",
            SPARK_PIPELINES + "files_that_arrive",
        ),
        promise(
            "A work queue that `mirror` has emptied by `atomic` is in the target once.",
            SPARK_PIPELINES + "mirror_empties_a_work_queue",
            SPARK_SOURCING_QUERIES + "queries_stop_at_random_moments",
        ),
        promise(
            "then stores nothing twice within the duplicate window",
            SPARK_PIPELINES + "columns_as_messages_headers_and_ids",
            SPARK_SINKS + "a_job_again_with_the_same_ids",
        ),
        promise(
            "`replay`, and `mirror` without a query, take message ids along by `fast`, not by the others.",
            SPARK_PIPELINES + "replay_in_order",
            SPARK_PIPELINES + "mirror_goes_on_where_it_ended",
        ),
        promise(
            "What the target has seen by its id within its duplicate window it drops: the summary has "
            "`duplicates dropped`, or fewer messages stored than rows.",
            SPARK_PIPELINES + "columns_as_messages_headers_and_ids",
        ),
        promise(
            "A server allows 50 for a stream and 1,000 in all.",
            SPARK_WRITES + "each_chunk_has_its_own_tries",
            INTEGRATION_ATOMIC_RELEASES + "too_many_batches_at_once",
        ),
        promise(
            "What it refuses beyond that is tried again a few times",
            SPARK_WRITES + "each_chunk_has_its_own_tries",
            INTEGRATION_ATOMIC_RELEASES + "too_many_batches_at_once",
        ),
        promise(
            "`replay` at a pace has one task, which keeps the order of all messages. Everything else keeps it "
            "within a task.",
            SPARK_PIPELINES + "replay_in_order",
        ),
        promise(
            "The numbers of a summary are right as long as nobody else writes into the target meanwhile, and it "
            "drops no markers.",
            SPARK_PIPELINES_PARTS + "what_is_stored_is_told_by_the_leader",
            SPARK_PIPELINES + "mirror_goes_on_where_it_ended",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Rows into a stream": (
        "None of them makes the rows of different partitions visible",
        "| `origin` | as reading gives it.",
        "A `coalesce` is none of them.",
        "The content must be the same in each try.",
        "Files and tables come in their order again.",
        "or an interval `every` (seconds), and `target` (string) | a schedule",
    ),
    "Options": (
        "bytes asked for at once",
        "of rows that have none",
    ),
    "Programs": (
        "once, or files as they arrive",
        "once, or going on",
    ),
}
