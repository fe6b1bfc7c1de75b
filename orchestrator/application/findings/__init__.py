"""Findings played again for whoever doubts them."""
