"""What sparring/runner is made of: exact versions of sparring's own requirements, and scripts for any POSIX shell."""

import os
import re
import select
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "images" / "runner"
IMAGE = "sparring/runner:cpu"
SHELL = ROOT / "build" / "images" / "shell" / "sh"
"""Made by images/build.sh."""


def spelt(name: str) -> str:
    """Returns a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    """Returns the versions that the lock file names."""
    lines = (RUNNER / "requirements.lock").read_text().splitlines()
    return {spelt(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))}


def test_the_lock_holds_what_sparring_requires():
    """Each requirement of the package is named in a version that fits, and nothing of the extras is there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = locked()
    for line in project["dependencies"]:
        needed = Requirement(line)
        assert needed.specifier.contains(versions[spelt(needed.name)]), line
    assert not {"torch", "scikit-learn", "pyarrow"} & set(versions)


@pytest.mark.parametrize("script", ["prepare", "play"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_scripts_are_posix(script, shell):
    """Both scripts are read by any shell without a complaint."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    done = subprocess.run([shell, "-n", str(RUNNER / script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_prepare_makes_what_only_its_user_may_change(tmp_path):
    """Others may read `ctl` and `in` and write the rest; nobody may read the shell."""
    here = tmp_path / "runner"
    here.mkdir()
    for name in ("prepare", "play"):
        shutil.copy(RUNNER / name, here)
    (here / "sh").write_bytes(b"\x7fELF")
    (tmp_path / "io").mkdir()
    made = tmp_path / "io" / "fifos"
    subprocess.run(["sh", str(here / "prepare"), str(made)], check=True)
    modes = {path.name: f"{path.stat().st_mode:o}" for path in made.iterdir()}
    assert modes == {
        "ctl": "10644",
        "in": "10644",
        "out": "10622",
        "err": "10622",
        "end": "10622",
        "sh": "100111",
        "play": "100444",
        "closed": "40700",
    }
    assert (made / "closed" / "message").read_bytes() == b""


def test_prepare_makes_a_folder_of_its_own(tmp_path):
    """A kubelet mounts a volume in memory as anybody's, with the sticky bit.

    There fs.protected_fifos refuses a player's shell, which opens FIFOs of the driver's user to write as shells do:
    with O_CREAT. So what `prepare` makes is no such folder, whatever the umask.
    """
    for name in ("prepare", "play", "sh"):
        (tmp_path / name).write_bytes((RUNNER / name).read_bytes() if name != "sh" else b"\x7fELF")
    (tmp_path / "io").mkdir()
    (tmp_path / "io").chmod(0o1777)
    made = tmp_path / "io" / "fifos"
    words = ["sh", "-c", 'umask 077; sh "$0" "$1" 555', str(tmp_path / "prepare"), str(made)]
    subprocess.run(words, check=True)
    assert f"{made.stat().st_mode:o}" == "40755"
    assert f"{(made / 'sh').stat().st_mode:o}" == "100555"


ORPHANS = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & sleep 100 & sleep 100 & done; sleep 100"


@pytest.mark.slow
@pytest.mark.parametrize(("command", "lets_go", "status"), [(ORPHANS, True, 137), (f"{ORPHANS} & exit 3", False, 3)])
def test_a_players_container_ends_with_the_players_status(require, tmp_path, command, lets_go, status):
    """Not with that of a signal which tells of another child's end: an operator reads it, and so do failure policies.

    Which child ends first is chance, so it is done several times.
    """
    if os.geteuid() != 0 or not SHELL.exists() or shutil.which("unshare") is None:
        require("docker", f"a process 1 needs root, unshare and {SHELL} (images/build.sh images/runner)")
    for turn in range(8):
        assert played(tmp_path / str(turn), command, lets_go=lets_go) == status


def played(folder: Path, command: str, *, lets_go: bool) -> int:
    """Returns what a container's first process ends with: after its player did, or after the driver let go of it."""
    folder.mkdir()
    for name in ("ctl", "in", "out", "err", "end"):
        os.mkfifo(folder / name)
    for path in (SHELL, RUNNER / "play"):
        shutil.copy(path, folder)
    words = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--", str(folder / "sh")]
    words += [str(folder / "play"), "100", "1000000", "100", "/bin/sh", "-c", command]
    container = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reading = {name: os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK) for name in ("out", "err", "end")}
    try:
        with (folder / "ctl").open("w") as ctl:
            ctl.write("word\n")
            ctl.flush()
            with (folder / "in").open("w"):
                heard(reading["end"], b"word here")
            if not lets_go:
                return container.wait(30)
            time.sleep(0.05)  # the player begins to start its children
        return container.wait(30)
    finally:
        container.kill()
        for handle in reading.values():
            os.close(handle)


def heard(handle: int, wanted: bytes) -> None:
    """Returns when these words were told."""
    told, until = b"", time.monotonic() + 30
    while wanted not in told:
        assert time.monotonic() < until, told
        if select.select([handle], [], [], 1)[0]:
            told += os.read(handle, 4096)


def present(require) -> None:
    """Requires the image."""
    words = ["docker", "image", "inspect", IMAGE]
    if shutil.which("docker") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        require("docker", f"there is no {IMAGE}: make images")


@pytest.mark.docker
def test_the_image_is_small_and_plain(require):
    """It has no PyTorch and no scikit-learn, runs as a user of its own, is below 550 MB, and starts the command."""
    present(require)
    words = ["docker", "image", "inspect", "-f", "{{.Config.User}} {{.Size}}", IMAGE]
    user, size = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert user == "10002:10002"
    assert int(size) < 550_000_000  # a seventh of it is byte code
    alone = ["docker", "run", "--rm", "--network", "none", "--read-only"]
    shown = subprocess.run([*alone, IMAGE, "--help"], capture_output=True, text=True, check=True)
    assert "Usage" in shown.stdout
    program = ["-c", "import importlib.util as u; print(u.find_spec('torch'), u.find_spec('sklearn'))"]
    found = subprocess.run(
        [*alone, "--entrypoint", "python3", IMAGE, *program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "None None\n"


UNCOMPILED = """
import os, sys
from importlib.util import cache_from_source
import orchestrator.cli.app, orchestrator.application.rounds.pod_driver
files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
print(sorted(file for file in files if file.endswith(".py") and not os.path.exists(cache_from_source(file))))
"""


@pytest.mark.docker
def test_the_image_has_byte_code_of_all_that_a_driver_imports(require):
    """Its root is read-only: what is not compiled in the image is compiled again by every driver."""
    present(require)
    words = ["docker", "run", "--rm", "--network", "none", "--read-only", "--entrypoint", "python3", IMAGE]
    found = subprocess.run([*words, "-c", UNCOMPILED], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
