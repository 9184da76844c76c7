"""Which tests show which requirement: the rows 107 to 147 about Direct Get (ADR-31), by their number.

As ``tests.requirements``, which has the rows about publishing.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import CONFIG, SETTINGS, Row, row


def recorded(scenario: str, release: str = "2.15.1") -> str:
    """The server role answers this recorded conversation as the real server did."""
    return f"{ROLE}the_server_role_answers_as_the_reference[{scenario}@{release}]"


LIKE_REAL_SERVERS: Final = "integration/test_direct_role.py::test_the_role_answers_every_request_as_the_real_server"
PAIR: Final = "pair/test_direct_pair.py::test_"
REPLICAS: Final = "server/test_replicas.py::test_"
ROLE: Final = "transcripts/test_server_role_direct.py::test_"
SERVER: Final = "server/test_direct.py::test_"
_CLIENT: Final = "shown on the server's side only if at all: the client's part is not mapped yet"

SHOWN: Final[dict[int, Row]] = {
    107: row(
        "every peer of a stream answers, one of a queue group",
        REPLICAS + "every_copy_answers_and_chance_says_which", REPLICAS + "the_same_token_gives_the_same_stale_reads",
    ),
    108: row(
        "mirrors answer for their origin, once they have caught up",
        REPLICAS + "a_mirror_answers_for_the_stream_that_it_mirrors_under_its_own_name",
        PAIR + "a_mirror_answers_for_its_origin_as_far_as_it_has_come", recorded("direct-mirror_direct"),
    ),
    109: row("allow_direct", CONFIG + "a_rich_stream", SERVER + "nobody_answers_for_a_stream_that_does_not_allow_it"),
    110: row(
        "servers never set it themselves; the draft says they do",
        SETTINGS + "reading_directly_is_never_forced_but_in_the_draft",
    ),
    111: row("mirror_direct", REPLICAS + "whether_a_mirror_is_read_directly_is_what_its_origin_says"),
    112: row(
        "without allow_direct nobody answers",
        SERVER + "nobody_answers_for_a_stream_that_does_not_allow_it", recorded("direct-not_allowed"),
        PAIR + "nobody_answers_for_a_stream_that_does_not_allow_it",
    ),
    118: row(
        "a body behind a subject must select nothing",
        SERVER + "the_subject_behind_the_name_of_the_stream", SERVER + "the_draft",
        SERVER + "old_releases_know_no_body_behind_a_subject_and_no_level", recorded("direct-subject_appended"),
    ),
    123: row(
        "a batch of 0 is a single message",
        SERVER + "what_is_asked_for_is_answered", recorded("direct-batch_no_start"), LIKE_REAL_SERVERS,
    ),
    124: row("at most max_pending bytes, whatever is asked for", SERVER + "a_batch_has_an_end_that_nobody_asked_for"),
    134: row("more than 1024 subjects", SERVER + "at_most_1024_subjects", recorded("direct-multi_413")),
    135: row(
        "the end of a read of many subjects says up to where it went",
        recorded("direct-multi_last_batch"), recorded("direct-multi_up_to_seq"), LIKE_REAL_SERVERS,
    ),
    147: row(
        "what was written is read through the leader",
        SERVER + "reading_through_the_leader", SERVER + "a_message_in_json", recorded("direct-msg_get_api"),
        PAIR + "stale_reads_at_will",
    ),
}  # fmt: skip

OPEN: Final[dict[int, str]] = {number: _CLIENT for number in range(107, 148) if number not in SHOWN}
