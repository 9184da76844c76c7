"""Publishing to streams: many messages under way, fast-ingest batches, atomic batches.

Where to look:

* Fast-ingest batches: ``fast``. Its window is ``rules.window``. ``sent_log`` keeps what waits for its acknowledgement.
* Atomic batches: ``atomic``. What both kinds of batch share: ``batch``.
* One acknowledgement for each message: ``pipelined``. One message: ``client.jetstream``.
* Batches that the server gave up: ``advisories``.
* Options of the verbs: ``publish_options``.
* What counts as a message: ``message``. The headers of its keywords: ``grammar.publish_headers``.
"""
