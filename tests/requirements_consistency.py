"""Which tests show which requirement: the rows 243 to 258 about consistency and persistence, by their number.

As ``tests.requirements``, which has the rows about publishing.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import SETTINGS, Row, row
from tests.requirements_direct import PAIR, REPLICAS, recorded

_CLIENT: Final = "shown on the server's side only if at all: the client's part is not mapped yet"

SHOWN: Final[dict[int, Row]] = {
    243: row("persist_mode", SETTINGS + "the_persist_mode_stays", recorded("cons-persist_forms")),
    246: row(
        "asynchronous: no atomic batches, but fast ingest",
        SETTINGS + "what_is_refused", SETTINGS + "an_asynchronous_stream_takes_fast_ingest",
        recorded("cons-persist_forms"),
    ),
    247: row("asynchronous: one replica, on disk", SETTINGS + "what_is_refused", recorded("cons-persist_forms")),
    248: row(
        "who can be scaled up, and that the mode stays",
        SETTINGS + "scaling_up_is_for_streams_that_persist_at_once",
        SETTINGS + "leaving_the_persist_mode_out_is_a_change_of_an_asynchronous_stream",
        recorded("cons-persist_update"),
    ),
    249: row(
        "what is not set is not said, and the default neither",
        SETTINGS + "what_is_false_or_nothing_is_said_as_servers_say_it", recorded("cons-persist_forms"),
    ),
    250: row(
        "the API level that it needs",
        SETTINGS + "the_level_that_a_configuration_needs", SETTINGS + "what_a_release_does_not_know",
        recorded("cons-persist_level"),
    ),
    252: row(
        "reading from any replica can be stale",
        REPLICAS + "a_replica_that_lags_by_time", PAIR + "stale_reads_at_will",
    ),
    253: row(
        "reading from a mirror is the weakest",
        REPLICAS + "a_mirror_that_lags", PAIR + "a_mirror_answers_for_its_origin_as_far_as_it_has_come",
    ),
}  # fmt: skip

OPEN: Final[dict[int, str]] = {
    245: "the server role keeps nothing on disk, so nobody can see when it is written",
    257: "no server has linearizable reads, and the proposal says nothing that could be tested",
} | dict.fromkeys((244, 251, 254, 255, 256, 258), _CLIENT)
