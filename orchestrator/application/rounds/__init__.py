"""Rounds played, here or on a cluster."""
