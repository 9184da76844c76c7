"""The halves of both facades that never wait, and what all drivers share."""
