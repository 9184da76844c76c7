"""Programs that write files of the repository; each has a test that runs it and compares."""
