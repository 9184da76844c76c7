"""Fuzzing: one target for each parser, seeds for each, and a runner, ``python -m fuzz``. See README.md."""
