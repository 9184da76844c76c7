"""Copies of a stream: replicas that lag, mirrors that hold a part, sources, and the headers that copies keep."""
