"""The self-test of a sandbox: hostile programs that attack it, and what must become of each."""
