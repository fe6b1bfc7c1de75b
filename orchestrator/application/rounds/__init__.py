"""Plays rounds, on this machine or on a cluster."""
