"""The server role: streams in memory, and what they answer to those who publish to them."""
