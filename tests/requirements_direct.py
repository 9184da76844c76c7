"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 107 to 148, about Direct Get (ADR-31).

As ``tests.requirements``, which has the rows about publishing.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import CONFIG, SETTINGS, Requirement, row


def recorded(scenario: str, release: str = "2.15.1") -> str:
    """The server role answers this recorded conversation as the real server did."""
    return f"{ROLE}the_server_role_answers_as_the_reference[{scenario}@{release}]"


CLIENT: Final = "client/test_direct.py::test_"
GETS: Final = "client/test_single.py::test_"
LIKE_REAL_SERVERS: Final = "integration/test_direct_role.py::test_the_role_answers_every_request_as_the_real_server"
MULTI: Final = "client/test_multi.py::test_"
PAIR: Final = "pair/test_direct_pair.py::test_"
READING: Final = "drivers/test_reading.py::test_"
REAL: Final = "integration/test_reading.py::test_"
REPLICAS: Final = "server/test_replicas.py::test_"
ROLE: Final = "transcripts/test_server_role_direct.py::test_"
SERVER: Final = "server/test_direct.py::test_"
SNAPSHOT: Final = "client/test_snapshot.py::test_"
STORED: Final = "grammar/test_stored.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    107: row(
        "every peer of a stream answers, one of a queue group",
        REPLICAS + "every_copy_answers_and_chance_says_which", REPLICAS + "the_same_token_gives_the_same_stale_reads",
    ),
    108: row(
        "mirrors answer for their origin, once they have caught up",
        REPLICAS + "a_mirror_answers_for_the_stream_that_it_mirrors_under_its_own_name",
        PAIR + "a_mirror_answers_for_its_origin_as_far_as_it_has_come", recorded("direct-mirror_direct"),
        REAL + "a_mirror_answers_too",
    ),
    109: row("allow_direct", CONFIG + "a_rich_stream", SERVER + "nobody_answers_for_a_stream_that_does_not_allow_it"),
    110: row(
        "servers never set it themselves; the draft says they do",
        SETTINGS + "reading_directly_is_as_asked_and_in_the_draft_as_the_limit_says",
    ),
    111: row("mirror_direct", REPLICAS + "whether_a_mirror_is_read_directly_is_what_its_origin_says"),
    112: row(
        "without allow_direct nobody answers",
        SERVER + "nobody_answers_for_a_stream_that_does_not_allow_it", recorded("direct-not_allowed"),
        PAIR + "nobody_answers_for_a_stream_that_does_not_allow_it",
        GETS + "nobody_answers", CLIENT + "answers_that_end_the_read", SNAPSHOT + "direct_gets_are_off",
    ),
    113: row(
        "a message by its sequence",
        GETS + "what_is_asked", READING + "one_message", REAL + "every_form",
    ),
    114: row(
        "the last message of a subject",
        GETS + "what_is_asked", READING + "one_message",
    ),
    115: row(
        "the next message of a subject",
        GETS + "what_is_asked", READING + "one_message",
    ),
    116: row(
        "the first message from a time on",
        GETS + "what_is_asked", READING + "one_message",
    ),
    117: row(
        "the last message is asked for below its subject",
        GETS + "the_last_message_of_a_subject_is_asked_for_below_it",
    ),
    118: row(
        "a body after a subject must select nothing",
        SERVER + "the_subject_behind_the_name_of_the_stream", SERVER + "the_draft",
        SERVER + "old_releases_know_no_body_behind_a_subject_and_no_level", recorded("direct-subject_appended"),
    ),
    119: row(
        "a batch from a sequence on, of a subject",
        CLIENT + "one_page_is_all", REAL + "every_form",
    ),
    120: row(
        "a batch from the start",
        CLIENT + "pages_follow_each_other_without_a_hole", REAL + "every_form",
    ),
    121: row(
        "a batch from a time on",
        CLIENT + "from_a_time_on", READING + "from_a_time_on", GETS + "what_no_server_would_answer_is_not_asked",
    ),
    122: row(
        "batches bounded by bytes",
        CLIENT + "one_page_is_all", REAL + "pages_of_any_size_over_deleted_messages",
    ),
    123: row(
        "a batch of 0 is a single message",
        SERVER + "what_is_asked_for_is_answered", recorded("direct-batch_no_start"), LIKE_REAL_SERVERS,
        CLIENT + "impossible_reads_are_refused",
    ),
    124: row("at most max_pending bytes, whatever is asked for", SERVER + "a_batch_has_an_end_that_nobody_asked_for"),
    125: row(
        "pages bound the memory",
        CLIENT + "the_memory_is_bounded_however_few_messages_a_page_has",
        CLIENT + "every_message_exactly_once_in_order",
    ),
    126: row(
        "a batch ends with 204",
        CLIENT + "one_page_is_all", CLIENT + "an_end_that_comes_twice",
    ),
    127: row(
        "the caller learns what is left, and the last sequence",
        CLIENT + "one_page_is_all", READING + "from_a_time_on",
    ),
    128: row(
        "servers without batches are told apart",
        CLIENT + "answers_that_end_the_read", MULTI + "servers_without_batches_are_not_asked",
    ),
    129: row(
        "what contradicts itself is not sent",
        GETS + "what_no_server_would_answer_is_not_asked", MULTI + "what_no_server_would_answer_is_not_asked",
        CLIENT + "impossible_reads_are_refused",
    ),
    130: row(
        "the last message of each of many subjects",
        MULTI + "pages_are_all_up_to_the_same_sequence", READING + "the_last_messages_of_many_subjects",
    ),
    131: row(
        "the same, up to a sequence",
        MULTI + "as_of_a_sequence_or_a_time", REAL + "every_form",
    ),
    132: row(
        "the same, up to a time",
        MULTI + "as_of_a_sequence_or_a_time", MULTI + "nothing_matches", REAL + "every_form",
    ),
    133: row(
        "the same, no more than so many",
        MULTI + "as_of_a_sequence_or_a_time", READING + "the_last_messages_of_many_subjects",
    ),
    134: row(
        "more than 1024 subjects",
        SERVER + "at_most_1024_subjects", recorded("direct-multi_413"),
        MULTI + "more_than_a_server_answers_for", READING + "more_subjects_than_a_server_answers_for",
    ),
    135: row(
        "the end of a read of many subjects says up to where it went",
        recorded("direct-multi_last_batch"), recorded("direct-multi_up_to_seq"), LIKE_REAL_SERVERS,
        MULTI + "pages_are_all_up_to_the_same_sequence", READING + "the_last_messages_of_many_subjects",
    ),
    136: row(
        "pages that belong to one sequence",
        MULTI + "each_subject_once_as_of_the_point", PAIR + "a_snapshot_from_copies_that_lag_is_the_leaders_state",
        REAL + "a_snapshot_while_somebody_writes_is_the_state_at_its_sequence",
    ),
    137: row(
        "many keys as they were at a sequence or a time",
        SNAPSHOT + "at_a_sequence", SNAPSHOT + "at_a_time", SNAPSHOT + "it_is_the_state_at_its_sequence",
    ),
    138: row(
        "nothing found is no crash",
        CLIENT + "nothing_matches", MULTI + "nothing_matches", GETS + "statuses_are_typed",
    ),
    139: row(
        "a bad request is typed",
        GETS + "statuses_are_typed", REAL + "what_the_server_refuses_is_typed",
    ),
    140: row(
        "other statuses are typed errors",
        GETS + "statuses_are_typed", CLIENT + "answers_that_end_the_read",
    ),
    141: row(
        "stream, sequence, time and subject",
        STORED + "a_plain_reply", CLIENT + "draft_time_format_and_unusual_header_order",
    ),
    142: row(
        "what is left, and the sequence before, of each message",
        STORED + "a_plain_reply", STORED + "stored_headers_cannot_pass_for_the_servers",
    ),
    143: row(
        "a lost message is noticed",
        CLIENT + "a_lost_message_is_asked_for_again", CLIENT + "messages_that_are_lost_again_and_again",
    ),
    144: row(
        "a batch without an end is no short result",
        CLIENT + "a_page_that_falls_silent", CLIENT + "the_link_is_lost_in_the_middle",
    ),
    145: row(
        "the user's headers are kept apart",
        STORED + "stored_headers_cannot_pass_for_the_servers", REAL + "every_form",
    ),
    146: row(
        "the payload alone",
        GETS + "the_payload_alone", READING + "one_message",
    ),
    147: row(
        "what was written is read through the leader",
        SERVER + "reading_through_the_leader", SERVER + "a_message_in_json", recorded("direct-msg_get_api"),
        PAIR + "stale_reads_at_will",
        GETS + "both_ways_give_the_same_message", READING + "one_message",
    ),
    148: row("the leader gives no batches", SERVER + "reading_through_the_leader", recorded("direct-msg_get_api")),
}  # fmt: skip
