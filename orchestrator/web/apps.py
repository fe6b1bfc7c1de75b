"""The Django application."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Holds the service's own tables."""

    name = "orchestrator.web"
    label = "web"
