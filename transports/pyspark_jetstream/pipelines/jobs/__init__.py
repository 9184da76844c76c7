"""What the programs of ``pipelines`` do, and their options."""
