"""Runtimes: which are there, which work, and a plain refusal of those that do not exist."""

import pytest

from orchestrator.domain.policy import Runtime
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.base import CheckStatus, Image
from orchestrator.sandboxes.docker import container_runtimes

IMAGE = Image("sha256:" + "ab" * 32, "entry")


class Quick:
    """A sandbox whose player says something and ends."""

    def __init__(self, said: bytes) -> None:
        self._said = [said]

    def receive(self, deadline):
        """Returns what it says, then nothing."""
        return self._said.pop() if self._said else b""

    def stop(self):
        """Ends nothing."""


def examined(there, said: bytes = b"6.1.0", image: Image | None = IMAGE, error: Exception | None = None) -> dict:
    """Returns the status of each runtime by its name."""

    def start(sandbox_spec):
        if error:
            raise error
        return Quick(said)

    info = {"Runtimes": {name: {"path": name, "runtimeArgs": ["--network=none"]} for name in there}}
    checks = container_runtimes.diagnose_runtimes(info, image, start)
    assert all(check.remedy for check in checks if check.status is not CheckStatus.OK)
    return {check.name.removeprefix("docker: "): check for check in checks}


@pytest.mark.parametrize("runtime", Runtime)
def test_a_missing_runtime_is_refused_with_the_remedy(runtime):
    """The message names what is there and where to register what is not."""
    with pytest.raises(BackendUnavailable, match=rf"no runtime {runtime}.*daemon.json"):
        container_runtimes.require_runtime(runtime, {"io.containerd.runc.v2"})
    container_runtimes.require_runtime(runtime, {runtime.value})


def test_what_is_not_registered_is_absent():
    """Every runtime is listed; those the engine lacks are absent, which is no failure."""
    found = examined({"runc"})
    assert {name: check.status for name, check in found.items()} == {"runc": "ok", "runsc": "absent", "kata": "absent"}


def test_registered_is_not_working():
    """A runtime under which no sandbox starts is a failure, with the engine's words."""
    found = examined({"runc", "kata"}, error=SandboxLost("no /dev/kvm"))
    assert found["kata"].status is CheckStatus.FAIL
    assert "no /dev/kvm" in found["kata"].detail
    assert examined({"runc"}, said=b"")["runc"].status is CheckStatus.FAIL


@pytest.mark.parametrize(("release", "status"), [(b"4.4.0", "ok"), (b"4.19.0-gvisor", "ok"), (b"6.1.0", "fail")])
def test_gvisor_shows_its_own_kernel(release, status):
    """Something else under the name runsc is found out: gVisor's players see its own kernel release, old or new."""
    assert examined({"runsc"}, said=release)["runsc"].status == status


def test_without_an_image_nothing_is_claimed():
    """A runtime that could not be tried is a warning."""
    assert examined({"runc"}, image=None)["runc"].status is CheckStatus.WARN


def test_gvisor_needs_its_arguments():
    """A gVisor that was registered without `--network=none` works and leaks: a warning says so."""
    info = {"Runtimes": {"runc": {"path": "runc"}, "runsc": {"path": "runsc"}}}
    checks = container_runtimes.diagnose_runtimes(info, IMAGE, lambda _: Quick(b"4.4.0"))
    assert [check.status for check in checks if check.name == "docker: runsc arguments"] == [CheckStatus.WARN]
    assert container_runtimes.missing_runsc_arguments({"Runtimes": {"runc": {"path": "runc"}}}) == ()
