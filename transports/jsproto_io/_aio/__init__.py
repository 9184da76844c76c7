"""The facade for event loops: what an application awaits under asyncio and trio."""
