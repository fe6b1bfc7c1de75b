"""The address that a load balancer or a cluster asks whether this process can answer."""

import pytest
from django.db import OperationalError, connection

from tests.web.conftest import client_of, make_account


def test_health_is_plain_and_for_everybody(contest):
    """It takes nobody's session, and no cache keeps it."""
    answer = client_of().get("/healthz/")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Cache-Control"] == "no-store"
    assert not answer.cookies


def test_without_the_ledger_nobody_is_sent_here(contest, monkeypatch):
    """503, and nothing about the inside."""
    from orchestrator.errors import StoreFault
    from orchestrator.web.contest_site import ContestSite

    def broken(_site):
        raise StoreFault("/secret/place cannot be read")

    client = client_of()
    client.raise_request_exception = False
    monkeypatch.setattr(ContestSite, "season", broken)
    answer = client.get("/healthz/")
    assert answer.status_code == 503
    assert b"secret" not in answer.content


def refuse(_execute, *_call):
    """Answers for a database that is away."""
    raise OperationalError("server db.internal closed the connection")


@pytest.mark.usefixtures("contest")
def test_without_the_accounts_nobody_is_sent_here():
    """503, whatever the driver says."""
    with connection.execute_wrapper(refuse):
        answer = client_of().get("/healthz/")
    assert (answer.status_code, answer.content) == (503, b"the accounts' database does not answer\n")


@pytest.mark.usefixtures("contest")
@pytest.mark.parametrize("signed_in", [True, False])
@pytest.mark.parametrize("path", ["/my/", "/api/v1/me"])
def test_without_the_accounts_people_are_told_to_come_back(path, signed_in):
    """503 with the time after which to try again, and nothing about the inside."""
    client = client_of(make_account("Ada") if signed_in else None)
    client.cookies["session"] = client.cookies.get("session") or "of somebody"
    client.raise_request_exception = False
    with connection.execute_wrapper(refuse):
        answer = client.get(path, headers={"Authorization": "Bearer sparring_0123456789"})
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert b"internal" not in answer.content
