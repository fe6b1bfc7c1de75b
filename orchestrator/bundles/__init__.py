"""Signed bundles and receipts: written by the organizers, and verified by anybody."""
