"""Publishing to streams: many messages under way, fast-ingest batches, atomic batches."""
