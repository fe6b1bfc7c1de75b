"""What is the fifo backend's own: one start, opens that never wait for ever, and an end that nobody can forge."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import sandboxes
from orchestrator.domain.environment import player_variables
from orchestrator.domain.policy import Seccomp, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import PodUsedUp, SandboxLost
from orchestrator.executors.kubernetes.pod_manifest import PLAYER_MESSAGE_PATH
from orchestrator.sandboxes.base import CheckStatus, Ending, ImageSource, SandboxSpec
from orchestrator.sandboxes.linux.host_limits import HOME
from orchestrator.sandboxes.pod import pod_sandbox

from .pods import DRIVER, RUNNER, Pod, ordering

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["pod"], indirect=True, scope="module")]
MIB = 1024 * 1024
AT_ONCE = 30.0
"""Seconds, on however busy a machine: a player has 120 to start."""


def soon(seconds: float) -> float:
    """Returns the deadline that is so many seconds away."""
    return time.monotonic() + seconds


@pytest.fixture
def sandbox_spec(image, run, policy) -> Callable[..., SandboxSpec]:
    """Returns `sandbox_spec(player, arguments..., limits)`."""
    return ordering(image, run, policy)


@pytest.fixture
def pod(backend) -> Pod:
    """A pod whose init container has run; its player's container is the test's to start."""
    made = backend.pod()
    yield made
    made.delete()


def test_one_start_in_a_pods_life(pod, sandbox_spec, listen):
    """The first start plays; every later one is PodUsedUp at once, by another driver and after the end too."""
    pod.play(sandbox_spec("echo"))
    backend = pod.backend()
    assert backend.diagnose()[0].status is CheckStatus.OK
    sandbox = backend.start(sandbox_spec("echo"))
    for driver in (backend, pod.backend()):
        begun = time.monotonic()
        with pytest.raises(PodUsedUp, match="started before"):
            driver.start(sandbox_spec("echo"))
        assert time.monotonic() - begun < AT_ONCE
    assert sandbox.send(b"still", soon(30))
    assert listen.exactly(sandbox, 5) == b"still"
    sandbox.stop()
    with pytest.raises(PodUsedUp):
        backend.start(sandbox_spec("echo"))
    assert backend.diagnose()[0].status is CheckStatus.WARN


def test_of_two_starts_at_a_time_one_plays(pod, sandbox_spec, listen):
    """Two drivers at once: one has the player, the other is told that the pod is spent, and disturbs nothing."""
    came, drivers = [], [pod.backend(), pod.backend()]

    def start(driver) -> None:
        try:
            came.append(driver.start(sandbox_spec("echo")))
        except PodUsedUp as spent:
            came.append(spent)

    threads = [threading.Thread(target=start, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    pod.play(sandbox_spec("echo"))
    for thread in threads:
        thread.join()
    [spent] = [each for each in came if isinstance(each, PodUsedUp)]
    [sandbox] = [each for each in came if each is not spent]
    assert sandbox.send(b"mine", soon(30))
    assert listen.exactly(sandbox, 4) == b"mine"
    assert sandbox.stop().stdout_bytes == 4


def test_a_player_that_never_comes_is_ours(pod, sandbox_spec):
    """Nobody opens the FIFOs: the start ends at its deadline as SandboxLost, and a later one can still succeed."""
    quick = sandbox_spec("echo", limits=replace(Limits(), ready_seconds=0.5))
    backend, begun = pod.backend(), time.monotonic()
    with pytest.raises(SandboxLost, match="the player did not start"):
        backend.start(quick)
    assert 0.5 <= time.monotonic() - begun < AT_ONCE
    pod.play(sandbox_spec("echo"))
    assert backend.start(sandbox_spec("echo")).stop().ending is Ending.STOPPED


def test_a_container_that_dies_before_it_opens_is_ours(pod, sandbox_spec):
    """A container whose first process is gone before the driver comes is SandboxLost at the deadline."""
    pod.play(sandbox_spec("echo"))
    pod.client.api.kill(pod.player)
    assert pod.over(5)
    with pytest.raises(SandboxLost, match="the player did not start"):
        pod.backend().start(sandbox_spec("echo", limits=replace(Limits(), ready_seconds=1.0)))


def test_a_container_that_dies_between_two_opens_is_noticed(pod, sandbox_spec):
    """Its first process was spoken to and ends before the player's stdin is open: SandboxLost, at once."""
    (pod.fifos / "in").unlink()
    os.mkfifo(pod.fifos / "in", 0o600)  # which the player may not open: its keeper fails there
    pod.play(sandbox_spec("echo"))
    begun = time.monotonic()
    with pytest.raises(SandboxLost, match="ended before the player was started"):
        pod.backend().start(sandbox_spec("echo"))
    assert time.monotonic() - begun < AT_ONCE
    assert pod.over(5)


def test_an_end_without_a_word_is_nobodys(pod, sandbox_spec, monkeypatch):
    """The whole container is gone at once, at its limit or by somebody on the node: lost, and its pod says more."""
    monkeypatch.setattr(pod_sandbox, "EXIT_REPORT_SECONDS", 0.7)
    pod.play(sandbox_spec("silent"))
    sandbox = pod.backend().start(sandbox_spec("silent"))
    pod.client.api.kill(pod.player)
    begun = time.monotonic()
    assert sandbox.receive(soon(30)) == b""
    assert time.monotonic() - begun >= 0.7
    end = sandbox.stop()
    assert (end.ending, end.code, end.peak_bytes) == (Ending.LOST, None, None)


@pytest.mark.parametrize("how", ["note", "flood", "keeper", "signals"])
def test_no_player_forges_a_better_end(pod, sandbox_spec, listen, how):
    """It writes notes of its own, floods them, kills the process that tells, signals process 1: it has crashed."""
    pod.play(sandbox_spec("forge", how))
    sandbox = pod.backend().start(sandbox_spec("forge", how))
    assert listen.end(sandbox) == b"2\n"
    end = sandbox.stop()
    assert (end.ending, end.code) == (Ending.CRASHED, None if how == "keeper" else 139)
    assert end.kills == 0
    assert end.peak_bytes > MIB
    assert pod.over(5)


def test_what_a_player_may_do_with_the_folder(pod, sandbox_spec, listen):
    """It cannot look into our two shells, read what it writes, write what it reads, read the shell, or add a file."""
    pod.play(sandbox_spec("forge", "look"))
    sandbox = pod.backend().start(sandbox_spec("forge", "look"))
    count, *found = map(int, listen.end(sandbox).split())
    sandbox.stop()
    assert count == 2
    assert found == [errno.EACCES] * 14 + [errno.EROFS]


LOUD = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443",
    "LD_PRELOAD": "",
    "NVIDIA_REQUIRE_CUDA": "",
    "SPARRING_TOKEN": "x",
    "sparring_word": "x",
    "sparring_name": "x",
    "https_proxy": "http://proxy",
    "HTTPS_PROXY": "",
    "A-B": "no name for a shell",
}
"""What a pod adds unasked, what an image may not set and a pod can only blank, and names of our shell's own."""


def test_a_player_has_the_environment_of_every_backend(pod, sandbox_spec, listen, engine, policy):
    """Of what a pod adds nothing is there, nor what our shell keeps in its variables; all else is as it was asked."""
    quiet = {"KEPT": "a KUBERNETES_X= b\nexport LD_C='d'", "EMPTY": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    pod.play(sandbox_spec("surroundings"), variables=LOUD | quiet)
    sandbox = pod.backend().start(sandbox_spec("surroundings"))
    found = listen.report(sandbox)["environment"]
    assert not LOUD.keys() & found.keys()
    assert {name: found.get(name) for name in quiet} == quiet
    assert (found["HOSTNAME"], found["HOME"], found["PYTHONHASHSEED"]) == ("sandbox", HOME, "0")
    assert not [name for name in found if name.upper().startswith("SPARRING")]
    assert sandbox.stop().ending is Ending.STOPPED
    plain = engine.containers.run(
        sandbox_spec("surroundings").image.digest,
        ["-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        entrypoint=["python3"],
        hostname="sandbox",
        environment=player_variables(HOME, policy.limits.threads, None) | quiet,
        network_mode="none",
        remove=True,
    )
    assert found == json.loads(plain)


def test_the_limit_of_processes_needs_no_engine(pod, sandbox_spec, listen):
    """In a pod nobody bounds processes but our first process, which lets the player have as many as elsewhere."""
    ordered = sandbox_spec("forks", limits=replace(Limits(), pids=24))
    pod.play(ordered, {"PidsLimit": 0})
    sandbox = pod.backend().start(ordered)
    assert listen.exactly(sandbox, 3) == b"22\n"
    sandbox.stop()


def test_an_image_cannot_lock_itself_out(pod, sandbox_spec, listen):
    """A player whose image puts it into the driver's group can do what any other can, and no more."""
    pod.play(sandbox_spec("forge", "look"), {"GroupAdd": [str(DRIVER)]})
    sandbox = pod.backend().start(sandbox_spec("forge", "look"))
    count, *found = map(int, listen.end(sandbox).split())
    sandbox.stop()
    assert (count, found) == (2, [errno.EACCES] * 14 + [errno.EROFS])


def test_a_driver_that_is_killed_takes_its_player_along(pod, sandbox_spec, run):
    """Nobody stops the player: its own container ends it and all it started, within seconds of the driver's death."""
    pod.play(sandbox_spec("stray", "token", "stay"))
    words = f"""
import sys, time
from pathlib import Path
from orchestrator.sandboxes.base import BackendSettings, Image, SandboxSpec
from orchestrator.sandboxes.pod.backend import PodBackend
from orchestrator.domain.policy import SandboxPolicy
backend = PodBackend(BackendSettings(Path({str(pod.fifos)!r})))
sandbox = backend.start(SandboxSpec(Image("", ""), SandboxPolicy(), "r", "j"))
assert sandbox.receive(time.monotonic() + 60) == b"up"
sys.stdout.write("up\\n")
sys.stdout.flush()
time.sleep(600)
"""
    root = str(Path(sandboxes.__path__[0]).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", words], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": root}
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"up\n"
        assert not pod.over(0.5)
        driver.kill()
    assert pod.over(10)


def test_a_player_that_hangs_is_gone_after_stop(pod, sandbox_spec):
    """A player that ignores everything ends with `stop`; what it used is known then, and no exit code is made up."""
    pod.play(sandbox_spec("stray", "token", "stay"))
    sandbox = pod.backend().start(sandbox_spec("stray", "token", "stay"))
    assert sandbox.receive(soon(30)) == b"up"
    begun = time.monotonic()
    end = sandbox.stop()
    assert time.monotonic() - begun < AT_ONCE
    assert pod.over(1)
    assert (end.ending, end.code, end.sampled) == (Ending.STOPPED, None, False)
    assert end.cpu_seconds > 0
    assert end.peak_bytes > MIB


def test_a_player_that_cannot_be_ended_is_said_to_be_there(pod, sandbox_spec, monkeypatch):
    """A frozen container outlives `stop`, which says so; thawed it is gone, and a second call returns the end."""
    monkeypatch.setattr(pod_sandbox, "END_SECONDS", 1.0)
    pod.play(sandbox_spec("silent"))
    sandbox = pod.backend().start(sandbox_spec("silent"))
    pod.client.api.pause(pod.player)
    with pytest.raises(SandboxLost, match="still runs 1 s after"):
        sandbox.stop()
    pod.client.api.unpause(pod.player)
    assert sandbox.stop().ending is Ending.STOPPED
    assert pod.over(1)


def test_orphans_are_reaped(pod, sandbox_spec, listen):
    """200 orphans that end are no zombies: with 24 processes allowed, a next one can always be started."""
    ordered = sandbox_spec("orphans", limits=replace(Limits(), pids=24))
    pod.play(ordered)
    sandbox = pod.backend().start(ordered)
    assert listen.exactly(sandbox, 2) == b"0\n"
    sandbox.stop()


def test_a_player_of_a_killed_child_is_out_of_memory(pod, sandbox_spec, listen):
    """A player whose child the kernel killed is out of memory, also when it exits with code 0 itself."""
    ordered = sandbox_spec("children", "0", limits=replace(Limits(), memory=64 * MIB))
    pod.play(ordered)
    sandbox = pod.backend().start(ordered)
    assert listen.end(sandbox) == b"-9\n"
    end = sandbox.stop()
    assert (end.ending, end.code, end.kills >= 1) == (Ending.OUT_OF_MEMORY, 0, True)
    assert 60 * MIB < end.peak_bytes <= 64 * MIB


@pytest.mark.parametrize(
    ("control", "weaken", "change"),
    [
        ("user", {"User": "0:0"}, {"user": User.ROOT}),
        ("capabilities", {"User": "0:0", "CapAdd": ["NET_RAW"]}, {"user": User.ROOT, "capabilities": ("NET_RAW",)}),
        ("no_new_privileges", {"SecurityOpt": []}, {"no_new_privileges": False}),
        ("seccomp", {"SecurityOpt": ["no-new-privileges", "seccomp=unconfined"]}, {"seccomp": Seccomp.NONE}),
    ],
)
def test_a_pod_that_is_weaker_than_the_policy_is_refused(backend, sandbox_spec, control, weaken, change):
    """What the kernel says of the player's container is held against the policy; a policy that allows it is played."""
    ordered = sandbox_spec("echo")
    for pod, policy in ((backend.pod(), ordered.policy), (backend.pod(), replace(ordered.policy, **change))):
        pod.play(ordered, weaken)
        wish = replace(ordered, policy=policy)
        if policy == ordered.policy:
            with pytest.raises(SandboxLost, match=rf"more than the policy allows: .*{control}: wanted"):
                pod.backend().start(wish)
        else:
            pod.backend().start(wish).stop()
        assert pod.over(5)
        pod.delete()


def test_a_shell_that_the_player_can_look_into_is_refused(pod, sandbox_spec):
    """A readable program makes a process that its user may look into: what it tells could be the player's word."""
    (pod.fifos / "sh").chmod(0o555)
    pod.play(sandbox_spec("echo"))
    with pytest.raises(SandboxLost, match="can read the process that reports its end"):
        pod.backend().start(sandbox_spec("echo"))
    assert pod.over(5)


def test_the_shell_needs_nothing_of_the_image(pod, engine, run, policy):
    """In an image without a single file the player is missing, and that is told as everywhere."""
    empty = engine.api.import_image_from_data(bytes(1024))
    identity = engine.images.get(empty.split('"')[3] if empty.startswith("{") else empty).id
    try:
        base = ImageSource(image=identity, command=("nothing",))
        ordered = SandboxSpec(pod.backend().admit(base), policy, run, "job")
        pod.play(ordered)
        sandbox = pod.backend().start(ordered)
        assert sandbox.receive(soon(30)) == b""
        end = sandbox.stop()
        assert (end.ending, end.code, end.stderr) == (Ending.CRASHED, 127, b"nothing: not found in PATH\n")
    finally:
        pod.delete()
        engine.images.remove(identity, force=True)


def test_two_containers_talk(pod, sandbox_spec):
    """The driver in a container of its own, as neither root nor the player's user, plays through the same folder."""
    talk = """
import time
from pathlib import Path
from orchestrator.sandboxes.base import BackendSettings, Image, SandboxSpec
from orchestrator.sandboxes.pod.backend import PodBackend
from orchestrator.domain.policy import SandboxPolicy
sandbox = PodBackend(BackendSettings(Path("/io/fifos"))).start(SandboxSpec(Image("", ""), SandboxPolicy(), "r", "j"))
assert sandbox.send(b"x" * 3000000, time.monotonic() + 30)
heard = b""
while len(heard) < 3000000:
    heard += sandbox.receive(time.monotonic() + 30)
end = sandbox.stop()
print(len(heard), end.ending, end.code, end.cpu_seconds is not None, flush=True)
"""
    pod.play(sandbox_spec("echo"))
    said = pod.client.containers.run(
        RUNNER,
        ["-c", talk],
        entrypoint=["python3"],
        user=f"{DRIVER}:{DRIVER}",
        volumes={str(pod.folder): {"bind": "/io", "mode": "rw"}},
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        remove=True,
    )
    assert said == b"3000000 stopped None True\n"
    assert pod.over(1)


def test_a_player_cannot_reach_its_termination_message(pod, sandbox_spec):
    """The node's file, which every user may write to and the pod's status shows, is behind a closed folder."""
    pod.play(sandbox_spec("echo"))
    sandbox = pod.backend().start(sandbox_spec("echo"))
    client = pod.client.api
    user = client.inspect_container(pod.player)["Config"]["User"]
    for words in (
        f"echo x >>{PLAYER_MESSAGE_PATH}",
        f"cat {PLAYER_MESSAGE_PATH}",
        f"ls {Path(PLAYER_MESSAGE_PATH).parent}",
    ):
        asked = client.exec_create(pod.player, ["sh", "-c", words], user=user)["Id"]
        assert b"ermission denied" in client.exec_start(asked), words
    assert pod.message.read_bytes() == b""
    sandbox.stop()
