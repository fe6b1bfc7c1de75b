"""Containers started by runc itself, without an engine, each with a mount of its image of its own."""

plugin = "orchestrator.sandboxes.runc.backend:RuncBackend"
