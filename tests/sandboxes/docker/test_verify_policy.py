"""Reading back: each control is weakened in turn, in what the engine says and in what the kernel says.

`recorded/` holds both for one sandbox of Docker 20.10 with version 1 control groups; the profile's text is left out.
"""

import copy
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.policy import Network, Runtime, SandboxPolicy, Seccomp, User
from orchestrator.domain.tasks import Limits
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import Image, SandboxSpec
from orchestrator.sandboxes.docker import verify_policy
from orchestrator.sandboxes.linux import proc_view, seccomp
from orchestrator.sandboxes.linux.applied_policy import ALWAYS_MASKED, Mismatch, RequestedPolicy
from orchestrator.sandboxes.linux.host_limits import HOME, HostLimits
from orchestrator.sandboxes.linux.proc_view import ProcView

RECORDED = Path(__file__).parents[1] / "recorded"
POLICY = SandboxPolicy()
HOST = HostLimits(cpus=2, max_open_files=20_000, cgroup1=True)
PID = "15706"


def wish(policy: SandboxPolicy = POLICY, device: str | None = None) -> RequestedPolicy:
    """Returns what the recorded sandbox was to be."""
    return RequestedPolicy(
        SandboxSpec(Image("sha256:" + "ab" * 32, "entry"), policy, "run-1", "job-1", device=device), 20_000, HOST
    )


@pytest.fixture
def inspect() -> dict:
    """What the engine said of the recorded sandbox."""
    return json.loads(
        (RECORDED / "inspect.json").read_text().replace("PROFILE", json.dumps(seccomp.seccomp_profile())[1:-1])
    )


@pytest.fixture
def process(tmp_path) -> Path:
    """What the kernel said of its first process: a folder with `proc` and `groups`."""
    parts = re.split(r"^==> (.+) <==\n", (RECORDED / "process.txt").read_text(), flags=re.MULTILINE)[1:]
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    container = re.search(r"/([0-9a-f]{64})$", named["cgroup"], re.MULTILINE)[1]
    group = named["cgroup"].splitlines()[0].split(":")[2].lstrip("/")
    assert container == json.loads((RECORDED / "inspect.json").read_text())["Id"]
    for name, text in named.items():
        _, _, inner = name.partition("groups/")
        where = tmp_path / f"groups/{inner.replace('/', f'/{group}/')}" if inner else tmp_path / "proc" / PID / name
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)
    (tmp_path / "proc" / PID / "exe").symlink_to("/usr/sbin/docker-init")
    for owner in (PID, "self"):
        (tmp_path / "proc" / owner / "ns").mkdir(parents=True)
        for space in proc_view._NAMESPACES:
            (tmp_path / "proc" / owner / "ns" / space).touch()
    return tmp_path


def view(process: Path, container: str) -> ProcView | None:
    """Returns what `_kernel` reads there."""
    return ProcView.read_process(int(PID), container, process / "proc", process / "groups")


def controls(found: list[Mismatch]) -> list[str]:
    """Returns which controls were named."""
    return [each.control for each in found]


def test_a_sandbox_as_it_should_be_has_no_weakness(inspect, process) -> None:
    """Of what the engine and the kernel said of a real sandbox nothing is found wanting."""
    seen = view(process, inspect["Id"])
    assert seen is not None
    assert verify_policy.mismatches(wish(), inspect, seen) == []
    assert verify_policy.mismatches(wish(), inspect) == []


ENGINE = [
    ("Config.User", "0:0", "user"),
    ("Config.User", "", "user"),
    ("Config.User", "20000:0", "user"),
    ("HostConfig.CapDrop", [], "capabilities"),
    ("HostConfig.CapDrop", None, "capabilities"),
    ("HostConfig.CapAdd", ["SYS_ADMIN"], "capabilities"),
    ("HostConfig.SecurityOpt", ["seccomp=PROFILE"], "no_new_privileges"),
    ("HostConfig.SecurityOpt", ["no-new-privileges:false", "seccomp=PROFILE"], "no_new_privileges"),
    ("HostConfig.SecurityOpt", ["no-new-privileges:true"], "seccomp"),
    ("HostConfig.SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"], "seccomp"),
    ("HostConfig.SecurityOpt", ["no-new-privileges:true", 'seccomp={"defaultAction":"SCMP_ACT_ALLOW"}'], "seccomp"),
    ("HostConfig.SecurityOpt", ["no-new-privileges:true", "seccomp=PROFILE", "seccomp=unconfined"], "seccomp"),
    (
        "HostConfig.SecurityOpt",
        ["no-new-privileges:true", "seccomp=PROFILE", "apparmor=unconfined"],
        "security options",
    ),
    ("HostConfig.Privileged", True, "privileged"),
    ("HostConfig.Privileged", None, "privileged"),
    ("HostConfig.GroupAdd", ["0"], "groups"),
    ("HostConfig.Runtime", "runsc", "runtime"),
    ("HostConfig.NetworkMode", "default", "network"),
    ("NetworkSettings.Networks", {"none": {}, "bridge": {}}, "network"),
    ("HostConfig.PortBindings", {"80/tcp": [{"HostPort": "80"}]}, "ports"),
    ("HostConfig.PublishAllPorts", True, "ports"),
    ("HostConfig.Links", ["other:name"], "links"),
    ("HostConfig.IpcMode", "shareable", "private_ipc"),
    ("HostConfig.IpcMode", "host", "private_ipc"),
    ("HostConfig.CgroupnsMode", "host", "private_cgroup"),
    ("HostConfig.PidMode", "host", "PidMode"),
    ("HostConfig.PidMode", "container:abc", "PidMode"),
    ("HostConfig.UTSMode", "host", "UTSMode"),
    ("HostConfig.UsernsMode", "host", "UsernsMode"),
    ("HostConfig.Memory", 0, "limits.memory"),
    ("HostConfig.Memory", 2**32, "limits.memory"),
    ("HostConfig.MemorySwap", -1, "limits.memory"),
    ("HostConfig.MemorySwap", 0, "limits.memory"),
    ("HostConfig.OomKillDisable", True, "limits.memory"),
    ("HostConfig.MemorySwappiness", None, "swappiness"),
    ("HostConfig.OomScoreAdj", 0, "oom score"),
    ("HostConfig.PidsLimit", None, "limits.pids"),
    ("HostConfig.PidsLimit", 0, "limits.pids"),
    ("HostConfig.PidsLimit", -1, "limits.pids"),
    ("HostConfig.NanoCpus", 0, "limits.cpus"),
    ("HostConfig.ShmSize", 2**30, "limits.shm"),
    ("HostConfig.Ulimits.0.Hard", 2**20, "limits.files"),
    ("HostConfig.Ulimits.1.Soft", -1, "ulimit core"),
    ("HostConfig.Ulimits.2.Hard", -1, "ulimit fsize"),
    ("HostConfig.Ulimits.3.Hard", -1, "ulimit memlock"),
    ("HostConfig.Ulimits.4.Hard", -1, "ulimit msgqueue"),
    ("HostConfig.Ulimits.5.Hard", -1, "ulimit sigpending"),
    ("HostConfig.Ulimits.5.Name", "nice", "ulimit sigpending"),
    ("HostConfig.ReadonlyRootfs", False, "read_only_root"),
    ("HostConfig.Tmpfs", {HOME: ""}, "tmp"),
    ("HostConfig.Tmpfs", None, "tmp"),
    ("HostConfig.Binds", ["/:/host"], "Binds"),
    ("HostConfig.Mounts", [{"Type": "bind", "Source": "/", "Target": "/host"}], "Mounts"),
    ("Mounts", [{"Type": "volume", "Destination": "/data", "RW": True}], "Mounts"),
    ("HostConfig.VolumesFrom", ["other"], "VolumesFrom"),
    ("Config.Volumes", {"/data": {}}, "Volumes"),
    ("HostConfig.Devices", [{"PathOnHost": "/dev/kvm"}], "Devices"),
    ("HostConfig.DeviceCgroupRules", ["a *:* rwm"], "DeviceCgroupRules"),
    ("HostConfig.DeviceRequests", [{"Count": -1, "DeviceIDs": None}], "devices"),
    ("HostConfig.MaskedPaths", [], "masked_proc"),
    ("HostConfig.MaskedPaths", None, "masked_proc"),
    ("HostConfig.MaskedPaths", sorted(ALWAYS_MASKED - {"/proc/sys/fs"}), "masked_proc"),
    ("HostConfig.ReadonlyPaths", [], "read-only paths"),
    ("HostConfig.Init", False, "init"),
    ("HostConfig.Init", None, "init"),
    ("HostConfig.LogConfig.Type", "json-file", "engine_logs"),
    ("HostConfig.RestartPolicy.Name", "always", "restart policy"),
    ("Config.Healthcheck", {"Test": ["CMD", "/probe"]}, "health check"),
    ("Config.Healthcheck", None, "health check"),
    ("HostConfig.AutoRemove", True, "automatic removal"),
    ("Config.Tty", True, "terminal"),
]


@pytest.mark.parametrize(("place", "value", "control"), ENGINE, ids=[f"{e[0]}={str(e[1])[:30]}" for e in ENGINE])
def test_each_weakened_control_is_named(inspect, place, value, control) -> None:
    """One value of the engine's answer changed: exactly that control is named, with what was wanted and found."""
    text = json.dumps(value).replace("PROFILE", json.dumps(seccomp.seccomp_profile())[1:-1])
    *path, last = place.split(".")
    inside = inspect
    for key in path:
        inside = inside[int(key) if key.isdigit() else key]
    before = copy.deepcopy(inside.get(last))
    inside[last] = json.loads(text)
    assert inside[last] != before, "nothing was changed: the test proves nothing"
    (weakness,) = verify_policy.mismatches(wish(), inspect)
    assert weakness.control == control
    assert weakness.wanted != weakness.found


@pytest.mark.parametrize(
    "place",
    ["Config.User", "HostConfig.CapDrop", "HostConfig.SecurityOpt", "HostConfig.NetworkMode", "HostConfig.Memory"],
)
def test_an_answer_that_lacks_a_control_is_a_weakness(inspect, place) -> None:
    """A control of which the engine says nothing counts as missing."""
    section, key = place.split(".")
    del inspect[section][key]
    assert len(verify_policy.mismatches(wish(), inspect)) >= 1


def test_an_empty_answer_lacks_nearly_everything() -> None:
    """An engine that says nothing of its container is not believed."""
    named = set(controls(verify_policy.mismatches(wish(), {})))
    assert {"user", "network", "read_only_root", "capabilities", "seccomp", "limits.memory", "runtime"} <= named


KERNEL = [
    ("status", "Uid:\t20000\t20000", "Uid:\t20000\t0", "user"),
    ("status", "Gid:\t20000", "Gid:\t0", "user"),
    ("status", "Groups:\t20000", "Groups:\t20000 0", "groups"),
    ("status", "CapInh:\t0000000000000000", "CapInh:\t0000000000000001", "capabilities"),
    ("status", "CapPrm:\t0000000000000000", "CapPrm:\t0000000000000001", "capabilities"),
    ("status", "CapEff:\t0000000000000000", "CapEff:\t00000000a80425fb", "capabilities"),
    ("status", "CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb", "capabilities"),
    ("status", "CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001", "capabilities"),
    ("status", "NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privileges"),
    ("status", "Seccomp:\t2", "Seccomp:\t0", "seccomp"),
    ("status", "Seccomp:\t2", "Seccomp_was:\t2", "seccomp"),
    ("oom_score_adj", "1000", "0", "oom score"),
    ("limits", "1024                 1024", "1024                 9999", "limits.files"),
    ("limits", "Max core file size        0                    0 ", "Max core file size        0  ", "ulimit core"),
    ("limits", "65536                65536", "65536                unlimited", "ulimit memlock"),
    ("limits", "Max pending signals       4096                 4096", "Max pending signals", "ulimit sigpending"),
    ("net/route", "IRTT", "IRTT\neth0\t00000000\t010011AC\t0003", "network"),
    ("net/ipv6_route", "       lo", "     eth0", "network"),
    ("mountinfo", " / / ro,relatime", " / / rw,relatime", "read_only_root"),
    ("mountinfo", f"{HOME} rw,nosuid,nodev,noexec", f"{HOME} rw,nosuid,nodev", "tmp"),
    ("mountinfo", "nr_inodes=16384", "nr_inodes=999999", "tmp"),
    ("mountinfo", "rw,size=65536k,nr_inodes", "rw,nr_inodes", "limits.tmp"),
    ("mountinfo", "shm rw,size=65536k", "shm rw", "limits.shm"),
    ("mountinfo", "/etc/hosts ro,", "/etc/hosts rw,", "mounts"),
    ("mountinfo", "/etc/hosts ro,", "/data ro,", "mounts"),
    ("mountinfo", " / /sys ro,", " / /sys rw,", "read-only paths"),
    ("mountinfo", "/proc/sys ro,", "/proc/sys rw,", "read-only paths"),
    ("memory/memory.limit_in_bytes", "2147483648", "9223372036854771712", "limits.memory"),
    ("memory/memory.memsw.limit_in_bytes", "2147483648", "9223372036854771712", "limits.memory"),
    ("pids/pids.max", "256", "max", "limits.pids"),
    ("cpu/cpu.cfs_quota_us", "100000", "-1", "limits.cpus"),
    ("cpu/cpu.cfs_period_us", "100000", "1000", "limits.cpus"),
    ("devices/devices.list", "b *:* m", "a *:* rwm", "devices"),
]


@pytest.mark.parametrize(("name", "old", "new", "control"), KERNEL, ids=[f"{e[3]}: {e[0]}" for e in KERNEL])
def test_what_the_kernel_says_counts_too(inspect, process, name, old, new, control) -> None:
    """The engine claims everything is well; one thing that the kernel says is otherwise, and that control is named."""
    controller, _, file = name.partition("/")
    [path] = [path for path in process.rglob(Path(name).name) if not file or controller in path.parts]
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    seen = view(process, inspect["Id"])
    assert seen is not None
    assert controls(verify_policy.mismatches(wish(), inspect, seen)) == [control]


@pytest.mark.parametrize("space", proc_view._NAMESPACES)
def test_a_shared_namespace_is_named(inspect, process, space) -> None:
    """A namespace that the player has in common with the orchestrator is a weakness."""
    theirs = process / "proc" / PID / "ns" / space
    theirs.unlink()
    os.link(process / "proc/self/ns" / space, theirs)
    assert controls(verify_policy.mismatches(wish(), inspect, view(process, inspect["Id"]))) == ["namespaces"]


def test_a_path_without_its_mask_is_named(inspect, process) -> None:
    """The engine claims that a file is masked; the player's mounts show it bare where the file is there at all."""
    masks = ("/proc/acpi", "/proc/pressure", "/sys/nothing-of-the-kind")
    inspect["HostConfig"]["MaskedPaths"] += masks
    wanted = replace(wish(), host=replace(HOST, masked_paths=masks))
    bare = process / "proc" / PID / "root/proc/pressure"
    bare.parent.mkdir(parents=True)
    bare.touch()
    bare.with_name("acpi").mkdir()  # which is masked: the recorded mounts say so
    seen = ProcView.read_process(int(PID), inspect["Id"], process / "proc", process / "groups", masks=masks)
    assert seen is not None
    (weakness,) = verify_policy.mismatches(wanted, inspect, seen)
    assert (weakness.control, weakness.found) == ("masked_proc", "/proc/pressure")


ASKED = {"Type": "bind", "Source": "/files/meminfo", "Target": "/proc/meminfo", "ReadOnly": True}
THERE = {"Type": "bind", "Source": "/files/meminfo", "Destination": "/proc/meminfo", "RW": False}


@pytest.mark.parametrize(
    ("asked", "there", "options", "found"),
    [
        ([ASKED], [THERE], "ro", []),
        ([], [THERE], "ro", ["Mounts"]),
        ([ASKED], [], "ro", ["Mounts"]),
        ([ASKED | {"ReadOnly": False}], [THERE | {"RW": True}], "rw", ["Mounts", "constants", "mounts"]),
        ([ASKED | {"Source": "/etc/shadow"}], [THERE | {"Source": "/etc/shadow"}], "ro", ["Mounts"]),
        ([ASKED, ASKED | {"Target": "/host"}], [THERE, THERE | {"Destination": "/host"}], "ro", ["Mounts"]),
        ([ASKED], [THERE], "", ["constants"]),
    ],
)
def test_a_constant_is_where_it_was_asked_for(inspect, process, asked, there, options, found) -> None:
    """Missing, writable, of another file, or beside another one: the engine's word and the kernel's are held to it."""
    wanted = replace(wish(), host=replace(HOST, constants=(("/proc/meminfo", "/files/meminfo"),)))
    inspect["HostConfig"]["Mounts"], inspect["Mounts"] = asked, there
    mounts = process / "proc" / PID / "mountinfo"
    if options:
        line = f"199 155 254:0 /files/meminfo /proc/meminfo {options},relatime - ext4 /dev/vda rw\n"
        mounts.write_text(mounts.read_text() + line)
    seen = view(process, inspect["Id"])
    assert seen is not None
    assert controls(verify_policy.mismatches(wanted, inspect, seen)) == found


@pytest.mark.parametrize(
    ("writable", "missing", "found"),
    [(False, False, []), (True, False, ["Mounts", "pipes", "mounts"]), (False, True, ["Mounts", "pipes"])],
)
def test_fifos_are_mounted_read_only(inspect, process, writable, missing, found) -> None:
    """A folder of FIFOs that the player could write to is a weakness, and so is one that is not there."""
    pipes = (("/io", "/files/one"), ("/io/sh", "/files/sh"))
    wanted = replace(wish(), host=replace(HOST, pipes=pipes))
    there = pipes[:1] if missing else pipes
    options = "rw" if writable else "ro"
    inspect["HostConfig"]["Mounts"] = [
        {"Type": "bind", "Source": source, "Target": place, "ReadOnly": not writable} for place, source in there
    ]
    inspect["Mounts"] = [
        {"Type": "bind", "Source": source, "Destination": place, "RW": writable} for place, source in reversed(there)
    ]
    mounts = process / "proc" / PID / "mountinfo"
    lines = [f"199 155 254:0 {source} {place} {options},relatime - ext4 /dev/vda rw\n" for place, source in there]
    mounts.write_text(mounts.read_text() + "".join(lines))
    seen = view(process, inspect["Id"])
    assert seen is not None
    assert controls(verify_policy.mismatches(wanted, inspect, seen)) == found


def test_a_missing_counter_is_a_weakness(inspect, process) -> None:
    """Where the kernel has no such limit for the player's group, the limit is missing."""
    for path in process.rglob("pids.max"):
        path.unlink()
    assert controls(verify_policy.mismatches(wish(), inspect, view(process, inspect["Id"]))) == ["limits.pids"]


def test_a_process_that_is_not_the_containers_is_not_judged(inspect, process) -> None:
    """A process id that means another process from here, a zombie, and no process at all give no view."""
    assert view(process, "0" * 64) is None
    assert ProcView.read_process(0, inspect["Id"], process / "proc", process / "groups") is None
    assert ProcView.read_process(4711, inspect["Id"], process / "proc", process / "groups") is None
    status = process / "proc" / PID / "status"
    status.write_text(status.read_text().replace("State:\tS (sleeping)", "State:\tZ (zombie)"))
    assert view(process, inspect["Id"]) is None


def test_under_gvisor_the_boundary_is_looked_at(inspect, process) -> None:
    """With runsc the process on the host must be runsc; its own rights are not the player's, and are not judged."""
    policy = replace(POLICY, runtime=Runtime.RUNSC)
    inspect["HostConfig"]["Runtime"] = "runsc"
    status = process / "proc" / PID / "status"
    status.write_text(status.read_text().replace("CapBnd:\t0", "CapBnd:\t1"))
    assert controls(verify_policy.mismatches(wish(policy), inspect, view(process, inspect["Id"]))) == ["runtime"]
    exe = process / "proc" / PID / "exe"
    exe.unlink()
    exe.symlink_to("/usr/bin/runsc")
    assert verify_policy.mismatches(wish(policy), inspect, view(process, inspect["Id"])) == []
    status.write_text(status.read_text().replace("Seccomp:\t2", "Seccomp:\t0"))
    named = controls(verify_policy.mismatches(wish(policy), inspect, view(process, inspect["Id"])))
    assert named == ["gVisor's own filter"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"network": Network.HOST}, {"network", "namespaces"}),
        ({"user": User.ROOT}, {"user", "tmp", "groups"}),
        ({"read_only_root": False}, {"read_only_root"}),
        ({"capabilities": ("NET_RAW",)}, {"capabilities"}),
        ({"no_new_privileges": False}, {"no_new_privileges"}),
        ({"seccomp": Seccomp.NONE}, {"seccomp"}),
        ({"private_ipc": False}, {"private_ipc", "namespaces"}),
        ({"private_cgroup": False}, {"private_cgroup", "namespaces"}),
        ({"noexec_tmp": False}, {"tmp"}),
        ({"init": False}, {"init"}),
        ({"engine_logs": True}, {"engine_logs"}),
        ({"limits": replace(Limits(), memory=2**32)}, {"limits.memory"}),
        ({"limits": replace(Limits(), tmp=2**26 + 1, shm=2**27)}, {"tmp", "limits.tmp", "limits.shm", "ulimit fsize"}),
    ],
)
def test_a_removed_control_must_really_be_removed(inspect, process, change, named) -> None:
    """A weaker policy is read back as strictly: a trial without a control must not have it on after all."""
    found = verify_policy.mismatches(wish(replace(POLICY, **change)), inspect, view(process, inspect["Id"]))
    assert set(controls(found)) == named


def test_version_2_groups_are_read(inspect, process, tmp_path) -> None:
    """The unified tree has other names and no swap in the memory limit."""
    folder = tmp_path / "two"
    group = folder / "system.slice" / f"docker-{inspect['Id']}.scope"
    group.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    for name, text in {
        "memory.max": "2147483648",
        "memory.swap.max": "0",
        "pids.max": "256",
        "cpu.max": "100000 100000",
    }.items():
        (group / name).write_text(text + "\n")
    (process / "proc" / PID / "cgroup").write_text(f"0::/system.slice/docker-{inspect['Id']}.scope\n")
    inspect["HostConfig"]["MemorySwappiness"] = None
    other = replace(wish(), host=replace(HOST, cgroup1=False))
    seen = ProcView.read_process(int(PID), inspect["Id"], process / "proc", folder)
    assert seen is not None
    assert not seen.version1
    assert verify_policy.mismatches(other, inspect, seen) == []
    (group / "memory.swap.max").write_text("max\n")
    (group / "cpu.max").write_text("max 100000\n")
    seen = ProcView.read_process(int(PID), inspect["Id"], process / "proc", folder)
    assert controls(verify_policy.mismatches(other, inspect, seen)) == ["limits.memory", "limits.cpus"]


def test_the_message_names_every_control(inspect) -> None:
    """A refusal says each control with what was wanted and what was found, and never prints a whole profile."""
    inspect["HostConfig"] |= {"ReadonlyRootfs": False, "SecurityOpt": ["no-new-privileges:true"], "PidsLimit": None}
    inspect["State"] = {"Pid": 0}
    with pytest.raises(SandboxLost) as caught:
        verify_policy.require_applied(wish(), inspect)
    said = str(caught.value)
    assert "read_only_root: wanted True, found False" in said
    assert "limits.pids: wanted 256, found nothing" in said
    assert "seccomp: wanted our profile, found nothing" in said
    assert len(said) < 600


def test_a_container_that_is_gone_is_lost() -> None:
    """No answer at all is no permission to play."""
    with pytest.raises(SandboxLost, match="removed"):
        verify_policy.require_applied(wish(), None)
