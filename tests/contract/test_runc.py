"""What the runc backend owes beyond the contract: what was applied, mounts, images, and whose fault a start is."""

import json
import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from orchestrator import resources
from orchestrator.domain.policy import Network, Runtime, Seccomp, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import BackendUnavailable, InfrastructureFault, SandboxLost, UsageError
from orchestrator.gpus import Gpu
from orchestrator.sandbox_selftest import selftest
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import read_catalogue
from orchestrator.sandbox_selftest.outcome import Verdict
from orchestrator.sandboxes.base import Ending, ImageSource, Sandbox, SandboxSpec
from orchestrator.sandboxes.linux import uid_pool
from orchestrator.sandboxes.linux.cgroup_counters import is_version_2
from orchestrator.sandboxes.linux.host_limits import HOME
from orchestrator.sandboxes.retry_start import StartFailedError
from orchestrator.sandboxes.runc import backend as runc_backend
from orchestrator.sandboxes.runc import bundle, cdi, image_storage, rootfs_images, runtime
from orchestrator.sandboxes.runc.cleanup import RUN_FOLDER
from orchestrator.sandboxes.runc.rootfs_images import RootfsImages

pytestmark = [pytest.mark.docker, pytest.mark.parametrize("backend", ["runc"], indirect=True, scope="module")]

MIB = 1024 * 1024
SHARED = "/dev/shm"  # noqa: S108  the sandbox's own
DENTRIES = Path("/proc/sys/fs/dentry-state")
NAMES = 50_000
"""So many that what else goes on on this machine, which is counted too, does not matter."""
LOOK_UP = """
import os, sys
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    os.path.lexists(f"/players/none-{sys.argv[1]}-{number}")
print("done", flush=True)
sys.stdin.read()
"""
LOOK_AT_GPU = """
import errno, json, os, sys

def attempt(action):
    try:
        return action() or "done"
    except OSError as error:
        return errno.errorcode[error.errno]

print(json.dumps({
    "device": attempt(lambda: os.close(os.open("/dev/nvidia0", os.O_RDWR))),
    "library": attempt(lambda: open("/usr/lib/libcuda.so.1").read()),
    "added file": attempt(lambda: open("/usr/lib/added", "w")),
    "changed library": attempt(lambda: open("/usr/lib/libcuda.so.580", "w")),
    "variables": [os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("NVIDIA_VISIBLE_DEVICES")],
}), flush=True)
sys.stdin.read()
"""
ALLOWED = ["CAP_NET_RAW", "CAP_SYS_PTRACE"]
BEHIND = {
    "user": lambda config: config["process"].update(user={"uid": 0, "gid": 0}),
    "groups": lambda config: config["process"]["user"].update(additionalGids=[0]),
    "namespaces": lambda config: drop_namespace(config, "network"),
    "capabilities": lambda config: config["process"]["capabilities"].update(bounding=ALLOWED, permitted=ALLOWED),
    "no_new_privileges": lambda config: config["process"].update(noNewPrivileges=False),
    "seccomp": lambda config: config["linux"].pop("seccomp"),
    "masked_proc": lambda config: config["linux"]["maskedPaths"].pop(),
    "read-only paths": lambda config: config["linux"].update(readonlyPaths=[]),
    "tmp": lambda config: mount_of(config, HOME)["options"].remove("noexec"),
    "limits.tmp": lambda config: drop_option(mount_of(config, HOME), "size="),
    "limits.shm": lambda config: drop_option(mount_of(config, SHARED), "size="),
    "mounts": lambda config: config["mounts"].append(bundle._bind("/usr/share", "/mnt", "ro")),
    "constants": lambda config: config["mounts"].remove(mount_of(config, "/proc/stat")),
    "limits.memory": lambda config: config["linux"]["resources"]["memory"].update(swap=2**34),
    "limits.pids": lambda config: config["linux"]["resources"].pop("pids"),
    "limits.cpus": lambda config: config["linux"]["resources"].pop("cpu"),
    "devices": lambda config: config["linux"]["resources"].update(devices=[{"allow": True, "access": "rwm"}]),
    "limits.files": lambda config: config["process"]["rlimits"][0].update(soft=100, hard=100),
    "oom score": lambda config: config["process"].update(oomScoreAdj=0),
}


def mount_of(config, place: str) -> dict:
    """Returns the mount at a place."""
    return next(each for each in config["mounts"] if each["destination"] == place)


def drop_option(mount, start: str) -> None:
    """Takes an option of a mount away."""
    mount["options"] = [option for option in mount["options"] if not option.startswith(start)]


def drop_namespace(config, kind: str) -> None:
    """Has a container share a namespace with the host."""
    config["linux"]["namespaces"] = [each for each in config["linux"]["namespaces"] if each["type"] != kind]


@pytest.fixture
def start(backend, image, run, policy) -> Iterator[Callable[..., Sandbox]]:
    """Returns a function that starts a player with a command; whatever it started is stopped afterwards."""
    started = []

    def start(*command: str, image=image, policy=policy) -> Sandbox:
        started.append(backend.start(sandbox_spec(image, run, policy, *command)))
        return started[-1]

    yield start
    for sandbox in started:
        sandbox.stop()


def sandbox_spec(image, run, policy, *command: str) -> SandboxSpec:
    """Returns the specification of a player; without a command it says nothing."""
    return SandboxSpec(replace(image, command=command or ("python3", "silent.py")), policy, run, "job")


@pytest.mark.parametrize("control", BEHIND)
def test_a_container_made_weaker_is_refused(backend, image, run, policy, monkeypatch, control) -> None:
    """Behind the backend's back one control is weakened: start names it, and nothing of the container is left."""
    if control == "devices" and is_version_2():
        pytest.skip("in version 2 of control groups a program decides about devices; what it allows cannot be read")
    described = bundle.container_config

    def weakened(*arguments):
        config = described(*arguments)
        BEHIND[control](config)
        return config

    before = set(RUN_FOLDER.iterdir())
    monkeypatch.setattr(bundle, "container_config", weakened)
    with pytest.raises(SandboxLost, match=rf"policy demands.*[:;] {control}: wanted"):
        backend.start(sandbox_spec(image, run, policy))
    assert not [home for home in set(RUN_FOLDER.iterdir()) - before if f"-{os.getpid()}-" in home.name]


@pytest.mark.parametrize(
    "change",
    [
        {"network": Network.HOST},
        {"user": User.ROOT, "capabilities": ("NET_ADMIN",)},
        {"no_new_privileges": False},
        {"seccomp": Seccomp.NONE},
        {"private_ipc": False},
        {"private_cgroup": False},
        {"masked_proc": False},
        {"noexec_tmp": False},
        {"read_only_root": False},
        {"init": False},
    ],
    ids=str,
)
def test_a_weaker_policy_is_applied_as_well(start, policy, change) -> None:
    """With a control removed by policy the sandbox starts, and the kernel says that it is off."""
    start(policy=replace(policy, **change))


def test_what_only_others_have_is_refused(backend, image, run, policy) -> None:
    """An engine's profile and logs, and virtual machines: the message names the backend that has them."""
    for change in ({"seccomp": Seccomp.ENGINE}, {"engine_logs": True}):
        with pytest.raises(UsageError, match="only the docker backend"):
            backend.start(sandbox_spec(image, run, replace(policy, **change)))
    with pytest.raises(BackendUnavailable, match="use docker"):
        backend.start(sandbox_spec(image, run, replace(policy, runtime=Runtime.KATA)))


def test_a_gpu_that_no_description_names_is_refused(backend, image, run, policy) -> None:
    """Nothing is started without its GPU; the message says which program writes the description."""
    with pytest.raises(
        BackendUnavailable, match=r"no CDI description .* names the GPU GPU-1; `nvidia-ctk cdi generate"
    ):
        backend.start(replace(sandbox_spec(image, run, policy), device="GPU-1"))


def test_a_gpu_without_a_description_is_told_before_a_round(backend, monkeypatch) -> None:
    """A contest with GPUs learns it before anything is opened; another contest does not need a description."""
    monkeypatch.setattr(runc_backend, "list_gpus", lambda: (Gpu("GPU-1", "H200", "139 GB"),))
    backend.require_available()
    with pytest.raises(BackendUnavailable, match="names the GPU GPU-1"):
        backend.require_available(gpus=1)


@pytest.fixture
def described_gpu(tmp_path, monkeypatch) -> str:
    """Describes a device of this machine as a GPU, with a library and a hook as NVIDIA's; returns its UUID.

    The device is the one that gives out loop devices: no container gets it unless it is allowed, and opening it does
    nothing.
    """
    device = tmp_path / "device"
    os.mknod(device, 0o666 | stat.S_IFCHR, Path("/dev/loop-control").stat().st_rdev)
    device.chmod(0o666)
    (tmp_path / "libcuda.so.580").write_text("the driver's")
    link = 'bundle=$(sed \'s/.*"bundle": *"//; s/".*//\'); ln -s libcuda.so.580 "$bundle/rootfs/usr/lib/libcuda.so.1"'
    edits = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "mounts": [{"hostPath": str(tmp_path / "libcuda.so.580"), "containerPath": "/usr/lib/libcuda.so.580"}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/sh", "args": ["sh", "-c", link]}],
    }
    node = {"path": "/dev/nvidia0", "hostPath": str(device), "permissions": "rwm"}
    described = {
        "cdiVersion": "0.6.0",
        "kind": cdi.KIND,
        "devices": [{"name": "GPU-1", "containerEdits": {"deviceNodes": [node]}}],
        "containerEdits": edits,
    }
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / "nvidia.json").write_text(json.dumps(described))
    monkeypatch.setattr(runc_backend, "read_gpu_edits", partial(cdi.read_gpu_edits, folders=[folder]))
    return "GPU-1"


def test_a_player_has_the_gpu_that_is_described(backend, image, run, policy, listen, described_gpu) -> None:
    """It opens the device and reads the libraries, through what the hook added. It can change none of that.

    A player without a GPU has nothing of it, in a sandbox of the same image at the same time.
    """
    plain = sandbox_spec(image, run, policy, "python3", "-c", LOOK_AT_GPU)
    sandboxes = [backend.start(replace(plain, device=device)) for device in (described_gpu, None)]
    try:
        with_gpu, without = map(listen.report, sandboxes)
    finally:
        for sandbox in sandboxes:
            sandbox.stop()
    assert with_gpu == {
        "device": "done",
        "library": "the driver's",
        "added file": "EROFS",
        "changed library": "EROFS",
        "variables": ["GPU-1", "void"],
    }
    assert without == {
        "device": "ENOENT",
        "library": "ENOENT",
        "added file": "EROFS",
        "changed library": "EROFS",
        "variables": ["", None],
    }


@pytest.mark.parametrize(
    "name", ["files-device-nodes", "files-host-paths", "files-kernel-counters", "files-write-root"]
)
def test_hostile_programs_are_contained_with_a_gpu(backend, image, tmp_path, described_gpu, name) -> None:
    """Neither what a GPU adds to a sandbox nor what it leaves unmasked helps those that look for the host."""
    (program,) = selftest.select_programs(read_catalogue(resources.hostile_programs_path()), [name])
    context = Context(backend, image, Runtime.RUNC, tmp_path, device=described_gpu)
    outcome = selftest.run_program(program, context, removed=False)
    assert outcome.verdict is Verdict.CONTAINED, outcome.evidence


def test_a_device_is_of_no_use_without_its_rule(
    backend, image, run, policy, listen, described_gpu, monkeypatch
) -> None:
    """The control group forbids a device whose file is there: so the test above shows that the rule allows it."""
    read = runc_backend.read_gpu_edits
    monkeypatch.setattr(runc_backend, "read_gpu_edits", lambda uuid: replace(read(uuid), rules=()))
    player = replace(sandbox_spec(image, run, policy, "python3", "-c", LOOK_AT_GPU), device=described_gpu)
    sandbox = backend.start(player)
    try:
        assert listen.report(sandbox)["device"] == "EPERM"
    finally:
        sandbox.stop()


def negative_entries() -> int:
    """Returns how many names the kernel remembers as being nowhere, on the whole machine."""
    return int(DENTRIES.read_text().split()[4])


def test_a_look_up_is_new_in_every_sandbox(start, listen) -> None:
    """Names looked up in vain are as new to the kernel in a second sandbox, at the same time, and in a third, later.

    On files that sandboxes share, those that were looked up before are not counted again.
    """
    word = secrets.token_hex(4)

    def look_up():
        sandbox = start("python3", "-c", LOOK_UP, word, str(NAMES))
        before = negative_entries()
        assert sandbox.send(b"go\n", time.monotonic() + 60)
        assert listen.exactly(sandbox, 5, 60) == b"done\n"
        assert negative_entries() - before > 0.5 * NAMES
        return sandbox

    first, second = look_up(), look_up()
    first.stop()
    second.stop()
    look_up()


def test_a_player_that_fills_its_memory_is_out_of_memory(start, policy, listen) -> None:
    """Also where the pages of its program could be thrown out and read again without end: five of five."""
    small = replace(policy, limits=replace(Limits(), memory=64 * MIB))
    hoard = "import sys\nhoard = []\nwhile True: hoard.append(bytearray(b'x' * 1048576))"
    for _ in range(5):
        sandbox = start("python3", "-I", "-S", "-c", hoard, policy=small)
        assert listen.end(sandbox, 120) == b""
        assert sandbox.stop().ending is Ending.OUT_OF_MEMORY


def test_an_image_that_cannot_be_started_has_ended_before_it_began(start, policy) -> None:
    """A program that is not there is the image's doing: said on stderr, with others started as they should be."""
    sandbox = start("/no/such/program", policy=replace(policy, init=False))
    assert sandbox.receive(0.0) == b""
    ended = sandbox.stop()
    assert ended.ending is Ending.CRASHED
    assert b"no such file" in ended.stderr


def test_a_machine_that_cannot_start_anything_is_at_fault(backend, image, run, policy, monkeypatch) -> None:
    """Where a known image fares no better, the first failure is not the submission's."""

    def fails(*_, **__):
        raise StartFailedError("no such file or directory", unfit=True)

    monkeypatch.setattr(runtime, "start_container", fails)
    with pytest.raises(SandboxLost, match=r"nor can .* be started"):
        backend.start(sandbox_spec(image, run, policy))


def test_no_mount_is_ever_seen_on_the_host(start, monkeypatch) -> None:
    """Others would take a copy of it into their own namespaces, and whoever is killed would leave it."""
    run, seen = runtime.subprocess.run, []

    def watched(words, **options):
        done = run(words, **options)
        seen.append(Path("/proc/self/mountinfo").read_text())
        return done

    monkeypatch.setattr(runtime.subprocess, "run", watched)
    inside = Path(f"/proc/{start()._started.pid}/mountinfo").read_text()
    assert seen
    assert not any(str(RUN_FOLDER) in text for text in seen)
    assert " - squashfs /dev/loop" in inside


def test_what_a_dead_orchestrator_began_is_swept(backend, image) -> None:
    """One that was killed before its container started leaves a folder, which goes."""
    word = secrets.token_hex(4)
    program = f"""
import os, signal
from orchestrator.sandboxes.linux.sandbox_owner import Owner
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.runc import cleanup
home = cleanup.RUN_FOLDER / ProcessTag.create(Owner.current_process(), {word!r}).text
(home / "rootfs").mkdir(parents=True)
print(home, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    backend.clean_up()
    assert not Path(done.stdout.strip()).exists()


def test_a_machine_without_room_is_at_fault(backend, image, run, policy, monkeypatch, tmp_path) -> None:
    """Where a container's folder cannot be made the sandbox is lost, and its user id is free again."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(runc_backend, "RUN_FOLDER", tmp_path / "file" / "below")
    before = set(uid_pool._uids_in_use)
    with pytest.raises(SandboxLost, match="cannot be made"):
        backend.start(sandbox_spec(image, run, policy))
    assert uid_pool._uids_in_use == before


def test_an_image_file_that_cannot_be_mounted_is_ours(backend, image, run, policy, monkeypatch, tmp_path) -> None:
    """A file that was damaged on the disk: the submission did nothing."""
    broken = tmp_path / "broken.squashfs"
    broken.write_bytes(bytes(4096))
    monkeypatch.setattr(backend._rootfs, "file", lambda *_: broken)
    with pytest.raises(SandboxLost, match="cannot be mounted"):
        backend.start(sandbox_spec(image, run, policy))


def test_an_image_without_a_place_for_files_gets_one(backend, build, start, listen) -> None:
    """Where the image has no /tmp, a sandbox has it all the same, as every other."""
    bare = backend.admit(ImageSource(image=build("USER 0\nRUN rm -rf /tmp\n")))
    assert listen.report(start("python3", "surroundings.py", image=bare))["left"]


def test_an_image_is_flattened_once(backend, image, tmp_path, monkeypatch) -> None:
    """Four that want it at the same moment wait for one; afterwards it is there."""
    images, made = RootfsImages(backend._images, tmp_path), []
    write = rootfs_images._write_squashfs
    monkeypatch.setattr(rootfs_images, "_write_squashfs", lambda *given: made.append(1) or write(*given))
    with ThreadPoolExecutor(4) as pool:
        files = set(pool.map(lambda _: images.file(image.digest, "/"), range(4)))
    [file] = files
    assert made == [1]
    assert file.stat().st_mode & 0o777 == 0o400
    assert images.remove_unknown() == 0
    file.rename(tmp_path / f"{'ab' * 32}.squashfs")
    assert images.remove_unknown() == 1


def test_flattened_images_take_bounded_room(backend, image, tmp_path, monkeypatch) -> None:
    """The file that was not used for longest goes first; what was used in the last hour stays, however large."""
    images = RootfsImages(backend._images, tmp_path)
    for name, used_at in (("a", 1_000), ("b", 2_000), ("c", 4_000_000_000)):
        file = tmp_path / f"{name * 64}.squashfs"
        file.write_bytes(bytes(100))
        os.utime(file, (used_at, used_at))
    monkeypatch.setattr(rootfs_images, "_write_squashfs", lambda _, path: path.write_bytes(bytes(100)))
    monkeypatch.setattr(rootfs_images, "CACHE_BYTES", 300)
    made = images.file(image.digest, "/")
    assert {path.name[0] for path in tmp_path.glob("*.squashfs") if path != made} == {"b", "c"}
    monkeypatch.setattr(rootfs_images, "CACHE_BYTES", 0)
    made.unlink()
    made = images.file(image.digest, "/")
    assert {path.name[0] for path in tmp_path.glob("*.squashfs") if path != made} == {"c"}
    assert made.exists()


def test_an_image_that_cannot_be_flattened_leaves_nothing(backend, image, tmp_path, monkeypatch) -> None:
    """What the engine exports is cut short: that is ours, and no half of a file is kept."""
    images = RootfsImages(backend._images, tmp_path)
    monkeypatch.setattr(backend._images._engine, "export", lambda _: (piece for piece in [b"no tar at all" * 100]))
    with pytest.raises(InfrastructureFault, match="mksquashfs ended with code"):
        images.file(image.digest, "/")
    assert list(tmp_path.glob("*.squashfs*")) == []


def test_the_words_of_a_program_that_ends_at_once_are_told(backend, image, tmp_path, monkeypatch) -> None:
    """It does not read what it is given, so writing to it fails too, and that would say nothing."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are root's alone, and mksquashfs runs as nobody
        Path(folder).chmod(0o755)
        program = Path(folder, "mksquashfs")
        program.write_text("#!/bin/sh\necho no such compression >&2\nexit 7\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        with pytest.raises(InfrastructureFault, match="mksquashfs ended with code 7: no such compression"):
            RootfsImages(backend._images, tmp_path).file(image.digest, "/")


def test_a_full_disk_is_ours(backend, image, tmp_path, monkeypatch) -> None:
    """Where there is no room for an image the message says how much is missing, and where."""
    monkeypatch.setattr(image_storage, "MIN_FREE_BYTES", 2**60)
    with pytest.raises(InfrastructureFault, match="stay free"):
        RootfsImages(backend._images, tmp_path).file(image.digest, "/")


def test_without_root_another_backend_is_named(backend, monkeypatch) -> None:
    """Only root may mount: everybody else is told to use docker."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BackendUnavailable, match="use docker"):
        backend.require_available()
