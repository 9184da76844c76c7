"""Consumers: which one a subscription is for, how its messages come, and how they are acknowledged (ADR-13, ADR-15).

Where to look:

* Options of the verbs: ``consume_options``.
* Choosing: ``subscribe`` finds, checks or creates a consumer. ``consumers`` has the requests about them.
* Pulling: ``pull`` is the consumer. ``fetch`` and ``fetch_queue`` are for fetches, ``message_stream`` for a stream.
* Requests under way: ``pull_requests``.
* Callbacks: ``work`` is what the workers of ``consume`` share, ``schedule`` has keys and slots.
* Pushing: ``push`` is the consumer, ``push_buffer`` keeps what it delivers.
* Ordering: ``ordered`` replaces its consumer after a gap. ``rules.sequence_gaps`` finds the gap.
* Sourcing: ``sourcing`` acknowledges what is stored elsewhere by answering flow control. ``rules.delivery_log`` has the
  numbers.
* Beginning again: ``resuming`` is what ``ordered`` and ``sourcing`` have in common.
* Flow control: ``flow_control`` answers a server that pushes. ``prefetch`` bounds what is pulled ahead.
* Heartbeats: ``heartbeats`` has the alarm of a silent consumer.
* Retries: ``retry`` has every pause. ``rules.status`` says which refusals pass.
* Priority groups: ``priority`` checks the settings. ``pull_requests`` keeps the pinned client's id.
* Messages and acknowledgements: ``message``.
* Dead letters: ``dead_letters`` stores what a consumer gave up. ``sweep`` finds what advisories left out.
"""
