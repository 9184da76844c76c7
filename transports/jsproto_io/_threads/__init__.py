"""How threads share one socket: who sleeps in it, who parks, and what Ctrl-C does to them."""
