"""Reading streams without a consumer: Direct Get (ADR-31), snapshots, consistent reads."""
