"""The registries that a cluster's images come from: as in tests/oci."""

from tests.oci.conftest import ask, registry, slept, start

__all__ = ["ask", "registry", "slept", "start"]
