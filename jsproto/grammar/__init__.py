"""Pure functions and value types: what is on the wire, without state. Of the library it imports errors alone."""
