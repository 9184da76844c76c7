"""The facade for threads: what an application calls, and parks on, in blocking code."""
