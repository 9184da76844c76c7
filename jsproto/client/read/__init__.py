"""Reading a stream without a consumer: Direct Get, and the stream's leader.

Where to look:

* The verbs: ``reads``. Their options: ``read_options``. One message: ``single``.
* Many messages: ``direct`` (from a sequence or time on), ``multi`` (last messages of subjects).
* How they are read: ``paged_read`` steps the table of ``jsproto.rules.belief``. ``feed`` has the page, ``facts`` and
  ``leader`` make facts of answers, and ``plans`` says what a read wants.
* Retry: ``retry``. The reader's side: ``buffered_read``, ``read_buffer``.
* Snapshots: ``snapshot``, ``past`` for those at an earlier sequence, and ``subject_list`` for the subjects that a
  wildcard matches.
* Read your writes: ``consistent_session`` (token and levels), ``consistency`` (proofs of freshness),
  ``consistent_batch`` (many messages).
* Whether a position still means the same: ``proof``.
"""
