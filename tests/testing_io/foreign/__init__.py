"""Programs of clients that cannot be installed beside nats-py. They take a URL, and print what they saw as JSON."""
