"""The client role: the session that speaks bytes and the conversations it hosts."""
