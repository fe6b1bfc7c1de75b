"""What a container is made of, read from the options alone."""

from dataclasses import replace

import pytest

from orchestrator.domain.images import ImageConfig, read_image_config
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import Image, SandboxSpec
from orchestrator.sandboxes.docker import container_spec, player_fifos
from orchestrator.sandboxes.linux import seccomp

GPU = "GPU-5f1c2b7e-0d3a-4b6c-8f9e-0123456789ab"
ID = "sha256:" + "ab" * 32
HOST = container_spec.HostLimits(cpus=4, max_open_files=20_000, cgroup1=True)
CONFIG = ImageConfig(("python3", "player.py"), "/player", {"PATH": "/opt/bin", "MODEL": "small"})
SPEC = SandboxSpec(Image(ID, "entry"), SandboxPolicy(), run="run-1", job="job-1")
PLAIN = {"Os": "linux", "Architecture": "amd64", "Config": {"Cmd": ["python3"], "WorkingDir": "/player"}}


def options(sandbox_spec: SandboxSpec = SPEC, host: container_spec.HostLimits = HOST) -> dict:
    """Returns the options of a sandbox with user id 20007."""
    return container_spec.container_options(sandbox_spec, CONFIG, 20_007, host, "owner")


def variables(made: dict) -> dict[str, str]:
    """Returns the environment that the options describe, None for what is unset."""
    return {name: value if equals else None for name, equals, value in (entry.partition("=") for entry in made["Env"])}


def test_a_constant_is_mounted_in_place_of_a_mask():
    """Read-only, and no mask lies upon it; where nothing is masked, the kernel's own file is seen."""
    masks = ("/proc/meminfo", "/proc/vmstat")
    host = replace(HOST, masked_paths=masks, constants=(("/proc/meminfo", "/files/meminfo"),))
    made = options(host=host)["HostConfig"]
    assert made["MaskedPaths"] == ["/proc/vmstat"]
    bind = {"Type": "bind", "Source": "/files/meminfo", "Target": "/proc/meminfo", "ReadOnly": True}
    assert made["Mounts"] == [bind]
    assert "Mounts" not in options(host=replace(HOST, masked_paths=masks))["HostConfig"]
    bare = replace(SPEC, policy=replace(SPEC.policy, masked_proc=False))
    assert "Mounts" not in options(bare, host)["HostConfig"]


def test_a_player_with_fifos_has_none_of_the_engines_pipes():
    """The shell becomes its program on the FIFOs, both are mounted read-only, and the engine keeps stdin closed."""
    pipes = (("/io", "/files/one"), ("/io/sh", "/files/sh"))
    made = options(host=replace(HOST, pipes=pipes))
    assert made["Entrypoint"] == [*player_fifos.LAUNCHER, "python3", "player.py"]
    assert {name: made[name] for name in ("AttachStdin", "OpenStdin", "StdinOnce")} == dict.fromkeys(
        ("AttachStdin", "OpenStdin", "StdinOnce"), False
    )
    binds = [{"Type": "bind", "Source": source, "Target": place, "ReadOnly": True} for place, source in pipes]
    assert made["HostConfig"]["Mounts"] == binds
    assert options()["OpenStdin"] is True
    assert options()["Entrypoint"] == ["python3", "player.py"]


def test_with_a_hosts_file_the_engine_makes_no_network():
    """The file is mounted read-only; without one the engine makes its network `none` and its own file."""
    made = options(host=replace(HOST, hosts=(("/etc/hosts", "/files/hosts"),)))
    assert made["NetworkDisabled"] is True
    assert made["HostConfig"]["NetworkMode"] == "none"
    bind = {"Type": "bind", "Source": "/files/hosts", "Target": "/etc/hosts", "ReadOnly": True}
    assert made["HostConfig"]["Mounts"] == [bind]
    assert options()["NetworkDisabled"] is False


def test_everything_dangerous_is_off():
    """No network, no capabilities, no privileges to gain, no writable root, no log on the host's disk, no restart."""
    made = options()
    host = made["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges:true", f"seccomp={seccomp.seccomp_profile()}"]
    assert host["IpcMode"] == host["CgroupnsMode"] == "private"
    assert host["LogConfig"]["Type"] == "none"
    assert host["CapAdd"] == []
    assert host["Runtime"] == "runc"
    assert host["RestartPolicy"]["Name"] == "no"
    assert made["Healthcheck"] == {"Test": ["NONE"]}
    assert not {"Binds", "Mounts", "VolumesFrom", "Devices", "PidMode"} & set(host)


def test_each_limit_reaches_the_engine():
    """Memory without swap, processors, processes, files, /tmp and shared memory come from the order."""
    limits = replace(Limits(), memory=10**9, cpus=1.5, pids=77, files=333, tmp=5_000_000, shm=6_000_000)
    host = options(replace(SPEC, policy=SandboxPolicy(limits)))["HostConfig"]
    ulimits = {entry["Name"]: (entry["Soft"], entry["Hard"]) for entry in host["Ulimits"]}
    assert host["Memory"] == host["MemorySwap"] == 10**9
    assert host["NanoCpus"] == 1_500_000_000
    assert host["PidsLimit"] == 77
    assert host["ShmSize"] == 6_000_000
    assert ulimits["nofile"] == (333, 333)
    assert ulimits["core"] == (0, 0)
    assert host["OomScoreAdj"] == 1000
    assert set(host["Tmpfs"]) == {container_spec.HOME}
    assert {"noexec", "nosuid", "nodev", "size=5000000", "mode=0700", "uid=20007", "gid=20007"} <= set(
        host["Tmpfs"][container_spec.HOME].split(",")
    )


def test_more_than_the_machine_has_is_not_asked_for():
    """Processors and open files are bounded by what the engine's machine allows: asking for more is an error."""
    greedy = replace(SPEC, policy=SandboxPolicy(replace(Limits(), cpus=64.0, files=10**6)))
    host = options(greedy)["HostConfig"]
    assert host["NanoCpus"] == 4_000_000_000
    assert {"Name": "nofile", "Soft": 20_000, "Hard": 20_000} in host["Ulimits"]


@pytest.mark.parametrize(("version1", "there"), [(True, True), (False, False)])
def test_swappiness_is_for_version_1_groups_only(version1, there):
    """Version 2 control groups refuse a swappiness, so it is given to version 1 only."""
    assert ("MemorySwappiness" in options(host=replace(HOST, cgroup1=version1))["HostConfig"]) is there


def test_one_device_is_exactly_that_one():
    """A player with a GPU asks for that one UUID and for nothing by count, and says so in the environment."""
    made = options(replace(SPEC, device=GPU))
    (request,) = made["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == [GPU]
    assert request["Count"] == 0
    assert request["Capabilities"] == [["gpu"]]
    assert variables(made)["NVIDIA_VISIBLE_DEVICES"] == GPU


def test_no_device_is_none_at_all():
    """A player without a GPU requests none, and the GPU hook is told `void` whatever the image says."""
    made = options()
    assert made["HostConfig"]["DeviceRequests"] == []
    assert variables(made)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert variables(made)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("device", ["all", "0", "", f"{GPU},{GPU}", "GPU-", f"{GPU}\n"])
def test_what_is_not_one_gpu_is_refused(device):
    """Indices, `all` and lists are not the UUID of one GPU."""
    with pytest.raises(UsageError, match="UUID"):
        options(replace(SPEC, device=device))


def test_the_labels_say_whose_it_is():
    """Run, job and owner are labels; the container's own name and host name tell the player nothing."""
    made = options()
    assert made["Labels"] == {"sparring.run": "run-1", "sparring.job": "job-1", "sparring.owner": "owner"}
    assert made["Hostname"] == "sandbox"
    assert "run-1" not in str(made["Env"])
    assert "job-1" not in str(made["Env"])


def test_the_image_is_started_by_id_with_its_own_command():
    """The container is created from the image's id; the order's command wins over the image's."""
    assert options()["Image"] == ID
    assert options()["Entrypoint"] == ["python3", "player.py"]
    other = replace(SPEC, image=replace(SPEC.image, command=("other",)))
    assert options(other)["Entrypoint"] == ["other"]
    assert options(other)["Cmd"] == []


def test_an_images_environment_is_filtered():
    """The loader's, the GPU hook's, the engine's and our variables and proxies go; the submission's own stay."""
    image = {
        **PLAIN,
        "Config": {
            **PLAIN["Config"],
            "Env": [
                "PATH=/opt/bin",
                "PYTHONPATH=/a:/b",
                "MODEL=x=y",
                "LD_PRELOAD=/evil.so",
                "NVIDIA_VISIBLE_DEVICES=all",
                "DOCKER_HOST=tcp://x",
                "https_proxy=http://x",
                "NO_PROXY=*",
                "GLIBC_TUNABLES=x",
                "SPARRING_SANDBOX=x",
                "bad name=1",
                "OMP_NUM_THREADS=64",
                "HOSTNAME=other",
            ],
        },
    }
    config, problems = read_image_config(image)
    assert problems == []
    own = {"PATH": "/opt/bin", "PYTHONPATH": "/a:/b", "MODEL": "x=y"}
    assert config.environment == own | {"OMP_NUM_THREADS": "64", "HOSTNAME": "other"}
    made = container_spec.container_options(SPEC, config, 20_000, HOST)
    assert variables(made)["OMP_NUM_THREADS"] == "1"
    assert variables(made)["HOSTNAME"] == "sandbox"
    assert variables(made)["PATH"] == "/opt/bin"
    gone = ["LD_PRELOAD", "DOCKER_HOST", "https_proxy", "NO_PROXY", "GLIBC_TUNABLES", "SPARRING_SANDBOX", "bad name"]
    assert [variables(made)[name] for name in gone] == [None] * len(gone), "the engine would add them again"
    assert variables(made)["NVIDIA_VISIBLE_DEVICES"] == "void"
