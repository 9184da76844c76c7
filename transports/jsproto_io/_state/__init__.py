"""The parts of the facades that never wait, and the parts that all drivers share."""
