"""Pods of this project as real processes of this machine, for the test cluster's kubelets: see `pods.Machine`."""

from tests.executors.kubernetes.pod_processes.pods import Machine

__all__ = ["Machine"]
