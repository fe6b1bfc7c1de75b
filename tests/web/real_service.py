"""A service in a process of its own, at a free port of this machine, which a test can kill and start again."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from copy import copy
from pathlib import Path

from typer.testing import CliRunner

from orchestrator.application.contests import seasons
from orchestrator.cli.app import app
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.remote.client import ServiceClient
from tests import postgresql

PATIENCE = 300
ROOT = Path(__file__).resolve().parents[2]
_DJANGO = """
import os, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings
database = os.environ.get("SPARRING_DATABASE")
setup.configure(WebSettings(contest=Path(sys.argv[1]), address=sys.argv[2], database=database))
setup.make_tables()
from orchestrator.web import tokens
from orchestrator.web.models import Account
"""
_ISSUE = """
account, _ = Account.objects.get_or_create(email="ada@example.org", defaults={"name": "Ada L."})
days = int(sys.argv[3])
now = datetime.now(UTC) + timedelta(days=min(0, days))
lifetime = timedelta(days=abs(days) / 2)
print(account.person, tokens.issue(account, "tests", tokens.Scope.SUBMIT, now=now, lifetime=lifetime))
"""
_APPROVE = """
now = datetime.now(UTC)
waiting = tokens.find_waiting(sys.argv[3], now)
print(waiting.name, tokens.answer(waiting, Account.objects.get(), now, approved=True))
"""


def free_ports(count):
    """Returns ports of this machine that are free now."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in held]


def await_listener(port, process, log):
    """Waits until a process listens at a port. Fails with the process's `log` if it ends first."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < until, "it does not listen"
            time.sleep(0.1)


def environment(folder, **more):
    """Returns the environment variables for commands of Sparring."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder / "config"), **more}


class RealService:
    """`sparring serve --no-worker` for a contest with the team Corner Shop, of which Ada is a member.

    The contest is in the subfolder `cup`, and is made here if it does not exist. Accounts are in the database that has
    its ledger, or else in its folder. `address` is the public address if there is a proxy in front.
    """

    def __init__(self, folder, address=""):
        self.folder, self.home = folder / "cup", folder
        self.log, self.process = folder / "service.log", None
        self._public_address = address
        if not self.folder.exists():
            seasons.create_contest(self.folder, "tournament")
        database = postgresql.url_of(self.folder)
        self.environment = environment(folder, **({"SPARRING_DATABASE": database} if database else {}))
        self._take_port()
        (self.folder / "web").mkdir(mode=0o700)
        person, self.token = self.make_token(days=10)
        with seasons.administer(self.folder) as admin:
            admin.add_team("Corner Shop", [PersonRecord(id=person, name="Ada L.")])

    def _take_port(self):
        (self.port,) = free_ports(1)
        self.address = self._public_address or f"http://127.0.0.1:{self.port}"

    def another(self):
        """Returns another service for the same contest, at another port."""
        other = copy(self)
        other.process = None
        other._take_port()
        return other

    def _run(self, script, *words):
        done = subprocess.run(
            [sys.executable, "-c", _DJANGO + script, str(self.folder), self.address, *words],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def make_token(self, *, days):
        """Returns Ada's id and a token that is valid for `days` / 2; with negative `days`, it expired that long ago."""
        return self._run(_ISSUE, str(days))

    def approve(self, code):
        """Approves the program that shows a code, and returns its name and the answer."""
        return self._run(_APPROVE, code)

    def start(self):
        """Starts the service, and returns once it listens."""
        words = ["serve", str(self.folder), "--port", str(self.port), "--no-worker", "--address", self.address]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "orchestrator", *words], env=self.environment, stdout=log, stderr=log
            )
        await_listener(self.port, self.process, self.log)

    def kill(self):
        """Kills the service with SIGKILL, like a power cut."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def client(self):
        """Returns a client with Ada's token."""
        return ServiceClient(self.address, self.token)

    def sparring(self, *words, token=None):
        """Runs a command of a remote participant, in this process."""
        given = {**self.environment, "SPARRING_TOKEN": self.token if token is None else token}
        with contextlib.chdir(self.home):
            return CliRunner().invoke(app, words, env=given)
