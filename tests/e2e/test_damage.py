"""What power cuts, full disks and locks do to a round: it goes on to the same result, or says what to do (X1).

The round is killed in its middle once; each test damages a copy of what that left.
"""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import play_rounds
from orchestrator.domain import events
from orchestrator.errors import InfrastructureFault, StoreFault
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.stores.sql import LOCK_TIMEOUT_SECONDS
from tests.blob_files import blob_places, find_blob

PLACES = 40 if os.environ.get("SPARRING_SOAK") else 3
PLAYERS = ("attack_honest", "attack_noop", "defence_honest", "defence_constant")
SETTINGS = {
    "limits": {"perturb_batch": 4, "perturb_seconds": 60, "classify_seconds": 30},
    "replay": {"power": 0.5, "cheat": 0.3},
}
MEASURED = {"seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings", "sandboxes", "ledger"}
HOW = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
COMMAND = [sys.executable, "-m", "orchestrator", "round", "run"]
OPTIONS = ["--slots", "2", "--allow-unisolated", "--log-json"]
DIE_AT = Path(__file__).with_name("die_at.py")


def unmeasured(part: Any) -> Any:
    """Returns a results document without what is measured."""
    if isinstance(part, dict):
        return {key: unmeasured(value) for key, value in part.items() if key not in MEASURED}
    return [unmeasured(item) for item in part] if isinstance(part, list) else part


def results(out: Path) -> Any:
    """Returns results.json without what is measured."""
    return unmeasured(json.loads((out / "results.json").read_text("utf-8")))


def play(contest: Path, out: Path, watch: Callable[[events.Event], None] = lambda _: None) -> Any:
    """Plays a round, or what is left of it; returns its results without what is measured."""
    play_rounds.play_round(Contest(contest), out, HOW, watch)
    return results(out)


@pytest.fixture(scope="module")
def backend() -> str:
    """What is on disk does not depend on the backend."""
    return "process"


@pytest.fixture(scope="module")
def contest(shared_lab) -> Path:
    """The contest file."""
    return shared_lab.contest(*PLAYERS, **SETTINGS)


@pytest.fixture(scope="module")
def whole(shared_lab, contest) -> Path:
    """The folder of the round, complete."""
    play(contest, shared_lab.folder / "whole")
    return shared_lab.folder / "whole"


@pytest.fixture(scope="module")
def middle(shared_lab, contest, whole) -> Path:
    """The folder of the same round, killed when its tenth step was kept, two of them classified."""
    out = shared_lab.folder / "middle"
    out.mkdir()
    shutil.copy(whole / "secret", out)
    killed = subprocess.run([sys.executable, DIE_AT, contest, out, "10", "step_finished"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (out / "ledger.sqlite-wal").stat().st_size > 0
    return out


@pytest.fixture(params=["middle", "whole"])
def out(request, tmp_path) -> Path:
    """A copy of the round, killed in its middle or complete."""
    return Path(shutil.copytree(request.getfixturevalue(request.param), tmp_path / "out"))


@pytest.fixture
def interrupted(middle, tmp_path) -> Path:
    """A copy of the round that was killed in its middle."""
    return Path(shutil.copytree(middle, tmp_path / "out"))


def test_a_write_ahead_log_that_was_cut_costs_steps_and_nothing_else(middle, whole, contest, tmp_path) -> None:
    """Cut at random places or with garbage behind it, the round goes on to the same results."""
    chance = random.Random(1)
    log = (middle / "ledger.sqlite-wal").read_bytes()
    damaged = [log[: chance.randrange(len(log))] for _ in range(PLACES)] + [b"", log + chance.randbytes(9999)]
    for number, content in enumerate(damaged):
        out = Path(shutil.copytree(middle, tmp_path / str(number)))
        (out / "ledger.sqlite-wal").write_bytes(content)
        assert play(contest, out) == results(whole), f"{len(content)} of {len(log)} bytes"


def test_a_ledger_that_was_cut_never_leads_to_other_results(middle, whole, contest, tmp_path) -> None:
    """The round goes on to the same results, or a StoreFault names the ledger and says to put it back."""
    chance = random.Random(2)
    refusals = []
    for number in range(2 * PLACES):
        out = Path(shutil.copytree((middle, whole)[number % 2], tmp_path / str(number)))
        ledger = out / "ledger.sqlite"
        os.truncate(ledger, chance.randrange(ledger.stat().st_size))
        try:
            assert play(contest, out) == results(whole)
        except StoreFault as fault:
            refusals.append((ledger, str(fault)))
    assert refusals
    for ledger, said in refusals:
        assert str(ledger) in said
        assert "put it back from a copy of the folder" in said


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_blob_that_was_cut_is_made_again(out, whole, contest, size) -> None:
    """Every blob cut, those of the pictures too: what was built on them is played again, to the same results."""
    for blob in list(blob_places(out / "blobs")):
        blob.write(blob.read()[:size])
    assert play(contest, out) == results(whole)


def test_one_blob_that_was_cut_costs_what_was_built_on_it(whole, contest, tmp_path) -> None:
    """Whichever single blob of a complete round is damaged, running again leads to the same results."""
    chance = random.Random(3)
    names = sorted({blob.digest for blob in blob_places(whole / "blobs")})
    for number, name in enumerate(chance.sample(names, min(PLACES, len(names)))):
        out = Path(shutil.copytree(whole, tmp_path / str(number)))
        blob = find_blob(out / "blobs", name)
        blob.write(blob.read()[: chance.randrange(blob.size)])
        assert play(contest, out) == results(whole), blob


def test_a_pack_that_was_cut_costs_what_lay_behind(middle, whole, contest, tmp_path) -> None:
    """Cut anywhere, or with garbage in the head of a record or at its end, the round goes on to the same results."""
    chance = random.Random(4)
    for number in range(PLACES):
        out = Path(shutil.copytree(middle, tmp_path / str(number)))
        [pack] = (out / "blobs" / "packs").iterdir()
        data, place = pack.read_bytes(), chance.randrange(pack.stat().st_size)
        pack.write_bytes(
            (data[:place], data[:place] + chance.randbytes(40) + data[place + 40 :], data + b"BLOB\0")[number % 3]
        )
        assert play(contest, out) == results(whole), f"{place} of {len(data)} bytes"


@pytest.mark.parametrize("name", ["results.json", "cells.csv", "report/index.html"])
def test_half_a_result_is_written_again(whole, contest, tmp_path, name) -> None:
    """A derived file that is cut, and one that a kill left unfinished, are replaced and removed."""
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    (out / name).write_text('{"contest": "la')
    shelf = next((out / "blobs").iterdir())
    for left in (out / ".new-1-results.json", out / "report" / ".new-1-index.html", shelf / ".new-1"):
        left.write_text("half")
    assert play(contest, out) == results(whole)
    assert (out / name).read_text() != '{"contest": "la'
    assert sorted(path.name for path in out.rglob(".*")) == [".gitignore"]


@pytest.mark.parametrize("content", [b"", b"x" * 16, None])
def test_a_secret_that_is_lost_is_named(out, contest, content) -> None:
    """An empty, a half and a missing secret are one error with the file and the remedy, and none is drawn anew."""
    secret = out / "secret"
    right = secret.read_bytes()
    secret.unlink() if content is None else secret.write_bytes(content)
    with pytest.raises(StoreFault, match=f"{secret} is lost or damaged: .* put it back from a copy of the folder"):
        play(contest, out)
    assert (secret.read_bytes() if secret.exists() else None) == content
    secret.write_bytes(right)
    assert play(contest, out)["complete"]


@pytest.mark.parametrize("content", [b"", b"x" * 16])
def test_a_secret_that_nothing_committed_to_may_go(contest, tmp_path, content) -> None:
    """Before a round is open, an empty secret is drawn, and half a one is to be removed."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "secret").write_bytes(content)
    if content:
        with pytest.raises(StoreFault, match=f"{out}/secret is lost or damaged: 16 bytes, expected 32; remove it"):
            play(contest, out)
        (out / "secret").unlink()
    assert play(contest, out)["complete"]
    assert (out / "secret").stat().st_mode & 0o777 == 0o600


def test_a_contest_whose_ledger_was_emptied_is_no_new_contest(tmp_path) -> None:
    """Where the contest's ledger lost everything, nothing is done to the contest but to say how to get it back."""
    cup = tmp_path / "cup"
    seasons.create_contest(cup, "tournament")
    (cup / "contest.sqlite").write_bytes(b"")
    with (
        pytest.raises(StoreFault, match=f"{cup}/contest.sqlite holds no contest: .* put it back from a copy"),
        seasons.administer(cup),
    ):
        pass


def test_half_a_copy_of_a_submission_is_swept_away(interrupted, whole, contest) -> None:
    """What a kill left while a folder was copied is removed at the next start, and is no submission."""
    half = interrupted / "images" / ".incoming-abc" / "model"
    half.mkdir(parents=True)
    (half / "weights").write_bytes(b"half")
    assert play(contest, interrupted) == results(whole)
    assert [path.name for path in (interrupted / "images").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("leave", [0, 4096, 32768, 131_072, 262_144, 294_912])
def test_a_full_disk_ends_a_round_that_can_go_on(whole, contest, small_disk, fill, leave) -> None:
    """Wherever space runs out, the fault names a folder of the disk and the remedy; with space the round goes on."""
    out = small_disk / "out"
    out.mkdir()
    shutil.copy(whole / "secret", out)
    ballast = fill(small_disk, leave)
    with pytest.raises(InfrastructureFault) as caught:
        play(contest, out)
    assert str(small_disk) in str(caught.value)
    assert re.search("make space|free space|correct this|see that its folder has space", str(caught.value))
    assert {path.name for path in out.iterdir() if path.name.endswith((".json", ".csv"))} == set()
    ballast.unlink()
    assert play(contest, out) == results(whole)
    assert sorted(path.name for path in out.rglob(".*")) == [".gitignore"]


@pytest.fixture
def elsewhere(whole, small_disk, tmp_path) -> Callable[[str], Path]:
    """Makes the folder of a round one part of which lies on the small disk."""

    def made(part: str) -> Path:
        out = tmp_path / "out"
        out.mkdir()
        shutil.copy(whole / "secret", out)
        (small_disk / part).mkdir()
        (out / part).symlink_to(small_disk / part)
        return out

    return made


def test_blobs_without_space_end_a_round_that_can_go_on(whole, contest, small_disk, fill, elsewhere) -> None:
    """Where only blobs have no space, the fault names their folder; with space the round goes on."""
    out = elsewhere("blobs")
    ballast = fill(small_disk, 0)
    with pytest.raises(StoreFault, match=rf"cannot keep a blob under {out}/blobs: .* make space there"):
        play(contest, out)
    ballast.unlink()
    assert play(contest, out) == results(whole)


def test_a_report_without_space_is_whole_or_the_one_before(whole, contest, small_disk, fill, elsewhere) -> None:
    """Where only the report has no space, none is there or that of an earlier time, and results.json neither."""
    out = elsewhere("report")
    page = out / "report" / "index.html"
    ballast = fill(small_disk, 16_384)
    with pytest.raises(StoreFault, match=f"{page} cannot be written: No space left on device; make space in"):
        play(contest, out)
    assert not (out / "results.json").exists(), "it is written last: where it is, all is"
    assert list((small_disk / "report").iterdir()) == []
    ballast.unlink()
    assert play(contest, out) == results(whole)
    before = page.read_bytes()
    fill(small_disk, 0)
    with pytest.raises(StoreFault, match=f"{page} cannot be written"):
        play(contest, out)
    assert page.read_bytes() == before


def run(contest: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Runs `sparring round run`."""
    return subprocess.run(
        [*COMMAND, str(contest), "--out", str(out), *OPTIONS], capture_output=True, text=True, check=False, timeout=120
    )


def test_a_full_disk_is_exit_code_3(whole, contest, small_disk, fill) -> None:
    """`sparring round run` says what is full and what to do, and ends with 3; with space it goes on."""
    out = small_disk / "out"
    ballast = fill(small_disk, 200_000)
    done = run(contest, out)
    assert done.returncode == 3, done.stderr
    said = done.stderr[done.stderr.index("store: ") :]
    assert str(small_disk) in said
    assert "space" in said
    assert "Traceback" not in done.stderr
    ballast.unlink()
    assert run(contest, out).returncode == 0
    assert results(out)["boards"] == results(whole)["boards"]


def test_a_lock_for_a_moment_is_survived(interrupted, whole, contest) -> None:
    """While another program holds the ledger for two seconds in the middle of play, the round waits, and goes on."""
    timers = []

    def hold(event: events.Event) -> None:
        if event.kind == "step_finished" and not timers:
            other = sqlite3.connect(interrupted / "ledger.sqlite", check_same_thread=False)
            other.execute("BEGIN EXCLUSIVE")
            timers.append(threading.Timer(2.0, other.close))
            timers[0].start()

    began = time.monotonic()
    assert play(contest, interrupted, hold) == results(whole)
    assert time.monotonic() - began >= 2
    timers[0].join()


def test_a_lock_that_stays_is_exit_code_3(interrupted, whole, contest) -> None:
    """`sparring round run` waits so many seconds for the ledger, names it and ends with 3; then it goes on."""
    with closing(sqlite3.connect(interrupted / "ledger.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        done = run(contest, interrupted)
        waited = time.monotonic() - began
    assert done.returncode == 3, done.stderr
    assert (
        f"another program has held {interrupted}/ledger.sqlite for more than {LOCK_TIMEOUT_SECONDS:g} s" in done.stderr
    )
    assert "end it, and run the same command again" in done.stderr
    assert waited >= LOCK_TIMEOUT_SECONDS
    assert play(contest, interrupted) == results(whole)
