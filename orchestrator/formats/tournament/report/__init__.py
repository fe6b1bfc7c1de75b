"""The tournament's part of report pages: the matrix, how attacks transfer, and a submission's cells."""
