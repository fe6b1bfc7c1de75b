"""Runs players as processes of this user, for submissions that the operator trusts."""

plugin = "orchestrator.sandboxes.process.backend:ProcessBackend"
