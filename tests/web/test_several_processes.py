"""Several processes serve one contest whose ledger and accounts are in PostgreSQL, as on a cluster."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

from orchestrator.application.contests import seasons
from orchestrator.ledger.contest_folder import ContestFolder
from tests import postgresql

from .real_service import free_ports

pytestmark = pytest.mark.xdist_group("postgresql")
HOST = "cup.test"
PATIENCE = 120
ASKED = 20
"""More requests to each process than connections that it keeps."""
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'sparring_web'"
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
"""Processes that wait for the lock under which tables are made."""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
SIGN_UP = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings

setup.configure(WebSettings(contest=Path(sys.argv[1]).resolve(), address="http://cup.test", database=sys.argv[2]))
from django.test import Client
from orchestrator.domain.contest_events import Role
from orchestrator.web import invitations
from tests.web.conftest import make_account

client = Client(HTTP_HOST="cup.test")
client.force_login(make_account("Ada"))
path = invitations.invite(by="organizer", role=Role.ORGANIZER, now=datetime.now(UTC))
print(json.dumps({"session": client.cookies["session"].value, "invitation": path}))
"""
"""Signs somebody in and invites them, in a process of its own."""


@contextmanager
def serving(cup, database: str, ports: list[int]):
    """Starts a service at each port, at once, without a worker, and gives the processes."""
    words = [sys.executable, "-m", "orchestrator", "serve", str(cup), "--no-worker", "--address", f"http://{HOST}"]
    words += ["--database", database]
    with ExitStack() as stack:
        processes = []
        for port in ports:
            log = stack.enter_context((cup.parent / "log").open("a"))
            process = subprocess.Popen([*words, "--port", str(port)], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def ask(port: int, path: str, cookies: dict[str, str], form: dict[str, str] | None = None):
    """Returns the status, the cookies that were set and the text of an answer."""
    headers = {"Host": HOST, "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET" if form is None else "POST", path, form and urlencode(form), headers)
        answer = connection.getresponse()
        found = [each.partition(";")[0].partition("=") for each in answer.headers.get_all("Set-Cookie") or ()]
        return answer.status, {name: value for name, _, value in found}, answer.read().decode()


def await_health(process, port: int) -> None:
    """Waits until a process is sent people."""
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, f"the process at port {port} ended"
        assert time.monotonic() < until
        try:
            status, _, text = ask(port, "/healthz/", {})
        except ConnectionRefusedError:
            time.sleep(0.1)
            continue
        assert (status, text) == (200, "ok\n")
        return


def count(connection: psycopg.Connection, query: str) -> int:
    """Returns the number that a query asks for."""
    return connection.execute(query).fetchone()[0]


@dataclass
class Pair:
    """Two processes that serve a contest, which wanted to make the tables at the same time."""

    cup: Path
    database: str
    ports: list[int]
    tables_before: int
    """How many tables there were when both waited for the lock."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory, database_server) -> Iterator[Pair]:
    """Two processes, both of which got to the lock before either might begin."""
    from orchestrator.web.setup import SET_UP_LOCK

    cup, database, ports = (
        tmp_path_factory.mktemp("pair") / "cup",
        postgresql.new_database(database_server),
        free_ports(2),
    )
    seasons.create_contest(cup, "tournament", database=database)
    with psycopg.connect(database, autocommit=True) as held:
        held.execute("SELECT pg_advisory_lock(%s)", [SET_UP_LOCK])
        with serving(cup, database, ports) as processes:
            until = time.monotonic() + PATIENCE
            while count(held, WAITING) < len(ports):
                assert [each.poll() for each in processes] == [None, None]
                assert time.monotonic() < until
                time.sleep(0.05)
            made = Pair(cup, database, ports, count(held, TABLES))
            held.execute("SELECT pg_advisory_unlock(%s)", [SET_UP_LOCK])
            for process, port in zip(processes, ports, strict=True):
                await_health(process, port)
            yield made


@pytest.mark.slow
def test_two_processes_make_the_tables_one_after_the_other(pair):
    """Both get there before either may begin; then both come up, and what they answer leaves no connection open."""
    assert pair.tables_before == 0
    with psycopg.connect(pair.database, autocommit=True) as seen:
        assert count(seen, TABLES) > 10
        assert count(seen, WAITING) == 0
        for port in pair.ports * ASKED:
            assert ask(port, "/account/login/", {"session": "a" * 32})[0] == 200
        assert count(seen, CONNECTIONS) < ASKED


@pytest.mark.slow
def test_what_is_done_through_one_process_holds_in_the_other(pair):
    """Somebody signed in elsewhere is signed in at both; a role that one of them noted opens pages of the other."""
    first, second = pair.ports
    words = [sys.executable, "-c", SIGN_UP, str(pair.cup), pair.database]
    made = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    cookies = {"session": made["session"]}
    assert [ask(port, "/account/", cookies)[0] for port in pair.ports] == [200, 200]
    assert ask(second, "/organize/", cookies)[0] == 403
    _, new, page = ask(first, made["invitation"], cookies)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
    form = {"csrfmiddlewaretoken": token}
    assert ask(first, made["invitation"], cookies | new, form)[0] == 302
    assert ask(second, "/organize/", cookies)[0] == 200
    assert ask(second, made["invitation"], cookies)[0] == 404
    ledger = ContestFolder(pair.cup).ledger()
    kinds = [entry.event.kind for entry in ledger.read()]
    ledger.close()
    assert kinds.count("role_granted") == 1


def test_processes_that_start_at_once_take_one_key(tmp_path):
    """A session that one of them signed is a session at the others."""
    from orchestrator.web.settings import read_secret_key

    found, gate = set(), threading.Barrier(8)

    def read():
        gate.wait()
        found.add(read_secret_key(tmp_path))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(tmp_path / "secret_key").read_text()}


def test_a_database_url_says_everything(tmp_path):
    """Characters of a password are escaped in it, and what follows `?` is for the driver."""
    from orchestrator.web.settings import WebSettings, django_settings

    (tmp_path / "web").mkdir()
    url = "postgresql://cup:a%40b%2Fc@db.example:5433/cup?sslmode=verify-full"
    made = django_settings(WebSettings(contest=tmp_path, address="http://127.0.0.1:8000", database=url))
    found = made["DATABASES"]["default"]
    assert [found[each] for each in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        *("cup", "a@b/c", "db.example", "5433", "cup")
    ]
    assert found["OPTIONS"] == {
        "connect_timeout": 5,
        "sslmode": "verify-full",
        "options": "-c search_path=sparring_web",
    }
