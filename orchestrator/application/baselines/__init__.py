"""Training and checking the organizers' baselines."""
