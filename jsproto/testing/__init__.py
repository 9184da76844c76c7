"""Testing without sockets and clocks: both roles of the library in one process, in simulated time."""
