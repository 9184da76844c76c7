"""Copies of a stream: replicas that lag, mirrors that hold a part, sources, and the headers that copies keep.

Where to look:

* Replicas, and mirrors of streams that keep their messages: ``replicas``.
* Sources, and mirrors that a durable consumer feeds: ``following`` decides how each is read.
* Reading from the store: ``store_reader``. Reading by a consumer: ``consumer_reader``, with ``consumer_requests``.
* How copies are stored, and how far each copy is: ``progress``, ``copied``.
"""
