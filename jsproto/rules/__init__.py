"""Tables of phases and windows: what a link, a batch, an ordered consumer or a read may do next."""
