"""What expired is taken away at the start of the service and each day; what holds stays."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.application.contests import seasons

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
PAST, COMING = NOW - timedelta(seconds=1), NOW + timedelta(days=1)


@pytest.fixture
def site(contest):
    """The contest that is served, at noon."""
    from orchestrator.web.contest_site import ContestSite

    found = ContestSite(contest, lambda: NOW)
    yield found
    found.close()


@pytest.fixture
def expired(contest):
    """One of each kind that expired, and one that holds."""
    from django.contrib.sessions.models import Session

    from orchestrator.web.models import Invitation, RequestBudget, Upload
    from tests.web.conftest import make_account

    (contest / "web" / "uploads").mkdir(parents=True)
    account = make_account("Ada")
    for name, moment in (("old", PAST), ("new", COMING)):
        Invitation.objects.create(digest=name, team="Reds", invited_by="desk", expires=moment)
        RequestBudget.objects.create(key=name, tokens=1, updated=moment - timedelta(days=2))
        Upload.objects.create(
            public_id=name, account=account, team="Reds", task="digits", file_name="it.tar", size=9, expires=moment
        )
        (contest / "web" / "uploads" / name).touch()
        really = datetime.now(UTC) + (moment - NOW) * 2  # Django's own sweep asks the machine for the time
        Session.objects.create(session_key=name, session_data="", expire_date=really)
    Invitation.objects.create(digest="used", team="Reds", invited_by="desk", expires=COMING, uses_left=0)


def what_is_left(contest):
    """Returns what is still there, of each kind."""
    from django.contrib.sessions.models import Session

    from orchestrator.web.models import Invitation, RequestBudget, Upload

    kinds = (("digest", Invitation), ("key", RequestBudget), ("public_id", Upload), ("session_key", Session))
    rows = [sorted(kind.objects.values_list(name, flat=True)) for name, kind in kinds]
    return [*rows, sorted(each.name for each in (contest / "web" / "uploads").glob("[!.]*"))]


def test_what_expired_is_removed_and_nothing_else(contest, site, expired):
    """Uploads go with their files; an invitation that was used up goes too."""
    from orchestrator.web import housekeeping

    assert what_is_left(contest)[0] == ["new", "old", "used"]
    housekeeping.sweep(site)
    assert what_is_left(contest) == [["new"]] * 5


def test_it_is_swept_at_the_start_and_each_day(site, monkeypatch):
    """The first time before anybody is answered, then each time that the period has passed, until the service ends."""
    from orchestrator.web import housekeeping

    swept, often = [], threading.Event()

    def note(which):
        swept.append(which)
        if len(swept) == 4:
            often.set()

    monkeypatch.setattr(housekeeping, "sweep", note)
    with housekeeping.swept_daily(site):
        assert swept == [site]
    monkeypatch.setattr(housekeeping, "PERIOD_SECONDS", 0.001)
    with housekeeping.swept_daily(site):
        assert often.wait(60)


def test_a_fault_is_left_to_the_next_sweep(contest, site, expired, monkeypatch):
    """The service starts all the same."""
    from orchestrator.web import housekeeping, uploads

    with monkeypatch.context() as broken:
        broken.setattr(uploads, "sweep", lambda _: (_ for _ in ()).throw(OSError("no space")))
        housekeeping.sweep(site)
    assert what_is_left(contest)[2] == ["new", "old"]
    housekeeping.sweep(site)
    assert what_is_left(contest) == [["new"]] * 5


def test_serving_begins_with_a_sweep(tmp_path, monkeypatch):
    """`sparring serve` sweeps before it listens."""
    from orchestrator.cli import serve
    from orchestrator.web import housekeeping, server, setup

    done = []
    seasons.create_contest(tmp_path / "cup", "tournament")
    monkeypatch.setattr(setup, "configure", lambda _: None)
    monkeypatch.setattr(setup, "make_tables", lambda: done.append("tables"))
    monkeypatch.setattr(server, "first_link", lambda: None)
    monkeypatch.setattr(housekeeping, "sweep", lambda _: done.append("sweep"))
    monkeypatch.setattr(server, "serve", lambda *_: done.append("serve"))
    serve.run_service(tmp_path / "cup", serve.Listening(), serve.WorkerOptions(no_worker=True), as_json=True)
    assert done == ["tables", "sweep", "serve"]
