"""Buckets of keys and values on a stream (ADR-8): the verbs, the scripts and the watch.

Where to look: ``bucket`` has the verbs of one bucket, ``manage`` what creates, binds, changes and lists buckets. What
the verbs do is in ``entries`` (reads), ``writes``, ``watch``, ``listing`` (keys, history, old markers), ``lock``,
``bucket_snapshot`` and ``bucket_session``. Their keywords are in ``bucket_options``. Several keys at once:
``transaction``, its ``commit``, and ``attempts`` of it.

Not here: names, keys and configurations (``grammar.bucket_keys``, ``grammar.bucket_config``).
"""
