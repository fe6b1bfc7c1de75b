"""The registries that a cluster's images come from, as in tests/oci, and a test API server with kubectl."""

from tests.kubernetes_api.tests.conftest import cluster, hook, kubectl
from tests.oci.conftest import ask, registry, slept, start

__all__ = ["ask", "cluster", "hook", "kubectl", "registry", "slept", "start"]
