"""Pure functions and value types: what is on the wire, without state. Imports nothing of the library but errors."""
