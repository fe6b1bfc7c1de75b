"""Containers on the Docker engine of this machine."""

plugin = "orchestrator.sandboxes.docker.backend:DockerBackend"
