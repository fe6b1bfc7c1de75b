"""The docker backend refuses to play where the engine did not apply what the policy demands."""

from dataclasses import replace

import pytest

from orchestrator.domain.policy import Network, Runtime, Seccomp, User
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.docker import backend as docker_backend
from orchestrator.sandboxes.docker import verify_policy

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module")]

BEHIND = {
    "user": {"User": "0:0"},
    "network": {"NetworkMode": "host"},
    "read_only_root": {"ReadonlyRootfs": False},
    "capabilities": {"CapAdd": ["NET_RAW", "SYS_PTRACE"]},
    "no_new_privileges": {"SecurityOpt": []},
    "seccomp": {"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]},
    "private_ipc": {"IpcMode": "host"},
    "private_cgroup": {"CgroupnsMode": "host"},
    "PidMode": {"PidMode": "host", "Init": False},
    "masked_proc": {"MaskedPaths": []},
    "tmp": {"Tmpfs": {}},
    "Mounts": {"Mounts": []},
    "Binds": {"Binds": ["/usr/share:/host:ro"]},
    "limits.memory": {"Memory": 2**33, "MemorySwap": 2**33},
    "limits.pids": {"PidsLimit": 0},
    "limits.cpus": {"NanoCpus": 0},
    "engine_logs": {"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}},
    "init": {"Init": False},
    "automatic removal": {"AutoRemove": True},
}


def sandbox_spec(image, run, policy) -> SandboxSpec:
    """Returns the specification of a player that says nothing."""
    return SandboxSpec(replace(image, command=("python3", "silent.py")), policy, run, "job")


@pytest.mark.parametrize("control", BEHIND)
def test_a_container_made_weaker_is_refused(backend, image, engine, run, policy, monkeypatch, control):
    """Behind the backend's back one control is weakened in the create body: start names it and leaves no container."""
    described = docker_backend.container_spec.container_options

    def weakened(*arguments, **named):
        options = described(*arguments, **named)
        for key, value in BEHIND[control].items():
            (options if key == "User" else options["HostConfig"])[key] = value
        return options

    monkeypatch.setattr(docker_backend.container_spec, "container_options", weakened)
    with pytest.raises(SandboxLost, match=rf"policy demands.*[:;] {control}: wanted"):
        backend.start(sandbox_spec(image, run, policy))
    assert engine.containers.list(all=True, filters={"label": f"sparring.run={run}"}) == []


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"network": Network.HOST},
        {"user": User.ROOT},
        {"read_only_root": False},
        {"capabilities": ("NET_RAW", "SYS_ADMIN")},
        {"no_new_privileges": False},
        {"seccomp": Seccomp.ENGINE},
        {"seccomp": Seccomp.NONE},
        {"private_ipc": False},
        {"private_cgroup": False},
        {"masked_proc": False},
        {"noexec_tmp": False},
        {"init": False},
        {"engine_logs": True},
    ],
    ids=str,
)
def test_a_weaker_policy_is_applied_as_well(backend, image, run, policy, change):
    """With a control removed by policy the sandbox starts, and the engine and the kernel say that it is off."""
    backend.start(sandbox_spec(image, run, replace(policy, **change))).stop()


def test_the_kernel_is_asked_where_its_process_can_be_seen(backend, image, run, policy, monkeypatch):
    """On this machine the player's process is seen from the host, so that the engine is not taken at its word."""
    asked = []
    weaker = verify_policy.mismatches
    monkeypatch.setattr(verify_policy, "mismatches", lambda *given: asked.append(given[2]) or weaker(*given))
    backend.start(sandbox_spec(image, run, policy)).stop()
    assert [view is not None for view in asked] == [True]


def test_a_player_that_dies_at_once_is_no_fault_of_ours(backend, image, run, policy, listen):
    """With no process left to look at, the engine's word is read and the player's end is its own."""
    for _ in range(5):
        sandbox = backend.start(replace(sandbox_spec(image, run, policy), image=replace(image, command=("true",))))
        assert listen.end(sandbox) == b""
        assert sandbox.stop().code == 0


def test_an_unknown_runtime_is_refused_before_anything_starts(backend, image, engine, run, policy):
    """Neither `require_available` nor `start` goes on with a runtime that the engine does not have."""
    absent = next(runtime for runtime in Runtime if runtime.value not in engine.info()["Runtimes"])
    with pytest.raises(BackendUnavailable, match=f"no runtime {absent}"):
        backend.require_available(absent)
    with pytest.raises(BackendUnavailable, match=f"no runtime {absent}"):
        backend.start(sandbox_spec(image, run, replace(policy, runtime=absent)))
    assert engine.containers.list(all=True, filters={"label": f"sparring.run={run}"}) == []
