"""What the command line asks of a contest's site: its API, tokens that are kept for it, and uploads that go on."""
