"""Managing streams and the account: what is asked of the JetStream API, and what becomes of the answers.

Where to look:

* The verbs: ``streams``.
* Changes, which fetch a configuration first: ``changes``.
"""
