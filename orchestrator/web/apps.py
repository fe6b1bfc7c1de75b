"""The Django application."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Holds the service's own tables."""

    name = "orchestrator.web"
    label = "web"

    def ready(self) -> None:
        """Lets signing in and out be logged."""
        from orchestrator.web import security_log  # noqa: PLC0415  it imports models, which are ready only now

        security_log.connect()
