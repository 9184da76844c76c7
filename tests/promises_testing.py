"""What the README of the server in memory guarantees, in the form of ``promises``."""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

COMMAND: Final = "testing_io/test_serve_command.py::test_"
BLOCKING: Final = "simulation/test_blocking.py::test_"
THREADS: Final = "simulation/test_threads.py::test_"
TRIO: Final = "simulation/test_trio.py::test_"
PIPES: Final = "testing_io/test_in_process.py::test_"
PLUGIN: Final = "testing_io/test_plugin.py::test_"
LOOP: Final = "simulation/test_loop.py::test_"
SEARCH: Final = "simulation/test_search.py::test_"
SIMULATE: Final = "simulation/test_simulate_command.py::test_"
SERVE: Final = "testing_io/test_serve.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "Testing with JetStream in memory": (
        promise(
            "It is no database.",
            COMMAND + "the_flags_and_the_lines_of_nats_server",
            COMMAND + "the_command_says_that_it_is_no_database",
        ),
    ),
    "In pytest": (
        promise(
            "The test is skipped where there is none",
            PLUGIN + "without_a_real_server_its_tests_are_skipped_with_the_reason",
        ),
        promise(
            "the test runs twice",
            PLUGIN + "the_tests_of_the_readme_pass_in_memory_and_on_a_real_server",
        ),
        promise("Each test has a server of its own.", PLUGIN + "each_test_has_a_server_of_its_own"),
        promise(
            "an application that knows only `jsproto_io.sync.connect`",
            PLUGIN + "the_tests_of_the_readme_pass_in_memory_and_on_a_real_server",
        ),
        promise(
            "calls `verb(role, now)` between two inputs",
            SERVE + "a_call_changes_what_the_server_does",
        ),
        promise(
            "`server.disconnect()` cuts the links of all clients.",
            SERVE + "clients_that_are_disconnected_come_again",
        ),
        promise(
            "A second `with server:` listens on the same port, and they are there again.",
            SERVE + "streams_outlive_a_block",
        ),
        promise(
            "A defect of the server is logged, and the block raises it at its end.",
            SERVE + "a_defect_ends_the_server_and_the_block_raises_it",
        ),
        promise(
            "Links, tasks and the thread end with the block.",
            SERVE + "the_end_leaves_no_thread_no_socket_and_no_task",
            SERVE + "the_end_does_not_wait_for_a_client_that_does_not_read",
        ),
        promise(
            "A client that leaves more than `max_pending` bytes unread is cut off without a word, as nats-server does.",
            SERVE + "a_client_that_does_not_read_is_cut_off_and_memory_is_bounded",
        ),
        promise(
            "accept a configuration that asks for what is not done",
            SERVE + "what_is_not_done_is_refused_or_not",
        ),
        promise(
            "What their permissions do not allow is refused with the words of nats-server, and the link stays",
            SERVE + "users_have_permissions",
            "server/test_access.py::test_both_say_the_same",
        ),
    ),
    "Without sockets": (
        promise("`in_process()` needs no socket", PIPES + "no_socket_is_made"),
        promise(
            "`connect` of all three drivers takes its `dialer`. It works with a reader thread and without.",
            PIPES + "a_client_publishes_and_reads_back",
        ),
        promise(
            "The block of `use_dialer` captures each `connect()` in it and in its tasks.",
            PIPES + "an_application_that_knows_no_dialer_is_reached",
            PIPES + "tasks_of_an_application_that_knows_no_dialer_are_reached",
        ),
        promise(
            "Threads that it starts are not captured, unless it has `threads=True`.",
            PIPES + "threads_that_the_block_starts_are_captured_if_they_are_to_be",
        ),
        promise(
            "The rest counts for `max_pending`.",
            PIPES + "a_client_that_does_not_read_is_cut_off_and_memory_is_bounded",
            PIPES + "a_client_that_reads_late_gets_all",
        ),
        promise("That ends the server.", PIPES + "ctrl_c_within_the_server_reaches_the_caller_and_ends_it"),
    ),
    "Whole programs in simulated time": (
        promise(
            "the same seed gives the same bytes at the same times, in each process and on each Python from 3.11 on.",
            "simulation/test_determinism.py::test_several_processes_give_one_digest",
        ),
        promise(
            "With the two last lines of `worker` the other way round it passes with all 500 seeds.",
            SIMULATE + "the_program_of_the_readme_finds_the_bug_and_its_control_passes",
        ),
        promise(
            "A killed one stops at once: no `finally` of it runs.", LOOP + "a_host_that_is_killed_does_nothing_more"
        ),
        promise(
            "It is started again, and so is one that fails.",
            LOOP + "a_host_that_is_killed_does_nothing_more",
            LOOP + "a_host_that_fails_is_started_again_and_one_that_returns_is_not",
        ),
        promise(
            "then nothing goes wrong any more, and the rest has to make progress",
            LOOP + "after_healing_everything_succeeds",
        ),
        promise(
            "A program that nothing can wake up any more ends with `StuckError`, and so does one that exceeds",
            LOOP + "a_hang_is_an_error",
            LOOP + "a_connected_client_that_waits_for_ever_is_bounded_by_time",
            LOOP + "a_task_that_polls_sees_time_pass_and_is_bounded_by_turns",
        ),
        promise(
            "`random`, `os.urandom`, `uuid`, `secrets` and the clocks of `time` are simulated.",
            LOOP + "entropy_comes_from_the_seed_and_is_the_systems_again_afterwards",
            LOOP + "time_passes_at_once_and_is_the_same_everywhere",
        ),
        promise(
            "are refused with `NotSimulatedError`",
            LOOP + "what_has_no_simulation_is_refused",
            LOOP + "what_is_below_the_loop_is_refused_too",
        ),
        promise(
            "A failure raises `SimulationFailedError`, an `AssertionError` with the `report`.",
            SEARCH + "what_a_search_finds_is_raised_with_its_report",
            SEARCH + "a_failure_is_raised_with_each_kind_of_clients",
            SEARCH + "what_passes_is_returned",
        ),
        promise(
            "A program that is not deterministic is reported as that: each failure is run three times.",
            SEARCH + "a_program_that_is_not_deterministic_is_an_error",
        ),
    ),
    "On trio, in one thread, with threads": (
        promise(
            "anything that uses `jsproto_io.sync` | real | no",
            THREADS + "threads_of_a_program_reach_the_server_through_its_faults",
        ),
        promise(
            "A killed host is cut off at once, and its tasks are cancelled: what they send in a `finally` arrives"
            " nowhere.",
            TRIO + "a_host_that_is_killed_is_not_heard_of_until_it_is_started_again",
        ),
        promise(
            "Threads, and so callbacks of subscriptions, are refused, and there are no hosts.",
            BLOCKING + "threads_are_refused",
            BLOCKING + "hosts_are_refused",
        ),
        promise(
            "The same seed may fail once and pass once, so nothing is shrunk.",
            THREADS + "a_failure_is_not_shrunk",
        ),
    ),
    "From a shell": (
        promise("`jsproto serve --memory` is the same, with the extra `cli`.", COMMAND + "the_command"),
        promise(
            "Streams with file storage survive in `--store_dir`, with their messages and consumers",
            COMMAND + "what_is_stored_survives",
            "server/test_saved.py::test_it_answers_as_if_it_had_not_ended",
            "server/test_saved.py::test_what_is_in_memory_is_lost",
        ),
        promise(
            "After a crash the next start finds what the last end left.",
            COMMAND + "what_a_crash_leaves",
        ),
        promise(
            "A file that is foreign or damaged is refused. The server does not start, and the file stays as it is.",
            COMMAND + "a_file_that_cannot_be_taken_up_stays",
            "server/test_saved.py::test_what_is_foreign_or_damaged_is_refused",
            "server/test_saved.py::test_nothing_is_taken_up_by_halves",
        ),
        promise(
            "by which test suites find out that a server runs, and no other page.",
            COMMAND + "the_flags_and_the_lines_of_nats_server",
        ),
        promise(
            "Recorded conversations of real servers are answered over a socket as they are in memory.",
            "transcripts/test_served.py::test_batches",
            "transcripts/test_served.py::test_consumers",
            "transcripts/test_served.py::test_reading_and_persistence",
            "transcripts/test_served.py::test_sources",
            "transcripts/test_served.py::test_every_recorded_conversation_is_answered_or_explained",
        ),
        promise(
            "Configuration files and clusters are refused, with exit code 2.",
            COMMAND + "what_is_not_modelled_is_refused",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Testing with JetStream in memory": ("All is in memory, in one process, and lost at its end.",),
    "In pytest": ("the JetStream domain | none", "of a server | none"),
    "What it leaves out": ("What the role does not model",),
}
