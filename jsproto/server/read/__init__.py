"""Direct Get: one copy of a stream answers requests for its messages."""
