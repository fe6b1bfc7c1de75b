"""What a contest's site does under load while a round plays: visitors, large uploads and small submissions at once.

    python bench/web.py [--visitors 200] [--uploads 20] [--megabytes 200] [--per-second 5] [--seconds 60] [--json]

Makes the demo's contest in a temporary folder, plays its first round, lets more teams hand in, asks for the round
again, and starts `sparring serve` with its worker on the process backend. While that round plays,

    visitors       ask for the boards, each every 5 seconds over a connection of its own, at their own moments,
    uploads        send files in parts of 8 MiB, all at once,
    submissions    begin and finish small uploads, so many a second; what is in them is refused later by the worker.

All of it is on this machine, so that clients and players take processor time from the service. Nothing is asked for
after `--seconds`, and what is under way then is waited for no longer than a timeout: the script ends by itself.

It prints for each kind of request how many were answered, how many were put off (429, or 503 with Retry-After), how
many failed otherwise, and the median and 95th percentile of the time in milliseconds; and the service's memory. The
goals: nothing failed, and a median under 200 ms for the boards, on two cores.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from statistics import median, quantiles

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchestrator import resources
from orchestrator.application.contests import demo_contest, round_requests, seasons
from orchestrator.application.contests.administration import SubmissionRequest
from orchestrator.application.rounds import play_rounds
from orchestrator.domain.contest_events import PersonRecord
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.web import setup
from orchestrator.web.settings import WebSettings

HOW = play_rounds.RunOptions("process", None, allow_unisolated=True)
WORK = ("--backend", "process", "--allow-unisolated")
TIMEOUT = 120
PART = 8 * 1024 * 1024
VISIT_SECONDS = 5
TEAMS = 20
NEWCOMERS = ("attack_softmax", "attack_meanward", "defence_noisy_mlp", "defence_neighbours")
PUT_OFF = frozenset({429, 503})


@dataclass
class Tally:
    """How requests of one kind went. Threads share it."""

    seconds: list[float] = field(default_factory=list)
    put_off: int = 0
    failed: list[str] = field(default_factory=list)

    def count(self, what: str, seconds: float, answer: HTTPResponse | None) -> bool:
        """Counts a request; returns whether it was done."""
        status = answer.status if answer is not None else 0
        if HTTPStatus.OK <= status < HTTPStatus.BAD_REQUEST:
            self.seconds.append(seconds)
            return True
        if answer is not None and status in PUT_OFF and answer.headers["Retry-After"]:
            self.put_off += 1
        else:
            self.failed.append(f"{what}: {status or 'no answer'}")
        return False

    def figures(self) -> dict[str, object]:
        """Returns what is printed."""
        times = [1000 * each for each in self.seconds]
        return {
            "done": len(times),
            "put off": self.put_off,
            "failed": len(self.failed),
            "first failure": self.failed[0] if self.failed else "",
            "median ms": round(median(times), 1) if times else None,
            "95 % ms": round(quantiles(times, n=20)[-1], 1) if len(times) > 1 else None,
        }


class Client:
    """One connection that is kept, as a browser and a program keep theirs."""

    def __init__(self, port: int, tally: Tally, token: str = "") -> None:
        self.tally, self.token = tally, token
        self.connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> HTTPResponse | None:
        """Returns the answer, read to its end; None where the request was not done."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named["Authorization"] = f"Bearer {self.token}"
        began = time.monotonic()
        try:
            self.connection.request(method, path, body, named)
            answer = self.connection.getresponse()
            answer.read()
        except (HTTPException, OSError):
            answer = None
            self.connection.close()
        return answer if self.tally.count(f"{method} {path}", time.monotonic() - began, answer) else None


def visit(client: Client, first: float, until: float, wait: Callable[[float], object]) -> None:
    """Looks at the boards after so many seconds and then again and again, asking what is new, as browsers do."""
    tag = ""
    wait(first)
    while time.monotonic() < until:
        answer = client.ask("GET", "/boards/", **({"If_None_Match": tag} if tag else {}))
        tag = answer.headers["ETag"] if answer is not None else ""
        wait(min(VISIT_SECONDS, max(0.0, until - time.monotonic())))


def upload(client: Client, team: int, size: int, until: float) -> None:
    """Sends a file of random bytes in parts; gives up at the end of the time, or where a part fails."""
    head, block = os.urandom(min(size, 64)), os.urandom(PART)
    parts = [block[: min(PART, size - at)] for at in range(0, size, PART)]
    parts[0] = head + parts[0][len(head) :]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    words = {"team": f"Team {team}", "task": "digits", "filename": "it.tar", "sha256": digest.hexdigest()}
    said = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in words.items())
    tus = {"Tus_Resumable": "1.0.0"}
    begun = client.ask("POST", "/api/v1/uploads", Upload_Length=str(size), Upload_Metadata=said, **tus)
    if begun is None:
        return
    place, offset = begun.headers["Location"].partition("/api/")[2], 0
    for part in parts:
        if time.monotonic() > until + TIMEOUT or not _sent(client, f"/api/{place}", offset, part, until):
            return
        offset += len(part)


def _sent(client: Client, path: str, offset: int, part: bytes, until: float) -> bool:
    """Sends a part, again where it is put off; returns whether it was taken."""
    tus = {"Tus_Resumable": "1.0.0", "Content_Type": "application/offset+octet-stream"}
    while True:
        failures = len(client.tally.failed)
        if client.ask("PATCH", path, part, Upload_Offset=str(offset), **tus) is not None:
            return True
        if len(client.tally.failed) > failures or time.monotonic() > until:
            return False
        time.sleep(1)


def submit(clients: list[Client], per_second: float, until: float) -> None:
    """Hands in small files at an even pace, however long each takes: one thread a file."""
    threads, number, began = [], 0, time.monotonic()
    while time.monotonic() < until:
        team = number % TEAMS
        one = Client(clients[team].connection.port, clients[team].tally, clients[team].token)
        threads.append(threading.Thread(target=upload, args=(one, team, 4096, until), daemon=True))
        threads[-1].start()
        number += 1
        time.sleep(max(0.0, began + number / per_second - time.monotonic()))
    for thread in threads:
        thread.join(TIMEOUT)


def make_contest(folder: Path) -> None:
    """Makes the demo's contest, plays its first round, and asks for it once more with submissions that came since."""
    demo_contest.create_demo(folder, HOW)
    words = [sys.executable, "-m", "orchestrator", "work", str(folder), "--once", *WORK]
    subprocess.run(words, check=True, capture_output=True)
    source = resources.resource_path("examples", "demo") / "submissions"
    with seasons.administer(folder) as admin:
        backend = play_rounds.ready_backend(admin.contest, folder.resolve(), HOW)
        for number, name in enumerate(NEWCOMERS):
            copy = folder.parent / f"late_{name}"
            shutil.copytree(source / name, copy)
            manifest = (copy / "submission.yaml").read_text("utf-8")
            manifest = re.sub(r"^name:.*$", f"name: late-{number}", manifest, flags=re.MULTILINE)
            (copy / "submission.yaml").write_text(manifest, "utf-8")
            admin.add_team(f"Late {number}", [PersonRecord(id=f"late-{number}", name="Somebody")])
            admin.submit(SubmissionRequest(f"Late {number}", admin.contest.only_task, folder=copy), backend)
        round_requests.request_round(admin, demo_contest.ROUND)


def make_teams(folder: Path, port: int) -> list[str]:
    """Makes teams of one person each and returns their tokens."""
    setup.configure(WebSettings(contest=folder, address=f"http://127.0.0.1:{port}"))
    setup.make_tables()
    from orchestrator.web import tokens  # noqa: PLC0415  Django knows its settings only now
    from orchestrator.web.models import Account  # noqa: PLC0415

    now, made = datetime.now(UTC), []
    with seasons.administer(folder) as admin:
        for number in range(TEAMS):
            account = Account.objects.create(email=f"a{number}@example.org", name=f"A {number}")
            admin.add_team(f"Team {number}", [PersonRecord(id=account.person, name=account.name)])
            scope, lifetime = tokens.Scope.SUBMIT, timedelta(days=1)
            made.append(tokens.issue(account, "bench", scope, now=now, lifetime=lifetime))
    return made


@contextmanager
def serving(folder: Path, port: int) -> Iterator[int]:
    """Runs the service with its worker until the block ends; gives the process's id."""
    words = [sys.executable, "-m", "orchestrator", "serve", str(folder), "--port", str(port), *WORK]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + TIMEOUT
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("sparring serve did not start")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()


def megabytes(pid: int, name: str) -> int:
    """Returns a figure of a process's memory in MiB: VmRSS, which it has now, or VmHWM, the most it had."""
    return int(re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) // 1024


def round_is_played(folder: Path) -> bool:
    """Returns whether the round that was asked for is still to be played, or being played."""
    with seasons.open_ledger(ContestFolder(folder).path) as admin:
        return bool(admin.season.round_requests)


def load(port: int, teams: list[str], asked: argparse.Namespace) -> Mapping[str, Tally]:
    """Asks for everything at once; returns how it went."""
    tallies = {name: Tally() for name in ("boards", "parts of uploads", "submissions")}
    boards, parts, small = tallies.values()
    until, never = time.monotonic() + asked.seconds, threading.Event()
    visitors = [Client(port, boards) for _ in range(asked.visitors)]
    large = [Client(port, parts, teams[number % TEAMS]) for number in range(asked.uploads)]
    size = asked.megabytes * 1024 * 1024
    threads = [
        threading.Thread(
            target=visit, args=(each, VISIT_SECONDS * place / len(visitors), until, never.wait), daemon=True
        )
        for place, each in enumerate(visitors)
    ]
    threads += [
        threading.Thread(target=upload, args=(each, number % TEAMS, size, until), daemon=True)
        for number, each in enumerate(large)
    ]
    handing_in = [Client(port, small, token) for token in teams]
    threads.append(threading.Thread(target=submit, args=(handing_in, asked.per_second, until), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 3 * TIMEOUT - time.monotonic()))
    return tallies


def main() -> None:
    """Measures once and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visitors", type=int, default=200)
    parser.add_argument("--uploads", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=200, help="the size of an upload")
    parser.add_argument("--per-second", type=float, default=5, help="submissions")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sparring-bench-") as name:
        folder = Path(name) / "cup"
        make_contest(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        teams = make_teams(folder, port)
        with serving(folder, port) as pid:
            before = megabytes(pid, "VmRSS")
            began = time.monotonic()
            tallies = load(port, teams, asked)
            figures: dict[str, object] = {name: tally.figures() for name, tally in tallies.items()}
            figures["seconds"] = round(time.monotonic() - began, 1)
            figures["round still played at the end"] = round_is_played(folder)
            figures["memory MiB"] = {"before": before, "most": megabytes(pid, "VmHWM")}
    if asked.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:30}  {value}")


if __name__ == "__main__":
    main()
