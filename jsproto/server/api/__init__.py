"""The JetStream API of a server: requests about streams and consumers, and their answers."""
