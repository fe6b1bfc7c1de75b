"""The self-test of a sandbox: runs hostile programs and compares the result of each with its expectation."""
