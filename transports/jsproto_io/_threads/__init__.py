"""How threads share one socket: which one leads, how the others wait, and what Ctrl-C does to them."""
