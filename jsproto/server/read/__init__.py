"""Direct Get: one copy of a stream answers whoever asks for its messages."""
