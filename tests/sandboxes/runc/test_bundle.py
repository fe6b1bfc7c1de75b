"""What a container of runc is described as, from a policy and an image."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.images import ImageConfig, read_image_config
from orchestrator.domain.policy import Network, SandboxPolicy, Seccomp, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import Image, SandboxSpec
from orchestrator.sandboxes.linux.host_limits import HOME, HostLimits
from orchestrator.sandboxes.runc.bundle import BundleFiles, container_config
from orchestrator.sandboxes.runc.cdi import GpuEdits

SHARED = "/dev/shm"  # noqa: S108  the sandbox's own
POLICY = SandboxPolicy()
FILES = BundleFiles(Path("/run/x/rootfs"), Path("/usr/bin/tini-static"), Path("/run/x/hosts"))
HOST = HostLimits(
    cpus=2,
    max_open_files=20_000,
    cgroup1=True,
    masked_paths=("/proc/kcore", "/proc/stat"),
    constants=(("/proc/stat", "/somewhere/stat"),),
)
INSPECTED = {
    "Id": "sha256:" + "ab" * 32,
    "Architecture": "amd64",
    "Os": "linux",
    "Config": {
        "Entrypoint": ["python3", "player.py"],
        "WorkingDir": "/opt/player",
        "Env": ["PATH=/usr/bin", "LD_PRELOAD=/evil.so", "HTTP_PROXY=http://x", "MODE=fast"],
    },
}


@pytest.fixture
def config() -> ImageConfig:
    """What is used of an image."""
    return read_image_config(INSPECTED)[0]


def described(config, policy: SandboxPolicy = POLICY, host: HostLimits = HOST) -> dict:
    """Returns the description of a sandbox."""
    spec = SandboxSpec(Image("sha256:" + "ab" * 32, "entry"), policy, "run-1", "job-1")
    return container_config(spec, config, 20_005, host, "/sparring-x/y", FILES)


def mounts(made) -> dict[str, dict]:
    """Returns the mounts by their places."""
    return {each["destination"]: each for each in made["mounts"]}


def test_a_strangers_container_has_nothing(config) -> None:
    """No capability, no network, no privilege, nothing to write to but /tmp and shared memory, all of a known size."""
    made = described(config)
    process, linux = made["process"], made["linux"]
    assert process["user"] == {"uid": 20_005, "gid": 20_005}
    assert set(process["capabilities"]) == {"bounding", "effective", "permitted", "inheritable", "ambient"}
    assert not any(process["capabilities"].values())
    assert process["noNewPrivileges"] is True
    assert {each["type"] for each in linux["namespaces"]} == {"pid", "uts", "mount", "network", "ipc", "cgroup"}
    assert made["root"] == {"path": "/run/x/rootfs", "readonly": True}
    assert linux["resources"]["devices"] == [{"allow": False, "access": "rwm"}]
    assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
    assert linux["cgroupsPath"] == "/sparring-x/y"
    writable = {
        place
        for place, each in mounts(made).items()
        if "ro" not in each.get("options", ()) and each["type"] in {"tmpfs", "bind"}
    }
    assert writable == {HOME, "/dev", SHARED}
    assert {"noexec", "nosuid", "nodev", "size=67108864", "nr_inodes=16384", "mode=0700", "uid=20005"} <= set(
        mounts(made)[HOME]["options"]
    )


def test_constants_lie_where_masks_would(config) -> None:
    """A file that is replaced is mounted, and is not masked besides."""
    made = described(config)
    assert made["linux"]["maskedPaths"] == ["/proc/kcore"]
    assert mounts(made)["/proc/stat"]["source"] == "/somewhere/stat"
    bare = described(config, SandboxPolicy(masked_proc=False))
    assert bare["linux"]["maskedPaths"] == bare["linux"]["readonlyPaths"] == []
    assert "/proc/stat" not in mounts(bare)


def test_little_is_taken_from_an_image(config) -> None:
    """Entry point, working folder, and the variables that reach no further than the player."""
    process = described(config)["process"]
    assert process["args"] == ["/dev/init", "--", "python3", "player.py"]
    assert process["cwd"] == "/opt/player"
    variables = dict(entry.split("=", 1) for entry in process["env"])
    assert variables["PATH"] == "/usr/bin"
    assert variables["MODE"] == "fast"
    assert variables["HOME"] == HOME
    assert not {"LD_PRELOAD", "HTTP_PROXY"} & variables.keys()


def test_limits_are_those_of_the_contest(config) -> None:
    """Memory with swap, processes, processor time in parts of 0.1 s, open files no more than the machine has."""
    limits = replace(Limits(), memory=2**30, pids=77, cpus=1.5, files=30_000)
    made = described(config, SandboxPolicy(limits))
    resources = made["linux"]["resources"]
    assert resources["memory"] == {"limit": 2**30, "swap": 2**30, "swappiness": 0}
    assert resources["pids"] == {"limit": 77}
    assert resources["cpu"] == {"quota": 150_000, "period": 100_000}
    assert made["process"]["rlimits"][0] == {"type": "RLIMIT_NOFILE", "soft": 20_000, "hard": 20_000}
    modern = described(config, SandboxPolicy(limits), replace(HOST, cgroup1=False))
    assert "swappiness" not in modern["linux"]["resources"]["memory"]


def test_each_control_can_be_removed(config) -> None:
    """For the hostile programs, which show what happens then."""
    policy = SandboxPolicy(
        network=Network.HOST,
        user=User.ROOT,
        capabilities=("SYS_ADMIN",),
        read_only_root=False,
        seccomp=Seccomp.NONE,
        private_ipc=False,
        private_cgroup=False,
        noexec_tmp=False,
        no_new_privileges=False,
        init=False,
    )
    made = described(config, policy)
    assert {each["type"] for each in made["linux"]["namespaces"]} == {"pid", "uts", "mount"}
    assert made["process"]["user"] == {"uid": 0, "gid": 0}
    assert made["process"]["capabilities"]["bounding"] == ["CAP_SYS_ADMIN"]
    assert "seccomp" not in made["linux"]
    assert made["process"]["args"] == ["python3", "player.py"]
    assert "exec" in mounts(made)[HOME]["options"]
    assert mounts(made)[SHARED]["source"] == SHARED


@pytest.mark.parametrize("change", [{"seccomp": Seccomp.ENGINE}, {"engine_logs": True}])
def test_what_only_an_engine_has_is_refused(config, change) -> None:
    """There is no engine here whose profile or logs could be used."""
    with pytest.raises(UsageError, match="only the docker backend"):
        described(config, SandboxPolicy(**change))


def test_a_gpu_adds_what_its_description_says_and_nothing_else(config) -> None:
    """Its device files and the rules for them, its variables, mounts and hooks; every other device stays forbidden."""
    gpu = GpuEdits(
        variables=("NVIDIA_VISIBLE_DEVICES=void",),
        devices=({"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0},),
        rules=({"allow": True, "type": "c", "major": 195, "minor": 0, "access": "rw"},),
        mounts=({"destination": "/lib/libcuda.so", "type": "bind", "source": "/lib/libcuda.so", "options": ["ro"]},),
        hooks={"createContainer": [{"path": "/usr/bin/nvidia-cdi-hook"}]},
    )
    spec = SandboxSpec(Image("sha256:" + "ab" * 32, "entry"), POLICY, "run-1", "job-1")
    plain, made = (container_config(spec, config, 20_005, HOST, "/x/y", FILES, *each) for each in ((), (gpu,)))
    assert made["process"]["env"] == [*plain["process"]["env"], *gpu.variables]
    assert made["mounts"] == [*plain["mounts"], *gpu.mounts]
    assert made["hooks"] == gpu.hooks
    assert made["linux"]["devices"] == list(gpu.devices)
    assert made["linux"]["resources"]["devices"] == [{"allow": False, "access": "rwm"}, *gpu.rules]
    assert made["root"] == plain["root"]
