"""Copies of a stream: replicas that lag, mirrors that hold a part, and the headers that copies keep."""
