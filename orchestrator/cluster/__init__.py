"""Rounds on a Kubernetes cluster."""
