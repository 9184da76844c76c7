"""What the pages about workers and nats-py guarantee. See ``promises``."""

from __future__ import annotations

from typing import Final

from tests.promises import Promise, promise

CLIENT_WORK: Final = "client/test_work.py::test_"
CLIENT_SCHEDULE: Final = "client/test_schedule.py::test_"
DRIVERS_CONSUME: Final = "drivers/test_consume.py::test_"
DRIVERS_DEAD_LETTERS: Final = "drivers/test_dead_letters.py::test_"
DRIVERS_PARITY: Final = "drivers/test_parity.py::test_"
INTEGRATION_MANAGING: Final = "integration/test_managing_releases.py::test_"
PAIR_SWEEP: Final = "pair/test_sweep.py::test_"
PAIR_DEAD_LETTERS: Final = "pair/test_dead_letters.py::test_"
README: Final = "test_readme.py::test_"
SIMULATION: Final = "simulation/test_consume.py::test_"

QUOTED: Final[dict[str, tuple[Promise, ...]]] = {
    "Coming from nats-py: the table": (
        promise(
            "On threads the verbs are the same, without `await`.",
            DRIVERS_PARITY + "a_class_is_the_same",
            DRIVERS_PARITY + "contexts_and_iterators_match",
        ),
    ),
    "Callbacks": (
        promise(
            "It returns at once",
            DRIVERS_CONSUME + "no_more_callbacks_run_than_wanted",
            README + "callbacks",
        ),
        promise(
            "| returns | it is acknowledged, unless the callback has settled it |",
            DRIVERS_CONSUME + "callbacks_get_all_and_acknowledge",
            CLIENT_WORK + "what_the_callback_has_settled_itself_is_left_alone",
            SIMULATION + "nothing_is_acknowledged_before_its_callback_has_returned",
            SIMULATION + "an_early_acknowledgement_is_found",
        ),
        promise(
            "| raises | it comes again, after `retry_delay`, else the consumer's `backoff` for that delivery, else "
            "one second |",
            CLIENT_WORK + "what_a_callback_raised_from_comes_again_or_not",
            CLIENT_WORK + "the_backoff_follows_the_deliveries",
        ),
        promise(
            "| raises an exception of `term_on` | it does not come again.",
            DRIVERS_CONSUME + "a_failure_can_end_the_deliveries",
            CLIENT_WORK + "what_a_callback_raised_from_comes_again_or_not",
        ),
        promise(
            "| is cancelled | it is not acknowledged, and comes again after the consumer's `ack_wait` |",
            CLIENT_WORK + "a_key_waits_for_what_was_cancelled",
            DRIVERS_CONSUME + "a_callback_that_is_cancelled_acknowledges_nothing",
        ),
        promise(
            "It is not worked on twice at once in one program.",
            DRIVERS_CONSUME + "a_callback_that_hangs_does_not_get_its_message_twice",
            CLIENT_SCHEDULE + "a_second_delivery_takes_the_place_of_the_one_that_waits",
            CLIENT_SCHEDULE + "any_order_of_events_keeps_the_rules",
        ),
        promise(
            "With `working=True` reports of progress keep it",
            DRIVERS_CONSUME + "work_in_progress_outlasts_the_ack_wait",
        ),
        promise(
            "messages of one key are worked on one after the other, in the order of the stream. When one of them comes "
            "again, those after it wait for it.",
            DRIVERS_CONSUME + "messages_of_a_key_follow_each_other_after_a_failure_too",
            CLIENT_SCHEDULE + "any_order_of_events_keeps_the_rules",
            SIMULATION + "order_is_kept_within_a_key",
            SIMULATION + "a_key_that_does_not_wait_for_what_comes_again_is_found",
        ),
        promise(
            "Such a key waits for the delay and another `ack_wait`.",
            CLIENT_WORK + "a_key_goes_on_when_the_message_does_not_come_again",
        ),
        promise(
            "four for each callback unless given, and 16 at least.",
            CLIENT_WORK + "a_message_is_acknowledged_when_its_callback_has_returned",
        ),
        promise(
            "As many again may wait for their keys.",
            CLIENT_WORK + "only_so_many_messages_wait_for_their_keys",
        ),
        promise(
            "a lost link do not end it.",
            SIMULATION + "nothing_is_acknowledged_before_its_callback_has_returned",
        ),
        promise(
            "given back by a nak, so that another client gets them at once.",
            DRIVERS_CONSUME + "stop_waits_for_callbacks_and_gives_back_the_rest",
            CLIENT_WORK + "stop_waits_for_what_is_under_way_and_gives_back_the_rest",
        ),
        promise(
            "| `work.drain()` | worked off | waited for |",
            DRIVERS_CONSUME + "drain_works_off_what_has_come",
            CLIENT_WORK + "drain_works_off_what_has_come",
        ),
        promise(
            "| `nc.drain()` | worked off, up to the connection's `timeout` | waited for, up to that |",
            DRIVERS_CONSUME + "draining_the_connection_waits_for_callbacks",
        ),
        promise(
            "Afterwards the subscription can be used again.",
            CLIENT_WORK + "the_consumer_can_be_used_again",
            DRIVERS_CONSUME + "stop_waits_for_callbacks_and_gives_back_the_rest",
        ),
    ),
    "A pool of workers": (
        promise(
            "These programs work until a signal ends them.",
            README + "a_pool_of_workers_ends_gracefully",
        ),
    ),
    "Dead letters": (
        promise(
            "A dead letter has the payload and the headers of its message.",
            DRIVERS_DEAD_LETTERS + "what_a_consumer_gives_up_is_kept",
            PAIR_DEAD_LETTERS + "a_terminated_message_keeps_what_it_was_and_why",
        ),
        promise(
            "What was given up while no program was at work is stored by the next one.",
            DRIVERS_DEAD_LETTERS + "what_was_given_up_meanwhile_is_stored_by_the_next_program",
        ),
        promise(
            "the one that takes them, or `ORDERS-GIVEN-UP`, which is created.",
            PAIR_DEAD_LETTERS + "a_stream_that_takes_the_advisories_is_taken",
            PAIR_DEAD_LETTERS + "the_stream_of_the_advisories_is_created_once",
        ),
        promise(
            "A message that was given up without an advisory, or before that stream existed, is found there.",
            DRIVERS_DEAD_LETTERS + "what_was_given_up_without_an_advisory_is_found",
            INTEGRATION_MANAGING + "each_release_shows_what_was_given_up_without_an_advisory",
            PAIR_SWEEP + "what_was_given_up_before_anybody_kept_advisories_is_buried",
            PAIR_SWEEP + "an_advisory_that_its_stream_loses_is_made_up_for",
            PAIR_SWEEP + "exactly_what_was_given_up_is_buried",
        ),
        promise(
            "or `unacknowledged` where no advisory came.",
            DRIVERS_DEAD_LETTERS + "what_was_given_up_without_an_advisory_is_found",
            PAIR_SWEEP + "while_advisories_wait_nothing_is_swept",
        ),
        promise(
            "once nothing is outstanding, or once the ack floor has passed the message.",
            PAIR_SWEEP + "what_is_outstanding_is_left_until_it_is_settled",
            PAIR_SWEEP + "what_the_ack_floor_has_passed_is_buried_beside_outstanding_ones",
        ),
        promise(
            "A sweep buries no message that is outstanding.",
            PAIR_SWEEP + "what_is_outstanding_is_left_until_it_is_settled",
            PAIR_SWEEP + "both_looks_must_find_a_message_settled",
            PAIR_SWEEP + "exactly_what_was_given_up_is_buried",
        ),
        promise(
            "whose messages no other consumer may want.",
            PAIR_SWEEP + "what_another_consumer_may_want_is_not_buried",
            PAIR_SWEEP + "a_list_that_lacks_a_consumer_proves_nothing",
            PAIR_SWEEP + "consumers_that_prove_nothing_are_not_swept",
        ),
        promise(
            "Elsewhere there is no sweep, because a letter that is not there may have been stored.",
            PAIR_SWEEP + "letters_whose_absence_says_nothing_are_not_swept_for",
        ),
        promise(
            "A letter that is deleted after a sweep does not come back.",
            PAIR_SWEEP + "a_letter_that_is_deleted_does_not_come_back_with_the_next_program",
            PAIR_SWEEP + "a_message_is_looked_at_once",
        ),
        promise(
            "A look that fails is the event `SweepFailed`, and repeated.",
            DRIVERS_DEAD_LETTERS + "a_look_that_fails_is_told",
            PAIR_SWEEP + "a_refused_letter_is_told_and_tried_again",
        ),
        promise(
            "Several programs may keep the same dead letters.",
            PAIR_SWEEP + "two_programs_that_sweep_at_once_bury_once",
            PAIR_DEAD_LETTERS + "two_programs_at_once_store_it_once",
            SIMULATION + "dead_letters_are_stored_once",
        ),
        promise(
            "Each dead letter is stored once, with `Nats-Msg-Id`, and long after the stream's `duplicate_window` too",
            DRIVERS_DEAD_LETTERS + "an_advisory_that_comes_again_is_stored_once",
            PAIR_DEAD_LETTERS + "an_advisory_that_comes_again_is_stored_once",
            PAIR_SWEEP + "an_advisory_that_comes_late_is_not_buried_again",
            SIMULATION + "dead_letters_are_stored_once",
            SIMULATION + "a_dead_letter_that_is_stored_without_a_look_is_found",
        ),
        promise(
            "It has a letter of its own, beside the old one.",
            "pair/test_dead_letters.py::test_a_sequence_that_was_given_out_again_has_a_letter_of_its_own",
        ),
        promise(
            "With a `subject=` of your own that leaves `{seq}` out, only the last letter of the subject is compared. "
            "Then one program at a time, and one consumer for a subject, are stored once.",
            PAIR_DEAD_LETTERS + "a_subject_that_letters_share_has_them_once_in_their_order",
        ),
        promise(
            "A stream that does not take the subject is a `DeadLetterError` at the start.",
            DRIVERS_DEAD_LETTERS + "what_does_not_fit_is_an_error_at_the_start",
            PAIR_DEAD_LETTERS + "a_stream_that_does_not_take_the_subject_is_an_error_at_the_start",
        ),
        promise(
            "What it refuses later, for example because it is full, is tried again",
            DRIVERS_DEAD_LETTERS + "a_full_stream_of_dead_letters_is_tried_again",
        ),
    ),
}
"""By section."""

DESCRIBED: Final[dict[str, tuple[str, ...]]] = {
    "Callbacks": ("So an order for all clients needs one client",),
    "Dead letters": (
        "Servers send an advisory once, and lose some",
        "acknowledged messages stay, so nothing tells them from others.",
        "The other streams delete what is terminated, so a sweep finds nothing of it.",
    ),
}
"""By section: sentences that sound like a guarantee, and describe something."""
