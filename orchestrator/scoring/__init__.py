"""What the record says: tallies, boards, the results file and the report."""
