"""One connection of a client: links, what is said at their beginning, subscriptions, requests.

Rules: nothing here knows streams or consumers, but how the JetStream API is asked.
"""
