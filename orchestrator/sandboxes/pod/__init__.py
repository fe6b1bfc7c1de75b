"""The player beside the driver in a pod, reached through FIFOs."""

plugin = "orchestrator.sandboxes.pod.backend:PodBackend"
