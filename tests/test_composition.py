"""What `--backend container` stands for, and why."""

import os
import shutil

import pytest

from orchestrator import composition
from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.policy import Runtime
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable, UsageError
from orchestrator.gpus import Gpu


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [(Runtime.RUNSC, "gVisor's runsc is missing"), (Runtime.KATA, "starts no containers with kata")],
)
def test_what_runc_cannot_do_is_docker_s(runtime, reason, tmp_path, monkeypatch) -> None:
    """Virtual machines are docker's on every machine, gVisor where runsc is not installed; it is said why."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "runsc" else f"/usr/bin/{name}")
    name, why = composition.choose_container_backend(tmp_path, runtime)
    assert name == "docker"
    assert reason in why
    assert composition.make_backend(composition.CONTAINER, tmp_path, runtime=runtime).name == "docker"


def test_gpus_that_no_description_names_are_docker_s(tmp_path, monkeypatch) -> None:
    """A contest with GPUs asks runc for them, one without does not, and it is said why runc cannot play."""
    asked = []

    def require_available(_: object, runtime=None, gpus=0) -> None:
        asked.append(gpus)
        if gpus:
            raise BackendUnavailable("no CDI description names the GPU GPU-none")

    monkeypatch.setattr(type(composition.make_backend("runc", tmp_path)), "require_available", require_available)
    assert composition.choose_container_backend(tmp_path, gpus=1) == (
        "docker",
        "no CDI description names the GPU GPU-none",
    )
    assert composition.make_backend(composition.CONTAINER, tmp_path, gpus=1).name == "docker"
    assert composition.choose_container_backend(tmp_path) == ("runc", "")
    assert asked == [1, 1, 0]


def test_without_root_it_is_docker(tmp_path, monkeypatch) -> None:
    """Mounts are root's."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert composition.choose_container_backend(tmp_path) == (
        "docker",
        "the runc backend mounts images, which only root may; use docker",
    )


def test_a_misspelt_backend_is_told_all_names(tmp_path) -> None:
    """`container` is among them, though no backend bears that name."""
    with pytest.raises(UsageError, match="no 'contaner' among the sandboxes: there is container, docker"):
        composition.make_backend("contaner", tmp_path)


@pytest.mark.docker
def test_it_is_runc_where_that_works(require, tmp_path) -> None:
    """With root, the programs and an engine, nothing is said against it."""
    try:
        composition.make_backend("runc", tmp_path).require_available()
    except BackendUnavailable as error:
        require("docker", str(error))
    assert composition.choose_container_backend(tmp_path) == ("runc", "")
    assert composition.make_backend(composition.CONTAINER, tmp_path).name == "runc"


@pytest.mark.parametrize(("kind", "cpus", "expected"), [("none", 2, 4), ("decision", 2, 2), ("scores", 8, 1)])
def test_a_job_with_queries_has_the_cores_of_two_sandboxes(kind, cpus, expected, monkeypatch) -> None:
    """On 8 cores there are as many slots as all sandboxes that play at once have cores of their own, but always one."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    sandboxes = Access(AccessKind(kind)).sandboxes_per_job
    assert len(composition.slot_devices(Limits(cpus=cpus), None, sandboxes)) == expected
    assert len(composition.slot_devices(Limits(cpus=cpus), 3, sandboxes)) == 3


@pytest.mark.parametrize("slots", [0, composition.MAX_SLOTS + 1, 10**23])
def test_a_number_of_slots_that_no_machine_has_is_refused(slots) -> None:
    """Before a list or a thread is made for each of them."""
    with pytest.raises(UsageError, match=f"--slots {slots}: give at"):
        composition.slot_devices(Limits(), slots)


@pytest.mark.parametrize(
    ("count", "sandboxes", "slots", "attacks"),
    [
        (2, 1, ["GPU-0", "GPU-1"], {}),
        (2, 2, ["GPU-0"], {"GPU-0": "GPU-1"}),
        (5, 2, ["GPU-0", "GPU-1"], {"GPU-0": "GPU-2", "GPU-1": "GPU-3"}),
    ],
)
def test_every_sandbox_has_a_gpu_of_its_own(count, sandboxes, slots, attacks, monkeypatch) -> None:
    """A job with queries takes two; no GPU is in two places."""
    gpus = tuple(Gpu(f"GPU-{number}", "a GPU", "1 MiB") for number in range(count))
    monkeypatch.setattr(composition, "list_gpus", lambda: gpus)
    limits = Limits(gpus=1)
    assert composition.slot_devices(limits, None, sandboxes) == slots
    assert composition.attack_devices(limits, sandboxes) == attacks
    with pytest.raises(UsageError, match=f"there are {count} GPUs"):
        composition.slot_devices(limits, len(slots) + 1, sandboxes)


def test_one_gpu_is_too_few_for_a_job_with_queries(monkeypatch) -> None:
    """It is refused before anything is started, with what each job takes."""
    monkeypatch.setattr(composition, "list_gpus", lambda: (Gpu("GPU-0", "a GPU", "1 MiB"),))
    with pytest.raises(BackendUnavailable, match="each job takes 2 GPUs"):
        composition.slot_devices(Limits(gpus=1), None, 2)
    assert composition.attack_devices(Limits(), 2) == {}
