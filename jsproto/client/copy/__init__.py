"""Copies of one stream in another: what a sourcing end delivers is published again, each message once.

* ``copier``: which message of the source has which place in the target, and what is to be confirmed.
* ``columns``: the messages of a consumer as messages to publish, encoded by the thousand.
* ``target``: what the target has already, and from where a copy goes on.

Not here: the machines at both ends (``consume.sourcing``, ``publish.fast``, ``publish.atomic``), and the loop between
them, which waits (``jsproto_io._aio.copying``).
"""
