"""One stream in memory: its messages, its configuration, and what a server says when it refuses either."""
