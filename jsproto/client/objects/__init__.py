"""Buckets of objects on a stream (ADR-20): the verbs, what puts and gets an object, lists and garbage.

Where to look: ``object_store`` has the verbs of one bucket, ``stores`` what creates, binds, changes and lists buckets.
``put`` and ``get`` are the machines that carry content, and ``sending`` is how chunks leave. ``describing`` reads and
stores descriptions, ``linking`` follows and makes links, ``listing`` lists objects and removes garbage,
``watching`` watches them. Keywords are in ``object_options``.

Not here: names, descriptions and configurations (``grammar.object_info``, ``grammar.object_store_config``).
"""
