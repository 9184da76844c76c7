"""Consumers of a stream: what is delivered to whom and when, and what becomes of their acknowledgements."""
