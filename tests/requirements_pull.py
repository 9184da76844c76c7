"""Which tests show which requirement of pulling and acknowledging (ADR-15), by the numbers of the subscribe workflow.

Only the rows, or the halves of rows, that are about pull consumers and about acknowledgements. Form and meaning are
those of ``requirements``.
"""

from __future__ import annotations

from typing import Final

from tests.requirements import Row, row

CONSUMERS = "client/test_consumers.py::test_"
JSACK = "grammar/test_jsack.py::test_"
JSMSG = "client/test_jsmsg.py::test_"
PULL = "client/test_pull.py::test_"
PULLING = "drivers/test_pulling.py::test_"
PULL_RELEASES = "integration/test_pull_releases.py::test_"
PULL_STATEFUL = "stateful/test_pull_stateful.py::TestPulls"
STATUS = "rules/test_status.py::test_"

PULL_SHOWN: Final[dict[int, Row]] = {
    183: row("pull with ack none is an error", PULLING + "a_durable_consumer_stays_unless_it_is_to_go"),
    186: row("a consumer that is not there is created to be pulled from", PULLING + "a_consumer_of_its_own"),
    193: row("pull onto a push consumer is an error", PULLING + "what_a_consumer_does_not_allow"),
    195: row("a difference is named by its field", PULLING + "a_durable_consumer_stays_unless_it_is_to_go"),
    199: row("the newer subjects to create consumers", CONSUMERS + "creating"),
    200: row("deleted at the end if we created it", PULLING + "a_consumer_of_its_own"),
    201: row("a shared durable stays", PULLING + "a_durable_consumer_stays_unless_it_is_to_go"),
    204: row("a drain delivers what is buffered", PULLING + "a_drained_subscription_gives_what_it_has"),
    205: row("what has no ack reply subject is no message of a stream", PULL + "what_is_no_message_of_a_stream"),
    206: row("the reply is used unchanged", JSMSG + "a_reply_that_says_nothing"),
    207: row("9 tokens", PULL_RELEASES + "the_version_of_the_ack_subjects"),
    208: row(
        "11 tokens",
        PULL + "both_versions_of_ack_subjects_are_messages",
        PULL_RELEASES + "the_version_of_the_ack_subjects",
    ),
    210: row("10 tokens, or no numbers: an error", JSMSG + "a_reply_that_says_nothing"),
    211: row("no domain is None", PULL_RELEASES + "the_version_of_the_ack_subjects"),
    213: row(
        "+ACK, -NAK, +TERM, +WPI",
        JSMSG + "terminal_acknowledgements_are_sent_once",
        PULL_RELEASES + "each_acknowledgement_means_what_it_says",
    ),
    214: row(
        "a delay, a reason",
        JSMSG + "terminal_acknowledgements_are_sent_once",
        PULLING + "every_kind_of_acknowledgement",
    ),
    215: row(
        "after a terminal one all are ignored",
        JSMSG + "terminal_acknowledgements_are_sent_once",
        PULLING + "every_kind_of_acknowledgement",
    ),
    216: row(
        "settled only once it was sent",
        JSMSG + "what_cannot_be_sent_is_not_settled",
        JSMSG + "an_acknowledgement_that_is_not_answered_may_be_tried_again",
    ),
    217: row(
        "policy none: ignored",
        JSMSG + "under_the_policy_none_nothing_is_sent",
        PULLING + "no_acknowledgements_are_sent_where_none_are_wanted",
    ),
    218: row("no error but for what cannot be sent", PULLING + "acknowledging_when_the_consumer_is_gone"),
    219: row("acknowledged by request", JSMSG + "an_acknowledgement_that_is_answered"),
    220: row(
        "+WPI while a block runs",
        JSMSG + "work_is_reported_until_it_stops",
        PULLING + "work_in_progress_is_not_delivered_again",
    ),
    221: row("no status is ever given out", PULL + "statuses_that_are_broken_or_for_nobody", PULL_STATEFUL),
    223: row("heartbeats of pull requests", PULL + "heartbeats", PULLING + "a_long_fetch_lives_on_heartbeats"),
    224: row(
        "an alarm after three intervals, or as many as wanted", PULL + "heartbeats", PULL + "the_alarm_can_be_moved"
    ),
    225: row("the alarm is told", PULL + "heartbeats", PULL + "a_silent_consumer_is_asked_again"),
    226: row("no alarm without a link", PULL + "no_alarm_without_a_link"),
    237: row(
        "404 and 408 are hidden, and not counted",
        PULL + "an_empty_fetch_is_no_error",
        PULL + "a_partial_fetch_that_does_not_wait_ends_with_404",
    ),
    238: row(
        "409 is raised",
        PULL + "an_error_ends_a_fetch_at_once",
        PULLING + "what_is_deleted_while_fetching_is_told_at_once",
    ),
    239: row(
        "the kinds of 409",
        STATUS + "the_table",
        STATUS + "every_recorded_status_is_known",
        PULL + "what_may_pass_is_asked_for_again",
    ),
    240: row(
        "503 is no responders",
        PULL + "an_error_ends_a_fetch_at_once",
        PULLING + "what_is_deleted_while_fetching_is_told_at_once",
    ),
    241: row("a status nobody knows is raised", PULL + "an_error_ends_a_fetch_at_once", STATUS + "the_table"),
    242: row(
        "pending counts are used",
        PULL + "requests_are_served_in_turn_and_only_their_sum_counts",
        STATUS + "pending_counts",
        PULL_STATEFUL,
    ),
}

PULL_FAULTS: Final[dict[str, tuple[Row, ...]]] = {
    "nats-py": (
        row(
            "with version 2 of the ack subjects consumers die",
            PULL_RELEASES + "every_message_once_and_every_one_acknowledged",
        ),
        row(
            "a fetch from a deleted consumer waits for all of its time",
            PULLING + "what_is_deleted_while_fetching_is_told_at_once",
            PULL_RELEASES + "a_deleted_consumer_is_told_at_once",
        ),
        row("a fetch from a consumer that is not there says nothing of it", PULL + "an_error_ends_a_fetch_at_once"),
        row("a second acknowledgement raises", JSMSG + "terminal_acknowledgements_are_sent_once"),
        row("an empty fetch raises", PULL + "an_empty_fetch_is_no_error", PULLING + "fetching_and_acknowledging"),
        row("heartbeats that stay away are not told", PULL + "heartbeats"),
    ),
    "natsrpy": (
        row(
            "version 2 of the ack subjects has too many tokens for it",
            PULL + "both_versions_of_ack_subjects_are_messages",
        ),
    ),
    "nats-jetstream": (
        row("a message is acknowledged again and again", JSMSG + "terminal_acknowledgements_are_sent_once"),
        row("metadata is made up where there is none", JSMSG + "a_reply_that_says_nothing"),
        row("requests are polled for", PULL + "a_stream_of_messages_waits_without_polling"),
        row(
            "most kinds of 409 end an iteration silently", PULL + "an_error_ends_a_stream_of_messages_behind_what_came"
        ),
    ),
    "reported": (
        row(
            "a fetch hangs with messages waiting",
            PULL_STATEFUL,
            PULL + "the_server_says_nothing_of_a_full_max_ack_pending",
        ),
        row(
            "a fetch that is cancelled loses messages",
            PULL + "what_comes_for_a_fetch_that_was_given_up_is_for_the_next",
            PULLING + "a_fetch_that_is_cancelled_loses_nothing",
        ),
        row("long work is delivered again", PULLING + "work_in_progress_is_not_delivered_again"),
    ),
}
