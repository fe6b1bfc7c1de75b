"""Playing: jobs, players, the gate, and the order in which things happen."""
