"""The Django application."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Configures the Django application of the service's own tables."""

    name = "orchestrator.web"
    label = "web"

    def ready(self) -> None:
        """Connects the security log to the signals of signing in and out."""
        from orchestrator.web import security_log  # noqa: PLC0415  it imports models, which cannot be imported earlier

        security_log.connect()
