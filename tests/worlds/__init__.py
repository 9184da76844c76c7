"""Worlds in which streams are read: the truth about a stream, and who compares an answer with it."""
