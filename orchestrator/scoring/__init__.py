"""Computes tallies, leaderboards and the results file from a round's ledger."""
