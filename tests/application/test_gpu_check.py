"""Playing with GPUs: who gets one, and how it is refused where none can be used. `nvidia-smi` is a double here."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator import composition, gpus, resources
from orchestrator.application.rounds import gpu_check
from orchestrator.cli import rounds as cli_rounds
from orchestrator.cli.app import app
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable
from orchestrator.intake.contest_file import Contest
from orchestrator.sandboxes.docker import container_spec, verify_policy
from tests.blob_files import blob_places

BENCH = Path(__file__).resolve().parents[2] / "bench" / "round.py"
UUIDS = ("GPU-11111111-1111", "GPU-22222222-2222")
CONTEST = {
    "sparring": 1,
    "contest": "tiny",
    "title": "A tiny contest",
    "format": "tournament",
    "task": {"name": "digits", "dataset": {"kind": "digits", "first": 4}, "budget": {"epsilon": 51}},
    "replay": {"power": 0},
    "rules": {"clean_floor": None},
    "baselines": [{"builtin": "attack_noop"}, {"builtin": "attack_noise"}, {"folder": "teller"}],
}
TELLER = """
import os, sys
from sparring_player import Defence, serve

class Teller(Defence):
    def classify(self, pixels):
        print("device", os.environ["CUDA_VISIBLE_DEVICES"], file=sys.stderr, flush=True)
        return [0 for _ in pixels]

serve(Teller())
"""
runner = CliRunner()


@pytest.fixture
def shown(tmp_path, monkeypatch) -> Callable[..., None]:
    """Makes an `nvidia-smi` that shows these GPUs, before any that is there."""

    def show(*uuids: str, status: int = 0) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        lines = "".join(f"echo '{uuid}, Double 9000, 81920 MiB'\n" for uuid in uuids)
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}exit {status}\n")
        (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return show


@pytest.fixture
def contest(tmp_path) -> Path:
    """A contest of three baselines, one of which says which GPU it sees."""
    (tmp_path / "teller").mkdir()
    (tmp_path / "teller" / "player.py").write_text(TELLER)
    (tmp_path / "teller" / "submission.yaml").write_text(
        "sparring: 1\nname: teller\nside: defence\ncommand: [python, player.py]\n"
    )
    path = tmp_path / "contest.yaml"
    path.write_text(json.dumps(CONTEST))
    return path


def write_gpu_contest(folder: Path) -> Path:
    """Writes a contest with GPUs whose players need no PyTorch."""
    median = resources.resource_path("examples", "demo", "submissions", "defence_median")
    baselines = [{"builtin": "attack_noop"}, {"folder": str(median)}]
    path = folder / "gpus.yaml"
    path.write_text(json.dumps(CONTEST | {"limits": {"gpus": 1}, "baselines": baselines}))
    return path


def demo(out: Path, *more: str):
    """Runs `sparring demo --gpu` in this process."""
    return runner.invoke(app, ["demo", "--gpu", "--out", str(out), *more])


def test_without_a_gpu_the_demo_says_what_to_do(tmp_path, shown) -> None:
    """No GPU is an infrastructure fault with its remedy, before anything is played or written."""
    shown()
    done = demo(tmp_path / "out")
    assert done.exit_code == 3
    assert "shows no GPU on this machine; install the NVIDIA driver, or leave --gpu out" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_a_driver_the_demo_says_what_to_do(tmp_path, monkeypatch) -> None:
    """A machine without `nvidia-smi` has no GPU."""
    monkeypatch.setattr(gpus.shutil, "which", lambda _: None)
    done = demo(tmp_path / "out", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["error"]["code"] == "backend-unavailable"


def test_a_driver_that_does_not_answer_is_said(tmp_path, shown) -> None:
    """A driver that fails is told apart from no driver."""
    shown(status=9)
    done = demo(tmp_path / "out")
    assert done.exit_code == 3
    assert "nvidia-smi does not answer" in done.stderr


@pytest.mark.slow
def test_a_gpu_that_players_cannot_use_is_refused(tmp_path, shown) -> None:
    """A GPU that PyTorch does not reach is no GPU: nobody plays on the processor unnoticed."""
    shown(UUIDS[0])
    done = demo(tmp_path / "out")
    assert done.exit_code == 3
    assert "a player cannot compute on Double 9000: " in done.stderr
    assert "requirements.cuda.lock" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_everybody_gets_a_gpu_of_the_machine(tmp_path, shown, contest, monkeypatch) -> None:
    """With --gpu every job runs on one GPU, which is all that its player sees, and the record says so."""
    shown(*UUIDS)
    monkeypatch.setattr(
        gpu_check, "_PROBE_PROGRAM", "import os; print('looked at', os.environ['CUDA_VISIBLE_DEVICES'])"
    )
    monkeypatch.setitem(cli_rounds._DEMOS, cli_rounds.DemoFormat.TOURNAMENT, contest)
    assert gpu_check.require_gpu(gpu_check.with_gpus(Contest(contest)), "process") == f"looked at {UUIDS[0]}"

    done = demo(tmp_path / "out")

    assert done.exit_code == 0, done.output
    with closing(sqlite3.connect(tmp_path / "out" / "ledger.sqlite")) as ledger:
        past = [json.loads(text) for (text,) in ledger.execute("SELECT event FROM ledger ORDER BY seq")]
    opened = next(event for event in past if event["kind"] == "round_opened")
    assert (opened["contest"]["limits"]["gpus"], opened["contest"]["limits"]["memory"]) == (1, gpu_check.CUDA_MEMORY)
    finished = [event for event in past if event["kind"] == "job_finished"]
    assert {job["device"] for job in finished} <= set(UUIDS)
    classified = {job["device"] for job in finished if job["stage"] == "classify"}
    blobs = (place.read() for place in blob_places(tmp_path / "out" / "blobs"))
    told = {line for blob in blobs if blob.startswith(b"device ") for line in blob.decode().split("\n") if line}
    assert told == {f"device {uuid}" for uuid in classified}


@pytest.mark.slow
def test_a_round_without_gpus_is_not_gone_on_with_gpus(tmp_path, shown, contest, monkeypatch) -> None:
    """The same folder with and without --gpu would be two rounds in one."""
    shown(UUIDS[0])
    monkeypatch.setattr(gpu_check, "_PROBE_PROGRAM", "print('fine')")
    monkeypatch.setitem(cli_rounds._DEMOS, cli_rounds.DemoFormat.TOURNAMENT, contest)
    assert runner.invoke(app, ["demo", "--out", str(tmp_path / "out")]).exit_code == 0
    done = demo(tmp_path / "out")
    assert done.exit_code == 2
    assert "changed since then: the contest file" in done.stderr


@pytest.mark.docker
def test_a_docker_round_tries_the_gpu_in_a_container(shown, contest, monkeypatch) -> None:
    """A GPU that nvidia-smi shows is of no use to an engine without NVIDIA's toolkit."""
    shown(*UUIDS)
    monkeypatch.setattr(gpu_check, "CUDA_IMAGE", "sparring/base:cpu")
    with pytest.raises(BackendUnavailable, match=r"a player cannot compute on Double 9000: .*nvidia-container-toolkit"):
        gpu_check.require_gpu(gpu_check.with_gpus(Contest(contest)), "docker")


@pytest.mark.docker
def test_an_image_that_computes_on_the_processor_is_told(shown, contest, monkeypatch) -> None:
    """The player's own message is part of the error: here, that PyTorch was built without CUDA."""
    shown(*UUIDS)
    monkeypatch.setattr(gpu_check, "CUDA_IMAGE", "sparring/base-torch:cpu")
    monkeypatch.setattr(container_spec, "_device_requests", lambda _: [])
    monkeypatch.setattr(gpu_check, "_PROBE_PROGRAM", "raise SystemExit('no CUDA here')")
    monkeypatch.setattr(verify_policy, "mismatches", lambda *_: [])
    with pytest.raises(
        BackendUnavailable, match=r"a player cannot compute on Double 9000: no CUDA here; .*--cuda base"
    ):
        gpu_check.require_gpu(gpu_check.with_gpus(Contest(contest)), "docker")


@pytest.mark.docker
def test_a_round_with_gpus_that_containers_cannot_use_is_not_played(shown, contest, monkeypatch, tmp_path) -> None:
    """Its players would compute on the processor, and be late: it ends as an infrastructure fault before a job."""
    shown(UUIDS[0])
    monkeypatch.setattr(gpu_check, "CUDA_IMAGE", "sparring/base:cpu")
    path = write_gpu_contest(tmp_path)
    done = runner.invoke(app, ["round", "run", str(path), "--backend", "docker", "--out", str(tmp_path / "out")])
    assert done.exit_code == 3
    assert "a player cannot compute on Double 9000" in done.stderr
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.docker
@pytest.mark.parametrize(("slots", "tried"), [(["--slots", "1"], UUIDS[:1]), ([], UUIDS)])
def test_only_gpus_that_play_are_tried(shown, contest, monkeypatch, tmp_path, slots, tried) -> None:
    """A broken GPU stops no round that leaves it out by --slots."""
    shown(*UUIDS)
    asked = []
    monkeypatch.setattr(gpu_check, "CUDA_IMAGE", "sparring/base:cpu")
    monkeypatch.setattr(gpu_check, "try_gpu", lambda _policy, _backend, gpu: asked.append(gpu.uuid))

    def stop(*_: object) -> None:
        raise BackendUnavailable("far enough")

    monkeypatch.setattr(composition, "make_local_executor", stop)
    command = ["round", "run", str(write_gpu_contest(tmp_path)), "--backend", "docker", *slots]
    done = runner.invoke(app, [*command, "--out", str(tmp_path / "out")])
    assert "far enough" in done.stderr
    assert asked == [*tried]


def test_memory_is_never_less_than_the_contest_gives(contest) -> None:
    """CUDA gets its memory, a contest that gives more keeps it, and the contest itself stays as it was."""
    body = CONTEST | {"limits": {"memory": "64GiB"}}
    before = Contest(contest)
    assert gpu_check.with_gpus(before).file.sandbox_policy().limits.memory == gpu_check.CUDA_MEMORY
    assert before.file.sandbox_policy().limits == Limits()
    contest.write_text(json.dumps(body))
    limits = gpu_check.with_gpus(Contest(contest)).file.sandbox_policy().limits
    assert (limits.gpus, limits.memory) == (1, 64 * 1024**3)


@pytest.mark.slow
def test_figures_are_not_recorded_without_a_gpu(tmp_path, shown) -> None:
    """The measurement ends with 3 as well, and leaves no file that would be taken for one of a GPU."""
    shown()
    words = [sys.executable, str(BENCH), "--gpu", "--record", str(tmp_path / "results")]
    (tmp_path / "results").mkdir()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "shows no GPU on this machine" in done.stderr
    assert not list((tmp_path / "results").iterdir())


def test_the_demo_plays_with_cuda(tmp_path, require) -> None:
    """Where there is a GPU and PyTorch with CUDA: noop changes nothing, cw_l2 is penalised, training helps."""
    demo_contest = Contest(resources.resource_path("examples", "demo", "contest.yaml"))
    try:
        computing = gpu_check.require_gpu(gpu_check.with_gpus(demo_contest), "process")
    except BackendUnavailable as error:
        require("gpu", str(error))
    assert "CUDA" in computing
    done = demo(tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)
    deltas = {(cell["attack"], cell["defence"]): cell["delta"] for cell in results["cells"]}
    assert {delta for (attack, _), delta in deltas.items() if attack == "noop"} == {0.0}
    assert not [part["id"] for part in results["submissions"] if part["baseline"] and part["faults"]]
    assert next(part for part in results["submissions"] if part["id"] == "cw_l2")["violations"] > 0
    assert deltas["pgd", "fgsm_trained"] < deltas["pgd", "undefended"]
