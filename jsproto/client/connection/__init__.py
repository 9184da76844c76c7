"""One connection of a client: its links, subscriptions and requests.

Where to look:

* The whole, as bytes in and bytes out: ``session``. Its options: ``connect_options``.
* One TCP connection, with handshake and keep-alive: ``link``. Reconnection: ``server_pool``.
* Write buffering and flushing: ``write_buffer``, and ``bulk_publish`` for many messages at once.
* Subscriptions: ``subscription``, ``message_buffer``, ``drain``. Requests: ``requests``, ``questions``, ``tokens``.
* Scripts, which wait for one answer after the other: ``script_runner``.

Rules: modules here know how the JetStream API is asked, and leave streams and consumers to others.
"""
