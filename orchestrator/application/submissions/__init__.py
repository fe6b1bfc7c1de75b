"""Trial matches, checks and evaluations of submissions."""
