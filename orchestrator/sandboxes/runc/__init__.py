"""Starts containers with runc, without an engine. Each has its own mount of its image."""

plugin = "orchestrator.sandboxes.runc.backend:RuncBackend"
