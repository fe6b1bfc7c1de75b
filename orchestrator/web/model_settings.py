"""Minimal Django settings for the type checker and for `django-admin makemigrations`, never for a service.

DJANGO_SETTINGS_MODULE=orchestrator.web.model_settings django-admin makemigrations web
"""

from pathlib import Path

from orchestrator.web.settings import WebSettings

SPARRING = WebSettings(contest=Path(), address="http://127.0.0.1:8000")
SECRET_KEY = "for type checkers alone"  # noqa: S105
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "orchestrator.web.apps.WebConfig"]
AUTH_USER_MODEL = "web.Account"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
