"""Role-blind tables and windows: what a link and a batch may do next, whoever asks."""
