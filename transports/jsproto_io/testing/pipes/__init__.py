"""Links without sockets: the server in memory at one end, and the clients' drivers at the other."""
