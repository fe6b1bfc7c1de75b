"""Rounds on a Kubernetes cluster."""

plugin = "orchestrator.executors.kubernetes.executor:KubernetesExecutor"
