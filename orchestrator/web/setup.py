"""Prepares a process of the service: configures Django once, and creates the service's tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.conf import settings as django_conf
from django.core.management import call_command
from django.db import connection

from orchestrator.errors import StoreFault, UsageError
from orchestrator.intake.yaml_file import YamlFile
from orchestrator.ledger.round_folder import LOCK_WAIT_SECONDS, lock_folder
from orchestrator.web.contest_site import web_settings
from orchestrator.web.settings import DATABASE_SCHEMA, FILE_NAME, WebFile, WebSettings, django_settings

SET_UP_LOCK = 0x5350_4157
"""The PostgreSQL advisory lock under which the service's tables are created."""


def read_web_file(contest: Path) -> WebFile:
    """Returns the settings in `web.yaml` of a contest's folder, defaults if there is none. Raises Rejected."""
    path = contest / FILE_NAME
    return YamlFile(path).parse_model(WebFile) if path.exists() else WebFile()


def configure(settings: WebSettings) -> None:
    """Configures Django for a contest. A process serves one contest, and cannot be configured for another.

    Raises:
        UsageError: the process was configured for another contest, or a file with a secret cannot be read.
    """
    if django_conf.configured:
        if settings != web_settings():
            raise UsageError("this process serves another contest already; start a process for each contest")
        return
    settings.folder.mkdir(mode=0o700, exist_ok=True)
    django_conf.configure(**django_settings(settings))
    django.setup(set_prefix=False)


def make_tables() -> None:
    """Creates or migrates the service's own tables. Processes that start at once do it one after the other.

    Raises:
        StoreFault: the database refuses it or cannot be reached.
        Busy: another process has been creating the tables for minutes.
    """
    from django.db import Error  # noqa: PLC0415  # not before Django is configured

    try:
        with _alone():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {DATABASE_SCHEMA}")
            call_command("migrate", verbosity=0, interactive=False)
            call_command("createcachetable", verbosity=0)
    except Error as error:
        raise StoreFault(f"the service's tables cannot be made: {error}; see --database") from error


@contextmanager
def _alone() -> Iterator[None]:
    """Holds the lock for creating tables, because Django's `migrate` takes none."""
    if connection.vendor != "postgresql":
        busy = "another process has been making the service's tables for minutes; wait for it or end it"
        with lock_folder(web_settings().folder, busy, patience=LOCK_WAIT_SECONDS):
            yield
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [SET_UP_LOCK])
        yield
    finally:
        connection.close()  # gives the lock back, also where a statement failed
