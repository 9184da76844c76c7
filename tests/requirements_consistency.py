"""Which tests show which requirement of ``REQUIREMENTS.md``: rows 243 to 258, about persistence and consistency.

As ``tests.requirements``, which has the rows about publishing.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import CONFIG, REFUSALS, SETTINGS, Requirement, row
from tests.requirements_direct import PAIR, REPLICAS, recorded

CORE = "client/test_consistency.py::test_"
DRIVERS = "drivers/test_sessions.py::test_"
JETSTREAM = "client/test_jetstream.py::test_"
README = "test_readme.py::test_"
SESSIONS = "pair/test_consistency.py::test_"
STALE = "integration/test_stale_reads.py::test_"
STATEFUL = "stateful/test_consistency_stateful.py::"
TOKEN = "grammar/test_session_token.py::test_"

SHOWN: Final[dict[int, Requirement]] = {
    243: row(
        "persist_mode",
        SETTINGS + "the_persist_mode_stays", recorded("cons-persist_forms"),
        DRIVERS + "asynchronous_persistence_is_warned_of", DRIVERS + "older_servers_would_drop_the_persist_mode",
        JETSTREAM + "features_that_the_server_is_too_old_for",
    ),
    244: row("the application is warned", DRIVERS + "asynchronous_persistence_is_warned_of"),
    245: row(
        "asynchronous persistence overrides sync: always",
        "integration/test_persistence.py::test_asynchronous_persistence_overrides_sync_always",
    ),
    246: row(
        "asynchronous: no atomic batches, but fast ingest",
        SETTINGS + "what_is_refused", SETTINGS + "an_asynchronous_stream_takes_fast_ingest",
        recorded("cons-persist_forms"), REFUSALS + "the_server_would_refuse_it_too",
        CONFIG + "asynchronous_persistence_takes_fast_ingest_but_no_atomic_batches",
    ),
    247: row(
        "asynchronous: one replica, on disk",
        SETTINGS + "what_is_refused", recorded("cons-persist_forms"), CONFIG + "a_refusal_says_what_to_change",
        DRIVERS + "asynchronous_persistence_is_warned_of",
    ),
    248: row(
        "who can be scaled up, and that the mode stays",
        SETTINGS + "scaling_up_is_for_streams_that_persist_at_once",
        SETTINGS + "leaving_the_persist_mode_out_is_a_change_of_an_asynchronous_stream",
        recorded("cons-persist_update"), JETSTREAM + "the_persist_mode_cannot_be_changed",
        JETSTREAM + "an_update_keeps_the_persist_mode", DRIVERS + "asynchronous_persistence_is_warned_of",
    ),
    249: row(
        "what is not set is not said, and the default neither",
        SETTINGS + "what_is_false_or_nothing_is_said_as_servers_say_it", recorded("cons-persist_forms"),
        JETSTREAM + "an_update_keeps_the_persist_mode",
    ),
    250: row(
        "the API level that it needs",
        SETTINGS + "the_level_that_a_configuration_needs", SETTINGS + "what_a_release_does_not_know",
        recorded("cons-persist_level"),
    ),
    251: row(
        "reading from the leader, and from an old one",
        CORE + "the_leader_can_be_asked_first", CORE + "an_old_leader_is_not_believed",
        "client/test_single.py::test_both_ways_give_the_same_message", "drivers/test_reading.py::test_one_message",
    ),
    252: row(
        "reading from any replica can be stale",
        REPLICAS + "a_replica_that_lags_by_time", PAIR + "stale_reads_at_will",
        DRIVERS + "a_lagging_replica_shows_in_plain_reads_only",
        STALE + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
    ),
    253: row(
        "reading from a mirror is the weakest",
        REPLICAS + "a_mirror_that_lags", PAIR + "a_mirror_answers_for_its_origin_as_far_as_it_has_come",
        CORE + "a_mirror_is_asked_by_its_own_name", DRIVERS + "a_mirror_can_be_asked",
        SESSIONS + "a_token_goes_to_another_client_of_a_mirror",
    ),
    254: row(
        "a fresh consumer may not see all at once, and sees all",
        SESSIONS + "a_fresh_consumer_of_a_copy_that_lags_sees_all_messages_but_not_at_once",
        REPLICAS + "time_alone_brings_a_copy_nearer",
    ),
    255: row(
        "the level is chosen for each call",
        CORE + "the_leader_can_be_asked_first", CORE + "a_level_that_is_none", DRIVERS + "a_session_on_a_real_server",
    ),
    256: row(
        "read your writes, and monotonic reads",
        STATEFUL + "TestSessions", CORE + "it_never_reads_backwards", TOKEN + "it_survives_its_bytes",
        SESSIONS + "write_then_read", SESSIONS + "what_a_lagging_replica_lacks",
        DRIVERS + "a_session_on_a_real_server", README + "sessions",
        STALE + "a_session_reads_what_it_wrote_through_a_replica_that_lags",
        STALE + "batches_of_a_session_do_not_end_early",
    ),
    257: row(
        "no linearizable reads: none are pretended",
        CORE + "a_level_that_is_none", "client/test_single.py::test_what_no_server_would_answer_is_not_asked",
        DRIVERS + "what_no_server_promises_is_not_pretended",
    ),
    258: row("the same for key-value buckets, which are streams", DRIVERS + "the_revisions_of_a_bucket"),
}  # fmt: skip
