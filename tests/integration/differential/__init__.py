"""Random programs on the server role and on a real server, which have to say the same.

* A program is a list of steps, each of which names what it does. Any step can be left out.
* ``programs`` makes one of a seed.
* ``links`` runs it: on the role in memory and in simulated time, on a real server over a socket.
* ``said`` makes the answers of both comparable, and explains what may differ.
* ``search`` finds differences, and leaves out the steps that they do not need.

``python -m tests.integration.differential --seeds 0:1000`` is the command.
"""
