"""The JetStream API of a server: requests about streams and consumers, and their answers.

Where to look:

* The account, streams, and messages as the leader has them: ``streams``.
* Consumers: ``consumers``.
* Reading requests, writing answers: ``requests``.
"""
