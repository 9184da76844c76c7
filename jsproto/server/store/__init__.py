"""One stream in memory: its messages, its configuration, and the errors that refuse either."""
