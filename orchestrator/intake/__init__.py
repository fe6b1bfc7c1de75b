"""Reads contest files, manifests and submissions, and admits entries."""
