"""What publishers send to a stream: checks before a message is stored, atomic batches, fast-ingest batches, replies."""
