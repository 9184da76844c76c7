"""Copies of a stream: replicas that lag, mirrors that hold a part, and what becomes of headers on the way."""
