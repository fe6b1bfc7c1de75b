"""Reads archives from strangers: parts for all formats, and the zip format. Callers add their own rules."""
