"""Measures a contest's site under load while a round plays: visitors, large uploads and small submissions at once.

    python bench/web.py [--visitors 200] [--uploads 20] [--megabytes 200] [--per-second 5] [--seconds 60] [--json]

Makes the demo's contest in a temporary folder, plays its first round, and adds a task with more digits, on which
baselines and submissions play for minutes. It requests that round and starts `sparring serve` with its worker on the
process backend. Once the round plays,

    visitors       request the boards, each every 5 seconds over a connection of its own, at different moments,
    uploads        send files in parts of 8 MiB, all at once,
    submissions    begin and finish small uploads at a fixed rate; the worker later refuses their content.

Visitors are in one process and teams in another, so that neither waits for the other's interpreter, and files are made
before the clock starts. All of it runs on this machine, so clients and players take processor time from the service. No
request is sent after `--seconds`, and the script waits for open requests no longer than a timeout. It fails if the
round ended before the load did.

It prints for each kind of request how many were answered, how many were put off (429, or 503 with Retry-After), how
many failed otherwise, and the median and 95th percentile of the time in milliseconds; and the service's memory and
processor time. The goals: nothing failed, and a median under 200 ms for the boards, on two cores.
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
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orchestrator import resources
from orchestrator.application.contests import demo_contest, round_requests, seasons, submission_admission
from orchestrator.application.contests.submission_admission import SubmissionRequest
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
TAIL = 64
LONG_TASK = "long"
PLAYS_WITHIN = 300
PREPARATION = 5
NEWCOMERS = ("attack_softmax", "attack_meanward", "defence_noisy_mlp", "defence_neighbours")
PUT_OFF = frozenset({429, 503})


@dataclass
class Tally:
    """Counts and times of the requests of one kind. Threads share it."""

    seconds: list[float] = field(default_factory=list)
    put_off: int = 0
    failed: list[str] = field(default_factory=list)

    def count(self, what: str, seconds: float, answer: HTTPResponse | None, body: bytes) -> bool:
        """Counts a request; returns whether it succeeded."""
        status = answer.status if answer is not None else 0
        if HTTPStatus.OK <= status < HTTPStatus.BAD_REQUEST:
            self.seconds.append(seconds)
            return True
        if answer is not None and status in PUT_OFF and answer.headers["Retry-After"]:
            self.put_off += 1
        else:
            code = ""
            with suppress(ValueError, TypeError, KeyError):
                code = json.loads(body)["code"]
            self.failed.append(f"{what}: {status or 'no answer'} {code}".rstrip())
        return False

    def figures(self) -> dict[str, object]:
        """Returns the figures to print."""
        times = [1000 * each for each in self.seconds]
        return {
            "done": len(times),
            "put off": self.put_off,
            "failed": len(self.failed),
            "failures": sorted(set(self.failed))[:5],
            "median ms": round(median(times), 1) if times else None,
            "95 % ms": round(quantiles(times, n=20)[-1], 1) if len(times) > 1 else None,
        }


class Client:
    """One persistent connection, as browsers and programs have them."""

    def __init__(self, port: int, tally: Tally, token: str = "") -> None:
        self.tally, self.token = tally, token
        self.connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> HTTPResponse | None:
        """Returns the answer, read to its end; None if the request failed."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named["Authorization"] = f"Bearer {self.token}"
        began, said = time.monotonic(), b""
        try:
            self.connection.request(method, path, body, named)
            answer = self.connection.getresponse()
            said = answer.read()
        except (HTTPException, OSError):
            answer = None
            self.connection.close()
        return answer if self.tally.count(f"{method} {path}", time.monotonic() - began, answer, said) else None


class RandomFile:
    """A file of random bytes in parts. Files of one size have the same beginning and different ends."""

    _beginnings: "dict[int, tuple[bytes, hashlib._Hash]]" = {}  # noqa: RUF012  shared on purpose

    def __init__(self, size: int) -> None:
        if size not in self._beginnings:
            block, digest = os.urandom(PART), hashlib.sha256()
            for at in range(0, size - TAIL, PART):
                digest.update(block[: min(PART, size - TAIL - at)])
            self._beginnings[size] = block, digest
        self.size, (self._block, beginning), self._tail = size, self._beginnings[size], os.urandom(TAIL)
        digest = beginning.copy()
        digest.update(self._tail)
        self.digest = digest.hexdigest()

    def parts(self) -> Iterator[bytes]:
        """Yields the parts. The file's last 64 bytes are the end of the last part, or the whole last part."""
        for at in range(0, self.size - TAIL, PART):
            yield self._block[: min(PART, self.size - TAIL - at)]
        yield self._tail


def visit(client: Client, first: float, until: float, wait: Callable[[float], object]) -> None:
    """Requests the boards after `first` seconds and then repeatedly, with revalidation, as browsers do."""
    tag = ""
    wait(first)
    while time.monotonic() < until:
        answer = client.ask("GET", "/boards/", **({"If_None_Match": tag} if tag else {}))
        tag = answer.headers["ETag"] if answer is not None else ""
        wait(min(VISIT_SECONDS, max(0.0, until - time.monotonic())))


def upload(client: Client, team: int, file: RandomFile, until: float) -> None:
    """Sends a file in parts; stops at the end of the time, or if a part fails."""
    words = {"team": f"Team {team}", "task": "digits", "filename": "it.tar", "sha256": file.digest}
    said = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in words.items())
    tus = {"Tus_Resumable": "1.0.0"}
    begun = client.ask("POST", "/api/v1/uploads", Upload_Length=str(file.size), Upload_Metadata=said, **tus)
    if begun is None:
        return
    place, offset = begun.headers["Location"].partition("/api/")[2], 0
    for part in file.parts():
        if time.monotonic() > until + TIMEOUT or not _sent(client, f"/api/{place}", offset, part, until):
            return
        offset += len(part)


def _sent(client: Client, path: str, offset: int, part: bytes, until: float) -> bool:
    """Sends a part, repeatedly if it is put off; returns whether it was accepted."""
    tus = {"Tus_Resumable": "1.0.0", "Content_Type": "application/offset+octet-stream"}
    while True:
        failures = len(client.tally.failed)
        if client.ask("PATCH", path, part, Upload_Offset=str(offset), **tus) is not None:
            return True
        if len(client.tally.failed) > failures or time.monotonic() > until:
            return False
        time.sleep(1)


def submit(clients: list[Client], per_second: float, until: float) -> None:
    """Submits small files at an even rate, however long each takes, with one thread for each file."""
    threads, number, began = [], 0, time.monotonic()
    while time.monotonic() < until:
        team = number % TEAMS
        one = Client(clients[team].connection.port, clients[team].tally, clients[team].token)
        threads.append(threading.Thread(target=upload, args=(one, team, RandomFile(4096), until), daemon=True))
        threads[-1].start()
        number += 1
        time.sleep(max(0.0, began + number / per_second - time.monotonic()))
    for thread in threads:
        thread.join(TIMEOUT)


def make_contest(folder: Path) -> None:
    """Makes the demo's contest, plays its first round, and requests a round on a task that takes minutes."""
    demo_contest.create_demo(folder, HOW)
    words = [sys.executable, "-m", "orchestrator", "work", str(folder), "--once", *WORK]
    subprocess.run(words, check=True, capture_output=True)
    file = ContestFolder(folder).file
    before, _, after = file.read_text("utf-8").partition("\ntask:\n")
    task, _, rest = after.partition("\n\n")
    long = re.sub(r", first: \d+", "", task.replace("name: digits", f"name: {LONG_TASK}"))
    tasks = "\n".join("  - " + re.sub("^", "  ", one, flags=re.MULTILINE).lstrip() for one in (task, long))
    file.write_text(f"{before}\ntasks:\n{tasks}\n\n{rest}", "utf-8")
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
            submission_admission.submit(admin, SubmissionRequest(f"Late {number}", LONG_TASK, folder=copy), backend)
        round_requests.request_round(admin, demo_contest.ROUND, LONG_TASK)


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
    """Returns a figure of a process's memory in MiB: VmRSS, its current memory, or VmHWM, its peak."""
    return int(re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) // 1024


def round_is_played(folder: Path) -> bool:
    """Returns whether the requested round still waits or is being played."""
    with seasons.open_ledger(ContestFolder(folder).path) as admin:
        return bool(admin.season.round_requests)


def await_round(folder: Path) -> None:
    """Waits until the worker plays the requested round. Raises SystemExit if it does not begin."""
    until = time.monotonic() + PLAYS_WITHIN
    while not ContestFolder(folder).round(demo_contest.ROUND, LONG_TASK).exists:
        if time.monotonic() > until:
            raise SystemExit("the worker does not play the round")
        time.sleep(0.5)


def processor_seconds(pid: int) -> float:
    """Returns the processor time that a process has used, without its children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def watch_boards(port: int, count: int, began: float, until: float) -> Tally:
    """Runs the visitors of the boards in a process of their own; returns their figures."""
    boards, never = Tally(), threading.Event()
    never.wait(began - time.monotonic())
    threads = [
        threading.Thread(
            target=visit, args=(Client(port, boards), VISIT_SECONDS * place / count, until, never.wait), daemon=True
        )
        for place in range(count)
    ]
    _run(threads, until)
    return boards


def send_files(port: int, teams: list[str], asked: argparse.Namespace, began: float, until: float) -> list[Tally]:
    """Runs the teams in a process of their own; returns the figures of parts of large files and of submissions."""
    parts, small = Tally(), Tally()
    files = [RandomFile(asked.megabytes * 1024 * 1024) for _ in range(asked.uploads)]
    threads = [
        threading.Thread(
            target=upload,
            args=(Client(port, parts, teams[number % TEAMS]), number % TEAMS, file, until),
            daemon=True,
        )
        for number, file in enumerate(files)
    ]
    handing_in = [Client(port, small, token) for token in teams]
    threads.append(threading.Thread(target=submit, args=(handing_in, asked.per_second, until), daemon=True))
    time.sleep(max(0.0, began - time.monotonic()))
    _run(threads, until)
    return [parts, small]


def _run(threads: list[threading.Thread], until: float) -> None:
    """Starts threads, and waits for them until a few timeouts after the end."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 3 * TIMEOUT - time.monotonic()))


def load(port: int, teams: list[str], asked: argparse.Namespace) -> Mapping[str, Tally]:
    """Runs visitors and teams at once; returns their figures."""
    began = time.monotonic() + PREPARATION  # both processes start, and files are made
    until = began + asked.seconds
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as processes:
        boards = processes.submit(watch_boards, port, asked.visitors, began, until)
        files = processes.submit(send_files, port, teams, asked, began, until)
        return dict(zip(("boards", "parts of uploads", "submissions"), [boards.result(), *files.result()], strict=True))


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
            await_round(folder)
            before, used = megabytes(pid, "VmRSS"), processor_seconds(pid)
            began = time.monotonic()
            tallies = load(port, teams, asked)
            figures: dict[str, object] = {name: tally.figures() for name, tally in tallies.items()}
            figures["seconds"] = round(time.monotonic() - began - PREPARATION, 1)
            still_played = round_is_played(folder)
            figures["round still played at the end"] = still_played
            figures["processor seconds of the service"] = round(processor_seconds(pid) - used, 1)
            figures["memory MiB"] = {"before": before, "most": megabytes(pid, "VmHWM")}
    if asked.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:34}  {value}")
    if not still_played:
        raise SystemExit("the round ended before the load did: the figures are of a quieter machine")


if __name__ == "__main__":
    main()
