"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 1 to 106, about publishing (ADR-50).

Rows 1 to 41 are atomic batches, rows 42 to 93 fast ingest. Rows 94 to 106 are acknowledgements, advisories,
configuration and mirrors. ``SHOWN`` has each row with the tests that fail without it, as pytest's node ids below
``tests/``. ``test_requirements`` checks that each of them exists.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Requirement(NamedTuple):
    """One requirement in a few words, and the tests that show it."""

    words: str
    tests: tuple[str, ...]


def row(words: str, *tests: str) -> Requirement:
    return Requirement(words, tests)


def recorded(scenario: str, release: str = "2.15.1") -> str:
    """The server role answers this recorded conversation as the real server did."""
    test = "transcripts/test_server_role.py::test_the_server_role_answers_as_the_reference"
    return f"{test}[{scenario}@{release}]"


ACKS = "grammar/test_acks.py::test_"
ADVISORY = "grammar/test_advisory.py::test_"
ATOMIC = "client/test_atomic.py::test_"
ATOMIC_ENDS = "client/test_atomic_ends.py::test_"
BATCH = "grammar/test_batch.py::test_"
CHECKS = "server/test_checks.py::test_"
CLUSTER = "integration/test_cluster.py::test_"
CONFIG = "grammar/test_config.py::test_"
FAST = "client/test_fast.py::test_"
FAST_SUBJECT = "grammar/test_fast.py::test_"
FACADE = "drivers/test_facade.py::test_"
REFUSALS = "integration/test_refusals.py::test_"
RELEASES = "integration/test_releases.py::test_"
ROLE = "transcripts/test_server_role.py::test_"
SERVER_ATOMIC = "server/test_atomic.py::test_"
SERVER_FAST = "server/test_fast.py::test_"
SETTINGS = "server/test_settings.py::test_"
STATEFUL = "stateful/test_fast_stateful.py::"
WINDOWS = "rules/test_window.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    # -- atomic batches ------------------------------------------------------------------------------------------------
    1: row("first message: id, sequence 1, request", ATOMIC + "the_first_message_is_a_request_with_id_and_sequence_1"),
    2: row(
        "ids of at most 64 characters",
        ATOMIC + "an_impossible_id_is_refused_before_anything_is_sent", BATCH + "the_longest_id_is_64_bytes",
        recorded("atomic-id_too_long"),
    ),
    3: row(
        "wait for the first answer: empty is yes, JSON is no",
        ATOMIC + "nothing_follows_the_first_message_before_it_is_answered",
        ATOMIC + "a_refused_first_message_ends_the_batch",
    ),
    4: row("later messages: id, next sequence", ATOMIC + "later_messages_repeat_the_id_and_count_up_without_asking"),
    5: row("a later message may ask for an answer", ATOMIC + "ack_every_asks_and_waits", recorded("atomic-commit1")),
    6: row(
        "commit with a message: stored, acknowledged",
        ATOMIC + "a_commit_stores_its_message", ATOMIC + "one_message_commits_itself",
    ),
    7: row("commit without a message", ATOMIC + "a_commit_without_a_message"),
    8: row(
        "the count leaves out what only ended it",
        SERVER_ATOMIC + "an_end_that_is_not_stored_marks_the_last_message",
    ),
    9: row(
        "the last stored message carries the commit", SERVER_ATOMIC + "an_end_that_is_not_stored_marks_the_last_message"
    ),
    10: row(
        "a missing feature shows at the first message",
        ATOMIC + "a_refused_first_message_ends_the_batch",
        ATOMIC + "a_plain_acknowledgement_of_the_first_message_says_that_it_was_stored",
        recorded("atomic-not_enabled"),
    ),
    11: row(
        "the server checks the API level of each message",
        SERVER_ATOMIC + "the_required_level_is_checked_and_not_stored", CHECKS + "the_required_level",
    ),
    12: row("the client can ask for an API level", ATOMIC + "the_required_level_is_on_every_message"),
    13: row("10174 is a typed error", ATOMIC + "every_code_is_a_typed_error"),
    14: row("10176 is a typed error", ATOMIC + "every_code_is_a_typed_error"),
    15: row("10179 is a typed error", ATOMIC + "every_code_is_a_typed_error"),
    16: row("10175 is a typed error", ATOMIC + "every_code_is_a_typed_error"),
    17: row(
        "10199 is a typed error that keeps the limit",
        ATOMIC + "every_code_is_a_typed_error", ATOMIC + "what_a_text_holds_is_kept",
    ),
    18: row(
        "10177 is a typed error that names the header",
        ATOMIC + "every_code_is_a_typed_error", ATOMIC + "what_a_text_holds_is_kept",
    ),
    19: row("10201 is a typed error", ATOMIC + "every_code_is_a_typed_error"),
    20: row("10198, 10200 and 10210 are typed errors", ATOMIC + "every_code_is_a_typed_error"),
    21: row("an unknown batch is an error", recorded("atomic-unknown_batch")),
    22: row("a gap fails all of the batch", recorded("atomic-gap"), SERVER_ATOMIC + "batches_do_not_mix"),
    23: row(
        "expected sequences are those before the batch",
        CHECKS + "the_running_state_of_a_batch", recorded("atomic-expected_last_seq"),
    ),
    24: row("one failing check fails all", SERVER_ATOMIC + "a_member_in_the_way_of_the_commit_fails_all"),
    25: row(
        "only the first may expect the last sequence",
        ATOMIC + "expected_last_sequence_is_only_for_the_first_message", recorded("atomic-expected_last_seq"),
    ),
    26: row(
        "no expectation of a subject that the batch wrote",
        ATOMIC + "expected_last_subject_sequence_is_not_for_a_subject_that_the_batch_has_written",
        recorded("atomic-expected_last_subj_seq"),
    ),
    27: row(
        "10 s of silence: given up, with an advisory",
        SERVER_ATOMIC + "a_silent_batch_is_given_up", recorded("atomic-abandoned"),
    ),
    28: row(
        "the client knows the 10 s and fails early",
        ATOMIC_ENDS + "a_batch_expires_by_itself",
        ATOMIC_ENDS + "a_commit_of_a_batch_that_was_silent_for_too_long_is_refused",
    ),
    29: row("the ack has id, count, last sequence", ACKS + "pub_acks", recorded("atomic-commit1")),
    30: row(
        "the client verifies id and count",
        ATOMIC + "the_count_is_verified", ATOMIC + "the_acknowledgement_of_another_batch_is_no_answer",
    ),
    31: row("each message's stream sequence", ATOMIC + "a_commit_stores_its_message"),
    32: row(
        "no atomic batch with asynchronous persistence",
        REFUSALS + "the_server_would_refuse_it_too", ROLE + "what_servers_refuse",
    ),
    33: row(
        "50 batches at once in a stream",
        SERVER_ATOMIC + "the_limits_are_those_of_the_stream_and_of_the_server", recorded("atomic-inflight_50"),
    ),
    34: row(
        "1000 batches at once in a server",
        SERVER_ATOMIC + "the_limits_are_those_of_the_stream_and_of_the_server", recorded("atomic-inflight_total"),
        "server/test_context.py::test_the_defaults_are_those_of_the_reference",
    ),
    35: row(
        "1000 messages in a batch",
        SERVER_ATOMIC + "the_largest_batch", SERVER_ATOMIC + "a_batch_that_is_too_large", recorded("atomic-too_large"),
    ),
    36: row(
        "the client's size guard, which can be raised",
        ATOMIC + "the_batch_has_a_size_and_the_marker_is_not_counted",
        ATOMIC + "where_the_marker_is_counted_or_unknown_the_last_message_must_commit",
        ATOMIC + "the_size_guard_can_be_raised_or_switched_off",
    ),
    37: row(
        "no expected message id",
        ATOMIC + "expected_last_msg_id_is_refused", recorded("atomic-expected_last_msg_id"),
    ),
    38: row(
        "message ids, each once",
        ATOMIC + "a_message_id_occurs_once", ATOMIC + "message_ids_need_2_12_1",
        SERVER_ATOMIC + "ids_of_a_batch_are_remembered", recorded("atomic-msg_id"),
    ),
    39: row(
        "nothing after a commit or a failure",
        ATOMIC + "nothing_is_done_behind_a_commit", "rules/test_atomic_rules.py::test_nothing_leaves_an_end",
    ),
    40: row("discard without a word", ATOMIC_ENDS + "a_discarded_batch_says_nothing_to_the_server"),
    41: row(
        "one call for a list", "client/test_publish_batch.py::test_a_list_is_published_in_one_call",
        "client/test_publish_batch.py::test_a_bad_message_in_a_list_stores_nothing",
    ),
    # -- fast ingest ---------------------------------------------------------------------------------------------------
    42: row("flow controlled, without end, not atomic", FACADE + "the_main_job", STATEFUL + "TestFastBatch"),
    43: row("an inbox of the batch's own", FAST + "the_first_message_opens_an_inbox_and_starts_the_batch"),
    44: row(
        "the inbox goes as soon as the batch ends",
        FAST + "commit_without_storing", FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
    ),
    45: row(
        "the reply subject says it all",
        FAST_SUBJECT + "the_examples_of_the_specification", FAST_SUBJECT + "what_is_built_is_parsed",
    ),
    46: row(
        "ids: 64 characters, no dots",
        FAST_SUBJECT + "batch_ids_that_are_refused", FAST_SUBJECT + "batch_ids_that_a_server_refuses",
        recorded("fast-id_length"),
    ),
    47: row(
        "operation 0 starts, at sequence 1",
        FAST_SUBJECT + "which_operation_fits_which_sequence", recorded("fast-bad_pattern"),
    ),
    48: row(
        "operation 1 appends, at higher sequences",
        FAST_SUBJECT + "which_operation_fits_which_sequence", recorded("fast-bad_pattern"),
    ),
    49: row(
        "operation 2 commits and stores",
        FAST + "commit_with_a_last_message", FAST + "a_batch_of_one_message", recorded("fast-commit_store"),
    ),
    50: row(
        "operation 3 commits and stores nothing",
        FAST + "commit_without_storing", FAST + "an_empty_batch_cannot_be_committed_or_pinged",
        recorded("fast-eob_first"),
    ),
    51: row(
        "operation 4 pings",
        FAST + "a_silent_batch_is_kept_alive", FAST + "a_closed_window_flushes_pings_and_opens_again",
        SERVER_FAST + "a_ping_is_answered_with_the_latest_acknowledgement", recorded("fast-ping"),
    ),
    52: row(
        "unknown operations are refused", FAST_SUBJECT + "operations_that_are_refused", recorded("fast-unknown_op")
    ),
    53: row("wait for the first answer", FAST + "nothing_follows_the_first_message_before_it_is_answered"),
    54: row(
        "the first answer: an error, or the rate",
        FAST + "an_error_for_the_first_message_is_the_error_of_the_batch",
        SERVER_FAST + "there_is_always_an_acknowledgement_for_one", recorded("fast-flow_one"),
    ),
    55: row(
        "every message repeats rate and gap mode", FAST + "every_message_repeats_the_rate_asked_for_and_the_gap_mode"
    ),
    56: row("a new rate holds at once", FAST + "the_window_follows_the_rate_up_and_down"),
    57: row(
        "acknowledgements are cumulative",
        FAST + "acks_never_move_backwards_and_lies_change_nothing", WINDOWS + "monotone_and_bounded",
    ),
    58: row("a ping takes no sequence", FAST + "a_closed_window_flushes_pings_and_opens_again", recorded("fast-ping")),
    59: row("a quiet batch is pinged by itself", FAST + "a_silent_batch_is_kept_alive"),
    60: row(
        "nothing is added to a dead batch",
        FAST + "a_batch_that_could_not_be_kept_alive_is_not_trusted",
        FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count",
        "drivers/test_idling.py::test_a_batch_that_the_server_must_have_forgotten_takes_nothing",
    ),
    61: row(
        "the rate starts low, doubles, halves, has a ceiling",
        WINDOWS + "beside_others_the_pace_doubles_up_to_its_share", WINDOWS + "the_pace_halves_down_to_its_share",
        SERVER_FAST + "a_lone_publisher_gets_what_it_asks_for_up_to_500", SERVER_FAST + "publishers_share",
        recorded("fast-flow_ramp"),
    ),
    62: row(
        "rates from 1 to 65535",
        FAST + "impossible_options_are_refused", FAST_SUBJECT + "flows_that_are_refused", recorded("fast-flow_values"),
    ),
    63: row(
        "gap mode: ok or fail",
        FAST + "impossible_options_are_refused", recorded("fast-gap_ok"), recorded("fast-gap_fail"),
    ),
    64: row("another gap mode is an error", FAST_SUBJECT + "gap_modes_that_are_refused", recorded("fast-bad_pattern")),
    65: row("a gap names the first missing message", ACKS + "both_dialects_say_the_same", recorded("fast-gap_ok")),
    66: row("a gap changes no window", "client/test_fast_lossy.py::test_gap_ok_reports_and_goes_on"),
    67: row("fail: stop, then take the short count", FAST + "gap_fail_stops_at_the_notice_and_ends_with_the_count"),
    68: row("fail: a short count is no success", FAST + "a_commit_that_stored_fewer_fails_with_what_was_stored"),
    69: row("ok: go on", "client/test_fast_lossy.py::test_gap_ok_reports_and_goes_on", recorded("fast-gap_ok")),
    70: row(
        "a new leader, fail: what was lost ends the batch",
        recorded("cluster-fast_leader_change_fail", "2.15.1-R3"),
        FAST + "the_last_word_is_asked_for_until_there_is_a_leader", CLUSTER + "gap_fail_tells_what_is_stored",
    ),
    71: row(
        "a new leader, ok: it goes on",
        SERVER_FAST + "a_new_leader_says_how_far_it_is", recorded("cluster-fast_leader_change_ok", "2.15.1-R3"),
        CLUSTER + "gap_ok_goes_on_under_a_new_leader_and_reports_what_is_missing",
    ),
    72: row(
        "over a new link: ask and go on, or end",
        "client/test_fast_lossy.py::test_gap_ok_asks_and_goes_on_over_a_new_link",
        FAST + "what_cannot_be_asked_ends_with_the_link",
        FAST + "the_end_of_the_link_ends_the_batch_with_what_was_acknowledged",
        CLUSTER + "gap_ok_goes_on_over_a_new_link_and_reports_what_is_missing",
        CLUSTER + "gap_fail_ends_with_the_link",
    ),
    73: row(
        "fail: a refused message ends the batch", FAST + "a_refused_message_breaks_the_batch", recorded("fast-err_fail")
    ),
    74: row(
        "ok: it is reported and the batch goes on",
        "client/test_fast_lossy.py::test_gap_ok_reports_and_goes_on", recorded("fast-err_ok"),
    ),
    75: row("expectations as in a plain publish", CHECKS + "what_does_not", recorded("fast-err_first")),
    76: row(
        "the stall rule, without a deadlock",
        WINDOWS + "the_window_of_the_draft_example", WINDOWS + "sender_and_receiver_never_wait_for_each_other",
    ),
    77: row(
        "1 to 3 acknowledgements outstanding",
        FAST + "impossible_options_are_refused", FAST + "how_many_acknowledgements_may_be_outstanding",
    ),
    78: row("how long a stall may last", FAST + "how_long_a_stall_may_last"),
    79: row(
        "the caller knows sequence and acknowledged",
        FAST + "the_window_follows_the_rate_up_and_down", FACADE + "messages_one_by_one_with_headers",
    ),
    80: row("commit waits for the last word", FAST + "commit_without_storing"),
    81: row("flow and publish acknowledgements told apart", ACKS + "the_type_decides_before_anything_else"),
    82: row("the fields of a flow message, both dialects", ACKS + "flow_messages_survive_in_both_dialects"),
    83: row(
        "error codes, both dialects",
        FAST_SUBJECT + "a_problem_is_the_servers_error_code",
        "server/test_context.py::test_the_draft_numbers_errors_differently",
        "grammar/test_acks.py::test_an_error_of_the_draft_is_the_released_one",
        "grammar/test_acks.py::test_the_same_numbers_with_other_words_are_other_errors",
        "pair/test_pair.py::test_the_ends_of_a_batch_have_one_class_in_both_dialects",
    ),
    84: row(
        "10211: too many batches",
        SERVER_FAST + "the_limits_are_those_of_the_stream_and_of_the_server",
        "test_errors.py::test_every_row_has_a_class_of_its_own",
    ),
    85: row(
        "no limit to the size of a batch", RELEASES + "fast_ingest_in_and_direct_get_out", FACADE + "the_main_job"
    ),
    86: row(
        "10 s of silence end a batch; no advisory but in the draft",
        SERVER_FAST + "a_silent_batch_is_forgotten_without_a_word",
        SERVER_FAST + "the_draft_tells_of_batches_that_are_forgotten",
    ),
    87: row("works with asynchronous persistence", recorded("fast-persist_async")),
    88: row(
        "duplicates do not fail a batch", SERVER_FAST + "duplicates_count_and_are_not_stored", recorded("fast-msg_id")
    ),
    89: row(
        "a refused first message after its acknowledgement",
        FAST + "a_first_message_refused_after_its_first_ack", recorded("fast-err_first"),
    ),
    90: row("what is not acknowledged is kept", FAST + "what_is_not_known_to_be_stored_is_kept_for_another_try"),
    91: row(
        "a context manager (leaving without a commit abandons)",
        FACADE + "leaving_the_block_without_commit_abandons", FACADE + "leaving_the_block_by_an_error_commits_nothing",
    ),
    92: row(
        "any iterable, with back-pressure",
        FACADE + "the_main_job", FACADE + "an_iterable_that_raises_leaves_the_batch_usable",
    ),
    93: row(
        "objects are put by fast ingest where the bucket allows",
        "drivers/test_objects.py::test_an_object_is_put_by_fast_ingest_where_its_bucket_allows",
        "drivers/test_objects.py::test_an_object_that_broke_off_has_no_meta",
    ),
    # -- acknowledgements, advisories, configuration, mirrors ----------------------------------------------------------
    94: row("batch and count of an acknowledgement", ACKS + "pub_acks", ACKS + "pub_acks_survive"),
    95: row(
        "the advisory of an abandoned batch, both spellings",
        ADVISORY + "released_spelling", ADVISORY + "draft_spelling_is_the_same_advisory",
        ADVISORY + "every_recorded_one_is_read_and_written_again", SERVER_ATOMIC + "the_advisory",
    ),
    96: row("its reasons, unknown ones too", ADVISORY + "reasons_known_and_unknown_are_kept"),
    97: row(
        "watching one batch, or a stream",
        "client/test_advisories.py::test_one_batch", "drivers/test_publishing.py::test_abandoned_batches_are_told",
    ),
    98: row("allow_atomic", CONFIG + "a_rich_stream", CONFIG + "options_are_the_fields"),
    99: row("allow_batched", CONFIG + "a_rich_stream", "client/test_jetstream.py::test_stream_verbs"),
    100: row(
        "both can be switched by an update, together or alone",
        "integration/test_both_servers.py::test_both_kinds_of_batches_are_switched_by_updates_alone_and_together",
        "integration/test_both_servers.py::test_a_batch_that_is_open_when_its_kind_is_switched_off_ends",
        REFUSALS + "the_api_levels_of_server_and_stream", SERVER_FAST + "switched_off_and_sealed",
        SERVER_ATOMIC + "switched_off_and_sealed", recorded("fast-disable_midway"),
    ),
    101: row(
        "asynchronous persistence: not with atomic, but with fast",
        REFUSALS + "the_server_would_refuse_it_too", recorded("fast-persist_async"), ROLE + "what_servers_refuse",
    ),
    102: row(
        "the client refuses that first",
        CONFIG + "a_refusal_says_what_to_change",
        CONFIG + "asynchronous_persistence_takes_fast_ingest_but_no_atomic_batches",
        "client/test_jetstream.py::test_what_every_server_refuses_is_not_asked",
    ),
    103: row(
        "the API level that each needs",
        SETTINGS + "the_level_that_a_configuration_needs", REFUSALS + "the_api_levels_of_server_and_stream",
    ),
    104: row(
        "API levels of server and stream",
        CONFIG + "what_the_configuration_requires", REFUSALS + "the_api_levels_of_server_and_stream",
    ),
    105: row(
        "mirrors have neither",
        REFUSALS + "the_server_would_refuse_it_too", SETTINGS + "what_is_refused", ROLE + "what_servers_refuse",
    ),
    106: row(
        "copies of mirrors and sources: no batch, nothing expected",
        ROLE + "what_mirrors_and_sources_keep_of_a_batch", recorded("atomic-sourced_headers"),
        "server/test_sourcing.py::test_what_was_expected_of_the_origin_is_not_expected_of_a_copy",
        "server/test_sourcing.py::test_a_member_of_a_batch_is_copied_as_a_message_of_its_own",
        "integration/test_copies.py::test_mirrors_and_sources_copy_without_the_headers_of_the_publish",
    ),
}  # fmt: skip
