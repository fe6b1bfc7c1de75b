"""Publishes and verifies bundles."""
