"""One stream in memory: its messages, its configuration, and the errors that refuse either.

Where to look:

* Messages, limits, message ids: ``stream``.
* Which configuration is accepted: ``settings``.
* What the streams of a server share, such as limits, release and time of day: ``context``.
* What a mirror takes of its origin: ``origin``.
* Codes and words of errors: ``refusals``.
"""
