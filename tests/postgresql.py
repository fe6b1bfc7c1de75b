"""A PostgreSQL server for the tests: in a temporary folder, with a socket in that folder, stopped after the tests."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from orchestrator.ledger.round_folder import DATABASE

PROGRAMS = Path("/usr/lib/postgresql")
"""Debian installs the programs of each version in VERSION/bin below this folder."""
USER = "postgres"
START_SECONDS = 120


def programs() -> Path | None:
    """Returns the folder with the programs of the newest installed version, None if there is none."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """Runs a server and gives the URL of an empty database. If root runs the tests, it runs as the user `postgres`."""
    who = {"user": USER, "group": USER} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="sparring-pg-") as made:
        folder = Path(made)
        if who:
            subprocess.run(["chown", f"{USER}:{USER}", made], check=True)
        initdb = [str(programs / "initdb"), "-D", f"{made}/data", "-U", USER, "-A", "trust", "--no-sync"]
        subprocess.run([*initdb, "-E", "UTF8", "--locale=C"], check=True, capture_output=True, cwd=made, **who)
        words = [str(programs / "postgres"), "-D", f"{made}/data", "-k", made, "-c", "listen_addresses=", "-F"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, cwd=made, **who)
        try:
            _await(process, [str(programs / "pg_isready"), "-h", made], folder / "log")
            yield f"postgresql://{USER}@/{USER}?host={made}"
        finally:
            process.send_signal(signal.SIGQUIT)  # ends it immediately, because none of its data is kept
            process.wait()


def new_database(server: str, copy_of: str = "template1") -> str:
    """Makes an empty database, or a copy of one without connections, on a server, and returns its URL."""
    name = f"test_{secrets.token_hex(8)}"
    where = urlsplit(server)
    with psycopg.connect(where._replace(path=f"/{USER}").geturl(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {copy_of}")
    return where._replace(path=f"/{name}").geturl()


def url_of(folder: Path) -> str | None:
    """Returns the URL of the database with a contest's ledger, None if the ledger is in the contest's folder."""
    named = folder / DATABASE
    return json.loads(named.read_bytes())["url"] if named.exists() else None


def copy_contest(folder: Path, to: Path) -> None:
    """Copies a contest's folder; if its ledger is in a database, copies that to a new one on the same server."""
    shutil.copytree(folder, to)
    if url := url_of(folder):
        named = to / DATABASE
        copied = new_database(url, copy_of=urlsplit(url).path.lstrip("/"))
        named.write_text(json.dumps(json.loads(named.read_bytes()) | {"url": copied}))


def _await(process: subprocess.Popen[bytes], ready: list[str], log: Path) -> None:
    """Waits until the server answers. Raises AssertionError with the server's log if it does not."""
    until = time.monotonic() + START_SECONDS
    while subprocess.run(ready, capture_output=True, check=False).returncode:
        assert process.poll() is None, log.read_text("utf-8", "replace")
        assert time.monotonic() < until, log.read_text("utf-8", "replace")
        time.sleep(0.05)
