"""Consumers of a stream: what is delivered to whom and when, and what becomes of their acknowledgements.

Where to look:

* The whole: ``consumer``. Which configuration is accepted: ``settings``.
* First deliveries: ``cursor``. Redelivery: ``redelivery`` has the timers and the queue.
* Acknowledgements: ``acks`` reads them, ``delivery_state`` applies them and has the ack floor.
* A NAK with a delay: ``acks.nak_delay``, ``delivery_state.redeliver``, ``redelivery.postpone``.
* Pull requests: ``pull_requests``. Priority groups: ``priority``.
* Push consumers: ``flow_control``.
* What is sent besides messages: ``statuses``, ``advisories``.
"""
