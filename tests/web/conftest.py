"""Fixtures that serve a contest in this process with Django's test client, and functions for accounts and roles."""

import shutil
from contextlib import ExitStack, contextmanager

import pytest

from orchestrator.application.contests import seasons
from orchestrator.domain.contest_events import PersonRecord, RoleGranted
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings
from tests import chromium, plain_player, postgresql
from tests.application.conftest import Cup

from . import world as worlds

ADDRESS = "http://127.0.0.1:8000"
running_browser, pytest_runtest_teardown = chromium.running_browser, chromium.pytest_runtest_teardown


@pytest.fixture(scope="session")
def service(tmp_path_factory, service_database):
    """Django, configured once for this process, with its own tables."""
    folder = tmp_path_factory.mktemp("service")
    setup.configure(WebSettings(contest=folder, address=ADDRESS, database=service_database))
    setup.make_tables()
    from django.test.signals import setting_changed

    setting_changed.connect(close_site)
    return folder


def empty_tables():
    """Empties the tables of accounts and the cache.

    Also removes the content types and permissions that Django adds after a migration, because nothing here reads them.
    """
    from django.core.cache import cache
    from django.core.management import call_command

    call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
    cache.clear()


@contextmanager
def serving(folder):
    """Serves the contest in a folder while the block lasts, with empty tables of accounts."""
    from django.test import override_settings

    empty_tables()
    with override_settings(SPARRING=WebSettings(contest=folder, address=ADDRESS)):
        yield folder


def close_site(*, setting, value, **_):
    """Closes a contest's site, which may have a connection to a database, when another contest is served."""
    from orchestrator.web import contest_site

    site = contest_site._site
    if setting != "SPARRING" or site is None or site.folder.path == value.contest:
        return
    site.close()
    contest_site._site = None


@pytest.fixture(scope="session")
def new_contest(tmp_path_factory):
    """The folder of a contest from the tournament's template. Tests must not change it."""
    folder = tmp_path_factory.mktemp("new") / "cup"
    seasons.create_contest(folder, "tournament")
    return folder


@pytest.fixture
def contest(service, new_contest, tmp_path):
    """The folder of a served copy of `new_contest`, with empty tables of accounts."""
    folder = tmp_path / "cup"
    postgresql.copy_contest(new_contest, folder)
    with serving(folder):
        yield folder


@pytest.fixture(scope="session")
def played_season(tmp_path_factory):
    """A season whose initial round was played on two tasks, by One's attack and Two's defence, which answers by chance.

    There is a finding against that defence. Three's attack on the task halves came after its round was played.
    """
    cup = Cup(tmp_path_factory.mktemp("season"), more={"replay": {"power": 0.9, "cheat": 0.3}}).open()
    cup.submit("One", cup.player("attack_honest"))
    cheat = cup.player("defence_chance")
    for file in plain_player.FILES:
        shutil.copy(file, cheat)
    cup.submit("Two", cheat)
    cup.play("initial", None)
    cup.submit("Three", cup.player("attack_honest", "late"), "halves")
    return cup.folder.path


@pytest.fixture
def season(service, played_season, tmp_path):
    """A copy of `played_season`, which is served."""
    folder = tmp_path / "cup"
    postgresql.copy_contest(played_season, folder)
    with serving(folder):
        yield folder


def give_role(folder, account, role):
    """Gives an account a role, as the command line does."""
    with seasons.administer(folder, "desk") as admin:
        person = PersonRecord(id=account.person, name=account.name)
        admin.append_event(RoleGranted(actor="desk", person=person, role=role))


def acts(folder, kind):
    """Returns the events of a type in a contest's ledger."""
    ledger = ContestFolder(folder).ledger()
    try:
        return [entry.event for entry in ledger.read() if isinstance(entry.event, kind)]
    finally:
        ledger.close()


def make_account(name: str):
    """Returns a new account with a verified address."""
    from allauth.account.models import EmailAddress

    from orchestrator.web.models import Account

    account = Account.objects.create(email=f"{name.lower()}@example.org", name=name)
    EmailAddress.objects.create(user=account, email=account.email, verified=True, primary=True)
    return account


def client_of(account=None):
    """Returns a test client that is signed in with an account, or not signed in."""
    from django.test import Client

    client = Client(HTTP_HOST="127.0.0.1:8000", enforce_csrf_checks=False)
    if account is not None:
        client.force_login(account)
    return client


@pytest.fixture(scope="session")
def played_world(tmp_path_factory):
    """The world of `worlds.play`, whose initial round was played. Tests must not change it."""
    return worlds.play(tmp_path_factory.mktemp("world"))


@pytest.fixture
def fresh_world(service, played_world, tmp_path):
    """Returns `fresh_world()`, which makes and serves a new copy of `played_world` at each call."""
    from itertools import count

    from django.test import override_settings

    numbers = count()
    with ExitStack() as served:

        def make():
            empty_tables()
            made = worlds.copied(played_world, tmp_path / f"world-{next(numbers)}")
            served.enter_context(override_settings(SPARRING=WebSettings(contest=made.folder, address=ADDRESS)))
            worlds.people_sign_up(made)
            return made

        yield make


@pytest.fixture
def world(fresh_world):
    """A served contest with a person of every kind and a thing of every kind."""
    return fresh_world()
