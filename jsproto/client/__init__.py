"""The client role: the session that speaks bytes and the conversations it hosts.

Where to look: ``jetstream`` is the API, where a reader begins. ``scripts`` has the requests that take several steps.
``connection``, ``publish``, ``manage``, ``consume``, ``read`` and ``bucket`` have maps of their own.
"""
