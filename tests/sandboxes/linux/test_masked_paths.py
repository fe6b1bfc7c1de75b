"""Which paths of a kernel are masked, from a made tree: what is not known as harmless is hidden."""

from pathlib import Path

import pytest

from orchestrator.sandboxes.linux import masked_paths

KEPT = (
    *("proc/1/status", "proc/cpuinfo", "proc/sys/net/core/somaxconn", "proc/sys/vm/overcommit_memory", "proc/version"),
    *("sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/topology/core_id", "sys/fs/cgroup/cpu.max"),
    "sys/devices/system/node/node0/cpulist",
)
HIDDEN = {
    "proc/a-counter-of-a-later-kernel": "/proc/a-counter-of-a-later-kernel",
    "proc/sys/fs/dentry-state": "/proc/sys/fs",
    "proc/sys/kernel/ns_last_pid": "/proc/sys/kernel",
    "proc/sys/new/counter": "/proc/sys/new",
    "sys/block/vda/stat": "/sys/block",
    "sys/devices/system/cpu/cpu0/cpuidle/state0/usage": "/sys/devices/system/cpu/cpu0/cpuidle",
    "sys/devices/system/node/node0/vmstat": "/sys/devices/system/node/node0/vmstat",
    "sys/devices/pci0000:00/power/runtime_active_time": "/sys/devices/pci0000:00",
    "sys/fs/ext4/vda/session_write_kbytes": "/sys/fs/ext4",
    "sys/kernel/slab/dentry/objects": "/sys/kernel",
}


@pytest.fixture
def kernel(tmp_path) -> Path:
    """A kernel's /proc and /sys with some files, and a link among them."""
    for name in (*KEPT, *HIDDEN):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "sys/devices/system/cpu/cpu0/cpufreq").symlink_to("../cpufreq/policy0")
    return tmp_path


def covers(masks: tuple[str, ...], name: str) -> list[str]:
    """Returns the masks that lie on a path or above it."""
    above = {f"/{name}", *(f"/{each}" for each in Path(name).parents)}
    return [mask for mask in masks if mask in above]


def test_what_is_not_listed_is_masked(kernel) -> None:
    """Counters are hidden by the highest folder that is none of a program's, a counter nobody has heard of too."""
    masks = masked_paths.masked_paths(root=kernel)
    assert {name: covers(masks, name) for name in HIDDEN} == {name: [mask] for name, mask in HIDDEN.items()}


def test_what_a_program_needs_stays(kernel) -> None:
    """A process's own folder, the processors, their caches and nodes, and limits are seen."""
    masks = masked_paths.masked_paths(root=kernel)
    assert {name: covers(masks, name) for name in KEPT} == {name: [] for name in KEPT}


def test_no_link_is_masked(kernel) -> None:
    """A mask on a link would lie on what it leads to, perhaps twice."""
    assert not [mask for mask in masked_paths.masked_paths(root=kernel) if "cpufreq" in mask]


def test_the_engines_own_masks_are_kept(tmp_path) -> None:
    """A list of ours takes the place of the engine's: what engines mask stays masked, also where nothing is found."""
    assert set(masked_paths.masked_paths(root=tmp_path)) >= masked_paths.ALWAYS_MASKED


def test_no_group_of_version_2_shows_pressure(tmp_path) -> None:
    """Every such file that Linux 6.18 has in a group; not all kernels have all of them, and none is looked for here."""
    names = ("cgroup", "cpu", "io", "irq", "memory")
    masks = masked_paths.masked_paths(root=tmp_path)
    assert [name for name in names if f"/sys/fs/cgroup/{name}.pressure" not in masks] == []


def test_no_mask_lies_below_another(kernel) -> None:
    """What is hidden with its folder is not named again: the path would be looked for in an empty folder."""
    masks = masked_paths.masked_paths(root=kernel)
    assert not [mask for mask in masks for other in masks if mask.startswith(f"{other}/")]


def test_a_player_with_a_gpu_sees_the_drivers_folder_and_no_counter_more(kernel) -> None:
    """CUDA finds the device without /sys, where block devices and modules have counters of the whole machine."""
    for name in ("proc/driver/nvidia/version", "proc/modules", "sys/module/nvidia/refcnt", "sys/bus/pci/devices"):
        (kernel / name).parent.mkdir(parents=True, exist_ok=True)
        (kernel / name).touch()
    without, with_gpu = (masked_paths.masked_paths(gpu=gpu, root=kernel) for gpu in (False, True))
    assert set(without) - set(with_gpu) == {"/proc/driver"}
    assert set(with_gpu) <= set(without)
    assert {"/proc/modules", "/sys/bus", "/sys/module", "/sys/devices/pci0000:00"} <= set(with_gpu)
