"""The append-only record of rounds and contests: its stores, its folders, and the queries on it."""
