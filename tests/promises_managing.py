"""What the README of the drivers guarantees of contexts and of managing, and the tests that try to break it."""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

CLIENT_MANAGING: Final = "client/test_managing.py::test_"
CLIENT_WRITE_BACK: Final = "client/test_write_back.py::test_"
DRIVERS_CONTEXTS: Final = "drivers/test_contexts.py::test_"
DRIVERS_MANAGING: Final = "drivers/test_managing.py::test_"

CLI: Final = "cli/test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "Environment and contexts": (
        promise(
            "Credentials that come first replace all of the rest",
            DRIVERS_CONTEXTS + "what_goes_first",
        ),
        promise(
            "Fields that `nats` does not know are ignored.",
            DRIVERS_CONTEXTS + "a_context_by_its_name",
        ),
    ),
    "Output and exit codes": (
        promise(
            "With `--json` standard output has JSON objects alone, one a line.",
            CLI + "messages.py::test_stored_messages_are_read_in_every_way",
            CLI + "streams.py::test_a_failure_is_an_object_too",
        ),
        promise(
            "Options that do not exist, or have no value, are told on standard error alone.",
            CLI + "command_line.py::test_wrong_usage_is_one_line",
        ),
        promise(
            "Without a terminal they need `--force`.",
            CLI + "streams.py::test_nothing_is_destroyed_where_nobody_can_be_asked",
        ),
        promise(
            "`consume --ack` acknowledges a message after it was printed, and the pipe has taken it.",
            CLI + "messages.py::test_a_reader_that_goes_away_ends_it_quietly",
        ),
    ),
    "Managing streams and consumers": (
        promise(
            "and nothing else: max_msgs stays",
            CLIENT_WRITE_BACK + "a_stream",
            DRIVERS_MANAGING + "an_update_changes_only_what_is_named",
        ),
        promise(
            "`streams` and `consumers` are iterators, which fetch the next page as it is taken.",
            CLIENT_MANAGING + "a_page_is_requested_when_the_one_before_it_was_taken",
            DRIVERS_MANAGING + "a_list_that_is_left_asks_for_no_more",
        ),
        promise(
            "`stream_names`, `consumer_names` and `stream_subjects` return all pages at once.",
            CLIENT_MANAGING + "names_of_streams",
            DRIVERS_MANAGING + "more_streams_than_fit_a_page",
            DRIVERS_MANAGING + "more_subjects_than_fit_a_page",
        ),
        promise(
            "Fields and words of a newer server stay as they are.",
            CLIENT_WRITE_BACK + "a_stream",
            CLIENT_WRITE_BACK + "a_consumer",
            CLIENT_MANAGING + "a_word_is_checked_before_a_creation_alone",
        ),
        promise(
            "A server that is too old for these options is an `UnsupportedByServerError`.",
            CLIENT_MANAGING + "demands_that_an_old_server_would_pass_over",
            DRIVERS_MANAGING + "a_release_that_would_pass_over_a_required_level",
        ),
        promise(
            "An error names the stream, consumer, subject or message that was not found.",
            DRIVERS_MANAGING + "an_error_names_what_was_not_found",
        ),
    ),
}

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Managing streams and consumers": (
        "A list that changes meanwhile may leave a stream or a consumer out, or name it twice.",
        "Of two such changes at the same time the last one wins.",
        "`delete_msg` leaves the bytes on the disk until they are compacted",
    ),
}
