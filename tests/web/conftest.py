"""A contest served in this process: Django's test client, people with accounts, and their roles."""

import pytest

from orchestrator.web import setup
from orchestrator.web.settings import WebSettings

ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Django, configured once for this process, with its own tables in a file."""
    folder = tmp_path_factory.mktemp("service")
    setup.configure(WebSettings(contest=folder, address=ADDRESS))
    setup.make_tables()
    return folder


@pytest.fixture
def contest(service, tmp_path):
    """A contest folder that is served, opened with the tournament's template; tables of accounts are empty."""
    from django.core.cache import cache
    from django.core.management import call_command
    from django.test import override_settings

    from orchestrator.application.contests import seasons

    folder = tmp_path / "cup"
    seasons.create_contest(folder, "tournament")
    call_command("flush", verbosity=0, interactive=False)
    cache.clear()
    with override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS)):
        yield folder


def make_account(name: str):
    """Returns an account whose address was verified."""
    from allauth.account.models import EmailAddress

    from orchestrator.web.models import Account

    account = Account.objects.create(email=f"{name.lower()}@example.org", name=name)
    EmailAddress.objects.create(user=account, email=account.email, verified=True, primary=True)
    return account


def client_of(account=None):
    """Returns a browser without scripts in which somebody is signed in, or nobody."""
    from django.test import Client

    client = Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=False)
    if account is not None:
        client.force_login(account)
    return client
